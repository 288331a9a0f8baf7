// SPDX-License-Identifier: GPL-2.0
// Slots: what is built is accepted and comes back, what is wrong is named.
#include "slot.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "names.h"
#include "support/random.hpp"

namespace {

using uhsfs::test::Random;
using Block = std::array<u8, UHSFS_BLOCK_SIZE>;

constexpr u64 kNonce = 0xabcdef0123456789;
constexpr u64 kBlock = 5000;
constexpr u64 kSeq = (7ULL << 32) | 55;

uhsfs_geometry geometry(u32 slot_size = 1024) {
    uhsfs_geometry geo{};
    geo.fsid = 77;
    geo.blocks = 100000;
    geo.homes = 1;
    geo.slot_size = slot_size;
    geo.slots_per_block = 4096 / slot_size;
    geo.slots_per_chunk = geo.slots_per_block * 16;
    geo.erase_unit = 512;
    return geo;
}

uhsfs_attr attributes(u64 ino, u16 mode) {
    uhsfs_attr attr{};
    attr.ino = ino;
    attr.generation = 3;
    attr.state = UHSFS_SLOT_INODE;
    attr.mode = mode;
    attr.uid = 1000;
    attr.gid = 1001;
    attr.projid = 5;
    attr.flags = UHSFS_INODE_NODUMP;
    attr.atime = -1;
    attr.mtime = 1234567890123456789;
    attr.ctime = 2;
    attr.btime = 3;
    attr.version = 9;
    attr.name_seq_max = kSeq;
    attr.seq = kSeq;
    attr.nonce = kNonce;
    return attr;
}

std::vector<u8> name_record(const std::string &name, u64 name_seq = kSeq) {
    std::vector<u8> bytes(sizeof(uhsfs_name) + name.size());
    const uhsfs_claim claim = {1, 2, static_cast<u32>(name.size()), name_seq,
                               reinterpret_cast<const u8 *>(name.data())};
    uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(bytes.data()));
    return bytes;
}

std::vector<u8> extent_records(u32 count) {
    std::vector<u8> bytes(count * sizeof(uhsfs_extent));
    auto *extent = reinterpret_cast<uhsfs_extent *>(bytes.data());
    for (u32 i = 0; i < count; i++) {
        extent[i].logical = cpu_to_le64(i * 10ULL);
        extent[i].physical = cpu_to_le64(20000 + i * 10ULL);
        extent[i].len = cpu_to_le32(5);
        extent[i].birth = cpu_to_le32(1);
    }
    return bytes;
}

struct Record {
    u16 type;
    std::vector<u8> value;
};

// One slot, alone at the start of its block, the rest of which is FREE.
struct Image {
    uhsfs_geometry geo;
    Block block{};
    u64 ino;

    Image(const uhsfs_attr &attr, const std::vector<Record> &records, u32 slot_size = 1024)
        : geo(geometry(slot_size)), ino(attr.ino) {
        uhsfs_slot_builder b;
        uhsfs_slot_begin(&b, &geo, block.data(), &attr);
        for (const Record &r : records) {
            EXPECT_EQ(uhsfs_slot_put(&b, r.type, r.value.data(), static_cast<u32>(r.value.size())),
                      0);
        }
        uhsfs_slot_finish(&b);
        for (u32 i = 1; i < geo.slots_per_block; i++) {
            uhsfs_slot_build_free(&geo, block.data() + i * slot_size, ino + i, i, 0, kNonce, kSeq);
        }
        seal();
    }

    void seal() { uhsfs_slot_block_seal(&geo, block.data(), kBlock, kSeq); }

    uhsfs_slot *slot() { return reinterpret_cast<uhsfs_slot *>(block.data()); }

    int parse(uhsfs_slot_view *view, uhsfs_fault *fault) const {
        const uhsfs_slot_id id = {ino, kBlock, kNonce};
        return uhsfs_slot_parse(&geo, block.data(), &id, view, fault);
    }

    int check(uhsfs_fault *fault = nullptr) const {
        u64 seq = 0;
        return uhsfs_slot_block_check(&geo, block.data(), kBlock, ino, kNonce, &seq, fault);
    }

    // The field that is complained about after a change, or "accepted".
    std::string complaint(const std::function<void(u8 *)> &change) {
        const Block before = block;
        change(block.data());
        seal();
        uhsfs_fault fault{};
        uhsfs_slot_view view;
        const int err = parse(&view, &fault);
        block = before;
        return err == 0 ? "accepted" : fault.field;
    }
};

Image regular_file(const std::string &name = "file", u32 extents = 3) {
    uhsfs_attr attr = attributes(64, UHSFS_S_IFREG | 0644);
    attr.nlink = 1;
    attr.size = 123456;
    attr.blocks = 15;
    return {attr,
            {{UHSFS_TLV_NAME, name_record(name)}, {UHSFS_TLV_EXTENTS, extent_records(extents)}}};
}

std::vector<u8> dir_root() {
    uhsfs_dir_root root{};
    root.buckets = cpu_to_le32(1);
    return {reinterpret_cast<u8 *>(&root), reinterpret_cast<u8 *>(&root + 1)};
}

std::vector<u8> device(u32 major, u32 minor) {
    uhsfs_device dev = {cpu_to_le32(major), cpu_to_le32(minor)};
    return {reinterpret_cast<u8 *>(&dev), reinterpret_cast<u8 *>(&dev + 1)};
}

TEST(Slot, WhatIsBuiltComesBack) {
    for (const u32 size : {1024U, 2048U, 4096U}) {
        uhsfs_attr attr = attributes(64, UHSFS_S_IFREG | 04755);
        attr.nlink = 1;
        attr.size = 777;
        attr.blocks = 15;
        const Image image(
            attr, {{UHSFS_TLV_NAME, name_record("n")}, {UHSFS_TLV_EXTENTS, extent_records(7)}},
            size);
        uhsfs_slot_view view;
        uhsfs_fault fault{};
        ASSERT_EQ(image.parse(&view, &fault), 0) << fault.field;
        EXPECT_EQ(std::memcmp(&view.attr, &attr, sizeof(attr)), 0);
        EXPECT_EQ(view.len[UHSFS_TLV_EXTENTS], 7 * sizeof(uhsfs_extent));
        EXPECT_EQ(std::memcmp(view.value[UHSFS_TLV_EXTENTS], extent_records(7).data(),
                              7 * sizeof(uhsfs_extent)),
                  0);
        EXPECT_EQ(view.value[UHSFS_TLV_INLINE], nullptr);
        EXPECT_EQ(image.check(), 0);
    }
}

TEST(Slot, EveryKindOfInodeIsAccepted) {
    const auto accepted = [](uhsfs_attr attr, std::vector<Record> records) {
        records.insert(records.begin(), {UHSFS_TLV_NAME, name_record("x")});
        attr.nlink = 1;
        const Image image(attr, records);
        uhsfs_slot_view view;
        uhsfs_fault fault{};
        fault.field = "";
        const int err = image.parse(&view, &fault);
        EXPECT_EQ(err, 0) << std::oct << attr.mode << ": " << fault.field;
    };
    uhsfs_attr attr = attributes(64, UHSFS_S_IFDIR | 0755);
    accepted(attr, {{UHSFS_TLV_DIR, dir_root()}, {UHSFS_TLV_EXTENTS, extent_records(1)}});
    attr.mode = UHSFS_S_IFLNK | 0777;
    attr.size = 6;
    accepted(attr, {{UHSFS_TLV_INLINE, {'t', 'a', 'r', 'g', 'e', 't'}}});
    attr.mode = UHSFS_S_IFREG;
    accepted(attr, {{UHSFS_TLV_INLINE, {'t', 'a', 'r', 'g', 'e', 't'}}});
    accepted(attr, {});  // all hole
    attr.size = 0;
    accepted(attr, {});
    for (const u16 type : {UHSFS_S_IFCHR, UHSFS_S_IFBLK}) {
        attr.mode = type;
        accepted(attr, {{UHSFS_TLV_DEVICE, device(8, 1)}});
    }
    for (const u16 type : {UHSFS_S_IFIFO, UHSFS_S_IFSOCK}) {
        attr.mode = type;
        accepted(attr, {});
    }
}

TEST(Slot, TheRootHasNoNameAndIsADirectory) {
    uhsfs_attr attr = attributes(UHSFS_INO_ROOT, UHSFS_S_IFDIR | 0755);
    const std::vector<Record> body = {{UHSFS_TLV_DIR, dir_root()},
                                      {UHSFS_TLV_EXTENTS, extent_records(1)}};
    uhsfs_slot_view view;
    uhsfs_fault fault{};
    EXPECT_EQ(Image(attr, body).parse(&view, &fault), 0);
    attr.nlink = 1;
    std::vector<Record> named = body;
    named.insert(named.begin(), {UHSFS_TLV_NAME, name_record("root")});
    EXPECT_EQ(Image(attr, named).parse(&view, &fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "names");
    attr = attributes(UHSFS_INO_ROOT, UHSFS_S_IFREG | 0755);
    EXPECT_EQ(Image(attr, {}).parse(&view, &fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "mode");
}

TEST(Slot, NoExtentMapsASuperblockOrABitmap) {
    Image image = regular_file("x", 1);
    const size_t extent = UHSFS_SLOT_HEADER + 8 + 32 + 8;
    const auto at = [&](u64 physical) {
        return image.complaint([=](u8 *b) {
            reinterpret_cast<uhsfs_extent *>(b + extent)->physical = cpu_to_le64(physical);
        });
    };
    EXPECT_EQ(at(40), "accepted");
    EXPECT_EQ(at(3), "extent.physical");
    EXPECT_EQ(at(32766), "extent.physical");
    EXPECT_EQ(at(32768 + 1), "extent.physical");
    EXPECT_NE(at(99999), "accepted");
}

TEST(Slot, InodeZeroIsFree) {
    const Image image(attributes(UHSFS_INO_INVALID, UHSFS_S_IFIFO), {});
    uhsfs_slot_view view;
    uhsfs_fault fault{};
    EXPECT_EQ(image.parse(&view, &fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "state");
}

TEST(Slot, FieldsOfFeaturesAreTheirs) {
    Image image = regular_file();
    image.geo.ro_compat = UHSFS_RO_COMPAT_SNAPSHOTS | UHSFS_RO_COMPAT_REFLINK;
    const auto change = [](u8 *bytes) {
        auto *slot = reinterpret_cast<uhsfs_slot *>(bytes);
        slot->prev_image = cpu_to_le64(1234);
        slot->blocks = cpu_to_le64(100001);
    };
    EXPECT_EQ(image.complaint(change), "accepted");
    image.geo.ro_compat = UHSFS_RO_COMPAT_REFLINK;
    EXPECT_EQ(image.complaint(change), "reserved");
    image.geo.ro_compat = UHSFS_RO_COMPAT_SNAPSHOTS;
    EXPECT_EQ(image.complaint(change), "blocks");
}

TEST(Slot, EveryFlippedBitIsFound) {
    Image image = regular_file();
    ASSERT_EQ(image.check(), 0);
    for (size_t i = 0; i < image.block.size(); i++) {
        for (int bit = 0; bit < 8; bit++) {
            image.block[i] ^= static_cast<u8>(1 << bit);
            ASSERT_EQ(image.check(), -EUCLEAN) << "byte " << i << " bit " << bit;
            image.block[i] ^= static_cast<u8>(1 << bit);
        }
    }
}

TEST(Slot, WrongFieldsAreNamed) {
    Image image = regular_file();
    const auto slot = [](auto change) {
        return [change](u8 *bytes) { change(*reinterpret_cast<uhsfs_slot *>(bytes)); };
    };
    const size_t name_tlv = UHSFS_SLOT_HEADER;
    const size_t name = name_tlv + sizeof(uhsfs_tlv);
    EXPECT_EQ(image.complaint([](u8 *) {}), "accepted");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.state = 0; })), "state");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.state = 3; })), "state");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.state = UHSFS_SLOT_FREE; })), "body");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.nonce ^= 1; })), "nonce");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.mode = 0644; })), "mode");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.mode = 0170644; })), "mode");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.flags = cpu_to_le32(0x80); })), "flags");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.blocks = cpu_to_le64(100001); })), "blocks");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.reserved0 = 1; })), "reserved");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.reserved1[5] = 1; })), "reserved");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.prev_image = 1; })), "reserved");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.nlink = 0; })), "nlink");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.nlink = cpu_to_le32(2); })), "nlink");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.size = cpu_to_le64(1ULL << 63); })), "size");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.name_seq_max = 1; })), "name_seq");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.body_len = cpu_to_le16(864); })), "body_len");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.body_len = cpu_to_le16(9); })), "body_len");
    EXPECT_EQ(image.complaint(slot([](auto &s) { s.body_len = cpu_to_le16(8); })), "tlv.len");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv] = 0; }), "tlv.type");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv] = UHSFS_TLV_TYPES; }), "tlv.type");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv] = UHSFS_TLV_EXTENT_ROOT; }), "tlv.type");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv + 2] = 0; }), "tlv.len");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv + 3] = 4; }), "tlv.len");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name_tlv + 4] = 1; }), "tlv.reserved");
    EXPECT_EQ(image.complaint([&](u8 *b) { b[name + sizeof(uhsfs_name) + 4] = 1; }), "tlv padding");
    EXPECT_EQ(image.complaint([](u8 *b) { b[1023] = 1; }), "bytes after the body");
    // The name itself is names.c's and the extents are extent.c's business: that they are asked.
    EXPECT_NE(image.complaint([&](u8 *b) { b[name + sizeof(uhsfs_name)] = '/'; }), "accepted");
    EXPECT_NE(image.complaint([&](u8 *b) { b[name + 12] = 3; }), "accepted");
    EXPECT_NE(image.complaint([&](u8 *b) { b[name + 12] = 5; }), "accepted");
    const size_t extent = name + 32 + sizeof(uhsfs_tlv);
    EXPECT_NE(image.complaint([&](u8 *b) { b[extent + 8 + 4] = 1; }), "accepted");
}

TEST(Slot, ContentFitsTheTypeOfFile) {
    const std::vector<u8> six = {1, 2, 3, 4, 5, 6};
    const auto complaint = [](u16 mode, u64 size, std::vector<Record> records) {
        uhsfs_attr attr = attributes(64, mode);
        attr.nlink = 1;
        attr.size = size;
        records.insert(records.begin(), {UHSFS_TLV_NAME, name_record("x")});
        const Image image(attr, records);
        uhsfs_slot_view view;
        uhsfs_fault fault{};
        return image.parse(&view, &fault) == 0 ? std::string("accepted") : fault.field;
    };
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 6, {{UHSFS_TLV_INLINE, six}}), "accepted");
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 7, {{UHSFS_TLV_INLINE, six}}), "size");
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 6,
                        {{UHSFS_TLV_INLINE, six}, {UHSFS_TLV_EXTENTS, extent_records(1)}}),
              "content");
    EXPECT_EQ(complaint(UHSFS_S_IFIFO, 0, {{UHSFS_TLV_INLINE, six}}), "inline data");
    EXPECT_EQ(complaint(UHSFS_S_IFSOCK, 0, {{UHSFS_TLV_EXTENTS, extent_records(1)}}), "extents");
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 0, {{UHSFS_TLV_DIR, dir_root()}}), "directory root");
    EXPECT_EQ(complaint(UHSFS_S_IFDIR, 0, {{UHSFS_TLV_EXTENTS, extent_records(1)}}),
              "directory root");
    EXPECT_EQ(complaint(UHSFS_S_IFDIR, 0, {{UHSFS_TLV_DIR, dir_root()}}), "directory");
    EXPECT_EQ(complaint(UHSFS_S_IFDIR, 9,
                        {{UHSFS_TLV_DIR, dir_root()}, {UHSFS_TLV_EXTENTS, extent_records(1)}}),
              "size");
    EXPECT_EQ(complaint(UHSFS_S_IFCHR, 0, {}), "device");
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 0, {{UHSFS_TLV_DEVICE, device(1, 1)}}), "device");
    EXPECT_EQ(complaint(UHSFS_S_IFBLK, 0, {{UHSFS_TLV_DEVICE, six}}), "device");
    EXPECT_EQ(complaint(UHSFS_S_IFLNK, 6, {}), "symlink");
    EXPECT_EQ(complaint(UHSFS_S_IFLNK, 0, {{UHSFS_TLV_EXTENTS, extent_records(1)}}), "size");
    EXPECT_EQ(complaint(UHSFS_S_IFLNK, 4096, {{UHSFS_TLV_EXTENTS, extent_records(1)}}), "size");
    EXPECT_EQ(complaint(UHSFS_S_IFLNK, 4095, {{UHSFS_TLV_EXTENTS, extent_records(1)}}), "accepted");
    const std::vector<u8> zero_root(sizeof(uhsfs_extent_root), 0);
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 1, {{UHSFS_TLV_EXTENT_ROOT, zero_root}}), "extent root");
    EXPECT_EQ(complaint(UHSFS_S_IFREG, 1, {{UHSFS_TLV_NAMES, std::vector<u8>(16, 0)}}),
              "names root");
    EXPECT_NE(complaint(UHSFS_S_IFREG, 1, {{UHSFS_TLV_XATTRS, std::vector<u8>(16, 0)}}),
              "accepted");
    EXPECT_NE(complaint(UHSFS_S_IFREG, 1, {{UHSFS_TLV_XATTR_ROOT, std::vector<u8>(16, 0)}}),
              "accepted");
}

TEST(Slot, AnIntentIsCheckedInAllItsParts) {
    uhsfs_attr attr = attributes(64, UHSFS_S_IFREG);
    attr.nlink = 1;
    std::vector<u8> intent(sizeof(uhsfs_intent) + 3);
    auto *raw = reinterpret_cast<uhsfs_intent *>(intent.data());
    raw->peer_ino = cpu_to_le64(65);
    raw->op = UHSFS_INTENT_EXCHANGE;
    raw->len = 3;
    raw->parent_ino = cpu_to_le64(1);
    raw->name_seq = cpu_to_le64(kSeq);
    std::memcpy(raw->name, "abc", 3);
    Image image(attr, {{UHSFS_TLV_NAME, name_record("x")}, {UHSFS_TLV_INTENT, intent}});
    const size_t at = UHSFS_SLOT_HEADER + 8 + 32 + 8;
    EXPECT_EQ(image.complaint([](u8 *) {}), "accepted");
    const auto change = [&](size_t offset, u8 value) {
        return image.complaint([=](u8 *b) { b[at + offset] = value; });
    };
    EXPECT_EQ(change(offsetof(uhsfs_intent, op), 0), "intent.op");
    EXPECT_EQ(change(offsetof(uhsfs_intent, op), 3), "intent.op");
    EXPECT_EQ(change(offsetof(uhsfs_intent, len), 4), "intent.len");
    EXPECT_EQ(change(offsetof(uhsfs_intent, len), 255), "intent.len");
    EXPECT_EQ(change(offsetof(uhsfs_intent, reserved), 1), "intent.reserved");
    EXPECT_EQ(change(offsetof(uhsfs_intent, reserved1), 1), "intent.reserved");
    EXPECT_EQ(change(offsetof(uhsfs_intent, peer_ino), 0), "intent");
    EXPECT_EQ(change(offsetof(uhsfs_intent, parent_ino), 0), "intent");
    EXPECT_EQ(change(sizeof(uhsfs_intent) + 1, '/'), "intent.name");
}

TEST(Slot, AFreeSlotHasNoContent) {
    Image image = regular_file();
    for (size_t i = 0; i < 1024; i++) {
        // Identity, sequence numbers and the state itself are what a FREE slot keeps.
        const bool kept =
            i < sizeof(uhsfs_header) + 3 * sizeof(u64) || i == offsetof(uhsfs_slot, state);
        if (kept) {
            continue;
        }
        const Block before = image.block;
        image.block[1024 + i] ^= 1;
        image.seal();
        ASSERT_EQ(image.check(), -EUCLEAN) << i;
        image.block = before;
    }
}

TEST(Slot, ABlockCopyIsValidOnlyAsAWhole) {
    Image image = regular_file();
    auto *third = reinterpret_cast<uhsfs_slot *>(image.block.data() + 2048);
    uhsfs_fault fault{};
    third->block_seq = cpu_to_le64(kSeq - 1);
    uhsfs_record_seal(third, 1024);
    EXPECT_EQ(image.check(&fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "block_seq");
    EXPECT_EQ(fault.id, 66U);
    image.seal();
    third->h.seq = cpu_to_le64(kSeq + 1);
    uhsfs_record_seal(third, 1024);
    EXPECT_EQ(image.check(&fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "seq");
    third->h.owner_ino = cpu_to_le64(67);
    image.seal();
    EXPECT_EQ(image.check(&fault), -EUCLEAN);
    EXPECT_STREQ(fault.field, "owner_ino");
}

TEST(Slot, TheBuilderStopsAtTheEnd) {
    const uhsfs_geometry geo = geometry();
    Block block{};
    const uhsfs_attr attr = attributes(64, UHSFS_S_IFREG);
    uhsfs_slot_builder b;
    uhsfs_slot_begin(&b, &geo, block.data(), &attr);
    const std::vector<u8> longest = name_record(std::string(255, 'n'));
    ASSERT_EQ(uhsfs_slot_put(&b, UHSFS_TLV_NAME, longest.data(), static_cast<u32>(longest.size())),
              0);
    const u32 room = uhsfs_slot_room(&b);
    EXPECT_GE(room, 15 * sizeof(uhsfs_extent));
    const std::vector<u8> data(room + 1, 'd');
    EXPECT_EQ(uhsfs_slot_put(&b, UHSFS_TLV_INLINE, data.data(), room + 1), -ENOSPC);
    EXPECT_EQ(uhsfs_slot_room(&b), room);
    EXPECT_EQ(uhsfs_slot_put(&b, UHSFS_TLV_INLINE, data.data(), room), 0);
    EXPECT_EQ(uhsfs_slot_room(&b), 0U);
    EXPECT_EQ(b.used, 1024U);
    EXPECT_EQ(uhsfs_slot_put(&b, UHSFS_TLV_EXTENTS, data.data(), 1), -ENOSPC);
    for (size_t i = 1024; i < block.size(); i++) {
        ASSERT_EQ(block[i], 0);
    }
}

TEST(Slot, RandomBytesWithARightChecksumDoNoHarm) {
    Random random;
    SCOPED_TRACE(random.note());
    Image image = regular_file("some name", 20);
    const Block good = image.block;
    int accepted = 0;
    for (int round = 0; round < 50000; round++) {
        image.block = good;
        const u64 changes = random.between(1, 6);
        for (u64 i = 0; i < changes; i++) {
            image.block[random.between(48, 1023)] = static_cast<u8>(random.between(0, 255));
        }
        image.seal();
        uhsfs_slot_view view;
        if (image.parse(&view, nullptr) == 0) {
            accepted++;
            for (u32 t = 0; t < UHSFS_TLV_TYPES; t++) {
                if (view.value[t] == nullptr) {
                    continue;
                }
                const auto *value = static_cast<const u8 *>(view.value[t]);
                ASSERT_GE(value, image.block.data() + UHSFS_SLOT_HEADER);
                ASSERT_LE(value + view.len[t], image.block.data() + 1024);
            }
        }
    }
    EXPECT_GT(accepted, 0);
}

TEST(SlotMode, HasTheTypeOfDirectoryEntries) {
    EXPECT_EQ(uhsfs_mode_dtype(0100644), 8);
    EXPECT_EQ(uhsfs_mode_dtype(040755), 4);
    EXPECT_EQ(uhsfs_mode_dtype(0120777), 10);
    EXPECT_EQ(uhsfs_mode_dtype(0020666), 2);
    EXPECT_EQ(uhsfs_mode_dtype(0060660), 6);
    EXPECT_EQ(uhsfs_mode_dtype(0010600), 1);
    EXPECT_EQ(uhsfs_mode_dtype(0140700), 12);
}

}  // namespace
