// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Volumes: names and extended attributes of an inode.
 */
#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "libuhsfs/tree_reader.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs {

// ---- names ---------------------------------------------------------------------------------

namespace {

struct NameSink {
    std::vector<Name> names;
    const BlockVisitor *nodes;
};

Name name_of(const uhsfs_claim &claim) {
    return {.parent_ino = claim.parent_ino,
            .parent_gen = claim.parent_gen,
            .name_seq = claim.name_seq,
            .name = std::string(reinterpret_cast<const char *>(claim.name), claim.len)};
}

int names_node(void *ctx, unsigned long long block) {
    const auto *sink = static_cast<NameSink *>(ctx);

    if (*sink->nodes)
        (*sink->nodes)(block);
    return 0;
}

int name_found(void *ctx, const uhsfs_claim *claim) {
    static_cast<NameSink *>(ctx)->names.push_back(name_of(*claim));
    return 0;
}

}  // namespace

Result<std::vector<Name>> Volume::names(const Inode &inode, const BlockVisitor &nodes) const {
    const uhsfs_slot_view &view = inode.view();
    NameSink sink{.names = {}, .nodes = &nodes};

    if (const auto *first = static_cast<const uhsfs_name *>(view.value[UHSFS_TLV_NAME])) {
        uhsfs_claim claim = {};
        uhsfs_name_decode(first, &claim);
        sink.names.push_back(name_of(claim));
    }
    if (const auto *root =
            static_cast<const struct uhsfs_names_root *>(view.value[UHSFS_TLV_NAMES])) {
        TreeReader reader(device_);
        uhsfs_names tree = {};
        const uhsfs_names_visitor visitor = {
            .node = names_node, .name = name_found, .damaged = nullptr, .ctx = &sink};
        unsigned long long count = 0;

        uhsfs_names_init(&tree, &geo(), TreeReader::ops(), &reader, inode.ino(),
                         inode.attr().generation, root);
        const int err = uhsfs_names_walk(&tree, &visitor, &count);
        if (err != 0)
            return tl::make_unexpected(
                reader.error(fmt::format("inode {}", inode.ino()), err, tree.tree.fault));
        if (count != tree.tree.count)
            return fail(EUCLEAN, path(),
                        fmt::format("inode {}: the names tree has {} names, its root says {}",
                                    inode.ino(), count, tree.tree.count));
    }
    return std::move(sink.names);
}

// ---- extended attributes -------------------------------------------------------------------

std::string Xattr::full_name() const {
    switch (space) {
        case UHSFS_XATTR_USER:
            return "user." + name;
        case UHSFS_XATTR_TRUSTED:
            return "trusted." + name;
        case UHSFS_XATTR_SECURITY:
            return "security." + name;
        case UHSFS_XATTR_ACL_ACCESS:
            return "system.posix_acl_access";
        case UHSFS_XATTR_ACL_DEFAULT:
            return "system.posix_acl_default";
        default:
            return fmt::format("{}.{}", space, name);
    }
}

namespace {

using Stream = std::vector<std::uint8_t>;

// The stream of attributes that stands in blocks.
class StreamReader {
public:
    StreamReader(const Device &device, const uhsfs_geometry &geo, const Inode &inode,
                 const BlockVisitor &nodes)
        : device_(device),
          geo_(geo),
          owner_{.ino = inode.ino(), .gen = inode.attr().generation},
          nodes_(nodes) {}

    Result<Stream> read(const uhsfs_xattr_place &place) {
        const std::uint32_t count = uhsfs_xattr_data_blocks(place.bytes);
        Stream stream(place.bytes);
        uhsfs_xattr_block index = {};

        if (place.depth > 1) {
            UHSFS_TRY(block(place.block, index));
            if (uhsfs_xattr_index_check(&index, &geo_, &owner_, place.block, place.bytes,
                                        &fault_) != 0)
                return damaged();
        }
        for (std::uint32_t i = 0; i < count; i++) {
            const std::uint64_t at =
                place.depth > 1 ? uhsfs_xattr_index_get(&index, i) : place.block;
            uhsfs_xattr_block data = {};
            UHSFS_TRY(block(at, data));
            if (uhsfs_xattr_data_check(&data, &geo_, &owner_, at, place.bytes, i, &fault_) != 0)
                return damaged();
            uhsfs_xattr_collect(stream.data(), place.bytes, i, &data);
        }
        if (uhsfs_xattr_check(stream.data(), place.bytes, "xattrs", owner_.ino, &fault_) != 0)
            return damaged();
        return stream;
    }

private:
    Result<void> block(std::uint64_t at, uhsfs_xattr_block &to) {
        if (nodes_)
            nodes_(at);
        return device_.read(at, {reinterpret_cast<std::uint8_t *>(&to), sizeof(to)});
    }

    [[nodiscard]] tl::unexpected<Error> damaged() const {
        return tl::make_unexpected(fault_error(device_.path(), fault_));
    }

    const Device &device_;
    const uhsfs_geometry &geo_;
    const uhsfs_xattr_owner owner_;
    const BlockVisitor &nodes_;
    uhsfs_fault fault_ = {};
};

std::vector<Xattr> split_stream(const std::uint8_t *stream, std::uint32_t bytes) {
    std::vector<Xattr> xattrs;
    uhsfs_xattr_item item = {};
    std::uint32_t at = 0;

    while (uhsfs_xattr_next(stream, bytes, &at, &item))
        xattrs.push_back(
            {.space = item.space,
             .name = std::string(reinterpret_cast<const char *>(item.name), item.name_len),
             .value = {item.value, item.value + item.value_len}});
    return xattrs;
}

}  // namespace

Result<std::vector<Xattr>> Volume::xattrs(const Inode &inode, const BlockVisitor &nodes) const {
    const uhsfs_slot_view &view = inode.view();

    if (const void *stream = view.value[UHSFS_TLV_XATTRS])
        return split_stream(static_cast<const std::uint8_t *>(stream), view.len[UHSFS_TLV_XATTRS]);
    const void *root = view.value[UHSFS_TLV_XATTR_ROOT];
    if (root == nullptr)
        return std::vector<Xattr>();
    uhsfs_xattr_place place = {};
    uhsfs_fault fault = {};
    if (uhsfs_xattr_root_decode(root, view.len[UHSFS_TLV_XATTR_ROOT], &geo(), inode.ino(), &place,
                                &fault) != 0)
        return tl::make_unexpected(fault_error(path(), fault));
    const Stream stream = UHSFS_TRY(StreamReader(device_, geo(), inode, nodes).read(place));
    return split_stream(stream.data(), place.bytes);
}

}  // namespace uhsfs
