// SPDX-License-Identifier: GPL-2.0
/*
 * Reading damaged filesystems: which copy counts, what is said, and that no byte on disk
 * makes a reader crash or claim what is not so.
 */
#include "libuhsfs/volume.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "libuhsfs/import.hpp"
#include "support/random.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using namespace uhsfs;
using uhsfs::test::Random;
using uhsfs::test::Scratch;

constexpr std::uint64_t blocks = 2048;
constexpr std::uint64_t second_super = UHSFS_SB_COPY_SMALL;

template <typename T>
T must(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().to_string());
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

using Block = std::array<std::uint8_t, block_size>;

class VolumeTest : public testing::Test {
protected:
    void SetUp() override { make(true); }

    void make(bool shadow) {
        const KeySource keys = KeySource::repeatable({7}, 1);

        fs::remove_all(image_);
        scratch_.write("tree/a/b/file", std::string(10000, 'f'));
        scratch_.write("tree/a/small", "small");
        fs::remove(scratch_ / "tree/a/link");
        fs::create_hard_link(scratch_ / "tree/a/small", scratch_ / "tree/a/link");
        for (int i = 0; i < 300; i++)
            scratch_.write(fmt::format("tree/many/{}", i), std::to_string(i));
        const int fd = ::open(scratch_.write("tree/holes", "").c_str(), O_WRONLY | O_CLOEXEC);
        for (off_t i = 0; i < 200; i++)
            ASSERT_EQ(::pwrite(fd, "x", 1, i * 8192), 1);
        ::close(fd);
        std::ofstream(image_).close();
        fs::resize_file(image_, blocks * block_size);
        const Device device = must(Device::open(image_, OpenMode::write));
        const auto layout = must(make_layout({.blocks = blocks, .shadow = shadow}, keys));
        Builder builder(&device, layout, keys);
        must(builder.begin());
        must(import_tree(builder, {.source = scratch_ / "tree",
                                   .now_ns = 1,
                                   .repeatable = true,
                                   .image = {},
                                   .progress = {}}));
        must(builder.finish());
    }

    [[nodiscard]] Volume open(const VolumeOptions &options = {}) const {
        return must(Volume::open(image_, OpenMode::read, options));
    }
    [[nodiscard]] Error open_error(const VolumeOptions &options = {}) const {
        const auto volume = Volume::open(image_, OpenMode::read, options);
        EXPECT_FALSE(volume);
        return volume ? Error{} : volume.error();
    }

    Block read(std::uint64_t block) const {
        Block image = {};
        must(must(Device::open(image_, OpenMode::read)).read(block, image));
        return image;
    }
    void write(std::uint64_t block, const Block &image) const {
        must(must(Device::open(image_, OpenMode::write)).write(block, image));
    }
    void flip(std::uint64_t block, std::size_t byte = 200) const {
        Block image = read(block);
        image.at(byte) ^= 0x10;
        write(block, image);
    }

    const Scratch scratch_;
    const std::string image_ = scratch_ / "image";
};

// ---- superblocks ---------------------------------------------------------------------------

TEST_F(VolumeTest, EitherSuperblockWillDo) {
    EXPECT_EQ(open().super_chosen(), 0) << "written last";
    flip(UHSFS_SB_BLOCK);
    const Volume volume = open();

    EXPECT_EQ(volume.super_chosen(), 1);
    EXPECT_EQ(volume.super_copy(0).code, EUCLEAN);
    EXPECT_STREQ(volume.super_copy(0).fault.field, "crc");
    EXPECT_TRUE(volume.resolve("a/b/file"));
}

TEST_F(VolumeTest, TheNewerSuperblockCounts) {
    uhsfs_super_info info = open().super();
    uhsfs_super raw = {};
    Block image = {};

    info.seq++;
    std::strcpy(info.label, "newer");
    uhsfs_super_encode(&info, second_super, &raw);
    std::memcpy(image.data(), &raw, sizeof(raw));
    write(second_super, image);
    EXPECT_STREQ(open().super().label, "newer");
}

TEST_F(VolumeTest, NamesTheFaultsOfBothSuperblocks) {
    flip(UHSFS_SB_BLOCK);
    flip(second_super, 0);
    const Error error = open_error();

    EXPECT_EQ(error.code, EUCLEAN);
    EXPECT_NE(error.message.find("superblock 1: crc"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("superblock 1023: magic"), std::string::npos) << error.message;
}

TEST_F(VolumeTest, FindsTheSecondSuperblockOfASmallerFilesystem) {
    fs::resize_file(image_, 3 * blocks * block_size);
    EXPECT_EQ(open().super_copy(1).code, 0);
    flip(UHSFS_SB_BLOCK);
    const Volume volume = open();

    EXPECT_EQ(volume.super_copy(1).block, second_super);
    EXPECT_EQ(volume.geo().blocks, blocks);
}

TEST_F(VolumeTest, SaysWhenThereIsNoFilesystem) {
    write(UHSFS_SB_BLOCK, {});
    write(second_super, {});
    EXPECT_EQ(open_error().code, EINVAL);
    fs::resize_file(image_, 100);
    EXPECT_EQ(open_error().code, EINVAL);
}

TEST_F(VolumeTest, RefusesADeviceThatIsTooSmall) {
    fs::resize_file(image_, (blocks - 10) * block_size);
    const Error error = open_error();

    EXPECT_NE(error.message.find("has 2048 blocks, the device only 2038"), std::string::npos)
        << error.message;
}

TEST_F(VolumeTest, RefusesUnknownFeaturesByNumber) {
    uhsfs_super_info info = open().super();
    const auto put = [&] {
        for (const std::uint64_t block : {std::uint64_t{UHSFS_SB_BLOCK}, second_super}) {
            uhsfs_super raw = {};
            Block image = {};
            uhsfs_super_encode(&info, block, &raw);
            std::memcpy(image.data(), &raw, sizeof(raw));
            write(block, image);
        }
    };

    info.ro_compat = 1ULL << 40;
    put();
    EXPECT_EQ(open().access(), UHSFS_ACCESS_READ);
    EXPECT_EQ(Volume::open(image_, OpenMode::write).error().code, EOPNOTSUPP);
    info.incompat |= 1ULL << 41;
    put();
    EXPECT_NE(open_error().message.find("0x20000000000"), std::string::npos);
    EXPECT_EQ(open({.foreign = true}).access(), UHSFS_ACCESS_NONE);
    info.version = 77;
    put();
    EXPECT_NE(open_error().message.find("version 77"), std::string::npos);
}

// ---- homes ---------------------------------------------------------------------------------

TEST_F(VolumeTest, TheNewerCopyOfASlotBlockCounts) {
    const Volume volume = open();
    const Inode before = must(volume.resolve("a/small"));
    auto block = must(volume.slot_block(before.ino()));
    const std::uint64_t home = block.home.block;
    ASSERT_TRUE(block);
    EXPECT_EQ(block.home.chosen, 0);
    EXPECT_EQ(block.home.copy[1].code, 0) << "the first write is in both copies";
    EXPECT_EQ(block.home.copy[1].seq, block.home.copy[0].seq);
    EXPECT_FALSE(block.home.suspicious);

    auto *slot = reinterpret_cast<uhsfs_slot *>(block.record->data() +
                                                uhsfs_slot_offset(&volume.geo(), before.ino()));
    slot->uid = cpu_to_le32(4711);
    const std::uint64_t seq = block.home.copy[0].seq + 1;
    uhsfs_slot_block_seal(&volume.geo(), block.record->data(), home + 1, seq);
    write(home + 1, *block.record);
    EXPECT_EQ(must(volume.inode(before.ino())).attr().uid, 4711U);

    // Torn, or rotten: the other one counts, and that is suspicious.
    uhsfs_slot_block_seal(&volume.geo(), block.record->data(), home, seq + 1);
    write(home, *block.record);
    flip(home + 1);
    const auto torn = must(volume.slot_block(before.ino()));
    EXPECT_EQ(torn.home.chosen, 0);
    EXPECT_TRUE(torn.home.suspicious);
    EXPECT_STREQ(torn.home.copy[1].fault.field, "crc");

    flip(home, 1500);
    const Error error = volume.inode(before.ino()).error();
    EXPECT_EQ(error.code, EUCLEAN);
    EXPECT_NE(error.message.find("both copies are bad: slot"), std::string::npos) << error.message;
}

TEST_F(VolumeTest, NeverTakesADamagedSlotForAFreeOne) {
    const Volume volume = open();
    const Inode inode = must(volume.resolve("a/small"));
    const Home home = must(volume.slot_block(inode.ino())).home;
    flip(home.block);
    flip(home.block + 1);

    EXPECT_EQ(volume.inode(inode.ino()).error().code, EUCLEAN);
    // Slots of blocks that were never written, and of chunks that were never made, are free.
    const std::uint64_t slots = volume.super().chunks_used * volume.geo().slots_per_chunk;
    EXPECT_EQ(volume.inode(slots - 1).error().code, ENOENT);
    EXPECT_EQ(volume.inode(slots).error().code, ENOENT);
    EXPECT_EQ(volume.inode(0).error().code, ENOENT);
    EXPECT_EQ(volume.inode(UINT64_MAX).error().code, ENOENT);
}

TEST_F(VolumeTest, AnIntentOfANewerEpochNeedsRecovery) {
    const Volume volume = open();
    auto map = must(volume.chunk_map(0, 0));
    EXPECT_FALSE(must(volume.needs_recovery()));
    const auto put = [&](std::uint32_t epoch, bool bit) {
        const uhsfs_map_id id = {.kind = UHSFS_MAP_INTENT, .block = map.home.block, .index = 0};
        uhsfs_map_init(map.record.get(), &volume.geo(), &id, 1ULL << 40, epoch);
        if (bit)
            uhsfs_map_set(map.record->bits, 1);
        uhsfs_map_seal(map.record.get());
        Block image = {};
        std::memcpy(image.data(), map.record.get(), image.size());
        write(map.home.block, image);
    };

    put(volume.super().epoch, true);
    EXPECT_FALSE(must(volume.needs_recovery())) << "an old epoch says nothing";
    put(volume.super().epoch + 1, false);
    EXPECT_FALSE(must(volume.needs_recovery()));
    put(volume.super().epoch + 1, true);
    EXPECT_TRUE(must(volume.needs_recovery()));
}

// ---- scanning ------------------------------------------------------------------------------

TEST_F(VolumeTest, ScansTheSameWithAnyNumberOfThreads) {
    const Volume volume = open();
    std::set<std::uint64_t> found;

    for (const unsigned threads : {1U, 2U, 5U}) {
        std::vector<std::set<std::uint64_t>> parts(threads);
        const auto errors = volume.scan_slots(
            {.threads = threads, .filter = {}}, [&](unsigned worker, const SlotBlock &block) {
                for (unsigned i = 0; i < 4; i++)
                    if ((block.in_use >> i & 1) != 0)
                        parts.at(worker).insert(block.first_ino + i);
            });
        EXPECT_TRUE(errors.empty());
        std::set<std::uint64_t> all;
        for (const auto &part : parts)
            all.insert(part.begin(), part.end());
        EXPECT_EQ(all.size(), volume.super().used_slots);
        EXPECT_TRUE(found.empty() || found == all);
        found = all;
    }
}

TEST_F(VolumeTest, ScanReportsDamagedTables) {
    const Volume volume = open();
    const Home home = must(volume.table_block(0)).home;
    flip(home.block);
    flip(home.block + 1);
    const auto errors = volume.scan_slots({}, [](unsigned, const SlotBlock &) { FAIL(); });

    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].code, EUCLEAN);
}

// ---- contents ------------------------------------------------------------------------------

TEST_F(VolumeTest, ReadsAnyRange) {
    const Volume volume = open();
    const Inode file = must(volume.resolve("/a/b/file"));

    for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 9999U, 10000U, 20000U})
        for (const std::size_t size : {0U, 1U, 4097U, 20000U}) {
            std::vector<std::uint8_t> to(size, 0xee);
            const std::size_t expected =
                offset >= 10000 ? 0 : std::min<std::size_t>(size, 10000 - offset);
            ASSERT_EQ(must(volume.read(file, offset, to)), expected);
            EXPECT_TRUE(std::all_of(to.begin(), to.begin() + static_cast<long>(expected),
                                    [](auto byte) { return byte == 'f'; }));
            EXPECT_TRUE(std::all_of(to.begin() + static_cast<long>(expected), to.end(),
                                    [](auto byte) { return byte == 0xee; }));
        }
}

TEST_F(VolumeTest, LooksUpOnlyWhatSlotsConfirm) {
    const Volume volume = open();
    const Inode dir = must(volume.resolve("a"));
    const auto home = [&] {
        return must(
            volume.bucket_chain(dir, must(volume.dir_info(dir)), must(volume.extents(dir)), 0));
    };
    auto chain = home();
    uhsfs_bucket &bucket = *chain[0].bucket.record;

    EXPECT_EQ(must(volume.lookup(dir, "link")).ino(), must(volume.lookup(dir, "small")).ino());
    // An entry that points to an inode of another name.
    const std::string stale = "stale";
    const Inode other = must(volume.resolve("a/b/file"));
    uhsfs_dirent e = {
        .cookie = uhsfs_cookie_make(
            uhsfs_dir_hash(&volume.geo(), reinterpret_cast<const u8 *>(stale.data()), 5), 0),
        .ino = other.ino(),
        .gen = other.attr().generation,
        .type = 8,
        .len = 5,
        .name = reinterpret_cast<const u8 *>(stale.data())};
    ASSERT_GE(uhsfs_bucket_insert(&bucket, &e), 0);
    const std::uint64_t block = chain[0].bucket.home.block;
    uhsfs_bucket_seal(&bucket, block, 1ULL << 40);
    Block image = {};
    std::memcpy(image.data(), &bucket, image.size());
    write(block, image);

    EXPECT_EQ(must(volume.entries(dir)).size(), 4U);
    EXPECT_EQ(volume.lookup(dir, "stale").error().code, ENOENT);
    EXPECT_TRUE(volume.lookup(dir, "small"));
    EXPECT_EQ(volume.lookup(dir, std::string(256, 'n')).error().code, ENOENT);
    EXPECT_EQ(volume.lookup(other, "x").error().code, ENOTDIR);
}

// Everything that can be read, in any state of the device.
void read_everything(const Volume &volume) {
    std::vector<std::uint64_t> inodes;
    std::vector<std::uint8_t> data(65536);

    volume.scan_slots({.threads = 1, .filter = {}}, [&](unsigned, const SlotBlock &block) {
        for (unsigned i = 0; i < volume.geo().slots_per_block; i++)
            inodes.push_back(block.first_ino + i);
    });
    for (const std::uint64_t ino : inodes) {
        const auto inode = volume.inode(ino);
        if (!inode)
            continue;
        (void)volume.names(*inode);
        (void)volume.xattrs(*inode);
        (void)volume.read(*inode, 0, data);
        (void)volume.readlink(*inode);
        const auto entries = volume.entries(*inode);
        for (std::size_t i = 0; entries && i < std::min<std::size_t>(entries->size(), 3); i++)
            (void)volume.lookup(*inode, (*entries)[i].name);
    }
    (void)volume.needs_recovery();
    for (std::uint64_t group = 0; group < volume.super().groups_used; group++)
        (void)volume.bitmap(group, 1);
}

// Checksums are made good again, so that what they protect is what gets tested.
TEST_F(VolumeTest, SurvivesAnyByteOfAnyRecord) {
    constexpr int rounds = 400;
    Random random;
    SCOPED_TRACE(random.note());
    std::vector<std::uint64_t> records;
    make(false);
    const std::vector<std::uint32_t> tags = {UHSFS_TAG_SLOT,   UHSFS_TAG_BUCKET, UHSFS_TAG_EXTENT,
                                             UHSFS_TAG_NAMES,  UHSFS_TAG_BITMAP, UHSFS_TAG_CHUNKS,
                                             UHSFS_TAG_INTENT, UHSFS_TAG_SUSPECT};
    for (std::uint64_t block = 2; block < blocks; block++) {
        std::uint32_t magic = 0;
        std::memcpy(&magic, read(block).data(), sizeof(magic));
        if (std::ranges::find(tags, le32_to_cpu(magic)) != tags.end())
            records.push_back(block);
    }
    ASSERT_GT(records.size(), 20U);
    for (int round = 0; round < rounds; round++) {
        const std::uint64_t block = records[random.between(0, records.size() - 1)];
        const Block good = read(block);
        Block bad = good;
        const bool slots = std::memcmp(bad.data(), "SLOT", 4) == 0;
        const std::size_t size = slots ? 1024 : block_size;
        std::uint8_t *record = bad.data() + (slots ? random.between(0, 3) * size : 0);
        for (std::uint64_t n = random.between(1, 4); n > 0; n--)
            record[random.between(sizeof(uhsfs_header), size - 1)] =
                static_cast<std::uint8_t>(random.between(0, 255));
        uhsfs_record_seal(record, size);
        write(block, bad);
        const auto volume = Volume::open(image_);
        ASSERT_TRUE(volume);
        read_everything(*volume);
        write(block, good);
    }
}

TEST_F(VolumeTest, SurvivesAnySuperblock) {
    constexpr int rounds = 300;
    Random random;
    SCOPED_TRACE(random.note());
    const uhsfs_super_info good = open().super();

    write(second_super, {});
    for (int round = 0; round < rounds; round++) {
        uhsfs_super_info info = good;
        uhsfs_super raw = {};
        Block image = {};
        switch (random.between(0, 6)) {
            case 0:
                info.geo.blocks = random.between(0, UINT64_MAX);
                break;
            case 1:
                info.chunks_used = random.between(0, 5000);
                break;
            case 2:
                info.segment[0].table = random.between(0, 2 * blocks);
                break;
            case 3:
                info.segment[0].chunks = random.between(0, UINT64_MAX);
                break;
            case 4:
                info.segment[0].intent[1] = random.between(0, UINT64_MAX);
                break;
            case 5:
                info.geo.slot_size = static_cast<u32>(1024U << random.between(0, 2));
                info.geo.slots_per_block = 4096 / info.geo.slot_size;
                break;
            default:
                info.atomic = static_cast<u8>(random.between(0, 3));
        }
        uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
        std::memcpy(image.data(), &raw, sizeof(raw));
        write(UHSFS_SB_BLOCK, image);
        const auto volume = Volume::open(image_);
        if (volume)
            read_everything(*volume);
    }
}

}  // namespace
