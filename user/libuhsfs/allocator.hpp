/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Free space of a filesystem that is being made.
 *
 * Groups are taken one after the other as they are needed and get a zone then: small
 * (blocks packed densely) or large (runs that begin at erase units). In each zone space is
 * given out in ascending order. A run of the large zone skips what is left of an erase unit
 * only if that is less than half of its own length: the pieces of a file full of holes stand
 * next to each other.
 *
 * When no group is left to take, content goes to what the large zone skipped, then to the
 * small zone, then to whatever is free: only a full filesystem is full. The small zone is
 * spared as long as possible because inode chunks and tables need many blocks in a row.
 */
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libuhsfs/core.hpp"

namespace uhsfs {

enum class Zone : std::uint8_t { small = UHSFS_ZONE_SMALL, large = UHSFS_ZONE_LARGE };

struct Run {
    std::uint64_t block = 0;
    std::uint32_t count = 0;
};

class BlockAllocator {
public:
    // reserve: blocks that stay free.
    BlockAllocator(const uhsfs_geometry &geo, std::uint64_t reserve);

    // Exactly `count` contiguous blocks of the small zone.
    std::optional<Run> contiguous(std::uint32_t count);
    // Up to `want` contiguous blocks, a multiple of `granule`, which divides want: as many
    // as there are in a good place.
    std::optional<Run> some(Zone zone, std::uint64_t want, std::uint32_t granule = 1);
    // Give blocks back.
    void free(const Run &run);
    // Take these very blocks, which are free; all are in one group.
    void take(const Run &run);

    [[nodiscard]] std::uint64_t free_blocks() const noexcept { return free_; }
    // Groups below this one were taken.
    [[nodiscard]] std::uint64_t groups_used() const noexcept { return groups_.size(); }
    [[nodiscard]] std::uint8_t zone(std::uint64_t group) const;
    // UHSFS_GROUP_BLOCKS bits of a group that was taken.
    [[nodiscard]] const std::uint8_t *bits(std::uint64_t group) const;

private:
    struct Group {
        std::uint8_t zone = UHSFS_ZONE_UNASSIGNED;
        std::uint32_t free = 0;
        std::uint8_t bits[UHSFS_GROUP_BLOCKS / 8] = {};
    };

    bool may_take(std::uint64_t count) const noexcept { return free_ >= count + reserve_; }
    Group &add_group();
    Run mark(std::uint64_t group, std::uint32_t from, std::uint32_t count);
    std::optional<Run> in_group(std::uint64_t group, std::uint32_t from, std::uint32_t count,
                                std::uint32_t align);
    std::optional<Run> exactly(Zone zone, std::uint32_t count, std::uint32_t align);
    std::optional<Run> skipped(std::uint32_t count, std::uint32_t least);
    std::uint32_t large_align(std::uint64_t want) const;
    [[nodiscard]] bool all_taken() const { return groups_.size() == uhsfs_group_count(&geo_); }
    std::optional<Run> anywhere(std::uint32_t count, std::uint32_t align);
    std::optional<Run> longest(std::uint64_t want, std::uint32_t granule);
    void extend(Run &run, std::uint64_t want, std::uint32_t granule);

    const uhsfs_geometry geo_;
    const std::uint64_t reserve_;
    std::uint64_t free_ = 0;
    std::vector<std::unique_ptr<Group>> groups_;
    // Where the zones go on: group and block in it.
    struct Cursor {
        std::optional<std::uint64_t> group;
        std::uint32_t at = 0;
    };
    Cursor small_;
    Cursor large_;
    // What is before it is not looked at again for skipped blocks.
    Cursor skipped_{.group = 0, .at = 0};
    // Below this group nothing is free any more.
    std::uint64_t full_below_ = 0;
};

}  // namespace uhsfs
