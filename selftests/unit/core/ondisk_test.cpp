// SPDX-License-Identifier: GPL-2.0
// The layout holds for C++ as well: including ondisk.h is the test, the rest is what no
// compiler checks by itself.
#include "ondisk.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace {

TEST(Ondisk, TagsReadAsTheirLettersAndDiffer) {
    const __u32 tags[] = {UHSFS_TAG_SLOT,    UHSFS_TAG_BUCKET, UHSFS_TAG_EXTENT, UHSFS_TAG_NAMES,
                          UHSFS_TAG_XATTR,   UHSFS_TAG_BITMAP, UHSFS_TAG_CHUNKS, UHSFS_TAG_INTENT,
                          UHSFS_TAG_SUSPECT, UHSFS_TAG_QUOTA};
    EXPECT_EQ(std::set<__u32>(std::begin(tags), std::end(tags)).size(), std::size(tags));
    const __u32 slot = UHSFS_TAG_SLOT;
    EXPECT_EQ(std::memcmp(&slot, "SLOT", 4), 0);
    EXPECT_EQ(sizeof(UHSFS_SB_MAGIC) - 1, 8U);
}

TEST(Ondisk, ASlotHoldsWhatTheDesignPromises) {
    const unsigned body = UHSFS_SLOT_SIZE_MIN - UHSFS_SLOT_HEADER;
    const unsigned tlv = sizeof(uhsfs_tlv);
    const auto padded = [](unsigned n) { return (n + 7) / 8 * 8; };
    const unsigned long_name = tlv + padded(sizeof(uhsfs_name) + UHSFS_NAME_LEN);
    const unsigned short_name = tlv + padded(sizeof(uhsfs_name) + 16);
    EXPECT_GE((body - long_name - tlv) / sizeof(uhsfs_extent), 15U);
    EXPECT_GT((body - short_name - tlv) / sizeof(uhsfs_extent), 20U);
    EXPECT_GE(body - long_name - tlv, 500U);  // inline data beside the longest name
}

TEST(Ondisk, AnIntentAlwaysFitsBesideTheLongestName) {
    const unsigned body = UHSFS_SLOT_SIZE_MIN - UHSFS_SLOT_HEADER;
    const auto record = [](unsigned n) {
        return static_cast<unsigned>(sizeof(uhsfs_tlv)) + (n + 7) / 8 * 8;
    };
    // All that cannot spill at once: name, intent, and the roots of what has spilt.
    const unsigned fixed = record(sizeof(uhsfs_name) + UHSFS_NAME_LEN) +
                           record(sizeof(uhsfs_intent) + UHSFS_NAME_LEN) +
                           record(sizeof(uhsfs_names_root)) + record(sizeof(uhsfs_dir_root)) +
                           record(sizeof(uhsfs_device)) + record(sizeof(uhsfs_xattr_root)) +
                           record(sizeof(uhsfs_extent_root));
    EXPECT_LE(fixed, body);
}

}  // namespace
