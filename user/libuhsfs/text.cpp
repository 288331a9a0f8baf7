// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Words for numbers of the format, and the structures without a body of their own.
 */
#include "libuhsfs/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>

#include "libuhsfs/json.hpp"

namespace uhsfs {

// ---- words ---------------------------------------------------------------------------------

std::string size_text(std::uint64_t bytes) {
    static constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    constexpr double step = 1024;
    auto value = static_cast<double>(bytes) / step;
    std::size_t unit = 0;

    if (bytes < 1024)
        return fmt::format("{} bytes", bytes);
    // What would be shown as 1024.0 belongs to the next unit.
    while (value >= step - 0.05 && unit + 1 < units.size()) {
        value /= step;
        unit++;
    }
    return fmt::format("{:.1f} {}", value, units.at(unit));
}

std::string time_text(std::int64_t ns) {
    constexpr std::int64_t second = 1'000'000'000;
    std::int64_t part = ns % second;
    std::time_t seconds = ns / second;
    std::tm tm = {};

    if (part < 0) {
        part += second;
        seconds--;
    }
    ::gmtime_r(&seconds, &tm);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", tm.tm_year + 1900,
                       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, part);
}

bool all_zero(const void *bytes, std::size_t size) {
    const auto *first = static_cast<const std::uint8_t *>(bytes);

    return std::all_of(first, first + size, [](std::uint8_t byte) { return byte == 0; });
}

namespace {

struct Type {
    std::uint32_t mode;
    std::uint8_t dtype;
    char letter;
    char shown;  // by mode_text()
    std::string_view word;
};

constexpr std::array types = {
    Type{UHSFS_S_IFREG, 8, 'f', '-', "file"},
    Type{UHSFS_S_IFDIR, 4, 'd', 'd', "directory"},
    Type{UHSFS_S_IFLNK, 10, 'l', 'l', "symlink"},
    Type{UHSFS_S_IFIFO, 1, 'p', 'p', "fifo"},
    Type{UHSFS_S_IFSOCK, 12, 's', 's', "socket"},
    Type{UHSFS_S_IFBLK, 6, 'b', 'b', "block-device"},
    Type{UHSFS_S_IFCHR, 2, 'c', 'c', "character-device"},
};

const Type *type_of(std::uint32_t mode) {
    const auto *found = std::ranges::find(types, mode & UHSFS_S_IFMT, &Type::mode);

    return found == types.end() ? nullptr : found;
}

}  // namespace

char mode_letter(std::uint32_t mode) {
    const Type *type = type_of(mode);

    return type != nullptr ? type->letter : '?';
}

std::string_view mode_word(std::uint32_t mode) {
    const Type *type = type_of(mode);

    return type != nullptr ? type->word : "unknown";
}

std::string_view dtype_word(std::uint8_t dtype) {
    const auto *found = std::ranges::find(types, dtype, &Type::dtype);

    return found == types.end() ? "unknown" : found->word;
}

std::string mode_text(std::uint32_t mode) {
    const Type *type = type_of(mode);
    std::string text = "?rwxrwxrwx";

    text[0] = type != nullptr ? type->shown : '?';
    for (unsigned i = 0; i < 9; i++)
        if ((mode >> (8 - i) & 1) == 0)
            text[i + 1] = '-';
    const auto special = [&](std::uint32_t bit, std::size_t at, char letter) {
        if ((mode & bit) != 0)
            text[at] = text[at] == 'x' ? letter : static_cast<char>(std::toupper(letter));
    };
    special(04000, 3, 's');
    special(02000, 6, 's');
    special(01000, 9, 't');
    return text;
}

std::string tag_text(std::uint32_t magic) {
    std::string text;

    for (unsigned i = 0; i < 4; i++) {
        const auto c = static_cast<unsigned char>(magic >> (8 * i));
        if (c < 'A' || c > 'Z')
            return fmt::format("{:#010x}", magic);
        text += static_cast<char>(c);
    }
    return text;
}

std::string_view atomic_word(std::uint8_t atomic) {
    switch (atomic) {
        case UHSFS_ATOMIC_DEVICE:
            return "device";
        case UHSFS_ATOMIC_SHADOW:
            return "shadow";
        default:
            return "unknown";
    }
}

std::string_view errors_word(std::uint8_t errors) {
    switch (errors) {
        case UHSFS_ERRORS_REMOUNT_RO:
            return "remount-ro";
        case UHSFS_ERRORS_CONTINUE:
            return "continue";
        case UHSFS_ERRORS_PANIC:
            return "panic";
        default:
            return "unknown";
    }
}

std::string_view zone_word(std::uint8_t zone) {
    switch (zone) {
        case UHSFS_ZONE_UNASSIGNED:
            return "unassigned";
        case UHSFS_ZONE_SMALL:
            return "small";
        case UHSFS_ZONE_LARGE:
            return "large";
        default:
            return "unknown";
    }
}

std::string_view state_word(std::uint8_t state) {
    switch (state) {
        case UHSFS_SLOT_FREE:
            return "free";
        case UHSFS_SLOT_INODE:
            return "inode";
        default:
            return "unknown";
    }
}

std::string uuid_text(const std::uint8_t (&uuid)[UHSFS_UUID_LEN]) {
    std::string text;

    for (unsigned i = 0; i < UHSFS_UUID_LEN; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text += '-';
        fmt::format_to(std::back_inserter(text), "{:02x}", uuid[i]);
    }
    return text;
}

const std::vector<Feature> &known_features() {
    const auto supported = [](std::uint64_t bit, std::uint64_t all) { return (bit & all) != 0; };
    static const std::vector<Feature> features = {
        {FeatureKind::ro_compat, UHSFS_RO_COMPAT_QUOTA, "quota",
         "limits of users, groups, projects",
         supported(UHSFS_RO_COMPAT_QUOTA, UHSFS_RO_COMPAT_SUPPORTED)},
        {FeatureKind::ro_compat, UHSFS_RO_COMPAT_REFLINK, "reflink", "files that share blocks",
         supported(UHSFS_RO_COMPAT_REFLINK, UHSFS_RO_COMPAT_SUPPORTED)},
        {FeatureKind::ro_compat, UHSFS_RO_COMPAT_SNAPSHOTS, "snapshots", "older states kept",
         supported(UHSFS_RO_COMPAT_SNAPSHOTS, UHSFS_RO_COMPAT_SUPPORTED)},
        {FeatureKind::incompat, UHSFS_INCOMPAT_EXPERIMENTAL, "experimental",
         "the format may still change",
         supported(UHSFS_INCOMPAT_EXPERIMENTAL, UHSFS_INCOMPAT_SUPPORTED)},
        {FeatureKind::incompat, UHSFS_INCOMPAT_PM, "pm", "logs of files in persistent memory",
         supported(UHSFS_INCOMPAT_PM, UHSFS_INCOMPAT_SUPPORTED)},
    };

    return features;
}

std::string_view feature_kind_word(FeatureKind kind) {
    switch (kind) {
        case FeatureKind::compat:
            return "compat";
        case FeatureKind::ro_compat:
            return "ro-compat";
        case FeatureKind::incompat:
            return "incompat";
    }
    return "unknown";
}

Value feature_names(FeatureKind kind, std::uint64_t bits) {
    Value names = Value::array();

    for (const Feature &feature : known_features())
        if (feature.kind == kind && (bits & feature.bit) != 0) {
            names.push(Value::word(feature.name));
            bits &= ~feature.bit;
        }
    for (; bits != 0; bits &= bits - 1)
        names.push(Value::word(fmt::format("{:#x}", bits & (~bits + 1))));
    return names;
}

std::string inode_flags_text(std::uint32_t flags) {
    struct Flag {
        std::uint32_t bit;
        std::string_view name;
    };
    static constexpr std::array names = {
        Flag{UHSFS_INODE_SYNC, "sync"},
        Flag{UHSFS_INODE_IMMUTABLE, "immutable"},
        Flag{UHSFS_INODE_APPEND, "append"},
        Flag{UHSFS_INODE_NODUMP, "nodump"},
        Flag{UHSFS_INODE_NOATIME, "noatime"},
        Flag{UHSFS_INODE_DIRSYNC, "dirsync"},
        Flag{UHSFS_INODE_PROJINHERIT, "projinherit"},
    };
    std::string text;

    for (const Flag &flag : names)
        if ((flags & flag.bit) != 0) {
            text += text.empty() ? "" : " ";
            text += flag.name;
            flags &= ~flag.bit;
        }
    if (flags != 0)
        text += fmt::format("{}{:#x}", text.empty() ? "" : " ", flags);
    return text.empty() ? "none" : text;
}

// ---- numbers with two faces ----------------------------------------------------------------

Value hex_value(std::uint64_t number) {
    return Value::number(number, fmt::format("{:#x}", number));
}

Value time_value(std::int64_t ns) { return Value::number(ns, time_text(ns)); }

Value seq_value(std::uint64_t seq) {
    return Value::number(seq,
                         fmt::format("{}.{}", uhsfs_seq_epoch(seq),
                                     seq & ((std::uint64_t{1} << UHSFS_SEQ_COUNTER_BITS) - 1)));
}

Value blocks_value(std::uint64_t count) {
    if (count > UINT64_MAX / block_size)
        return Value::number(count);
    return Value::number(count, fmt::format("{} ({})", count, size_text(count * block_size)));
}

Value size_value(std::uint64_t bytes) {
    return Value::number(bytes, bytes < 1024 ? fmt::format("{}", bytes)
                                             : fmt::format("{} ({})", bytes, size_text(bytes)));
}

Value mode_value(std::uint32_t mode) {
    return Value::number(mode, fmt::format("{:o} ({})", mode, mode_text(mode)));
}

// ---- structures ----------------------------------------------------------------------------

Value describe(const uhsfs_fault &fault) {
    Value value = Value::object();

    value.add("object", fault.object != nullptr ? fault.object : "");
    value.add("id", fault.id);
    value.add("field", fault.field != nullptr ? fault.field : "");
    value.add("value", fault.value);
    value.add("limit", fault.limit);
    value.add("rule", fault.rule != nullptr ? fault.rule : "");
    return value;
}

Value describe(const Copy &copy, std::uint64_t block, bool chosen) {
    Value value = Value::object();
    std::string fault;

    value.add("block", block);
    value.add("state", copy.code == 0 ? "valid" : copy.code == EUCLEAN ? "damaged" : "unreadable");
    value.add("counts", chosen);
    value.add("seq", copy.code == 0 ? seq_value(copy.seq) : Value::null("-"));
    if (copy.code == EUCLEAN)
        fault = fault_text(copy.fault);
    else if (copy.code != 0)
        fault = std::strerror(copy.code);
    value.add("fault", copy.code == 0 ? Value::null("-") : Value::string(fault));
    return value;
}

Value describe_copy(const Home &home, unsigned copy) {
    return describe(home.copy.at(copy), home.block + copy, home.chosen == static_cast<int>(copy));
}

namespace {

std::uint64_t number(__le64 value) { return le64_to_cpu(value); }
std::uint32_t number(__le32 value) { return le32_to_cpu(value); }

// A zero-padded byte array. What stands behind a zero is damage, and shown.
template <std::size_t N>
std::string_view text_of(const std::uint8_t (&bytes)[N]) {
    std::size_t length = N;

    while (length != 0 && bytes[length - 1] == 0)
        length--;
    return {reinterpret_cast<const char *>(bytes), length};
}

template <std::size_t N>
std::string_view bytes_of(const std::uint8_t (&bytes)[N]) {
    return {reinterpret_cast<const char *>(bytes), N};
}

Value describe_root(const uhsfs_root &root) {
    Value value = Value::object();

    value.add("block", number(root.block));
    value.add("depth", number(root.depth));
    value.add("reserved", number(root.reserved));
    return value;
}

Value describe_segments(const uhsfs_super &super) {
    Value segments = Value::array();
    const std::uint32_t count = std::min<std::uint32_t>(number(super.segments), UHSFS_MAX_SEGMENTS);

    for (std::uint32_t i = 0; i < count; i++) {
        const uhsfs_segment &s = super.segment[i];
        Value value = Value::object();
        value.add("first-chunk", number(s.first_chunk));
        value.add("chunks", number(s.chunks));
        value.add("table", number(s.table));
        value.add("intent-0", number(s.intent[0]));
        value.add("intent-1", number(s.intent[1]));
        value.add("suspect", number(s.suspect));
        value.add("reserved-zero", all_zero(s.reserved, sizeof(s.reserved)));
        segments.push(std::move(value));
    }
    return segments;
}

}  // namespace

Value describe(const uhsfs_header &header) {
    Value value = Value::object();

    value.add("magic", Value::word(tag_text(number(header.magic))));
    value.add("crc", hex_value(number(header.crc)));
    value.add("fsid", hex_value(number(header.fsid)));
    value.add("block", number(header.block));
    value.add("owner-ino", number(header.owner_ino));
    value.add("owner-generation", number(header.owner_gen));
    value.add("flags", number(header.flags));
    value.add("seq", seq_value(number(header.seq)));
    return value;
}

Value describe(const uhsfs_super &s) {
    Value v = Value::object();

    v.add("magic", Value::string(bytes_of(s.magic)));
    v.add("crc", hex_value(number(s.crc)));
    v.add("version", number(s.version));
    v.add("uuid", uuid_text(s.uuid));
    v.add("fsid", hex_value(number(s.fsid)));
    v.add("block", number(s.block));
    v.add("seq", number(s.seq));
    v.add("compat", hex_value(number(s.compat)));
    v.add("compat-features", feature_names(FeatureKind::compat, number(s.compat)));
    v.add("ro-compat", hex_value(number(s.ro_compat)));
    v.add("ro-compat-features", feature_names(FeatureKind::ro_compat, number(s.ro_compat)));
    v.add("incompat", hex_value(number(s.incompat)));
    v.add("incompat-features", feature_names(FeatureKind::incompat, number(s.incompat)));
    v.add("block-size", number(s.block_size));
    v.add("slot-size", number(s.slot_size));
    v.add("erase-unit", blocks_value(number(s.erase_unit)));
    v.add("atomic",
          Value::number(s.atomic, fmt::format("{} ({})", s.atomic, atomic_word(s.atomic))));
    v.add("errors-mode",
          Value::number(s.errors, fmt::format("{} ({})", s.errors, errors_word(s.errors))));
    v.add("state", Value::number(s.state, (s.state & UHSFS_STATE_ERROR) != 0
                                              ? fmt::format("{:#x} (damage was found)", s.state)
                                              : fmt::format("{:#x}", s.state)));
    v.add("blocks", blocks_value(number(s.blocks)));
    v.add("groups-used", number(s.groups_used));
    v.add("chunks-used", number(s.chunks_used));
    v.add("reserve-blocks", blocks_value(number(s.reserve_blocks)));
    v.add("epoch", number(s.epoch));
    v.add("free-blocks", blocks_value(number(s.free_blocks)));
    v.add("used-slots", number(s.used_slots));
    v.add("hash-key", Value::word(hex_string(bytes_of(s.hash_key))));
    v.add("nonce-key", Value::word(hex_string(bytes_of(s.nonce_key))));
    v.add("made", time_value(static_cast<std::int64_t>(number(s.made_ns))));
    v.add("mounted", time_value(static_cast<std::int64_t>(number(s.mounted_ns))));
    v.add("checked", time_value(static_cast<std::int64_t>(number(s.checked_ns))));
    v.add("mounts", number(s.mounts));
    v.add("refcount-root", describe_root(s.refcount_root));
    v.add("snapshot-root", describe_root(s.snapshot_root));
    Value quota = Value::array();
    for (const uhsfs_root &root : s.quota_root)
        quota.push(describe_root(root));
    v.add("quota-roots", std::move(quota));
    v.add("label", text_of(s.label));
    v.add("writer", text_of(s.writer));
    v.add("reserved-zero", s.reserved0 == 0 && all_zero(s.reserved1, sizeof(s.reserved1)));
    v.add("segments", number(s.segments));
    v.add("segment", describe_segments(s));
    return v;
}

Value describe(const uhsfs_ext &ext) {
    Value value = Value::object();
    std::string flags;

    if ((ext.flags & UHSFS_EXT_UNWRITTEN) != 0)
        flags = "unwritten";
    if ((ext.flags & UHSFS_EXT_SHARED) != 0)
        flags += flags.empty() ? "shared" : " shared";
    value.add("logical", ext.logical);
    value.add("physical", ext.physical);
    value.add("blocks", ext.len);
    value.add("birth", ext.birth);
    value.add("flags", ext.flags, flags.empty() ? "none" : flags);
    return value;
}

Value describe(const uhsfs_chunk &chunk, std::uint64_t chunk_number) {
    Value value = Value::object();

    value.add("chunk", chunk_number);
    value.add("block", number(chunk.block));
    value.add("in-use", hex_value(number(chunk.in_use)));
    value.add("slots-in-use", std::popcount(number(chunk.in_use)));
    value.add("incarnation", number(chunk.incarnation));
    value.add("generation-base", number(chunk.gen_base));
    value.add("birth", number(chunk.birth));
    value.add("written", hex_value(le16_to_cpu(chunk.written)));
    value.add("reserved-zero",
              chunk.reserved0 == 0 && all_zero(chunk.reserved, sizeof(chunk.reserved)));
    value.add("nonce", hex_value(number(chunk.nonce)));
    return value;
}

Value describe(const uhsfs_table_block &table) {
    Value value = Value::object();
    Value chunks = Value::array();
    const std::uint64_t first = number(table.first_chunk);

    for (unsigned i = 0; i < UHSFS_TABLE_CHUNKS; i++)
        if (!all_zero(&table.chunk[i], sizeof(table.chunk[i])))
            chunks.push(describe(table.chunk[i], first + i));
    value.add("header", describe(table.h));
    value.add("first-chunk", first);
    value.add("reserved", number(table.reserved));
    value.add("chunks", std::move(chunks));
    return value;
}

Value describe(const uhsfs_map_block &map) {
    Value value = Value::object();
    Value runs = Value::array();
    std::uint32_t at = 0;

    value.add("header", describe(map.h));
    value.add("index", number(map.index));
    value.add("epoch", number(map.epoch));
    value.add("set", number(map.set));
    value.add("zone", Value::number(map.zone, zone_word(map.zone)));
    value.add("reserved-zero", all_zero(map.reserved, sizeof(map.reserved)));
    value.add("bits-set", uhsfs_map_count(map.bits, UHSFS_MAP_BITS));
    while ((at = uhsfs_map_next(map.bits, UHSFS_MAP_BITS, at, true)) < UHSFS_MAP_BITS) {
        const std::uint32_t end = uhsfs_map_next(map.bits, UHSFS_MAP_BITS, at, false);
        Value run = Value::object();
        run.add("from", at);
        run.add("bits", end - at);
        runs.push(std::move(run));
        at = end;
    }
    value.add("set-runs", std::move(runs));
    return value;
}

}  // namespace uhsfs
