/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A block device or an image file, in blocks of 4096 bytes.
 *
 * Block devices are always read and written with O_DIRECT: the kernel module bypasses the
 * device's page cache, so that what stands there may be stale. Image files are read and
 * written through the page cache, which a loop device shares.
 *
 * Writers hold what they open exclusively: O_EXCL on block devices (it fails while the
 * device or one of its partitions is mounted, swap, or a member of md or dm) and the locks
 * of locks.hpp, which also keep udev from probing half-written devices and QEMU from running
 * a machine on them. Readers hold nothing.
 */
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "libuhsfs/fd.hpp"
#include "libuhsfs/result.hpp"

namespace uhsfs {

inline constexpr std::size_t block_size = 4096;

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// Zeroed memory, aligned as direct I/O needs it.
class AlignedBuffer {
public:
    AlignedBuffer() noexcept = default;
    explicit AlignedBuffer(std::size_t size);
    AlignedBuffer(AlignedBuffer &&other) noexcept;
    AlignedBuffer(const AlignedBuffer &) = delete;
    AlignedBuffer &operator=(AlignedBuffer &&other) noexcept;
    AlignedBuffer &operator=(const AlignedBuffer &) = delete;
    ~AlignedBuffer();

    [[nodiscard]] std::uint8_t *data() noexcept { return data_; }
    [[nodiscard]] const std::uint8_t *data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] MutableBytes span() noexcept { return {data_, size_}; }
    [[nodiscard]] Bytes span() const noexcept { return {data_, size_}; }

private:
    std::uint8_t *data_ = nullptr;
    std::size_t size_ = 0;
};

enum class DeviceKind : std::uint8_t { file, block };

enum class OpenMode : std::uint8_t {
    read,   // whoever else uses it; for a mounted device too
    write,  // read and write, exclusively: fails with EBUSY if it is in use
};

// Whether a 4096-byte write is atomic, as `mkfs --atomic=auto` and mount decide it.
struct AtomicWrites {
    bool device = false;  // true: one copy per home will do
    std::string reason;   // "NVMe namespace with 4096-byte blocks"; never empty
};

// The decision for a block device from its folder in sysfs (/sys/dev/block/MAJOR:MINOR; a
// partition's too). What cannot be read counts against atomicity.
AtomicWrites atomic_writes_of(const std::filesystem::path &sysfs);

// Where a device or image file is in use: "is mounted on /mnt", "is locked by ...". Nothing:
// it is not. A file is in use if it backs a loop device that is, or that cannot be examined.
Result<std::optional<std::string>> device_in_use(const std::string &path);

class Device {
public:
    // EBUSY with where it is in use, ENOTBLK for what is neither device nor file.
    static Result<Device> open(const std::string &path, OpenMode mode);

    [[nodiscard]] const std::string &path() const noexcept { return path_; }
    [[nodiscard]] DeviceKind kind() const noexcept { return kind_; }
    [[nodiscard]] bool writable() const noexcept { return writable_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    // Whole blocks; a rest at the end is not used.
    [[nodiscard]] std::uint64_t blocks() const noexcept { return bytes_ / block_size; }
    // Of the device; 512 for files.
    [[nodiscard]] unsigned logical_block_size() const noexcept { return logical_; }
    // Discard granularity in bytes, 0: the device does not discard. 4096 for files.
    [[nodiscard]] std::uint64_t discard_granularity() const noexcept { return discard_; }
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }
    // To recognise the file itself within a tree.
    [[nodiscard]] dev_t file_dev() const noexcept { return file_dev_; }
    [[nodiscard]] ino_t file_ino() const noexcept { return file_ino_; }
    [[nodiscard]] AtomicWrites atomic_writes() const;

    // Whole blocks: the span's size is a multiple of 4096. Any alignment; aligned spans are
    // faster. Safe from several threads at once. Reading past the end is an error.
    Result<void> read(std::uint64_t block, MutableBytes to) const;
    Result<void> write(std::uint64_t block, Bytes from) const;

    // What was written before is durable when this returns.
    Result<void> flush() const;
    // Tell the device that blocks are unused; what they hold then is not defined. False if
    // it cannot. Files: the blocks become a hole.
    Result<bool> discard(std::uint64_t block, std::uint64_t count) const;
    // The blocks read as zeros afterwards.
    Result<void> zero(std::uint64_t block, std::uint64_t count) const;
    // Files only: change the length.
    Result<void> resize(std::uint64_t bytes);

private:
    Device() = default;
    Result<void> inspect();
    Result<void> check_range(std::uint64_t block, std::uint64_t count, const char *what) const;

    std::string path_;
    unique_fd fd_;
    DeviceKind kind_ = DeviceKind::file;
    bool writable_ = false;
    std::uint64_t bytes_ = 0;
    unsigned logical_ = 512;
    std::uint64_t discard_ = 0;
    dev_t rdev_ = 0;
    dev_t file_dev_ = 0;
    ino_t file_ino_ = 0;
};

}  // namespace uhsfs
