// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Directories: every bucket, and its entries against the names that inodes claim.
 *
 * An entry that no slot confirms is what a crash may leave: it is allowed while it points into
 * a suspect chunk. So is an entry outside its bucket's range, if the bucket had that range
 * before some split: lookup ignores it.
 */
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "libuhsfs/check_state.hpp"

namespace uhsfs::checking {

namespace {

std::string entry_text(const Directory &dir, const uhsfs_dirent &entry) {
    return fmt::format("'{}' in directory {}",
                       std::string_view(reinterpret_cast<const char *>(entry.name), entry.len),
                       dir.ino);
}

// First block of a logical block's home, or 0.
std::uint64_t find_home(const std::vector<uhsfs_ext> &extents, std::uint64_t logical,
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

void Checker::check_directories() {
    pass(5, "directories", dirs_.size());
    parallel(dirs_.size(), [&](std::uint64_t i) {
        check_directory(dirs_[i]);
        step();
    });
    if (stop())
        return;
    check_unmatched();
    if (!crashed() && unreadable_.empty())
        check_hints();
}

void Checker::check_directory(Directory &dir) {
    const auto inode = volume_.inode(dir.ino);
    unsigned damage = 0;

    if (!inode || !inode->is_dir()) {
        dir.damaged = true;  // it changes while it is read
        return;
    }
    const auto info = volume_.dir_info(*inode);
    const auto extents = volume_.extents(*inode);
    if (!info || !extents) {
        dir.damaged = true;  // check_inode() told
        return;
    }
    for (std::uint32_t bucket = 0; bucket < info->buckets && !stop(); bucket++) {
        if (damage >= check_damage_limit) {
            findings_.add(make_fault("directory", dir.ino, "damaged blocks", damage,
                                     check_damage_limit, "too many: the rest was not read"));
            break;
        }
        check_chain(dir, *inode, *info, *extents, bucket, damage);
    }
    if (damage > 0)
        dir.damaged = true;
}

void Checker::check_chain(Directory &dir, const Inode &inode, const uhsfs_dir_info &info,
                          const std::vector<uhsfs_ext> &extents, std::uint32_t bucket,
                          unsigned &damage) {
    struct Cookie {
        std::uint64_t cookie;
        bool suspect;
    };
    std::vector<Cookie> cookies;
    AlignedBuffer image(block_size);
    const auto *record = reinterpret_cast<const uhsfs_bucket *>(image.data());
    uhsfs_bucket_at at = {.block = 0,
                          .dir_ino = dir.ino,
                          .dir_gen = inode.attr().generation,
                          .bucket = bucket,
                          .position = 0,
                          .overflow = info.overflow};
    unsigned long long first = 0;
    unsigned long long last = 0;
    std::uint64_t logical = bucket;

    uhsfs_dir_range(bucket, info.buckets, &first, &last);
    do {
        const std::uint64_t block = find_home(extents, logical, geo_.homes);
        if (block == 0) {
            findings_.add(make_fault("directory", dir.ino, "extents", logical, info.buckets,
                                     "every bucket must be mapped"));
            damage++;
            return;
        }
        const Home home = volume_.read_home(
            block,
            [&](const std::uint8_t *bytes, std::uint64_t where, Copy &copy) {
                const auto *b = reinterpret_cast<const uhsfs_bucket *>(bytes);
                uhsfs_bucket_at here = at;
                here.block = where;
                copy.seq = le64_to_cpu(b->h.seq);
                return uhsfs_bucket_check(b, &geo_, &here, &copy.fault);
            },
            image.span());
        check_home(home, "bucket", crashed(), fmt::format("of directory {}", dir.ino));
        if (!home.valid()) {
            damage++;
            return;
        }
        const std::uint64_t where = home.chosen_block();
        check_seq("bucket", where, "seq", le64_to_cpu(record->h.seq));
        uhsfs_dirent entry = {};
        for (std::uint32_t offset = 0; uhsfs_bucket_get(record, offset, &entry);
             offset += uhsfs_dirent_size(entry.len)) {
            if (entry.cookie < first || entry.cookie > last) {
                check_stray(info, bucket, entry, where);
                continue;
            }
            cookies.push_back({entry.cookie, suspect(entry.ino)});
            check_entry(dir, entry, where);
        }
        logical = uhsfs_bucket_next(record, &at);
    } while (logical != 0 && !stop());
    std::ranges::sort(cookies, {}, &Cookie::cookie);
    for (std::size_t i = 1; i < cookies.size(); i++)
        if (cookies[i].cookie == cookies[i - 1].cookie && !cookies[i].suspect &&
            !cookies[i - 1].suspect)
            findings_.add(make_fault("directory", dir.ino, "entry.cookie", cookies[i].cookie,
                                     bucket, "must not occur twice"));
}

void Checker::check_stray(const uhsfs_dir_info &info, std::uint32_t bucket,
                          const uhsfs_dirent &entry, std::uint64_t block) {
    const std::uint64_t hash = uhsfs_cookie_hash(entry.cookie);

    for (std::uint64_t buckets = 1; buckets <= info.buckets; buckets *= 2) {
        if (uhsfs_dir_bucket(hash, static_cast<std::uint32_t>(buckets)) == bucket) {
            stale_++;
            return;
        }
    }
    findings_.add(make_fault("bucket", block, "entry.cookie", entry.cookie,
                             uhsfs_dir_bucket(hash, info.buckets),
                             "must lie in the range of its bucket"));
}

void Checker::check_entry(const Directory &dir, const uhsfs_dirent &entry, std::uint64_t block) {
    const std::uint64_t key = name_key(dir.ino, dir.gen, entry.name, entry.len);

    for (Claim &claim : claims_.find(key)) {
        if (claim.ino() != entry.ino || claim.gen != entry.gen)
            continue;
        const std::uint64_t before = std::atomic_ref(claim.who).fetch_or(Claim::matched);
        if ((before & Claim::matched) != 0 && !suspect(entry.ino))
            findings_.add(make_fault("bucket", block, "entry.ino", entry.ino, dir.ino,
                                     "must not occur twice with one name"),
                          entry_text(dir, entry));
        if (claim.type() != entry.type)
            findings_.add(make_fault("bucket", block, "entry.type", entry.type, claim.type(),
                                     "must be the type of the inode"),
                          entry_text(dir, entry));
        return;
    }
    if (unreadable_.has(entry.ino))
        return;
    const auto fault = make_fault("bucket", block, "entry.ino", entry.ino, entry.gen,
                                  "must be confirmed by its slot");
    if (suspect(entry.ino) || !suspects_known_) {
        stale_++;
        notes_.add_with(fault, [&] {
            return fmt::format("{}; left by a crash, its chunk is suspect", entry_text(dir, entry));
        });
        return;
    }
    findings_.add_with(fault, [&] {
        return fmt::format("{}; {}, its chunk is not suspect", entry_text(dir, entry),
                           slot_text(entry.ino));
    });
}

void Checker::check_unmatched() {
    parallel(Claims::parts, [&](std::uint64_t i) {
        for (const Claim &claim : claims_.part(static_cast<unsigned>(i))) {
            if (claim.has(Claim::matched) || claim.has(Claim::held))
                continue;
            const Directory *dir = directory(claim.parent_ino, claim.parent_gen);
            if (dir == nullptr || dir->damaged)
                continue;  // told already
            if (claim.has(Claim::recovered)) {
                inserted_++;
                continue;
            }
            findings_.add_with(make_fault("slot", claim.ino(), "name", claim.parent_ino, 0,
                                          "must have an entry in its directory"),
                               [&] { return claimed_name(claim); });
        }
    });
}

void Checker::check_hints() {
    for (const Directory &dir : dirs_) {
        if (dir.damaged)
            continue;
        if (dir.entries != dir.children)
            findings_.add(make_fault("directory", dir.ino, "entries", dir.entries, dir.children,
                                     UHSFS_RULE_EQUAL));
        if (dir.subdirs != dir.child_dirs)
            findings_.add(make_fault("directory", dir.ino, "subdirs", dir.subdirs, dir.child_dirs,
                                     UHSFS_RULE_EQUAL));
    }
}

}  // namespace uhsfs::checking
