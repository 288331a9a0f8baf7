// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Builder: the index of a directory, in one go.
 *
 * The number of buckets follows from the size of the entries. Then the entries, sorted by
 * bucket and cookie, are packed twice: first only counted, to know how many overflow blocks
 * there will be and get space for all of them at once, then written.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libuhsfs/builder.hpp"

namespace uhsfs {

namespace {

// How full buckets are on average, in percent.
constexpr std::uint64_t fill = 75;

struct Placed {
    std::uint32_t bucket;
    DirEntry *entry;
};

std::uint32_t bucket_count(const std::vector<DirEntry> &entries) {
    std::uint64_t bytes = 0;

    for (const DirEntry &entry : entries)
        bytes += uhsfs_dirent_size(static_cast<std::uint8_t>(entry.name.size()));
    const std::uint64_t full = std::uint64_t{UHSFS_BUCKET_PAYLOAD} * fill / 100;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(DIV_ROUND_UP(bytes, full), 1, UHSFS_DIR_MAX_BUCKETS));
}

uhsfs_dirent dirent_of(const DirEntry &entry) {
    return {.cookie = entry.cookie,
            .ino = entry.ino,
            .gen = entry.gen,
            .type = entry.type,
            .len = static_cast<std::uint8_t>(entry.name.size()),
            .name = reinterpret_cast<const u8 *>(entry.name.data())};
}

// Cookies of all entries: hash, and a tie-breaker where hashes are equal.
Result<void> give_cookies(const uhsfs_geometry &geo, std::vector<DirEntry> &entries) {
    for (DirEntry &entry : entries)
        entry.cookie =
            uhsfs_cookie_make(uhsfs_dir_hash(&geo, reinterpret_cast<const u8 *>(entry.name.data()),
                                             static_cast<std::uint8_t>(entry.name.size())),
                              0);
    // Names too, so that one set of entries has one image.
    std::ranges::sort(entries, [](const DirEntry &a, const DirEntry &b) {
        return std::tie(a.cookie, a.name) < std::tie(b.cookie, b.name);
    });
    for (std::size_t i = 1; i < entries.size(); i++) {
        const std::uint64_t hash = uhsfs_cookie_hash(entries[i].cookie);
        if (uhsfs_cookie_hash(entries[i - 1].cookie) != hash)
            continue;
        const std::uint32_t tie = uhsfs_cookie_tie(entries[i - 1].cookie) + 1;
        if (tie == UHSFS_COOKIE_TIES || uhsfs_cookie_make(hash, tie) == UHSFS_COOKIE_END)
            return fail(ENOSPC, entries[i].name,
                        fmt::format("more than {} names of one directory have the same hash",
                                    UHSFS_COOKIE_TIES),
                        "make the filesystem with another -U");
        entries[i].cookie = uhsfs_cookie_make(hash, tie);
    }
    return {};
}

// The entries of one bucket after the other.
std::vector<Placed> place(std::vector<DirEntry> &entries, std::uint32_t buckets) {
    std::vector<Placed> placed;

    placed.reserve(entries.size());
    for (DirEntry &entry : entries)
        placed.push_back({.bucket = uhsfs_dir_bucket(uhsfs_cookie_hash(entry.cookie), buckets),
                          .entry = &entry});
    std::ranges::stable_sort(placed, {}, &Placed::bucket);
    return placed;
}

// Logical block of position n > 0 in a chain whose overflow numbers begin after `before`.
std::uint64_t overflow_logical(std::uint32_t before, std::uint32_t position) {
    return UHSFS_DIR_OVERFLOW + before + position - 1;
}

}  // namespace

Result<void> Builder::map_buckets(NewInode &inode, std::uint64_t logical, std::uint64_t count) {
    const std::uint32_t homes = geo().homes;

    while (count > 0) {
        const auto run = space_.some(Zone::small, count * homes, homes);
        if (!run)
            return no_space(count * homes);
        const std::uint32_t len = run->count / homes;
        inode.blocks += run->count;
        if (!inode.extents.empty() && uhsfs_ext_end(&inode.extents.back()) == logical &&
            inode.extents.back().physical + std::uint64_t{inode.extents.back().len} * homes ==
                run->block)
            inode.extents.back().len += len;
        else
            inode.extents.push_back({.logical = logical,
                                     .physical = run->block,
                                     .len = len,
                                     .birth = uhsfs_seq_epoch(seq_),
                                     .flags = 0});
        logical += len;
        count -= len;
    }
    return {};
}

Result<void> Builder::write_bucket(const NewInode &inode, std::uint64_t logical,
                                   uhsfs_bucket &bucket) {
    const auto next = std::ranges::upper_bound(inode.extents, logical, {}, &uhsfs_ext::logical);
    const uhsfs_ext &ext = *std::prev(next);
    const std::uint64_t home = ext.physical + (logical - ext.logical) * geo().homes;

    uhsfs_bucket_seal(&bucket, home, draw());
    return write_home(home, &bucket);
}

Result<void> Builder::make_directory(NewInode &inode, std::vector<DirEntry> &entries) {
    uhsfs_dir_info info = {};
    std::vector<std::uint32_t> lengths;  // of the chains

    uhsfs_dir_info_init(&info);
    info.buckets = bucket_count(entries);
    info.entries = entries.size();
    for (const DirEntry &entry : entries)
        info.subdirs += entry.type == uhsfs_mode_dtype(UHSFS_S_IFDIR) ? 1 : 0;
    UHSFS_TRY(give_cookies(geo(), entries));
    const std::vector<Placed> placed = place(entries, info.buckets);

    std::uint64_t overflow = 0;
    for (std::size_t at = 0; lengths.size() < info.buckets;) {
        const auto bucket = static_cast<std::uint32_t>(lengths.size());
        uhsfs_dir_writer counter = {};
        uhsfs_dir_writer_init(&counter, nullptr, 0, &geo(), inode.id.ino, inode.id.generation,
                              bucket, &info);
        for (; at < placed.size() && placed[at].bucket == bucket; at++) {
            const uhsfs_dirent e = dirent_of(*placed[at].entry);
            uhsfs_dir_writer_add(&counter, &e);
        }
        lengths.push_back(counter.count);
        overflow += counter.count - 1;
    }
    UHSFS_TRY(map_buckets(inode, 0, info.buckets));
    UHSFS_TRY(map_buckets(inode, UHSFS_DIR_OVERFLOW, overflow));

    std::vector<std::unique_ptr<uhsfs_bucket>> blocks;
    std::vector<uhsfs_bucket *> chain;
    for (std::size_t at = 0, bucket = 0; bucket < info.buckets; bucket++) {
        const std::uint32_t before = info.overflow;
        uhsfs_dir_writer writer = {};
        while (chain.size() < lengths[bucket]) {
            blocks.push_back(std::make_unique<uhsfs_bucket>());
            chain.push_back(blocks.back().get());
        }
        uhsfs_dir_writer_init(&writer, chain.data(), lengths[bucket], &geo(), inode.id.ino,
                              inode.id.generation, static_cast<u32>(bucket), &info);
        for (; at < placed.size() && placed[at].bucket == bucket; at++) {
            const uhsfs_dirent e = dirent_of(*placed[at].entry);
            const int err = uhsfs_dir_writer_add(&writer, &e);
            if (err != 0)
                return core_error("directory", inode.id.ino, err, {});
        }
        UHSFS_TRY(write_bucket(inode, bucket, *chain[0]));
        for (std::uint32_t i = 1; i < writer.count; i++)
            UHSFS_TRY(write_bucket(inode, overflow_logical(before, i), *chain[i]));
    }
    inode.directory = info;
    return {};
}

}  // namespace uhsfs
