// SPDX-License-Identifier: GPL-2.0
/*
 * dump chunks, intents, bitmap: what is spread over many blocks of one kind. Lists are
 * printed while they are read; a damaged block is named and the next one is read.
 */
#include <fmt/format.h>

#include <array>
#include <cerrno>

#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

namespace {

// Names what is wrong with a home that was read; true if it has a valid copy.
bool judge(const Home &home, std::string_view what, const Volume &volume, Report &report) {
    if (!home.valid()) {
        Error error = home.error(volume.path());
        error.message = fmt::format("{}: {}", what, error.message);
        report.error(error);
    } else if (home.suspicious) {
        report.error(
            {.code = EUCLEAN,
             .object = volume.path(),
             .message = fmt::format("{}: the other copy at block {} is damaged", what, home.block),
             .hint = "-v shows both"});
    }
    return home.valid();
}

const std::vector<Column> copy_columns = {{"of", 16},    {"block", 10}, {"state", 10},
                                          {"counts", 6}, {"seq", 12},   {"fault", 6}};

// Rows for the copies of a home.
void copy_rows(std::string_view of, const Home &home, Report &report) {
    for (unsigned i = 0; i < home.copies; i++) {
        Value row = Value::object();
        row.add("of", of);
        row.extend(describe_copy(home, i));
        report.row(row);
    }
}

}  // namespace

// ---- chunks --------------------------------------------------------------------------------

namespace {

template <typename Each>
Result<void> each_table_block(const Volume &volume, Each each) {
    const uhsfs_super_info &super = volume.super();

    for (std::uint32_t i = 0; i < super.segments; i++) {
        const uhsfs_segment_info &segment = super.segment[i];
        for (std::uint64_t at = 0; at < segment.chunks; at += UHSFS_TABLE_CHUNKS) {
            if (segment.first_chunk + at >= super.chunks_used)
                return {};
            each(segment.first_chunk + at, UHSFS_TRY(volume.table_block(segment.first_chunk + at)));
        }
    }
    return {};
}

}  // namespace

Result<void> run_dump_chunks(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));

    report.add("chunks-used", volume.super().chunks_used);
    report.add("slots-per-chunk", volume.geo().slots_per_chunk);
    if (report.verbose()) {
        report.begin_rows("table-blocks", copy_columns);
        UHSFS_TRY(each_table_block(volume, [&](std::uint64_t first, const auto &table) {
            copy_rows(fmt::format("chunk {}", first), table.home, report);
        }));
        report.end_rows();
    }
    report.begin_rows("chunks", {{"chunk", 8},
                                 {"block", 10},
                                 {"in-use", 18},
                                 {"slots-in-use", 12},
                                 {"incarnation", 11},
                                 {"generation-base", 15},
                                 {"birth", 6},
                                 {"written", 8},
                                 {"nonce", 18}});
    const auto result = each_table_block(volume, [&](std::uint64_t first, const auto &table) {
        if (!judge(table.home, fmt::format("chunks from {}", first), volume, report))
            return;
        for (std::uint64_t i = 0; i < UHSFS_TABLE_CHUNKS; i++)
            if (table.record->chunk[i].block != 0)
                report.row(describe(table.record->chunk[i], first + i));
    });
    report.end_rows();
    return result;
}

// ---- maps of chunks ------------------------------------------------------------------------

namespace {

constexpr std::array<std::string_view, 3> map_names = {"intent-0", "intent-1", "suspect"};

template <typename Each>
Result<void> each_map_block(const Volume &volume, Each each) {
    for (unsigned which = 0; which < map_names.size(); which++)
        for (std::uint32_t i = 0; i < volume.super().segments; i++) {
            const uhsfs_segment_info &segment = volume.super().segment[i];
            for (std::uint64_t at = 0; at < segment.chunks; at += UHSFS_MAP_BITS)
                each(which, segment.first_chunk + at,
                     UHSFS_TRY(volume.chunk_map(segment.first_chunk + at, which)));
        }
    return {};
}

void map_runs(unsigned which, std::uint64_t first, const uhsfs_map_block &map, const Volume &volume,
              Report &report) {
    const bool live =
        which == UHSFS_MAP_WHICH_SUSPECT || uhsfs_map_live(&map, volume.super().epoch);
    std::uint32_t at = 0;

    while ((at = uhsfs_map_next(map.bits, UHSFS_MAP_BITS, at, true)) < UHSFS_MAP_BITS) {
        const std::uint32_t end = uhsfs_map_next(map.bits, UHSFS_MAP_BITS, at, false);
        Value row = Value::object();
        row.add("map", Value::word(map_names.at(which)));
        row.add("first-chunk", first + at);
        row.add("chunks", end - at);
        row.add("epoch", le32_to_cpu(map.epoch));
        row.add("counts", live);
        report.row(row);
        at = end;
    }
}

}  // namespace

Result<void> run_dump_intents(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0)));

    report.add("superblock-epoch", volume.super().epoch);
    if (report.verbose()) {
        report.begin_rows("map-blocks", copy_columns);
        UHSFS_TRY(each_map_block(volume, [&](unsigned which, std::uint64_t first, const auto &map) {
            copy_rows(fmt::format("{} {}", map_names.at(which), first), map.home, report);
        }));
        report.end_rows();
    }
    report.begin_rows(
        "marked", {{"map", 8}, {"first-chunk", 11}, {"chunks", 8}, {"epoch", 8}, {"counts", 6}});
    const auto result =
        each_map_block(volume, [&](unsigned which, std::uint64_t first, const auto &map) {
            const std::string what =
                fmt::format("{} map, chunks from {}", map_names.at(which), first);
            if (judge(map.home, what, volume, report))
                map_runs(which, first, *map.record, volume, report);
        });
    report.end_rows();
    return result;
}

// ---- bitmaps -------------------------------------------------------------------------------

namespace {

// Runs of equal bits over both halves of a group; one of them may be missing.
void bitmap_runs(std::uint64_t start, std::uint32_t blocks,
                 const std::array<HomeOf<uhsfs_map_block>, UHSFS_GROUP_MAPS> &halves,
                 Report &report) {
    std::uint64_t from = 0;
    std::string_view state;
    const auto end_run = [&](std::uint64_t at, std::string_view next) {
        if (at > from && !state.empty()) {
            Value row = Value::object();
            row.add("first-block", start + from);
            row.add("blocks", at - from);
            row.add("state", Value::word(state));
            report.row(row);
        }
        from = at;
        state = next;
    };

    for (std::uint32_t half = 0; half < UHSFS_GROUP_MAPS; half++) {
        const std::uint32_t base = half * UHSFS_MAP_BITS;
        if (base >= blocks)
            break;
        const std::uint32_t bits = std::min<std::uint32_t>(blocks - base, UHSFS_MAP_BITS);
        if (!halves.at(half)) {
            end_run(base, "unknown");
            continue;
        }
        const std::uint8_t *map = halves.at(half).record->bits;
        std::uint32_t at = 0;
        while (at < bits) {
            const bool used = uhsfs_map_test(map, at);
            const std::string_view word = used ? "used" : "free";
            if (word != state)
                end_run(base + at, word);
            at = uhsfs_map_next(map, bits, at, !used);
        }
    }
    end_run(blocks, {});
}

}  // namespace

Result<void> run_dump_bitmap(const Arguments &arguments, Report &report) {
    const std::uint64_t group = UHSFS_TRY(parse_number("GROUP", arguments.words().at(0)));
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    const std::uint64_t groups = uhsfs_group_count(&volume.geo());

    if (group >= groups)
        return fail(0, volume.path(),
                    fmt::format("group {}: the last one is {}", group, groups - 1));
    const std::uint32_t blocks = uhsfs_group_blocks(&volume.geo(), group);
    report.add("group", group);
    report.add("first-block", group * UHSFS_GROUP_BLOCKS);
    report.add("blocks", blocks_value(blocks));
    report.add("ever-used", group < volume.super().groups_used);
    if (group >= volume.super().groups_used) {
        // Its bitmaps are garbage until it is used.
        report.begin_rows("runs", {});
        report.end_rows();
        return {};
    }
    std::array<HomeOf<uhsfs_map_block>, UHSFS_GROUP_MAPS> halves;
    Value list = Value::array();
    for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++) {
        halves.at(half) = volume.bitmap(group, half);
        if (!halves.at(half))
            continue;
        const uhsfs_map_block &map = *halves.at(half).record;
        Value row = Value::object();
        row.add("half", half);
        row.add("index", le64_to_cpu(map.index));
        row.add("zone", Value::word(zone_word(map.zone)));
        row.add("set", le32_to_cpu(map.set));
        row.add("seq", seq_value(le64_to_cpu(map.h.seq)));
        list.push(std::move(row));
    }
    report.add("halves", std::move(list));
    if (report.verbose()) {
        report.begin_rows("copies", copy_columns);
        for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++)
            copy_rows(fmt::format("half {}", half), halves.at(half).home, report);
        report.end_rows();
    }
    for (unsigned half = 0; half < UHSFS_GROUP_MAPS; half++)
        judge(halves.at(half).home, fmt::format("half {} of group {}", half, group), volume,
              report);
    report.begin_rows("runs", {{"first-block", 11}, {"blocks", 8}, {"state", 7}});
    bitmap_runs(group * UHSFS_GROUP_BLOCKS, blocks, halves, report);
    report.end_rows();
    return {};
}

}  // namespace uhsfs::ctl
