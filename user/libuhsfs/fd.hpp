/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A file descriptor that closes itself.
 */
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "libuhsfs/result.hpp"

namespace uhsfs {

class unique_fd {
public:
    unique_fd() noexcept = default;
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd &&other) noexcept : fd_(other.release()) {}
    unique_fd(const unique_fd &) = delete;
    unique_fd &operator=(unique_fd &&other) noexcept {
        reset(other.release());
        return *this;
    }
    unique_fd &operator=(const unique_fd &) = delete;
    ~unique_fd() { reset(); }

    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

    // Gives the descriptor up without closing it.
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

    // Closes what it holds and takes fd. Errors of close() are lost and errno is
    // kept: this also runs on error paths. Where they matter, use close().
    void reset(int fd = -1) noexcept;

    // Closes and reports what close() reports; `name` is for the message. The
    // descriptor is gone either way.
    Result<void> close(std::string_view name);

private:
    int fd_ = -1;
};

// open() with O_CLOEXEC, started again when a signal interrupts it.
Result<unique_fd> open_file(const std::string &path, int flags, mode_t mode = 0);

}  // namespace uhsfs
