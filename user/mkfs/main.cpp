// SPDX-License-Identifier: GPL-2.0
/*
 * mkfs.uhsfs: makes a filesystem. The work is done by libuhsfs (builder.hpp, import.hpp);
 * here is what the user asked for, on what.
 */
#include <fcntl.h>
#include <fmt/format.h>
#include <uuid/uuid.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "libuhsfs/builder.hpp"
#include "libuhsfs/import.hpp"
#include "options.hpp"
#include "report.hpp"
#include "target.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::mkfs;

std::int64_t wall_clock() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

Uuid random_uuid() {
    Uuid uuid = {};

    ::uuid_generate_random(uuid.data());
    return uuid;
}

// One copy of everything or two, and why.
AtomicWrites decide_atomic(const Options &options, const Target &target) {
    AtomicWrites found = target.atomic_writes();

    if (options.atomic == Atomic::automatic)
        return found;
    if (options.atomic == Atomic::device && !found.device && !options.quiet)
        print_warning(
            fmt::format("{}: --atomic=device, but {}: after a power failure the "
                        "filesystem may be damaged",
                        options.target, found.reason));
    return {.device = options.atomic == Atomic::device, .reason = "as asked for"};
}

// Before anything is erased for it.
Result<void> check_source(const std::string &source) {
    if (!source.empty())
        UHSFS_TRY(open_file(source, O_RDONLY | O_DIRECTORY));
    return {};
}

Result<Made> make(const Options &options) {
    UHSFS_TRY(check_source(options.source));
    Target target = UHSFS_TRY(Target::open(options));
    const AtomicWrites atomic = decide_atomic(options, target);
    const bool repeatable = options.uuid && options.epoch_ns && target.is_file();
    const Uuid uuid = options.uuid ? *options.uuid : random_uuid();
    const std::int64_t now = options.epoch_ns.value_or(wall_clock());
    const KeySource keys =
        repeatable ? KeySource::repeatable(uuid, now) : UHSFS_TRY(KeySource::random());
    const LayoutOptions layout = {
        .blocks = target.blocks(),
        .slot_size = options.slot_size,
        .erase_unit = options.erase_unit ? static_cast<unsigned>(*options.erase_unit / block_size)
                                         : target.erase_unit(),
        .shadow = !atomic.device,
        .uuid = uuid,
        .label = options.label,
        .writer = fmt::format("mkfs.uhsfs {}", UHSFS_VERSION),
        .now_ns = now};
    const uhsfs_super_info info = UHSFS_TRY(make_layout(layout, keys));
    const Device *device = options.dry_run ? nullptr : target.device();
    Made made;
    Progress progress(!options.quiet && !options.source.empty());
    ImportOptions import = {.source = options.source,
                            .now_ns = now,
                            .repeatable = repeatable,
                            .image = {},
                            .progress = {}};

    if (target.is_file() && target.device() != nullptr)
        import.image = {target.device()->file_dev(), target.device()->file_ino()};
    if (progress.shown())
        import.progress = [&](const ImportStats &stats) { progress.show(stats); };
    Builder builder(device, info, keys);
    UHSFS_TRY(builder.begin());
    if (device != nullptr) {
        UHSFS_TRY(target.clear(info.geo, repeatable));
        // What a discarded block holds is up to the device: an old superblock, perhaps.
        UHSFS_TRY(builder.begin());
    }
    made.contents = UHSFS_TRY(import_tree(builder, import));
    made.super = UHSFS_TRY(builder.finish());
    made.atomic_reason = atomic.reason;
    target.keep();
    return made;
}

int run(const std::vector<std::string> &words) {
    const manual::Program &table = manual::program();
    const auto arguments = parse_arguments(table, table.self, words, false);

    if (arguments && arguments->has("help")) {
        fmt::print("{}", manual::help_text(table, table.self));
        return 0;
    }
    if (arguments && arguments->has("version")) {
        fmt::print("mkfs.uhsfs {}, format version {}\n", UHSFS_VERSION, UHSFS_FORMAT_VERSION);
        return 0;
    }
    const bool json = arguments && arguments->value("output") == "json";
    const auto checked = parse_arguments(table, table.self, words);
    auto options = checked ? read_options(*checked) : tl::make_unexpected(checked.error());
    if (!options) {
        Error error = options.error();
        error.code = 0;  // "Invalid argument" says nothing more
        if (error.object == table.name)
            error.object.clear();
        print_error(error, json);
        return 1;
    }
    const auto made = make(*options);
    if (!made) {
        Error error = made.error();
        if (error.code == EINVAL || error.code == EEXIST)
            error.code = 0;
        print_error(error, json);
        return 1;
    }
    print_made(*options, *made);
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        const int status = run({argv + 1, argv + argc});
        if (std::fflush(stdout) != 0) {
            fmt::print(stderr, "mkfs.uhsfs: cannot write the result\n");
            return 1;
        }
        return status;
    } catch (const std::exception &exception) {
        fmt::print(stderr, "mkfs.uhsfs: {}\n", exception.what());
        return 1;
    }
}
