/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device or file that the filesystem is made on.
 */
#pragma once

#include <memory>
#include <string>

#include "libuhsfs/device.hpp"
#include "options.hpp"

namespace uhsfs::mkfs {

class Target {
public:
    // Opens or makes it, and refuses what is in use, too small, or holds something (unless
    // forced). Nothing that was there is changed; a file gets longer if need be.
    static Result<Target> open(const Options &options);

    Target(Target &&other) noexcept;
    Target(const Target &) = delete;
    Target &operator=(Target &&) = delete;
    Target &operator=(const Target &) = delete;
    // A file that open() made goes again unless keep() was called.
    ~Target();

    // Nothing for a dry run on a file that does not exist.
    [[nodiscard]] const Device *device() const { return device_.get(); }
    // Size of the filesystem to be, in blocks.
    [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
    [[nodiscard]] bool is_file() const noexcept { return file_; }
    [[nodiscard]] AtomicWrites atomic_writes() const;
    // Blocks that large files are to be aligned to.
    [[nodiscard]] unsigned erase_unit() const;

    // Everything that was there goes, as far as geo reaches, but the first block, and the
    // superblocks of geo, which are for the builder to remove. repeatable: all of the file.
    Result<void> clear(const uhsfs_geometry &geo, bool repeatable) const;
    void keep() noexcept { made_ = false; }

private:
    Target() = default;
    Result<void> set_size(const Options &options);

    std::string path_;
    std::unique_ptr<Device> device_;  // null in such a dry run
    std::uint64_t blocks_ = 0;
    bool file_ = false;
    bool made_ = false;
};

}  // namespace uhsfs::mkfs
