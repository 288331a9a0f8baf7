// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/tree_reader.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "libuhsfs/volume.hpp"

namespace uhsfs {

const uhsfs_tree_ops *TreeReader::ops() {
    static constexpr uhsfs_tree_ops operations = {
        .read = TreeReader::read,
        .alloc = [](void *, unsigned long long *, uhsfs_tree_node **) { return -EROFS; },
        .free = [](void *, unsigned long long) {},
        .fresh = [](void *, unsigned long long) { return false; },
    };

    return &operations;
}

int TreeReader::read(void *ctx, unsigned long long block, uhsfs_tree_node **node) {
    auto *self = static_cast<TreeReader *>(ctx);
    const auto known = self->inner_.find(block);

    if (known != self->inner_.end()) {
        *node = reinterpret_cast<uhsfs_tree_node *>(known->second.data());
        return 0;
    }
    AlignedBuffer buffer(block_size);
    const auto read = self->device_.read(block, buffer.span());
    if (!read) {
        self->failed_ = read.error();
        return -read.error().code;
    }
    *node = reinterpret_cast<uhsfs_tree_node *>(buffer.data());
    // A node that lies about its level is refused at once.
    if ((*node)->level != 0)
        self->inner_.emplace(block, std::move(buffer));
    else
        self->leaf_.at(self->next_++ % leaves) = std::move(buffer);
    return 0;
}

Error TreeReader::error(std::string_view what, int err, const uhsfs_fault &fault) const {
    if (err == -EUCLEAN) {
        Error error = fault_error(device_.path(), fault);
        error.message = fmt::format("{}: {}", what, error.message);
        return error;
    }
    if (failed_)
        return *failed_;
    return {.code = -err, .object = device_.path(), .message = std::string(what), .hint = {}};
}

}  // namespace uhsfs
