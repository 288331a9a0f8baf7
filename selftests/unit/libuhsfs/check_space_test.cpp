// SPDX-License-Identifier: GPL-2.0
/*
 * Sets of blocks against a plain list of bits, and what is kept of many findings.
 */
#include "libuhsfs/check_space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "libuhsfs/check_findings.hpp"
#include "support/random.hpp"

namespace {

using namespace uhsfs;
using uhsfs::test::Random;

TEST(BlockSet, IsWhatAListOfBitsIs) {
    constexpr std::uint64_t groups = 3;
    constexpr std::uint64_t blocks = groups * UHSFS_GROUP_BLOCKS;
    BlockSet set(groups);
    BlockSet again(groups);
    std::vector<bool> model(blocks);
    std::vector<bool> twice(blocks);
    Random random;

    SCOPED_TRACE(random.note());
    EXPECT_TRUE(set.empty());
    EXPECT_EQ(set.next(0, blocks), std::pair(blocks, blocks));
    for (unsigned i = 0; i < 60; i++) {
        const std::uint64_t block = random.between(0, blocks - 1);
        const std::uint64_t count =
            random.between(1, std::min<std::uint64_t>(blocks - block, i % 2 == 0 ? 200 : 40000));
        set.mark(block, count, &again);
        for (std::uint64_t b = block; b < block + count; b++) {
            twice[b] = twice[b] || model[b];
            model[b] = true;
        }
    }
    for (std::uint64_t b = 0; b < blocks; b++) {
        ASSERT_EQ(set.has(b), model[b]) << b;
        ASSERT_EQ(again.has(b), twice[b]) << b;
    }
    for (unsigned i = 0; i < 2000; i++) {
        const std::uint64_t from = random.between(0, blocks);
        const std::uint64_t end = random.between(from, blocks);
        std::uint64_t first = from;
        while (first < end && !model[first])
            first++;
        std::uint64_t last = first;
        while (last < end && model[last])
            last++;
        ASSERT_EQ(set.next(from, end), std::pair(first, last)) << from << " to " << end;
    }
}

TEST(OwnerList, KeepsTheFirstRanges) {
    BlockSet asked(1);
    asked.mark(10, 5);
    asked.mark(100, 5);
    asked.mark(200, 5);
    OwnerList list(asked, 2);

    list.own({.kind = BlockOwner::data, .id = 7}, 150, 100);
    list.own({.kind = BlockOwner::data, .id = 8}, 12, 90);
    ASSERT_EQ(list.ranges().size(), 2U);
    EXPECT_EQ(list.ranges().begin()->block, 12U);
    EXPECT_EQ(list.ranges().begin()->count, 3U);
    EXPECT_EQ(list.ranges().rbegin()->block, 100U);
    EXPECT_EQ(list.ranges().rbegin()->count, 2U);
}

TEST(FindingSet, KeepsTheFirstAndCountsAll) {
    FindingSet set(3);

    for (std::uint64_t i = 10; i > 0; i--)
        set.add(make_fault("slot", i, "nlink", 0, 0, UHSFS_RULE_EQUAL));
    set.add(make_fault("superblock", 99, "seq", 0, 0, UHSFS_RULE_EQUAL));
    EXPECT_EQ(set.total(), 11U);
    const auto kept = set.take();
    ASSERT_EQ(kept.size(), 3U);
    EXPECT_EQ(kept[0].fault.id, 99U);
    EXPECT_EQ(kept[1].fault.id, 1U);
    EXPECT_EQ(kept[2].fault.id, 2U);
}

TEST(Finding, IsOnePrintableLine) {
    const Finding finding{.fault = make_fault("slot", 5, "name", 1, 2, "must be equal"),
                          .detail = "'a\nb'"};

    EXPECT_EQ(finding.text().find('\n'), std::string::npos);
    EXPECT_NE(finding.text().find("\\x0a"), std::string::npos) << finding.text();
}

}  // namespace
