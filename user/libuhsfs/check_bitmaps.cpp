// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Free space: bitmaps against ownership, and the totals in the superblock.
 *
 * A block that is in use but free in the bitmap is damage, unless recovery is going to set its
 * bit. One that nobody owns is a leak: a crash may leave it until the scrub that also clears
 * the suspect map.
 */
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "libuhsfs/check_state.hpp"

namespace uhsfs::checking {

void Checker::check_bitmaps() {
    pass(6, "space", super_.groups_used);
    parallel(super_.groups_used, [&](std::uint64_t group) {
        check_group(group);
        step();
    });
    if (!stop())
        check_totals();
}

namespace {

constexpr std::size_t half_words = UHSFS_MAP_BITS / 64;

std::uint64_t bits_of(const uhsfs_map_block &map, std::size_t word) {
    return uhsfs_get_le64(map.bits + word * sizeof(std::uint64_t));
}

}  // namespace

void Checker::check_group(std::uint64_t group) {
    const bool leaks_allowed = crashed() || !marks_known_;
    const std::uint64_t start = group * UHSFS_GROUP_BLOCKS;
    const std::uint32_t blocks = uhsfs_group_blocks(&geo_, group);
    std::array<std::uint8_t, UHSFS_GROUP_BLOCKS / 8> fixed = {};
    GroupMaps maps;
    std::uint64_t run = 0;  // of blocks that nobody owns, before block `at`
    const auto end_run = [&](std::uint64_t at) {
        const auto fault = make_fault("bitmap", group, "bit", at - run, run,
                                      "must be clear where a block is not in use");
        if (run > 0)
            (leaks_allowed ? notes_ : findings_)
                .add(fault, fmt::format("{} blocks belong to nobody", run));
        if (leaks_allowed)
            leaked_ += run;
        run = 0;
    };

    uhsfs_group_reserve(&geo_, group, fixed.data());
    for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++) {
        maps.at(half) = volume_.bitmap(group, half);
        const auto &map = maps.at(half);
        check_home(map.home, "bitmap", crashed());
        if (!map) {
            bitmaps_known_ = false;
            end_run(start + std::uint64_t{half} * UHSFS_MAP_BITS);
            continue;
        }
        check_seq("bitmap", map.home.chosen_block(), "seq", le64_to_cpu(map.record->h.seq));
        for (std::size_t i = 0; i < half_words; i++) {
            const std::size_t word = half * half_words + i;
            const std::uint64_t first = start + word * 64;
            const std::uint64_t disk = bits_of(*map.record, i);
            const std::uint64_t used =
                owned_.word(group, word) | uhsfs_get_le64(fixed.data() + word * sizeof(word));
            const std::uint64_t missing = used & ~disk & ~recent_.word(group, word);
            free_bits_ += static_cast<std::uint64_t>(std::popcount(~disk));
            for (std::uint64_t m = missing; m != 0; m &= m - 1) {
                const std::uint64_t block = first + static_cast<std::uint64_t>(std::countr_zero(m));
                if (block - start >= blocks) {
                    findings_.add(make_fault("bitmap", group, "bit", block, geo_.blocks,
                                             "must be set past the end of the device"));
                    break;
                }
                free_.mark(block, 1);
                asked_.mark(block, 1);
            }
            const std::uint64_t extra = disk & ~used;
            if (incomplete_)
                continue;  // who owns what is not known
            for (unsigned bit = 0; bit < 64 && (extra != 0 || run > 0); bit++) {
                if ((extra >> bit & 1) != 0)
                    run++;
                else
                    end_run(first + bit);
            }
        }
    }
    end_run(start + UHSFS_GROUP_BLOCKS);
    if (maps[0] && maps[1] && !crashed())
        check_zone(group, maps, fixed.data());
}

// Whatever is allocated in a group, the first block of it gave the group a zone.
void Checker::check_zone(std::uint64_t group, const GroupMaps &maps, const std::uint8_t *fixed) {
    std::uint64_t used = 0;

    for (const auto &map : maps)
        used += uhsfs_map_count(map.record->bits, UHSFS_MAP_BITS);
    used -= std::min<std::uint64_t>(used, uhsfs_map_count(fixed, UHSFS_GROUP_BLOCKS));
    if (used > 0 && maps[0].record->zone == UHSFS_ZONE_UNASSIGNED)
        findings_.add(make_fault("bitmap", group, "zone", UHSFS_ZONE_UNASSIGNED, used,
                                 "a group with blocks in use must belong to a zone"));
}

void Checker::check_totals() {
    const std::uint64_t groups = uhsfs_group_count(&geo_);
    std::uint64_t unused = 0;

    for (std::uint64_t group = super_.groups_used; group < groups; group++)
        unused += uhsfs_group_blocks(&geo_, group) - UHSFS_GROUP_MAPS * geo_.homes;
    report_.free_blocks = free_bits_ + unused;
    if (unclean_)
        return;
    // A cut may fall between the bitmaps or tables and the superblock; a scrub counts again.
    FindingSet &list = crashed() ? notes_ : findings_;
    if (bitmaps_known_ && super_.free_blocks != report_.free_blocks)
        list.add(make_fault("superblock", uhsfs_super_block(&geo_, volume_.super_chosen()),
                            "free_blocks", super_.free_blocks, report_.free_blocks,
                            "must be the number of clear bits in bitmaps"));
    if (tables_known_ && super_.used_slots != in_use_slots_)
        list.add(make_fault("superblock", uhsfs_super_block(&geo_, volume_.super_chosen()),
                            "used_slots", super_.used_slots, in_use_slots_,
                            "must be the number of slots in use"));
}

}  // namespace uhsfs::checking
