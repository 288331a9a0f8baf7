// SPDX-License-Identifier: GPL-2.0
/*
 * Images that were not unmounted: what recovery is going to repair is no finding. And the
 * report itself: bounded, in one order, cancelled on demand.
 */
#include <gtest/gtest.h>

#include <cerrno>

#include "libuhsfs/check.hpp"
#include "libuhsfs/check_support.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::test;

// ---- recovery ------------------------------------------------------------------------------

TEST(CheckRecovery, MissingEntryAndBitOfMarkedInodeAreRecovered) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t used = must(image.volume().extents(image.inode("data")))[0].physical;

    image.edit_entry("", "data", [](uhsfs_bucket &bucket, std::uint32_t offset) {
        uhsfs_bucket_remove(&bucket, offset);
    });
    image.edit_map(uhsfs_bitmap_home(&image.volume().geo(), 0, 0), [&](uhsfs_map_block &block) {
        uhsfs_map_clear(block.bits, static_cast<std::uint32_t>(used));
    });
    EXPECT_FALSE(image.check().clean());
    image.set_marked(image.chunk_of(ino));
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_TRUE(report.recovery.needed);
    EXPECT_EQ(report.recovery.entries, 1U);
    EXPECT_EQ(report.recovery.chunks, 1U);
}

TEST(CheckRecovery, OrphanIsFreed) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const std::uint64_t before = image.check().files;

    image.rebuild_slot(
        ino, [](uhsfs_attr &attr) { attr.nlink = 0; },
        [](std::uint16_t type, Image::Body &) { return type != UHSFS_TLV_NAME; });
    image.set_marked(image.chunk_of(ino));
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.recovery.slots_freed, 1U);
    EXPECT_EQ(report.files, before - 1);
    EXPECT_NOTE(report, "slot", ino, "state");
    EXPECT_GT(report.leaked_blocks, 0U);
}

TEST(CheckRecovery, OlderClaimLosesTheName) {
    const Image image;
    const Inode data = image.inode("data");
    const Inode more = image.inode("more");

    image.edit_name(more.ino(), [](uhsfs_name &name) { std::memcpy(name.name, "data", 4); });
    image.set_marked(image.chunk_of(data.ino()));
    image.set_marked(image.chunk_of(more.ino()));
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.recovery.names_lost, 1U);
    EXPECT_EQ(report.recovery.slots_freed, 1U);
}

TEST(CheckRecovery, DamageThatRecoveryFindsIsAFinding) {
    const Image image;
    const std::uint64_t ino = image.ino("data");
    const Inode file = image.inode("more");

    image.edit_name(ino, [&](uhsfs_name &name) {
        name.parent_ino = cpu_to_le64(file.ino());
        name.parent_gen = cpu_to_le32(file.attr().generation);
    });
    image.set_marked(image.chunk_of(ino));
    EXPECT_FINDING(image.check(), "slot", ino, "name");
}

TEST(CheckRecovery, IntentIsFinished) {
    const Image image;
    const Inode data = image.inode("data");
    const Inode more = image.inode("more");
    const std::uint64_t seq = more.attr().name_seq_max + 1;

    // Half an exchange: data has taken the name of more, which is to have that of data.
    image.rebuild_slot(
        data.ino(), [&](uhsfs_attr &attr) { attr.name_seq_max = seq; },
        [&](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_NAME) {
                auto &name = *reinterpret_cast<uhsfs_name *>(value.data());
                name.name_seq = cpu_to_le64(seq);
                std::memcpy(name.name, "more", 4);
            }
            if (type == UHSFS_TLV_INTENT) {
                uhsfs_intent intent = {};
                intent.peer_ino = cpu_to_le64(more.ino());
                intent.peer_gen = cpu_to_le32(more.attr().generation);
                intent.op = UHSFS_INTENT_EXCHANGE;
                intent.len = 4;
                intent.parent_ino = cpu_to_le64(UHSFS_INO_ROOT);
                intent.parent_gen = cpu_to_le32(image.inode("").attr().generation);
                intent.name_seq = cpu_to_le64(seq);
                value.resize(sizeof(intent) + 4);
                std::memcpy(value.data(), &intent, sizeof(intent));
                std::memcpy(value.data() + sizeof(intent), "data", 4);
            }
            return true;
        });
    EXPECT_FALSE(image.check().clean());
    image.set_marked(image.chunk_of(data.ino()));
    image.set_marked(image.chunk_of(more.ino()));
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.recovery.intents, 1U);
    EXPECT_EQ(report.recovery.names_lost, 1U);
    EXPECT_EQ(report.recovery.slots_freed, 0U);
    EXPECT_EQ(report.recovery.entries, 2U);
}

TEST(CheckRecovery, ChunksMadeSinceTheCheckpointAreRead) {
    // Of more than one table block.
    const Image image({.blocks = 8192, .slot_size = 4096}, true, 1100);
    const std::uint64_t made = image.volume().super().chunks_used;
    const std::uint64_t files = image.check().files;

    ASSERT_GT(made, UHSFS_TABLE_CHUNKS + 1U);
    image.edit_super([](uhsfs_super_info &info) {
        info.chunks_used = 60;
        info.used_slots = 60 * 16 - 1;
    });
    EXPECT_FALSE(image.check().clean());
    for (std::uint64_t chunk = 60; chunk < made; chunk++)
        image.set_marked(chunk);
    const CheckReport report = image.check();
    EXPECT_CLEAN(report);
    EXPECT_EQ(report.files, files);
    EXPECT_EQ(report.recovery.slots, (made - 60) * 16);
}

// ---- the report ----------------------------------------------------------------------------

TEST(CheckReport, IsBoundedAndTheSameWithAnyNumberOfThreads) {
    const Image image({}, false);
    std::vector<std::string> texts;

    for (unsigned i = 10; i < 60; i++)
        image.edit_header(image.ino(fmt::format("many/file-{:04}", i)), [](uhsfs_slot &slot) {
            slot.blocks = cpu_to_le64(le64_to_cpu(slot.blocks) + 3);
        });
    for (const unsigned threads : {1U, 2U, 5U}) {
        const CheckReport report =
            image.check({.threads = threads, .max_findings = 10, .progress = {}, .cancelled = {}});
        EXPECT_EQ(report.findings_total, 50U);
        EXPECT_EQ(report.findings.size(), 10U);
        texts.push_back(all_text(report));
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0], texts[2]);
}

TEST(CheckReport, CanBeCancelled) {
    const Image image;
    const auto report =
        check_volume(image.volume(), {.progress = {}, .cancelled = [] { return true; }});

    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, ECANCELED);
}

TEST(CheckReport, TellsProgressInOrder) {
    const Image image;
    unsigned pass = 0;
    bool ordered = true;

    const CheckReport report = image.check({.threads = 3,
                                            .progress =
                                                [&](const CheckProgress &now) {
                                                    ordered &= now.pass >= pass &&
                                                               now.done <= now.total &&
                                                               now.pass <= now.passes;
                                                    pass = now.pass;
                                                },
                                            .cancelled = {}});
    EXPECT_CLEAN(report);
    EXPECT_TRUE(ordered);
    EXPECT_EQ(pass, 6U);
}

// Memory runs out in each pass, in whatever thread: an error, not the end of the program.
TEST(CheckReport, AnExceptionInAThreadIsAnError) {
    const Image image;
    const std::uint64_t other = must(image.volume().extents(image.inode("data")))[0].physical;

    image.rebuild_slot(
        image.ino("more"), [](uhsfs_attr &) {},
        [&](std::uint16_t type, Image::Body &value) {
            if (type == UHSFS_TLV_EXTENTS)
                reinterpret_cast<uhsfs_extent *>(value.data())->physical = cpu_to_le64(other);
            return true;
        });
    for (unsigned pass = 1; pass <= 7; pass++) {
        for (const unsigned threads : {1U, 4U}) {
            bool thrown = false;
            const auto report = check_volume(image.volume(), {.threads = threads,
                                                              .progress =
                                                                  [&](const CheckProgress &now) {
                                                                      if (now.pass != pass)
                                                                          return;
                                                                      thrown = true;
                                                                      throw std::bad_alloc();
                                                                  },
                                                              .cancelled = {}});
            ASSERT_TRUE(thrown) << pass;
            ASSERT_FALSE(report) << pass;
            EXPECT_EQ(report.error().code, ENOMEM);
        }
    }
}

}  // namespace
