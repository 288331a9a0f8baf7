// SPDX-License-Identifier: GPL-2.0
#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "libuhsfs/text.hpp"
#include "libuhsfs/value.hpp"

namespace uhsfs::mkfs {

namespace {

Value contents_value(const ImportStats &stats) {
    Value value = Value::object();

    value.add("files", stats.files);
    value.add("directories", stats.directories);
    value.add("symlinks", stats.symlinks);
    value.add("special-files", stats.special);
    value.add("further-links", stats.links);
    value.add("bytes", stats.bytes);
    value.add("images-left-out", stats.skipped);
    value.add("attributes-left-out", stats.xattrs_left_out);
    return value;
}

void print_json(const Options &options, const Made &made) {
    const uhsfs_super_info &super = made.super;
    Value value = Value::object();

    value.add("device", options.target);
    value.add("written", !options.dry_run);
    value.add("label", super.label);
    value.add("uuid", uuid_text(super.uuid));
    value.add("block-size", UHSFS_BLOCK_SIZE);
    value.add("blocks", super.geo.blocks);
    value.add("free-blocks", super.free_blocks);
    value.add("slot-size", super.geo.slot_size);
    value.add("slots", uhsfs_super_chunks(&super) * super.geo.slots_per_chunk);
    value.add("used-slots", super.used_slots);
    value.add("erase-unit", super.geo.erase_unit * UHSFS_BLOCK_SIZE);
    value.add("atomic", atomic_word(super.atomic));
    value.add("atomic-reason", made.atomic_reason);
    if (!options.source.empty())
        value.add("contents", contents_value(made.contents));
    fmt::print("{}\n", value.to_json());
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Only what there is some of.
std::string contents_text(const ImportStats &stats) {
    std::string text = fmt::format("{}, {}", plural(stats.files, "file", "files"),
                                   plural(stats.directories, "directory", "directories"));

    if (stats.symlinks > 0)
        text += ", " + plural(stats.symlinks, "symlink", "symlinks");
    if (stats.special > 0)
        text += ", " + plural(stats.special, "special file", "special files");
    if (stats.links > 0)
        text += ", " + plural(stats.links, "further link", "further links");
    return text + fmt::format(", {} of data", size_text(stats.bytes));
}

}  // namespace

void print_made(const Options &options, const Made &made) {
    const uhsfs_super_info &super = made.super;

    if (options.json) {
        print_json(options, made);
        return;
    }
    if (options.quiet)
        return;
    const std::string label =
        super.label[0] != '\0' ? fmt::format("label '{}'", printable(super.label)) : "no label";
    fmt::print("{}: {}{}, {}, uuid {}, {} slots of {} bytes, atomic {} ({}){}{}\n",
               printable(options.target), options.dry_run ? "would be made (not written): " : "",
               label, size_text(super.geo.blocks * UHSFS_BLOCK_SIZE), uuid_text(super.uuid),
               uhsfs_super_chunks(&super) * super.geo.slots_per_chunk, super.geo.slot_size,
               atomic_word(super.atomic), made.atomic_reason, options.source.empty() ? "" : "; ",
               options.source.empty() ? "" : contents_text(made.contents));
    if (made.contents.skipped > 0)
        print_warning(fmt::format("{}: left out of its own contents", options.target));
    if (made.contents.xattrs_left_out > 0)
        print_warning(fmt::format(
            "{}: {} that uhsfs has no place for left out", options.source,
            plural(made.contents.xattrs_left_out, "extended attribute", "extended attributes")));
}

void print_warning(const std::string &text) {
    fmt::print(stderr, "mkfs.uhsfs: warning: {}\n", printable(text));
}

void print_error(const Error &error, bool json) {
    fmt::print(stderr, "mkfs.uhsfs: {}\n", error);
    if (!json)
        return;
    Value value = Value::object();
    value.add("device", error.object);
    value.add("written", false);
    value.add("error", error.to_string());
    fmt::print("{}\n", value.to_json());
}

// ---- progress ------------------------------------------------------------------------------

Progress::Progress(bool wanted) : shown_(wanted && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
    if (drawn_)
        fmt::print(stderr, "\r\033[K");
}

void Progress::show(const ImportStats &stats) {
    constexpr auto pause = std::chrono::milliseconds(200);
    const auto now = std::chrono::steady_clock::now();

    if (!shown_ || now - last_ < pause)
        return;
    last_ = now;
    drawn_ = true;
    fmt::print(stderr, "\r\033[Kmkfs.uhsfs: {} files, {} copied", stats.files,
               size_text(stats.bytes));
    std::fflush(stderr);
}

}  // namespace uhsfs::mkfs
