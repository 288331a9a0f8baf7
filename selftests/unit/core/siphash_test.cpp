// SPDX-License-Identifier: GPL-2.0
#include "siphash.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "support/random.hpp"

namespace {

using uhsfs::test::Random;
using Bytes = std::vector<unsigned char>;
using Key = std::array<u8, UHSFS_SIPHASH_KEY>;

Key rising_key() {
    Key key;
    std::iota(key.begin(), key.end(), static_cast<u8>(0));
    return key;
}

// The definition, one byte at a time.
class Reference {
public:
    explicit Reference(const Key &key) {
        const u64 k0 = word(key.data());
        const u64 k1 = word(key.data() + sizeof(u64));
        v0_ = k0 ^ 0x736f6d6570736575ULL;
        v1_ = k1 ^ 0x646f72616e646f6dULL;
        v2_ = k0 ^ 0x6c7967656e657261ULL;
        v3_ = k1 ^ 0x7465646279746573ULL;
    }

    u64 hash(Bytes message) {
        const auto length = static_cast<unsigned char>(message.size());
        while (message.size() % sizeof(u64) != sizeof(u64) - 1)
            message.push_back(0);
        message.push_back(length);
        for (std::size_t at = 0; at < message.size(); at += sizeof(u64)) {
            const u64 m = word(message.data() + at);
            v3_ ^= m;
            rounds(2);
            v0_ ^= m;
        }
        v2_ ^= 0xff;
        rounds(4);
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

private:
    static u64 word(const unsigned char *from) {
        u64 value = 0;
        for (unsigned i = 0; i < sizeof(u64); i++)
            value |= static_cast<u64>(from[i]) << (8 * i);
        return value;
    }

    void rounds(int count) {
        while (count-- > 0) {
            v0_ += v1_;
            v2_ += v3_;
            v1_ = std::rotl(v1_, 13) ^ v0_;
            v3_ = std::rotl(v3_, 16) ^ v2_;
            v0_ = std::rotl(v0_, 32);
            v2_ += v1_;
            v0_ += v3_;
            v1_ = std::rotl(v1_, 17) ^ v2_;
            v3_ = std::rotl(v3_, 21) ^ v0_;
            v2_ = std::rotl(v2_, 32);
        }
    }

    u64 v0_, v1_, v2_, v3_;
};

TEST(Siphash, MatchesTheExampleOfThePaper) {
    const Key key = rising_key();
    Bytes message(15);
    std::iota(message.begin(), message.end(), static_cast<unsigned char>(0));

    EXPECT_EQ(uhsfs_siphash(key.data(), message.data(), message.size()), 0xa129ca6149be45e5ULL);
}

TEST(Siphash, MatchesTheFirstVectorsOfTheReferenceImplementation) {
    const Key key = rising_key();
    // vectors_sip64 of the authors' code: messages of 0, 1, ... rising bytes.
    const std::array<u64, 9> expected = {
        0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL, 0x0d6c8009d9a94f5aULL,
        0x85676696d7fb7e2dULL, 0xcf2794e0277187b7ULL, 0x18765564cd99a68dULL,
        0xcbc9466e58fee3ceULL, 0xab0200f58b01d137ULL, 0x93f5f5799a932462ULL};
    Bytes message(expected.size());
    std::iota(message.begin(), message.end(), static_cast<unsigned char>(0));

    for (std::size_t len = 0; len < expected.size(); len++)
        EXPECT_EQ(uhsfs_siphash(key.data(), message.data(), len), expected.at(len)) << len;
}

TEST(Siphash, OfNothingNeedsNoPointer) {
    const Key key = rising_key();

    EXPECT_EQ(uhsfs_siphash(key.data(), nullptr, 0), 0x726fdb47dd0e0e31ULL);
    EXPECT_EQ(uhsfs_siphash2(key.data(), nullptr, 0, nullptr, 0), 0x726fdb47dd0e0e31ULL);
}

TEST(Siphash, MatchesTheDefinitionAtEveryLengthAndAlignment) {
    constexpr std::size_t longest = 300;
    constexpr std::size_t alignments = 8;
    Random random;
    SCOPED_TRACE(random.note());
    const Bytes data = random.bytes(longest + alignments);
    Key key;
    const Bytes key_bytes = random.bytes(key.size());
    std::memcpy(key.data(), key_bytes.data(), key.size());

    for (std::size_t len = 0; len <= longest; len++) {
        const auto start = static_cast<std::ptrdiff_t>(len % alignments);
        const Bytes message(data.begin() + start,
                            data.begin() + start + static_cast<std::ptrdiff_t>(len));
        ASSERT_EQ(uhsfs_siphash(key.data(), data.data() + start, len), Reference(key).hash(message))
            << "length " << len;
    }
}

TEST(Siphash, OfTwoPartsIsThatOfTheirConcatenation) {
    Random random;
    SCOPED_TRACE(random.note());
    const Key key = rising_key();
    const Bytes data = random.bytes(UHSFS_SIPHASH_PREFIX + UHSFS_SIPHASH_NAME);

    for (std::size_t prefix = 0; prefix <= UHSFS_SIPHASH_PREFIX; prefix++) {
        for (std::size_t name = 0; name <= UHSFS_SIPHASH_NAME; name++) {
            ASSERT_EQ(uhsfs_siphash2(key.data(), data.data(), prefix, data.data() + prefix, name),
                      uhsfs_siphash(key.data(), data.data(), prefix + name))
                << "prefix " << prefix << " name " << name;
        }
    }
}

}  // namespace
