// SPDX-License-Identifier: GPL-2.0
// Places of slots, descriptors and map bits; the chunk table.
#include "chunk.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

namespace {

uhsfs_super_info volume(u32 homes, u32 slot_size) {
    uhsfs_super_info info{};
    info.geo.fsid = 5;
    info.geo.blocks = 1000000;
    info.geo.homes = homes;
    info.geo.slot_size = slot_size;
    info.geo.slots_per_block = 4096 / slot_size;
    info.geo.slots_per_chunk = info.geo.slots_per_block * UHSFS_CHUNK_BLOCKS;
    info.segments = 2;
    info.segment[0] = {0, 20000, 1000, {3000, 3100}, 3200};
    info.segment[1] = {20000, 300, 4000, {5000, 5100}, 5200};
    return info;
}

TEST(Chunk, NoTwoSlotsShareAPlace) {
    for (const u32 homes : {1U, 2U}) {
        for (const u32 size : {1024U, 2048U, 4096U}) {
            const uhsfs_geometry geo = volume(homes, size).geo;
            std::set<std::pair<u64, u32>> places;
            for (u64 ino = 3 * geo.slots_per_chunk; ino < 4 * geo.slots_per_chunk; ino++) {
                const u64 home = uhsfs_slot_home(&geo, 7000, ino);
                const u32 offset = uhsfs_slot_offset(&geo, ino);
                EXPECT_EQ(uhsfs_ino_chunk(&geo, ino), 3U);
                EXPECT_GE(home, 7000U);
                EXPECT_LE(home + homes, 7000U + uhsfs_chunk_blocks(&geo));
                EXPECT_EQ((home - 7000) % homes, 0U);
                EXPECT_LE(offset + size, 4096U);
                EXPECT_TRUE(places.emplace(home, offset).second) << ino;
            }
            EXPECT_EQ(places.size(), geo.slots_per_chunk);
        }
    }
}

TEST(Chunk, EveryChunkHasOnePlaceInTableAndMaps) {
    const uhsfs_super_info info = volume(2, 1024);
    std::map<std::pair<u64, u32>, u64> table;
    std::map<std::pair<u64, u32>, u64> maps[3];
    uhsfs_place place;
    for (u64 chunk = 0; chunk < 20300; chunk++) {
        ASSERT_TRUE(uhsfs_chunk_table_place(&info, chunk, &place));
        ASSERT_LT(place.index, static_cast<u32>(UHSFS_TABLE_CHUNKS));
        ASSERT_EQ(place.first + place.index, chunk);
        ASSERT_TRUE(table.emplace(std::pair(place.home, place.index), chunk).second) << chunk;
        for (unsigned which = 0; which < 3; which++) {
            ASSERT_TRUE(uhsfs_chunk_map_place(&info, chunk, which, &place));
            ASSERT_LT(place.index, static_cast<u32>(UHSFS_MAP_BITS));
            ASSERT_EQ(place.first + place.index, chunk);
            ASSERT_TRUE(maps[which].emplace(std::pair(place.home, place.index), chunk).second);
        }
    }
    // The regions end where the superblock's check expects them to.
    EXPECT_EQ(table.lower_bound({4000, 0})->second, 20000U);
    EXPECT_EQ(std::prev(table.lower_bound({4000, 0}))->first.first,
              1000 + (DIV_ROUND_UP(20000, UHSFS_TABLE_CHUNKS) - 1) * 2);
    EXPECT_FALSE(uhsfs_chunk_table_place(&info, 20300, &place));
    EXPECT_FALSE(uhsfs_chunk_map_place(&info, 20300, 0, &place));
}

TEST(Chunk, NoncesDifferByChunkIncarnationAndKey) {
    uhsfs_geometry geo = volume(1, 1024).geo;
    std::set<u64> seen;
    for (u64 chunk = 0; chunk < 200; chunk++) {
        for (u32 incarnation = 0; incarnation < 20; incarnation++) {
            EXPECT_TRUE(seen.insert(uhsfs_chunk_nonce(&geo, chunk, incarnation)).second);
        }
    }
    geo.nonce_key[3] ^= 1;
    EXPECT_TRUE(seen.insert(uhsfs_chunk_nonce(&geo, 0, 0)).second);
    EXPECT_FALSE(seen.contains(0));
}

TEST(Chunk, MaskHasABitPerSlot) {
    uhsfs_geometry geo = volume(1, 1024).geo;
    EXPECT_EQ(uhsfs_chunk_slot_mask(&geo), U64_MAX);
    geo = volume(1, 4096).geo;
    EXPECT_EQ(uhsfs_chunk_slot_mask(&geo), 0xffffU);
}

// Epoch 7 is checkpointed; a mount drew epochs up to 9.
TEST(Chunk, MapsAreCheckedAgainstTheirPlace) {
    uhsfs_super_info info = volume(1, 1024);
    uhsfs_map_block map{};
    uhsfs_fault fault{};
    const auto check = [&](unsigned which, u64 first) -> std::string {
        const int err = uhsfs_chunk_map_check(&map, &info, which, first, &fault);
        return err == 0 ? "" : err == -EUCLEAN ? fault.field : "invalid";
    };

    info.epoch = 7;
    info.seq = uhsfs_seq_make(9, 1);
    EXPECT_EQ(check(0, 0), "") << "never used";
    EXPECT_EQ(check(1, 16384), "");
    EXPECT_EQ(check(2, 20000), "");
    EXPECT_EQ(check(0, 1), "invalid");
    EXPECT_EQ(check(0, 20001), "invalid");
    EXPECT_EQ(check(0, 20300), "invalid");
    // 20000 chunks: 16384 bits of the first block, 3616 of the second; 300 of the third.
    uhsfs_map_set(map.bits, 299);
    for (const u64 first : {0, 16384, 20000})
        EXPECT_EQ(check(2, first), "") << first;
    uhsfs_map_set(map.bits, 300);
    EXPECT_EQ(check(2, 20000), "bits");
    EXPECT_EQ(fault.value, 20300U);
    EXPECT_EQ(check(2, 16384), "");
    uhsfs_map_set(map.bits, 3616);
    EXPECT_EQ(check(1, 16384), "bits");
    uhsfs_map_set(map.bits, 16383);
    EXPECT_EQ(check(0, 0), "");
    for (u32 epoch = 1; epoch <= 9; epoch++) {
        map.epoch = cpu_to_le32(epoch);
        EXPECT_EQ(check(epoch & 1, 0), "") << epoch;
        EXPECT_EQ(check(1 - (epoch & 1), 0), "epoch") << epoch;
        EXPECT_EQ(check(2, 0), "") << epoch;
    }
    map.epoch = cpu_to_le32(10);
    for (unsigned which = 0; which < 3; which++)
        EXPECT_EQ(check(which, 0), "epoch") << "newer than the superblock";
    info.seq = uhsfs_seq_make(1000, 1);
    EXPECT_EQ(check(0, 0), "epoch") << "7 + 3";
    map.epoch = cpu_to_le32(9);
    EXPECT_EQ(check(1, 0), "");
}

TEST(Chunk, BornAfterTheCheckpointAndUnmarkedIsVoid) {
    uhsfs_chunk_info chunk{};

    chunk.birth = 8;
    EXPECT_FALSE(uhsfs_chunk_void(&chunk, 7, false)) << "never made";
    chunk.block = 100;
    EXPECT_TRUE(uhsfs_chunk_void(&chunk, 7, false));
    EXPECT_FALSE(uhsfs_chunk_void(&chunk, 7, true));
    EXPECT_FALSE(uhsfs_chunk_void(&chunk, 8, false));
}

class Table : public testing::Test {
protected:
    Table() : geo_(volume(1, 2048).geo) {
        uhsfs_table_init(&table_, &geo_, 1001, 63, uhsfs_seq_make(1, 1));
        for (u32 i = 0; i < 5; i++) {
            const uhsfs_chunk_info chunk = {
                9000 + i * 16, uhsfs_chunk_nonce(&geo_, 63 + i, i), 0x0000000ff, i, 1234 + i, 7,
                0x00ff};
            uhsfs_chunk_encode(&chunk, &table_.chunk[i]);
        }
        uhsfs_record_seal(&table_, sizeof(table_));
    }

    int check(uhsfs_fault *fault = nullptr) {
        return uhsfs_table_check(&table_, &geo_, 1001, 63, 110, fault);
    }

    std::string rejected(const std::function<void(uhsfs_table_block &)> &change) {
        const uhsfs_table_block before = table_;
        change(table_);
        uhsfs_record_seal(&table_, sizeof(table_));
        uhsfs_fault fault{};
        fault.field = "accepted";
        check(&fault);
        table_ = before;
        return fault.field;
    }

    uhsfs_geometry geo_;
    uhsfs_table_block table_;
};

TEST_F(Table, WhatIsEncodedComesBack) {
    uhsfs_fault fault{};
    ASSERT_EQ(check(&fault), 0) << fault.field;
    uhsfs_chunk_info chunk;
    uhsfs_chunk_decode(&table_.chunk[4], &chunk);
    EXPECT_EQ(chunk.block, 9064U);
    EXPECT_EQ(chunk.incarnation, 4U);
    EXPECT_EQ(chunk.gen_base, 1238U);
    EXPECT_EQ(chunk.in_use, 0xffU);
    EXPECT_EQ(chunk.birth, 7U);
    EXPECT_EQ(chunk.written, 0xffU);
}

TEST_F(Table, EveryFlippedByteIsFound) {
    auto *bytes = reinterpret_cast<u8 *>(&table_);
    for (size_t i = 0; i < sizeof(table_); i++) {
        bytes[i] ^= 0x80;
        EXPECT_EQ(check(), -EUCLEAN) << i;
        bytes[i] ^= 0x80;
    }
}

TEST_F(Table, WrongFieldsAreNamed) {
    EXPECT_EQ(rejected([](auto &) {}), "accepted");
    EXPECT_EQ(rejected([](auto &t) { t.first_chunk = cpu_to_le64(64); }), "first_chunk");
    EXPECT_EQ(rejected([](auto &t) { t.reserved = cpu_to_le64(1); }), "reserved");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].reserved[2] = cpu_to_le64(1); }), "reserved");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].block = cpu_to_le64(999990); }), "block");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].block = 0; }), "block");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].nonce ^= 1; }), "nonce");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].incarnation = cpu_to_le32(9); }), "nonce");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].in_use = cpu_to_le64(1ULL << 32); }), "in_use");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].written = cpu_to_le16(0x0e); }), "written");
    EXPECT_EQ(rejected([](auto &t) { t.chunk[2].reserved0 = 1; }), "reserved");
    // Chunk 110 lies past the segment's end.
    EXPECT_EQ(rejected([](auto &t) { t.chunk[47].incarnation = cpu_to_le32(1); }), "descriptor");
    // Space given back keeps the incarnation, so that the next nonce is another.
    EXPECT_EQ(rejected([](auto &t) {
                  t.chunk[2] = uhsfs_chunk{};
                  t.chunk[2].incarnation = cpu_to_le32(9);
              }),
              "accepted");
}

}  // namespace
