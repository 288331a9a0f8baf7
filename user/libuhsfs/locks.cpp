// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/locks.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace uhsfs {

namespace fs = std::filesystem;

namespace {

constexpr const char *remedy = "unmount it, or stop the program that uses it";

struct flock whole_file() {
    struct flock lock = {};

    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    return lock;
}

bool has_lock(const fs::path &fdinfo) {
    std::ifstream stream(fdinfo);
    std::string line;

    while (std::getline(stream, line))
        if (line.starts_with("lock:"))
            return true;
    return false;
}

std::string process_text(const std::string &pid) {
    std::ifstream stream("/proc/" + pid + "/comm");
    std::string name;

    std::getline(stream, name);
    return fmt::format("{} (process {})", name.empty() ? "a program" : name, pid);
}

// Whoever has the file open and a lock on it, as far as we may look. The kernel does not say
// whose a lock of an open file is.
std::optional<std::string> holder_of(const struct stat &file) {
    std::error_code code;

    for (const auto &process : fs::directory_iterator("/proc", code)) {
        const std::string pid = process.path().filename().string();
        if (!std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; }))
            continue;
        std::error_code closed;
        for (fs::directory_iterator fd(process.path() / "fd", closed), end; !closed && fd != end;
             fd.increment(closed)) {
            struct stat st = {};
            if (::stat(fd->path().c_str(), &st) == 0 && st.st_dev == file.st_dev &&
                st.st_ino == file.st_ino &&
                has_lock(process.path() / "fdinfo" / fd->path().filename()))
                return process_text(pid);
        }
    }
    return std::nullopt;
}

std::string locked_text(int fd, pid_t pid) {
    struct stat st = {};
    std::optional<std::string> holder;

    if (::fstat(fd, &st) == 0)
        holder = holder_of(st);
    if (!holder && pid > 0)
        holder = process_text(std::to_string(pid));
    return "is locked by " + holder.value_or("another program");
}

}  // namespace

Result<void> lock_exclusively(int fd, const std::string &path) {
    struct flock lock = whole_file();

    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(EBUSY, path, locked_text(fd, 0), remedy);
    if (::fcntl(fd, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
        return fail(EBUSY, path, locked_text(fd, 0), remedy);
    return {};
}

std::optional<std::string> range_lock_on(int fd) {
    struct flock lock = whole_file();

    if (::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return std::nullopt;
    return locked_text(fd, lock.l_pid);
}

}  // namespace uhsfs
