// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace uhsfs {

void unique_fd::reset(int fd) noexcept {
    const int old = std::exchange(fd_, fd);

    if (old >= 0 && old != fd) {
        const int saved = errno;
        // Not repeated on EINTR: Linux has released the number by then.
        ::close(old);
        errno = saved;
    }
}

Result<void> unique_fd::close(std::string_view name) {
    const int fd = release();

    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR)
        return fail_errno(name, "cannot close");
    return {};
}

Result<unique_fd> open_file(const std::string &path, int flags, mode_t mode) {
    int fd = -1;

    do {
        fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return fail_errno(path, "cannot open");
    return unique_fd(fd);
}

}  // namespace uhsfs
