// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What the system knows of a device: whether 4096-byte writes are atomic, and whether it
 * is in use.
 */
#include "libuhsfs/sysfs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <variant>
#include <vector>

#include "libuhsfs/device.hpp"
#include "libuhsfs/locks.hpp"

namespace uhsfs {

namespace fs = std::filesystem;

std::optional<std::string> sysfs_line(const fs::path &file) {
    std::ifstream stream(file);
    std::string line;

    if (!stream || !std::getline(stream, line))
        return std::nullopt;
    return line;
}

std::optional<std::uint64_t> sysfs_number(const fs::path &file) {
    const auto line = sysfs_line(file);
    std::uint64_t value = 0;

    if (!line)
        return std::nullopt;
    const char *end = line->data() + line->size();
    const auto [stop, code] = std::from_chars(line->data(), end, value);
    if (code != std::errc() || stop != end)
        return std::nullopt;
    return value;
}

fs::path sysfs_folder(dev_t device) {
    return fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
}

fs::path sysfs_disk(const fs::path &folder) {
    std::error_code code;
    const fs::path real = fs::canonical(folder, code);

    if (code)
        return folder;
    return fs::exists(real / "partition", code) ? real.parent_path() : real;
}

fs::path sysfs_queue(const fs::path &folder) { return sysfs_disk(folder) / "queue"; }

// ---- atomic writes -------------------------------------------------------------------------

AtomicWrites atomic_writes_of(const fs::path &sysfs) {
    constexpr std::uint64_t sector = 512;
    const fs::path disk = sysfs_disk(sysfs);
    const fs::path queue = disk / "queue";
    const auto logical = sysfs_number(queue / "logical_block_size");
    const auto unit_max = sysfs_number(queue / "atomic_write_unit_max_bytes");
    const auto unit_min = sysfs_number(queue / "atomic_write_unit_min_bytes");
    const auto dax = sysfs_number(queue / "dax");
    const std::uint64_t start = sysfs_number(sysfs / "start").value_or(0) * sector;
    std::error_code code;

    if (!logical)
        return {.device = false, .reason = "nothing is known of the device's queue"};
    if (dax.value_or(0) != 0)
        return {.device = false, .reason = "memory-like device (DAX): stores tear at 8 bytes"};
    if (start % block_size != 0)
        return {.device = false,
                .reason = fmt::format("the partition begins at byte {}, not at a multiple of {}",
                                      start, block_size)};
    if (unit_max && *unit_max >= block_size && unit_min.value_or(0) <= block_size)
        return {.device = true,
                .reason = fmt::format("the kernel reports atomic writes of {} bytes", *unit_max)};
    // Only NVMe namespaces have a namespace identifier.
    const bool nvme =
        disk.filename().native().starts_with("nvme") && fs::exists(disk / "nsid", code);
    if (nvme && *logical == block_size)
        return {.device = true,
                .reason = fmt::format("NVMe namespace with {}-byte blocks", block_size)};
    if (nvme)
        return {.device = false,
                .reason = fmt::format("NVMe namespace with {}-byte blocks", *logical)};
    return {.device = false, .reason = "the device does not promise atomic writes"};
}

// ---- in use --------------------------------------------------------------------------------

namespace {

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string unescape(std::string_view text) {
    constexpr int octal = 8;
    std::string plain;

    for (std::size_t i = 0; i < text.size(); i++) {
        int value = 0;
        if (text[i] == '\\' && i + 3 < text.size() &&
            std::from_chars(&text[i + 1], &text[i + 4], value, octal).ptr == &text[i + 4]) {
            plain += static_cast<char>(value);
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

// Where a block device is mounted, by its numbers or (btrfs has others) its path.
std::optional<std::string> mounted_on(dev_t device) {
    std::ifstream mounts("/proc/self/mountinfo");
    const std::string numbers = fmt::format("{}:{}", major(device), minor(device));
    std::string line;

    while (std::getline(mounts, line)) {
        std::istringstream fields(line);
        std::string id, parent, dev, root, target, word, type, source;
        struct stat st = {};

        fields >> id >> parent >> dev >> root >> target;
        while (fields >> word && word != "-") {
        }
        fields >> type >> source;
        if (dev == numbers)
            return unescape(target);
        if (source.starts_with('/') && ::stat(unescape(source).c_str(), &st) == 0 &&
            S_ISBLK(st.st_mode) && st.st_rdev == device)
            return unescape(target);
    }
    return std::nullopt;
}

// Names of what stands on top: partitions' holders are not among them, but O_EXCL sees those.
std::string holders_of(dev_t device) {
    std::string names;
    std::error_code code;

    for (const auto &entry : fs::directory_iterator(sysfs_folder(device) / "holders", code))
        names += (names.empty() ? "" : ", ") + entry.path().filename().string();
    return names;
}

std::optional<std::string> block_in_use(const std::string &path, dev_t device) {
    if (const auto target = mounted_on(device))
        return fmt::format("is mounted on {}", *target);
    const int fd = ::open(path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
    if (fd >= 0) {
        ::close(fd);
        return std::nullopt;
    }
    if (errno != EBUSY)
        return std::nullopt;
    const std::string holders = holders_of(device);
    if (!holders.empty())
        return fmt::format("is in use by {}", holders);
    return "is in use: it or a partition of it is mounted, swap, or part of another device";
}

// ---- loop devices

struct Loop {
    std::string name;     // "loop0"
    std::string node;     // "/dev/loop0"
    std::string backing;  // the file's name, or what it was before it was deleted
    dev_t numbers = 0;
};

std::optional<dev_t> numbers_of(const fs::path &folder) {
    const auto line = sysfs_line(folder / "dev");
    unsigned first = 0;
    unsigned second = 0;

    if (!line || std::sscanf(line->c_str(), "%u:%u", &first, &second) != 2)
        return std::nullopt;
    return makedev(first, second);
}

// Those that have a file.
std::vector<Loop> loop_devices() {
    std::vector<Loop> loops;
    std::error_code code;

    for (const auto &entry : fs::directory_iterator("/sys/block", code)) {
        const auto backing = sysfs_line(entry.path() / "loop/backing_file");
        const auto numbers = numbers_of(entry.path());
        const std::string name = entry.path().filename().string();
        if (backing && numbers)
            loops.push_back(
                {.name = name, .node = "/dev/" + name, .backing = *backing, .numbers = *numbers});
    }
    return loops;
}

// Whether a loop device stands on the file: the kernel knows. An errno: it cannot be asked.
std::variant<bool, int> stands_on(const Loop &loop, const struct stat &file) {
    const unique_fd fd(::open(loop.node.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct loop_info64 info = {};
    struct stat st = {};

    if (!fd || ::fstat(fd.get(), &st) != 0)
        return errno;
    if (!S_ISBLK(st.st_mode) || st.st_rdev != loop.numbers)
        return ENODEV;
    if (::ioctl(fd.get(), LOOP_GET_STATUS64, &info) != 0) {
        if (errno == ENXIO)
            return false;  // detached in the meantime
        return errno;
    }
    return info.lo_device == file.st_dev && info.lo_inode == file.st_ino;
}

// Whether it may stand on the file, going by names. One that leads nowhere any more, or never
// did here, counts if its last part is ours.
bool may_stand_on(const Loop &loop, const std::string &path, const struct stat &file) {
    constexpr std::string_view deleted = " (deleted)";
    std::string_view backing = loop.backing;
    struct stat st = {};
    std::error_code code;

    if (::stat(loop.backing.c_str(), &st) == 0)
        return st.st_dev == file.st_dev && st.st_ino == file.st_ino;
    if (backing.ends_with(deleted))
        backing.remove_suffix(deleted.size());
    // Folders above it may be closed to us.
    const fs::path real = fs::canonical(path, code);
    return fs::path(backing).filename() == (code ? fs::path(path) : real).filename();
}

std::optional<std::string> loops_in_use(const std::string &path, const struct stat &file) {
    for (const Loop &loop : loop_devices()) {
        const auto stands = stands_on(loop, file);
        if (const int *code = std::get_if<int>(&stands)) {
            if (may_stand_on(loop, path, file))
                return fmt::format("may stand behind {}, which cannot be examined ({})", loop.node,
                                   std::strerror(*code));
            continue;
        }
        if (!std::get<bool>(stands))
            continue;
        if (const auto use = block_in_use(loop.node, loop.numbers))
            return fmt::format("stands behind {}, which {}", loop.node, *use);
    }
    return std::nullopt;
}

std::optional<std::string> locked(const std::string &path) {
    const unique_fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));

    return fd ? range_lock_on(fd.get()) : std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> device_in_use(const std::string &path) {
    struct stat st = {};
    std::optional<std::string> use;

    if (::stat(path.c_str(), &st) != 0)
        return fail_errno(path, "cannot stat");
    if (S_ISBLK(st.st_mode))
        use = block_in_use(path, st.st_rdev);
    else if (S_ISREG(st.st_mode))
        use = loops_in_use(path, st);
    else
        return use;
    return use ? use : locked(path);
}

}  // namespace uhsfs
