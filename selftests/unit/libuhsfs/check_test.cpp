// SPDX-License-Identifier: GPL-2.0
/*
 * One structure of a sound image is changed and sealed again, so that only the check that
 * compares it with something else can find it.
 */
#include "libuhsfs/check.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "libuhsfs/check_support.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::test;

class CheckShape : public ::testing::TestWithParam<Shape> {};

TEST_P(CheckShape, NewImageIsCleanAndCounted) {
    const Image image(GetParam(), false);
    const CheckReport report = image.check();

    EXPECT_CLEAN(report);
    EXPECT_EQ(report.notes_total, 0U) << all_text(report);
    EXPECT_EQ(report.directories, 5U);
    EXPECT_EQ(report.files, 300U + 1 + 3 + 2);
    EXPECT_EQ(report.names, report.files + report.directories - 1 + 60);
    EXPECT_EQ(report.free_blocks, image.volume().super().free_blocks);
    EXPECT_FALSE(report.recovery.needed);
}

INSTANTIATE_TEST_SUITE_P(All, CheckShape,
                         ::testing::Values(Shape{.slot_size = 1024, .shadow = false},
                                           Shape{.slot_size = 1024, .shadow = true},
                                           Shape{.slot_size = 2048, .shadow = false},
                                           Shape{.slot_size = 2048, .shadow = true},
                                           Shape{.slot_size = 4096, .shadow = false},
                                           Shape{.slot_size = 4096, .shadow = true}),
                         [](const auto &shape) { return shape_name(shape.param); });

TEST(Check, LargerThanOneGroupIsClean) {
    const Image image({.blocks = 3 * UHSFS_GROUP_BLOCKS, .shadow = true});

    EXPECT_CLEAN(image.check());
}

// ---- superblock ----------------------------------------------------------------------------

TEST(Check, BadCopyOfSuperblockIsFound) {
    for (const int copy : {0, 1}) {
        const Image image;
        const std::uint64_t block = uhsfs_super_block(&image.volume().geo(), copy);
        image.flip(block * block_size + 200, 1);
        EXPECT_FINDING(image.check(), "superblock", block, "crc");
    }
}

TEST(Check, SuperblocksOfTwoFilesystemsAreFound) {
    const Image image;
    const int old = 1 - image.volume().super_chosen();

    image.edit_super([](uhsfs_super_info &info) { info.geo.fsid++; }, old);
    EXPECT_FINDING(image.check(), "superblock", image.volume().super_copy(old).block, "fsid");
    image.edit_super([](uhsfs_super_info &info) { info.geo.nonce_key[12]++; }, old);
    EXPECT_FINDING(image.check(), "superblock", image.volume().super_copy(old).block, "nonce_key");
}

TEST(Check, OlderSuperblockOfNewerEpochIsFound) {
    const Image image;
    const int chosen = image.volume().super_chosen();
    const int old = 1 - chosen;

    image.edit_super([](uhsfs_super_info &info) { info.seq = uhsfs_seq_make(info.epoch + 5, 1); },
                     chosen);
    image.edit_super([](uhsfs_super_info &info) { info.seq = uhsfs_seq_make(++info.epoch, 1); },
                     old);
    EXPECT_FINDING(image.check(), "superblock", image.volume().super_copy(old).block, "epoch");
}

TEST(Check, NothingIsNewerThanTheSuperblocksSeq) {
    const Image image;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 0);
    const auto write_map_of = [&](std::uint32_t epoch) {
        image.edit_map(map, [=](uhsfs_map_block &block) {
            block.h.seq = cpu_to_le64(uhsfs_seq_make(epoch, 1));
        });
    };

    // A mount raises it before it writes anything of a new epoch.
    image.edit_super([](uhsfs_super_info &info) { info.seq = uhsfs_seq_make(1000, 1); },
                     image.volume().super_chosen());
    write_map_of(1000);
    EXPECT_CLEAN(image.check());
    write_map_of(1001);
    EXPECT_FINDING(image.check(), "bitmap", map, "seq");
}

TEST(Check, WrongTotalsAreFound) {
    const Image image;
    const std::uint64_t block = image.volume().super_copy(image.volume().super_chosen()).block;

    image.edit_super([](uhsfs_super_info &info) { info.free_blocks--; });
    EXPECT_FINDING(image.check(), "superblock", block, "free_blocks");
    image.edit_super([](uhsfs_super_info &info) {
        info.free_blocks++;
        info.used_slots++;
    });
    EXPECT_FINDING(image.check(), "superblock", block, "used_slots");
}

TEST(Check, ChunkBeyondWatermarkIsFound) {
    const Image image;
    const std::uint64_t last = image.volume().super().chunks_used - 1;

    ASSERT_GE(last, 1U);
    image.edit_super([&](uhsfs_super_info &info) {
        info.chunks_used = last;
        info.used_slots = 1;
    });
    EXPECT_FINDING(image.check(), "chunk", last, "descriptor");
}

TEST(Check, GroupBeyondWatermarkIsFound) {
    const Image image({.blocks = 3 * UHSFS_GROUP_BLOCKS});
    const std::uint64_t far = 2 * UHSFS_GROUP_BLOCKS + 100;
    const std::uint64_t ino = image.ino("data");

    ASSERT_LE(image.volume().super().groups_used, 2U);
    EXPECT_CLEAN(image.check());
    image.rebuild_slot(
        ino, [](uhsfs_attr &) {},
        [&](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_EXTENTS)
                reinterpret_cast<uhsfs_extent *>(value.data())->physical = cpu_to_le64(far);
            return true;
        });
    EXPECT_FINDING(image.check(), "slot", ino, "block");
    image.edit_super([](uhsfs_super_info &info) { info.groups_used = 3; });
    EXPECT_FINDING(image.check(), "bitmap", uhsfs_bitmap_home(&image.volume().geo(), 2, 0),
                   "magic");
}

// ---- chunks and maps -----------------------------------------------------------------------

TEST(Check, DamagedChunkTableIsFoundOnce) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();

    image.flip(block * block_size + 100, 0);
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "chunk table", block, "crc");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
}

TEST(Check, ForeignNonceIsFound) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();

    image.edit<uhsfs_table_block>(block, [](uhsfs_table_block &table) {
        table.chunk[0].nonce = cpu_to_le64(le64_to_cpu(table.chunk[0].nonce) + 1);
    });
    EXPECT_FINDING(image.check(), "chunk", 0U, "nonce");
}

TEST(Check, NewerTableBlockIsFound) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();

    image.edit<uhsfs_table_block>(
        block, [](uhsfs_table_block &table) { table.h.seq = cpu_to_le64(uhsfs_seq_make(77, 1)); });
    EXPECT_FINDING(image.check(), "chunk table", block, "seq");
}

TEST(Check, InUseBitWithoutInodeAndInodeWithoutBitAreFound) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t chunk = image.chunk_of(ino);
    const auto toggle = [&](std::uint64_t bit) {
        image.edit<uhsfs_table_block>(block, [&](uhsfs_table_block &table) {
            table.chunk[chunk].in_use ^= cpu_to_le64(std::uint64_t{1} << bit);
        });
    };

    toggle(uhsfs_ino_index(&image.volume().geo(), ino));
    CheckReport report = image.check();
    EXPECT_FINDING(report, "chunk", chunk, "in_use");
    EXPECT_FALSE(has(report.findings, "slot", ino, "name")) << all_text(report);
    toggle(uhsfs_ino_index(&image.volume().geo(), ino));
    EXPECT_CLEAN(image.check());
    toggle(63);
    EXPECT_FALSE(image.check().clean());
    toggle(63);
    image.edit<uhsfs_table_block>(
        block, [](uhsfs_table_block &table) { table.chunk[0].in_use ^= cpu_to_le64(1); });
    EXPECT_FINDING(image.check(), "chunk", 0U, "in_use");
}

TEST(Check, ChunkOnAnothersBlocksIsFound) {
    const Image image;
    const std::uint64_t block = must(image.volume().table_block(0)).home.chosen_block();
    const std::uint64_t other = must(image.volume().chunk(1)).block;

    image.edit<uhsfs_table_block>(
        block, [&](uhsfs_table_block &table) { table.chunk[0].block = cpu_to_le64(other); });
    EXPECT_FINDING(image.check(), "block", other, "owner");
}

TEST(Check, EpochsOfIntentMapsAreChecked) {
    const auto edit = [](const Image &image, unsigned which, std::uint32_t ahead) {
        const std::uint64_t block = must(image.volume().chunk_map(0, which)).home.chosen_block();
        const std::uint32_t epoch = image.volume().super().epoch + ahead;
        image.raise_seq(epoch);
        image.edit_map(block, [&](uhsfs_map_block &map) { map.epoch = cpu_to_le32(epoch); });
        return block;
    };
    {
        const Image image;
        const std::uint64_t block = edit(image, image.volume().super().epoch & 1, 1);
        EXPECT_FINDING(image.check(), "intent map", block, "epoch");
    }
    {
        const Image image;
        const std::uint64_t block = edit(image, (image.volume().super().epoch + 1) & 1, 3);
        EXPECT_FINDING(image.check(), "intent map", block, "epoch");
    }
    {
        const Image image;
        const std::uint64_t block = edit(image, (image.volume().super().epoch + 1) & 1, 1);
        image.edit_super([](uhsfs_super_info &info) { info.seq = uhsfs_seq_make(info.epoch, 9); });
        EXPECT_FINDING(image.check(), "intent map", block, "epoch");
    }
    {
        const Image image;
        edit(image, (image.volume().super().epoch + 1) & 1, 1);
        const CheckReport report = image.check();
        EXPECT_CLEAN(report);
        EXPECT_FALSE(report.recovery.needed);
    }
}

TEST(Check, BitsOfMapsPastTheLastChunkAreFound) {
    const Image image;
    const std::uint64_t block =
        must(image.volume().chunk_map(0, UHSFS_MAP_WHICH_SUSPECT)).home.chosen_block();

    image.edit_map(block, [&](uhsfs_map_block &map) { uhsfs_map_set(map.bits, 16000); });
    EXPECT_FINDING(image.check(), "suspect map", block, "bits");
}

// ---- slots ---------------------------------------------------------------------------------

TEST(Check, WrongBlockCountIsFound) {
    for (const char *name : {"data", "pieces", "a/linked", "many", "long"}) {
        const Image image;
        const std::uint64_t ino = image.ino(name);
        image.edit_header(
            ino, [](uhsfs_slot &slot) { slot.blocks = cpu_to_le64(le64_to_cpu(slot.blocks) + 1); });
        const CheckReport report = image.check();
        EXPECT_FINDING(report, "slot", ino, "blocks");
        EXPECT_EQ(report.findings_total, 1U) << all_text(report);
    }
}

TEST(Check, WrongLinkCountIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");

    image.edit_header(ino, [](uhsfs_slot &slot) { slot.nlink = cpu_to_le32(2); });
    EXPECT_FINDING(image.check(), "slot", ino, "nlink");
}

TEST(Check, WrongCountOfNamesTreeIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("a/linked");

    image.rebuild_slot(
        ino, [](uhsfs_attr &attr) { attr.nlink++; },
        [](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_NAMES) {
                auto *root = reinterpret_cast<uhsfs_names_root *>(value.data());
                root->count = cpu_to_le32(le32_to_cpu(root->count) + 1);
            }
            return true;
        });
    EXPECT_FINDING(image.check(), "slot", ino, "names root.count");
}

TEST(Check, WrongCountOfExtentTreeIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("pieces");

    image.rebuild_slot(
        ino, [](uhsfs_attr &) {},
        [](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_EXTENT_ROOT) {
                auto *root = reinterpret_cast<uhsfs_extent_root *>(value.data());
                root->count = cpu_to_le64(le64_to_cpu(root->count) + 1);
            }
            return true;
        });
    EXPECT_FINDING(image.check(), "slot", ino, "extent root.count");
}

TEST(Check, SequenceNumbersOfTheFutureAreFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t future = uhsfs_seq_make(1000, 1);

    image.edit_header(ino, [&](uhsfs_slot &slot) { slot.name_seq_max = cpu_to_le64(future); });
    EXPECT_FINDING(image.check(), "slot", ino, "name_seq_max");
    image.rebuild_slot(
        ino, [](uhsfs_attr &attr) { attr.name_seq_max = attr.seq; },
        [](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_EXTENTS)
                reinterpret_cast<uhsfs_extent *>(value.data())->birth = cpu_to_le32(1000);
            return true;
        });
    EXPECT_FINDING(image.check(), "slot", ino, "extent.birth");
}

TEST(Check, SlotBlocksOfTheFutureAreFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const uhsfs_geometry geo = image.volume().geo();
    const std::uint64_t block = image.slot_block(ino);

    image.edit_block(block, [&](std::uint8_t *bytes) {
        uhsfs_slot_block_seal(&geo, bytes, block, uhsfs_seq_make(1000, 1));
    });
    EXPECT_FINDING(image.check(), "slot", ino - ino % geo.slots_per_block, "block_seq");
}

TEST(Check, TreeNodesOfTheFutureAreFound) {
    const Image image;
    const Volume volume = image.volume();
    struct Case {
        const char *path;
        const char *object;
    };
    std::vector<std::uint64_t> nodes;
    const BlockVisitor visit = [&](std::uint64_t block) { nodes.push_back(block); };

    must(volume.extents(image.inode("pieces"), visit));
    ASSERT_FALSE(nodes.empty());
    image.edit<uhsfs_tree_node>(nodes.back(), [](uhsfs_tree_node &node) {
        node.h.seq = cpu_to_le64(uhsfs_seq_make(1000, 1));
    });
    EXPECT_FINDING(image.check(), "extent tree node", nodes.back(), "seq");
    nodes.clear();
    must(volume.names(image.inode("a/linked"), visit));
    ASSERT_FALSE(nodes.empty());
    image.edit<uhsfs_tree_node>(nodes.back(), [](uhsfs_tree_node &node) {
        node.h.seq = cpu_to_le64(uhsfs_seq_make(1000, 1));
    });
    EXPECT_FINDING(image.check(), "names tree node", nodes.back(), "seq");
    nodes.clear();
    must(volume.xattrs(image.inode("data"), visit));
    ASSERT_GE(nodes.size(), 2U);
    image.edit<uhsfs_xattr_block>(nodes.back(), [](uhsfs_xattr_block &block) {
        block.h.seq = cpu_to_le64(uhsfs_seq_make(1000, 1));
    });
    EXPECT_FINDING(image.check(), "xattr block", nodes.back(), "seq");
}

TEST(Check, DamagedTreesAndAttributesAreFoundOnce) {
    struct Case {
        const char *path;
        const char *object;
    };
    for (const Case &c : {Case{"pieces", "extent tree node"}, Case{"a/linked", "names tree node"},
                          Case{"data", "xattr"}}) {
        const Image image;
        std::vector<std::uint64_t> nodes;
        const BlockVisitor visit = [&](std::uint64_t block) { nodes.push_back(block); };
        const Volume at = image.volume();
        const Inode inode = image.inode(c.path);
        must(at.extents(inode, visit));
        must(at.names(inode, visit));
        must(at.xattrs(inode, visit));
        ASSERT_FALSE(nodes.empty());
        image.flip(nodes.front() * block_size + 60, 3);
        const CheckReport report = image.check();
        ASSERT_GE(report.findings_total, 1U);
        EXPECT_EQ(report.findings[0].fault.id, nodes.front()) << all_text(report);
        EXPECT_TRUE(std::string_view(report.findings[0].fault.object).starts_with(c.object))
            << all_text(report);
    }
}

TEST(Check, BlockOwnedTwiceIsFoundWithBothOwners) {
    const Image image;
    const std::uint64_t ino = image.ino("more");
    const std::uint64_t other = must(image.volume().extents(image.inode("data")))[0].physical;

    image.rebuild_slot(
        ino, [](uhsfs_attr &) {},
        [&](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_EXTENTS)
                reinterpret_cast<uhsfs_extent *>(value.data())->physical = cpu_to_le64(other);
            return true;
        });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "block", other, "owner");
    const std::string text = all_text(report);
    EXPECT_NE(text.find(fmt::format("data of inode {}", ino)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("data of inode {}", image.ino("data"))), std::string::npos)
        << text;
}

TEST(Check, DataOnMetadataIsFound) {
    for (const bool bitmap : {false, true}) {
        const Image image;
        const std::uint64_t more = image.ino("more");
        const uhsfs_super_info super = image.volume().super();
        const std::uint64_t victim =
            bitmap ? uhsfs_bitmap_home(&super.geo, 0, 0) : super.segment[0].suspect;
        image.rebuild_slot(
            more, [](uhsfs_attr &) {},
            [&](std::uint16_t type, Image::Body &value) {
                if (type == UHSFS_TLV_EXTENTS)
                    reinterpret_cast<uhsfs_extent *>(value.data())->physical = cpu_to_le64(victim);
                return true;
            });
        if (bitmap)
            EXPECT_FINDING(image.check(), "slot", more, "extent.physical");
        else
            EXPECT_FINDING(image.check(), "block", victim, "owner");
    }
}

// ---- names ---------------------------------------------------------------------------------

TEST(Check, NameInMissingDirectoryIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");

    image.edit_name(ino, [](uhsfs_name &name) { name.parent_ino = cpu_to_le64(60); });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "slot", ino, "name.parent_ino");
}

TEST(Check, NameInFileIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t file = image.ino("more");

    image.edit_name(ino, [&](uhsfs_name &name) { name.parent_ino = cpu_to_le64(file); });
    EXPECT_FINDING(image.check(), "slot", ino, "name.parent_ino");
}

TEST(Check, NameInDirectoryOfOtherGenerationIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");

    image.edit_name(ino, [](uhsfs_name &name) {
        name.parent_gen = cpu_to_le32(le32_to_cpu(name.parent_gen) + 1);
    });
    EXPECT_FINDING(image.check(), "slot", ino, "name.parent_gen");
}

TEST(Check, NameClaimedByTwoInodesIsFound) {
    const Image image;
    const std::uint64_t data = image.ino("data");
    const std::uint64_t more = image.ino("more");

    image.edit_name(more, [](uhsfs_name &name) { std::memcpy(name.name, "data", 4); });
    EXPECT_FINDING(image.check(), "slot", std::max(data, more), "name");
}

TEST(Check, NameClaimedTwiceByOneInodeIsFound) {
    const Image image;
    const Inode linked = image.inode("a/linked");
    const std::vector<Name> names = must(image.volume().names(linked));

    image.rebuild_slot(
        linked.ino(), [](uhsfs_attr &) {},
        [&](std::uint16_t type, Image::Body &value) {
            if (type != UHSFS_TLV_NAME)
                return true;
            const std::string &other = names.back().name;
            value.resize(sizeof(uhsfs_name));
            reinterpret_cast<uhsfs_name *>(value.data())->len = static_cast<u8>(other.size());
            value.insert(value.end(), other.begin(), other.end());
            return true;
        });
    EXPECT_FINDING(image.check(), "slot", linked.ino(), "name");
}

TEST(Check, NameWithoutEntryIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("many/file-0003");

    image.edit_entry("many", "file-0003", [](uhsfs_bucket &bucket, std::uint32_t offset) {
        uhsfs_bucket_remove(&bucket, offset);
    });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "slot", ino, "name");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
    EXPECT_NE(all_text(report).find("'file-0003'"), std::string::npos) << all_text(report);
}

TEST(Check, InodeWithoutNameIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");

    image.rebuild_slot(
        ino, [](uhsfs_attr &attr) { attr.nlink = 0; },
        [](std::uint16_t type, Image::Body &) { return type != UHSFS_TLV_NAME; });
    EXPECT_FINDING(image.check(), "slot", ino, "nlink");
}

TEST(Check, CycleOfDirectoriesIsFound) {
    const Image image;
    const Inode a = image.inode("a");
    const Inode c = image.inode("a/b/c");

    const std::uint64_t least = std::min({a.ino(), c.ino(), image.ino("a/b")});
    image.edit_name(a.ino(), [&](uhsfs_name &name) {
        name.parent_ino = cpu_to_le64(c.ino());
        name.parent_gen = cpu_to_le32(c.attr().generation);
    });
    EXPECT_FINDING(image.check(), "directory", least, "parent");
}

TEST(Check, MissingRootIsFound) {
    const Image image;
    const uhsfs_geometry geo = image.volume().geo();

    image.edit_slot(UHSFS_INO_ROOT, [&](std::uint8_t *slot, const uhsfs_slot_view &view) {
        auto *raw = reinterpret_cast<uhsfs_slot *>(slot);
        const uhsfs_attr attr = view.attr;
        const auto flags = raw->h.flags;
        const auto block_seq = raw->block_seq;
        uhsfs_slot_build_free(&geo, slot, UHSFS_INO_ROOT, attr.generation, attr.name_seq_max,
                              attr.nonce, attr.seq);
        raw->h.flags = flags;
        raw->block_seq = block_seq;
    });
    EXPECT_FINDING(image.check(), "slot", UHSFS_INO_ROOT, "state");
}

TEST(Check, UnfinishedIntentInUnmarkedChunkIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const Inode peer = image.inode("more");
    const auto add = [&](std::uint64_t name_seq) {
        image.rebuild_slot(
            ino, [](uhsfs_attr &) {},
            [&](std::uint16_t type, Image::Body &value) {
                if (type != UHSFS_TLV_INTENT)
                    return true;
                uhsfs_intent intent = {};
                intent.peer_ino = cpu_to_le64(peer.ino());
                intent.peer_gen = cpu_to_le32(peer.attr().generation);
                intent.op = UHSFS_INTENT_EXCHANGE;
                intent.len = 1;
                intent.parent_ino = cpu_to_le64(UHSFS_INO_ROOT);
                intent.name_seq = cpu_to_le64(name_seq);
                value.resize(sizeof(intent) + 1);
                std::memcpy(value.data(), &intent, sizeof(intent));
                value[sizeof(intent)] = 'z';
                return true;
            });
    };

    add(peer.attr().name_seq_max);
    EXPECT_CLEAN(image.check());
    add(peer.attr().name_seq_max + 1);
    EXPECT_FINDING(image.check(), "slot", ino, "intent.name_seq");
}

// ---- directories ---------------------------------------------------------------------------

TEST(Check, UnconfirmedEntryIsFoundUnlessItsChunkIsSuspect) {
    const Image image;
    const std::uint64_t ino = image.ino("many/file-0004");
    std::uint64_t block = 0;

    // The inode lets the name go and takes another one, which then has no entry.
    image.edit_entry("many", "file-0004", [&](uhsfs_bucket &bucket, std::uint32_t offset) {
        block = le64_to_cpu(bucket.h.block);
        Image::entry_at(bucket, offset).gen ^= cpu_to_le32(1);
    });
    CheckReport report = image.check();
    EXPECT_FINDING(report, "bucket", block, "entry.ino");
    EXPECT_FINDING(report, "slot", ino, "name");
    image.set_suspect(image.chunk_of(ino));
    report = image.check();
    EXPECT_NOTE(report, "bucket", block, "entry.ino");
    EXPECT_EQ(report.stale_entries, 1U);
    EXPECT_FALSE(has(report.findings, "bucket", block, "entry.ino")) << all_text(report);
    EXPECT_FINDING(report, "slot", ino, "name");
}

TEST(Check, EntryOfWrongTypeIsFound) {
    const Image image;
    std::uint64_t block = 0;

    image.edit_entry("", "many", [&](uhsfs_bucket &bucket, std::uint32_t offset) {
        block = le64_to_cpu(bucket.h.block);
        Image::entry_at(bucket, offset).type = uhsfs_mode_dtype(UHSFS_S_IFREG);
    });
    EXPECT_FINDING(image.check(), "bucket", block, "entry.type");
}

TEST(Check, EntryInWrongBucketIsFound) {
    const Image image({}, false);
    const Volume volume = image.volume();
    const Inode dir = image.inode("many");
    const uhsfs_dir_info info = must(volume.dir_info(dir));
    uhsfs_dirent moved = {};
    std::string name;

    ASSERT_GE(info.buckets, 3U);
    for (const DirEntry &entry : must(volume.entries(dir))) {
        if (uhsfs_dir_bucket(uhsfs_cookie_hash(entry.cookie), info.buckets) != 1)
            continue;
        name = entry.name;
        moved = {.cookie = entry.cookie,
                 .ino = entry.ino,
                 .gen = entry.gen,
                 .type = entry.type,
                 .len = static_cast<u8>(name.size()),
                 .name = reinterpret_cast<const u8 *>(name.data())};
        break;
    }
    ASSERT_FALSE(name.empty());
    const std::uint64_t to = image.chain("many", 2).front();
    bool fits = false;
    image.edit<uhsfs_bucket>(
        to, [&](uhsfs_bucket &bucket) { fits = uhsfs_bucket_insert(&bucket, &moved) >= 0; });
    ASSERT_TRUE(fits);
    EXPECT_FINDING(image.check(), "bucket", to, "entry.cookie");
}

TEST(Check, EntryLeftBehindBySplitIsNoFinding) {
    const Image image({}, false);
    const Volume volume = image.volume();
    const Inode dir = image.inode("many");
    const std::uint32_t buckets = must(volume.dir_info(dir)).buckets;
    std::string name;
    uhsfs_dirent left = {};

    ASSERT_GE(buckets, 2U);
    for (const DirEntry &entry : must(volume.entries(dir))) {
        if (uhsfs_dir_bucket(uhsfs_cookie_hash(entry.cookie), buckets) != 1)
            continue;
        name = entry.name;
        left = {.cookie = entry.cookie,
                .ino = entry.ino,
                .gen = entry.gen,
                .type = entry.type,
                .len = static_cast<u8>(name.size()),
                .name = reinterpret_cast<const u8 *>(name.data())};
        break;
    }
    bool fits = false;
    image.edit<uhsfs_bucket>(image.chain("many", 0).front(), [&](uhsfs_bucket &bucket) {
        fits = uhsfs_bucket_insert(&bucket, &left) >= 0;
    });
    ASSERT_TRUE(fits);
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.stale_entries, 1U);
}

TEST(Check, EntryTwiceInAChainIsFoundUnlessItsChunkIsSuspect) {
    const Image image;
    const std::uint64_t fresh = 2000;
    const std::uint64_t ino = image.ino("many");
    const std::uint64_t file = image.ino("many/file-0003");
    const uhsfs_geometry geo = image.volume().geo();
    const std::uint64_t tail = image.chain("many", 0).back();
    std::vector<std::uint8_t> second(block_size);

    ASSERT_EQ(image.chain("many", 0).size(), 1U);
    image.edit_entry("many", "file-0003", [&](uhsfs_bucket &bucket, std::uint32_t offset) {
        auto *copy = reinterpret_cast<uhsfs_bucket *>(second.data());
        uhsfs_dirent entry = {};
        uhsfs_bucket_get(&bucket, offset, &entry);
        uhsfs_bucket_init(copy, &geo, ino, le32_to_cpu(bucket.h.owner_gen), 0, 1);
        ASSERT_GE(uhsfs_bucket_insert(copy, &entry), 0);
        uhsfs_bucket_seal(copy, fresh, le64_to_cpu(bucket.h.seq));
        bucket.next = cpu_to_le32(1);
    });
    image.edit_block(fresh, [&](std::uint8_t *to) { std::memcpy(to, second.data(), block_size); });
    image.rebuild_slot(
        ino, [](uhsfs_attr &attr) { attr.blocks++; },
        [&](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_DIR)
                reinterpret_cast<uhsfs_dir_root *>(value.data())->overflow = cpu_to_le32(1);
            if (type == UHSFS_TLV_EXTENTS) {
                uhsfs_extent extent = {};
                extent.logical = cpu_to_le64(UHSFS_DIR_OVERFLOW);
                extent.physical = cpu_to_le64(fresh);
                extent.len = cpu_to_le32(1);
                const auto *bytes = reinterpret_cast<const std::uint8_t *>(&extent);
                value.insert(value.end(), bytes, bytes + sizeof(extent));
            }
            return true;
        });
    image.edit_map(uhsfs_bitmap_home(&geo, 0, 0),
                   [&](uhsfs_map_block &map) { uhsfs_map_set(map.bits, fresh); });
    image.edit_super([](uhsfs_super_info &info) { info.free_blocks--; });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "directory", ino, "entry.cookie");
    EXPECT_TRUE(has(report.findings, "bucket", fresh, "entry.ino")) << all_text(report);
    EXPECT_EQ(report.findings_total, 2U) << all_text(report);
    EXPECT_EQ(tail, image.chain("many", 0).front());
    image.set_suspect(image.chunk_of(file));
    EXPECT_CLEAN(image.check());
}

TEST(Check, BucketOfTheFutureIsFound) {
    const Image image;
    const std::uint64_t block = image.chain("many", 0).front();

    image.edit<uhsfs_bucket>(
        block, [](uhsfs_bucket &bucket) { bucket.h.seq = cpu_to_le64(uhsfs_seq_make(1000, 1)); });
    EXPECT_FINDING(image.check(), "bucket", block, "seq");
}

TEST(Check, MissingBucketIsFound) {
    const Image image;
    const std::uint64_t ino = image.ino("many");

    image.rebuild_slot(
        ino, [](uhsfs_attr &) {},
        [](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_DIR) {
                auto *root = reinterpret_cast<uhsfs_dir_root *>(value.data());
                root->buckets = cpu_to_le32(le32_to_cpu(root->buckets) + 1);
            }
            return true;
        });
    EXPECT_FINDING(image.check(), "directory", ino, "extents");
}

TEST(Check, DamagedBucketDoesNotMakeItsNamesFindings) {
    const Image image;
    const std::uint64_t block = image.chain("many", 0).front();

    image.flip(block * block_size + 1000, 0);
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "bucket", block, "crc");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
}

TEST(Check, ManyMissingBucketsAreBounded) {
    const Image image;
    const std::uint64_t ino = image.ino("many");

    image.rebuild_slot(
        ino, [](uhsfs_attr &) {},
        [](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_DIR)
                reinterpret_cast<uhsfs_dir_root *>(value.data())->buckets =
                    cpu_to_le32(UHSFS_DIR_MAX_BUCKETS);
            return true;
        });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "directory", ino, "damaged blocks");
    EXPECT_LE(report.findings_total, check_damage_limit + 20) << all_text(report);
}

TEST(Check, WrongHintsAreFoundUnlessSomethingIsSuspect) {
    for (const bool subdirs : {false, true}) {
        const Image image;
        const std::uint64_t ino = image.ino("a");
        image.rebuild_slot(
            ino, [](uhsfs_attr &) {},
            [&](std::uint16_t type, Image::Body &value) {
                auto *root = reinterpret_cast<uhsfs_dir_root *>(value.data());
                if (type == UHSFS_TLV_DIR && subdirs)
                    root->subdirs = cpu_to_le32(le32_to_cpu(root->subdirs) + 1);
                else if (type == UHSFS_TLV_DIR)
                    root->entries = cpu_to_le64(le64_to_cpu(root->entries) + 1);
                return true;
            });
        EXPECT_FINDING(image.check(), "directory", ino, subdirs ? "subdirs" : "entries");
        image.set_suspect(0);
        EXPECT_CLEAN(image.check());
    }
}

// ---- space ---------------------------------------------------------------------------------

TEST(Check, UsedBlockThatIsFreeInTheBitmapIsFoundWithItsOwner) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t used = must(image.volume().extents(image.inode("data")))[0].physical;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 0);

    image.edit_map(map, [&](uhsfs_map_block &block) {
        uhsfs_map_clear(block.bits, static_cast<std::uint32_t>(used));
    });
    image.edit_super([](uhsfs_super_info &info) { info.free_blocks++; });
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "bitmap", 0U, "bit");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
    EXPECT_NE(all_text(report).find(fmt::format("data of inode {}", ino)), std::string::npos)
        << all_text(report);
}

TEST(Check, LeakIsFoundUnlessSomethingIsSuspect) {
    const Image image;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 0);

    image.edit_map(map, [&](uhsfs_map_block &block) {
        ASSERT_FALSE(uhsfs_map_test(block.bits, 2000));
        uhsfs_map_fill(block.bits, 2000, 3, true);
    });
    image.edit_super([](uhsfs_super_info &info) { info.free_blocks -= 3; });
    CheckReport report = image.check();
    EXPECT_FINDING(report, "bitmap", 0U, "bit");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
    image.set_suspect(0);
    report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.leaked_blocks, 3U);
}

TEST(Check, BitsPastTheEndAndZonesAreChecked) {
    const Image image;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 1);

    image.edit_map(map, [](uhsfs_map_block &block) { uhsfs_map_clear(block.bits, 100); });
    EXPECT_FINDING(image.check(), "bitmap", 0U, "bit");
    image.edit_map(map, [](uhsfs_map_block &block) {
        uhsfs_map_set(block.bits, 100);
        block.zone = UHSFS_ZONE_LARGE;
    });
    EXPECT_FINDING(image.check(), "bitmap", map, "zone");
}

TEST(Check, DamagedBitmapIsFoundOnce) {
    const Image image;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 0);

    image.flip(map * block_size + 3000, 5);
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "bitmap", map, "crc");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
}

TEST(Check, BitmapOfTheFutureIsFound) {
    const Image image;
    const std::uint64_t map = uhsfs_bitmap_home(&image.volume().geo(), 0, 0);

    image.edit_map(
        map, [](uhsfs_map_block &block) { block.h.seq = cpu_to_le64(uhsfs_seq_make(1000, 1)); });
    EXPECT_FINDING(image.check(), "bitmap", map, "seq");
}

// ---- copies --------------------------------------------------------------------------------

// Gives a shadow home of a slot a second, newer copy and returns the block of the older one.
std::uint64_t write_second_copy(const Image &image, std::uint64_t ino) {
    const uhsfs_geometry geo = image.volume().geo();
    const std::uint64_t block = image.slot_block(ino);
    std::vector<std::uint8_t> bytes(block_size);

    image.edit_block(block, [&](std::uint8_t *old) { std::memcpy(bytes.data(), old, block_size); });
    const std::uint64_t seq =
        le64_to_cpu(reinterpret_cast<const uhsfs_slot *>(bytes.data())->block_seq);
    image.edit_block(block + 1, [&](std::uint8_t *fresh) {
        uhsfs_slot_block_seal(&geo, bytes.data(), block + 1, seq + 1);
        std::memcpy(fresh, bytes.data(), block_size);
    });
    return block;
}

TEST(Check, BadSiblingOfSlotIsFoundUnlessItsChunkIsMarked) {
    const Image image({.shadow = true});
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t old = write_second_copy(image, ino);

    EXPECT_CLEAN(image.check());
    EXPECT_EQ(image.slot_block(ino), old + 1);
    image.flip(old * block_size + 700, 0);
    CheckReport report = image.check();
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
    EXPECT_NE(all_text(report).find(fmt::format("block {}", old)), std::string::npos);
    image.set_marked(image.chunk_of(ino) + 1);
    EXPECT_EQ(image.check().findings_total, 1U);
    image.set_marked(image.chunk_of(ino));
    report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_GE(report.notes_total, 1U);
}

TEST(Check, NoValidCopyOfSlotInUseIsFoundOnce) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t block = image.slot_block(ino);

    image.flip(block * block_size + uhsfs_slot_offset(&image.volume().geo(), ino) + 500, 0);
    const CheckReport report = image.check();
    EXPECT_FINDING(report, "slot block", block, "crc");
    EXPECT_EQ(report.findings_total, 1U) << all_text(report);
}

}  // namespace
