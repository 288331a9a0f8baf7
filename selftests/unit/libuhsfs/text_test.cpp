// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "support/random.hpp"

namespace {

using namespace uhsfs;

uhsfs_geometry geometry() {
    uhsfs_geometry geo = {};

    geo.fsid = 7;
    geo.blocks = 32768;
    geo.homes = 1;
    geo.slot_size = 1024;
    geo.slots_per_block = 4;
    geo.slots_per_chunk = 64;
    return geo;
}

TEST(Words, SizesAreNeverShownAs1024OfAUnit) {
    EXPECT_EQ(size_text(0), "0 bytes");
    EXPECT_EQ(size_text(1023), "1023 bytes");
    EXPECT_EQ(size_text(1024), "1.0 KiB");
    EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
    EXPECT_EQ(size_text(UINT64_MAX), "16.0 EiB");
}

TEST(Words, TimesBefore1970AndAfter) {
    EXPECT_EQ(time_text(0), "1970-01-01T00:00:00.000000000Z");
    EXPECT_EQ(time_text(1'700'000'000'000'000'001), "2023-11-14T22:13:20.000000001Z");
    EXPECT_EQ(time_text(-1), "1969-12-31T23:59:59.999999999Z");
    EXPECT_EQ(time_text(INT64_MIN), "1677-09-21T00:12:43.145224192Z");
    EXPECT_EQ(time_text(INT64_MAX), "2262-04-11T23:47:16.854775807Z");
}

TEST(Words, ModesAsLsShowsThem) {
    EXPECT_EQ(mode_text(0100644), "-rw-r--r--");
    EXPECT_EQ(mode_text(0040755), "drwxr-xr-x");
    EXPECT_EQ(mode_text(0120777), "lrwxrwxrwx");
    EXPECT_EQ(mode_text(0104755), "-rwsr-xr-x");
    EXPECT_EQ(mode_text(0102644), "-rw-r-Sr--");
    EXPECT_EQ(mode_text(0041777), "drwxrwxrwt");
    EXPECT_EQ(mode_text(0041776), "drwxrwxrwT");
    EXPECT_EQ(mode_text(0170000), "?---------");
    EXPECT_EQ(mode_letter(0020000), 'c');
    EXPECT_EQ(mode_letter(0), '?');
}

TEST(Words, TagsAreLettersOrANumber) {
    EXPECT_EQ(tag_text(UHSFS_TAG_SLOT), "SLOT");
    EXPECT_EQ(tag_text(0x41424300), "0x41424300");
}

TEST(Words, UnknownBitsAreShownAsNumbers) {
    EXPECT_EQ(inode_flags_text(0), "none");
    EXPECT_EQ(inode_flags_text(UHSFS_INODE_SYNC | 0x80000000), "sync 0x80000000");
    Value value = Value::object();
    value.add("f", feature_names(FeatureKind::incompat, UHSFS_INCOMPAT_EXPERIMENTAL | 1ULL << 63));
    EXPECT_EQ(value.to_json(), R"({"f": ["experimental", "0x8000000000000000"]})");
}

// Every byte of a structure shows: two that differ in one byte give two descriptions.
template <typename T>
void every_byte_shows(std::size_t size = sizeof(T)) {
    const auto json = [](const T &record) { return describe(record).to_json(); };
    T plain;
    std::memset(&plain, 0, sizeof(plain));
    const std::string before = json(plain);

    for (std::size_t i = 0; i < size; i++) {
        T other = plain;
        reinterpret_cast<std::uint8_t *>(&other)[i] = 1;
        EXPECT_TRUE(json(other) != before) << "byte " << i;
    }
}

TEST(Describe, EveryByteOfAHeaderShows) { every_byte_shows<uhsfs_header>(); }

TEST(Describe, EveryByteOfASuperblockShows) {
    // Segments beyond the number of segments are not shown.
    every_byte_shows<uhsfs_super>(offsetof(uhsfs_super, segment));
}

TEST(Describe, EveryByteOfAMapShows) { every_byte_shows<uhsfs_map_block>(); }

TEST(Describe, EveryByteOfABucketsHeadShows) {
    every_byte_shows<uhsfs_bucket>(offsetof(uhsfs_bucket, entries));
}

TEST(Describe, EveryByteOfAChunkShows) {
    // One without any is not listed.
    auto table = std::make_unique<uhsfs_table_block>();
    table->chunk[0].block = 1;
    const std::string before = describe(*table).to_json();

    for (std::size_t i = 0; i < sizeof(uhsfs_chunk); i++) {
        auto other = std::make_unique<uhsfs_table_block>(*table);
        reinterpret_cast<std::uint8_t *>(&other->chunk[0])[i] += 1;
        EXPECT_TRUE(describe(*other).to_json() != before) << "byte " << i;
    }
}

TEST(Describe, EveryByteOfASlotHeaderShows) {
    const uhsfs_geometry geo = geometry();
    const std::vector<std::uint8_t> plain(geo.slot_size);
    const std::string before = describe_slot(geo, plain).to_json();

    for (std::size_t i = 0; i < UHSFS_SLOT_HEADER; i++) {
        auto other = plain;
        other[i] = 1;
        EXPECT_NE(describe_slot(geo, other).to_json(), before) << "byte " << i;
    }
}

TEST(Describe, ASlotWithAllItsRecords) {
    const uhsfs_geometry geo = geometry();
    std::vector<std::uint8_t> image(geo.slot_size);
    uhsfs_slot_builder builder = {};
    uhsfs_attr attr = {};
    std::vector<std::uint8_t> name(sizeof(uhsfs_name) + 3);
    const uhsfs_claim claim = {.parent_ino = 1,
                               .parent_gen = 5,
                               .len = 3,
                               .name_seq = (3ULL << 32) + 9,
                               .name = reinterpret_cast<const u8 *>("abc")};

    attr.ino = 65;
    attr.generation = 12;
    attr.state = UHSFS_SLOT_INODE;
    attr.mode = 0100640;
    attr.nlink = 1;
    attr.size = 5;
    uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(name.data()));
    uhsfs_slot_begin(&builder, &geo, image.data(), &attr);
    ASSERT_EQ(uhsfs_slot_put(&builder, UHSFS_TLV_NAME, name.data(), static_cast<u32>(name.size())),
              0);
    ASSERT_EQ(uhsfs_slot_put(&builder, UHSFS_TLV_INLINE, "hello", 5), 0);
    uhsfs_slot_finish(&builder);
    const Value value = describe_slot(geo, image);
    ASSERT_NE(value.find("name"), nullptr);
    EXPECT_EQ(value.find("name")->to_json(),
              R"({"parent-ino": 1, "parent-generation": 5, "name-seq": 12884901897, )"
              R"("length": 3, "name": "abc"})");
    ASSERT_NE(value.find("inline"), nullptr);
    EXPECT_EQ(value.find("inline")->to_json(), R"({"bytes": 5, "data": "hello"})");
    EXPECT_EQ(value.find("mode")->text(), "100640 (-rw-r-----)");
    EXPECT_EQ(value.find("type")->text(), "file");
}

// Whatever the bytes are, nothing outside of them is read (the sanitizers look).
TEST(Describe, AnyBytesOfAnyKind) {
    test::Random random;
    SCOPED_TRACE(random.note());
    const uhsfs_geometry geo = geometry();
    const std::vector<std::uint32_t> tags = {UHSFS_TAG_SLOT,   UHSFS_TAG_BUCKET, UHSFS_TAG_EXTENT,
                                             UHSFS_TAG_NAMES,  UHSFS_TAG_XATTR,  UHSFS_TAG_BITMAP,
                                             UHSFS_TAG_CHUNKS, UHSFS_TAG_INTENT, UHSFS_TAG_SUSPECT};

    for (int round = 0; round < 180; round++) {
        auto bytes = random.bytes(block_size);
        const __le32 tag = cpu_to_le32(tags[static_cast<std::size_t>(round) % tags.size()]);
        // Half of them mostly zeros, so that lengths are small and lists long.
        if (round % 2 == 0)
            for (auto &byte : bytes)
                if (random.between(0, 15) != 0)
                    byte = 0;
        std::memcpy(bytes.data(), &tag, sizeof(tag));
        const auto value = describe_block(geo, bytes);
        ASSERT_TRUE(value);
        EXPECT_FALSE(value->to_json().empty());
        EXPECT_FALSE(value->to_text().empty());
    }
    auto bytes = random.bytes(block_size);
    std::memcpy(bytes.data(), UHSFS_SB_MAGIC, 8);
    EXPECT_TRUE(describe_block(geo, bytes));
    bytes[0] = 0;
    EXPECT_FALSE(describe_block(geo, bytes));
    EXPECT_FALSE(describe_block(geo, Bytes(bytes).first(100)));
}

// A slot's body that ends in the middle of a record, at every place.
TEST(Describe, CutOffBodies) {
    const uhsfs_geometry geo = geometry();
    std::vector<std::uint8_t> image(geo.slot_size);

    for (std::uint16_t type = 1; type <= UHSFS_TLV_TYPES; type++)
        for (std::uint16_t len = 0; len < 64; len++) {
            const uhsfs_tlv head = {cpu_to_le16(type), cpu_to_le16(len), 0};
            const __le16 body = cpu_to_le16(40);
            std::memcpy(image.data() + offsetof(uhsfs_slot, body_len), &body, sizeof(body));
            std::memcpy(image.data() + UHSFS_SLOT_HEADER, &head, sizeof(head));
            EXPECT_FALSE(describe_slot(geo, image).to_text().empty());
        }
}

}  // namespace
