// SPDX-License-Identifier: GPL-2.0
#include "extent.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "extent_model.hpp"
#include "support/random.hpp"
#include "tree_support.hpp"

namespace {

using uhsfs::test::BlockModel;
using uhsfs::test::Freed;
using uhsfs::test::Random;
using uhsfs::test::tree_geometry;

// An array with a guard behind it and the list over it.
struct TestList {
    explicit TestList(u32 capacity, u32 scale = 1, u32 snapshot = 0) : storage(capacity + 1) {
        std::memset(&storage[capacity], 0xa5, sizeof(storage[capacity]));
        list = {.extent = storage.data(),
                .count = 0,
                .capacity = capacity,
                .scale = scale,
                .snapshot = snapshot};
    }

    void check() const {
        static const auto geo = tree_geometry();
        uhsfs_extent_limits limits{};
        uhsfs_fault fault{};

        uhsfs_extent_limits_init(&limits, &geo, false);
        limits.max = 1ULL << UHSFS_EXTENT_BITS;
        ASSERT_LE(list.count, list.capacity);
        ASSERT_EQ(uhsfs_extent_array_check(list.extent, list.count, &limits, "list", 1, &fault), 0)
            << fault.field << " " << fault.value << " " << fault.rule;
        const std::array<unsigned char, sizeof(uhsfs_extent)> zero{};
        for (u32 i = list.count; i < list.capacity; i++)
            ASSERT_EQ(std::memcmp(&list.extent[i], zero.data(), zero.size()), 0) << i;
        ASSERT_EQ(le32_to_cpu(storage[list.capacity].len), 0xa5a5a5a5U) << "wrote past the array";
    }

    std::vector<uhsfs_extent> storage;
    uhsfs_extent_list list{};
};

BlockModel model_of(const TestList &t) {
    BlockModel model;

    for (u32 i = 0; i < t.list.count; i++) {
        uhsfs_ext ext{};
        uhsfs_extent_decode(&t.list.extent[i], &ext);
        model.set(ext, t.list.scale);
    }
    return model;
}

TEST(Extent, DecodesWhatItEncodes) {
    const uhsfs_ext ext = {.logical = (1ULL << 52) - 5,
                           .physical = (1ULL << 48) - 1,
                           .len = 5,
                           .birth = 0xfffffffe,
                           .flags = UHSFS_EXT_UNWRITTEN | UHSFS_EXT_SHARED};
    uhsfs_extent raw{};
    uhsfs_ext back{};

    uhsfs_extent_encode(&ext, &raw);
    uhsfs_extent_decode(&raw, &back);
    EXPECT_EQ(back.logical, ext.logical);
    EXPECT_EQ(back.physical, ext.physical);
    EXPECT_EQ(back.len, ext.len);
    EXPECT_EQ(back.birth, ext.birth);
    EXPECT_EQ(back.flags, ext.flags);
    EXPECT_EQ(le64_to_cpu(raw.physical) >> 52, 3U);
}

struct RawCase {
    const char *what;
    u64 logical, physical;
    u32 len;
    bool dir;
    bool good;
};

TEST(Extent, ChecksRangesAtTheirLimits) {
    auto geo = tree_geometry(2);
    geo.blocks = 10000;
    const std::vector<RawCase> cases = {
        {"plain", 0, 10, 1, false, true},
        {"no length", 0, 10, 0, false, false},
        {"block 0", 0, 0, 1, false, false},
        {"superblock", 0, 1, 1, false, false},
        {"superblock at the end", 0, 1000, 24, false, false},
        {"up to the superblock", 0, 1000, 23, false, true},
        {"last bitmap", 0, 5, 1, false, false},
        {"behind the bitmaps", 0, 6, 1, false, true},
        {"ends at the device's end", 0, 9999, 1, false, true},
        {"passes the device's end", 0, 9999, 2, false, false},
        {"begins at the device's end", 0, 10000, 1, false, false},
        {"last block of a file", (1ULL << 51) - 1, 10, 1, false, true},
        {"beyond the largest file", (1ULL << 51) - 1, 10, 2, false, false},
        {"logical flag", 1ULL << 52, 10, 1, false, false},
        {"unwritten", 0, 10 | 1ULL << 52, 1, false, true},
        {"shared", 0, 10 | 1ULL << 53, 1, false, true},
        {"unknown flag", 0, 10 | 1ULL << 54, 1, false, false},
        {"top flag", 0, 10 | 1ULL << 63, 1, false, false},
        {"both homes at the end", 0, 9998, 1, true, true},
        {"second home beyond", 0, 9999, 1, true, false},
        {"last overflow block", (2ULL << 32) - 1, 10, 1, true, true},
        {"beyond the last overflow block", (2ULL << 32) - 1, 10, 2, true, false},
        {"longest", 0, 1, 0xffffffff, false, false},
        {"longest, both homes", 0, 1, 0xffffffff, true, false},
    };

    for (const auto &c : cases) {
        uhsfs_extent raw{};
        uhsfs_fault fault{};

        raw.logical = cpu_to_le64(c.logical);
        raw.physical = cpu_to_le64(c.physical);
        raw.len = cpu_to_le32(c.len);
        EXPECT_EQ(uhsfs_extents_check(&geo, &raw, sizeof(raw), c.dir, 7, &fault),
                  c.good ? 0 : -EUCLEAN)
            << c.what;
        if (!c.good) {
            EXPECT_EQ(fault.id, 7U);
        }
    }
}

TEST(Extent, RefusesOverlapDisorderAndOddSizes) {
    const auto geo = tree_geometry();
    std::array<uhsfs_extent, 2> raw{};
    uhsfs_ext ext = {.logical = 10, .physical = 100, .len = 10, .birth = 1, .flags = 0};

    uhsfs_extent_encode(&ext, raw.data());
    ext.logical = 20;
    uhsfs_extent_encode(&ext, &raw[1]);
    EXPECT_EQ(uhsfs_extents_check(&geo, raw.data(), sizeof(raw), false, 1, nullptr), 0);
    EXPECT_EQ(uhsfs_extents_check(&geo, raw.data(), sizeof(raw) - 8, false, 1, nullptr), -EUCLEAN);
    EXPECT_EQ(uhsfs_extents_check(&geo, raw.data(), 0, false, 1, nullptr), -EUCLEAN);
    for (const u64 logical : {19ULL, 10ULL, 0ULL}) {
        ext.logical = logical;
        uhsfs_extent_encode(&ext, &raw[1]);
        EXPECT_EQ(uhsfs_extents_check(&geo, raw.data(), sizeof(raw), false, 1, nullptr), -EUCLEAN);
    }
}

TEST(ExtentList, MergesWhatContinuesAndNothingElse) {
    const uhsfs_ext base = {.logical = 100, .physical = 1000, .len = 10, .birth = 3, .flags = 0};
    const auto count_with = [&](uhsfs_ext more, u32 scale) {
        TestList t(4, scale, 3);
        EXPECT_EQ(uhsfs_list_insert(&t.list, &base), 0);
        EXPECT_EQ(uhsfs_list_insert(&t.list, &more), 0);
        if (more.len < 100)
            t.check();
        return t.list.count;
    };
    const uhsfs_ext next = {.logical = 110, .physical = 1010, .len = 5, .birth = 3, .flags = 0};
    uhsfs_ext other = next;

    EXPECT_EQ(count_with(next, 1), 1U);
    EXPECT_EQ(count_with(next, 2), 2U) << "two device blocks each";
    other.physical = 1020;
    EXPECT_EQ(count_with(other, 2), 1U);
    EXPECT_EQ(count_with(other, 1), 2U);
    other = next;
    other.birth = 4;
    EXPECT_EQ(count_with(other, 1), 2U) << "a snapshot has only one of them";
    other = next;
    other.flags = UHSFS_EXT_UNWRITTEN;
    EXPECT_EQ(count_with(other, 1), 2U);
    other = next;
    other.logical++;
    EXPECT_EQ(count_with(other, 1), 2U);
    other = {.logical = 95, .physical = 995, .len = 5, .birth = 3, .flags = 0};
    EXPECT_EQ(count_with(other, 1), 1U) << "before";
    other = next;
    other.len = 0xffffffff - 10;
    EXPECT_EQ(count_with(other, 1), 1U) << "the longest";
    other.len++;
    EXPECT_EQ(count_with(other, 1), 2U) << "longer than the longest";
}

// What a log of one block an epoch becomes.
std::vector<std::pair<u32, u32>> append_epochs(TestList &t, u32 first, u32 last) {
    std::vector<std::pair<u32, u32>> births;

    for (u32 epoch = first; epoch <= last; epoch++) {
        const uhsfs_ext ext = {
            .logical = epoch, .physical = 1000 + epoch, .len = 1, .birth = epoch, .flags = 0};
        EXPECT_EQ(uhsfs_list_insert(&t.list, &ext), 0);
    }
    for (u32 i = 0; i < t.list.count; i++) {
        uhsfs_ext ext{};
        uhsfs_extent_decode(&t.list.extent[i], &ext);
        births.emplace_back(ext.len, ext.birth);
    }
    return births;
}

TEST(ExtentList, MergesEpochsUpToTheNewestSnapshot) {
    using Births = std::vector<std::pair<u32, u32>>;
    TestList t(100);

    EXPECT_EQ(append_epochs(t, 1, 50), (Births{{50, 50}})) << "no snapshot";
    t.list.snapshot = 50;
    EXPECT_EQ(append_epochs(t, 51, 80), (Births{{50, 50}, {30, 80}}));
    t.list.snapshot = 80;
    EXPECT_EQ(append_epochs(t, 81, 90), (Births{{50, 50}, {30, 80}, {10, 90}}));
    t.list.snapshot = 50;  // the newest one was deleted
    EXPECT_EQ(append_epochs(t, 91, 91), (Births{{50, 50}, {30, 80}, {11, 91}})) << "not touched";
    EXPECT_EQ(uhsfs_list_convert(&t.list, 51, 1), 0);
    EXPECT_EQ(append_epochs(t, 92, 92), (Births{{50, 50}, {42, 92}})) << "touched";
    // In a snapshot, equal births still merge, other ones do not.
    TestList old(100, 1, 9);
    EXPECT_EQ(append_epochs(old, 1, 9).size(), 9U);
    const uhsfs_ext same = {.logical = 10, .physical = 1010, .len = 1, .birth = 9, .flags = 0};
    ASSERT_EQ(uhsfs_list_insert(&old.list, &same), 0);
    EXPECT_EQ(old.list.count, 9U);
    old.check();
}

// Merging keeps the newer birth whichever side it is on.
TEST(ExtentList, KeepsTheNewerBirthOfBothSides) {
    TestList t(4);
    const uhsfs_ext right = {.logical = 5, .physical = 15, .len = 5, .birth = 7, .flags = 0};
    const uhsfs_ext left = {.logical = 0, .physical = 10, .len = 5, .birth = 8, .flags = 0};
    uhsfs_ext ext{};
    u64 len = 0;

    ASSERT_EQ(uhsfs_list_insert(&t.list, &right), 0);
    ASSERT_EQ(uhsfs_list_insert(&t.list, &left), 0);
    ASSERT_EQ(t.list.count, 1U);
    ASSERT_TRUE(uhsfs_list_lookup(&t.list, 9, &ext, &len));
    EXPECT_EQ(ext.birth, 8U);
}

TEST(ExtentList, FillsAHoleBetweenTwoIntoOne) {
    TestList t(2);
    const uhsfs_ext left = {.logical = 0, .physical = 10, .len = 5, .birth = 1, .flags = 0};
    const uhsfs_ext right = {.logical = 10, .physical = 20, .len = 5, .birth = 1, .flags = 0};
    const uhsfs_ext middle = {.logical = 5, .physical = 15, .len = 5, .birth = 1, .flags = 0};
    const uhsfs_ext far = {.logical = 50, .physical = 15, .len = 5, .birth = 1, .flags = 0};

    ASSERT_EQ(uhsfs_list_insert(&t.list, &left), 0);
    ASSERT_EQ(uhsfs_list_insert(&t.list, &right), 0);
    EXPECT_EQ(uhsfs_list_insert(&t.list, &far), -ENOSPC);
    EXPECT_EQ(uhsfs_list_insert(&t.list, &left), -EEXIST);
    EXPECT_EQ(uhsfs_list_insert(&t.list, &middle), 0) << "a full list where it merges";
    EXPECT_EQ(t.list.count, 1U);
    t.check();
}

TEST(ExtentList, RefusesRangesThatAreNone) {
    TestList t(4);
    uhsfs_ext ext = {.logical = 1ULL << 52, .physical = 10, .len = 1, .birth = 0, .flags = 0};

    EXPECT_EQ(uhsfs_list_insert(&t.list, &ext), -EINVAL);
    ext.logical--;
    ext.len = 2;
    EXPECT_EQ(uhsfs_list_insert(&t.list, &ext), -EINVAL);
    ext.len = 0;
    EXPECT_EQ(uhsfs_list_replace(&t.list, &ext, nullptr), -EINVAL);
    EXPECT_EQ(uhsfs_list_punch(&t.list, 1, U64_MAX, nullptr), -EINVAL);
    EXPECT_EQ(uhsfs_list_convert(&t.list, 0, 0), -EINVAL);
    EXPECT_EQ(uhsfs_list_insert_range(&t.list, 0, 0, 1ULL << 52), -EINVAL);
    ext.len = 1;
    ASSERT_EQ(uhsfs_list_insert(&t.list, &ext), 0);
    EXPECT_EQ(uhsfs_list_insert_range(&t.list, 0, 1, 1ULL << 52), -EFBIG);
    EXPECT_EQ(uhsfs_list_truncate(&t.list, U64_MAX, nullptr), 0);
    EXPECT_EQ(t.list.count, 1U);
}

// Random changes of short lists against a map of single blocks; also with a callback
// that fails: then nothing may have changed.
void run_model(u64 seed, u32 capacity, u32 scale, u32 snapshot) {
    Random random(seed);
    SCOPED_TRACE(random.note());
    TestList t(capacity, scale, snapshot);
    BlockModel model;
    u64 physical = 10;

    for (int step = 0; step < 3000; step++) {
        const auto op = uhsfs::test::random_op(random, 60, 20, &physical, scale);
        const auto before = t.storage;
        const u32 count_before = t.list.count;
        Freed freed;
        freed.fail = random.between(0, 15) == 0 ? static_cast<long>(random.between(0, 2)) : -1;
        const int err = uhsfs::test::apply_list(&t.list, op, &freed);

        if (err != 0) {
            ASSERT_TRUE(err == -ENOSPC || err == -EEXIST || err == -EIO || err == -EFBIG) << err;
            ASSERT_EQ(t.list.count, count_before);
            ASSERT_EQ(
                std::memcmp(before.data(), t.storage.data(), before.size() * sizeof(before[0])), 0)
                << "a failed operation changed the list";
            if (err == -EEXIST) {
                ASSERT_TRUE(model.any(op.ext.logical, op.ext.len));
            }
            continue;
        }
        const auto expected = model.apply(op, scale);
        ASSERT_EQ(freed.blocks, expected) << "step " << step;
        t.check();
        ASSERT_TRUE(model.maps_as(model_of(t), snapshot, uhsfs::test::newest_birth))
            << "step " << step << " op " << static_cast<int>(op.kind);
        for (u64 logical = 0; logical < 70; logical++) {
            uhsfs_ext ext{};
            u64 len = 0;
            const bool found = uhsfs_list_lookup(&t.list, logical, &ext, &len);
            ASSERT_EQ(found, model.any(logical, 1));
            ASSERT_GT(len, 0U);
            if (!found) {
                ASSERT_FALSE(model.any(logical, len));
                ASSERT_TRUE(logical + len == 1ULL << 52 || model.any(logical + len, 1));
            }
        }
    }
}

TEST(ExtentList, MatchesAMapOfBlocks) {
    for (u64 i = 0; i < 12; i++) {
        const u32 capacity = i % 2 == 0 ? 100 : 7;
        const auto snapshot = static_cast<u32>(i / 6 * (1 + i % 3));  // 0, then 1 to 3
        run_model(uhsfs::test::seed() + i, capacity, i % 6 < 3 ? 1 : 2, snapshot);
        if (testing::Test::HasFatalFailure())
            return;
    }
}

TEST(ExtentList, ConvertsInAFullListWhereMergingMakesRoom) {
    TestList t(2);
    const uhsfs_ext written = {.logical = 0, .physical = 10, .len = 5, .birth = 1, .flags = 0};
    const uhsfs_ext unwritten = {
        .logical = 5, .physical = 15, .len = 5, .birth = 1, .flags = UHSFS_EXT_UNWRITTEN};

    ASSERT_EQ(uhsfs_list_insert(&t.list, &written), 0);
    ASSERT_EQ(uhsfs_list_insert(&t.list, &unwritten), 0);
    EXPECT_EQ(uhsfs_list_convert(&t.list, 6, 2), -ENOSPC) << "would be four";
    EXPECT_EQ(uhsfs_list_convert(&t.list, 8, 2), -ENOSPC) << "would be three";
    EXPECT_EQ(uhsfs_list_convert(&t.list, 5, 3), 0);
    EXPECT_EQ(t.list.count, 2U);
    EXPECT_EQ(uhsfs_list_convert(&t.list, 0, 100), 0);
    EXPECT_EQ(t.list.count, 1U);
    t.check();
}

TEST(Extent, IsLookedUpInTheSlotsRecord) {
    TestList t(3);
    u64 end = 0;

    for (const u64 logical : {5ULL, 20ULL, 1ULL << 40}) {
        const uhsfs_ext ext = {
            .logical = logical, .physical = 100 + 50 * end++, .len = 7, .birth = 1, .flags = 0};
        ASSERT_EQ(uhsfs_list_insert(&t.list, &ext), 0);
    }
    for (const u64 logical : {0ULL, 5ULL, 11ULL, 12ULL, 19ULL, 26ULL, 27ULL, (1ULL << 40) + 7}) {
        uhsfs_ext expected{};
        uhsfs_ext ext{};
        u64 expected_len = 0;
        u64 len = 0;
        const bool found = uhsfs_list_lookup(&t.list, logical, &expected, &expected_len);
        EXPECT_EQ(
            uhsfs_extents_lookup(t.list.extent, 3 * sizeof(uhsfs_extent), logical, &ext, &len),
            found);
        EXPECT_EQ(len, expected_len);
        EXPECT_EQ(ext.logical, expected.logical);
        EXPECT_EQ(ext.physical, expected.physical);
    }
    uhsfs_ext ext{};
    u64 len = 0;
    EXPECT_FALSE(uhsfs_extents_lookup(nullptr, 0, 9, &ext, &len)) << "no record: a hole";
    EXPECT_EQ(len, UHSFS_LOGICAL_END - 9);
}

}  // namespace
