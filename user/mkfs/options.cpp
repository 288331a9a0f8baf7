// SPDX-License-Identifier: GPL-2.0
#include "options.hpp"

#include <fmt/format.h>
#include <uuid/uuid.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

#include "libuhsfs/device.hpp"

namespace uhsfs::mkfs {

namespace {

// "2M": a number with K, M or G, of 1024 each.
Result<std::uint64_t> parse_size(std::string_view what, std::string text) {
    constexpr std::string_view units = "KMG";
    constexpr unsigned bits = 10;
    unsigned shift = 0;

    if (!text.empty()) {
        const char last = static_cast<char>(text.back() & ~0x20);
        const std::size_t unit = units.find(last);
        if (unit != std::string_view::npos) {
            shift = bits * static_cast<unsigned>(unit + 1);
            text.pop_back();
        }
    }
    const std::uint64_t number = UHSFS_TRY(parse_number(what, text));
    if (number > std::numeric_limits<std::uint64_t>::max() >> shift)
        return fail(EINVAL, what, fmt::format("'{}' is too large", text));
    return number << shift;
}

Result<Uuid> parse_uuid(const std::string &text) {
    Uuid uuid = {};

    if (::uuid_parse(text.c_str(), uuid.data()) != 0)
        return fail(EINVAL, "-U", fmt::format("'{}' is no UUID", text),
                    "a UUID looks like 01234567-89ab-cdef-0123-456789abcdef");
    return uuid;
}

Result<std::optional<std::int64_t>> source_date_epoch() {
    constexpr std::int64_t per_second = 1'000'000'000;
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max() / per_second;
    constexpr const char *name = "SOURCE_DATE_EPOCH";
    const char *text = std::getenv(name);

    if (text == nullptr || *text == '\0')
        return std::optional<std::int64_t>();
    const std::uint64_t seconds = UHSFS_TRY(parse_number(name, text));
    if (seconds > most)
        return fail(EINVAL, name, fmt::format("is {}, at most {} is possible", seconds, most));
    return std::optional(static_cast<std::int64_t>(seconds) * per_second);
}

}  // namespace

Result<Options> read_options(const Arguments &arguments) {
    Options options;

    options.target = arguments.words().front();
    if (arguments.words().size() > 1)
        options.blocks = UHSFS_TRY(parse_number("BLOCKS", arguments.words()[1]));
    options.label = arguments.value("label");
    if (arguments.has("uuid"))
        options.uuid = UHSFS_TRY(parse_uuid(arguments.value("uuid")));
    options.slot_size = static_cast<unsigned>(
        UHSFS_TRY(parse_number("--slot-size", arguments.value("slot-size", "1024"))));
    const std::string atomic = arguments.value("atomic", "auto");
    options.atomic = atomic == "device"   ? Atomic::device
                     : atomic == "shadow" ? Atomic::shadow
                                          : Atomic::automatic;
    if (arguments.has("erase-unit")) {
        const std::uint64_t unit =
            UHSFS_TRY(parse_size("--erase-unit", arguments.value("erase-unit")));
        if (unit % block_size != 0 || unit / block_size > UHSFS_ERASE_UNIT_MAX)
            return fail(
                EINVAL, "--erase-unit",
                fmt::format("is {} bytes, must be a power of two from {} to {}", unit,
                            UHSFS_ERASE_UNIT_MIN * block_size, UHSFS_ERASE_UNIT_MAX * block_size));
        options.erase_unit = unit;
    }
    options.source = arguments.value("from-directory");
    if (arguments.has("from-directory") && options.source.empty())
        return fail(EINVAL, "-d", "no directory given");
    options.force = arguments.has("force");
    options.quiet = arguments.has("quiet");
    options.dry_run = arguments.has("dry-run");
    options.json = arguments.value("output") == "json";
    options.epoch_ns = UHSFS_TRY(source_date_epoch());
    return options;
}

}  // namespace uhsfs::mkfs
