// SPDX-License-Identifier: GPL-2.0
#include "uhsfs_platform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "le.h"
#include "support/random.hpp"

namespace {

using uhsfs::test::Random;

constexpr std::array<unsigned char, 8> sample = {0xf1, 0xe2, 0xd3, 0xc4, 0xb5, 0xa6, 0x97, 0x88};

TEST(Platform, TypesHaveTheirWidths) {
    EXPECT_EQ(sizeof(u8), 1U);
    EXPECT_EQ(sizeof(u16), 2U);
    EXPECT_EQ(sizeof(u32), 4U);
    EXPECT_EQ(sizeof(u64), 8U);
    EXPECT_EQ(sizeof(__le16), 2U);
    EXPECT_EQ(sizeof(__le32), 4U);
    EXPECT_EQ(sizeof(__le64), 8U);
    EXPECT_EQ(S64_MAX, INT64_MAX);
    EXPECT_EQ(U64_MAX, UINT64_MAX);
}

TEST(Platform, ConversionsLayTheLowByteFirst) {
    __le16 le16 = 0;
    __le32 le32 = 0;
    __le64 le64 = 0;
    std::memcpy(&le16, sample.data(), sizeof(le16));
    std::memcpy(&le32, sample.data(), sizeof(le32));
    std::memcpy(&le64, sample.data(), sizeof(le64));

    EXPECT_EQ(le16_to_cpu(le16), 0xe2f1U);
    EXPECT_EQ(le32_to_cpu(le32), 0xc4d3e2f1U);
    EXPECT_EQ(le64_to_cpu(le64), 0x8897a6b5c4d3e2f1ULL);
    EXPECT_EQ(cpu_to_le16(0xe2f1U), le16);
    EXPECT_EQ(cpu_to_le32(0xc4d3e2f1U), le32);
    EXPECT_EQ(cpu_to_le64(0x8897a6b5c4d3e2f1ULL), le64);
}

TEST(Platform, RoundingKeepsMultiplesAndTheWholeRange) {
    constexpr u64 block = 4096;

    EXPECT_EQ(round_up(u64{0}, block), 0U);
    EXPECT_EQ(round_up(u64{1}, block), block);
    EXPECT_EQ(round_up(block, block), block);
    EXPECT_EQ(round_down(block + 1, block), block);
    EXPECT_EQ(round_down(U64_MAX, block), U64_MAX - (block - 1));
    EXPECT_EQ(DIV_ROUND_UP(block + 1, block), 2U);
    EXPECT_EQ(min_t(u32, 7, 5), 5U);
    EXPECT_EQ(max_t(u32, 7, 5), 7U);
    EXPECT_EQ(BIT_ULL(63), 1ULL << 63);
    EXPECT_EQ(div_u64(U64_MAX, U32_MAX), 0x100000001ULL);
}

TEST(Platform, CorruptionHasItsErrno) { EXPECT_EQ(EUCLEAN, 117); }

TEST(Le, LoadsAtEveryAlignment) {
    for (std::size_t at = 0; at < sizeof(u64); at++) {
        alignas(u64) std::array<unsigned char, 2 * sizeof(u64)> room{};
        std::copy(sample.begin(), sample.end(), room.begin() + static_cast<std::ptrdiff_t>(at));

        EXPECT_EQ(uhsfs_get_le16(room.data() + at), 0xe2f1U) << "at " << at;
        EXPECT_EQ(uhsfs_get_le32(room.data() + at), 0xc4d3e2f1U) << "at " << at;
        EXPECT_EQ(uhsfs_get_le64(room.data() + at), 0x8897a6b5c4d3e2f1ULL) << "at " << at;
    }
}

TEST(Le, StoresTouchTheirBytesOnlyAndLoadBack) {
    constexpr unsigned char filler = 0x5a;
    constexpr int rounds = 1000;
    Random random;
    SCOPED_TRACE(random.note());

    const auto check = [&](std::size_t width, auto put, auto get, auto value) {
        const auto at = random.between(0, sizeof(u64));
        std::array<unsigned char, 3 * sizeof(u64)> room{};
        room.fill(filler);
        put(room.data() + at, value);
        EXPECT_EQ(get(room.data() + at), value);
        for (std::size_t i = 0; i < room.size(); i++) {
            if (i < at || i >= at + width)
                EXPECT_EQ(room.at(i), filler) << "byte " << i << ", stored at " << at;
            else
                EXPECT_EQ(room.at(i), static_cast<unsigned char>(value >> (8 * (i - at))));
        }
    };
    for (int round = 0; round < rounds; round++) {
        const u64 value = random.between(0, U64_MAX);
        check(sizeof(u16), uhsfs_put_le16, uhsfs_get_le16, static_cast<u16>(value));
        check(sizeof(u32), uhsfs_put_le32, uhsfs_get_le32, static_cast<u32>(value));
        check(sizeof(u64), uhsfs_put_le64, uhsfs_get_le64, value);
    }
}

}  // namespace
