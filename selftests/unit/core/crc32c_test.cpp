// SPDX-License-Identifier: GPL-2.0
#include "crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "support/random.hpp"

namespace {

using uhsfs::test::Random;
using Bytes = std::vector<unsigned char>;

// The definition, one bit at a time: the polynomial 0x1edc6f41 reflected.
u32 bitwise_crc32c(u32 crc, const unsigned char *data, std::size_t len) {
    constexpr u32 reflected_polynomial = 0x82f63b78;
    constexpr int bits = 8;

    crc = ~crc;
    for (std::size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < bits; bit++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? reflected_polynomial : 0);
    }
    return ~crc;
}

u32 crc_of(const Bytes &data) { return uhsfs_crc32c(0, data.data(), data.size()); }

TEST(Crc32c, MatchesVectorsOfRfc3720) {
    constexpr std::size_t block = 32;
    Bytes rising(block);
    std::iota(rising.begin(), rising.end(), 0);
    const Bytes falling(rising.rbegin(), rising.rend());
    // The SCSI READ (10) command PDU of appendix B.4.
    const Bytes read_pdu = {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                            0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
                            0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
                            0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};

    EXPECT_EQ(crc_of(Bytes(block, 0x00)), 0x8a9136aaU);
    EXPECT_EQ(crc_of(Bytes(block, 0xff)), 0x62a8ab43U);
    EXPECT_EQ(crc_of(rising), 0x46dd794eU);
    EXPECT_EQ(crc_of(falling), 0x113fdb5cU);
    EXPECT_EQ(crc_of(read_pdu), 0xd9963a56U);
}

TEST(Crc32c, MatchesTheCatalogueCheckValue) {
    constexpr std::string_view check = "123456789";

    EXPECT_EQ(uhsfs_crc32c(0, check.data(), check.size()), 0xe3069283U);
}

TEST(Crc32c, OfNothingIsTheCrcItContinues) {
    constexpr u32 previous = 0x12345678;

    EXPECT_EQ(uhsfs_crc32c(0, nullptr, 0), 0U);
    EXPECT_EQ(uhsfs_crc32c(previous, nullptr, 0), previous);
}

TEST(Crc32c, ChainsAtEverySplit) {
    constexpr std::size_t size = 1100;
    Random random;
    SCOPED_TRACE(random.note());
    const Bytes data = random.bytes(size);
    const u32 whole = crc_of(data);

    for (std::size_t split = 0; split <= size; split++) {
        const u32 head = uhsfs_crc32c(0, data.data(), split);
        ASSERT_EQ(uhsfs_crc32c(head, data.data() + split, size - split), whole)
            << "split at " << split;
    }
}

TEST(Crc32c, MatchesTheBitwiseDefinitionAtEveryLengthAndAlignment) {
    constexpr std::size_t longest = 600;
    constexpr std::size_t alignments = 17;
    Random random;
    SCOPED_TRACE(random.note());
    const Bytes data = random.bytes(longest + alignments);

    for (std::size_t start = 0; start < alignments; start++) {
        for (std::size_t len = 0; len <= longest; len++) {
            const auto *from = data.data() + start;
            ASSERT_EQ(uhsfs_crc32c(0, from, len), bitwise_crc32c(0, from, len))
                << "start " << start << " length " << len;
        }
    }
}

TEST(Crc32c, MatchesTheBitwiseDefinitionOnLargeRandomPieces) {
    constexpr std::size_t size = 1U << 20;
    constexpr int rounds = 20;
    Random random;
    SCOPED_TRACE(random.note());
    const Bytes data = random.bytes(size);

    for (int round = 0; round < rounds; round++) {
        const auto start = random.between(0, size - 1);
        const auto len = random.between(0, size - start);
        const auto crc = static_cast<u32>(random.between(0, U32_MAX));
        const auto *from = data.data() + start;
        ASSERT_EQ(uhsfs_crc32c(crc, from, len), bitwise_crc32c(crc, from, len))
            << "start " << start << " length " << len << " from crc " << crc;
    }
}

TEST(Crc32c, DetectsEveryFlippedBitOfASlot) {
    constexpr std::size_t slot = 1024;
    constexpr unsigned bits = 8;
    Random random;
    SCOPED_TRACE(random.note());
    Bytes data = random.bytes(slot);
    const u32 right = crc_of(data);

    for (std::size_t bit = 0; bit < slot * bits; bit++) {
        const auto mask = static_cast<unsigned char>(1U << (bit % bits));
        data[bit / bits] ^= mask;
        ASSERT_NE(crc_of(data), right) << "bit " << bit;
        data[bit / bits] ^= mask;
    }
}

}  // namespace
