// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/allocator.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "libuhsfs/layout.hpp"
#include "support/random.hpp"

namespace {

using namespace uhsfs;
using uhsfs::test::Random;

uhsfs_geometry geometry(std::uint64_t blocks, unsigned unit, bool shadow = true) {
    const auto info = make_layout({.blocks = blocks, .erase_unit = unit, .shadow = shadow},
                                  KeySource::repeatable({}, 1));

    EXPECT_TRUE(info) << info.error().to_string();
    return info->geo;
}

TEST(Allocator, LargeRunsBeginAtEraseUnits) {
    const auto geo = geometry(3 * 32768, 512);
    BlockAllocator space(geo, 0);

    for (const std::uint64_t want : {512, 2304, 700, 5000}) {
        const auto run = space.some(Zone::large, want);
        ASSERT_TRUE(run);
        EXPECT_EQ(run->count, want);
        EXPECT_EQ(run->block % 512, 0U) << want;
        EXPECT_EQ(space.zone(run->block / UHSFS_GROUP_BLOCKS), UHSFS_ZONE_LARGE);
    }
}

TEST(Allocator, SmallPiecesOfTheLargeZoneStandNextToEachOther) {
    const auto geo = geometry(3 * 32768, 512);
    BlockAllocator space(geo, 0);
    // Behind the bitmaps of the group.
    ASSERT_TRUE(space.some(Zone::large, 512));
    const auto first = space.some(Zone::large, 1);

    ASSERT_TRUE(first);
    for (std::uint64_t i = 1; i < 2000; i++) {
        const auto run = space.some(Zone::large, 1);
        ASSERT_TRUE(run);
        EXPECT_EQ(run->block, first->block + i);
    }
}

TEST(Allocator, TakesFreedBlocksAgain) {
    const auto geo = geometry(3 * 32768, 512);
    for (const Zone zone : {Zone::small, Zone::large}) {
        BlockAllocator space(geo, 0);
        ASSERT_TRUE(space.some(zone, 10));
        const auto run = space.some(zone, 1000);
        ASSERT_TRUE(run);
        space.free(*run);
        const auto again = space.some(zone, 1000);
        ASSERT_TRUE(again);
        EXPECT_EQ(again->block, run->block);
    }
}

// Content of pieces of one kind until three quarters are full: then there is still room for
// as many inode chunks as what is left would take.
TEST(Allocator, LeavesRoomForChunks) {
    for (const std::uint64_t blocks : {1024, 4096, 40000, 3 * 32768})
        for (const unsigned unit : {16U, 64U, 512U, 16384U})
            for (const std::uint64_t piece : {1, 7, 9, 11, 17, 33, 300, 700}) {
                SCOPED_TRACE(fmt::format("{} blocks, unit {}, pieces of {}", blocks, unit, piece));
                const auto geo = geometry(blocks, unit);
                BlockAllocator space(geo, 0);
                const std::uint64_t all = space.free_blocks();
                while (space.free_blocks() > all / 4 + piece) {
                    for (std::uint64_t got = 0; got < piece;) {
                        const auto run = space.some(Zone::large, piece - got);
                        ASSERT_TRUE(run);
                        got += run->count;
                    }
                }
                const std::uint64_t left = space.free_blocks();
                const auto chunk = static_cast<std::uint32_t>(uhsfs_chunk_blocks(&geo));
                std::uint64_t chunks = 0;
                while (space.contiguous(chunk))
                    chunks++;
                EXPECT_GE(chunks * chunk, left * 2 / 3);
            }
}

// Whatever was asked for before: the last block can be had, and none is given twice.
TEST(Allocator, OnlyAFullFilesystemIsFull) {
    Random random;
    SCOPED_TRACE(random.note());
    for (int round = 0; round < 40; round++) {
        const std::uint64_t blocks = random.between(1024, 100000);
        const std::uint64_t reserve = random.between(0, 200);
        const auto geo = geometry(blocks, 16U << random.between(0, 10));
        BlockAllocator space(geo, reserve);
        const std::uint64_t all = space.free_blocks();
        std::vector<bool> taken(geo.blocks);
        std::uint64_t got = 0;
        const auto take = [&](const uhsfs::Run &run) {
            ASSERT_LE(run.block + run.count, geo.blocks);
            ASSERT_EQ(run.block / UHSFS_GROUP_BLOCKS,
                      (run.block + run.count - 1) / UHSFS_GROUP_BLOCKS);
            for (std::uint64_t i = run.block; i < run.block + run.count; i++) {
                ASSERT_FALSE(taken[i]) << i;
                taken[i] = true;
            }
            got += run.count;
        };
        for (int i = 0; i < 3000; i++) {
            std::optional<uhsfs::Run> run;
            std::uint32_t granule = random.between(0, 3) == 0 ? 2 : 1;
            const std::uint64_t want =
                granule * random.between(1, std::uint64_t{1} << random.between(1, 9));
            switch (random.between(0, 3)) {
                case 0:
                    granule = 1;
                    run = space.contiguous(static_cast<std::uint32_t>(random.between(1, 64)));
                    break;
                case 1:
                    run = space.some(Zone::small, want, granule);
                    break;
                default:
                    run = space.some(Zone::large, want, granule);
                    break;
            }
            if (!run)
                continue;
            EXPECT_EQ(run->count % granule, 0U);
            if (random.between(0, 9) == 0) {
                space.free(*run);
                continue;
            }
            ASSERT_NO_FATAL_FAILURE(take(*run));
        }
        while (const auto run = space.some(random.between(0, 1) == 0 ? Zone::small : Zone::large,
                                           random.between(1, 300)))
            ASSERT_NO_FATAL_FAILURE(take(*run));
        EXPECT_EQ(got, all - reserve);
        EXPECT_EQ(space.free_blocks(), reserve);
    }
}

}  // namespace
