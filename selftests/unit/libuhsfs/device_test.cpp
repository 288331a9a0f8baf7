// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/device.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "libuhsfs/sysfs.hpp"
#include "support/random.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using uhsfs::AlignedBuffer;
using uhsfs::block_size;
using uhsfs::Device;
using uhsfs::OpenMode;
using uhsfs::test::Scratch;

std::string image(const Scratch &scratch, std::uint64_t bytes) {
    std::string path = scratch.write("image", "");
    fs::resize_file(path, bytes);
    return path;
}

Device must_open(const std::string &path, OpenMode mode) {
    auto device = Device::open(path, mode);
    EXPECT_TRUE(device) << device.error().to_string();
    return std::move(*device);
}

TEST(AlignedBuffer, IsAlignedAndZeroed) {
    const AlignedBuffer buffer(3 * block_size);

    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % block_size, 0U);
    EXPECT_TRUE(std::ranges::all_of(buffer.span(), [](auto byte) { return byte == 0; }));
}

TEST(AlignedBuffer, MovesItsMemory) {
    AlignedBuffer first(block_size);
    const auto *memory = first.data();
    AlignedBuffer second = std::move(first);
    AlignedBuffer third;
    third = std::move(second);

    EXPECT_EQ(third.data(), memory);
    EXPECT_EQ(third.size(), block_size);
}

TEST(Device, ReadsWhatItWrote) {
    const Scratch scratch;
    const Device device = must_open(image(scratch, 8 * block_size), OpenMode::write);
    uhsfs::test::Random random;
    SCOPED_TRACE(random.note());
    const auto data = random.bytes(2 * block_size);
    std::vector<std::uint8_t> got(2 * block_size);

    EXPECT_EQ(device.blocks(), 8U);
    ASSERT_TRUE(device.write(6, data));
    ASSERT_TRUE(device.flush());
    ASSERT_TRUE(device.read(6, got));
    EXPECT_EQ(got, data);
    ASSERT_TRUE(device.read(4, got));
    EXPECT_EQ(got, std::vector<std::uint8_t>(2 * block_size));
}

TEST(Device, RefusesBlocksPastItsEnd) {
    const Scratch scratch;
    const Device device = must_open(image(scratch, 8 * block_size + 100), OpenMode::write);
    std::vector<std::uint8_t> two(2 * block_size);

    EXPECT_TRUE(device.read(6, two));
    const auto read = device.read(7, two);
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find("cannot read blocks 7 to 8: the device has 8 blocks"),
              std::string::npos)
        << read.error().to_string();
    EXPECT_FALSE(device.write(7, two));
    EXPECT_FALSE(device.read(UINT64_MAX, two));
    EXPECT_FALSE(device.zero(1, UINT64_MAX));
    EXPECT_FALSE(device.discard(8, 1));
}

TEST(Device, ZeroesAndDiscards) {
    const Scratch scratch;
    const std::string path = image(scratch, 600 * block_size);
    const Device device = must_open(path, OpenMode::write);
    const std::vector<std::uint8_t> ones(600 * block_size, 0xff);
    std::vector<std::uint8_t> got(600 * block_size);

    ASSERT_TRUE(device.write(0, ones));
    ASSERT_TRUE(device.zero(1, 598));
    ASSERT_TRUE(device.read(0, got));
    EXPECT_EQ(got[block_size - 1], 0xff);
    EXPECT_EQ(got[599 * block_size], 0xff);
    EXPECT_TRUE(std::all_of(got.begin() + block_size, got.begin() + 599 * block_size,
                            [](auto byte) { return byte == 0; }));
    const auto discarded = device.discard(0, 600);
    ASSERT_TRUE(discarded);
    if (*discarded) {
        struct stat st = {};
        ASSERT_EQ(::stat(path.c_str(), &st), 0);
        EXPECT_EQ(st.st_size, static_cast<off_t>(600 * block_size));
        EXPECT_EQ(st.st_blocks, 0);
    }
}

TEST(Device, HasOneWriterAndAnyReaders) {
    const Scratch scratch;
    const std::string path = image(scratch, 8 * block_size);
    const Device writer = must_open(path, OpenMode::write);
    const auto second = Device::open(path, OpenMode::write);

    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EBUSY);
    EXPECT_TRUE(Device::open(path, OpenMode::read));
}

// As QEMU locks the images of running machines: single bytes, for reading.
bool lock_byte(int fd, off_t at, short type) {
    struct flock lock = {};

    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = at;
    lock.l_len = 1;
    return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

TEST(Device, HonoursLocksOfRanges) {
    const Scratch scratch;
    const std::string path = image(scratch, 8 * block_size);
    uhsfs::unique_fd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(lock_byte(other.get(), 201, F_RDLCK));
    const auto refused = Device::open(path, OpenMode::write);
    const auto use = uhsfs::device_in_use(path);

    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);
    ASSERT_TRUE(use && *use);
    EXPECT_NE((*use)->find(fmt::format("(process {})", ::getpid())), std::string::npos) << **use;
    EXPECT_EQ(refused.error().message, **use);
    EXPECT_TRUE(Device::open(path, OpenMode::read));
    other.reset();
    EXPECT_FALSE(*uhsfs::device_in_use(path));
    EXPECT_TRUE(Device::open(path, OpenMode::write));
}

TEST(Device, LocksAllRanges) {
    const Scratch scratch;
    const std::string path = image(scratch, 8 * block_size);
    const uhsfs::unique_fd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    {
        const Device writer = must_open(path, OpenMode::write);
        EXPECT_FALSE(lock_byte(other.get(), 100, F_RDLCK));
        EXPECT_FALSE(lock_byte(other.get(), std::int64_t{1} << 40, F_RDLCK));
    }
    EXPECT_TRUE(lock_byte(other.get(), 100, F_RDLCK));
}

TEST(Device, ReaderCannotWrite) {
    const Scratch scratch;
    const Device device = must_open(image(scratch, 8 * block_size), OpenMode::read);
    const std::vector<std::uint8_t> data(block_size);
    const auto written = device.write(3, data);

    ASSERT_FALSE(written);
    EXPECT_NE(written.error().to_string().find("cannot write block 3"), std::string::npos);
}

TEST(Device, RefusesWhatIsNoDevice) {
    const Scratch scratch;

    for (const std::string &path : {scratch.path().string(), std::string("/dev/null")}) {
        const auto device = Device::open(path, OpenMode::read);
        ASSERT_FALSE(device) << path;
        EXPECT_EQ(device.error().code, ENOTBLK);
    }
    EXPECT_EQ(Device::open(scratch / "none", OpenMode::read).error().code, ENOENT);
}

TEST(Device, FilesAreShadow) {
    const Scratch scratch;
    const Device device = must_open(image(scratch, 8 * block_size), OpenMode::read);

    EXPECT_FALSE(device.atomic_writes().device);
    EXPECT_EQ(device.atomic_writes().reason, "image file");
}

// The device that this machine runs from, if one can be seen.
TEST(DeviceInUse, NamesWhereADeviceIsMounted) {
    struct stat st = {};
    ASSERT_EQ(::stat("/", &st), 0);
    const fs::path folder = uhsfs::sysfs_folder(st.st_dev);
    if (!fs::exists(folder))
        GTEST_SKIP() << "the root filesystem is on no block device";
    const fs::path node = fs::path("/dev") / fs::canonical(folder).filename();
    if (!fs::is_block_file(node))
        GTEST_SKIP() << node << " is not there";
    const auto use = uhsfs::device_in_use(node.string());

    ASSERT_TRUE(use) << use.error().to_string();
    ASSERT_TRUE(*use);
    EXPECT_EQ((*use)->rfind("is mounted on /", 0), 0U) << **use;
    const auto device = Device::open(node.string(), OpenMode::write);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, EBUSY);
}

// ---- atomic writes, on an imitation of sysfs -----------------------------------------------

class AtomicWrites : public testing::Test {
protected:
    // A disk with these files; returns its folder.
    fs::path disk(const std::string &name, const std::string &logical) {
        scratch_.write(name + "/queue/logical_block_size", logical + "\n");
        scratch_.write(name + "/queue/dax", "0\n");
        return scratch_.path() / name;
    }
    fs::path partition(const std::string &of, const std::string &start) {
        scratch_.write(of + "/" + of + "p1/partition", "1\n");
        scratch_.write(of + "/" + of + "p1/start", start + "\n");
        return scratch_.path() / of / (of + "p1");
    }
    Scratch scratch_;
};

TEST_F(AtomicWrites, NvmeNeedsBlocksOf4096Bytes) {
    const auto big = disk("nvme0n1", "4096");
    const auto small = disk("nvme1n1", "512");
    scratch_.write("nvme0n1/nsid", "1\n");
    scratch_.write("nvme1n1/nsid", "1\n");

    EXPECT_TRUE(uhsfs::atomic_writes_of(big).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(small).device);
    EXPECT_EQ(uhsfs::atomic_writes_of(small).reason, "NVMe namespace with 512-byte blocks");
}

TEST_F(AtomicWrites, TheKernelsWordCounts) {
    const auto big = disk("sda", "512");
    const auto small = disk("sdb", "512");
    scratch_.write("sda/queue/atomic_write_unit_max_bytes", "65536\n");
    scratch_.write("sda/queue/atomic_write_unit_min_bytes", "512\n");
    scratch_.write("sdb/queue/atomic_write_unit_max_bytes", "2048\n");

    EXPECT_TRUE(uhsfs::atomic_writes_of(big).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(small).device);
}

TEST_F(AtomicWrites, MemoryAndOthersAreShadow) {
    const auto dax = disk("nvme0n1", "4096");
    scratch_.write("nvme0n1/nsid", "1\n");
    scratch_.write("nvme0n1/queue/dax", "1\n");
    const auto loop = disk("loop0", "4096");
    const auto imitation = disk("nvme2n1", "4096");  // the name alone proves nothing

    EXPECT_FALSE(uhsfs::atomic_writes_of(dax).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(loop).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(imitation).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(scratch_.path() / "none").device);
}

TEST_F(AtomicWrites, PartitionsAskTheirDiskAndMustBeAligned) {
    disk("nvme0n1", "4096");
    scratch_.write("nvme0n1/nsid", "1\n");
    disk("sda", "512");
    scratch_.write("sda/queue/atomic_write_unit_max_bytes", "4096\n");

    EXPECT_TRUE(uhsfs::atomic_writes_of(partition("nvme0n1", "2048")).device);
    EXPECT_TRUE(uhsfs::atomic_writes_of(partition("sda", "2048")).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(partition("sda", "63")).device);
}

// Blocks across the device's own, or less than it writes at once.
TEST_F(AtomicWrites, TheUnitMustFit) {
    disk("nvme0n1", "4096");
    scratch_.write("nvme0n1/nsid", "1\n");
    scratch_.write("nvme0n1/queue/atomic_write_unit_max_bytes", "65536\n");
    const auto coarse = disk("sda", "4096");
    scratch_.write("sda/queue/atomic_write_unit_max_bytes", "65536\n");
    scratch_.write("sda/queue/atomic_write_unit_min_bytes", "8192\n");

    EXPECT_FALSE(uhsfs::atomic_writes_of(partition("nvme0n1", "2047")).device);
    EXPECT_FALSE(uhsfs::atomic_writes_of(coarse).device);
}

TEST_F(AtomicWrites, DaxCountsMoreThanTheKernelsWord) {
    const auto pmem = disk("pmem0", "4096");
    scratch_.write("pmem0/queue/dax", "1\n");
    scratch_.write("pmem0/queue/atomic_write_unit_max_bytes", "4096\n");

    EXPECT_FALSE(uhsfs::atomic_writes_of(pmem).device);
}

TEST_F(AtomicWrites, NumbersAreWholeLines) {
    scratch_.write("number", "12\n");
    scratch_.write("text", "12kB\n");

    EXPECT_EQ(uhsfs::sysfs_number(scratch_.path() / "number"), 12U);
    EXPECT_EQ(uhsfs::sysfs_number(scratch_.path() / "text"), std::nullopt);
    EXPECT_EQ(uhsfs::sysfs_number(scratch_.path() / "none"), std::nullopt);
}

}  // namespace
