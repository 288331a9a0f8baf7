/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names, blocks and a whole directory in memory for the tests of kmod/core/dir.h.
 */
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "dir.h"
#include "record.h"
#include "support/random.hpp"

namespace uhsfs::test {

constexpr u64 dir_ino = 77;
constexpr u32 dir_gen = 5;
constexpr u8 type_reg = 8;
constexpr u8 type_dir = 4;

inline uhsfs_geometry dir_geometry() {
    uhsfs_geometry geo{};
    geo.fsid = 0x1122334455667788ULL;
    geo.blocks = 1U << 20;
    geo.homes = 1;
    geo.slot_size = UHSFS_SLOT_SIZE_MIN;
    geo.slots_per_block = 4;
    geo.slots_per_chunk = 64;
    for (unsigned i = 0; i < sizeof(geo.hash_key); i++)
        geo.hash_key[i] = static_cast<u8>(3 * i + 1);
    return geo;
}

inline const u8 *octets(const std::string &text) {
    return reinterpret_cast<const u8 *>(text.data());
}

inline std::string random_name(Random &random, std::size_t shortest = 1,
                               std::size_t longest = UHSFS_NAME_LEN) {
    static const std::string letters = "abcdefghijklmnopqrstuvwxyz0123456789-_ \xc3\xa4";
    std::string name(random.between(shortest, longest), 'x');
    for (auto &letter : name)
        letter = letters[random.between(0, letters.size() - 1)];
    return name;
}

struct Entry {
    std::string name;
    u64 ino = 0;
    u32 gen = 0;
    u8 type = type_reg;
    u64 cookie = 0;

    [[nodiscard]] auto key() const { return std::tie(name, ino, gen); }
    bool operator<(const Entry &other) const { return key() < other.key(); }
    bool operator==(const Entry &other) const {
        return key() == other.key() && type == other.type && cookie == other.cookie;
    }
};

inline Entry entry_of(const uhsfs_dirent &e) {
    return {std::string(reinterpret_cast<const char *>(e.name), e.len), e.ino, e.gen, e.type,
            e.cookie};
}

// Valid while `entry` lives.
inline uhsfs_dirent dirent_of(const Entry &entry) {
    return {entry.cookie,      entry.ino, entry.gen, entry.type, static_cast<u8>(entry.name.size()),
            octets(entry.name)};
}

inline std::vector<Entry> entries_of(const uhsfs_bucket &b) {
    std::vector<Entry> all;
    uhsfs_dirent e{};
    for (u32 at = 0; uhsfs_bucket_get(&b, at, &e); at += uhsfs_dirent_size(e.len))
        all.push_back(entry_of(e));
    return all;
}

inline u64 hash_of(const uhsfs_geometry &geo, const std::string &name) {
    return uhsfs_dir_hash(&geo, octets(name), static_cast<u8>(name.size()));
}

inline std::string text_of(const uhsfs_fault &fault) {
    return std::string(fault.object ? fault.object : "?") + " " + std::to_string(fault.id) + ": " +
           (fault.field ? fault.field : "?") + " is " + std::to_string(fault.value) + ", " +
           (fault.rule ? fault.rule : "?") + " " + std::to_string(fault.limit);
}

using Chain = std::vector<uhsfs_bucket *>;

// Blocks for a writer.
class Blocks {
public:
    explicit Blocks(std::size_t count) : blocks_(count) {
        for (auto &block : blocks_) {
            block = std::make_unique<uhsfs_bucket>();
            std::memset(block.get(), 0xa5, sizeof(*block));
            pointers_.push_back(block.get());
        }
    }
    [[nodiscard]] uhsfs_bucket *const *data() const { return pointers_.data(); }
    [[nodiscard]] const uhsfs_bucket &at(std::size_t i) const { return *blocks_.at(i); }
    [[nodiscard]] std::unique_ptr<uhsfs_bucket> take(std::size_t i) {
        return std::move(blocks_.at(i));
    }

private:
    std::vector<std::unique_ptr<uhsfs_bucket>> blocks_;
    Chain pointers_;
};

// A directory whose logical blocks are a map.  Every walk seals and checks each block.
class Directory {
public:
    Directory() : geo(dir_geometry()) {
        uhsfs_dir_info_init(&info);
        blocks_[0] = fresh_bucket(0);
    }

    uhsfs_geometry geo;
    uhsfs_dir_info info{};

    Chain chain(u32 bucket) {
        Chain all;
        uhsfs_bucket_at at{bucket, dir_ino, dir_gen, bucket, 0, info.overflow};
        u64 logical = bucket;
        do {
            auto found = blocks_.find(logical);
            if (found == blocks_.end()) {
                ADD_FAILURE() << "no block " << logical << " of bucket " << bucket;
                break;
            }
            uhsfs_bucket *b = found->second.get();
            at.block = logical;
            uhsfs_bucket_seal(b, logical, 1);
            uhsfs_fault fault{};
            if (uhsfs_bucket_check(b, &geo, &at, &fault) != 0) {
                ADD_FAILURE() << text_of(fault);
                break;
            }
            all.push_back(b);
            logical = uhsfs_bucket_next(b, &at);
        } while (logical != 0);
        return all;
    }

    [[nodiscard]] u32 bucket_of(const std::string &name) const {
        return uhsfs_dir_bucket(hash_of(geo, name), info.buckets);
    }

    // 1, 0 or an error of uhsfs_dir_insert(); sets the cookie.
    int insert(Entry &entry, bool may_grow = true) {
        const u32 bucket = bucket_of(entry.name);
        for (;;) {
            Chain all = chain(bucket);
            uhsfs_dirent e = dirent_of(entry);
            u32 position = 0;
            const int result =
                uhsfs_dir_insert(all.data(), static_cast<u32>(all.size()), &geo, &e, &position);
            entry.cookie = e.cookie;
            if (result == -EAGAIN) {
                auto more = std::make_unique<uhsfs_bucket>();
                EXPECT_EQ(uhsfs_bucket_link(all.back(), more.get(), &info), 0);
                blocks_[UHSFS_DIR_OVERFLOW + info.overflow - 1] = std::move(more);
                continue;
            }
            if (result == 1) {
                info.entries++;
                if (may_grow && uhsfs_dir_should_grow(&info, bytes(all), count(all)))
                    grow();
            }
            return result;
        }
    }

    bool remove(const Entry &entry) {
        for (uhsfs_bucket *b : chain(bucket_of(entry.name))) {
            const int at =
                uhsfs_bucket_find_exact(b, hash_of(geo, entry.name), octets(entry.name),
                                        static_cast<u8>(entry.name.size()), entry.ino, entry.gen);
            if (at < 0)
                continue;
            EXPECT_EQ(uhsfs_bucket_remove(b, static_cast<u32>(at)), 0);
            info.entries--;
            return true;
        }
        return false;
    }

    // All entries of a name, in chain order.
    std::vector<Entry> lookup(const std::string &name) {
        std::vector<Entry> found;
        for (uhsfs_bucket *b : chain(bucket_of(name))) {
            uhsfs_dirent e{};
            int at = 0;
            for (u32 from = 0; (at = uhsfs_bucket_find(b, from, hash_of(geo, name), octets(name),
                                                       static_cast<u8>(name.size()))) >= 0;
                 from = static_cast<u32>(at) + uhsfs_dirent_size(e.len)) {
                EXPECT_TRUE(uhsfs_bucket_get(b, static_cast<u32>(at), &e));
                found.push_back(entry_of(e));
            }
        }
        return found;
    }

    // What a split does; in_place leaves the old chain for a later trim().
    void grow(bool in_place = false) {
        const u32 from = uhsfs_dir_split_from(info.buckets);
        const Chain all = chain(from);
        const auto n = static_cast<u32>(all.size());
        Blocks old_blocks(n);
        Blocks new_blocks(n);
        uhsfs_dir_info after = info;
        uhsfs_dir_writer old{};
        uhsfs_dir_writer fresh{};
        uhsfs_dir_writer_init(&fresh, new_blocks.data(), n, &geo, dir_ino, dir_gen, info.buckets,
                              &after);
        uhsfs_dir_writer_init(&old, old_blocks.data(), n, &geo, dir_ino, dir_gen, from, &after);
        ASSERT_EQ(uhsfs_dir_split(info.buckets, all.data(), n, in_place ? nullptr : &old, &fresh),
                  0);
        if (!in_place) {
            drop(from);
            adopt(from, old_blocks, old.count);
        }
        adopt(info.buckets, new_blocks, fresh.count);
        info = after;
        info.buckets++;
    }

    void trim(u32 bucket) {
        u64 first = 0;
        u64 last = 0;
        uhsfs_dir_range(bucket, info.buckets, &first, &last);
        for (uhsfs_bucket *b : chain(bucket))
            uhsfs_bucket_trim(b, first, last);
    }

    // A new index of fewer buckets.
    void shrink(u32 buckets) {
        Directory other;
        other.blocks_.clear();
        other.info.buckets = buckets;
        for (u32 bucket = 0; bucket < buckets; bucket++) {
            u64 end = 0;
            u64 pos = 0;
            uhsfs_dir_range(bucket, buckets, &pos, &end);
            // Once to count, once to write.
            uhsfs_dir_writer counted{};
            uhsfs_dir_writer_init(&counted, nullptr, 0, &geo, dir_ino, dir_gen, bucket, nullptr);
            feed(counted, pos, end);
            Blocks blocks(counted.count);
            uhsfs_dir_writer w{};
            uhsfs_dir_writer_init(&w, blocks.data(), counted.count, &geo, dir_ino, dir_gen, bucket,
                                  &other.info);
            feed(w, pos, end);
            EXPECT_EQ(w.count, counted.count);
            other.adopt(bucket, blocks, w.count);
        }
        other.info.entries = info.entries;
        info = other.info;
        blocks_ = std::move(other.blocks_);
    }

    // One getdents call: at most `room` entries from pos, which moves on.
    std::vector<Entry> list(u64 &pos, std::size_t room, u32 capacity) {
        std::vector<Entry> out;
        std::vector<uhsfs_dir_ref> refs(capacity);
        uhsfs_dir_scan scan{};
        while (pos < UHSFS_COOKIE_END) {
            u64 emitted = 0;
            uhsfs_dir_scan_init(&scan, info.buckets, pos, refs.data(), capacity);
            const Chain all = chain(scan.bucket);
            do {
                for (const uhsfs_bucket *b : all)
                    uhsfs_dir_scan_block(&scan, b);
                uhsfs_dir_scan_sort(&scan);
                for (u32 i = 0; i < scan.count; i++) {
                    const uhsfs_dir_ref &ref = refs[i];
                    if (ref.cookie == emitted)
                        continue;
                    if (out.size() == room) {
                        pos = ref.cookie;
                        return out;
                    }
                    uhsfs_dirent e{};
                    EXPECT_TRUE(uhsfs_bucket_get(all.at(ref.position), ref.offset, &e));
                    out.push_back(entry_of(e));
                    emitted = ref.cookie;
                }
            } while (uhsfs_dir_scan_more(&scan));
            pos = uhsfs_dir_scan_after(&scan);
        }
        return out;
    }

    // Entries that are not in the first block of their chain, and all of them.
    std::pair<u64, u64> overflowing() {
        u64 over = 0;
        u64 total = 0;
        for (u32 bucket = 0; bucket < info.buckets; bucket++) {
            const Chain all = chain(bucket);
            total += count(all);
            over += count(all) - le16_to_cpu(all.front()->count);
        }
        return {over, total};
    }

    static u64 bytes(const Chain &all) {
        u64 sum = 0;
        for (const uhsfs_bucket *b : all)
            sum += le16_to_cpu(b->used);
        return sum;
    }

    static u32 count(const Chain &all) {
        u32 sum = 0;
        for (const uhsfs_bucket *b : all)
            sum += le16_to_cpu(b->count);
        return sum;
    }

private:
    [[nodiscard]] std::unique_ptr<uhsfs_bucket> fresh_bucket(u32 bucket) const {
        auto b = std::make_unique<uhsfs_bucket>();
        uhsfs_bucket_init(b.get(), &geo, dir_ino, dir_gen, bucket, 0);
        return b;
    }

    void feed(uhsfs_dir_writer &w, u64 pos, u64 end) {
        for (;;) {
            const u32 bucket = uhsfs_dir_bucket(uhsfs_cookie_hash(pos), info.buckets);
            u64 first = 0;
            u64 last = 0;
            uhsfs_dir_range(bucket, info.buckets, &first, &last);
            EXPECT_EQ(first, pos);
            for (const uhsfs_bucket *b : chain(bucket))
                EXPECT_EQ(uhsfs_dir_writer_take(&w, b, first, last), 0);
            if (last == end)
                return;
            pos = last + 1;
        }
    }

    void drop(u32 bucket) {
        std::vector<u64> logical{bucket};
        for (const uhsfs_bucket *b : chain(bucket))
            if (b->next != 0)
                logical.push_back(UHSFS_DIR_OVERFLOW + le32_to_cpu(b->next) - 1);
        for (const u64 block : logical)
            blocks_.erase(block);
    }

    void adopt(u32 bucket, Blocks &from, u32 count) {
        u64 logical = bucket;
        for (u32 i = 0; i < count; i++) {
            auto b = from.take(i);
            const u32 next = le32_to_cpu(b->next);
            blocks_[logical] = std::move(b);
            logical = UHSFS_DIR_OVERFLOW + next - 1;
        }
    }

    std::map<u64, std::unique_ptr<uhsfs_bucket>> blocks_;
};

}  // namespace uhsfs::test
