// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Builder: from an inode to its slot, and to the blocks that hold what the slot cannot.
 *
 * Attributes stay in the slot if at least the root of the content fits beside them; then
 * extents and data get the room that is left, else a tree or a block.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libuhsfs/builder.hpp"
#include "libuhsfs/tree_writer.hpp"

namespace uhsfs {

namespace {

using Stream = std::vector<std::uint8_t>;
using NamesRoot = struct uhsfs_names_root;

// What a slot keeps free for the content if attributes want the rest: one extent or the
// root of a tree of them.
constexpr std::uint32_t content_least =
    sizeof(uhsfs_tlv) + std::max(sizeof(uhsfs_extent), sizeof(uhsfs_extent_root));

std::uint32_t name_size(const Name &name) {
    return uhsfs_tlv_size(static_cast<std::uint32_t>(sizeof(uhsfs_name) + name.name.size()));
}

std::uint32_t stream_size(const std::vector<Xattr> &xattrs) {
    std::uint64_t size = 0;

    for (const Xattr &xattr : xattrs)
        size += uhsfs_xattr_size(static_cast<std::uint8_t>(xattr.name.size()),
                                 static_cast<std::uint32_t>(xattr.value.size()));
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, UINT32_MAX));
}

// Bytes of a slot that are left after everything but attributes and content.
std::uint32_t slot_left(const uhsfs_geometry &geo, const NewInode &inode, bool links) {
    std::uint32_t left = geo.slot_size - UHSFS_SLOT_HEADER;

    if (!inode.names.empty())
        left -= name_size(inode.names.front());
    if (links)
        left -= uhsfs_tlv_size(sizeof(NamesRoot));
    if (inode.directory)
        left -= uhsfs_tlv_size(sizeof(uhsfs_dir_root));
    if (inode.device)
        left -= uhsfs_tlv_size(sizeof(uhsfs_device));
    return left;
}

bool xattrs_fit(std::uint32_t left, std::uint32_t stream) {
    return stream == 0 ||
           (stream <= UHSFS_SLOT_SIZE_MAX && uhsfs_tlv_size(stream) + content_least <= left);
}

Result<Stream> build_stream(const NewInode &inode) {
    const std::uint32_t size = stream_size(inode.xattrs);
    Stream stream(std::min<std::uint32_t>(size, UHSFS_XATTR_BYTES_MAX));
    std::uint32_t used = 0;

    for (const Xattr &xattr : inode.xattrs) {
        const uhsfs_xattr_item item = {.space = xattr.space,
                                       .name_len = static_cast<std::uint8_t>(xattr.name.size()),
                                       .value_len = static_cast<std::uint32_t>(xattr.value.size()),
                                       .name = reinterpret_cast<const u8 *>(xattr.name.data()),
                                       .value = xattr.value.data()};
        const int err =
            xattr.name.size() > UHSFS_NAME_LEN
                ? -EINVAL
                : uhsfs_xattr_set(stream.data(), &used, static_cast<std::uint32_t>(stream.size()),
                                  &item, UHSFS_XATTR_CREATE);
        if (err == -ENOSPC)
            return fail(E2BIG, xattr.full_name(),
                        fmt::format("all attributes together take {} bytes, {} are possible", size,
                                    UHSFS_XATTR_BYTES_MAX));
        if (err != 0)
            return fail(-err, xattr.full_name(),
                        fmt::format("cannot store this attribute of {} bytes", xattr.value.size()));
    }
    stream.resize(used);
    return stream;
}

uhsfs_attr attributes(const NewInode &inode, const uhsfs_super_info &info) {
    uhsfs_attr attr = {};

    attr.ino = inode.id.ino;
    attr.generation = inode.id.generation;
    attr.state = UHSFS_SLOT_INODE;
    attr.mode = inode.mode;
    attr.nlink = static_cast<std::uint32_t>(inode.names.size());
    attr.uid = inode.uid;
    attr.gid = inode.gid;
    attr.size = inode.data.empty() ? inode.size : inode.data.size();
    attr.blocks = inode.blocks;
    attr.atime = inode.atime;
    attr.mtime = inode.mtime;
    attr.ctime = inode.ctime;
    attr.btime = info.made_ns;
    attr.version = 1;
    attr.name_seq_max = inode.names.empty() ? 0 : inode.names.back().name_seq;
    return attr;
}

uhsfs_claim claim_of(const Name &name) {
    return {.parent_ino = name.parent_ino,
            .parent_gen = name.parent_gen,
            .len = static_cast<std::uint32_t>(name.name.size()),
            .name_seq = name.name_seq,
            .name = reinterpret_cast<const u8 *>(name.name.data())};
}

std::vector<uhsfs_extent> encode(const std::vector<uhsfs_ext> &extents) {
    std::vector<uhsfs_extent> raw(extents.size());

    for (std::size_t i = 0; i < extents.size(); i++)
        uhsfs_extent_encode(&extents[i], &raw[i]);
    return raw;
}

}  // namespace

// ---- content -------------------------------------------------------------------------------

std::size_t Builder::inline_room(const NewInode &inode, bool links) const {
    const std::uint32_t left = slot_left(geo(), inode, links);
    const std::uint32_t stream = stream_size(inode.xattrs);
    // XATTRS or XATTR_ROOT
    std::uint32_t taken = 0;

    if (stream > 0)
        taken = uhsfs_tlv_size(xattrs_fit(left, stream) ? stream : sizeof(uhsfs_xattr_root));
    const std::uint32_t room = left - taken;
    // Values are padded to 8 bytes, and what is left is a multiple of 8.
    return room > sizeof(uhsfs_tlv) ? room - sizeof(uhsfs_tlv) : 0;
}

Result<Run> Builder::extend(NewInode &inode, std::uint64_t logical, std::uint64_t count,
                            bool large) {
    const auto run = space_.some(large ? Zone::large : Zone::small, count);

    if (!run)
        return no_space(count);
    inode.blocks += run->count;
    if (!inode.extents.empty()) {
        uhsfs_ext &last = inode.extents.back();
        if (uhsfs_ext_end(&last) == logical && last.physical + last.len == run->block &&
            run->count <= UHSFS_EXTENT_MAX_LEN - last.len) {
            last.len += run->count;
            return *run;
        }
    }
    inode.extents.push_back({.logical = logical,
                             .physical = run->block,
                             .len = run->count,
                             .birth = uhsfs_seq_epoch(seq_),
                             .flags = 0});
    return *run;
}

Result<void> Builder::set_content(NewInode &inode, Bytes content, bool links) {
    const std::uint64_t count = (content.size() + block_size - 1) / block_size;

    inode.size = content.size();
    if (content.size() <= inline_room(inode, links)) {
        inode.data.assign(content.begin(), content.end());
        return {};
    }
    AlignedBuffer blocks(count * block_size);
    std::memcpy(blocks.data(), content.data(), content.size());
    for (std::uint64_t at = 0; at < count;) {
        const Run run = UHSFS_TRY(extend(inode, at, count - at, false));
        UHSFS_TRY(write(run.block, blocks.span().subspan(at * block_size,
                                                         std::size_t{run.count} * block_size)));
        at += run.count;
    }
    return {};
}

// ---- spills --------------------------------------------------------------------------------

Result<void> Builder::put_xattr_blocks(NewInode &inode, const Stream &stream,
                                       uhsfs_xattr_root &root) {
    const uhsfs_xattr_owner owner = {.ino = inode.id.ino, .gen = inode.id.generation};
    const auto bytes = static_cast<std::uint32_t>(stream.size());
    const std::uint32_t count = uhsfs_xattr_data_blocks(bytes);
    std::vector<unsigned long long> places(count + (count > 1 ? 1 : 0));
    auto block = std::make_unique<uhsfs_xattr_block>();
    const Bytes image = {reinterpret_cast<const std::uint8_t *>(block.get()), sizeof(*block)};

    for (auto &place : places) {
        const auto run = space_.contiguous(1);
        if (!run)
            return no_space(places.size());
        place = run->block;
    }
    for (std::uint32_t i = 0; i < count; i++) {
        uhsfs_xattr_build(block.get(), &geo(), &owner, places[i], draw(), stream.data(), bytes, i);
        UHSFS_TRY(write(places[i], image));
    }
    if (count > 1) {
        uhsfs_xattr_build_index(block.get(), &geo(), &owner, places.back(), draw(), places.data(),
                                count);
        UHSFS_TRY(write(places.back(), image));
    }
    inode.blocks += places.size();
    uhsfs_xattr_root_encode(&root, places.back(), bytes);
    return {};
}

// All names but the first.
Result<void> Builder::put_names(NewInode &inode, NamesRoot &root) {
    std::vector<uhsfs_claim> claims;
    TreeWriter writer(*this);
    struct uhsfs_names tree = {};

    for (std::size_t i = 1; i < inode.names.size(); i++)
        claims.push_back(claim_of(inode.names[i]));
    std::ranges::sort(claims, [this](const uhsfs_claim &a, const uhsfs_claim &b) {
        return uhsfs_names_compare(&geo(), &a, &b) < 0;
    });
    uhsfs_names_init(&tree, &geo(), TreeWriter::ops(), &writer, inode.id.ino, inode.id.generation,
                     nullptr);
    const int err = uhsfs_names_load(&tree, claims.data(), claims.size());
    if (err != 0)
        return core_error("names tree", inode.id.ino, err, tree.tree.fault);
    uhsfs_tree_release(&tree.tree, 0);
    inode.blocks += writer.blocks();
    uhsfs_names_put_root(&tree, &root);
    return writer.write();
}

Result<void> Builder::put_extent_tree(NewInode &inode, uhsfs_extent_root &root) {
    const std::vector<uhsfs_extent> raw = encode(inode.extents);
    TreeWriter writer(*this);
    uhsfs_etree tree = {};

    uhsfs_etree_init(&tree, &geo(), TreeWriter::ops(), &writer, inode.id.ino, inode.id.generation,
                     inode.directory.has_value(), nullptr);
    const int err = uhsfs_etree_load(&tree, raw.data(), raw.size());
    if (err != 0)
        return core_error("extent tree", inode.id.ino, err, tree.tree.fault);
    uhsfs_tree_release(&tree.tree, 0);
    inode.blocks += writer.blocks();
    uhsfs_etree_put_root(&tree, &root);
    return writer.write();
}

// ---- the slot ------------------------------------------------------------------------------

Result<void> Builder::build_slot(NewInode &inode, const Chunk &, std::uint8_t *slot) {
    const bool links = inode.names.size() > 1;
    const Stream stream = UHSFS_TRY(build_stream(inode));
    const bool spill_xattrs =
        !xattrs_fit(slot_left(geo(), inode, links), static_cast<std::uint32_t>(stream.size()));
    const std::size_t list = inode.extents.size() * sizeof(uhsfs_extent);
    const bool spill_extents = list > inline_room(inode, links);
    NamesRoot names_root = {};
    uhsfs_xattr_root xattr_root = {};
    uhsfs_extent_root extent_root = {};
    uhsfs_slot_builder builder = {};
    bool ok = true;

    for (Name &name : inode.names)
        name.name_seq = draw();
    // Before the attributes: these count the blocks of all of them.
    if (links)
        UHSFS_TRY(put_names(inode, names_root));
    if (spill_xattrs)
        UHSFS_TRY(put_xattr_blocks(inode, stream, xattr_root));
    if (spill_extents)
        UHSFS_TRY(put_extent_tree(inode, extent_root));
    uhsfs_attr attr = attributes(inode, info_);
    attr.nonce = table_[uhsfs_ino_chunk(&geo(), inode.id.ino)].nonce;
    attr.seq = draw();
    uhsfs_slot_begin(&builder, &geo(), slot, &attr);
    const auto put = [&](std::uint16_t type, const void *value, std::size_t len) {
        ok = ok && uhsfs_slot_put(&builder, type, value, static_cast<std::uint32_t>(len)) == 0;
    };
    if (!inode.names.empty()) {
        const uhsfs_claim claim = claim_of(inode.names.front());
        void *name = uhsfs_slot_reserve(&builder, UHSFS_TLV_NAME,
                                        static_cast<u32>(sizeof(uhsfs_name)) + claim.len);
        ok = name != nullptr;
        if (ok)
            uhsfs_name_encode(&claim, static_cast<uhsfs_name *>(name));
    }
    if (links)
        put(UHSFS_TLV_NAMES, &names_root, sizeof(names_root));
    if (inode.directory) {
        uhsfs_dir_root root = {};
        uhsfs_dir_root_encode(&root, &*inode.directory);
        put(UHSFS_TLV_DIR, &root, sizeof(root));
    }
    if (inode.device) {
        const uhsfs_device device = {.major = cpu_to_le32(inode.device->first),
                                     .minor = cpu_to_le32(inode.device->second)};
        put(UHSFS_TLV_DEVICE, &device, sizeof(device));
    }
    if (spill_xattrs)
        put(UHSFS_TLV_XATTR_ROOT, &xattr_root, sizeof(xattr_root));
    else if (!stream.empty())
        put(UHSFS_TLV_XATTRS, stream.data(), stream.size());
    if (!inode.data.empty())
        put(UHSFS_TLV_INLINE, inode.data.data(), inode.data.size());
    if (spill_extents)
        put(UHSFS_TLV_EXTENT_ROOT, &extent_root, sizeof(extent_root));
    else if (!inode.extents.empty())
        put(UHSFS_TLV_EXTENTS, encode(inode.extents).data(), list);
    if (!ok)
        return fail(E2BIG, fmt::format("inode {}", inode.id.ino),
                    "its names, attributes and contents do not fit its slot");
    uhsfs_slot_finish(&builder);
    return {};
}

}  // namespace uhsfs
