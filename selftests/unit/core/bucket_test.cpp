// SPDX-License-Identifier: GPL-2.0
//
// Blocks of directories: contents, checks, chains, hostile bytes.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dir.h"
#include "dir_support.hpp"

namespace {

using namespace uhsfs::test;

constexpr u64 device_block = 12345;
constexpr unsigned bits_per_byte = 8;

uhsfs_bucket_at place(u32 bucket = 3, u32 position = 0, u32 overflow = 0) {
    return {device_block, dir_ino, dir_gen, bucket, position, overflow};
}

class Bucket : public testing::Test {
protected:
    Bucket() { uhsfs_bucket_init(&b, &geo, dir_ino, dir_gen, 3, 0); }

    Entry make(const std::string &name, u64 ino, u32 tie = 0, u8 type = type_reg) const {
        return {name, ino, 1, type, uhsfs_cookie_make(hash_of(geo, name), tie)};
    }

    int insert(const Entry &entry) {
        const uhsfs_dirent e = dirent_of(entry);
        return uhsfs_bucket_insert(&b, &e);
    }

    void fill(Random &random) {
        u64 ino = 1;
        while (insert(make(random_name(random, 1, 40), ino, 0,
                           ino % 2 != 0 ? type_reg : type_dir)) >= 0)
            ino++;
        // Not a byte of the payload free.
        while (UHSFS_BUCKET_PAYLOAD - le16_to_cpu(b.used) >= UHSFS_DIRENT_MIN)
            ASSERT_GE(insert(make(random_name(random, 8, 8), ino++)), 0);
        if (const u32 left = UHSFS_BUCKET_PAYLOAD - le16_to_cpu(b.used); left != 0) {
            ASSERT_EQ(uhsfs_bucket_remove(&b, 0), 0);
            const u32 room = UHSFS_BUCKET_PAYLOAD - le16_to_cpu(b.used) - 24;
            ASSERT_GE(insert(make(random_name(random, room, room), ino)), 0);
        }
        ASSERT_EQ(le16_to_cpu(b.used), UHSFS_BUCKET_PAYLOAD);
    }

    // "" if the sealed block passes, else the field at fault.
    std::string fault_of(const uhsfs_bucket_at &at = place(), bool seal = true) {
        uhsfs_fault fault{};
        if (seal)
            uhsfs_bucket_seal(&b, device_block, le64_to_cpu(b.h.seq));
        const int err = uhsfs_bucket_check(&b, &geo, &at, &fault);
        if (err == 0)
            return "";
        EXPECT_EQ(err, -EUCLEAN);
        EXPECT_EQ(fault.id, device_block);
        EXPECT_STREQ(fault.object, "bucket");
        return fault.field;
    }

    uhsfs_entry *disk(u32 offset = 0) {
        return reinterpret_cast<uhsfs_entry *>(b.entries + offset);
    }

    uhsfs_geometry geo = dir_geometry();
    uhsfs_bucket b{};
};

TEST_F(Bucket, BehavesAsAListUnderRandomOperations) {
    Random random;
    SCOPED_TRACE(random.note());
    std::vector<Entry> model;
    u64 ino = 1;

    for (int i = 0; i < 8000; i++) {
        const auto dice = random.between(0, 9);
        if (dice < 5) {
            Entry entry = make(random_name(random, 1, i % 1000 < 500 ? 30 : 255), ino++);
            u32 used = 0;
            for (const Entry &other : model)
                used += uhsfs_dirent_size(static_cast<u8>(other.name.size()));
            const u32 size = uhsfs_dirent_size(static_cast<u8>(entry.name.size()));
            const auto same = [&](const Entry &other) { return other.cookie == entry.cookie; };
            while (std::any_of(model.begin(), model.end(), same))
                entry.cookie++;
            const int at = insert(entry);
            ASSERT_EQ(at, used + size <= UHSFS_BUCKET_PAYLOAD ? static_cast<int>(used) : -ENOSPC);
            if (at >= 0)
                model.push_back(entry);
        } else if (!model.empty()) {
            const auto which = random.between(0, model.size() - 1);
            Entry &entry = model[which];
            const int at =
                uhsfs_bucket_find_exact(&b, uhsfs_cookie_hash(entry.cookie), octets(entry.name),
                                        static_cast<u8>(entry.name.size()), entry.ino, entry.gen);
            ASSERT_GE(at, 0);
            if (dice == 9) {
                entry.ino = ino++;
                entry.gen = 9;
                entry.type = type_dir;
                ASSERT_EQ(uhsfs_bucket_retarget(&b, static_cast<u32>(at), entry.ino, entry.gen,
                                                entry.type),
                          0);
            } else {
                ASSERT_EQ(uhsfs_bucket_remove(&b, static_cast<u32>(at)), 0);
                model.erase(model.begin() + static_cast<std::ptrdiff_t>(which));
            }
        }
        ASSERT_EQ(fault_of(), "");
        ASSERT_EQ(entries_of(b), model);
    }
}

TEST_F(Bucket, TakesExactlyWhatFits) {
    for (u32 i = 0; i < UHSFS_BUCKET_ENTRIES; i++)
        ASSERT_EQ(insert(make("n" + std::to_string(i), i + 1)),
                  static_cast<int>(i * UHSFS_DIRENT_MIN));
    EXPECT_EQ(insert(make("x", 1000)), -ENOSPC);
    EXPECT_EQ(fault_of(), "");
    EXPECT_EQ(uhsfs_dirent_size(1), static_cast<u32>(UHSFS_DIRENT_MIN));
    EXPECT_EQ(uhsfs_dirent_size(255), static_cast<u32>(UHSFS_DIRENT_MAX));
}

TEST_F(Bucket, FindGoesOnPastUnconfirmedEntries) {
    ASSERT_EQ(insert(make("a", 1)), 0);
    ASSERT_EQ(insert(make("b", 2)), 32);
    ASSERT_EQ(insert(make("a", 3, 1)), 64);
    const u64 hash = hash_of(geo, "a");

    EXPECT_EQ(uhsfs_bucket_find(&b, 0, hash, octets("a"), 1), 0);
    EXPECT_EQ(uhsfs_bucket_find(&b, 32, hash, octets("a"), 1), 64);
    EXPECT_EQ(uhsfs_bucket_find(&b, 96, hash, octets("a"), 1), -ENOENT);
    EXPECT_EQ(uhsfs_bucket_find_exact(&b, hash, octets("a"), 1, 3, 1), 64);
    EXPECT_EQ(uhsfs_bucket_find_exact(&b, hash, octets("a"), 1, 3, 2), -ENOENT);
    EXPECT_EQ(uhsfs_bucket_find_exact(&b, hash, octets("a"), 1, 2, 1), -ENOENT);
    EXPECT_EQ(uhsfs_bucket_find_exact(&b, hash_of(geo, "b"), octets("b"), 1, 2, 1), 32);
    EXPECT_EQ(uhsfs_bucket_find(&b, 0, hash_of(geo, "ab"), octets("ab"), 2), -ENOENT);
}

TEST_F(Bucket, RetargetKeepsTheCookieAndMakesNoTwins) {
    ASSERT_EQ(insert(make("f", 1, 5)), 0);
    ASSERT_EQ(insert(make("f", 2, 6)), 32);

    EXPECT_EQ(uhsfs_bucket_retarget(&b, 0, 2, 1, type_reg), -EEXIST);
    EXPECT_EQ(uhsfs_bucket_retarget(&b, 64, 2, 1, type_reg), -ENOENT);
    ASSERT_EQ(uhsfs_bucket_retarget(&b, 0, 9, 1, type_dir), 0);
    EXPECT_EQ(entries_of(b).front(), make("f", 9, 5, type_dir));
    EXPECT_EQ(uhsfs_bucket_retarget(&b, 0, 9, 1, type_dir), 0) << "to itself";
    EXPECT_EQ(fault_of(), "");
}

TEST_F(Bucket, TrimKeepsWhatIsInRange) {
    Random random;
    SCOPED_TRACE(random.note());
    fill(random);
    const auto before = entries_of(b);
    u64 first = 0;
    u64 last = 0;
    uhsfs_dir_range(1, 3, &first, &last);
    std::vector<Entry> kept;
    for (const Entry &entry : before)
        if (entry.cookie >= first && entry.cookie <= last)
            kept.push_back(entry);
    ASSERT_FALSE(kept.empty());
    ASSERT_LT(kept.size(), before.size());

    EXPECT_EQ(uhsfs_bucket_trim(&b, first, last), before.size() - kept.size());
    EXPECT_EQ(entries_of(b), kept);
    EXPECT_EQ(fault_of(), "");
    EXPECT_EQ(uhsfs_bucket_trim(&b, first, last), 0U);
    EXPECT_EQ(uhsfs_bucket_trim(&b, 1, 0), kept.size());
    EXPECT_EQ(fault_of(), "");
}

TEST_F(Bucket, TrimKeepsTheEdgesOfTheRange) {
    u64 first = 0;
    u64 last = 0;
    uhsfs_dir_range(2, 3, &first, &last);
    for (const u64 cookie : {first - 1, first, last, last + 1}) {
        const Entry entry{"n", cookie, 1, type_reg, cookie};
        ASSERT_GE(insert(entry), 0);
    }
    ASSERT_EQ(uhsfs_bucket_trim(&b, first, last), 2U);
    const auto kept = entries_of(b);
    ASSERT_EQ(kept.size(), 2U);
    EXPECT_EQ(kept.front().cookie, first);
    EXPECT_EQ(kept.back().cookie, last);
}

// ---- checks --------------------------------------------------------------------

TEST_F(Bucket, EveryFlippedBitIsFound) {
    Random random;
    SCOPED_TRACE(random.note());
    fill(random);
    ASSERT_EQ(fault_of(), "");
    auto *bytes = reinterpret_cast<unsigned char *>(&b);

    for (std::size_t bit = 0; bit < sizeof(b) * bits_per_byte; bit++) {
        bytes[bit / bits_per_byte] ^= static_cast<unsigned char>(1U << bit % bits_per_byte);
        ASSERT_NE(fault_of(place(), false), "") << "bit " << bit;
        bytes[bit / bits_per_byte] ^= static_cast<unsigned char>(1U << bit % bits_per_byte);
    }
}

// With a right checksum, what cannot be found is only a flip that makes another legal
// record: a newer or first image, another inode, another known type, a free tie-breaker.
TEST_F(Bucket, EveryFlippedBitUnderARightChecksumIsFoundOrMeansSomething) {
    Random random;
    SCOPED_TRACE(random.note());
    fill(random);
    uhsfs_bucket_seal(&b, device_block, 0);
    const uhsfs_bucket good = b;
    const auto good_entries = entries_of(b);
    std::set<std::size_t> may_pass;
    const auto allow = [&](const void *field, std::size_t size) {
        const auto from = static_cast<std::size_t>(static_cast<const unsigned char *>(field) -
                                                   reinterpret_cast<const unsigned char *>(&b));
        for (std::size_t i = 0; i < size; i++)
            may_pass.insert(from + i);
    };
    allow(&b.h.seq, sizeof(b.h.seq));
    uhsfs_dirent e{};
    for (u32 at = 0; uhsfs_bucket_get(&b, at, &e); at += uhsfs_dirent_size(e.len)) {
        allow(&disk(at)->ino, sizeof(u64));
        allow(&disk(at)->gen, sizeof(u32));
        allow(&disk(at)->type, 1);
        allow(&disk(at)->cookie, 1);  // the tie-breaker and one bit of the hash
    }

    std::size_t passed = 0;
    auto *bytes = reinterpret_cast<unsigned char *>(&b);
    for (std::size_t bit = 0; bit < sizeof(b) * bits_per_byte; bit++) {
        const std::size_t byte = bit / bits_per_byte;
        if (byte >= offsetof(uhsfs_header, crc) && byte < offsetof(uhsfs_header, fsid))
            continue;
        b = good;
        bytes[byte] ^= static_cast<unsigned char>(1U << bit % bits_per_byte);
        uhsfs_record_seal(&b, sizeof(b));
        if (!fault_of(place(), false).empty())
            continue;
        passed++;
        ASSERT_TRUE(may_pass.count(byte)) << "bit " << bit % bits_per_byte << " of byte " << byte;
        if (byte >= sizeof(uhsfs_header)) {
            ASSERT_NE(entries_of(b), good_entries) << "byte " << byte << " is unused";
        }
    }
    EXPECT_GT(passed, 0U);
}

TEST_F(Bucket, EveryByteOfAHalfFullBlockIsWatched) {
    for (u64 i = 1; i <= 50; i++)
        ASSERT_GE(insert(make("name" + std::to_string(i), i)), 0);
    const u32 used = le16_to_cpu(b.used);
    for (u32 at = used; at < UHSFS_BUCKET_PAYLOAD; at++) {
        b.entries[at] = 1;
        ASSERT_EQ(fault_of(), "rest") << at;
        b.entries[at] = 0;
    }
    EXPECT_EQ(fault_of(), "");
}

struct Damage {
    const char *field;
    std::function<void(uhsfs_bucket &)> apply;
};

TEST_F(Bucket, NamesTheFieldAtFault) {
    ASSERT_EQ(insert(make("abc", 10)), 0);
    ASSERT_EQ(insert(make("defghijkl", 11, 3)), 32);
    ASSERT_EQ(fault_of(), "");
    const uhsfs_bucket good = b;
    const auto first = [](uhsfs_bucket &x) { return reinterpret_cast<uhsfs_entry *>(x.entries); };
    const auto rename = [&](uhsfs_bucket &x, const std::string &name) {
        std::memcpy(first(x)->name, name.data(), 3);
    };
    const std::vector<Damage> damages = {
        {"magic", [](auto &x) { x.h.magic = cpu_to_le32(UHSFS_TAG_SLOT); }},
        {"fsid", [](auto &x) { x.h.fsid = 1; }},
        {"owner_ino", [](auto &x) { x.h.owner_ino = cpu_to_le64(dir_ino + 1); }},
        {"owner_gen", [](auto &x) { x.h.owner_gen = cpu_to_le32(dir_gen + 1); }},
        {"flags", [](auto &x) { x.h.flags = cpu_to_le32(2); }},
        {"bucket", [](auto &x) { x.bucket = cpu_to_le32(4); }},
        {"position", [](auto &x) { x.position = cpu_to_le32(1); }},
        {"next", [](auto &x) { x.next = cpu_to_le32(1); }},
        {"count", [](auto &x) { x.count = cpu_to_le16(1); }},
        {"count", [](auto &x) { x.count = cpu_to_le16(3); }},
        {"used", [](auto &x) { x.used = cpu_to_le16(UHSFS_BUCKET_PAYLOAD + 1); }},
        {"used", [](auto &x) { x.used = cpu_to_le16(0xffff); }},
        {"used", [](auto &x) { x.used = cpu_to_le16(72 + 8); }},
        {"entry.len", [](auto &x) { x.used = cpu_to_le16(72 - 8); }},
        {"rest", [](auto &x) { x.used = cpu_to_le16(32), x.count = cpu_to_le16(1); }},
        {"entry.name", [&](auto &x) { first(x)->len = 0; }},
        {"entry.name", [&](auto &x) { first(x)->len = 5; }},
        {"entry.len", [&](auto &x) { first(x)->len = 255; }},
        {"entry.name", [&](auto &x) { rename(x, "a/c"); }},
        {"entry.name", [&](auto &x) { rename(x, std::string("a\0c", 3)); }},
        {"entry.cookie", [&](auto &x) { rename(x, "abd"); }},
        {"entry.padding", [&](auto &x) { first(x)->name[3] = 1; }},
        {"entry.padding", [&](auto &x) { first(x)->name[7] = 1; }},
        {"entry.reserved", [&](auto &x) { first(x)->reserved[1] = 1; }},
        {"entry.ino", [&](auto &x) { first(x)->ino = 0; }},
        {"entry.ino", [&](auto &x) { first(x)->ino = cpu_to_le64(UHSFS_MAX_CHUNKS * 64); }},
        {"entry.type", [&](auto &x) { first(x)->type = 0; }},
        {"entry.type", [&](auto &x) { first(x)->type = 14; }},
        {"entry.type", [&](auto &x) { first(x)->type = 8 + 16; }},
        {"entry.cookie", [&](auto &x) { first(x)->cookie ^= cpu_to_le64(1ULL << 63); }},
        {"entry.cookie", [&](auto &x) { first(x)->cookie ^= cpu_to_le64(1ULL << 7); }},
        {"entry.cookie", [&](auto &x) { first(x)->cookie = 0; }},
    };
    for (const Damage &damage : damages) {
        b = good;
        damage.apply(b);
        EXPECT_EQ(fault_of(), damage.field) << "damage " << &damage - damages.data();
    }
    b = good;
    first(b)->ino = cpu_to_le64(UHSFS_MAX_CHUNKS * 64 - 1);
    EXPECT_EQ(fault_of(), "");
}

TEST_F(Bucket, RefusesTwins) {
    ASSERT_EQ(insert(make("abc", 10)), 0);
    ASSERT_EQ(insert(make("x", 10)), 32);
    ASSERT_EQ(insert(make("abc", 11, 1)), 64);
    ASSERT_EQ(fault_of(), "") << "a name may have several entries";
    disk(64)->cookie = disk()->cookie;
    EXPECT_EQ(fault_of(), "entry.cookie");
    disk(64)->cookie = cpu_to_le64(le64_to_cpu(disk()->cookie) + 1);
    disk(64)->ino = disk()->ino;
    EXPECT_EQ(fault_of(), "entry.ino");
    disk(64)->gen = cpu_to_le32(7);
    EXPECT_EQ(fault_of(), "");
}

TEST_F(Bucket, RefusesTwinsWhereverTheyStand) {
    // More entries than the check's table has words, so that hashes meet in it.
    std::vector<u32> at;
    for (u32 i = 0; i < UHSFS_BUCKET_ENTRIES - 1; i++)
        at.push_back(static_cast<u32>(insert(make("n" + std::to_string(i), i + 1))));
    ASSERT_EQ(fault_of(), "");
    const uhsfs_bucket good = b;
    for (u32 i = 0; i < at.size(); i++) {
        b = good;
        ASSERT_GE(insert(make("n" + std::to_string(i), 5000)), 0);
        ASSERT_EQ(fault_of(), "entry.cookie") << i;
    }
}

TEST_F(Bucket, ChainPlacesAreChecked) {
    ASSERT_EQ(insert(make("abc", 10)), 0);
    b.position = cpu_to_le32(2);
    b.next = cpu_to_le32(5);
    EXPECT_EQ(fault_of(place(3, 2, 5)), "");
    EXPECT_EQ(fault_of(place(3, 2, 4)), "next");
    EXPECT_EQ(fault_of(place(3, 1, 5)), "position");
    EXPECT_EQ(fault_of(place(2, 2, 5)), "bucket");
    EXPECT_EQ(fault_of(place(3, 2, 1)), "position") << "more blocks than there are";
    b.next = cpu_to_le32(1);
    EXPECT_EQ(fault_of(place(3, 2, 2)), "next") << "the chain has all the blocks there are";
    b.next = 0;
    EXPECT_EQ(fault_of(place(3, 2, 2)), "");
}

TEST_F(Bucket, AWalkEndsWhateverNextSays) {
    uhsfs_bucket_at at = place(3, 0, 4);
    int steps = 0;
    b.next = cpu_to_le32(2);  // every block says so, itself included
    while (uhsfs_bucket_next(&b, &at) != 0)
        steps++;
    EXPECT_EQ(steps, 4);
    at = place(3, 0, 4);
    EXPECT_EQ(uhsfs_bucket_next(&b, &at), UHSFS_DIR_OVERFLOW + 1);
    EXPECT_EQ(at.position, 1U);
    b.next = cpu_to_le32(5);
    EXPECT_EQ(uhsfs_bucket_next(&b, &at), 0U);
    b.next = 0;
    EXPECT_EQ(uhsfs_bucket_next(&b, &at), 0U);
}

TEST_F(Bucket, LinkNumbersOverflowBlocks) {
    uhsfs_dir_info info{1, 6, 0, 0};
    uhsfs_bucket fresh{};
    std::memset(&fresh, 0xff, sizeof(fresh));

    ASSERT_EQ(uhsfs_bucket_link(&b, &fresh, &info), 0);
    EXPECT_EQ(info.overflow, 7U);
    EXPECT_EQ(le32_to_cpu(b.next), 7U);
    EXPECT_EQ(le32_to_cpu(fresh.position), 1U);
    EXPECT_EQ(fault_of(place(3, 0, 7)), "");
    const uhsfs_bucket first = b;
    b = fresh;
    EXPECT_EQ(fault_of(place(3, 1, 7)), "");
    b = first;
    EXPECT_EQ(uhsfs_bucket_link(&b, &fresh, &info), -EINVAL);
    info.overflow = U32_MAX;
    b.next = 0;
    EXPECT_EQ(uhsfs_bucket_link(&b, &fresh, &info), -ENOSPC);
    EXPECT_EQ(b.next, 0U);
}

// Whatever the bytes, every function stays within the block (sanitizers watch) and ends.
TEST_F(Bucket, HostileBytesDoNoHarm) {
    Random random;
    SCOPED_TRACE(random.note());
    std::vector<uhsfs_dir_ref> refs(20);
    int refused = 0;

    for (int round = 0; round < 3000; round++) {
        auto block = std::make_unique<uhsfs_bucket>();
        uhsfs_bucket_init(block.get(), &geo, dir_ino, dir_gen, 3, 0);
        const auto noise = random.bytes(UHSFS_BUCKET_PAYLOAD);
        std::memcpy(block->entries, noise.data(), noise.size());
        block->used = cpu_to_le16(static_cast<u16>(random.between(0, round % 2 ? 0xffff : 4032)));
        block->count = cpu_to_le16(static_cast<u16>(random.between(0, 140)));
        if (round % 3 == 0) {  // short names: entries that look packed
            u32 at = 0;
            while (at + 280 < UHSFS_BUCKET_PAYLOAD) {
                auto *entry = reinterpret_cast<uhsfs_entry *>(block->entries + at);
                entry->len = static_cast<u8>(random.between(0, 20));
                at += uhsfs_dirent_size(entry->len);
            }
        }
        uhsfs_bucket_seal(block.get(), device_block, 1);
        const uhsfs_bucket_at at = place();
        uhsfs_fault fault{};
        const int err = uhsfs_bucket_check(block.get(), &geo, &at, &fault);
        ASSERT_TRUE(err == 0 || err == -EUCLEAN);
        refused += err != 0;

        entries_of(*block);
        uhsfs_bucket_find(block.get(), 0, 1, octets("abc"), 3);
        uhsfs_dirent e{};
        for (u32 offset = 0; offset < 4100; offset++)
            if (uhsfs_bucket_get(block.get(), offset, &e)) {
                ASSERT_LE(e.name + e.len, block->entries + UHSFS_BUCKET_PAYLOAD);
            }
        uhsfs_dir_scan scan{};
        uhsfs_dir_scan_init(&scan, 1, 0, refs.data(), static_cast<u32>(refs.size()));
        do {
            uhsfs_dir_scan_block(&scan, block.get());
            uhsfs_dir_scan_sort(&scan);
        } while (uhsfs_dir_scan_more(&scan));
        const Entry entry = make("abc", 5);
        uhsfs_dirent wanted = dirent_of(entry);
        uhsfs_bucket *chain[] = {block.get()};
        u32 position = 0;
        uhsfs_dir_insert(chain, 1, &geo, &wanted, &position);
        uhsfs_bucket_remove(block.get(), static_cast<u32>(random.between(0, 5000)));
        uhsfs_bucket_retarget(block.get(), 0, 7, 7, type_dir);
        uhsfs_bucket_trim(block.get(), 1ULL << 60, 1ULL << 62);
    }
    EXPECT_GT(refused, 2900);
}

// ---- find-or-insert ---------------------------------------------------------------

TEST_F(Bucket, InsertUsesTheFirstBlockWithRoom) {
    uhsfs_dir_info info{1, 0, 0, 0};
    uhsfs_bucket second{};
    Chain chain{&b, &second};
    for (u64 i = 1; i <= UHSFS_BUCKET_ENTRIES; i++)
        ASSERT_GE(insert(make("n" + std::to_string(i), i)), 0);
    const Entry entry = make("new", 1000);
    uhsfs_dirent e = dirent_of(entry);
    u32 position = 99;

    ASSERT_EQ(uhsfs_dir_insert(chain.data(), 1, &geo, &e, &position), -EAGAIN);
    ASSERT_EQ(uhsfs_bucket_link(&b, &second, &info), 0);
    ASSERT_EQ(uhsfs_dir_insert(chain.data(), 2, &geo, &e, &position), 1);
    EXPECT_EQ(position, 1U);
    ASSERT_EQ(uhsfs_bucket_remove(&b, 0), 0);
    // Found where it is, though there is room before it.
    ASSERT_EQ(uhsfs_dir_insert(chain.data(), 2, &geo, &e, &position), 0);
    EXPECT_EQ(position, 1U);
    e.ino = 1001;
    ASSERT_EQ(uhsfs_dir_insert(chain.data(), 2, &geo, &e, &position), 1);
    EXPECT_EQ(position, 0U);
    EXPECT_EQ(uhsfs_cookie_tie(e.cookie), 1U) << "0 is taken in the other block";
}

TEST_F(Bucket, ProbeCountsWhatACrashMultiplied) {
    uhsfs_dir_info info{1, 0, 0, 0};
    uhsfs_bucket second{};
    const Entry entry = make("f", 8);
    const uhsfs_dirent e = dirent_of(entry);
    ASSERT_EQ(insert(make("g", 7)), 0);
    ASSERT_EQ(insert(entry), 32);
    ASSERT_EQ(uhsfs_bucket_link(&b, &second, &info), 0);
    ASSERT_EQ(uhsfs_bucket_insert(&second, &e), 0);
    uhsfs_dir_probe probe{};

    uhsfs_dir_probe_init(&probe, &geo, octets(entry.name), 1, 8, 1);
    uhsfs_dir_probe_block(&probe, &b);
    uhsfs_dir_probe_block(&probe, &second);
    EXPECT_EQ(probe.copies, 2U);
    EXPECT_EQ(probe.position, 0U);
    EXPECT_EQ(probe.offset, 32U);
    EXPECT_EQ(probe.cookie, entry.cookie);
    EXPECT_TRUE(probe.room);
    EXPECT_EQ(probe.room_position, 0U);
}

TEST_F(Bucket, TheLastCookieIsNeverGiven) {
    uhsfs_dir_probe probe{};
    u64 cookie = 0;
    uhsfs_dir_probe_init(&probe, &geo, octets("f"), 1, 8, 1);
    std::memset(probe.ties, 0xff, sizeof(probe.ties));
    EXPECT_EQ(uhsfs_dir_probe_cookie(&probe, &cookie), -ENOSPC);
    probe.ties[1] &= ~BIT_ULL(63);
    ASSERT_EQ(uhsfs_dir_probe_cookie(&probe, &cookie), 0);
    EXPECT_EQ(cookie, uhsfs_cookie_make(hash_of(geo, "f"), 127));
}

// ---- readdir -------------------------------------------------------------------------

TEST_F(Bucket, ScanOffersEqualCookiesOfAllBlocks) {
    uhsfs_dir_info info{1, 0, 0, 0};
    uhsfs_bucket second{};
    Entry stale = make("f", 8);
    Entry live = make("f", 9);  // the same cookie, in another block, as after a crash
    ASSERT_EQ(insert(stale), 0);
    ASSERT_EQ(uhsfs_bucket_link(&b, &second, &info), 0);
    const uhsfs_dirent e = dirent_of(live);
    ASSERT_EQ(uhsfs_bucket_insert(&second, &e), 0);

    for (const u32 capacity : {1U, 2U, 3U}) {
        std::vector<uhsfs_dir_ref> refs(capacity);
        std::vector<u32> positions;
        uhsfs_dir_scan scan{};
        uhsfs_dir_scan_init(&scan, 1, stale.cookie, refs.data(), capacity);
        do {
            uhsfs_dir_scan_block(&scan, &second);
            uhsfs_dir_scan_block(&scan, &b);
            uhsfs_dir_scan_sort(&scan);
            for (u32 i = 0; i < scan.count; i++)
                positions.push_back(refs[i].position);
        } while (uhsfs_dir_scan_more(&scan));
        EXPECT_EQ(positions, (std::vector<u32>{0, 1})) << capacity;
        EXPECT_EQ(uhsfs_dir_scan_after(&scan), UHSFS_COOKIE_END);
    }
}

TEST_F(Bucket, ScanStaysInItsRangeAndBeginsAtItsPosition) {
    Random random;
    SCOPED_TRACE(random.note());
    fill(random);
    const auto all = entries_of(b);
    std::vector<uhsfs_dir_ref> refs(200);

    for (int round = 0; round < 500; round++) {
        const auto buckets = static_cast<u32>(random.between(1, 12));
        u64 pos = all[random.between(0, all.size() - 1)].cookie + random.between(0, 1);
        if (round == 0)
            pos = U64_MAX;
        uhsfs_dir_scan scan{};
        uhsfs_dir_scan_init(&scan, buckets, pos, refs.data(), static_cast<u32>(refs.size()));
        uhsfs_dir_scan_block(&scan, &b);
        uhsfs_dir_scan_sort(&scan);
        std::set<u64> expected;
        for (const Entry &entry : all)
            if (entry.cookie >= pos && entry.cookie < uhsfs_dir_scan_after(&scan))
                expected.insert(entry.cookie);
        std::vector<u64> got;
        for (u32 i = 0; i < scan.count; i++)
            got.push_back(refs[i].cookie);
        ASSERT_EQ(got, std::vector<u64>(expected.begin(), expected.end()));
        ASSERT_FALSE(uhsfs_dir_scan_more(&scan));
    }
}

// ---- writers ----------------------------------------------------------------------------

TEST_F(Bucket, WriterFillsABlockToTheLastByte) {
    uhsfs_dir_info info{1, 0, 0, 0};
    Blocks blocks(1);
    uhsfs_dir_writer w{};
    uhsfs_dir_writer_init(&w, blocks.data(), 1, &geo, dir_ino, dir_gen, 3, &info);
    const Entry entry = make("a", 1);
    const uhsfs_dirent e = dirent_of(entry);

    for (u32 i = 0; i < UHSFS_BUCKET_ENTRIES; i++)
        ASSERT_EQ(uhsfs_dir_writer_add(&w, &e), 0) << i;
    EXPECT_EQ(uhsfs_dir_writer_add(&w, &e), -ENOSPC);
    EXPECT_EQ(entries_of(blocks.at(0)).size(), UHSFS_BUCKET_ENTRIES);
}

TEST_F(Bucket, WriterStopsAtItsLastBlock) {
    uhsfs_dir_info info{1, 0, 0, 0};
    Blocks blocks(1);
    uhsfs_dir_writer w{};
    uhsfs_dir_writer_init(&w, blocks.data(), 1, &geo, dir_ino, dir_gen, 3, &info);
    const Entry entry = make(std::string(255, 'a'), 1);
    const uhsfs_dirent e = dirent_of(entry);

    for (u32 i = 0; i < UHSFS_BUCKET_PAYLOAD / UHSFS_DIRENT_MAX; i++)
        ASSERT_EQ(uhsfs_dir_writer_add(&w, &e), 0);
    EXPECT_EQ(uhsfs_dir_writer_add(&w, &e), -ENOSPC);
    EXPECT_EQ(info.overflow, 0U);
    EXPECT_EQ(blocks.at(0).next, 0U);
    EXPECT_EQ(w.count, 1U);
}

TEST_F(Bucket, WriterReportsThatOverflowNumbersAreUsedUp) {
    uhsfs_dir_info info{1, U32_MAX, 0, 0};
    Blocks blocks(2);
    uhsfs_dir_writer w{};
    uhsfs_dir_writer_init(&w, blocks.data(), 2, &geo, dir_ino, dir_gen, 3, &info);
    const Entry entry = make(std::string(255, 'a'), 1);
    const uhsfs_dirent e = dirent_of(entry);
    int err = 0;

    for (u32 i = 0; i <= UHSFS_BUCKET_PAYLOAD / UHSFS_DIRENT_MAX; i++)
        err = uhsfs_dir_writer_add(&w, &e);
    EXPECT_EQ(err, -ENOSPC);
    EXPECT_EQ(blocks.at(0).next, 0U);
}

}  // namespace
