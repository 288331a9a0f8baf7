// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/layout.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace uhsfs {

// ---- keys ----------------------------------------------------------------------------------

namespace {

enum Purpose : std::uint64_t { fsid = 1, hash_key, nonce_key };

}  // namespace

Result<KeySource> KeySource::random() {
    KeySource keys;

    if (::getrandom(keys.seed_.data(), keys.seed_.size(), 0) !=
        static_cast<ssize_t>(keys.seed_.size()))
        return fail_errno("random numbers", "cannot get them from the kernel");
    return keys;
}

KeySource KeySource::repeatable(const Uuid &uuid, std::int64_t now_ns) {
    KeySource keys;

    for (std::uint64_t half = 0; half < 2; half++) {
        const std::array<std::uint64_t, 2> message = {static_cast<std::uint64_t>(now_ns), half};
        const std::uint64_t hash = uhsfs_siphash(uuid.data(), message.data(), sizeof(message));
        std::memcpy(keys.seed_.data() + half * sizeof(hash), &hash, sizeof(hash));
    }
    return keys;
}

std::uint64_t KeySource::number(std::uint64_t purpose) const {
    return uhsfs_siphash(seed_.data(), &purpose, sizeof(purpose));
}

void KeySource::fill(std::uint64_t purpose, std::uint8_t *to, std::size_t len) const {
    for (std::uint64_t i = 0; len > 0; i++) {
        const std::array<std::uint64_t, 2> message = {purpose, i};
        const std::uint64_t hash = uhsfs_siphash(seed_.data(), message.data(), sizeof(message));
        const std::size_t n = std::min(len, sizeof(hash));
        std::memcpy(to, &hash, n);
        to += n;
        len -= n;
    }
}

// ---- segments ------------------------------------------------------------------------------

std::uint64_t segment_blocks(const uhsfs_geometry &geo, std::uint64_t chunks) {
    constexpr std::uint64_t maps = 3;

    return geo.homes *
           (DIV_ROUND_UP(chunks, UHSFS_TABLE_CHUNKS) + maps * DIV_ROUND_UP(chunks, UHSFS_MAP_BITS));
}

uhsfs_segment_info place_segment(const uhsfs_geometry &geo, std::uint64_t block,
                                 std::uint64_t first_chunk, std::uint64_t chunks) {
    const std::uint64_t map = geo.homes * DIV_ROUND_UP(chunks, UHSFS_MAP_BITS);

    return {.first_chunk = first_chunk,
            .chunks = chunks,
            .table = block + 3 * map,
            .intent = {block, block + map},
            .suspect = block + 2 * map};
}

std::uint64_t segment_capacity(const uhsfs_geometry &geo, std::uint64_t blocks) {
    std::uint64_t tables = blocks / geo.homes;

    while (tables > 0 && segment_blocks(geo, tables * UHSFS_TABLE_CHUNKS) > blocks)
        tables--;
    return tables * UHSFS_TABLE_CHUNKS;
}

// ---- the layout ----------------------------------------------------------------------------

namespace {

constexpr std::uint64_t bytes_per_inode = 16384;
// Of UHSFS_MAX_SEGMENTS; the others are for growing.
constexpr unsigned first_segments = UHSFS_MAX_SEGMENTS / 2;

Result<void> check_options(const LayoutOptions &options) {
    if (options.blocks < UHSFS_MIN_BLOCKS)
        return fail(EINVAL, fmt::format("{} blocks", options.blocks),
                    fmt::format("too small: a uhsfs filesystem has at least {} blocks of {} bytes",
                                UHSFS_MIN_BLOCKS, UHSFS_BLOCK_SIZE),
                    "use a larger device or image");
    if (options.blocks > UHSFS_MAX_BLOCKS)
        return fail(EFBIG, fmt::format("{} blocks", options.blocks),
                    fmt::format("too large: a uhsfs filesystem has at most {} blocks of {} bytes",
                                UHSFS_MAX_BLOCKS, UHSFS_BLOCK_SIZE),
                    "give the number of blocks to use");
    if (options.slot_size != 1024 && options.slot_size != 2048 && options.slot_size != 4096)
        return fail(EINVAL, fmt::format("slot size {}", options.slot_size),
                    "must be 1024, 2048 or 4096 bytes");
    if (options.erase_unit < UHSFS_ERASE_UNIT_MIN || options.erase_unit > UHSFS_ERASE_UNIT_MAX ||
        !std::has_single_bit(options.erase_unit))
        return fail(EINVAL,
                    fmt::format("erase unit of {} bytes",
                                std::uint64_t{options.erase_unit} * UHSFS_BLOCK_SIZE),
                    fmt::format("must be a power of two from {} to {} bytes",
                                UHSFS_ERASE_UNIT_MIN * UHSFS_BLOCK_SIZE,
                                UHSFS_ERASE_UNIT_MAX * UHSFS_BLOCK_SIZE));
    if (options.label.size() > UHSFS_LABEL_LEN)
        return fail(EINVAL, fmt::format("label '{}'", options.label),
                    fmt::format("is {} bytes long, at most {} are possible", options.label.size(),
                                UHSFS_LABEL_LEN));
    if (options.label.find('\0') != std::string::npos)
        return fail(EINVAL, "label", "must not contain a NUL");
    return {};
}

// Free blocks of an empty group, as [first, first + count).
std::pair<std::uint64_t, std::uint64_t> group_space(const uhsfs_geometry &geo,
                                                    std::uint64_t group) {
    const std::uint64_t lead = UHSFS_BITMAP_OFFSET + UHSFS_GROUP_MAPS * std::uint64_t{geo.homes};
    // The second superblock is the end of the first group, or stands in it.
    const std::uint64_t end =
        group == 0 ? uhsfs_super_block(&geo, 1) : uhsfs_group_blocks(&geo, group);

    return {group * UHSFS_GROUP_BLOCKS + lead, end - lead};
}

// As many segments as one inode per 16 KiB takes, if there is room for so many.
void place_segments(uhsfs_super_info &info) {
    const uhsfs_geometry &geo = info.geo;
    const std::uint64_t inodes = geo.blocks * UHSFS_BLOCK_SIZE / bytes_per_inode;
    const std::uint64_t wanted = DIV_ROUND_UP(inodes, geo.slots_per_chunk);
    std::uint64_t left = DIV_ROUND_UP(wanted, UHSFS_TABLE_CHUNKS) * UHSFS_TABLE_CHUNKS;
    std::uint64_t next = 0;

    for (std::uint64_t group = 0;
         left > 0 && group < uhsfs_group_count(&geo) && info.segments < first_segments; group++) {
        const auto [first, count] = group_space(geo, group);
        const std::uint64_t chunks = std::min(left, segment_capacity(geo, count));
        info.segment[info.segments++] = place_segment(geo, first, next, chunks);
        next += chunks;
        left -= chunks;
    }
}

}  // namespace

Result<uhsfs_super_info> make_layout(const LayoutOptions &options, const KeySource &keys) {
    constexpr std::uint64_t reserve_least = 32;
    constexpr std::uint64_t reserve_most = 4096;
    constexpr std::uint64_t reserve_part = 64;
    uhsfs_super_info info = {};

    UHSFS_TRY(check_options(options));
    const std::uint64_t rest = options.blocks % UHSFS_GROUP_BLOCKS;
    const bool short_group = options.blocks > UHSFS_GROUP_BLOCKS && rest < UHSFS_MIN_LAST_GROUP;
    info.geo.blocks = short_group ? options.blocks - rest : options.blocks;
    info.geo.fsid = keys.number(fsid);
    info.geo.homes = options.shadow ? 2 : 1;
    info.geo.slot_size = options.slot_size;
    info.geo.slots_per_block = UHSFS_BLOCK_SIZE / options.slot_size;
    info.geo.slots_per_chunk = info.geo.slots_per_block * UHSFS_CHUNK_BLOCKS;
    info.geo.erase_unit = options.erase_unit;
    keys.fill(hash_key, info.geo.hash_key, sizeof(info.geo.hash_key));
    keys.fill(nonce_key, info.geo.nonce_key, sizeof(info.geo.nonce_key));
    std::ranges::copy(options.uuid, info.uuid);
    options.label.copy(info.label, UHSFS_LABEL_LEN);
    options.writer.copy(info.writer, sizeof(info.writer) - 1);
    info.version = UHSFS_FORMAT_VERSION;
    info.incompat = UHSFS_INCOMPAT_EXPERIMENTAL;
    info.atomic = options.shadow ? UHSFS_ATOMIC_SHADOW : UHSFS_ATOMIC_DEVICE;
    info.errors = UHSFS_ERRORS_REMOUNT_RO;
    info.reserve_blocks =
        std::clamp<std::uint64_t>(info.geo.blocks / reserve_part, reserve_least, reserve_most);
    info.made_ns = options.now_ns;
    info.epoch = first_epoch;
    info.seq = uhsfs_seq_make(first_epoch, 0);
    place_segments(info);
    return info;
}

}  // namespace uhsfs
