// SPDX-License-Identifier: GPL-2.0
/*
 * usage: what the blocks are used for.
 *
 * Two views that must agree: what the bitmaps say is in use, and what is owned by something.
 * Blocks are counted by their owners, in parallel over all chunks, each worker for itself.
 */
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <vector>

#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

namespace {

struct Counts {
    std::uint64_t data = 0;
    std::uint64_t unwritten = 0;  // of data
    std::uint64_t slots = 0;
    std::uint64_t directories = 0;
    std::uint64_t extent_trees = 0;
    std::uint64_t names_trees = 0;
    std::uint64_t xattrs = 0;
    std::uint64_t inodes = 0;
    std::uint64_t files = 0;
    std::uint64_t dirs = 0;

    Counts &operator+=(const Counts &other) {
        data += other.data;
        unwritten += other.unwritten;
        slots += other.slots;
        directories += other.directories;
        extent_trees += other.extent_trees;
        names_trees += other.names_trees;
        xattrs += other.xattrs;
        inodes += other.inodes;
        files += other.files;
        dirs += other.dirs;
        return *this;
    }
};

class OwnedBlocks {
public:
    OwnedBlocks(const Volume &volume, Report &report)
        : volume_(volume), report_(report), parts_(Volume::scan_threads({})) {}

    Counts count() {
        const auto errors = volume_.scan_slots({}, [&](unsigned worker, const SlotBlock &block) {
            add_block(parts_.at(worker), block);
        });
        Counts all;
        for (const Error &error : errors)
            report_.error(error);
        for (const Counts &part : parts_)
            all += part;
        return all;
    }

private:
    void add_block(Counts &counts, const SlotBlock &block) {
        const uhsfs_geometry &geo = volume_.geo();

        counts.slots += geo.homes;
        if (!block.written)
            return;
        if (block.chosen() == nullptr) {
            error(block.home.error(volume_.path()));
            return;
        }
        for (std::uint32_t i = 0; i < geo.slots_per_block; i++) {
            const uhsfs_slot_id id = {.ino = block.first_ino + i,
                                      .block = block.home.chosen_block(),
                                      .nonce = block.info->nonce};
            const auto inode = Inode::parse(geo, block.chosen() + std::size_t{i} * geo.slot_size,
                                            id, volume_.path());
            if (!inode)
                error(inode.error());
            else if (!inode->free())
                add_inode(counts, *inode);
        }
    }

    void add_inode(Counts &counts, const Inode &inode) {
        const unsigned scale = inode.is_dir() ? volume_.geo().homes : 1;
        const auto extents = volume_.extents(inode, [&](std::uint64_t) { counts.extent_trees++; });
        const auto names = volume_.names(inode, [&](std::uint64_t) { counts.names_trees++; });
        const auto xattrs = volume_.xattrs(inode, [&](std::uint64_t) { counts.xattrs++; });

        counts.inodes++;
        counts.dirs += inode.is_dir() ? 1 : 0;
        counts.files += uhsfs_is_reg(inode.attr().mode) ? 1 : 0;
        if (!names)
            error(names.error());
        if (!xattrs)
            error(xattrs.error());
        if (!extents) {
            error(extents.error());
            return;
        }
        for (const uhsfs_ext &ext : *extents) {
            const std::uint64_t blocks = std::uint64_t{ext.len} * scale;
            (inode.is_dir() ? counts.directories : counts.data) += blocks;
            if (!inode.is_dir() && (ext.flags & UHSFS_EXT_UNWRITTEN) != 0)
                counts.unwritten += blocks;
        }
    }

    void error(const Error &what) {
        const std::lock_guard lock(mutex_);

        report_.error(what);
    }

    const Volume &volume_;
    Report &report_;
    std::vector<Counts> parts_;
    std::mutex mutex_;
};

// Blocks of the superblock, bitmaps, chunk table and maps.
std::uint64_t fixed_blocks(const Volume &volume) {
    const uhsfs_super_info &super = volume.super();
    const std::uint64_t homes = super.geo.homes;
    constexpr std::uint64_t untouched_and_supers = 3;
    std::uint64_t blocks = untouched_and_supers;

    blocks += super.groups_used * UHSFS_GROUP_MAPS * homes;
    for (std::uint32_t i = 0; i < super.segments; i++) {
        const std::uint64_t chunks = super.segment[i].chunks;
        constexpr std::uint64_t maps = 3;
        blocks += (DIV_ROUND_UP(chunks, UHSFS_TABLE_CHUNKS) +
                   maps * DIV_ROUND_UP(chunks, UHSFS_MAP_BITS)) *
                  homes;
    }
    return blocks;
}

struct Zone {
    std::uint64_t groups = 0;
    std::uint64_t blocks = 0;
    std::uint64_t free = 0;
};

// By UHSFS_ZONE_..., then the groups that were never used.
constexpr std::size_t never_used = 3;
using Zones = std::array<Zone, never_used + 1>;

Value zone_row(std::string_view name, const Zone &zone) {
    Value row = Value::object();

    row.add("zone", Value::word(name));
    row.add("groups", zone.groups);
    row.add("blocks", blocks_value(zone.blocks));
    row.add("used", blocks_value(zone.blocks - zone.free));
    row.add("free", blocks_value(zone.free));
    return row;
}

class Groups {
public:
    Groups(const Volume &volume, Report &report) : volume_(volume), report_(report) {}

    void count() {
        const std::uint64_t groups = uhsfs_group_count(&volume_.geo());

        if (report_.verbose())
            report_.begin_rows("groups", {{"group", 8}, {"zone", 10}, {"blocks", 8}, {"free", 8}});
        for (std::uint64_t group = 0; group < volume_.super().groups_used && group < groups;
             group++)
            add(group);
        if (report_.verbose())
            report_.end_rows();
        for (std::uint64_t group = volume_.super().groups_used; group < groups; group++) {
            Zone &zone = zones_.at(never_used);
            zone.groups++;
            zone.blocks += uhsfs_group_blocks(&volume_.geo(), group);
            // Its bitmaps are written when it is used first.
            zone.free += uhsfs_group_blocks(&volume_.geo(), group) -
                         std::uint64_t{UHSFS_GROUP_MAPS} * volume_.geo().homes;
        }
    }

    [[nodiscard]] const Zones &zones() const { return zones_; }

private:
    void add(std::uint64_t group) {
        const std::uint32_t blocks = uhsfs_group_blocks(&volume_.geo(), group);
        std::uint32_t used = 0;
        std::uint8_t zone_number = UHSFS_ZONE_UNASSIGNED;
        bool readable = true;

        for (const unsigned half : {0U, 1U}) {
            const std::uint32_t from = half * UHSFS_MAP_BITS;
            const auto map = volume_.bitmap(group, half);
            if (!map) {
                report_.error(map.home.error(volume_.path()));
                readable = false;
                continue;
            }
            if (half == 0)
                zone_number = map.record->zone;
            if (blocks > from)
                used += uhsfs_map_count(map.record->bits,
                                        std::min<std::uint32_t>(blocks - from, UHSFS_MAP_BITS));
        }
        Zone &zone = zones_.at(std::min<std::size_t>(zone_number, UHSFS_ZONE_LARGE));
        // What a damaged bitmap says is in use, until it is repaired.
        const std::uint32_t free = readable ? blocks - used : 0;
        zone.groups++;
        zone.blocks += blocks;
        zone.free += free;
        if (report_.verbose()) {
            Value row = Value::object();
            row.add("group", group);
            row.add("zone",
                    readable ? Value::word(zone_word(zone_number)) : Value::null("unknown"));
            row.add("blocks", blocks);
            row.add("free", readable ? Value::number(free) : Value::null("unknown"));
            report_.row(row);
        }
    }

    const Volume &volume_;
    Report &report_;
    Zones zones_;
};

Value kinds(const Counts &counts, std::uint64_t fixed, std::uint64_t used, std::uint64_t free) {
    Value value = Value::object();
    const std::uint64_t owned = counts.data + counts.slots + counts.directories +
                                counts.extent_trees + counts.names_trees + counts.xattrs + fixed;

    value.add("data", blocks_value(counts.data));
    value.add("unwritten", blocks_value(counts.unwritten));
    value.add("slots", blocks_value(counts.slots));
    value.add("directories", blocks_value(counts.directories));
    value.add("extent-trees", blocks_value(counts.extent_trees));
    value.add("names-trees", blocks_value(counts.names_trees));
    value.add("xattrs", blocks_value(counts.xattrs));
    value.add("maps-and-tables", blocks_value(fixed));
    // Negative: blocks with an owner that the bitmaps call free.
    const auto rest = static_cast<std::int64_t>(used - owned);
    value.add("unaccounted", rest);
    value.add("free", blocks_value(free));
    return value;
}

}  // namespace

Result<void> run_usage(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));
    Groups groups(volume, report);
    Zone all;
    Value zones = Value::array();

    groups.count();
    constexpr std::array<std::string_view, never_used + 1> names = {"unassigned", "small", "large",
                                                                    "never-used"};
    for (std::size_t i = 0; i < names.size(); i++) {
        const Zone &zone = groups.zones().at(i);
        zones.push(zone_row(names.at(i), zone));
        all.groups += zone.groups;
        all.blocks += zone.blocks;
        // Bitmaps of groups that were never used have an owner only when they are.
        all.free += zone.free;
    }
    const std::uint64_t fixed = fixed_blocks(volume) + groups.zones().at(never_used).groups *
                                                           UHSFS_GROUP_MAPS * volume.geo().homes;
    const Counts counts = OwnedBlocks(volume, report).count();
    report.add("blocks", blocks_value(volume.geo().blocks));
    report.add("inodes", counts.inodes);
    report.add("files", counts.files);
    report.add("directories", counts.dirs);
    report.add("blocks-by-kind", kinds(counts, fixed, all.blocks - all.free, all.free));
    report.add("outside-groups", blocks_value(volume.geo().blocks - all.blocks));
    report.add("zones", std::move(zones));
    return {};
}

}  // namespace uhsfs::ctl
