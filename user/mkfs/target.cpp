// SPDX-License-Identifier: GPL-2.0
#include "target.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "common/probe.hpp"
#include "signatures.hpp"

namespace uhsfs::mkfs {

Target::Target(Target &&other) noexcept
    : path_(std::move(other.path_)),
      device_(std::move(other.device_)),
      blocks_(other.blocks_),
      file_(other.file_),
      made_(std::exchange(other.made_, false)) {}

Target::~Target() {
    if (made_)
        ::unlink(path_.c_str());
}

Result<Target> Target::open(const Options &options) {
    Target target;
    struct stat st = {};

    target.path_ = options.target;
    const bool exists = ::stat(options.target.c_str(), &st) == 0;
    if (!exists && errno != ENOENT)
        return fail_errno(options.target, "cannot open");
    if (!exists && !options.blocks)
        return fail(ENOENT, options.target, "cannot open",
                    "give BLOCKS to make a file of that size");
    target.file_ = !exists || S_ISREG(st.st_mode);
    if (!exists && options.dry_run) {
        target.blocks_ = *options.blocks;
        return target;
    }
    if (!exists) {
        constexpr mode_t mode = 0666;
        UHSFS_TRY(open_file(options.target, O_CREAT | O_EXCL | O_RDWR, mode));
        target.made_ = true;
    }
    if (options.dry_run) {
        // open() for writing says so too, but a dry run does not get that far.
        const auto use = UHSFS_TRY(device_in_use(options.target));
        if (use)
            return fail(EBUSY, options.target, *use,
                        "unmount it, or stop the program that uses it");
    }
    const OpenMode mode = options.dry_run ? OpenMode::read : OpenMode::write;
    target.device_ = std::make_unique<Device>(UHSFS_TRY(Device::open(options.target, mode)));
    if (!options.force) {
        const std::string found = UHSFS_TRY(find_signature(*target.device_));
        if (!found.empty())
            return fail(EEXIST, options.target, fmt::format("holds: {}", found),
                        "-f overwrites it; all that is there is lost");
    }
    UHSFS_TRY(target.set_size(options));
    return target;
}

Result<void> Target::set_size(const Options &options) {
    blocks_ = options.blocks.value_or(device_->blocks());
    if (blocks_ <= device_->blocks())
        return {};
    if (!file_)
        return fail(EINVAL, path_,
                    fmt::format("has {} blocks of {} bytes, fewer than the {} asked for",
                                device_->blocks(), block_size, blocks_),
                    "leave BLOCKS out to use all of the device");
    // make_layout() says more of sizes that are none.
    if (options.dry_run || blocks_ > UHSFS_MAX_BLOCKS || blocks_ < UHSFS_MIN_BLOCKS)
        return {};
    return device_->resize(blocks_ * block_size);
}

AtomicWrites Target::atomic_writes() const {
    if (device_)
        return device_->atomic_writes();
    return {.device = false, .reason = "image file"};
}

unsigned Target::erase_unit() const {
    const std::uint64_t unit = device_ ? device_->discard_granularity() / block_size : 0;

    if (unit < UHSFS_ERASE_UNIT_MIN || unit > UHSFS_ERASE_UNIT_MAX || !std::has_single_bit(unit))
        return UHSFS_ERASE_UNIT_DEFAULT;
    return static_cast<unsigned>(unit);
}

Result<void> Target::clear(const uhsfs_geometry &geo, bool repeatable) const {
    const std::uint64_t second = uhsfs_super_block(&geo, 1);
    const std::uint64_t first = UHSFS_SB_BLOCK + 1;
    const Device &device = *device_;
    const std::uint64_t end = repeatable ? device.blocks() : geo.blocks;

    // So that nobody finds the old contents next to the new.
    UHSFS_TRY(wipe_foreign(device));
    if (repeatable)
        UHSFS_TRY(device.zero(0, 1));
    // A discarded block may hold anything, an old superblock too.
    for (const auto &[from, until] : {std::pair(first, second), std::pair(second + 1, end)}) {
        if (from >= until)
            continue;
        if (file_)
            UHSFS_TRY(device.zero(from, until - from));
        else
            UHSFS_TRY(device.discard(from, until - from));
    }
    return {};
}

}  // namespace uhsfs::mkfs
