/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What sysfs says of block devices.
 */
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace uhsfs {

// The first line of a file; nothing if it cannot be read.
std::optional<std::string> sysfs_line(const std::filesystem::path &file);
// A decimal number that is the whole first line.
std::optional<std::uint64_t> sysfs_number(const std::filesystem::path &file);

// /sys/dev/block/MAJOR:MINOR
std::filesystem::path sysfs_folder(dev_t device);
// The folder of the disk: the folder itself, or above it for a partition's.
std::filesystem::path sysfs_disk(const std::filesystem::path &folder);
// The disk's queue folder.
std::filesystem::path sysfs_queue(const std::filesystem::path &folder);

}  // namespace uhsfs
