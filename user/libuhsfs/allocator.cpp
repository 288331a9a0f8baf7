// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/allocator.hpp"

#include <algorithm>
#include <cassert>

namespace uhsfs {

namespace {

// Holes of fewer blocks than this are left until nothing else is.
constexpr std::uint32_t few = 16;

// Free blocks of a group in which nothing is.
std::uint32_t empty_group(const uhsfs_geometry &geo, std::uint64_t group) {
    std::vector<std::uint8_t> bits(UHSFS_GROUP_BLOCKS / 8);

    uhsfs_group_reserve(&geo, group, bits.data());
    return UHSFS_GROUP_BLOCKS - uhsfs_map_count(bits.data(), UHSFS_GROUP_BLOCKS);
}

}  // namespace

BlockAllocator::BlockAllocator(const uhsfs_geometry &geo, std::uint64_t reserve)
    : geo_(geo), reserve_(reserve) {
    const std::uint64_t count = uhsfs_group_count(&geo_);

    free_ = empty_group(geo_, 0);
    if (count > 1)
        free_ += empty_group(geo_, count - 1);
    if (count > 2)
        free_ += (count - 2) * empty_group(geo_, 1);
    add_group().zone = UHSFS_ZONE_SMALL;
    small_.group = 0;
}

BlockAllocator::Group &BlockAllocator::add_group() {
    const std::uint64_t number = groups_.size();

    groups_.push_back(std::make_unique<Group>());
    Group &group = *groups_.back();
    uhsfs_group_reserve(&geo_, number, group.bits);
    group.free = UHSFS_GROUP_BLOCKS - uhsfs_map_count(group.bits, UHSFS_GROUP_BLOCKS);
    return group;
}

Run BlockAllocator::mark(std::uint64_t group, std::uint32_t from, std::uint32_t count) {
    uhsfs_map_fill(groups_[group]->bits, from, count, true);
    groups_[group]->free -= count;
    free_ -= count;
    return {.block = group * UHSFS_GROUP_BLOCKS + from, .count = count};
}

void BlockAllocator::take(const Run &run) {
    const std::uint64_t group = run.block / UHSFS_GROUP_BLOCKS;

    while (groups_.size() <= group)
        add_group().zone = UHSFS_ZONE_SMALL;
    mark(group, static_cast<std::uint32_t>(run.block % UHSFS_GROUP_BLOCKS), run.count);
}

void BlockAllocator::free(const Run &run) {
    const std::uint64_t group = run.block / UHSFS_GROUP_BLOCKS;

    uhsfs_map_fill(groups_[group]->bits, static_cast<std::uint32_t>(run.block % UHSFS_GROUP_BLOCKS),
                   run.count, false);
    groups_[group]->free += run.count;
    free_ += run.count;
    full_below_ = std::min(full_below_, group);
    // The newest blocks of a zone are the next ones again.
    for (Cursor *cursor : {&small_, &large_})
        if (cursor->group == group && cursor->at == run.block % UHSFS_GROUP_BLOCKS + run.count)
            cursor->at -= run.count;
}

std::optional<Run> BlockAllocator::in_group(std::uint64_t group, std::uint32_t from,
                                            std::uint32_t count, std::uint32_t align) {
    if (groups_[group]->free < count)
        return std::nullopt;
    const std::uint32_t at =
        uhsfs_map_find(groups_[group]->bits, UHSFS_GROUP_BLOCKS, from, count, align);
    if (at == UHSFS_GROUP_BLOCKS)
        return std::nullopt;
    return mark(group, at, count);
}

// In the zone: where it goes on, else in a new group.
std::optional<Run> BlockAllocator::exactly(Zone zone, std::uint32_t count, std::uint32_t align) {
    Cursor &cursor = zone == Zone::small ? small_ : large_;
    std::optional<Run> run;

    if (cursor.group)
        run = in_group(*cursor.group, cursor.at, count, align);
    // Groups taken for tables before anything else are of the small zone too.
    while (!run && zone == Zone::small && cursor.group && *cursor.group + 1 < groups_.size() &&
           groups_[*cursor.group + 1]->zone == UHSFS_ZONE_SMALL) {
        cursor = {.group = *cursor.group + 1, .at = 0};
        run = in_group(*cursor.group, 0, count, align);
    }
    if (!run && groups_.size() < uhsfs_group_count(&geo_)) {
        add_group().zone = static_cast<std::uint8_t>(zone);
        cursor = {.group = groups_.size() - 1, .at = 0};
        run = in_group(*cursor.group, 0, count, align);
    }
    if (run)
        cursor.at = static_cast<std::uint32_t>(run->block % UHSFS_GROUP_BLOCKS) + run->count;
    return run;
}

// Where a run of the large zone may begin: at any multiple of this.
std::uint32_t BlockAllocator::large_align(std::uint64_t want) const {
    const std::uint32_t unit = geo_.erase_unit;
    // Nothing is skipped in a new group but its maps' unit.
    const std::uint32_t skip = large_.group ? (unit - large_.at % unit) % unit : 0;

    return 2 * std::uint64_t{skip} < want ? unit : 1;
}

// At least `least` and up to `count` blocks of those that the large zone passed over. The place
// where this goes on moves only behind what is used up, so that all calls together take no
// longer than the zone is large.
std::optional<Run> BlockAllocator::skipped(std::uint32_t count, std::uint32_t least) {
    for (; skipped_.group < groups_.size(); skipped_ = {.group = *skipped_.group + 1, .at = 0}) {
        const std::uint64_t number = *skipped_.group;
        const Group &group = *groups_[number];
        const std::uint32_t end =
            large_.group == number ? large_.at : std::uint32_t{UHSFS_GROUP_BLOCKS};
        if (group.zone != UHSFS_ZONE_LARGE)
            continue;
        skipped_.at = uhsfs_map_next(group.bits, end, skipped_.at, false);
        const std::uint32_t at = uhsfs_map_find(group.bits, end, skipped_.at, least, 1);
        if (at < end) {
            const std::uint32_t stop = uhsfs_map_next(group.bits, end, at, true);
            const std::uint32_t length = std::min(count, stop - at);
            return mark(number, at, length - length % least);
        }
        // All so far; or room for others, unless it has holes of a few blocks only.
        if (large_.group == number || (skipped_.at < end && least > few))
            return std::nullopt;
    }
    return std::nullopt;
}

std::optional<Run> BlockAllocator::anywhere(std::uint32_t count, std::uint32_t align) {
    while (full_below_ < groups_.size() && groups_[full_below_]->free == 0)
        full_below_++;
    for (std::uint64_t group = full_below_; group < groups_.size(); group++)
        if (auto run = in_group(group, 0, count, align))
            return run;
    return std::nullopt;
}

// The longest run there is, up to `want`.
std::optional<Run> BlockAllocator::longest(std::uint64_t want, std::uint32_t granule) {
    const auto enough =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(want, UHSFS_GROUP_BLOCKS));
    std::uint64_t best_group = 0;
    std::uint32_t best_start = 0;
    std::uint32_t best = 0;

    for (std::uint64_t group = full_below_; best < enough && group < groups_.size(); group++) {
        std::uint32_t start = 0;
        if (groups_[group]->free <= best)
            continue;
        const std::uint32_t length =
            uhsfs_map_longest(groups_[group]->bits, UHSFS_GROUP_BLOCKS, 0, enough, &start);
        if (length > best) {
            best = length;
            best_start = start;
            best_group = group;
        }
    }
    best = std::min(best, enough);
    best -= best % granule;
    if (best == 0)
        return std::nullopt;
    return mark(best_group, best_start, best);
}

// Take what is free behind a run as well.
void BlockAllocator::extend(Run &run, std::uint64_t want, std::uint32_t granule) {
    const std::uint64_t group = run.block / UHSFS_GROUP_BLOCKS;
    const auto from = static_cast<std::uint32_t>(run.block % UHSFS_GROUP_BLOCKS) + run.count;

    if (want <= run.count || from >= UHSFS_GROUP_BLOCKS)
        return;
    const std::uint32_t end = uhsfs_map_next(groups_[group]->bits, UHSFS_GROUP_BLOCKS, from, true);
    auto more = static_cast<std::uint32_t>(std::min<std::uint64_t>(want - run.count, end - from));
    if (!may_take(more))
        more = static_cast<std::uint32_t>(free_ > reserve_ ? free_ - reserve_ : 0);
    more -= more % granule;
    if (more == 0)
        return;
    mark(group, from, more);
    run.count += more;
}

std::optional<Run> BlockAllocator::contiguous(std::uint32_t count) {
    if (!may_take(count))
        return std::nullopt;
    auto run = exactly(Zone::small, count, 1);
    return run ? run : anywhere(count, 1);
}

std::optional<Run> BlockAllocator::some(Zone zone, std::uint64_t want, std::uint32_t granule) {
    assert(want > 0 && want % granule == 0);
    if (free_ < reserve_ + granule)
        return std::nullopt;
    want = std::min(want, free_ - reserve_);
    want -= want % granule;
    const std::uint64_t least = std::min<std::uint64_t>(
        want, zone == Zone::large ? geo_.erase_unit : UHSFS_GROUP_BLOCKS / 2);
    const auto first = static_cast<std::uint32_t>(least - least % granule);
    std::optional<Run> run;
    if (zone == Zone::large)
        run = exactly(Zone::large, first, large_align(want));
    if (!run && all_taken())
        run = skipped(first, zone == Zone::large ? granule : first);
    if (!run)
        run = exactly(Zone::small, first, 1);
    if (!run)
        run = anywhere(first, 1);
    if (!run)
        return longest(want, granule);
    extend(*run, want, granule);
    for (Cursor *cursor : {&small_, &large_})
        if (cursor->group == run->block / UHSFS_GROUP_BLOCKS)
            cursor->at =
                std::max(cursor->at,
                         static_cast<std::uint32_t>(run->block % UHSFS_GROUP_BLOCKS) + run->count);
    return run;
}

std::uint8_t BlockAllocator::zone(std::uint64_t group) const { return groups_.at(group)->zone; }

const std::uint8_t *BlockAllocator::bits(std::uint64_t group) const {
    return groups_.at(group)->bits;
}

}  // namespace uhsfs
