// SPDX-License-Identifier: GPL-2.0
#include "xattr.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "record.h"
#include "support/random.hpp"

namespace {

using uhsfs::test::Random;
using uhsfs::test::seed;
using Key = std::pair<u8, std::string>;
using Model = std::map<Key, std::string>;

constexpr unsigned bits_per_byte = 8;
constexpr u64 object_id = 42;

const u8 *octets(const std::string &text) { return reinterpret_cast<const u8 *>(text.data()); }

uhsfs_xattr_item item_of(u8 space, const std::string &name, const std::string &value) {
    return {space, static_cast<u8>(name.size()), static_cast<u32>(value.size()), octets(name),
            octets(value)};
}

// A stream at an odd address within a buffer that sanitizers can see the ends of.
class Stream {
public:
    explicit Stream(u32 capacity) : bytes_(capacity + 1), capacity_(capacity) {}

    unsigned char *data() { return bytes_.data() + 1; }
    u32 len = 0;

    int set(u8 space, const std::string &name, const std::string &value, u32 flags = 0) {
        const uhsfs_xattr_item item = item_of(space, name, value);
        return uhsfs_xattr_set(data(), &len, capacity_, &item, flags);
    }
    int remove(u8 space, const std::string &name) {
        return uhsfs_xattr_remove(data(), &len, space, octets(name), static_cast<u8>(name.size()));
    }
    int find(u8 space, const std::string &name, std::string &value) {
        uhsfs_xattr_item item{};
        const int err =
            uhsfs_xattr_find(data(), len, space, octets(name), static_cast<u8>(name.size()), &item);
        if (err == 0)
            value.assign(reinterpret_cast<const char *>(item.value), item.value_len);
        return err;
    }
    // "" or the field at fault.
    std::string fault() {
        uhsfs_fault fault{};
        const int err = uhsfs_xattr_check(data(), len, "slot", object_id, &fault);
        if (err == 0)
            return "";
        EXPECT_EQ(err, -EUCLEAN);
        EXPECT_EQ(fault.id, object_id);
        EXPECT_STREQ(fault.object, "slot");
        return fault.field;
    }
    // Everything, in the stream's order.
    std::vector<std::pair<Key, std::string>> all() {
        std::vector<std::pair<Key, std::string>> found;
        uhsfs_xattr_item item{};
        for (u32 at = 0; uhsfs_xattr_next(data(), len, &at, &item);)
            found.push_back(
                {{item.space,
                  std::string(reinterpret_cast<const char *>(item.name), item.name_len)},
                 std::string(reinterpret_cast<const char *>(item.value), item.value_len)});
        return found;
    }

private:
    std::vector<unsigned char> bytes_;
    u32 capacity_;
};

std::string random_text(Random &random, std::size_t shortest, std::size_t longest) {
    std::string text(random.between(shortest, longest), 'x');
    for (auto &letter : text)
        letter = static_cast<char>(random.between(1, 255));
    return text;
}

// Few enough that most operations meet an existing attribute.
Key random_key(Random &random) {
    const auto space = static_cast<u8>(random.between(UHSFS_XATTR_USER, UHSFS_XATTR_SPACES - 1));
    if (space >= UHSFS_XATTR_ACL_ACCESS)
        return {space, ""};
    static const std::vector<std::string> names = {"a",  "ab",   "abc",  "b",
                                                   "ba", "\xff", "zzzz", std::string(255, 'n')};
    if (random.between(0, 3) == 0)
        return {space, random_text(random, 1, 255)};
    return {space, names[random.between(0, names.size() - 1)]};
}

u32 model_bytes(const Model &model) {
    u32 sum = 0;
    for (const auto &[key, value] : model)
        sum += uhsfs_xattr_size(static_cast<u8>(key.second.size()), static_cast<u32>(value.size()));
    return sum;
}

TEST(Xattr, BehavesAsAMapUnderRandomOperations) {
    Random random;
    SCOPED_TRACE(random.note());
    for (const u32 capacity : {504U, 5000U}) {
        Stream stream(capacity);
        Model model;
        for (int i = 0; i < 6000; i++) {
            const Key key = random_key(random);
            const bool exists = model.count(key) != 0;
            const auto dice = random.between(0, 9);
            if (dice < 3) {
                ASSERT_EQ(stream.remove(key.first, key.second), exists ? 0 : -ENODATA);
                model.erase(key);
            } else {
                const std::string value = random_text(random, 0, dice == 9 ? capacity : 60);
                const u32 flags = dice == 3   ? UHSFS_XATTR_CREATE
                                  : dice == 4 ? UHSFS_XATTR_REPLACE
                                              : 0;
                Model after = model;
                after[key] = value;
                int expected = 0;
                if (dice == 3 && exists)
                    expected = -EEXIST;
                else if (dice == 4 && !exists)
                    expected = -ENODATA;
                else if (model_bytes(after) > capacity)
                    expected = -ENOSPC;
                ASSERT_EQ(stream.set(key.first, key.second, value, flags), expected);
                if (expected == 0)
                    model = after;
            }
            ASSERT_EQ(stream.fault(), "");
            ASSERT_EQ(stream.len, model_bytes(model));
            ASSERT_EQ(stream.all(),
                      (std::vector<std::pair<Key, std::string>>(model.begin(), model.end())));
            std::string value;
            ASSERT_EQ(stream.find(key.first, key.second, value), model.count(key) ? 0 : -ENODATA);
            if (model.count(key)) {
                ASSERT_EQ(value, model[key]);
            }
            for (u32 at = stream.len; at < capacity; at++)
                ASSERT_EQ(stream.data()[at], 0) << "bytes given up are zeroed";
        }
    }
}

TEST(Xattr, TheSameSetHasTheSameImage) {
    Stream a(2000);
    Stream b(2000);
    const std::vector<Key> keys = {{1, "x"}, {1, "xy"}, {3, "selinux"}, {4, ""}, {2, "t"}};
    for (const Key &key : keys)
        ASSERT_EQ(a.set(key.first, key.second, "v" + key.second), 0);
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
        ASSERT_EQ(b.set(key->first, key->second, "something longer first"), 0);
        ASSERT_EQ(b.set(key->first, key->second, "v" + key->second), 0);
    }
    ASSERT_EQ(a.len, b.len);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.len), 0);
}

TEST(Xattr, NamesAreLegalBySpace) {
    const auto ok = [](u8 space, const std::string &name) {
        return uhsfs_xattr_name_ok(space, octets(name), name.size());
    };
    for (const u8 space : {UHSFS_XATTR_USER, UHSFS_XATTR_TRUSTED, UHSFS_XATTR_SECURITY}) {
        EXPECT_TRUE(ok(space, "a"));
        EXPECT_TRUE(ok(space, "a/b.c"));
        EXPECT_TRUE(ok(space, std::string(255, 'a')));
        EXPECT_FALSE(ok(space, ""));
        EXPECT_FALSE(ok(space, std::string(256, 'a')));
        EXPECT_FALSE(ok(space, std::string("a\0b", 3)));
    }
    for (const u8 space : {UHSFS_XATTR_ACL_ACCESS, UHSFS_XATTR_ACL_DEFAULT}) {
        EXPECT_TRUE(ok(space, ""));
        EXPECT_FALSE(ok(space, "a"));
    }
    for (const u8 space : {0, UHSFS_XATTR_SPACES, 255}) {
        EXPECT_FALSE(ok(space, ""));
        EXPECT_FALSE(ok(space, "a"));
    }
    Stream stream(100);
    EXPECT_EQ(stream.set(0, "a", "b"), -EINVAL);
    EXPECT_EQ(stream.set(UHSFS_XATTR_USER, "", "b"), -EINVAL);
    EXPECT_EQ(stream.set(UHSFS_XATTR_ACL_ACCESS, "a", "b"), -EINVAL);
}

TEST(Xattr, LimitsOfOneValueAndOfAll) {
    Stream stream(UHSFS_XATTR_BYTES_MAX + 4096);
    const std::string largest(UHSFS_XATTR_SIZE_MAX, 'v');

    EXPECT_EQ(stream.set(1, "a", largest + "v"), -E2BIG);
    u32 count = 0;
    while (stream.set(1, "name" + std::to_string(1000 + count), largest) == 0)
        count++;
    EXPECT_EQ(count, UHSFS_XATTR_BYTES_MAX / uhsfs_xattr_size(8, UHSFS_XATTR_SIZE_MAX));
    const u32 left = UHSFS_XATTR_BYTES_MAX - stream.len;
    EXPECT_EQ(stream.set(1, "zz", std::string(left - 8 - 2 + 1, 'v')), -ENOSPC);
    EXPECT_EQ(stream.set(1, "zz", std::string(left - 8 - 2, 'v')), 0);
    EXPECT_EQ(stream.len, static_cast<u32>(UHSFS_XATTR_BYTES_MAX));
    EXPECT_EQ(stream.fault(), "");
    EXPECT_EQ(stream.set(1, "zz", ""), 0) << "making a value shorter needs no room";
    EXPECT_EQ(uhsfs_xattr_blocks(UHSFS_XATTR_BYTES_MAX), UHSFS_XATTR_INDEX_MAX + 1U);
}

// ---- damaged streams ---------------------------------------------------------------

TEST(Xattr, EveryFlippedBitOfAStreamIsFoundOrMeansSomething) {
    Stream stream(1000);
    ASSERT_EQ(stream.set(1, "abc", "12345"), 0);
    ASSERT_EQ(stream.set(1, "abcd", ""), 0);
    ASSERT_EQ(stream.set(2, "overlay.opaque", "y"), 0);
    ASSERT_EQ(stream.set(3, "capability", std::string(24, '\0')), 0);
    ASSERT_EQ(stream.set(4, "", std::string(28, 'a')), 0);
    ASSERT_EQ(stream.set(5, "", std::string(33, 'b')), 0);
    const auto good = stream.all();
    std::size_t found = 0;

    for (u32 bit = 0; bit < stream.len * bits_per_byte; bit++) {
        const auto mask = static_cast<unsigned char>(1U << bit % bits_per_byte);
        stream.data()[bit / bits_per_byte] ^= mask;
        if (stream.fault().empty()) {
            ASSERT_NE(stream.all(), good) << "bit " << bit << " is unused";
        } else {
            found++;
        }
        stream.data()[bit / bits_per_byte] ^= mask;
    }
    EXPECT_GT(found, 500U);
}

TEST(Xattr, NamesTheFieldAtFault) {
    const auto fault = [](const std::vector<Key> &keys, u32 at, unsigned char byte) {
        Stream stream(1000);
        for (const Key &key : keys)
            EXPECT_EQ(stream.set(key.first, key.second, "value"), 0);
        EXPECT_EQ(stream.fault(), "");
        stream.data()[at] = byte;
        return stream.fault();
    };
    const std::vector<Key> two = {{1, "a"}, {1, "b"}};  // 16 bytes each

    EXPECT_EQ(fault(two, 0, 0), "xattr.space");
    EXPECT_EQ(fault(two, 16, UHSFS_XATTR_SPACES), "xattr.space");
    EXPECT_EQ(fault(two, 0, UHSFS_XATTR_ACL_ACCESS), "xattr.name");
    EXPECT_EQ(fault(two, 1, 0), "xattr.name");
    EXPECT_EQ(fault(two, 8, 0), "xattr.name");
    EXPECT_EQ(fault(two, 8, 'b'), "xattr.name");
    EXPECT_EQ(fault(two, 8, 'c'), "xattr.name");
    EXPECT_EQ(fault(two, 0, 2), "xattr.name");
    EXPECT_EQ(fault(two, 2, 1), "xattr.reserved");
    EXPECT_EQ(fault(two, 4, 4), "xattr.padding");
    EXPECT_EQ(fault(two, 15, 1), "xattr.padding");
    EXPECT_EQ(fault(two, 4, 100), "xattr.length");
    EXPECT_EQ(fault(two, 20, 8), "xattr.length");
    EXPECT_EQ(fault(two, 7, 1), "xattr.value_len");
    EXPECT_EQ(fault(two, 6, 2), "xattr.value_len");

    Stream stream(100);
    ASSERT_EQ(stream.set(1, "a", "value"), 0);
    for (u32 len = 1; len < 16; len++) {
        stream.len = len;
        EXPECT_EQ(stream.fault(), "xattr.length") << len;
    }
    stream.len = 17;
    EXPECT_EQ(stream.fault(), "xattr.length");
    uhsfs_fault what{};
    EXPECT_EQ(uhsfs_xattr_check(nullptr, UHSFS_XATTR_BYTES_MAX + 8, "slot", 1, &what), -EUCLEAN);
    EXPECT_STREQ(what.field, "xattr.bytes");
}

TEST(Xattr, LengthsThatWouldWrapAreNotFollowed) {
    Stream stream(64);
    ASSERT_EQ(stream.set(1, "a", "value"), 0);
    for (u32 value_len = U32_MAX; value_len > U32_MAX - 300; value_len--) {
        std::memcpy(stream.data() + 4, &value_len, sizeof(value_len));
        uhsfs_xattr_item item{};
        u32 at = 0;
        ASSERT_FALSE(uhsfs_xattr_next(stream.data(), stream.len, &at, &item)) << value_len;
        ASSERT_EQ(stream.fault(), "xattr.value_len");
    }
}

TEST(Xattr, HostileStreamsDoNoHarm) {
    Random random;
    SCOPED_TRACE(random.note());
    for (int round = 0; round < 20000; round++) {
        const auto len = static_cast<u32>(random.between(0, 120));
        const auto noise = random.bytes(len);
        // The heap block ends where the stream does.
        std::vector<unsigned char> bytes(noise);
        for (u32 at = 0; at + 8 <= len; at += static_cast<u32>(random.between(1, 4)) * 8) {
            bytes[at] = static_cast<unsigned char>(random.between(0, 6));
            bytes[at + 1] = static_cast<unsigned char>(random.between(0, 9));
            bytes[at + 5] = bytes[at + 6] = bytes[at + 7] = 0;
            bytes[at + 4] &= 31;
        }
        uhsfs_fault fault{};
        const int err = uhsfs_xattr_check(bytes.data(), len, "slot", 1, &fault);
        ASSERT_TRUE(err == 0 || err == -EUCLEAN);
        uhsfs_xattr_item item{};
        u32 at = 0;
        u32 sum = 0;
        while (uhsfs_xattr_next(bytes.data(), len, &at, &item)) {
            for (u32 i = 0; i < item.name_len; i++)
                sum += item.name[i];
            for (u32 i = 0; i < item.value_len; i++)
                sum += item.value[i];
        }
        ASSERT_LE(at, len);
        u32 changed = len;
        uhsfs_xattr_remove(bytes.data(), &changed, 1, octets("a"), 1);
        const std::string name = "a";
        const std::string value = "bc";
        const uhsfs_xattr_item wanted = item_of(1, name, value);
        uhsfs_xattr_set(bytes.data(), &changed, len, &wanted, 0);
        ASSERT_LE(changed, len);
    }
}

// ---- blocks -----------------------------------------------------------------------------

class XattrBlocks : public testing::Test {
protected:
    XattrBlocks() {
        geo.fsid = 0xfeedULL;
        geo.blocks = 100000;
        geo.homes = 1;
        geo.slot_size = UHSFS_SLOT_SIZE_MIN;
        geo.slots_per_block = 4;
        geo.slots_per_chunk = 64;
    }

    // Any stream: blocks do not look into it.
    void build(u32 bytes) {
        stream = Random(seed()).bytes(bytes);
        const u32 count = uhsfs_xattr_data_blocks(bytes);
        blocks.assign(uhsfs_xattr_blocks(bytes), {});
        addresses.clear();
        for (u32 i = 0; i < count; i++) {
            addresses.push_back(1000 + 2 * i);
            uhsfs_xattr_build(&blocks[i], &geo, &owner, addresses[i], 7, stream.data(), bytes, i);
        }
        if (count > 1)
            uhsfs_xattr_build_index(&blocks[count], &geo, &owner, index_block, 7, addresses.data(),
                                    count);
    }

    std::string data_fault(u32 i, u32 bytes) {
        uhsfs_fault fault{};
        return uhsfs_xattr_data_check(&blocks[i], &geo, &owner, addresses[i], bytes, i, &fault)
                   ? fault.field
                   : "";
    }

    std::string index_fault(u32 bytes) {
        uhsfs_fault fault{};
        return uhsfs_xattr_index_check(&blocks.back(), &geo, &owner, index_block, bytes, &fault)
                   ? fault.field
                   : "";
    }

    static constexpr u64 index_block = 999;
    uhsfs_geometry geo{};
    uhsfs_xattr_owner owner{321, 9};
    std::vector<unsigned char> stream;
    std::vector<uhsfs_xattr_block> blocks;
    std::vector<u64> addresses;
};

TEST_F(XattrBlocks, GiveBackTheStreamOfAnyLength) {
    for (const u32 bytes : {8U, 4024U, 4032U, 4040U, 8064U, 8072U, 100000U,
                            static_cast<u32>(UHSFS_XATTR_BYTES_MAX)}) {
        build(bytes);
        const u32 count = uhsfs_xattr_data_blocks(bytes);
        uhsfs_xattr_root root{};
        uhsfs_xattr_place place{};
        uhsfs_xattr_root_encode(&root, count > 1 ? index_block : addresses[0], bytes);
        ASSERT_EQ(uhsfs_xattr_root_decode(&root, sizeof(root), &geo, 321, &place, nullptr), 0);
        ASSERT_EQ(place.bytes, bytes);
        ASSERT_EQ(place.depth, count > 1 ? 2 : 1);
        ASSERT_EQ(place.block, count > 1 ? index_block : addresses[0]);
        if (count > 1) {
            ASSERT_EQ(index_fault(bytes), "") << bytes;
            for (u32 i = 0; i < count; i++)
                ASSERT_EQ(uhsfs_xattr_index_get(&blocks.back(), i), addresses[i]);
        }
        std::vector<unsigned char> copy(bytes);
        for (u32 i = 0; i < count; i++) {
            ASSERT_EQ(data_fault(i, bytes), "") << i << " of " << bytes;
            uhsfs_xattr_collect(copy.data(), bytes, i, &blocks[i]);
        }
        ASSERT_EQ(copy, stream);
    }
    EXPECT_EQ(uhsfs_xattr_blocks(0), 0U);
    EXPECT_EQ(uhsfs_xattr_blocks(1), 1U);
    EXPECT_EQ(uhsfs_xattr_blocks(UHSFS_XATTR_PAYLOAD), 1U);
    EXPECT_EQ(uhsfs_xattr_blocks(UHSFS_XATTR_PAYLOAD + 1), 3U);
}

TEST_F(XattrBlocks, EveryFlippedBitIsFound) {
    constexpr u32 bytes = UHSFS_XATTR_PAYLOAD + 1000;
    build(bytes);
    for (std::size_t which = 0; which < blocks.size(); which++) {
        auto *raw = reinterpret_cast<unsigned char *>(&blocks[which]);
        for (std::size_t bit = 0; bit < UHSFS_BLOCK_SIZE * bits_per_byte; bit++) {
            const auto mask = static_cast<unsigned char>(1U << bit % bits_per_byte);
            raw[bit / bits_per_byte] ^= mask;
            const std::string field =
                which == 2 ? index_fault(bytes) : data_fault(static_cast<u32>(which), bytes);
            ASSERT_NE(field, "") << "block " << which << " bit " << bit;
            raw[bit / bits_per_byte] ^= mask;
        }
    }
}

// With a right checksum only seq, the stream's bytes and other legal addresses pass.
TEST_F(XattrBlocks, EveryFlippedByteUnderARightChecksumIsFoundOrMeansSomething) {
    constexpr u32 bytes = UHSFS_XATTR_PAYLOAD + 1000;
    build(bytes);
    const auto good = blocks;
    for (std::size_t which = 0; which < blocks.size(); which++) {
        const std::size_t meaning = which == 0   ? UHSFS_XATTR_PAYLOAD
                                    : which == 1 ? 1000
                                                 : 2 * sizeof(u64);
        auto *raw = reinterpret_cast<unsigned char *>(&blocks[which]);
        for (std::size_t byte = 0; byte < UHSFS_BLOCK_SIZE; byte++) {
            if (byte >= 4 && byte < 8)
                continue;  // the checksum itself
            blocks[which] = good[which];
            raw[byte] ^= 0x11;
            uhsfs_record_seal(raw, UHSFS_BLOCK_SIZE);
            const std::string field =
                which == 2 ? index_fault(bytes) : data_fault(static_cast<u32>(which), bytes);
            const bool is_seq = byte >= offsetof(uhsfs_header, seq) && byte < sizeof(uhsfs_header);
            const bool is_content = byte >= 64 && byte < 64 + meaning;
            ASSERT_TRUE(!field.empty() || is_seq || is_content)
                << "block " << which << " byte " << byte;
        }
        blocks[which] = good[which];
    }
}

TEST_F(XattrBlocks, BlocksOfAnotherPlaceAreRefused) {
    constexpr u32 bytes = 2 * UHSFS_XATTR_PAYLOAD + 8;
    build(bytes);
    EXPECT_EQ(data_fault(2, bytes + 8), "used");
    EXPECT_EQ(index_fault(bytes + UHSFS_XATTR_PAYLOAD), "count");
    EXPECT_EQ(index_fault(UHSFS_XATTR_PAYLOAD + 8), "count");
    const auto reindex = [&](u32 i, u64 address) {
        blocks.back().index[i] = cpu_to_le64(address);
        uhsfs_record_seal(&blocks.back(), UHSFS_BLOCK_SIZE);
        return index_fault(bytes);
    };
    EXPECT_EQ(reindex(1, 0), "index");
    EXPECT_EQ(reindex(1, geo.blocks), "index");
    EXPECT_EQ(reindex(1, U64_MAX), "index");
    EXPECT_EQ(reindex(1, UHSFS_GROUP_BLOCKS + 2), "index") << "a bitmap";
    EXPECT_EQ(reindex(1, UHSFS_SB_COPY), "index") << "a superblock";
    EXPECT_EQ(reindex(1, index_block), "index");
    EXPECT_EQ(reindex(1, addresses[0]), "index");
    EXPECT_EQ(reindex(1, geo.blocks - 1), "");
    EXPECT_EQ(reindex(3, 5), "rest");
    blocks[0].h.flags = cpu_to_le32(1);
    uhsfs_record_seal(blocks.data(), UHSFS_BLOCK_SIZE);
    EXPECT_EQ(data_fault(0, bytes), "flags");
    std::swap(blocks[0], blocks[1]);
    EXPECT_EQ(data_fault(0, bytes), "block");
    owner.gen++;
    EXPECT_EQ(data_fault(2, bytes), "owner_gen");
}

TEST_F(XattrBlocks, RootsThatCannotBeAreRefused) {
    const auto field = [&](u64 block, u32 bytes, u16 depth, u8 reserved = 0,
                           std::size_t len = sizeof(uhsfs_xattr_root)) {
        uhsfs_xattr_root root{};
        root.block = cpu_to_le64(block);
        root.bytes = cpu_to_le32(bytes);
        root.depth = cpu_to_le16(depth);
        root.reserved[1] = reserved;
        uhsfs_xattr_place place{};
        uhsfs_fault fault{};
        return std::string(
            uhsfs_xattr_root_decode(&root, len, &geo, 1, &place, &fault) ? fault.field : "");
    };
    EXPECT_EQ(field(5, 4032, 1), "");
    EXPECT_EQ(field(5, 4033, 2), "");
    EXPECT_EQ(field(5, 4032, 2), "depth");
    EXPECT_EQ(field(5, 4033, 1), "depth");
    EXPECT_EQ(field(5, 4033, 3), "depth");
    EXPECT_EQ(field(5, 0, 0), "bytes");
    EXPECT_EQ(field(5, UHSFS_XATTR_BYTES_MAX, 2), "");
    EXPECT_EQ(field(5, UHSFS_XATTR_BYTES_MAX + 1, 2), "bytes");
    EXPECT_EQ(field(0, 8, 1), "block");
    EXPECT_EQ(field(geo.blocks, 8, 1), "block");
    EXPECT_EQ(field(UHSFS_SB_BLOCK, 8, 1), "block");
    EXPECT_EQ(field(UHSFS_GROUP_BLOCKS + 3, 8, 1), "block");
    EXPECT_EQ(field(5, 8, 1, 1), "reserved");
    EXPECT_EQ(field(5, 8, 1, 0, 15), "length");
}

}  // namespace
