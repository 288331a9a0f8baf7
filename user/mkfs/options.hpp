/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the user wants.
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/arguments.hpp"
#include "libuhsfs/layout.hpp"

namespace uhsfs::mkfs {

enum class Atomic : std::uint8_t { automatic, device, shadow };

struct Options {
    std::string target;
    std::optional<std::uint64_t> blocks;
    std::string label;
    std::optional<Uuid> uuid;
    unsigned slot_size = UHSFS_SLOT_SIZE_MIN;
    Atomic atomic = Atomic::automatic;
    std::optional<std::uint64_t> erase_unit;  // bytes
    std::string source;                       // -d
    bool force = false;
    bool quiet = false;
    bool dry_run = false;
    bool json = false;
    std::optional<std::int64_t> epoch_ns;  // SOURCE_DATE_EPOCH
};

Result<Options> read_options(const Arguments &arguments);

}  // namespace uhsfs::mkfs
