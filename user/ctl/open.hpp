/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opening what the user named, with messages that say what it is instead.
 */
#pragma once

#include <string>

#include "libuhsfs/volume.hpp"

namespace uhsfs::ctl {

Result<Volume> open_volume(const std::string &path, const VolumeOptions &options = {});

// The error for a device on which no copy of the superblock is recognised.
Error no_filesystem(const std::string &path);

}  // namespace uhsfs::ctl
