// SPDX-License-Identifier: GPL-2.0
/*
 * What copies of homes, bitmaps and chunk descriptors say of themselves: seqs, zones, births.
 */
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "libuhsfs/check.hpp"
#include "libuhsfs/check_support.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::test;

// Copy 1 of each kind of home says something else and has the seq of copy 0.
TEST(Check, CopiesOfOneSeqThatDifferAreFound) {
    const Image image({.slot_size = 1024, .shadow = true});
    const Volume at = image.volume();
    struct Case {
        const char *object;
        std::uint64_t home;
        std::size_t byte;    // one that no check of the record looks at
        std::size_t record;  // bytes
    };
    const std::uint64_t table = must(at.table_block(0)).home.block;
    const std::uint64_t bucket = image.chain("many", 0).front();
    const std::vector<Case> cases = {
        {"bitmap", uhsfs_bitmap_home(&at.geo(), 0, 1), 2048, block_size},
        {"chunk table", table, offsetof(uhsfs_table_block, chunk[0].gen_base), block_size},
        {"intent map", must(at.chunk_map(0, 0)).home.block, 2048, block_size},
        {"suspect map", must(at.chunk_map(0, UHSFS_MAP_WHICH_SUSPECT)).home.block, 2048,
         block_size},
        {"bucket", bucket, offsetof(uhsfs_bucket, entries) + offsetof(uhsfs_entry, gen),
         block_size},
        {"slot block", must(at.slot_block(image.ino("data"))).home.block,
         1024 + offsetof(uhsfs_slot, mtime), 1024},
    };

    EXPECT_CLEAN(image.check());
    for (const Case &c : cases) {
        std::vector<std::uint8_t> before(block_size);
        image.edit_block(c.home + 1, [&](std::uint8_t *bytes) {
            std::memcpy(before.data(), bytes, block_size);
            bytes[c.byte] ^= 2;
            if (std::string_view(c.object).ends_with("map"))
                uhsfs_map_seal(reinterpret_cast<uhsfs_map_block *>(bytes));
            else
                uhsfs_record_seal(bytes + c.byte / c.record * c.record, c.record);
        });
        const CheckReport report = image.check();
        EXPECT_FINDING(report, c.object, c.home, "seq");
        EXPECT_EQ(report.findings_total, 1U) << all_text(report);
        image.edit_block(c.home + 1, [&](std::uint8_t *bytes) {
            std::memcpy(bytes, before.data(), block_size);
        });
    }
    EXPECT_CLEAN(image.check());
    // The second superblock is copy 1.
    const std::uint64_t seq = at.super().seq;
    image.edit_super([&](uhsfs_super_info &info) {
        info.seq = seq;
        info.mounts = 3;
    });
    EXPECT_CLEAN(image.check());
    image.edit_super([](uhsfs_super_info &info) { info.mounts = 2; }, 1);
    EXPECT_FINDING(image.check(), "superblock", uhsfs_super_block(&at.geo(), 1), "seq");
}

TEST(Check, ZonesOfGroupsAreChecked) {
    const Image image({.blocks = 3 * UHSFS_GROUP_BLOCKS});
    const uhsfs_geometry geo = image.volume().geo();
    const auto set = [&](unsigned half, std::uint8_t zone) {
        const std::uint64_t block = uhsfs_bitmap_home(&geo, 0, half);
        image.edit_map(block, [&](uhsfs_map_block &map) { map.zone = zone; });
        return block;
    };

    set(0, UHSFS_ZONE_LARGE);
    EXPECT_CLEAN(image.check());
    const std::uint64_t first = set(0, UHSFS_ZONE_LARGE + 1);
    EXPECT_FINDING(image.check(), "bitmap", first, "zone");
    set(0, UHSFS_ZONE_UNASSIGNED);
    EXPECT_FINDING(image.check(), "bitmap", 0U, "zone");
    image.set_marked(0);
    EXPECT_CLEAN(image.check()) << "recovery gives it one";
    set(0, UHSFS_ZONE_SMALL);
    const std::uint64_t second = set(1, UHSFS_ZONE_SMALL);
    EXPECT_FINDING(image.check(), "bitmap", second, "zone");
}

TEST(Check, ChunksOfTheFutureAreFound) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();
    const std::uint32_t epoch = image.volume().super().epoch;

    image.edit<uhsfs_table_block>(
        block, [&](uhsfs_table_block &table) { table.chunk[0].birth = cpu_to_le32(epoch + 1); });
    EXPECT_FINDING(image.check(), "chunk", 0U, "birth");
    image.set_marked(0);
    EXPECT_CLEAN(image.check());
}

// Made, and then power was lost before anything said so.
TEST(Check, ChunkThatWasNeverUsedIsNoFinding) {
    const Image image;
    const Volume at = image.volume();
    const std::uint64_t block = must(at.table_block(0)).home.chosen_block();
    const std::uint64_t number = at.super().chunks_used;
    const auto make = [&](std::uint32_t birth) {
        image.edit<uhsfs_table_block>(block, [&](uhsfs_table_block &table) {
            uhsfs_chunk_info chunk = {};
            // On blocks that something else got since.
            chunk.block = must(at.chunk(0)).block;
            chunk.incarnation = 1;
            chunk.nonce = uhsfs_chunk_nonce(&at.geo(), number, 1);
            chunk.birth = birth;
            uhsfs_chunk_encode(&chunk, &table.chunk[number]);
        });
    };

    image.raise_seq(at.super().epoch + 1);
    make(at.super().epoch + 1);
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_NOTE(report, "chunk", number, "birth");
    make(at.super().epoch);
    EXPECT_FINDING(image.check(), "chunk", number, "descriptor");
}

}  // namespace
