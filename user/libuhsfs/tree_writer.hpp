/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Nodes of a new tree for the core: in memory until write() puts them on the device.
 */
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "libuhsfs/builder.hpp"

namespace uhsfs {

// The ctx of uhsfs_tree_ops for building.
class TreeWriter {
public:
    explicit TreeWriter(Builder &builder) : builder_(builder) {}
    static const uhsfs_tree_ops *ops();

    [[nodiscard]] std::uint64_t blocks() const { return nodes_.size(); }
    Result<void> write();

private:
    static int read(void *ctx, unsigned long long block, uhsfs_tree_node **node);
    static int alloc(void *ctx, unsigned long long *block, uhsfs_tree_node **node);
    static void free(void *ctx, unsigned long long block);
    static bool fresh(void *ctx, unsigned long long block);

    Builder &builder_;
    std::map<std::uint64_t, std::unique_ptr<uhsfs_tree_node>> nodes_;
    // A node stays readable until the operation ends, which for us is the tree's end.
    std::vector<std::unique_ptr<uhsfs_tree_node>> freed_;
};

}  // namespace uhsfs
