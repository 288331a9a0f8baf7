// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/tree_writer.hpp"

#include <cerrno>
#include <utility>

namespace uhsfs {

const uhsfs_tree_ops *TreeWriter::ops() {
    static constexpr uhsfs_tree_ops operations = {.read = TreeWriter::read,
                                                  .alloc = TreeWriter::alloc,
                                                  .free = TreeWriter::free,
                                                  .fresh = TreeWriter::fresh};

    return &operations;
}

int TreeWriter::read(void *ctx, unsigned long long block, uhsfs_tree_node **node) {
    auto *self = static_cast<TreeWriter *>(ctx);
    const auto found = self->nodes_.find(block);

    if (found == self->nodes_.end())
        return -ENOENT;
    *node = found->second.get();
    return UHSFS_TREE_CHECKED;
}

int TreeWriter::alloc(void *ctx, unsigned long long *block, uhsfs_tree_node **node) {
    auto *self = static_cast<TreeWriter *>(ctx);
    const auto run = self->builder_.space_.contiguous(1);

    if (!run)
        return -ENOSPC;
    const auto [place, added] =
        self->nodes_.emplace(run->block, std::make_unique<uhsfs_tree_node>());
    *block = run->block;
    *node = place->second.get();
    return 0;
}

void TreeWriter::free(void *ctx, unsigned long long block) {
    auto *self = static_cast<TreeWriter *>(ctx);
    const auto found = self->nodes_.find(block);

    if (found == self->nodes_.end())
        return;
    self->freed_.push_back(std::move(found->second));
    self->nodes_.erase(found);
    self->builder_.space_.free({.block = block, .count = 1});
}

bool TreeWriter::fresh(void *ctx, unsigned long long block) {
    return static_cast<TreeWriter *>(ctx)->nodes_.contains(block);
}

Result<void> TreeWriter::write() {
    for (auto &[block, node] : nodes_) {
        uhsfs_tree_seal(node.get(), builder_.draw());
        UHSFS_TRY(builder_.write(
            block, {reinterpret_cast<const std::uint8_t *>(node.get()), sizeof(*node)}));
    }
    return {};
}

}  // namespace uhsfs
