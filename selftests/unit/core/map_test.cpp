// SPDX-License-Identifier: GPL-2.0
// Bit maps against std::vector<bool>, and their records.
#include "map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/random.hpp"

namespace {

using uhsfs::test::Random;

uhsfs_geometry geometry(u64 blocks, u32 homes) {
    uhsfs_geometry geo{};
    geo.fsid = 99;
    geo.blocks = blocks;
    geo.homes = homes;
    geo.slot_size = 1024;
    geo.slots_per_block = 4;
    geo.slots_per_chunk = 64;
    geo.erase_unit = 512;
    return geo;
}

u32 model_next(const std::vector<bool> &bits, u32 n, u32 from, bool set) {
    while (from < n && bits[from] != set) {
        from++;
    }
    return from < n ? from : n;
}

u32 model_find(const std::vector<bool> &bits, u32 n, u32 from, u32 want, u32 align) {
    for (u32 start = from; start < n; start++) {
        if (start % align == 0 && want <= n - start &&
            model_next(bits, start + want, start, true) == start + want) {
            return start;
        }
    }
    return n;
}

u32 model_longest(const std::vector<bool> &bits, u32 n, u32 from) {
    u32 best = 0;
    u32 run = 0;
    for (u32 i = from; i < n; i++) {
        run = bits[i] ? 0 : run + 1;
        best = std::max(best, run);
    }
    return best;
}

TEST(Map, SearchesAgreeWithAModel) {
    Random random;
    SCOPED_TRACE(random.note());
    for (int round = 0; round < 300; round++) {
        const u32 n = static_cast<u32>(random.between(1, 700));
        std::vector<u8> bits(96, 0);
        std::vector<bool> model(96 * 8, false);
        const u64 fills = random.between(0, 12);
        for (u64 i = 0; i < fills; i++) {
            const u32 from = static_cast<u32>(random.between(0, 96 * 8 - 1));
            const u32 len = static_cast<u32>(random.between(0, 96 * 8 - from));
            const bool set = random.between(0, 2) != 0;
            uhsfs_map_fill(bits.data(), from, len, set);
            for (u32 b = from; b < from + len; b++) {
                model[b] = set;
            }
        }
        for (u32 b = 0; b < model.size(); b++) {
            ASSERT_EQ(uhsfs_map_test(bits.data(), b), model[b]);
        }
        EXPECT_EQ(uhsfs_map_count(bits.data(), n),
                  static_cast<u32>(std::count(model.begin(), model.begin() + n, true)));
        for (int i = 0; i < 30; i++) {
            const u32 from = static_cast<u32>(random.between(0, n));
            const u32 want = static_cast<u32>(random.between(1, 80));
            const u32 align = 1U << random.between(0, 6);
            ASSERT_EQ(uhsfs_map_next(bits.data(), n, from, true), model_next(model, n, from, true));
            ASSERT_EQ(uhsfs_map_next(bits.data(), n, from, false),
                      model_next(model, n, from, false));
            ASSERT_EQ(uhsfs_map_find(bits.data(), n, from, want, align),
                      model_find(model, n, from, want, align))
                << "n " << n << " from " << from << " want " << want << " align " << align;
            u32 start = n;
            const u32 longest = uhsfs_map_longest(bits.data(), n, from, U32_MAX, &start);
            ASSERT_EQ(longest, model_longest(model, n, from));
            if (longest != 0) {
                ASSERT_GE(start, from);
                ASSERT_EQ(model_next(model, n, start, true), start + longest);
            }
        }
    }
}

TEST(Map, SingleBits) {
    u8 bits[8] = {};
    uhsfs_map_set(bits, 9);
    EXPECT_EQ(bits[1], 2);  // little-endian bit order, as on disk
    uhsfs_map_set(bits, 9);
    EXPECT_EQ(uhsfs_map_count(bits, 64), 1U);
    uhsfs_map_clear(bits, 9);
    EXPECT_EQ(uhsfs_map_count(bits, 64), 0U);
}

TEST(Map, EveryFlippedByteOfABlockIsFound) {
    const uhsfs_geometry geo = geometry(100000, 1);
    for (const auto kind : {UHSFS_MAP_BITMAP, UHSFS_MAP_INTENT, UHSFS_MAP_SUSPECT}) {
        const uhsfs_map_id id = {kind, 2, 64};
        uhsfs_map_block map;
        uhsfs_map_init(&map, &geo, &id, uhsfs_seq_make(2, 1), kind == UHSFS_MAP_BITMAP ? 0 : 2);
        uhsfs_map_fill(map.bits, 100, 999, true);
        uhsfs_map_seal(&map);
        uhsfs_fault fault{};
        ASSERT_EQ(uhsfs_map_check(&map, &geo, &id, &fault), 0) << fault.field;
        auto *bytes = reinterpret_cast<u8 *>(&map);
        for (size_t i = 0; i < sizeof(map); i++) {
            bytes[i] ^= 0x10;
            EXPECT_EQ(uhsfs_map_check(&map, &geo, &id, nullptr), -EUCLEAN) << i;
            // A right checksum does not make wrong fields right (bits and epoch are data).
            uhsfs_record_seal(&map, sizeof(map));
            const bool data = i >= offsetof(uhsfs_map_block, epoch) &&
                              i < offsetof(uhsfs_map_block, set) && kind != UHSFS_MAP_BITMAP;
            const bool seq = i >= offsetof(uhsfs_header, seq) && i < sizeof(uhsfs_header);
            const bool crc = i >= 4 && i < 8;
            const bool fits = data || seq || crc;
            EXPECT_EQ(uhsfs_map_check(&map, &geo, &id, nullptr), fits ? 0 : -EUCLEAN)
                << "kind " << kind << " byte " << i;
            bytes[i] ^= 0x10;
            uhsfs_map_seal(&map);
        }
    }
}

TEST(Map, AnOlderEpochMeansClear) {
    const uhsfs_geometry geo = geometry(100000, 1);
    const uhsfs_map_id id = {UHSFS_MAP_INTENT, 7, 0};
    uhsfs_map_block map;
    uhsfs_map_init(&map, &geo, &id, uhsfs_seq_make(8, 0), 8);
    EXPECT_TRUE(uhsfs_map_live(&map, 7));
    EXPECT_FALSE(uhsfs_map_live(&map, 8));
    EXPECT_FALSE(uhsfs_map_live(&map, 9));
}

TEST(Group, CountsAndSizesOfGroups) {
    const auto count = [](u64 blocks) {
        const uhsfs_geometry geo = geometry(blocks, 1);
        return uhsfs_group_count(&geo);
    };
    EXPECT_EQ(count(UHSFS_MIN_BLOCKS), 1U);
    EXPECT_EQ(count(32768), 1U);
    EXPECT_EQ(count(32768 + 63), 1U);
    EXPECT_EQ(count(32768 + 64), 2U);
    EXPECT_EQ(count(UHSFS_MAX_BLOCKS), UHSFS_MAX_BLOCKS / UHSFS_GROUP_BLOCKS);
    const uhsfs_geometry geo = geometry(32768 * 2 + 100, 2);
    EXPECT_EQ(uhsfs_group_blocks(&geo, 0), 32768U);
    EXPECT_EQ(uhsfs_group_blocks(&geo, 2), 100U);
    EXPECT_EQ(uhsfs_super_block(&geo, 1), 32767U);
    EXPECT_EQ(uhsfs_bitmap_home(&geo, 1, 1), 32768U + 2 + 2);
}

TEST(Group, OnlySpaceThatCanBeAllocatedIsARange) {
    const uhsfs_geometry geo = geometry(32768 * 3 + 10, 2);  // the last 10 blocks are unused
    EXPECT_TRUE(uhsfs_space_ok(&geo, 6, 1));
    EXPECT_TRUE(uhsfs_space_ok(&geo, 6, 32767 - 6));
    EXPECT_FALSE(uhsfs_space_ok(&geo, 6, 32768 - 6));  // superblock 1
    EXPECT_FALSE(uhsfs_space_ok(&geo, 0, 1));
    EXPECT_FALSE(uhsfs_space_ok(&geo, 1, 1));
    for (u64 block = 2; block < 6; block++) {
        EXPECT_FALSE(uhsfs_space_ok(&geo, block, 1)) << block;
        EXPECT_FALSE(uhsfs_space_ok(&geo, 32768 + block, 1)) << block;
    }
    EXPECT_TRUE(uhsfs_space_ok(&geo, 32768 + 6, 32768 + 2 - 6));  // up to the next bitmaps
    EXPECT_FALSE(uhsfs_space_ok(&geo, 32768 + 6, 32768 + 3 - 6));
    EXPECT_TRUE(uhsfs_space_ok(&geo, 65536 + 6, 32768 - 6));
    EXPECT_FALSE(uhsfs_space_ok(&geo, 65536 + 6, 32768 - 5));  // no such group
    EXPECT_FALSE(uhsfs_space_ok(&geo, 6, 0));
    EXPECT_FALSE(uhsfs_space_ok(&geo, U64_MAX, 2));
    EXPECT_FALSE(uhsfs_space_ok(&geo, 6, U64_MAX));
    const uhsfs_geometry small = geometry(5000, 1);
    EXPECT_FALSE(uhsfs_space_ok(&small, 1020, 4));  // superblock 1 of a small one
    EXPECT_TRUE(uhsfs_space_ok(&small, 1024, 5000 - 1024));
}

TEST(Group, TheZoneStandsInTheFirstHalf) {
    const uhsfs_geometry geo = geometry(100000, 1);
    for (const u64 index : {4U, 5U}) {
        const uhsfs_map_id id = {UHSFS_MAP_BITMAP, 2, index};
        uhsfs_map_block map;
        uhsfs_map_init(&map, &geo, &id, 1, 0);
        map.zone = UHSFS_ZONE_LARGE;
        uhsfs_map_seal(&map);
        EXPECT_EQ(uhsfs_map_check(&map, &geo, &id, nullptr), index % 2 == 0 ? 0 : -EUCLEAN);
    }
}

TEST(Group, WhatIsReservedInAnEmptyFilesystem) {
    for (const u32 homes : {1U, 2U}) {
        const uhsfs_geometry geo = geometry(32768 + 1000, homes);
        std::vector<u8> bits(UHSFS_GROUP_BLOCKS / 8, 0);
        uhsfs_group_reserve(&geo, 0, bits.data());
        EXPECT_EQ(uhsfs_map_count(bits.data(), UHSFS_GROUP_BLOCKS), 3 + 2 * homes);
        EXPECT_TRUE(uhsfs_map_test(bits.data(), 0));
        EXPECT_TRUE(uhsfs_map_test(bits.data(), 1));
        EXPECT_TRUE(uhsfs_map_test(bits.data(), 1 + 2 * homes));
        EXPECT_FALSE(uhsfs_map_test(bits.data(), 2 + 2 * homes));
        EXPECT_TRUE(uhsfs_map_test(bits.data(), 32767));
        std::fill(bits.begin(), bits.end(), 0);
        uhsfs_group_reserve(&geo, 1, bits.data());
        EXPECT_EQ(uhsfs_map_count(bits.data(), 1000), 2 * homes);
        EXPECT_EQ(uhsfs_map_next(bits.data(), UHSFS_GROUP_BLOCKS, 1000, false),
                  static_cast<u32>(UHSFS_GROUP_BLOCKS));
    }
}

}  // namespace
