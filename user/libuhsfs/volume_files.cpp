// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Volumes: contents of files and directories.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libuhsfs/tree_reader.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs {

// ---- extents -------------------------------------------------------------------------------

namespace {

struct ExtentSink {
    std::vector<uhsfs_ext> extents;
    const BlockVisitor *nodes;
};

int extent_node(void *ctx, unsigned long long block) {
    const auto *sink = static_cast<ExtentSink *>(ctx);

    if (*sink->nodes)
        (*sink->nodes)(block);
    return 0;
}

int extent_found(void *ctx, const uhsfs_ext *ext) {
    static_cast<ExtentSink *>(ctx)->extents.push_back(*ext);
    return 0;
}

std::string inode_text(const Inode &inode) { return fmt::format("inode {}", inode.ino()); }

}  // namespace

Result<std::vector<uhsfs_ext>> Volume::extents(const Inode &inode,
                                               const BlockVisitor &nodes) const {
    const uhsfs_slot_view &view = inode.view();
    ExtentSink sink{.extents = {}, .nodes = &nodes};

    if (const auto *list = static_cast<const uhsfs_extent *>(view.value[UHSFS_TLV_EXTENTS])) {
        const std::size_t count = view.len[UHSFS_TLV_EXTENTS] / sizeof(*list);
        for (std::size_t i = 0; i < count; i++) {
            uhsfs_ext ext = {};
            uhsfs_extent_decode(&list[i], &ext);
            sink.extents.push_back(ext);
        }
    }
    if (const auto *root =
            static_cast<const uhsfs_extent_root *>(view.value[UHSFS_TLV_EXTENT_ROOT])) {
        TreeReader reader(device_);
        uhsfs_etree tree = {};
        const uhsfs_etree_visitor visitor = {
            .node = extent_node, .extent = extent_found, .damaged = nullptr, .ctx = &sink};
        unsigned long long count = 0;

        uhsfs_etree_init(&tree, &geo(), TreeReader::ops(), &reader, inode.ino(),
                         inode.attr().generation, inode.is_dir(), root);
        const int err = uhsfs_etree_check(&tree, &visitor, &count);
        if (err != 0)
            return tl::make_unexpected(reader.error(inode_text(inode), err, tree.tree.fault));
        if (count != tree.tree.count)
            return fail(EUCLEAN, path(),
                        fmt::format("inode {}: the extent tree has {} extents, its root says {}",
                                    inode.ino(), count, le64_to_cpu(root->count)));
    }
    return std::move(sink.extents);
}

Result<std::size_t> Volume::read(const Inode &inode, std::uint64_t offset, MutableBytes to) const {
    const uhsfs_slot_view &view = inode.view();
    const std::uint64_t size = inode.attr().size;

    if (offset >= size || to.empty())
        return std::size_t{0};
    to = to.first(std::min<std::uint64_t>(to.size(), size - offset));
    if (const void *data = view.value[UHSFS_TLV_INLINE]) {
        std::memcpy(to.data(), static_cast<const std::uint8_t *>(data) + offset, to.size());
        return to.size();
    }
    std::memset(to.data(), 0, to.size());
    const std::uint64_t end = offset + to.size();
    constexpr std::uint64_t largest = 256;
    const std::uint64_t step =
        std::min<std::uint64_t>(largest, (end + block_size - 1) / block_size - offset / block_size);
    AlignedBuffer buffer;
    for (const uhsfs_ext &ext : UHSFS_TRY(extents(inode))) {
        if ((ext.flags & UHSFS_EXT_UNWRITTEN) != 0 || uhsfs_ext_end(&ext) <= offset / block_size)
            continue;
        if (ext.logical * block_size >= end)
            break;
        const std::uint64_t first = std::max<std::uint64_t>(ext.logical, offset / block_size);
        const std::uint64_t last =
            std::min<std::uint64_t>(uhsfs_ext_end(&ext), (end + block_size - 1) / block_size);
        for (std::uint64_t at = first; at < last; at += step) {
            const std::uint64_t n = std::min(step, last - at);
            if (buffer.size() == 0)
                buffer = AlignedBuffer(step * block_size);
            UHSFS_TRY(device_.read(ext.physical + (at - ext.logical),
                                   buffer.span().first(n * block_size)));
            const std::uint64_t from = std::max(offset, at * block_size);
            const std::uint64_t until = std::min(end, (at + n) * block_size);
            std::memcpy(to.data() + (from - offset), buffer.data() + (from - at * block_size),
                        until - from);
        }
    }
    return to.size();
}

Result<std::string> Volume::readlink(const Inode &inode) const {
    if (!uhsfs_is_lnk(inode.attr().mode))
        return fail(EINVAL, path(), fmt::format("inode {} is no symlink", inode.ino()));
    std::string target(inode.attr().size, '\0');
    const std::size_t got =
        UHSFS_TRY(read(inode, 0, {reinterpret_cast<std::uint8_t *>(target.data()), target.size()}));
    target.resize(got);
    if (target.find('\0') != std::string::npos)
        return fail(EUCLEAN, path(),
                    fmt::format("inode {}: the target of the symlink has a NUL", inode.ino()));
    return target;
}

// ---- directories ---------------------------------------------------------------------------

Result<uhsfs_dir_info> Volume::dir_info(const Inode &dir) const {
    uhsfs_dir_info info = {};
    uhsfs_fault fault = {};
    const void *root = dir.view().value[UHSFS_TLV_DIR];

    if (!dir.is_dir() || root == nullptr)
        return fail(ENOTDIR, path(), fmt::format("inode {} is no directory", dir.ino()));
    if (uhsfs_dir_root_decode(root, dir.view().len[UHSFS_TLV_DIR], dir.ino(), &info, &fault) != 0)
        return tl::make_unexpected(fault_error(path(), fault));
    return info;
}

namespace {

// Device block of a directory's logical block, 0 if it is a hole or unwritten.
std::uint64_t bucket_home(const std::vector<uhsfs_ext> &extents, std::uint64_t logical,
                          unsigned homes) {
    const auto next = std::ranges::upper_bound(extents, logical, {}, &uhsfs_ext::logical);

    if (next == extents.begin())
        return 0;
    const uhsfs_ext &ext = *std::prev(next);
    if (logical - ext.logical >= ext.len || (ext.flags & UHSFS_EXT_UNWRITTEN) != 0)
        return 0;
    return ext.physical + (logical - ext.logical) * homes;
}

}  // namespace

Result<std::vector<BucketBlock>> Volume::bucket_chain(const Inode &dir, const uhsfs_dir_info &info,
                                                      const std::vector<uhsfs_ext> &extents,
                                                      std::uint32_t bucket) const {
    std::vector<BucketBlock> chain;
    std::uint64_t logical = bucket;
    uhsfs_bucket_at at = {.block = 0,
                          .dir_ino = dir.ino(),
                          .dir_gen = dir.attr().generation,
                          .bucket = bucket,
                          .position = 0,
                          .overflow = info.overflow};

    do {
        const std::uint64_t home = bucket_home(extents, logical, geo().homes);
        BucketBlock block;
        if (home == 0)
            return fail(EUCLEAN, path(),
                        fmt::format("directory {}: no block is mapped for logical block {:#x} of "
                                    "bucket {}",
                                    dir.ino(), logical, bucket));
        auto record = std::make_unique<uhsfs_bucket>();
        block.logical = logical;
        block.bucket.home =
            read_home(home,
                      [&](const std::uint8_t *image, std::uint64_t where, Copy &copy) {
                          const auto *b = reinterpret_cast<const uhsfs_bucket *>(image);
                          uhsfs_bucket_at here = at;
                          here.block = where;
                          copy.seq = le64_to_cpu(b->h.seq);
                          return uhsfs_bucket_check(b, &geo(), &here, &copy.fault);
                      },
                      {reinterpret_cast<std::uint8_t *>(record.get()), block_size});
        block.at = at;
        if (block.bucket.home.valid()) {
            block.at.block = block.bucket.home.chosen_block();
            logical = uhsfs_bucket_next(record.get(), &at);
            block.bucket.record = std::move(record);
        } else {
            logical = 0;
        }
        chain.push_back(std::move(block));
    } while (logical != 0);
    return chain;
}

namespace {

Result<void> take_entries(const BucketBlock &block, std::uint64_t first, std::uint64_t last,
                          std::string_view path, std::vector<DirEntry> &entries) {
    uhsfs_dirent e = {};

    if (!block.bucket)
        return tl::make_unexpected(block.bucket.home.error(path));
    for (std::uint32_t offset = 0; uhsfs_bucket_get(block.bucket.record.get(), offset, &e);
         offset += uhsfs_dirent_size(e.len)) {
        if (e.cookie < first || e.cookie > last)
            continue;  // left behind by a split
        entries.push_back({.cookie = e.cookie,
                           .ino = e.ino,
                           .gen = e.gen,
                           .type = e.type,
                           .name = std::string(reinterpret_cast<const char *>(e.name), e.len)});
    }
    return {};
}

}  // namespace

Result<std::vector<DirEntry>> Volume::entries(const Inode &dir) const {
    const uhsfs_dir_info info = UHSFS_TRY(dir_info(dir));
    const auto map = UHSFS_TRY(extents(dir));
    std::vector<DirEntry> entries;

    for (std::uint32_t bucket = 0; bucket < info.buckets; bucket++) {
        unsigned long long first = 0;
        unsigned long long last = 0;
        uhsfs_dir_range(bucket, info.buckets, &first, &last);
        for (const BucketBlock &block : UHSFS_TRY(bucket_chain(dir, info, map, bucket)))
            UHSFS_TRY(take_entries(block, first, last, path(), entries));
    }
    std::ranges::stable_sort(entries, {}, &DirEntry::cookie);
    return entries;
}

Result<bool> Volume::confirms(const Inode &inode, const Inode &dir, std::string_view name) const {
    for (const Name &own : UHSFS_TRY(names(inode)))
        if (own.parent_ino == dir.ino() && own.parent_gen == dir.attr().generation &&
            own.name == name)
            return true;
    return false;
}

Result<Inode> Volume::lookup(const Inode &dir, std::string_view name) const {
    const uhsfs_dir_info info = UHSFS_TRY(dir_info(dir));
    const auto *bytes = reinterpret_cast<const u8 *>(name.data());
    const std::string missing = fmt::format("no '{}' in directory {}", name, dir.ino());

    if (!uhsfs_name_legal(bytes, name.size()))
        return fail(ENOENT, path(), missing);
    const auto len = static_cast<std::uint8_t>(name.size());
    const std::uint64_t hash = uhsfs_dir_hash(&geo(), bytes, len);
    const auto map = UHSFS_TRY(extents(dir));
    const auto chain =
        UHSFS_TRY(bucket_chain(dir, info, map, uhsfs_dir_bucket(hash, info.buckets)));
    for (const BucketBlock &block : chain) {
        uhsfs_dirent e = {};
        if (!block.bucket)
            return tl::make_unexpected(block.bucket.home.error(path()));
        int at = uhsfs_bucket_find(block.bucket.record.get(), 0, hash, bytes, len);
        while (at >= 0) {
            uhsfs_bucket_get(block.bucket.record.get(), static_cast<u32>(at), &e);
            auto found = inode(e.ino);
            if (!found && found.error().code != ENOENT)
                return found;
            if (found && found->attr().generation == e.gen &&
                UHSFS_TRY(confirms(*found, dir, name)))
                return found;
            at = uhsfs_bucket_find(block.bucket.record.get(),
                                   static_cast<u32>(at) + uhsfs_dirent_size(e.len), hash, bytes,
                                   len);
        }
    }
    return fail(ENOENT, path(), missing);
}

Result<Inode> Volume::resolve(std::string_view where) const {
    Inode at = UHSFS_TRY(inode(UHSFS_INO_ROOT));

    while (!where.empty()) {
        const std::size_t slash = std::min(where.find('/'), where.size());
        const std::string_view name = where.substr(0, slash);
        if (!name.empty() && name != ".")
            at = UHSFS_TRY(lookup(at, name));
        where.remove_prefix(std::min(slash + 1, where.size()));
    }
    return at;
}

}  // namespace uhsfs
