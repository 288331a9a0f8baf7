// SPDX-License-Identifier: GPL-2.0
/*
 * Images that are changed at random, with what the fuzz targets know about structures, so that
 * checksums are right. Whatever the kernel makes of them: it comes to an end, and nothing is
 * written.
 */
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guest.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

// What libFuzzer does for the fuzz targets.
namespace {
Random &bytes_random() {
    static Random random(0);
    return random;
}
}  // namespace

void mutate_bytes(std::uint8_t *bytes, std::size_t size) {
    Random &random = bytes_random();

    for (std::uint64_t n = 1 + random.below(4); size > 0 && n > 0; n--)
        bytes[random.below(size)] = static_cast<std::uint8_t>(random.next());
}

void mutate_bytes(std::vector<std::uint8_t> &bytes, std::size_t most) {
    Random &random = bytes_random();

    bytes.resize(random.one_in(3) ? random.below(most + 1) : bytes.size());
    mutate_bytes(bytes.data(), bytes.size());
}

void violated(const char *file, int line, const char *condition, const std::string &detail) {
    fmt::print(stderr, "{}:{}: {}: {}\n", file, line, condition, detail);
    std::abort();
}

}  // namespace uhsfs::fuzz

namespace uhsfs::damage {

namespace {

using fuzz::Random;

std::vector<std::uint64_t> metadata(const Image &image) {
    constexpr std::array tags = {UHSFS_TAG_SLOT,   UHSFS_TAG_BUCKET, UHSFS_TAG_EXTENT,
                                 UHSFS_TAG_NAMES,  UHSFS_TAG_XATTR,  UHSFS_TAG_CHUNKS,
                                 UHSFS_TAG_INTENT, UHSFS_TAG_SUSPECT};
    std::vector<std::uint64_t> blocks;

    for (std::uint64_t block = 0; block < image.blocks(); block++) {
        const auto *header = reinterpret_cast<const uhsfs_header *>(image.at(block));
        if (uhsfs_super_recognise(image.at(block)) ||
            std::ranges::find(tags, le32_to_cpu(header->magic)) != tags.end())
            blocks.push_back(block);
    }
    return blocks;
}

void change(Disk &disk, Random &random) {
    Image &image = disk.image();
    const std::vector<std::uint64_t> blocks = metadata(image);

    // All chunks are marked: what is found is worked over by recovery.
    if (random.one_in(2)) {
        image.begin_epoch();
        for (const auto &[path, node] : disk.tree())
            if (random.one_in(8))
                image.mark(node.ino);
    }
    for (std::uint64_t n = 1 + random.below(4); n > 0; n--) {
        const std::uint64_t block = blocks[random.below(blocks.size())];
        std::uint8_t *bytes = image.at(block);
        const bool super = uhsfs_super_recognise(bytes);
        // A superblock that is refused ends it all.
        if (super && !random.one_in(4))
            continue;
        fuzz::mutate_deep(random, image.geo(), bytes);
        if (!random.one_in(8))
            fuzz::seal_block(image.geo(), bytes);
        // The other copy, too, or the change does not count.
        if (super || image.geo().homes == 1)
            continue;
        const std::uint64_t other = block ^ 1;
        if (other < image.blocks() && random.one_in(2) &&
            std::memcmp(bytes, image.at(other), sizeof(__le32)) == 0) {
            auto *header = reinterpret_cast<uhsfs_header *>(image.at(other));
            const __le64 where = header->block;
            std::memcpy(image.at(other), bytes, block_size);
            header->block = where;
            fuzz::seal_block(image.geo(), image.at(other));
        }
    }
}

void try_one(Disk &disk, std::uint64_t seed, Results &results) {
    Random random(seed);

    disk.image().restore();
    change(disk, random);
    disk.put();
    clear_log();
    // The superblock may say panic.
    const int error =
        disk.mount(random.one_in(4) ? "errors=continue,norecovery" : "errors=remount-ro");
    if (error != 0) {
        // A program, and a user, must be able to tell what is wrong.
        if (read_log().empty())
            results.problem(disk.shape(), fmt::format("seed {}: no word in the log about: {}", seed,
                                                      std::strerror(error)));
        return;
    }
    const Tree found = disk.walk(disk.tree());
    if (found.empty())
        results.problem(disk.shape(), fmt::format("seed {}: nothing was read", seed));
    if (disk.unmount() != 0)
        results.problem(disk.shape(), fmt::format("seed {}: cannot be unmounted", seed));
    if (!disk.unchanged())
        results.problem(disk.shape(), fmt::format("seed {}: the device was written", seed));
}

}  // namespace

int test_hostile(std::vector<std::unique_ptr<Disk>> &disks, std::uint64_t seed, unsigned images) {
    for (const auto &disk : disks) {
        Results results;
        for (unsigned i = 0; i < images; i++) {
            results.begin(fmt::format("no harm in {} hostile images: {}", images, disk->shape()));
            fmt::print("# seed {}\n", seed + i);
            std::fflush(stdout);
            try_one(*disk, seed + i, results);
        }
        results.end();
    }
    return 0;
}

}  // namespace uhsfs::damage
