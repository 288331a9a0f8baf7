/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The shape of a new filesystem: its superblock before anything is in it, and where the
 * chunk table and the maps stand.
 *
 * The four regions of a segment must be contiguous, and every group has its bitmaps near
 * its start: so a segment stays within one group, and a large filesystem starts with
 * several segments, the first in group 0, the second in group 1, and so on. Only as much of a
 * table is written as there are chunks.
 */
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "libuhsfs/core.hpp"
#include "libuhsfs/result.hpp"

namespace uhsfs {

// Everything mkfs writes belongs to this epoch.
inline constexpr std::uint32_t first_epoch = 1;

using Uuid = std::array<std::uint8_t, UHSFS_UUID_LEN>;

// Everything random of a new filesystem comes from one seed.
class KeySource {
public:
    // From the kernel's random numbers.
    static Result<KeySource> random();
    // The same for the same uuid and time, for images that can be built again bit by bit.
    // Whoever knows both knows the keys of directory hashes.
    static KeySource repeatable(const Uuid &uuid, std::int64_t now_ns);

    [[nodiscard]] std::uint64_t number(std::uint64_t purpose) const;
    void fill(std::uint64_t purpose, std::uint8_t *to, std::size_t len) const;

private:
    std::array<std::uint8_t, 16> seed_ = {};
};

struct LayoutOptions {
    std::uint64_t blocks = 0;  // at most; a last group that is too short is left out
    unsigned slot_size = UHSFS_SLOT_SIZE_MIN;
    unsigned erase_unit = UHSFS_ERASE_UNIT_DEFAULT;  // blocks
    bool shadow = true;
    Uuid uuid = {};
    std::string label = {};
    std::string writer = {};  // program and version
    std::int64_t now_ns = 0;
};

// EINVAL or EFBIG with the option, its value and its limits. free_blocks, used_slots,
// chunks_used, groups_used, epoch and seq are left for the builder.
Result<uhsfs_super_info> make_layout(const LayoutOptions &options, const KeySource &keys);

// Blocks that a segment of that many chunks takes.
std::uint64_t segment_blocks(const uhsfs_geometry &geo, std::uint64_t chunks);
// A segment that stands in segment_blocks() blocks from `block` on.
uhsfs_segment_info place_segment(const uhsfs_geometry &geo, std::uint64_t block,
                                 std::uint64_t first_chunk, std::uint64_t chunks);
// The most chunks that `blocks` blocks can serve; 0: not even one table block.
std::uint64_t segment_capacity(const uhsfs_geometry &geo, std::uint64_t blocks);

}  // namespace uhsfs
