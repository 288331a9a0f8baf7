/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Nodes of extent and names trees for the core, read from a device.
 */
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "libuhsfs/core.hpp"
#include "libuhsfs/device.hpp"

namespace uhsfs {

// The ctx of uhsfs_tree_ops for lookups and walks, which change nothing: it allocates no
// blocks. It keeps inner nodes, and of the leaves, of which there are a hundred times more,
// the newest few: neither looks at more than one at a time.
class TreeReader {
public:
    explicit TreeReader(const Device &device) : device_(device) {}
    static const uhsfs_tree_ops *ops();

    // What a walk that returned err failed of.
    [[nodiscard]] Error error(std::string_view what, int err, const uhsfs_fault &fault) const;

private:
    static int read(void *ctx, unsigned long long block, uhsfs_tree_node **node);

    const Device &device_;
    std::map<std::uint64_t, AlignedBuffer> inner_;
    static constexpr std::size_t leaves = 4;
    std::array<AlignedBuffer, leaves> leaf_;
    std::size_t next_ = 0;
    std::optional<Error> failed_;
};

}  // namespace uhsfs
