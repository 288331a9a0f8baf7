// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Devices and image files: opening, properties, aligned I/O.
 */
#include "libuhsfs/device.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "libuhsfs/locks.hpp"
#include "libuhsfs/sysfs.hpp"

namespace uhsfs {

// ---- memory --------------------------------------------------------------------------------

AlignedBuffer::AlignedBuffer(std::size_t size) : size_(size) {
    const std::size_t whole = (size + block_size - 1) / block_size * block_size;

    if (whole == 0)
        return;
    data_ = static_cast<std::uint8_t *>(std::aligned_alloc(block_size, whole));
    if (data_ == nullptr)
        throw std::bad_alloc();
    std::memset(data_, 0, whole);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedBuffer &AlignedBuffer::operator=(AlignedBuffer &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

// aligned_alloc() has no owner but free().
AlignedBuffer::~AlignedBuffer() { std::free(data_); }  // NOLINT(cppcoreguidelines-no-malloc)

// ---- opening -------------------------------------------------------------------------------

Result<Device> Device::open(const std::string &path, OpenMode mode) {
    struct stat st = {};
    Device device;

    device.path_ = path;
    device.writable_ = mode == OpenMode::write;
    if (::stat(path.c_str(), &st) != 0)
        return fail_errno(path, "cannot open");
    if (S_ISBLK(st.st_mode))
        device.kind_ = DeviceKind::block;
    else if (!S_ISREG(st.st_mode))
        return fail(ENOTBLK, path, "cannot open",
                    "give a block device or a regular file with an image");
    int flags = device.writable_ ? O_RDWR : O_RDONLY;
    if (device.kind_ == DeviceKind::block)
        flags |= O_DIRECT;
    if (device.writable_) {
        // Before opening: it knows where the device is mounted, O_EXCL only that it is.
        const auto use = UHSFS_TRY(device_in_use(path));
        if (use)
            return fail(EBUSY, path, *use, "unmount it, or stop the program that uses it");
        if (device.kind_ == DeviceKind::block)
            flags |= O_EXCL;
    }
    device.fd_ = UHSFS_TRY(open_file(path, flags));
    UHSFS_TRY(device.inspect());
    if (device.writable_)
        UHSFS_TRY(lock_exclusively(device.fd_.get(), path));
    return device;
}

Result<void> Device::inspect() {
    struct stat st = {};

    if (::fstat(fd_.get(), &st) != 0)
        return fail_errno(path_, "cannot stat");
    // The path may lead elsewhere by now.
    const bool block = S_ISBLK(st.st_mode);
    if (block != (kind_ == DeviceKind::block) || (!block && !S_ISREG(st.st_mode)))
        return fail(ESTALE, path_, "was replaced while it was opened");
    file_dev_ = st.st_dev;
    file_ino_ = st.st_ino;
    if (!block) {
        bytes_ = static_cast<std::uint64_t>(st.st_size);
        discard_ = block_size;
        return {};
    }
    rdev_ = st.st_rdev;
    int logical = 0;
    if (::ioctl(fd_.get(), BLKGETSIZE64, &bytes_) != 0)
        return fail_errno(path_, "cannot get the size of the device");
    if (::ioctl(fd_.get(), BLKSSZGET, &logical) != 0)
        return fail_errno(path_, "cannot get the logical block size of the device");
    logical_ = static_cast<unsigned>(logical);
    if (logical_ > block_size)
        return fail(EOPNOTSUPP, path_,
                    fmt::format("its logical blocks of {} bytes are larger than the {} that uhsfs "
                                "writes",
                                logical_, block_size),
                    "use a device, or a format of it, with smaller blocks");
    const auto folder = sysfs_folder(rdev_);
    discard_ = sysfs_number(sysfs_queue(folder) / "discard_max_bytes").value_or(0) != 0
                   ? sysfs_number(sysfs_queue(folder) / "discard_granularity").value_or(0)
                   : 0;
    return {};
}

AtomicWrites Device::atomic_writes() const {
    if (kind_ == DeviceKind::file)
        return {.device = false, .reason = "image file"};
    return atomic_writes_of(sysfs_folder(rdev_));
}

// ---- reading and writing -------------------------------------------------------------------

Result<void> Device::check_range(std::uint64_t block, std::uint64_t count, const char *what) const {
    if (block <= blocks() && count <= blocks() - block)
        return {};
    return fail(EINVAL, path_,
                fmt::format("cannot {} blocks {} to {}: the device has {} blocks", what, block,
                            block + count - 1, blocks()));
}

namespace {

bool aligned(const void *memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % block_size == 0;
}

// pread() and pwrite() until everything is done: 0, or an errno. A short transfer without
// an error is the end of the device.
template <typename Call>
int transfer(Call call, std::size_t size, std::uint64_t offset) {
    std::size_t done = 0;

    while (done < size) {
        const ssize_t n = call(done, size - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n == 0)
            return EIO;
        done += static_cast<std::size_t>(n);
    }
    return 0;
}

int pread_all(int fd, std::uint8_t *to, std::size_t size, std::uint64_t offset) {
    return transfer([=](std::size_t done, std::size_t left,
                        off_t at) { return ::pread(fd, to + done, left, at); },
                    size, offset);
}

int pwrite_all(int fd, const std::uint8_t *from, std::size_t size, std::uint64_t offset) {
    return transfer([=](std::size_t done, std::size_t left,
                        off_t at) { return ::pwrite(fd, from + done, left, at); },
                    size, offset);
}

std::string blocks_text(std::uint64_t block, std::uint64_t count) {
    return count == 1 ? fmt::format("block {}", block)
                      : fmt::format("blocks {} to {}", block, block + count - 1);
}

}  // namespace

Result<void> Device::read(std::uint64_t block, MutableBytes to) const {
    const std::uint64_t count = to.size() / block_size;
    int code = 0;

    UHSFS_TRY(check_range(block, count, "read"));
    if (kind_ == DeviceKind::file || aligned(to.data())) {
        code = pread_all(fd_.get(), to.data(), to.size(), block * block_size);
    } else {
        AlignedBuffer bounce(to.size());
        code = pread_all(fd_.get(), bounce.data(), to.size(), block * block_size);
        if (code == 0)
            std::memcpy(to.data(), bounce.data(), to.size());
    }
    if (code != 0)
        return fail(code, path_, fmt::format("cannot read {}", blocks_text(block, count)));
    return {};
}

Result<void> Device::write(std::uint64_t block, Bytes from) const {
    const std::uint64_t count = from.size() / block_size;
    int code = 0;

    UHSFS_TRY(check_range(block, count, "write"));
    if (kind_ == DeviceKind::file || aligned(from.data())) {
        code = pwrite_all(fd_.get(), from.data(), from.size(), block * block_size);
    } else {
        AlignedBuffer bounce(from.size());
        std::memcpy(bounce.data(), from.data(), from.size());
        code = pwrite_all(fd_.get(), bounce.data(), from.size(), block * block_size);
    }
    if (code != 0)
        return fail(code, path_, fmt::format("cannot write {}", blocks_text(block, count)));
    return {};
}

Result<void> Device::flush() const {
    if (::fsync(fd_.get()) != 0)
        return fail_errno(path_, "cannot flush to the medium");
    return {};
}

Result<bool> Device::discard(std::uint64_t block, std::uint64_t count) const {
    // One request per GiB: a signal is answered between them.
    constexpr std::uint64_t step = (1ULL << 30) / block_size;

    UHSFS_TRY(check_range(block, count, "discard"));
    if (kind_ == DeviceKind::block && discard_ == 0)
        return false;
    while (count > 0) {
        const std::uint64_t n = kind_ == DeviceKind::block ? std::min(count, step) : count;
        std::uint64_t range[2] = {block * block_size, n * block_size};
        const int err =
            kind_ == DeviceKind::block
                ? ::ioctl(fd_.get(), BLKDISCARD, range)
                : ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(range[0]), static_cast<off_t>(range[1]));
        if (err != 0 && errno == EINTR)
            continue;
        if (err != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL))
            return false;
        if (err != 0)
            return fail_errno(path_, fmt::format("cannot discard {}", blocks_text(block, n)));
        block += n;
        count -= n;
    }
    return true;
}

Result<void> Device::zero(std::uint64_t block, std::uint64_t count) const {
    constexpr std::uint64_t step = (1ULL << 20) / block_size;

    UHSFS_TRY(check_range(block, count, "zero"));
    if (count == 0)
        return {};
    if (kind_ == DeviceKind::block) {
        std::uint64_t range[2] = {block * block_size, count * block_size};
        if (::ioctl(fd_.get(), BLKZEROOUT, range) == 0)
            return {};
    } else if (UHSFS_TRY(discard(block, count))) {
        return {};
    }
    const AlignedBuffer zeros(step * block_size);
    while (count > 0) {
        const std::uint64_t n = std::min(count, step);
        UHSFS_TRY(write(block, zeros.span().first(n * block_size)));
        block += n;
        count -= n;
    }
    return {};
}

Result<void> Device::resize(std::uint64_t bytes) {
    if (kind_ != DeviceKind::file)
        return fail(EINVAL, path_, "only files can change their size");
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0)
        return fail_errno(path_, fmt::format("cannot set the size to {} bytes", bytes),
                          "the filesystem it stands on may be full or allow smaller files only");
    bytes_ = bytes;
    return {};
}

}  // namespace uhsfs
