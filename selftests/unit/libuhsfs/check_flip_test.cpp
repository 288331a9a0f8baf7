// SPDX-License-Identifier: GPL-2.0
/*
 * Every byte of an image is damaged, one at a time and without a new checksum. The check finds
 * it, or the byte stands where nothing is written that means anything: the list of such blocks
 * is made from what owns them.
 *
 * And random bytes in random structures, sealed again: whatever they are, the check ends and
 * reports.
 */
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "crc32c.h"
#include "libuhsfs/check.hpp"
#include "libuhsfs/check_support.hpp"
#include "support/random.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::test;

// Where a flip must be found, and what the blocks are for.
std::map<std::uint64_t, std::string> checked_blocks(const Volume &volume) {
    const uhsfs_super_info &super = volume.super();
    const uhsfs_geometry &geo = volume.geo();
    std::map<std::uint64_t, std::string> blocks;
    std::mutex lock;
    // Both copies: the first write of a home is in both.
    const auto add = [&](const Home &home, const char *what) {
        for (unsigned i = 0; i < home.copies; i++)
            blocks[home.block + i] = what;
    };

    for (int copy = 0; copy < 2; copy++)
        blocks[uhsfs_super_block(&geo, copy)] = "superblock";
    for (std::uint64_t group = 0; group < super.groups_used; group++)
        for (const unsigned half : {0U, 1U})
            add(volume.bitmap(group, half).home, "bitmap");
    for (const unsigned which : {0U, 1U, 2U})
        add(must(volume.chunk_map(0, which)).home, "map");
    // Table blocks past the last chunk were never written.
    for (std::uint64_t chunk = 0; chunk < super.chunks_used; chunk += UHSFS_TABLE_CHUNKS)
        add(must(volume.table_block(chunk)).home, "table");
    volume.scan_slots({}, [&](unsigned, const SlotBlock &block) {
        const std::scoped_lock guard(lock);
        if (!block.written)
            return;
        add(block.home, "slots");
        for (unsigned i = 0; i < geo.slots_per_block; i++) {
            if ((block.in_use >> i & 1) == 0)
                continue;
            const Inode inode = must(volume.inode(block.first_ino + i));
            const BlockVisitor node = [&](std::uint64_t at) { blocks[at] = "node"; };
            const auto extents = must(volume.extents(inode, node));
            must(volume.names(inode, node));
            must(volume.xattrs(inode, node));
            if (!inode.is_dir())
                continue;  // data has no checksum
            const uhsfs_dir_info info = must(volume.dir_info(inode));
            for (std::uint32_t bucket = 0; bucket < info.buckets; bucket++)
                for (const BucketBlock &b : must(volume.bucket_chain(inode, info, extents, bucket)))
                    add(b.bucket.home, "bucket");
        }
    });
    return blocks;
}

// Nothing, or what is found.
std::string verdict(const std::string &path) {
    const auto volume = Volume::open(path);

    if (!volume)
        return volume.error().to_string();
    const auto report = check_volume(
        *volume,
        {.threads = 1, .max_findings = 2, .max_notes = 2, .progress = {}, .cancelled = {}});
    if (!report)
        return report.error().to_string();
    return report->findings_total + report->notes_total > 0 ? all_text(*report) : std::string();
}

// Every byte of the first shape; of others, and where the build is slow, a sample.
std::uint64_t flip_step(const Shape &shape) {
#if defined(__SANITIZE_ADDRESS__)
    constexpr std::uint64_t slow = 23;
#else
    constexpr std::uint64_t slow = 1;
#endif
    return shape.shadow ? 7 * slow : slow;
}

class FlippedCopy {
public:
    explicit FlippedCopy(const std::string &image, const std::string &copy) : path_(copy) {
        std::filesystem::copy_file(image, copy);
        fd_ = must(open_file(copy, O_RDWR));
    }

    [[nodiscard]] const std::string &path() const { return path_; }
    void flip(std::uint64_t byte) const {
        std::uint8_t value = 0;
        ASSERT_EQ(::pread(fd_.get(), &value, 1, static_cast<off_t>(byte)), 1);
        value ^= static_cast<std::uint8_t>(1U << (byte % 8));
        ASSERT_EQ(::pwrite(fd_.get(), &value, 1, static_cast<off_t>(byte)), 1);
    }

private:
    std::string path_;
    unique_fd fd_;
};

class CheckFlip : public ::testing::TestWithParam<Shape> {};

TEST_P(CheckFlip, EveryByteOfEveryStructureIsFound) {
    const Image image(GetParam());
    const auto blocks = checked_blocks(image.volume());
    std::vector<std::uint64_t> list;
    std::atomic<std::size_t> next = 0;
    std::mutex lock;
    std::vector<std::string> missed;
    const std::uint64_t step = flip_step(GetParam());

    ASSERT_EQ(verdict(image.path()), "");
    for (const auto &[block, what] : blocks)
        list.push_back(block);
    const auto work = [&](unsigned worker) {
        const FlippedCopy copy(image.path(), fmt::format("{}-{}", image.path(), worker));
        for (std::size_t i = next++; i < list.size(); i = next++) {
            for (std::uint64_t at = list[i] % step; at < block_size; at += step) {
                const std::uint64_t byte = list[i] * block_size + at;
                copy.flip(byte);
                const bool found = !verdict(copy.path()).empty();
                copy.flip(byte);
                const std::scoped_lock guard(lock);
                if (!found && missed.size() < 20)
                    missed.push_back(
                        fmt::format("{} in block {}, byte {}", blocks.at(list[i]), list[i], at));
            }
        }
    };
    {
        std::vector<std::jthread> workers;
        for (unsigned i = 0; i < std::max(2U, std::thread::hardware_concurrency()); i++)
            workers.emplace_back(work, i);
    }
    EXPECT_GT(list.size(), 20U);
    EXPECT_TRUE(missed.empty()) << fmt::format("{}", fmt::join(missed, "\n"));
}

TEST_P(CheckFlip, BytesThatMeanNothingMakeNoFinding) {
    const Image image(GetParam());
    const auto blocks = checked_blocks(image.volume());
    const FlippedCopy copy(image.path(), image.path() + "-copy");
    Random random;

    SCOPED_TRACE(random.note());
    for (unsigned i = 0; i < 300; i++) {
        const std::uint64_t block = random.between(0, GetParam().blocks - 1);
        const std::uint64_t byte = block * block_size + random.between(0, block_size - 1);
        if (blocks.contains(block))
            continue;
        copy.flip(byte);
        const auto report = must(check_volume(must(Volume::open(copy.path())),
                                              {.threads = 1, .progress = {}, .cancelled = {}}));
        EXPECT_CLEAN(report) << "block " << block << " byte " << byte;
        copy.flip(byte);
    }
}

INSTANTIATE_TEST_SUITE_P(All, CheckFlip,
                         ::testing::Values(Shape{.blocks = 1024, .slot_size = 1024},
                                           Shape{
                                               .blocks = 1024, .slot_size = 4096, .shadow = true}),
                         [](const auto &shape) { return shape_name(shape.param); });

// ---- hostile images ------------------------------------------------------------------------

// Gives a block the checksum of whatever it seems to be.
void reseal(const uhsfs_geometry &geo, std::uint8_t *bytes) {
    const auto *header = reinterpret_cast<const uhsfs_header *>(bytes);

    if (uhsfs_super_recognise(bytes)) {
        // The checksum is that of the block with zeros in its place.
        auto *super = reinterpret_cast<uhsfs_super *>(bytes);
        super->crc = 0;
        super->crc = cpu_to_le32(uhsfs_crc32c(0, bytes, block_size));
    } else if (le32_to_cpu(header->magic) == UHSFS_TAG_SLOT) {
        for (std::size_t at = 0; at < block_size; at += geo.slot_size)
            uhsfs_record_seal(bytes + at, geo.slot_size);
    } else {
        uhsfs_record_seal(bytes, block_size);
    }
}

TEST(CheckHostile, EndsOnRandomDamageThatIsSealedAgain) {
    constexpr unsigned images = 3000;
    const Image image({.blocks = 1024});
    const uhsfs_geometry geo = image.volume().geo();
    const auto blocks = checked_blocks(image.volume());
    std::vector<std::uint64_t> list;
    Random random;
    unsigned damaged = 0;

    SCOPED_TRACE(random.note());
    for (const auto &[block, what] : blocks)
        list.push_back(block);
    const std::vector<std::uint8_t> original = [&] {
        std::vector<std::uint8_t> bytes(1024 * block_size);
        must(must(Device::open(image.path(), OpenMode::read)).read(0, bytes));
        return bytes;
    }();
    for (unsigned i = 0; i < images; i++) {
        const Device device = must(Device::open(image.path(), OpenMode::write));
        std::vector<std::uint64_t> changed;
        for (std::uint64_t n = random.between(1, 4); n > 0; n--) {
            const std::uint64_t block = list[random.between(0, list.size() - 1)];
            std::vector<std::uint8_t> bytes(block_size);
            must(device.read(block, bytes));
            for (std::uint64_t m = random.between(1, 3); m > 0; m--) {
                // Most fields stand at the beginning.
                const std::uint64_t at = random.between(0, random.between(16, block_size - 9));
                const std::uint64_t value = random.between(0, 3) == 0
                                                ? ~std::uint64_t{0} >> random.between(0, 63)
                                                : random.between(0, 300);
                std::memcpy(bytes.data() + at, &value, random.between(1, 8));
            }
            reseal(geo, bytes.data());
            must(device.write(block, bytes));
            changed.push_back(block);
        }
        damaged += !verdict(image.path()).empty();
        for (const std::uint64_t block : changed)
            must(device.write(block, Bytes(original).subspan(block * block_size, block_size)));
    }
    EXPECT_GT(damaged, images * 8 / 10);
    EXPECT_EQ(verdict(image.path()), "");
}

}  // namespace
