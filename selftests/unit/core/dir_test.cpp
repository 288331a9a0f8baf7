// SPDX-License-Identifier: GPL-2.0
//
// Hashing, policy and whole directories; single blocks are in bucket_test.cpp.
#include "dir.h"
#include "bytes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "dir_support.hpp"

namespace {

using namespace uhsfs::test;

// The definition in words of dir.h, on a string of bits.
u32 bucket_by_definition(u64 hash, u32 buckets) {
    u32 level = 0;
    while ((2ULL << level) <= buckets)
        level++;
    for (u32 bits = level + 1;; bits--) {
        u64 number = 0;
        for (u32 i = 0; i < bits; i++)
            number |= (hash >> (UHSFS_COOKIE_HASH_BITS - 1 - i) & 1) << i;
        if (number < buckets)
            return static_cast<u32>(number);
    }
}

u64 random_hash(Random &random) { return random.between(1, (1ULL << UHSFS_COOKIE_HASH_BITS) - 1); }

TEST(DirHash, BucketIsTheLeadingBitsReadBackwards) {
    Random random;
    SCOPED_TRACE(random.note());

    for (u32 buckets = 1; buckets < 600; buckets++) {
        for (int i = 0; i < 50; i++) {
            const u64 hash = random_hash(random);
            ASSERT_EQ(uhsfs_dir_bucket(hash, buckets), bucket_by_definition(hash, buckets))
                << "hash " << hash << " of " << buckets;
        }
    }
    for (int i = 0; i < 20000; i++) {
        const u64 hash = random_hash(random);
        const auto buckets = static_cast<u32>(random.between(1, UHSFS_DIR_MAX_BUCKETS));
        ASSERT_EQ(uhsfs_dir_bucket(hash, buckets), bucket_by_definition(hash, buckets));
        ASSERT_EQ(uhsfs_dir_bucket(hash, UHSFS_DIR_MAX_BUCKETS),
                  bucket_by_definition(hash, UHSFS_DIR_MAX_BUCKETS));
    }
}

TEST(DirHash, RangesTileAllCookies) {
    for (u32 buckets = 1; buckets < 600; buckets++) {
        std::set<u32> seen;
        u64 pos = 0;
        for (;;) {
            const u32 bucket = uhsfs_dir_bucket(uhsfs_cookie_hash(pos), buckets);
            u64 first = 0;
            u64 last = 0;
            uhsfs_dir_range(bucket, buckets, &first, &last);
            ASSERT_EQ(first, pos) << bucket << " of " << buckets;
            ASSERT_EQ(uhsfs_dir_bucket(uhsfs_cookie_hash(last), buckets), bucket);
            ASSERT_TRUE(seen.insert(bucket).second);
            if (last == UHSFS_COOKIE_END)
                break;
            pos = last + 1;
        }
        ASSERT_EQ(seen.size(), buckets);
    }
}

TEST(DirHash, RangesOfHugeDirectoriesAreThoseOfTheirBuckets) {
    Random random;
    SCOPED_TRACE(random.note());

    for (const u32 buckets : {UHSFS_DIR_MAX_BUCKETS, UHSFS_DIR_MAX_BUCKETS - 1, (1U << 30) + 1}) {
        for (int i = 0; i < 10000; i++) {
            const auto bucket = static_cast<u32>(random.between(0, buckets - 1));
            u64 first = 0;
            u64 last = 0;
            uhsfs_dir_range(bucket, buckets, &first, &last);
            ASSERT_LE(last, UHSFS_COOKIE_END);
            ASSERT_EQ(uhsfs_dir_bucket(uhsfs_cookie_hash(first), buckets), bucket);
            ASSERT_EQ(uhsfs_dir_bucket(uhsfs_cookie_hash(last), buckets), bucket);
            if (first > 0) {
                ASSERT_NE(uhsfs_dir_bucket(uhsfs_cookie_hash(first - 1), buckets), bucket);
            }
            if (last < UHSFS_COOKIE_END) {
                ASSERT_NE(uhsfs_dir_bucket(uhsfs_cookie_hash(last + 1), buckets), bucket);
            }
        }
    }
}

TEST(DirHash, GrowingDividesOneRangeAndNoOther) {
    for (u32 buckets = 1; buckets < 200; buckets++) {
        const u32 from = uhsfs_dir_split_from(buckets);
        ASSERT_LT(from, buckets);
        for (u32 bucket = 0; bucket < buckets; bucket++) {
            u64 before_first = 0;
            u64 before_last = 0;
            u64 first = 0;
            u64 last = 0;
            uhsfs_dir_range(bucket, buckets, &before_first, &before_last);
            uhsfs_dir_range(bucket, buckets + 1, &first, &last);
            ASSERT_EQ(first, before_first);
            if (bucket != from) {
                ASSERT_EQ(last, before_last);
                continue;
            }
            u64 new_first = 0;
            u64 new_last = 0;
            uhsfs_dir_range(buckets, buckets + 1, &new_first, &new_last);
            ASSERT_EQ(new_first, last + 1);
            ASSERT_EQ(new_last, before_last);
            ASSERT_EQ(new_last - new_first, last - first);
        }
    }
}

TEST(DirHash, IsTheLeadingPartOfSipHash) {
    uhsfs_geometry geo = dir_geometry();
    for (unsigned i = 0; i < sizeof(geo.hash_key); i++)
        geo.hash_key[i] = static_cast<u8>(i);
    const std::string message("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e", 15);

    // The example of the SipHash paper.
    EXPECT_EQ(hash_of(geo, message), 0xa129ca6149be45ULL);
}

TEST(DirName, LegalNames) {
    const auto ok = [](const std::string &name) {
        return uhsfs_name_legal(octets(name), name.size());
    };

    for (const char *name : {"a", "...", ".a", "..a", "a.", " ", "\xff"})
        EXPECT_TRUE(ok(name)) << name;
    EXPECT_TRUE(ok(std::string(255, 'a')));
    for (const char *name : {"", ".", "..", "/", "a/b"})
        EXPECT_FALSE(ok(name)) << name;
    EXPECT_FALSE(ok(std::string("a\0b", 3)));
    EXPECT_FALSE(ok(std::string(1, '\0')));
    EXPECT_FALSE(ok(std::string(256, 'a')));
}

// ---- root and policy ---------------------------------------------------------

TEST(DirRoot, DecodesWhatWasEncoded) {
    const uhsfs_dir_info in{7, 9, 1000000000000ULL, 12};
    unsigned char raw[sizeof(uhsfs_dir_root) + 1];
    uhsfs_dir_root root{};
    uhsfs_dir_info out{};

    uhsfs_dir_root_encode(&root, &in);
    std::memcpy(raw + 1, &root, sizeof(root));
    ASSERT_EQ(uhsfs_dir_root_decode(raw + 1, sizeof(root), 1, &out, nullptr), 0);
    EXPECT_EQ(out.buckets, in.buckets);
    EXPECT_EQ(out.overflow, in.overflow);
    EXPECT_EQ(out.entries, in.entries);
    EXPECT_EQ(out.subdirs, in.subdirs);
}

TEST(DirRoot, RefusesWhatCannotBe) {
    const auto field = [](const uhsfs_dir_info &info, u32 reserved, std::size_t len) {
        uhsfs_dir_root root{};
        uhsfs_dir_info out{};
        uhsfs_fault fault{};
        uhsfs_dir_root_encode(&root, &info);
        root.reserved = cpu_to_le32(reserved);
        const int err = uhsfs_dir_root_decode(&root, len, 42, &out, &fault);
        if (err == 0)
            return std::string("accepted");
        EXPECT_EQ(err, -EUCLEAN);
        EXPECT_EQ(fault.id, 42U);
        return std::string(fault.field);
    };
    constexpr auto size = sizeof(uhsfs_dir_root);
    constexpr u64 many = 1ULL << 40;

    EXPECT_EQ(field({UHSFS_DIR_MAX_BUCKETS, 0, many, UHSFS_LINK_MAX - 2}, 0, size), "accepted");
    EXPECT_EQ(field({1, 0, 0, 0}, 0, size), "accepted");
    EXPECT_EQ(field({1, 0, 0, 0}, 0, size - 1), "length");
    EXPECT_EQ(field({1, 0, 0, 0}, 0, size + 8), "length");
    EXPECT_EQ(field({0, 0, 0, 0}, 0, size), "buckets");
    EXPECT_EQ(field({UHSFS_DIR_MAX_BUCKETS + 1, 0, 0, 0}, 0, size), "buckets");
    EXPECT_EQ(field({1, 0, many, UHSFS_LINK_MAX - 1}, 0, size), "subdirs");
    EXPECT_EQ(field({1, 0, 3, 4}, 0, size), "subdirs");
    EXPECT_EQ(field({1, 0, 0, 0}, 1, size), "reserved");
}

TEST(DirPolicy, SurvivesAnyNumbers) {
    uhsfs_dir_info info{UHSFS_DIR_MAX_BUCKETS, U32_MAX, U64_MAX, 0};

    EXPECT_FALSE(uhsfs_dir_should_grow(&info, U64_MAX, 1));
    EXPECT_FALSE(uhsfs_dir_should_shrink(&info, 0, 0));
    info.buckets--;
    EXPECT_TRUE(uhsfs_dir_should_grow(&info, U64_MAX, 1));
    EXPECT_FALSE(uhsfs_dir_should_grow(&info, 0, 0)) << "a chain without entries is no reason";
    info.entries = 0;
    EXPECT_FALSE(uhsfs_dir_should_grow(&info, U64_MAX, U32_MAX));
    EXPECT_TRUE(uhsfs_dir_should_shrink(&info, 0, 0));
    EXPECT_EQ(uhsfs_dir_buckets_for(0), 1U);
    EXPECT_EQ(uhsfs_dir_buckets_for(U64_MAX), UHSFS_DIR_MAX_BUCKETS);
}

TEST(DirPolicy, NeitherLimitIsNearAfterANewIndex) {
    for (u64 entries = 100; entries < 100000000; entries *= 3) {
        const u64 bytes = entries * 40;
        const uhsfs_dir_info info{uhsfs_dir_buckets_for(bytes), 0, entries, 0};
        EXPECT_FALSE(uhsfs_dir_should_grow(&info, 40 * 101, 101)) << entries;
        EXPECT_FALSE(uhsfs_dir_should_shrink(&info, 40 * 50, 50)) << entries;
        uhsfs_dir_info fewer = info;
        fewer.entries = entries / 2;
        EXPECT_FALSE(uhsfs_dir_should_shrink(&fewer, 40 * 50, 50)) << entries;
    }
}

// What dir.h says to justify its 75 %.
TEST(DirPolicy, FewEntriesOverflowWhileADirectoryGrows) {
    Directory dir;
    Random random;
    SCOPED_TRACE(random.note());
    double worst = 0;
    double sum = 0;
    int samples = 0;
    u64 bytes = 0;

    for (u64 i = 0; i < 26000; i++) {
        Entry entry{random_name(random, 8, 24), i + 1, 1};
        ASSERT_EQ(dir.insert(entry), 1);
        bytes += uhsfs_dirent_size(static_cast<u8>(entry.name.size()));
        // A whole round of splits, from N = 128 to 256, lies in here.
        if (dir.info.buckets >= 128 && dir.info.buckets < 256 && i % 500 == 0) {
            const auto [over, total] = dir.overflowing();
            ASSERT_EQ(total, i + 1);
            const double share = static_cast<double>(over) / static_cast<double>(total);
            worst = std::max(worst, share);
            sum += share;
            samples++;
            const double fill =
                static_cast<double>(bytes) / UHSFS_BUCKET_PAYLOAD / dir.info.buckets;
            EXPECT_GT(fill, 0.70);
            EXPECT_LT(fill, 0.80);
        }
    }
    ASSERT_GT(samples, 10);
    RecordProperty("overflow_worst_per_mille", static_cast<int>(1000 * worst));
    RecordProperty("overflow_mean_per_mille", static_cast<int>(1000 * sum / samples));
    EXPECT_LT(worst, 1.0 / 12);
    EXPECT_LT(sum / samples, 1.0 / 20);
}

// ---- whole directories ----------------------------------------------------------

TEST(Dir, EqualHashesAreListedOnceAcrossSmallBuffers) {  // scenario 21
    for (std::size_t room = 1; room <= 9; room++) {
        for (const u32 capacity : {1U, 2U, 5U, 200U}) {
            Directory dir;
            std::set<u64> cookies;
            for (u64 ino = 1; ino <= UHSFS_COOKIE_TIES; ino++) {
                Entry entry{"twin", ino, 3};
                ASSERT_EQ(dir.insert(entry), 1);
                ASSERT_TRUE(cookies.insert(entry.cookie).second);
            }
            ASSERT_GT(dir.chain(dir.bucket_of("twin")).size(), 1U);
            Entry one_more{"twin", 1000, 3};
            ASSERT_EQ(dir.insert(one_more), -ENOSPC);

            std::set<u64> inos;
            u64 pos = UHSFS_COOKIE_FIRST;
            u64 before = 0;
            while (pos < UHSFS_COOKIE_END) {
                for (const Entry &entry : dir.list(pos, room, capacity)) {
                    ASSERT_GT(entry.cookie, before);
                    before = entry.cookie;
                    ASSERT_TRUE(inos.insert(entry.ino).second);
                }
            }
            ASSERT_EQ(inos.size(), UHSFS_COOKIE_TIES);

            // A tie-breaker given back is the next one taken.
            ASSERT_TRUE(dir.remove({"twin", 50, 3}));
            ASSERT_EQ(dir.insert(one_more), 1);
        }
    }
}

TEST(Dir, SplitsDropWhatEarlierSplitsLeftBehind) {
    Directory dir;
    Random random;
    SCOPED_TRACE(random.note());
    std::set<Entry> model;
    for (u64 i = 1; i <= 400; i++) {
        Entry entry{random_name(random, 3, 20), i, 1};
        ASSERT_EQ(dir.insert(entry, false), 1);
        model.insert(entry);
    }
    // The trims are never written, as after power cuts.  An entry is then removed from
    // where it belongs, and must not come back from where it was left.
    for (int step = 0; step < 6; step++)
        dir.grow(true);
    const Entry gone = *model.begin();
    ASSERT_TRUE(dir.remove(gone));
    model.erase(gone);
    const auto verify = [&] {
        u64 pos = 0;
        std::set<Entry> listed;
        for (const Entry &entry : dir.list(pos, 1000, 64))
            ASSERT_TRUE(listed.insert(entry).second) << entry.name;
        ASSERT_TRUE(listed == model);
    };
    verify();
    for (int step = 0; step < 20; step++) {
        dir.grow(step % 3 == 0);
        verify();
    }
    for (u32 bucket = 0; bucket < dir.info.buckets; bucket++)
        dir.trim(bucket);
    verify();
    const auto [over, total] = dir.overflowing();
    EXPECT_EQ(total, model.size());
    dir.shrink(3);
    verify();
}

TEST(Dir, ShrinkingIgnoresWhatSplitsLeftBehind) {
    Directory dir;
    std::set<Entry> model;
    for (u64 i = 1; i <= 300; i++) {
        Entry entry{"file" + std::to_string(i), i, 1};
        ASSERT_EQ(dir.insert(entry, false), 1);
        model.insert(entry);
    }
    for (int step = 0; step < 9; step++)
        dir.grow(true);
    dir.shrink(4);
    const auto [over, total] = dir.overflowing();
    EXPECT_EQ(total, model.size());
    for (const Entry &entry : model)
        ASSERT_EQ(dir.lookup(entry.name), std::vector<Entry>{entry});
}

TEST(Dir, TheSameEntriesAlwaysMakeTheSameBlocks) {
    Directory a;
    Directory b;
    for (Directory *dir : {&a, &b}) {
        for (u64 i = 1; i <= 3000; i++) {
            Entry entry{"name" + std::to_string(i), i, 1};
            ASSERT_EQ(dir->insert(entry), 1);
        }
        dir->shrink(10);
    }
    ASSERT_EQ(a.info.overflow, b.info.overflow);
    for (u32 bucket = 0; bucket < 10; bucket++) {
        const Chain left = a.chain(bucket);
        const Chain right = b.chain(bucket);
        ASSERT_EQ(left.size(), right.size());
        for (std::size_t i = 0; i < left.size(); i++)
            ASSERT_EQ(std::memcmp(left[i], right[i], sizeof(*left[i])), 0);
    }
}

// A readdir in small steps beside everything that happens to the directory.  What
// was there all the time is seen exactly once, what was not there at all never.
class Reader {
public:
    void step(Directory &dir, const std::set<Entry> &model, std::size_t room, u32 capacity) {
        for (const Entry &entry : dir.list(pos_, room, capacity)) {
            ASSERT_TRUE(model.count(entry)) << entry.name << " is listed but does not exist";
            ASSERT_GE(entry.cookie, next_) << "cookies must rise";
            next_ = entry.cookie + 1;
            ASSERT_TRUE(seen_.insert(entry).second) << entry.name << " is listed twice";
        }
        if (pos_ < UHSFS_COOKIE_END)
            return;
        for (const Entry &entry : steady_)
            ASSERT_TRUE(seen_.count(entry)) << entry.name << " is not listed";
        passes++;
        restart(model);
    }
    void restart(const std::set<Entry> &model) {
        pos_ = UHSFS_COOKIE_FIRST;
        next_ = 0;
        seen_.clear();
        steady_ = model;
    }
    void removed(const Entry &entry) {
        steady_.erase(entry);
        seen_.erase(entry);
    }
    int passes = 0;

private:
    u64 pos_ = UHSFS_COOKIE_FIRST;
    u64 next_ = 0;
    std::set<Entry> seen_;
    std::set<Entry> steady_;
};

void run_model(u64 seed, int operations, std::size_t longest) {
    Random random(seed);
    SCOPED_TRACE(random.note());
    Directory dir;
    std::set<Entry> model;
    std::vector<Reader> readers(3);
    u64 ino = 1;
    const auto any = [&] {
        auto at = model.lower_bound(Entry{random_name(random, 1, 2), 0, 0});
        return at == model.end() ? *model.begin() : *at;
    };

    for (int i = 0; i < operations; i++) {
        // Waves: the directory fills, then empties.
        const bool filling = i / 1500 % 2 == 0;
        const auto dice = random.between(0, 99);
        if (dice < (filling ? 60U : 15U)) {
            Entry entry{random_name(random, 1, longest), ino++, static_cast<u32>(dice)};
            if (!model.empty() && dice % 8 == 0)
                entry.name = any().name;  // a second entry of that name
            ASSERT_EQ(dir.insert(entry), 1);
            ASSERT_TRUE(model.insert(entry).second);
        } else if (dice < 75 && !model.empty()) {
            const Entry entry = any();
            ASSERT_TRUE(dir.remove(entry));
            ASSERT_FALSE(dir.remove(entry));
            for (Reader &reader : readers)
                reader.removed(entry);
            model.erase(entry);
        } else if (dice < 80 && !model.empty()) {
            Entry entry = any();
            const u64 cookie = entry.cookie;
            ASSERT_EQ(dir.insert(entry), 0) << "find-or-insert must find";
            ASSERT_EQ(entry.cookie, cookie);
        } else if (dice < 83) {
            dir.grow(dice == 81);
        } else if (dice == 83 && dir.info.buckets > 1) {
            // Whatever the size: a new index must be right at any ratio.
            dir.shrink(static_cast<u32>(random.between(1, dir.info.buckets - 1)));
        } else {
            const auto who = random.between(0, readers.size() - 1);
            readers[who].step(dir, model, random.between(1, 40),
                              static_cast<u32>(random.between(1, 70)));
        }
        if (testing::Test::HasFailure())
            return;
        if (i % 500 == 0) {
            for (const Entry &entry : model) {
                const auto found = dir.lookup(entry.name);
                ASSERT_EQ(std::count(found.begin(), found.end(), entry), 1) << entry.name;
            }
        }
    }
    for (const Reader &reader : readers)
        EXPECT_GT(reader.passes, 3);
}

TEST(Dir, BehavesAsASetUnderRandomOperationsWithShortNames) { run_model(seed(), 12000, 12); }
TEST(Dir, BehavesAsASetUnderRandomOperationsWithLongNames) { run_model(seed() + 1, 9000, 255); }

}  // namespace
