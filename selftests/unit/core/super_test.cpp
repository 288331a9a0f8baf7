// SPDX-License-Identifier: GPL-2.0
// Superblock: round trip, every byte, every bound.
#include "super.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "crc32c.h"
#include "record.h"
#include "support/random.hpp"

namespace {

uhsfs_super_info sample() {
    uhsfs_super_info info{};
    info.geo.fsid = 0xfeedface12345678;
    info.geo.blocks = 100000;
    info.geo.homes = 2;
    info.geo.slot_size = 1024;
    info.geo.slots_per_block = 4;
    info.geo.slots_per_chunk = 64;
    info.geo.erase_unit = 512;
    for (u8 i = 0; i < 16; i++) {
        info.geo.hash_key[i] = i;
        info.geo.nonce_key[i] = static_cast<u8>(100 + i);
        info.uuid[i] = static_cast<u8>(200 + i);
    }
    std::strcpy(info.label, "scratch");
    std::strcpy(info.writer, "mkfs.uhsfs 0.1.0");
    info.version = UHSFS_FORMAT_VERSION;
    info.seq = uhsfs_seq_make(5, 77);
    info.incompat = UHSFS_INCOMPAT_EXPERIMENTAL;
    info.atomic = UHSFS_ATOMIC_SHADOW;
    info.groups_used = 2;
    info.chunks_used = 3;
    info.reserve_blocks = 128;
    info.epoch = 5;
    info.free_blocks = 90000;
    info.used_slots = 100;
    info.made_ns = -1;
    info.mounted_ns = 1;
    info.checked_ns = 2;
    info.mounts = 9;
    info.segments = 2;
    info.segment[0] = {0, 400, 100, {120, 130}, 140};
    info.segment[1] = {400, 100, 5000, {5020, 5030}, 5040};
    return info;
}

// Encoded at copy 0, then changed; the checksum is made right again.
int decode_changed(const std::function<void(uhsfs_super &)> &change, uhsfs_fault *fault) {
    const uhsfs_super_info info = sample();
    uhsfs_super raw;
    uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
    change(raw);
    raw.crc = 0;
    raw.crc = cpu_to_le32(uhsfs_crc32c(0, &raw, sizeof(raw)));
    uhsfs_super_info out;
    return uhsfs_super_decode(&raw, UHSFS_SB_BLOCK, &out, fault);
}

TEST(Super, WhatIsEncodedComesBack) {
    const uhsfs_super_info info = sample();
    uhsfs_super raw;
    uhsfs_super_encode(&info, 32767, &raw);
    uhsfs_super_info out;
    uhsfs_fault fault{};
    ASSERT_EQ(uhsfs_super_decode(&raw, 32767, &out, &fault), 0) << fault.field;
    EXPECT_EQ(std::memcmp(&info, &out, sizeof(info)), 0);
    uhsfs_super again;
    uhsfs_super_encode(&out, 32767, &again);
    EXPECT_EQ(std::memcmp(&raw, &again, sizeof(raw)), 0);
}

TEST(Super, EveryFlippedByteIsFound) {
    const uhsfs_super_info info = sample();
    uhsfs_super raw;
    uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
    auto *bytes = reinterpret_cast<u8 *>(&raw);
    for (size_t i = 0; i < sizeof(raw); i++) {
        bytes[i] ^= 0x41;
        uhsfs_super_info out;
        EXPECT_EQ(uhsfs_super_decode(&raw, UHSFS_SB_BLOCK, &out, nullptr), -EUCLEAN) << i;
        bytes[i] ^= 0x41;
    }
}

TEST(Super, TheOtherCopysPlaceIsNotItsOwn) {
    const uhsfs_super_info info = sample();
    uhsfs_super raw;
    uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
    uhsfs_super_info out;
    uhsfs_fault fault{};
    EXPECT_EQ(uhsfs_super_decode(&raw, 32767, &out, &fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "block");
}

struct Bad {
    const char *field;
    std::function<void(uhsfs_super &)> change;
};

TEST(Super, EveryBoundIsCheckedAndNamed) {
    const Bad cases[] = {
        {"block_size", [](uhsfs_super &s) { s.block_size = cpu_to_le32(512); }},
        {"slot_size", [](uhsfs_super &s) { s.slot_size = 0; }},
        {"slot_size", [](uhsfs_super &s) { s.slot_size = cpu_to_le32(8192); }},
        {"erase_unit", [](uhsfs_super &s) { s.erase_unit = cpu_to_le32(0); }},
        {"erase_unit", [](uhsfs_super &s) { s.erase_unit = cpu_to_le32(48); }},
        {"erase_unit", [](uhsfs_super &s) { s.erase_unit = cpu_to_le32(32768); }},
        {"atomic", [](uhsfs_super &s) { s.atomic = 3; }},
        {"atomic", [](uhsfs_super &s) { s.atomic = 0; }},
        {"errors", [](uhsfs_super &s) { s.errors = 3; }},
        {"state", [](uhsfs_super &s) { s.state = 2; }},
        {"blocks", [](uhsfs_super &s) { s.blocks = cpu_to_le64(UHSFS_MIN_BLOCKS - 1); }},
        {"blocks", [](uhsfs_super &s) { s.blocks = cpu_to_le64(UHSFS_MAX_BLOCKS + 1); }},
        {"label", [](uhsfs_super &s) { s.label[63] = 'x'; }},
        {"writer", [](uhsfs_super &s) { s.writer[31] = 'x'; }},
        {"reserved", [](uhsfs_super &s) { s.reserved1[0] = 1; }},
        {"reserved roots", [](uhsfs_super &s) { s.quota_root[2].depth = 1; }},
        {"groups_used", [](uhsfs_super &s) { s.groups_used = 0; }},
        {"groups_used", [](uhsfs_super &s) { s.groups_used = cpu_to_le64(5); }},
        {"free_blocks", [](uhsfs_super &s) { s.free_blocks = cpu_to_le64(100001); }},
        {"reserve_blocks", [](uhsfs_super &s) { s.reserve_blocks = cpu_to_le64(50001); }},
        {"chunks_used", [](uhsfs_super &s) { s.chunks_used = cpu_to_le64(501); }},
        {"chunks_used", [](uhsfs_super &s) { s.chunks_used = 0; }},
        {"used_slots", [](uhsfs_super &s) { s.used_slots = cpu_to_le64(193); }},
        {"epoch", [](uhsfs_super &s) { s.epoch = 0; }},
        {"epoch", [](uhsfs_super &s) { s.epoch = cpu_to_le32(UHSFS_EPOCH_MAX + 1); }},
        {"seq", [](uhsfs_super &s) { s.seq = cpu_to_le64(uhsfs_seq_make(4, 9)); }},
        {"seq", [](uhsfs_super &s) { s.seq = cpu_to_le64(U64_MAX); }},
        {"segment", [](uhsfs_super &s) { s.segment[0].intent[1] = s.segment[0].intent[0]; }},
        {"segment", [](uhsfs_super &s) { s.segment[1].table = cpu_to_le64(5041); }},
        {"segments", [](uhsfs_super &s) { s.segments = 0; }},
        {"segments", [](uhsfs_super &s) { s.segments = cpu_to_le32(49); }},
        {"unused segments", [](uhsfs_super &s) { s.segment[2].table = cpu_to_le64(9); }},
        {"segment.reserved", [](uhsfs_super &s) { s.segment[1].reserved[1] = cpu_to_le64(9); }},
        {"segment.first_chunk",
         [](uhsfs_super &s) { s.segment[1].first_chunk = cpu_to_le64(399); }},
        {"segment.chunks", [](uhsfs_super &s) { s.segment[1].chunks = 0; }},
        {"segment.chunks", [](uhsfs_super &s) { s.segment[0].chunks = cpu_to_le64(U64_MAX); }},
        {"segment.table", [](uhsfs_super &s) { s.segment[0].table = cpu_to_le64(99990); }},
        {"segment.table", [](uhsfs_super &s) { s.segment[0].table = 0; }},
        {"segment.intent[0]", [](uhsfs_super &s) { s.segment[0].intent[0] = cpu_to_le64(99999); }},
        {"segment.intent[1]",
         [](uhsfs_super &s) { s.segment[0].intent[1] = cpu_to_le64(U64_MAX); }},
        {"segment.suspect", [](uhsfs_super &s) { s.segment[1].suspect = 0; }},
    };
    for (const Bad &bad : cases) {
        uhsfs_fault fault{};
        fault.field = "none";
        EXPECT_EQ(decode_changed(bad.change, &fault), -EUCLEAN) << bad.field;
        EXPECT_STREQ(fault.field, bad.field);
    }
    EXPECT_EQ(decode_changed([](uhsfs_super &) {}, nullptr), 0);
}

TEST(Super, UnknownFeaturesForbidWhatTheyMust) {
    uhsfs_super_info info = sample();
    u64 unknown = 1;
    EXPECT_EQ(uhsfs_super_access(&info, &unknown), UHSFS_ACCESS_WRITE);
    EXPECT_EQ(unknown, 0U);
    info.compat = BIT_ULL(40);
    EXPECT_EQ(uhsfs_super_access(&info, &unknown), UHSFS_ACCESS_WRITE);
    info.ro_compat = BIT_ULL(41);
    EXPECT_EQ(uhsfs_super_access(&info, &unknown), UHSFS_ACCESS_READ);
    EXPECT_EQ(unknown, BIT_ULL(41));
    info.incompat |= BIT_ULL(42);
    EXPECT_EQ(uhsfs_super_access(&info, &unknown), UHSFS_ACCESS_NONE);
    EXPECT_EQ(unknown, BIT_ULL(42));
    info = sample();
    info.version++;
    EXPECT_EQ(uhsfs_super_access(&info, &unknown), UHSFS_ACCESS_NONE);
}

TEST(Super, AnotherVersionIsRecognisedWhateverItsFieldsMean) {
    uhsfs_fault fault{};
    EXPECT_EQ(decode_changed(
                  [](uhsfs_super &s) {
                      s.version = cpu_to_le32(UHSFS_FORMAT_VERSION + 1);
                      s.slot_size = cpu_to_le32(12345);
                  },
                  &fault),
              0);
}

TEST(Super, UnknownFeaturesAreNotDamage) {
    // What a newer version put into fields that are unused here must not look like damage.
    EXPECT_EQ(decode_changed(
                  [](uhsfs_super &s) {
                      s.incompat |= cpu_to_le64(1ULL << 9);
                      s.reserved1[7] = 1;
                  },
                  nullptr),
              0);
    EXPECT_EQ(decode_changed(
                  [](uhsfs_super &s) {
                      s.ro_compat = cpu_to_le64(UHSFS_RO_COMPAT_REFLINK);
                      s.refcount_root.block = cpu_to_le64(777);
                  },
                  nullptr),
              0);
    uhsfs_fault fault{};
    EXPECT_EQ(decode_changed(
                  [](uhsfs_super &s) {
                      s.ro_compat = cpu_to_le64(UHSFS_RO_COMPAT_QUOTA);
                      s.refcount_root.block = cpu_to_le64(777);
                  },
                  &fault),
              -EUCLEAN);
    EXPECT_STREQ(fault.field, "reserved roots");
}

TEST(Super, TheCopiesHaveTheirPlacesAndTheNewerCounts) {
    uhsfs_super_info a = sample();
    uhsfs_super_info b = sample();
    b.seq++;
    EXPECT_EQ(uhsfs_super_choose(&a, &b), 1);
    EXPECT_EQ(uhsfs_super_choose(&b, &a), 0);
    EXPECT_EQ(uhsfs_super_choose(&a, nullptr), 0);
    EXPECT_EQ(uhsfs_super_choose(nullptr, &a), 1);
    EXPECT_EQ(uhsfs_super_choose(nullptr, nullptr), -EUCLEAN);
    uhsfs_super raw;
    uhsfs_super_info out;
    uhsfs_fault fault{};
    uhsfs_super_encode(&a, 555, &raw);
    EXPECT_EQ(uhsfs_super_decode(&raw, 555, &out, &fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "block");
    // A small filesystem's second copy is where it can be found without knowing the size.
    EXPECT_EQ(uhsfs_super_block(&a.geo, 1), 32767U);
    a.geo.blocks = 32767;
    EXPECT_EQ(uhsfs_super_block(&a.geo, 1), 1023U);
}

TEST(Super, SegmentsAreFoundByChunk) {
    const uhsfs_super_info info = sample();
    EXPECT_EQ(uhsfs_super_chunks(&info), 500U);
    EXPECT_EQ(uhsfs_super_segment(&info, 0), &info.segment[0]);
    EXPECT_EQ(uhsfs_super_segment(&info, 399), &info.segment[0]);
    EXPECT_EQ(uhsfs_super_segment(&info, 400), &info.segment[1]);
    EXPECT_EQ(uhsfs_super_segment(&info, 499), &info.segment[1]);
    EXPECT_EQ(uhsfs_super_segment(&info, 500), nullptr);
}

TEST(Super, RandomBytesWithARightChecksumDoNoHarm) {
    uhsfs::test::Random random;
    SCOPED_TRACE(random.note());
    for (int round = 0; round < 20000; round++) {
        uhsfs_super_info info = sample();
        uhsfs_super raw;
        uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
        auto *bytes = reinterpret_cast<u8 *>(&raw);
        for (int n = 0; n < 8; n++) {
            bytes[random.between(80, sizeof(raw) - 1)] = static_cast<u8>(random.between(0, 255));
        }
        raw.crc = 0;
        raw.crc = cpu_to_le32(uhsfs_crc32c(0, &raw, sizeof(raw)));
        uhsfs_super_info out;
        if (uhsfs_super_decode(&raw, UHSFS_SB_BLOCK, &out, nullptr) == 0) {
            // What is accepted has one image.
            uhsfs_super again;
            uhsfs_super_encode(&out, UHSFS_SB_BLOCK, &again);
            ASSERT_EQ(std::memcmp(&raw, &again, sizeof(raw)), 0) << "round " << round;
        }
    }
}

}  // namespace
