/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What libblkid recognises on a device: another filesystem, a partition table.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libuhsfs/device.hpp"

namespace uhsfs {

struct Signature {
    std::string type;         // "ext4", "swap", "dos"
    std::string label;        // of a filesystem; may be empty
    bool table = false;       // a partition table
    bool filesystem = false;  // not RAID, swap, ...
    std::uint64_t magic = 0;  // the bytes that it is known by: where, in bytes, and how many
    std::uint64_t magic_len = 0;
};

// The first one, read through the device's own descriptor: a path may lead elsewhere by now.
// Nothing: none is known. EIO: it cannot be read. Nobody else may use the device meanwhile.
Result<std::optional<Signature>> find_foreign(const Device &device);

// The same for a path of which nothing is known yet; nothing if it cannot be opened either.
std::optional<Signature> find_foreign(const std::string &path);

// Overwrites the magic bytes of all that are there with zeros.
Result<void> wipe_foreign(const Device &device);

}  // namespace uhsfs
