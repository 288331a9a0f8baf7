// SPDX-License-Identifier: GPL-2.0
// Record headers and the choice between the copies of a home.
#include "record.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace {

const uhsfs_record_id kId = {"bucket", UHSFS_TAG_BUCKET, 0x1122334455667788, 4711, 42, 7};

std::array<u8, 4096> sealed() {
    std::array<u8, 4096> block{};
    for (size_t i = sizeof(uhsfs_header); i < block.size(); i++) {
        block[i] = static_cast<u8>(i * 7);
    }
    uhsfs_record_init(reinterpret_cast<uhsfs_header *>(block.data()), &kId, uhsfs_seq_make(3, 9));
    uhsfs_record_seal(block.data(), block.size());
    return block;
}

TEST(Record, WhatWasSealedIsAccepted) {
    const auto block = sealed();
    uhsfs_fault fault{};
    EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &kId, &fault), 0);
    EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &kId, nullptr), 0);
}

TEST(Record, EveryFlippedBitIsFound) {
    auto block = sealed();
    for (size_t i = 0; i < block.size(); i++) {
        for (int bit = 0; bit < 8; bit++) {
            block[i] ^= static_cast<u8>(1 << bit);
            EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &kId, nullptr), -EUCLEAN)
                << "byte " << i << " bit " << bit;
            block[i] ^= static_cast<u8>(1 << bit);
        }
    }
}

TEST(Record, CopiesAreTheSameButForChecksumAndAddress) {
    const auto block = sealed();
    auto other = block;

    EXPECT_TRUE(uhsfs_record_same(block.data(), other.data(), block.size()));
    uhsfs_record_move(other.data(), other.size(), 4712);
    EXPECT_TRUE(uhsfs_record_same(block.data(), other.data(), block.size()));
    for (size_t i = 0; i < block.size(); i++) {
        const bool free = (i >= 4 && i < 8) || (i >= 16 && i < 24);
        other = block;
        other[i] ^= 1;
        EXPECT_EQ(uhsfs_record_same(block.data(), other.data(), block.size()), free) << i;
    }
}

TEST(Record, EachFieldIsNamedWhenItIsWrong) {
    const auto field = [](auto change) {
        auto block = sealed();
        change(*reinterpret_cast<uhsfs_header *>(block.data()));
        uhsfs_record_seal(block.data(), block.size());
        uhsfs_fault fault{};
        EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &kId, &fault), -EUCLEAN);
        EXPECT_STREQ(fault.object, "bucket");
        EXPECT_EQ(fault.id, 4711U);
        return std::string(fault.field ? fault.field : "none");
    };
    EXPECT_EQ(field([](uhsfs_header &h) { h.magic = 1; }), "magic");
    EXPECT_EQ(field([](uhsfs_header &h) { h.fsid = 1; }), "fsid");
    EXPECT_EQ(field([](uhsfs_header &h) { h.block = 4712; }), "block");
    EXPECT_EQ(field([](uhsfs_header &h) { h.owner_ino = 1; }), "owner_ino");
    EXPECT_EQ(field([](uhsfs_header &h) { h.owner_gen = 1; }), "owner_gen");
    EXPECT_EQ(field([](uhsfs_header &h) { h.flags = 1; }), "flags");
}

TEST(Record, AMovedImageIsValidThereAndOnlyThere) {
    auto block = sealed();
    uhsfs_record_move(block.data(), block.size(), 4712);
    uhsfs_record_id there = kId;
    there.block = 4712;
    EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &there, nullptr), 0);
    EXPECT_EQ(uhsfs_record_check(block.data(), block.size(), &kId, nullptr), -EUCLEAN);
}

TEST(HomeNext, WritesAlternate) {
    EXPECT_EQ(uhsfs_home_next(0), 1);
    EXPECT_EQ(uhsfs_home_next(1), 0);
}

TEST(Record, SeqOrdersByEpochThenCounter) {
    EXPECT_LT(uhsfs_seq_make(1, U32_MAX), uhsfs_seq_make(2, 0));
    EXPECT_LT(uhsfs_seq_make(2, 0), uhsfs_seq_make(2, 1));
    EXPECT_EQ(uhsfs_seq_epoch(uhsfs_seq_make(77, U32_MAX)), 77U);
}

struct HomeCase {
    const char *name;
    uhsfs_copy a, b;
    int chosen;
    bool suspicious;
};

class Home : public testing::TestWithParam<HomeCase> {};

TEST_P(Home, TheRightCopyCounts) {
    const HomeCase &c = GetParam();
    bool suspicious = !c.suspicious;
    EXPECT_EQ(uhsfs_home_choose(&c.a, &c.b, &suspicious), c.chosen);
    EXPECT_EQ(suspicious, c.suspicious);
    // The same two copies the other way round.
    const int mirrored = c.chosen < 0 || c.a.seq == c.b.seq ? c.chosen : 1 - c.chosen;
    EXPECT_EQ(uhsfs_home_choose(&c.b, &c.a, &suspicious), mirrored);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Home,
    testing::Values(HomeCase{"BothValidNewerCounts", {true, 5}, {true, 6}, 1, false},
                    HomeCase{"NewerInA", {true, 9}, {true, 6}, 0, false},
                    HomeCase{"TheFirstWriteIsInBoth", {true, 5}, {true, 5}, 0, false},
                    HomeCase{"TornOrRottenSibling", {true, 5}, {false, 9}, 0, true},
                    HomeCase{"RottenNewerOfTwoWrites", {true, 41}, {false, 42}, 0, true},
                    HomeCase{"Nothing", {false, 5}, {false, 6}, -EUCLEAN, false}),
    [](const auto &test) { return std::string(test.param.name); });

}  // namespace
