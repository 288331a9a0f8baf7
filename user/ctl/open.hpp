/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opening what the user named, with messages that say what it is instead.
 */
#pragma once

#include <string>

#include "libuhsfs/volume.hpp"

namespace uhsfs::ctl {

// What stands on a device: "ext4", "a dos partition table"; empty if nothing is known.
std::string what_is_on(const std::string &path);

Result<Volume> open_volume(const std::string &path, const VolumeOptions &options = {});

// The error for a device on which no copy of the superblock is recognised.
Error no_filesystem(const std::string &path);

}  // namespace uhsfs::ctl
