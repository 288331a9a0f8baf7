// SPDX-License-Identifier: GPL-2.0
/*
 * info and features: what a filesystem says of itself.
 */
#include <fmt/format.h>

#include <cerrno>

#include "commands.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

namespace {

std::string_view access_word(uhsfs_access access) {
    switch (access) {
        case UHSFS_ACCESS_NONE:
            return "none";
        case UHSFS_ACCESS_READ:
            return "read";
        case UHSFS_ACCESS_WRITE:
            return "write";
    }
    return "none";
}

Value all_features(const uhsfs_super_info &super) {
    Value all = Value::object();

    all.add("compat", feature_names(FeatureKind::compat, super.compat));
    all.add("ro-compat", feature_names(FeatureKind::ro_compat, super.ro_compat));
    all.add("incompat", feature_names(FeatureKind::incompat, super.incompat));
    return all;
}

// 0 stands for "never" here.
Value time_or_never(std::int64_t ns) { return ns != 0 ? time_value(ns) : Value::null("never"); }

void add_recovery(const Volume &volume, Report &report) {
    const auto needed = volume.needs_recovery();

    if (needed)
        report.add("recovery-needed", Value::boolean(*needed));
    else
        report.add("recovery-needed", Value::null("unknown"));
    if (!needed)
        report.error(needed.error());
}

std::string super_state(const SuperCopy &copy) {
    if (copy.code == 0)
        return "valid";
    return copy.code == EUCLEAN ? "damaged" : "unreadable";
}

void add_geometry(const Volume &volume, Report &report) {
    const uhsfs_super_info &super = volume.super();

    report.add("blocks", blocks_value(super.geo.blocks));
    report.add("free-blocks", blocks_value(super.free_blocks));
    report.add("reserve-blocks", blocks_value(super.reserve_blocks));
    report.add("device-blocks", blocks_value(volume.device().blocks()));
    report.add("groups", uhsfs_group_count(&super.geo));
    report.add("groups-used", super.groups_used);
    report.add("block-size", block_size);
    report.add("slot-size", super.geo.slot_size);
    report.add("erase-unit", blocks_value(super.geo.erase_unit));
    report.add("used-slots", super.used_slots);
    report.add("chunks-used", super.chunks_used);
    report.add("chunks", uhsfs_super_chunks(&super));
    report.add("atomic", Value::word(atomic_word(super.atomic)));
    report.add("errors-mode", Value::word(errors_word(super.errors)));
    report.add("epoch", super.epoch);
}

}  // namespace

Result<void> run_info(const Arguments &arguments, Report &report) {
    const std::string &path = arguments.words().at(0);
    const Volume volume = UHSFS_TRY(open_volume(path, {.foreign = true}));
    const uhsfs_super_info &super = volume.super();
    Value states = Value::array();

    report.add("device", path);
    report.add("label", Value::string(super.label));
    report.add("uuid", uuid_text(super.uuid));
    report.add("format-version", super.version);
    report.add("features", all_features(super));
    report.add("access", Value::word(access_word(volume.access())));
    if (super.version != UHSFS_FORMAT_VERSION)
        return fail(EOPNOTSUPP, path,
                    fmt::format("format version {}; this program knows version {}", super.version,
                                UHSFS_FORMAT_VERSION),
                    "use the uhsfs tools that made it");
    report.add("made-by", Value::string(super.writer));
    for (const int i : {0, 1})
        states.push(Value::word(super_state(volume.super_copy(i))));
    report.add("superblocks", std::move(states));
    add_geometry(volume, report);
    report.add("damage-found", (super.state & UHSFS_STATE_ERROR) != 0);
    report.add("made", time_value(super.made_ns));
    report.add("mounted", time_or_never(super.mounted_ns));
    report.add("checked", time_or_never(super.checked_ns));
    report.add("mounts", super.mounts);
    if (volume.access() == UHSFS_ACCESS_NONE)
        return fail(EOPNOTSUPP, path,
                    "it has incompatible features that this program does not know",
                    "use newer uhsfs tools");
    add_recovery(volume, report);
    for (const int i : {0, 1})
        if (volume.super_copy(i).code == EUCLEAN)
            report.error(fault_error(path, volume.super_copy(i).fault));
    return {};
}

Result<void> run_features(const Arguments &arguments, Report &report) {
    const bool device = !arguments.words().empty();
    uhsfs_super_info super = {};
    uhsfs_access access = UHSFS_ACCESS_WRITE;

    if (device) {
        const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(0), {.foreign = true}));
        super = volume.super();
        access = volume.access();
        report.add("device", arguments.words().at(0));
        report.add("format-version", super.version);
        report.add("access", Value::word(access_word(access)));
    } else {
        report.add("format-version", UHSFS_FORMAT_VERSION);
    }
    Value rows = Value::array();
    const auto bits = [&](FeatureKind kind) -> unsigned long long & {
        return kind == FeatureKind::compat      ? super.compat
               : kind == FeatureKind::ro_compat ? super.ro_compat
                                                : super.incompat;
    };
    const auto add = [&](FeatureKind kind, std::string_view name, bool supported, bool present,
                         std::string_view text) {
        Value row = Value::object();
        row.add("feature", name);
        row.add("kind", Value::word(feature_kind_word(kind)));
        row.add("supported", supported);
        if (device)
            row.add("present", present);
        row.add("meaning", text);
        rows.push(std::move(row));
    };
    for (const Feature &feature : known_features()) {
        add(feature.kind, feature.name, feature.supported, (bits(feature.kind) & feature.bit) != 0,
            feature.text);
        bits(feature.kind) &= ~feature.bit;
    }
    for (const FeatureKind kind :
         {FeatureKind::compat, FeatureKind::ro_compat, FeatureKind::incompat})
        for (unsigned long long left = bits(kind); left != 0; left &= left - 1)
            add(kind, fmt::format("{:#x}", left & (~left + 1)), false, true, "unknown");
    report.add("features", std::move(rows));
    return {};
}

}  // namespace uhsfs::ctl
