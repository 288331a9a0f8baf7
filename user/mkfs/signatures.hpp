/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What stands on a device already, as far as libblkid or the core recognise it.
 */
#pragma once

#include <string>

#include "libuhsfs/device.hpp"

namespace uhsfs::mkfs {

// "an ext4 filesystem labelled 'root'", "a gpt partition table"; empty: nothing known.
Result<std::string> find_signature(const Device &device);

}  // namespace uhsfs::mkfs
