// SPDX-License-Identifier: GPL-2.0
/*
 * Trees are imported into an image and read back through Volume: both must be equal. Every
 * image is also checked for what holds of all of them: blocks belong to one owner, and the
 * bitmaps and totals say exactly that.
 */
#include "libuhsfs/builder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libuhsfs/import.hpp"
#include "libuhsfs/volume.hpp"
#include "support/random.hpp"
#include "support/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using namespace uhsfs;
using uhsfs::test::Random;
using uhsfs::test::Scratch;

constexpr std::int64_t now_ns = 1'600'000'000'000'000'000;

struct Shape {
    std::uint64_t blocks = 16384;
    unsigned slot_size = 1024;
    bool shadow = true;
    unsigned erase_unit = UHSFS_ERASE_UNIT_DEFAULT;
};

Result<ImportStats> build(const std::string &path, const std::string &source, const Shape &shape) {
    const Uuid uuid = {1, 2, 3};
    const KeySource keys = KeySource::repeatable(uuid, now_ns);

    std::ofstream(path, std::ios::app).close();
    fs::resize_file(path, shape.blocks * block_size);
    const Device device = UHSFS_TRY(Device::open(path, OpenMode::write));
    const uhsfs_super_info layout = UHSFS_TRY(make_layout({.blocks = shape.blocks,
                                                           .slot_size = shape.slot_size,
                                                           .erase_unit = shape.erase_unit,
                                                           .shadow = shape.shadow,
                                                           .uuid = uuid,
                                                           .label = "test",
                                                           .writer = "test",
                                                           .now_ns = now_ns},
                                                          keys));
    Builder builder(&device, layout, keys);
    UHSFS_TRY(builder.begin());
    ImportStats stats =
        UHSFS_TRY(import_tree(builder, {.source = source,
                                        .now_ns = now_ns,
                                        .repeatable = true,
                                        .image = std::pair(device.file_dev(), device.file_ino()),
                                        .progress = {}}));
    UHSFS_TRY(builder.finish());
    return stats;
}

std::string read_file(const fs::path &path) {
    std::ifstream stream(path, std::ios::binary);

    return {std::istreambuf_iterator<char>(stream), {}};
}

template <typename T>
T must(Result<T> result) {
    if (!result)
        throw std::runtime_error(result.error().to_string());
    return std::move(*result);
}

// ---- what holds of every image -------------------------------------------------------------

class Audit {
public:
    explicit Audit(const Volume &volume) : volume_(volume), geo_(volume.geo()) {}

    void run() {
        std::map<std::uint64_t, std::vector<std::uint8_t>> slots;
        std::mutex lock;
        const auto errors = volume_.scan_slots({}, [&](unsigned, const SlotBlock &block) {
            const std::scoped_lock guard(lock);
            if (block.in_use == 0)
                return;
            ASSERT_TRUE(block.home.valid()) << block.home.error("").to_string();
            EXPECT_FALSE(block.home.suspicious);
            EXPECT_TRUE(block.written);
            EXPECT_EQ(block.home.copy[0].seq, block.home.copy[block.home.copies - 1].seq);
            for (unsigned i = 0; i < geo_.slots_per_block; i++)
                if ((block.in_use >> i & 1) != 0)
                    inodes_.insert(block.first_ino + i);
        });
        ASSERT_TRUE(errors.empty()) << errors.front().to_string();
        EXPECT_EQ(inodes_.size(), volume_.super().used_slots);
        claim_fixed();
        for (const std::uint64_t ino : inodes_)
            claim_inode(must(volume_.inode(ino)));
        compare_bitmaps();
        EXPECT_FALSE(must(volume_.needs_recovery()));
    }

private:
    void claim(std::uint64_t block, std::uint64_t count, const std::string &owner) {
        for (std::uint64_t i = 0; i < count; i++) {
            const auto [place, added] = owners_.emplace(block + i, owner);
            ASSERT_TRUE(added) << "block " << block + i << " belongs to " << place->second
                               << " and to " << owner;
        }
    }

    void claim_fixed() {
        const uhsfs_super_info &super = volume_.super();

        claim(0, 2, "start");
        claim(uhsfs_super_block(&geo_, 1), 1, "superblock 1");
        for (std::uint64_t group = 0; group < super.groups_used; group++)
            claim(uhsfs_bitmap_home(&geo_, group, 0), 2 * geo_.homes, "bitmap");
        for (unsigned i = 0; i < super.segments; i++)
            claim(super.segment[i].intent[0], segment_blocks(geo_, super.segment[i].chunks),
                  "segment");
        for (std::uint64_t i = 0; i < super.chunks_used; i++)
            claim(must(volume_.chunk(i)).block, uhsfs_chunk_blocks(&geo_), "chunk");
    }

    void claim_inode(const Inode &inode) {
        const std::string owner = fmt::format("inode {}", inode.ino());
        const std::uint64_t before = owners_.size();
        const std::uint64_t scale = inode.is_dir() ? geo_.homes : 1;
        const auto node = [&](std::uint64_t block) { claim(block, 1, owner); };

        for (const uhsfs_ext &ext : must(volume_.extents(inode, node)))
            claim(ext.physical, ext.len * scale, owner);
        must(volume_.names(inode, node));
        must(volume_.xattrs(inode, node));
        EXPECT_EQ(inode.attr().blocks, owners_.size() - before) << owner;
    }

    void compare_bitmaps() {
        std::uint64_t in_use = 0;
        const std::uint64_t groups = volume_.super().groups_used;

        for (std::uint64_t group = 0; group < groups; group++) {
            for (unsigned half = 0; half < 2; half++) {
                const auto map = volume_.bitmap(group, half);
                ASSERT_TRUE(map) << map.home.error("").to_string();
                for (std::uint32_t bit = 0; bit < UHSFS_MAP_BITS; bit++) {
                    const std::uint64_t block =
                        group * UHSFS_GROUP_BLOCKS + half * UHSFS_MAP_BITS + bit;
                    const bool set = uhsfs_map_test(map.record->bits, bit);
                    if (block >= geo_.blocks) {
                        ASSERT_TRUE(set) << block;
                        continue;
                    }
                    in_use += set ? 1 : 0;
                    ASSERT_EQ(set, owners_.contains(block)) << "block " << block;
                }
            }
        }
        std::uint64_t total = 0;
        for (std::uint64_t group = 0; group < uhsfs_group_count(&geo_); group++)
            total += uhsfs_group_blocks(&geo_, group) - (group < groups ? 0 : 2 * geo_.homes);
        EXPECT_EQ(volume_.super().free_blocks, total - in_use);
    }

    const Volume &volume_;
    const uhsfs_geometry &geo_;
    std::set<std::uint64_t> inodes_;
    std::map<std::uint64_t, std::string> owners_;
};

// ---- comparing with the source -------------------------------------------------------------

class Comparer {
public:
    Comparer(const Volume &volume, fs::path source) : volume_(volume), source_(std::move(source)) {}

    std::uint64_t compare() {
        compare_directory(must(volume_.inode(UHSFS_INO_ROOT)), source_);
        for (const auto &[ino, names] : names_) {
            std::vector<std::string> got;
            for (const Name &name : must(volume_.names(must(volume_.inode(ino)))))
                got.push_back(fmt::format("{}/{}", name.parent_ino, name.name));
            std::ranges::sort(got);
            EXPECT_EQ(got, std::vector(names.begin(), names.end()));
        }
        return compared_;
    }

private:
    void compare_directory(const Inode &dir, const fs::path &path) {
        std::map<std::string, DirEntry> entries;
        std::set<std::string> names;

        std::uint64_t last = 0;
        for (DirEntry &entry : must(volume_.entries(dir))) {
            EXPECT_GT(entry.cookie, last) << "cookies must be unique";
            last = entry.cookie;
            std::string name = entry.name;
            entries.emplace(std::move(name), std::move(entry));
        }
        std::uint64_t subdirs = 0;
        for (const auto &item : fs::directory_iterator(path)) {
            names.insert(item.path().filename());
            subdirs += !item.is_symlink() && item.is_directory() ? 1 : 0;
        }
        ASSERT_EQ(names.size(), entries.size()) << path;
        EXPECT_EQ(must(volume_.dir_info(dir)).entries, names.size());
        EXPECT_EQ(must(volume_.dir_info(dir)).subdirs, subdirs);
        compare_attributes(dir, path);
        for (const std::string &name : names) {
            ASSERT_TRUE(entries.contains(name)) << path / name;
            const DirEntry &entry = entries.at(name);
            const Inode child = must(volume_.inode(entry.ino));
            EXPECT_EQ(child.attr().generation, entry.gen);
            EXPECT_EQ(uhsfs_mode_dtype(child.attr().mode), entry.type);
            names_[child.ino()].insert(fmt::format("{}/{}", dir.ino(), name));
            if (child.is_dir())
                compare_directory(child, path / name);
            else
                compare_inode(child, path / name);
        }
    }

    void compare_attributes(const Inode &inode, const fs::path &path) {
        struct stat st = {};
        const uhsfs_attr &attr = inode.attr();

        compared_++;
        ASSERT_EQ(::lstat(path.c_str(), &st), 0);
        EXPECT_EQ(attr.mode, st.st_mode) << path;
        EXPECT_EQ(attr.uid, st.st_uid);
        EXPECT_EQ(attr.gid, st.st_gid);
        const std::int64_t mtime = st.st_mtim.tv_sec * 1'000'000'000L + st.st_mtim.tv_nsec;
        EXPECT_EQ(attr.mtime, std::min(mtime, now_ns)) << path;
        EXPECT_EQ(attr.ctime, now_ns);
        EXPECT_EQ(attr.btime, now_ns);
        if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
            EXPECT_EQ(attr.size, static_cast<std::uint64_t>(st.st_size)) << path;
        }
        if (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode)) {
            const auto *device =
                static_cast<const uhsfs_device *>(inode.view().value[UHSFS_TLV_DEVICE]);
            ASSERT_NE(device, nullptr);
            EXPECT_EQ(device->major, major(st.st_rdev));
            EXPECT_EQ(device->minor, minor(st.st_rdev));
        }
        compare_xattrs(inode, path);
    }

    void compare_xattrs(const Inode &inode, const fs::path &path) {
        std::map<std::string, std::vector<std::uint8_t>> got;
        std::vector<char> list(65536);

        for (Xattr &xattr : must(volume_.xattrs(inode)))
            got.emplace(xattr.full_name(), std::move(xattr.value));
        const ssize_t size = ::llistxattr(path.c_str(), list.data(), list.size());
        std::size_t count = 0;
        for (const char *name = list.data(); size > 0 && name < list.data() + size;
             name += std::strlen(name) + 1) {
            std::vector<std::uint8_t> value(65536);
            const ssize_t len = ::lgetxattr(path.c_str(), name, value.data(), value.size());
            ASSERT_GE(len, 0);
            value.resize(static_cast<std::size_t>(len));
            ASSERT_TRUE(got.contains(name)) << path << " " << name;
            EXPECT_EQ(got.at(name), value) << path << " " << name;
            count++;
        }
        EXPECT_EQ(got.size(), count) << path;
    }

    void compare_inode(const Inode &inode, const fs::path &path) {
        struct stat st = {};

        if (!seen_.insert(inode.ino()).second)
            return;
        compare_attributes(inode, path);
        ASSERT_EQ(::lstat(path.c_str(), &st), 0);
        if (S_ISLNK(st.st_mode)) {
            EXPECT_EQ(must(volume_.readlink(inode)), fs::read_symlink(path).string());
        } else if (S_ISREG(st.st_mode) && st.st_size < (1 << 28)) {
            std::string got(inode.attr().size, 'x');
            const std::size_t n = must(
                volume_.read(inode, 0, {reinterpret_cast<std::uint8_t *>(got.data()), got.size()}));
            EXPECT_EQ(n, got.size());
            EXPECT_TRUE(got == read_file(path)) << path;
        }
    }

    const Volume &volume_;
    const fs::path source_;
    std::map<std::uint64_t, std::set<std::string>> names_;
    std::set<std::uint64_t> seen_;
    std::uint64_t compared_ = 0;
};

// Build, open, audit, compare.
class BuilderTest : public testing::Test {
protected:
    [[nodiscard]] std::string image() const { return scratch_ / "image"; }
    [[nodiscard]] std::string tree() const { return scratch_ / "tree"; }
    void SetUp() override { fs::create_directories(tree()); }

    std::string file(const std::string &name, std::string_view content = "x") const {
        return scratch_.write("tree/" + name, content);
    }

    ImportStats round_trip(const Shape &shape = {}) {
        ImportStats stats;
        try {
            stats = must(build(image(), tree(), shape));
            const Volume volume = must(Volume::open(image()));
            Audit(volume).run();
            EXPECT_EQ(Comparer(volume, tree()).compare(), volume.super().used_slots);
        } catch (const std::runtime_error &error) {
            ADD_FAILURE() << error.what();
        }
        return stats;
    }

    const Scratch scratch_;
};

constexpr Shape device_4k{.slot_size = 4096, .shadow = false};
constexpr Shape device_2k{.slot_size = 2048, .shadow = false};

TEST_F(BuilderTest, EmptyFilesystem) {
    for (const Shape &shape : {Shape{.blocks = 1024}, Shape{.blocks = 32768 + 63}, Shape{},
                               device_4k, Shape{.blocks = 32768 + 64, .shadow = false}}) {
        ASSERT_TRUE(build(image(), "", shape));
        const Volume volume = must(Volume::open(image()));
        Audit(volume).run();
        const Inode root = must(volume.inode(UHSFS_INO_ROOT));
        EXPECT_EQ(root.attr().mode, S_IFDIR | 0755);
        EXPECT_TRUE(must(volume.entries(root)).empty());
        EXPECT_STREQ(volume.super().label, "test");
        EXPECT_EQ(volume.super_copy(1).code, 0);
        EXPECT_EQ(volume.super().epoch, 1U);
    }
}

TEST_F(BuilderTest, KeepsAllKindsOfFiles) {
    file("empty", "");
    file("one", "1");
    file("a/b/c/deep", std::string(700, 'd'));
    for (const std::size_t size : {400U, 560U, 600U, 800U, 4095U, 4096U, 4097U, 100000U})
        file(fmt::format("size{}", size), std::string(size, 's'));
    fs::create_symlink("a/b", tree() + "/link");
    fs::create_symlink(std::string(4095, 'l'), tree() + "/long-link");
    ASSERT_EQ(::mkfifo((tree() + "/fifo").c_str(), 0600), 0);
    if (::geteuid() == 0) {
        ASSERT_EQ(::mknod((tree() + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
        ASSERT_EQ(::mknod((tree() + "/block").c_str(), S_IFBLK | 0600, makedev(259, 70000)), 0);
        ASSERT_EQ(::mknod((tree() + "/socket").c_str(), S_IFSOCK | 0777, 0), 0);
        ASSERT_EQ(::lchown((tree() + "/one").c_str(), 12345, 4000000000U), 0);
    }
    ASSERT_EQ(::chmod((tree() + "/a").c_str(), 02751), 0);
    const timespec times[2] = {{.tv_sec = -5, .tv_nsec = 7}, {.tv_sec = 9, .tv_nsec = 999999999}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (tree() + "/one").c_str(), times, 0), 0);

    for (const Shape &shape : {Shape{}, device_4k, device_2k, Shape{.shadow = false}})
        round_trip(shape);
}

TEST_F(BuilderTest, KeepsOddNames) {
    std::string all;
    for (int c = 1; c < 256; c++)
        if (c != '/')
            all += static_cast<char>(c);
    file(all.substr(0, 127));
    file(all.substr(127));
    file(std::string(255, 'n'), std::string(500, 'y'));
    file(std::string(255, 'm'), std::string(100000, 'y'));
    file("...");
    file(" ");
    file("..hidden");
    fs::create_directories(tree() + "/" + std::string(255, 'd') + "/" + std::string(255, 'd'));
    round_trip();
}

TEST_F(BuilderTest, KeepsHoles) {
    const std::string path = file("sparse", "");
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    for (const off_t at : {off_t{0}, off_t{1} << 20, (off_t{1} << 40) + 12345})
        ASSERT_EQ(::pwrite(fd, "data", 4, at), 4);
    ASSERT_EQ(::ftruncate(fd, off_t{1} << 41), 0);
    ::close(fd);
    file("all-hole", "");
    fs::resize_file(tree() + "/all-hole", 10000000);
    round_trip();

    const Volume volume = must(Volume::open(image()));
    const Inode sparse = must(volume.resolve("/sparse"));
    EXPECT_EQ(sparse.attr().size, std::uint64_t{1} << 41);
    EXPECT_LE(sparse.attr().blocks, 64U);
    std::vector<std::uint8_t> got(8);
    must(volume.read(sparse, (std::uint64_t{1} << 40) + 12343, got));
    EXPECT_EQ(std::memcmp(got.data(), "\0\0data\0\0", 8), 0);
    EXPECT_EQ(must(volume.resolve("all-hole")).attr().blocks, 0U);
}

// More extents than a slot and than a leaf can hold.
TEST_F(BuilderTest, SpillsExtentsToATree) {
    const std::string path = file("holes", "");
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    for (off_t i = 0; i < 1000; i++)
        ASSERT_EQ(::pwrite(fd, &i, sizeof(i), i * 8192), static_cast<ssize_t>(sizeof(i)));
    ::close(fd);
    round_trip();

    const Volume volume = must(Volume::open(image()));
    const Inode inode = must(volume.resolve("holes"));
    if (must(volume.extents(inode)).size() < 2)
        GTEST_SKIP() << "the filesystem of temporary files keeps no holes";
    EXPECT_EQ(must(volume.extents(inode)).size(), 1000U);
    EXPECT_NE(inode.view().value[UHSFS_TLV_EXTENT_ROOT], nullptr);
}

TEST_F(BuilderTest, PutsLargeFilesAtEraseUnits) {
    file("large", std::string(9 << 20, 'L'));
    file("small", std::string(900000, 'S'));
    file("large2", std::string(3 << 20, 'M'));
    round_trip({.blocks = 3 * 32768});

    const Volume volume = must(Volume::open(image()));
    for (const char *name : {"large", "large2"}) {
        const auto extents = must(volume.extents(must(volume.resolve(name))));
        ASSERT_EQ(extents.size(), 1U) << name;
        EXPECT_EQ(extents[0].physical % UHSFS_ERASE_UNIT_DEFAULT, 0U);
        const auto map = volume.bitmap(extents[0].physical / UHSFS_GROUP_BLOCKS, 0);
        ASSERT_TRUE(map);
        EXPECT_EQ(map.record->zone, UHSFS_ZONE_LARGE);
    }
    const auto small = must(volume.extents(must(volume.resolve("small"))));
    EXPECT_EQ(volume.bitmap(small[0].physical / UHSFS_GROUP_BLOCKS, 0).record->zone,
              UHSFS_ZONE_SMALL);
}

// A small device that is nearly as full of pieces as it can be still has room for inodes.
TEST_F(BuilderTest, FindsRoomForInodesBesideAFileOfManyPieces) {
    const std::string path = file("holes", "");
    const int fd = ::open(path.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    for (off_t i = 0; i < 600; i++)
        ASSERT_EQ(::pwrite(fd, &i, sizeof(i), i * 8192), static_cast<ssize_t>(sizeof(i)));
    ::close(fd);
    for (int i = 0; i < 300; i++)
        file(fmt::format("z{}", i), "small");
    round_trip({.blocks = 1024, .erase_unit = 16});
    round_trip({.blocks = 1024, .shadow = false});
}

// ---- files that change while they are copied -----------------------------------------------

class ChangingTest : public BuilderTest {
protected:
    // Fills an image; `change` is called in the middle of every copy of the file.
    Result<ImportStats> copy(const std::function<void()> &change) {
        const KeySource keys = KeySource::repeatable({}, now_ns);
        std::ofstream(image(), std::ios::app).close();
        fs::resize_file(image(), 16384 * block_size);
        const Device device = UHSFS_TRY(Device::open(image(), OpenMode::write));
        const auto layout = UHSFS_TRY(make_layout({.blocks = 16384, .now_ns = now_ns}, keys));
        Builder builder(&device, layout, keys);
        UHSFS_TRY(builder.begin());
        std::uint64_t before = 0;
        const ImportStats stats = UHSFS_TRY(import_tree(
            builder, {.source = tree(),
                      .now_ns = now_ns,
                      .repeatable = false,
                      .image = {},
                      .progress = [&](const ImportStats &now) {
                          if (std::exchange(before, now.bytes) != now.bytes && now.bytes <= 1 << 20)
                              change();
                      }}));
        UHSFS_TRY(builder.finish());
        return stats;
    }
    void write_at(off_t at, char value) {
        const int fd = ::open((tree() + "/changing").c_str(), O_WRONLY);
        ASSERT_GE(fd, 0);
        ASSERT_EQ(::pwrite(fd, &value, 1, at), 1);
        ::close(fd);
    }
};

TEST_F(ChangingTest, TimesAreKeptToTheNanosecond) {
    file("changing", std::string(100000, 'a'));
    fs::create_symlink("changing", tree() + "/symlink");
    fs::create_directories(tree() + "/dir");
    const timespec times[2] = {{.tv_sec = -5, .tv_nsec = 7},
                               {.tv_sec = 1'700'000'000, .tv_nsec = 999'999'999}};
    const std::vector<std::string> names = {"changing", "symlink", "dir"};
    for (const std::string &name : names)
        ASSERT_EQ(::utimensat(AT_FDCWD, (tree() + "/" + name).c_str(), times, AT_SYMLINK_NOFOLLOW),
                  0);
    ASSERT_TRUE(copy([] {}));
    const Volume volume = must(Volume::open(image()));
    for (const std::string &name : names) {
        const Inode inode = must(volume.resolve(name));
        EXPECT_EQ(inode.attr().atime, -5 * 1'000'000'000LL + 7) << name;
        EXPECT_EQ(inode.attr().mtime, 1'700'000'000'999'999'999) << name;
    }
}

TEST_F(ChangingTest, IsCopiedAgain) {
    file("changing", std::string(3 << 20, 'a'));
    int changes = 0;
    const auto stats = copy([&] {
        if (changes++ > 0)
            return;
        write_at(0, 'b');  // is copied already
        write_at((3 << 20) - 1, 'c');
        fs::resize_file(tree() + "/changing", 4 << 20);
    });

    ASSERT_TRUE(stats) << stats.error().to_string();
    EXPECT_EQ(changes, 2);
    EXPECT_EQ(stats->bytes, 3U << 20);
    const Volume volume = must(Volume::open(image()));
    Audit(volume).run();
    const Inode inode = must(volume.resolve("changing"));
    std::string content(4 << 20, '?');
    EXPECT_EQ(must(volume.read(inode, 0,
                               {reinterpret_cast<std::uint8_t *>(content.data()), content.size()})),
              content.size());
    EXPECT_TRUE(content == read_file(tree() + "/changing"));
}

TEST_F(ChangingTest, IsAnErrorIfItNeverStops) {
    file("changing", std::string(3 << 20, 'a'));
    char value = 'a';
    const auto stats = copy([&] { write_at(0, ++value); });

    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().object, tree() + "/changing");
    EXPECT_NE(stats.error().message.find("changed while it was copied, 3 times"), std::string::npos)
        << stats.error().to_string();
    EXPECT_EQ(value, 'd');
}

TEST_F(ChangingTest, MayBecomeShorter) {
    file("changing", std::string(3 << 20, 'a'));
    const auto stats = copy([&] { fs::resize_file(tree() + "/changing", 1 << 20); });

    ASSERT_TRUE(stats) << stats.error().to_string();
    const Volume volume = must(Volume::open(image()));
    Audit(volume).run();
    EXPECT_EQ(must(volume.resolve("changing")).attr().size, 1U << 20);
}

TEST_F(BuilderTest, KeepsXattrs) {
    const auto set = [&](const std::string &name, const std::string &key, std::size_t size) {
        const std::string value(size, 'v');
        return ::setxattr((tree() + "/" + name).c_str(), key.c_str(), value.data(), value.size(),
                          0) == 0;
    };
    file("one");
    file("many", std::string(300, 'd'));
    if (!set("one", "user.a", 0))
        GTEST_SKIP() << "the filesystem of temporary files has no user attributes";
    file("big", std::string(5000, 'd'));
    fs::create_directories(tree() + "/dir");
    EXPECT_TRUE(set("one", "user.b", 100));
    for (int i = 0; i < 12; i++)
        EXPECT_TRUE(set("many", fmt::format("user.key{}", i), 60));
    set("big", "user.big", 3000);
    set("dir", "user.dir", 600);
    set("dir", "trusted.dir", 10);
    round_trip();
    round_trip(device_4k);
}

// A list as system.posix_acl_access has it: owner, one more user, group, mask, others.
std::string acl() {
    constexpr std::uint32_t nobody = 0xffffffff;
    struct Entry {
        std::uint16_t tag, permissions;
        std::uint32_t id;
    };
    const Entry entries[] = {{0x01, 6, nobody},
                             {0x02, 4, 12345},
                             {0x04, 4, nobody},
                             {0x10, 4, nobody},
                             {0x20, 0, nobody}};
    const std::uint32_t version = 2;
    std::string value(reinterpret_cast<const char *>(&version), sizeof(version));
    return value.append(reinterpret_cast<const char *>(entries), sizeof(entries));
}

TEST_F(BuilderTest, KeepsAttributesOfAllSpacesAndKinds) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "trusted attributes and devices are root's";
    const std::string capability("\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    file("file", std::string(5000, 'f'));
    fs::create_directories(tree() + "/dir");
    fs::create_symlink("nowhere", tree() + "/symlink");
    ASSERT_EQ(::mkfifo((tree() + "/fifo").c_str(), 0600), 0);
    ASSERT_EQ(::mknod((tree() + "/null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
    ASSERT_EQ(::mknod((tree() + "/socket").c_str(), S_IFSOCK | 0777, 0), 0);
    std::size_t set = 0;
    const auto put = [&](const char *name, const char *key, const std::string &value) {
        set += ::lsetxattr((tree() + "/" + name).c_str(), key, value.data(), value.size(), 0) == 0;
    };
    for (const char *name : {"file", "dir", "symlink", "fifo", "null", "socket"}) {
        put(name, "trusted.overlay.opaque", "y");
        put(name, "security.other", std::string("a\0b", 3));
    }
    if (set != 12)
        GTEST_SKIP() << "the filesystem of temporary files has no such attributes";
    put("file", "security.capability", capability);
    for (const char *name : {"file", "dir", "fifo"})
        put(name, "system.posix_acl_access", acl());
    put("dir", "system.posix_acl_default", acl());
    EXPECT_EQ(set, 17U);
    EXPECT_EQ(round_trip().xattrs_left_out, 0U);
    round_trip(device_4k);
    const Volume volume = must(Volume::open(image()));
    EXPECT_EQ(must(volume.xattrs(must(volume.resolve("file")))).size(), 4U);
    EXPECT_EQ(must(volume.xattrs(must(volume.resolve("dir")))).size(), 4U);
    EXPECT_EQ(must(volume.xattrs(must(volume.resolve("symlink")))).size(), 2U);
}

// Larger than the filesystem of temporary files may allow.
TEST_F(BuilderTest, SpillsXattrsToBlocks) {
    const KeySource keys = KeySource::repeatable({}, now_ns);
    for (const std::size_t size : {800U, 4000U, 4100U, 65536U}) {
        std::ofstream(image()).close();
        fs::resize_file(image(), 1024 * block_size);
        {
            const Device device = must(Device::open(image(), OpenMode::write));
            const auto layout = must(make_layout({.blocks = 1024, .now_ns = now_ns}, keys));
            Builder builder(&device, layout, keys);
            ASSERT_TRUE(builder.begin());
            std::vector<DirEntry> none;
            NewInode root;
            root.id = must(builder.assign(true));
            root.mode = S_IFDIR | 0700;
            root.xattrs.push_back({.space = UHSFS_XATTR_USER,
                                   .name = "big",
                                   .value = std::vector<std::uint8_t>(size, 7)});
            root.xattrs.push_back(
                {.space = UHSFS_XATTR_ACL_DEFAULT, .name = "", .value = {1, 2, 3}});
            ASSERT_TRUE(builder.make_directory(root, none));
            ASSERT_TRUE(builder.put(std::move(root)));
            ASSERT_TRUE(builder.finish());
        }
        const Volume volume = must(Volume::open(image()));
        Audit(volume).run();
        const Inode root = must(volume.inode(UHSFS_INO_ROOT));
        EXPECT_NE(root.view().value[UHSFS_TLV_XATTR_ROOT], nullptr);
        const auto xattrs = must(volume.xattrs(root));
        ASSERT_EQ(xattrs.size(), 2U);
        EXPECT_EQ(xattrs[0].value, std::vector<std::uint8_t>(size, 7));
        EXPECT_EQ(xattrs[1].full_name(), "system.posix_acl_default");
    }
}

TEST_F(BuilderTest, KeepsHardLinks) {
    file("a", std::string(5000, 'a'));
    fs::create_directories(tree() + "/dir");
    fs::create_hard_link(tree() + "/a", tree() + "/b");
    fs::create_hard_link(tree() + "/a", tree() + "/dir/c");
    fs::create_symlink("x", tree() + "/symlink");
    fs::create_hard_link(tree() + "/symlink", tree() + "/dir/symlink");
    file("outside", "content");
    fs::create_hard_link(tree() + "/outside", scratch_ / "other-name");
    const ImportStats stats = round_trip();

    EXPECT_EQ(stats.links, 3U);
    const Volume volume = must(Volume::open(image()));
    EXPECT_EQ(must(volume.resolve("a")).ino(), must(volume.resolve("dir/c")).ino());
    EXPECT_EQ(must(volume.resolve("a")).attr().nlink, 3U);
    EXPECT_EQ(must(volume.resolve("outside")).attr().nlink, 1U);
}

// More than ext4 allows: built without a source.
TEST_F(BuilderTest, Takes70000HardLinksToOneFile) {
    constexpr std::size_t count = 70000;
    const KeySource keys = KeySource::repeatable({}, now_ns);
    std::ofstream(image()).close();
    fs::resize_file(image(), 16384 * block_size);
    {
        const Device device = must(Device::open(image(), OpenMode::write));
        const auto layout = must(make_layout({.blocks = 16384, .now_ns = now_ns}, keys));
        Builder builder(&device, layout, keys);
        ASSERT_TRUE(builder.begin());
        NewInode root;
        root.id = must(builder.assign(true));
        root.mode = S_IFDIR | 0700;
        NewInode linked;
        linked.id = must(builder.assign(true));
        linked.mode = S_IFREG | 0600;
        std::vector<DirEntry> entries;
        for (std::size_t i = 0; i < count; i++) {
            const std::string name = fmt::format("link{}", i);
            linked.names.push_back({.parent_ino = root.id.ino,
                                    .parent_gen = root.id.generation,
                                    .name_seq = 0,
                                    .name = name});
            entries.push_back({.cookie = 0,
                               .ino = linked.id.ino,
                               .gen = linked.id.generation,
                               .type = 8,
                               .name = name});
        }
        ASSERT_TRUE(builder.make_directory(root, entries));
        ASSERT_TRUE(builder.put(std::move(linked)));
        ASSERT_TRUE(builder.put(std::move(root)));
        ASSERT_TRUE(builder.finish());
    }
    const Volume volume = must(Volume::open(image()));
    Audit(volume).run();
    const Inode linked = must(volume.resolve("link69999"));
    EXPECT_EQ(linked.attr().nlink, count);
    std::set<std::string> names;
    std::set<std::uint64_t> seqs;
    for (const Name &name : must(volume.names(linked))) {
        names.insert(name.name);
        seqs.insert(name.name_seq);
    }
    EXPECT_EQ(names.size(), count);
    EXPECT_EQ(seqs.size(), count);
    EXPECT_EQ(*seqs.rbegin(), linked.attr().name_seq_max);
    EXPECT_EQ(must(volume.entries(must(volume.inode(UHSFS_INO_ROOT)))).size(), count);
}

TEST_F(BuilderTest, Takes10000SmallFiles) {
    for (int dir = 0; dir < 20; dir++)
        for (int i = 0; i < 500; i++)
            file(fmt::format("d{}/file{}", dir, i),
                 std::string(static_cast<std::size_t>(i), static_cast<char>('a' + dir)));
    const ImportStats stats = round_trip();

    EXPECT_EQ(stats.files, 10000U);
    EXPECT_EQ(stats.directories, 21U);
}

TEST_F(BuilderTest, TakesADirectoryOf20000Entries) {
    Random random;
    SCOPED_TRACE(random.note());
    for (int i = 0; i < 20000; i++)
        file(fmt::format("{}{}", i, std::string(random.between(0, 60), 'n')), "");
    round_trip({.blocks = 65536});
}

// Tiny files need more inodes than one per 16 KiB.
TEST_F(BuilderTest, MakesMoreInodesThanTheTableWasMadeFor) {
    for (int i = 0; i < 6000; i++)
        file(fmt::format("{}", i), "tiny");
    round_trip({.blocks = 4096});

    EXPECT_GT(must(Volume::open(image())).super().segments, 1U);
}

TEST_F(BuilderTest, LeavesOutTheImageItself) {
    file("a");
    const std::string inside = tree() + "/image";
    const ImportStats stats = must(build(inside, tree(), {}));

    EXPECT_EQ(stats.skipped, 1U);
    const Volume volume = must(Volume::open(inside));
    Audit(volume).run();
    EXPECT_EQ(volume.resolve("image").error().code, ENOENT);
    EXPECT_TRUE(volume.resolve("a"));
}

TEST_F(BuilderTest, NamesWhatItCannotRead) {
    constexpr uid_t nobody = 65534;
    const bool root = ::geteuid() == 0;
    ::chmod(file("secret").c_str(), 0);
    // Root can read everything, so somebody else makes the image.
    fs::permissions(fs::path(image()).parent_path(), fs::perms::all);
    ASSERT_TRUE(!root || ::seteuid(nobody) == 0);
    const auto stats = build(image(), tree(), {});
    const auto none = build(image(), tree() + "/none", {});
    ASSERT_TRUE(!root || ::seteuid(0) == 0);

    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().object, tree() + "/secret");
    EXPECT_EQ(none.error().object, tree() + "/none");
}

// ---- failures and repetition ---------------------------------------------------------------

TEST_F(BuilderTest, NoSpaceLeavesNoFilesystem) {
    ASSERT_TRUE(build(image(), "", {.blocks = 1024}));
    ASSERT_TRUE(Volume::open(image()));
    file("big", std::string(5 << 20, 'b'));
    const auto stats = build(image(), tree(), {.blocks = 1024});

    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().code, ENOSPC);
    EXPECT_NE(stats.error().message.find("of 1024 are left"), std::string::npos)
        << stats.error().to_string();
    EXPECT_EQ(Volume::open(image(), OpenMode::read).error().code, EINVAL);
}

// Fragmented free space is used to the last block but the reserve.
TEST_F(BuilderTest, FillsTheDevice) {
    file("big", std::string(3500 * 1024, 'b'));
    round_trip({.blocks = 1024});

    const Volume volume = must(Volume::open(image()));
    EXPECT_GE(volume.super().free_blocks, volume.super().reserve_blocks);
    EXPECT_LT(volume.super().free_blocks, 100U);
}

TEST_F(BuilderTest, AnOldFilesystemOfAnotherSizeIsGone) {
    ASSERT_TRUE(build(image(), "", {.blocks = 2000}));
    fs::resize_file(image(), 5000 * block_size);
    file("big", std::string(8 << 20, 'b'));
    ASSERT_FALSE(build(image(), tree(), {.blocks = 1500}));
    fs::resize_file(image(), 5000 * block_size);
    EXPECT_FALSE(Volume::open(image(), OpenMode::read));
}

TEST_F(BuilderTest, TheSameTreeGivesTheSameImage) {
    file("a/b", std::string(100000, 'b'));
    file("a/c", "c");
    fs::create_hard_link(tree() + "/a/b", tree() + "/d");
    ASSERT_TRUE(build(image(), tree(), {}));
    const std::string first = read_file(image());
    fs::remove(image());
    ASSERT_TRUE(build(image(), tree(), {}));

    EXPECT_TRUE(first == read_file(image()));
}

TEST_F(BuilderTest, WhatDoesNotFitASlotIsAnError) {
    const KeySource keys = KeySource::repeatable({1}, now_ns);
    const uhsfs_super_info layout =
        must(make_layout({.blocks = 4096, .uuid = {1}, .now_ns = now_ns}, keys));
    Builder builder(nullptr, layout, keys);
    NewInode inode;

    ASSERT_TRUE(builder.begin());
    inode.id = must(builder.assign(true));
    inode.mode = UHSFS_S_IFREG | 0644;
    inode.data.assign(layout.geo.slot_size, 'x');
    const auto result = builder.put(std::move(inode));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, E2BIG);
}

TEST_F(BuilderTest, DryRunWritesNothing) {
    file("a/b", std::string(100000, 'b'));
    const KeySource keys = must(KeySource::random());
    const auto layout = must(make_layout({.blocks = 4096, .now_ns = now_ns}, keys));
    Builder builder(nullptr, layout, keys);

    ASSERT_TRUE(builder.begin());
    ASSERT_TRUE(import_tree(
        builder,
        {.source = tree(), .now_ns = now_ns, .repeatable = false, .image = {}, .progress = {}}));
    EXPECT_EQ(must(builder.finish()).used_slots, 3U);
}

// ---- layouts -------------------------------------------------------------------------------

class Layout : public testing::Test {
protected:
    static Result<uhsfs_super_info> make(LayoutOptions options) {
        options.now_ns = now_ns;
        return make_layout(options, KeySource::repeatable({}, now_ns));
    }
};

// What the core's own checks accept, for all sizes and shapes.
TEST_F(Layout, IsSoundForAllSizes) {
    std::vector<std::uint64_t> sizes = {1024, 1025, 32767, 32768, 32769, 32831, 32832, 40000};
    for (unsigned shift = 11; shift <= 48; shift++)
        sizes.push_back(std::uint64_t{1} << shift);
    for (const std::uint64_t blocks : sizes)
        for (const unsigned slot : {1024U, 2048U, 4096U})
            for (const bool shadow : {false, true}) {
                SCOPED_TRACE(fmt::format("{} blocks, slot {}, shadow {}", blocks, slot, shadow));
                auto info = must(make({.blocks = blocks, .slot_size = slot, .shadow = shadow}));
                EXPECT_LE(info.geo.blocks, blocks);
                EXPECT_GT(info.geo.blocks + UHSFS_MIN_LAST_GROUP, blocks);
                for (unsigned i = 0; i < info.segments; i++) {
                    const auto &segment = info.segment[i];
                    const std::uint64_t first = segment.intent[0];
                    const std::uint64_t count = segment_blocks(info.geo, segment.chunks);
                    const std::uint64_t group = first / UHSFS_GROUP_BLOCKS;
                    EXPECT_EQ(group, i);
                    EXPECT_EQ((first + count - 1) / UHSFS_GROUP_BLOCKS, group);
                    EXPECT_GE(first % UHSFS_GROUP_BLOCKS, 2 + 2 * info.geo.homes);
                    if (group == 0) {
                        EXPECT_LE(first + count, uhsfs_super_block(&info.geo, 1));
                    }
                    EXPECT_GT(segment.suspect, segment.intent[1]);
                    EXPECT_GT(segment.table, segment.suspect);
                }
                info.groups_used = info.segments;
                info.chunks_used = 1;
                uhsfs_super raw = {};
                uhsfs_super_info decoded = {};
                uhsfs_fault fault = {};
                uhsfs_super_encode(&info, UHSFS_SB_BLOCK, &raw);
                EXPECT_EQ(uhsfs_super_decode(&raw, UHSFS_SB_BLOCK, &decoded, &fault), 0)
                    << fault_text(fault);
            }
}

TEST_F(Layout, HasAnInodePer16KiBWhereTheTableAllows) {
    for (const std::uint64_t gib : {1, 16, 1024, 10240}) {
        const auto info = must(make({.blocks = gib << 18}));
        EXPECT_GE(uhsfs_super_chunks(&info) * info.geo.slots_per_chunk, gib << 16) << gib << " GiB";
    }
}

TEST_F(Layout, NamesWhatIsWrong) {
    EXPECT_EQ(make({.blocks = 1023}).error().code, EINVAL);
    EXPECT_EQ(make({.blocks = UHSFS_MAX_BLOCKS + 1}).error().code, EFBIG);
    EXPECT_EQ(make({.blocks = 5000, .slot_size = 512}).error().object, "slot size 512");
    EXPECT_EQ(make({.blocks = 5000, .erase_unit = 768}).error().code, EINVAL);
    EXPECT_EQ(make({.blocks = 5000, .label = std::string(65, 'l')}).error().code, EINVAL);
    EXPECT_TRUE(make({.blocks = 5000, .label = std::string(64, 'l')}));
}

TEST_F(Layout, RandomKeysDiffer) {
    const auto a = must(make_layout({.blocks = 5000}, must(KeySource::random())));
    const auto b = must(make_layout({.blocks = 5000}, must(KeySource::random())));

    EXPECT_NE(a.geo.fsid, b.geo.fsid);
    EXPECT_NE(std::memcmp(a.geo.hash_key, b.geo.hash_key, 16), 0);
    EXPECT_NE(std::memcmp(a.geo.hash_key, a.geo.nonce_key, 16), 0);
}

}  // namespace
