/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Locks that programs take on devices and image files: flock(), which udev and tools honour,
 * and locks of byte ranges, which QEMU takes on the images of running machines.
 */
#pragma once

#include <optional>
#include <string>

#include "libuhsfs/result.hpp"

namespace uhsfs {

// Takes both kinds, of everything, until the descriptor is closed. It is open for writing.
// EBUSY with the holder; filesystems without locks have nobody to exclude.
Result<void> lock_exclusively(int fd, const std::string &path);

// "is locked by qemu-system-x86 (process 1234)": who has a lock of a range that excludes a
// writer; nothing: nobody.
std::optional<std::string> range_lock_on(int fd);

}  // namespace uhsfs
