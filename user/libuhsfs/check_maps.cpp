// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Superblocks, chunk maps, the chunk table.
 *
 * Whether a torn write may explain a bad copy follows from the intent maps, so they come
 * first. The first write after a checkpoint is one to an intent map: if it is torn, nothing
 * else says that there was a crash. A bad copy of an intent map beside a sound one is
 * therefore never damage by itself.
 */
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "libuhsfs/check_state.hpp"

namespace uhsfs::checking {

// ---- bits of chunks ------------------------------------------------------------------------

void ChunkBits::add(std::uint64_t first, const std::uint8_t *bits) {
    if (uhsfs_map_count(bits, UHSFS_MAP_BITS) == 0)
        return;
    auto &known = blocks_[first];
    if (!known)
        known = std::make_unique<Bits>();
    for (std::size_t i = 0; i < known->size(); i++)
        (*known)[i] |= bits[i];
}

bool ChunkBits::has(const uhsfs_super_info &super, std::uint64_t chunk) const {
    uhsfs_place place = {};

    if (blocks_.empty() || !uhsfs_chunk_map_place(&super, chunk, UHSFS_MAP_WHICH_SUSPECT, &place))
        return false;
    const auto known = blocks_.find(place.first);
    return known != blocks_.end() && uhsfs_map_test(known->second->data(), place.index);
}

std::uint64_t ChunkBits::count() const {
    std::uint64_t sum = 0;

    for (const auto &[first, bits] : blocks_)
        sum += uhsfs_map_count(bits->data(), UHSFS_MAP_BITS);
    return sum;
}

std::vector<std::uint64_t> ChunkBits::chunks() const {
    std::vector<std::uint64_t> all;

    for (const auto &[first, bits] : blocks_)
        for (std::uint32_t i = 0; i < UHSFS_MAP_BITS; i++)
            if (uhsfs_map_test(bits->data(), i))
                all.push_back(first + i);
    std::ranges::sort(all);
    return all;
}

bool Checker::suspect(std::uint64_t ino) const {
    const std::uint64_t chunk = uhsfs_ino_chunk(&geo_, ino);

    return unclean_ || suspects_.has(super_, chunk);
}

// Since the last scrub: a write to a home that no recovery has to look at may have been cut
// off, and its bad copy stays until the home is written again.
bool Checker::crashed() const { return unclean_ || !suspects_.empty() || !suspects_known_; }

bool Checker::marked(std::uint64_t chunk) const { return marked_.has(super_, chunk); }

bool Checker::unused(std::uint64_t number, const uhsfs_chunk_info &chunk) const {
    return marks_known_ && uhsfs_chunk_void(&chunk, super_.epoch, marked(number));
}

// ---- superblocks ---------------------------------------------------------------------------

namespace {

struct SuperField {
    const char *name;
    std::uint64_t a, b;
};

std::uint64_t first_bytes(const std::uint8_t *key) { return uhsfs_get_le64(key); }

// But for their checksums and addresses.
bool same_super(const std::array<std::uint8_t, block_size> &a,
                const std::array<std::uint8_t, block_size> &b) {
    std::array<uhsfs_super, 2> raw = {};

    std::memcpy(raw.data(), a.data(), sizeof(raw[0]));
    std::memcpy(&raw[1], b.data(), sizeof(raw[1]));
    raw[1].crc = raw[0].crc;
    raw[1].block = raw[0].block;
    return std::memcmp(raw.data(), &raw[1], sizeof(raw[0])) == 0;
}

}  // namespace

void Checker::check_supers() {
    constexpr const char *object = "superblock";
    bool both = true;

    for (int i = 0; i < 2; i++) {
        const SuperCopy &copy = volume_.super_copy(i);
        const std::uint64_t place = uhsfs_super_block(&geo_, i);
        uhsfs_fault fault = copy.fault;
        if (copy.code == 0)
            check_seq(object, copy.block, "seq", copy.info.seq);
        if (copy.code == 0 && copy.block == place)
            continue;
        both = false;
        if (copy.code == 0)
            fault = make_fault(object, place, "block", copy.block, place, UHSFS_RULE_EQUAL);
        else if (copy.code != EUCLEAN)
            fault = make_fault(object, copy.block, "read error",
                               static_cast<std::uint64_t>(copy.code), 0, "must be readable");
        const bool torn = unclean_ && copy.code == EUCLEAN;
        (torn ? notes_ : findings_)
            .add(fault, torn ? "may be a write that was cut off" : std::string());
    }
    if (!both)
        return;
    const uhsfs_super_info &now = super_;
    const SuperCopy &other = volume_.super_copy(1 - volume_.super_chosen());
    const uhsfs_super_info &old = other.info;
    if (old.version != now.version) {
        findings_.add(
            make_fault(object, other.block, "version", old.version, now.version, UHSFS_RULE_EQUAL));
        return;
    }
    if (old.seq == now.seq && !same_super(volume_.super_copy(0).raw, volume_.super_copy(1).raw))
        findings_.add(make_fault(object, other.block, "seq", old.seq, now.seq,
                                 "copies of one seq must be the same"));
    const std::array<SuperField, 7> equal = {{
        {"fsid", old.geo.fsid, now.geo.fsid},
        {"slot_size", old.geo.slot_size, now.geo.slot_size},
        {"erase_unit", old.geo.erase_unit, now.geo.erase_unit},
        {"atomic", old.atomic, now.atomic},
        {"made_ns", static_cast<std::uint64_t>(old.made_ns),
         static_cast<std::uint64_t>(now.made_ns)},
        {"hash_key", first_bytes(old.geo.hash_key), first_bytes(now.geo.hash_key)},
        {"nonce_key", first_bytes(old.geo.nonce_key), first_bytes(now.geo.nonce_key)},
    }};
    for (const SuperField &field : equal)
        if (field.a != field.b)
            findings_.add(make_fault(object, other.block, field.name, field.a, field.b,
                                     "must be as in the other copy"));
    if (std::memcmp(old.geo.hash_key, now.geo.hash_key, sizeof(now.geo.hash_key)) != 0 &&
        equal[5].a == equal[5].b)
        findings_.add(
            make_fault(object, other.block, "hash_key", 1, 0, "must be as in the other copy"));
    if (std::memcmp(old.geo.nonce_key, now.geo.nonce_key, sizeof(now.geo.nonce_key)) != 0 &&
        equal[6].a == equal[6].b)
        findings_.add(
            make_fault(object, other.block, "nonce_key", 1, 0, "must be as in the other copy"));
    const std::array<SuperField, 4> at_most = {{
        {"epoch", old.epoch, now.epoch},
        {"mounts", old.mounts, now.mounts},
        {"blocks", old.geo.blocks, now.geo.blocks},
        {"segments", old.segments, now.segments},
    }};
    for (const SuperField &field : at_most)
        if (field.a > field.b)
            findings_.add(make_fault(object, other.block, field.name, field.a, field.b,
                                     "of the older copy must not be larger"));
}

// ---- maps ----------------------------------------------------------------------------------

void Checker::read_map(std::uint64_t chunk, unsigned which) {
    const bool is_suspect = which == UHSFS_MAP_WHICH_SUSPECT;
    const char *object = is_suspect ? "suspect map" : "intent map";
    const auto map = volume_.chunk_map(chunk, which);

    if (!map)
        return;  // chunk is of a segment
    check_home(map->home, object, is_suspect ? crashed() : true);
    if (!*map) {
        (is_suspect ? suspects_known_ : marks_known_) = false;
        return;
    }
    const uhsfs_map_block &block = *map->record;
    const std::uint32_t epoch = le32_to_cpu(block.epoch);
    uhsfs_fault fault = {};
    if (uhsfs_chunk_map_check(&block, &super_, which, chunk, &fault) != 0)
        findings_.add(fault);
    check_seq(object, map->home.chosen_block(), "seq", le64_to_cpu(block.h.seq));
    if (is_suspect) {
        suspects_.add(chunk, block.bits);
        return;
    }
    if (!uhsfs_map_live(&block, super_.epoch))
        return;
    newest_epoch_ = std::max(newest_epoch_, epoch);
    marked_.add(chunk, block.bits);
}

void Checker::read_maps() {
    newest_epoch_ = super_.epoch + 1;
    const auto each = [&](unsigned which) {
        for (unsigned i = 0; i < super_.segments; i++) {
            const uhsfs_segment_info &segment = super_.segment[i];
            for (std::uint64_t n = 0; n < segment.chunks && !stop(); n += UHSFS_MAP_BITS)
                read_map(segment.first_chunk + n, which);
        }
    };

    each(0);
    each(1);
    unclean_ = !marked_.empty();
    each(UHSFS_MAP_WHICH_SUSPECT);
    report_.recovery.needed = unclean_;
    report_.recovery.epoch = newest_epoch_;
    report_.recovery.chunks = marked_.count();
}

// ---- the chunk table -----------------------------------------------------------------------

void Checker::each_table(const std::function<void(std::uint64_t first, unsigned segment)> &each) {
    const auto marks = marked_.chunks();

    for (unsigned i = 0; i < super_.segments; i++) {
        const uhsfs_segment_info &segment = super_.segment[i];
        for (std::uint64_t n = 0; n < segment.chunks && !stop(); n += UHSFS_TABLE_CHUNKS) {
            const std::uint64_t first = segment.first_chunk + n;
            if (first >= super_.chunks_used) {
                // Made since the last checkpoint, if marked.
                const auto next = std::ranges::lower_bound(marks, first);
                if (next == marks.end())
                    return;
                if (*next - segment.first_chunk >= segment.chunks)
                    break;
                n = (*next - segment.first_chunk) / UHSFS_TABLE_CHUNKS * UHSFS_TABLE_CHUNKS;
            }
            each(segment.first_chunk + n, i);
        }
    }
}

void Checker::read_table(std::uint64_t first, unsigned segment) {
    const auto table = volume_.table_block(first);
    const uhsfs_segment_info &info = super_.segment[segment];
    const std::uint64_t count =
        std::min<std::uint64_t>(UHSFS_TABLE_CHUNKS, info.first_chunk + info.chunks - first);

    if (!table)
        return;
    check_home(table->home, "chunk table", crashed());
    if (!*table) {
        unreadable_.add(first * geo_.slots_per_chunk, count * geo_.slots_per_chunk);
        incomplete_ = true;
        tables_known_ = false;
        return;
    }
    check_seq("chunk table", table->home.chosen_block(), "seq", le64_to_cpu(table->record->h.seq));
    for (std::uint64_t i = 0; i < count; i++) {
        const std::uint64_t number = first + i;
        uhsfs_chunk_info chunk = {};
        uhsfs_chunk_decode(&table->record->chunk[i], &chunk);
        const bool made = marked(number);
        if (chunk.birth > newest())
            findings_.add(make_fault("chunk", number, "birth", chunk.birth, newest(),
                                     "must not be of a newer epoch than the superblock's seq"));
        if (unused(number, chunk)) {
            notes_.add(make_fault("chunk", number, "birth", chunk.birth, super_.epoch,
                                  "was made after the checkpoint and never used"));
            continue;
        }
        if (number >= super_.chunks_used && !made && (chunk.block != 0 || chunk.incarnation != 0)) {
            findings_.add(make_fault("chunk", number, "descriptor", number, super_.chunks_used,
                                     "must be empty from chunks_used of the superblock on"));
            continue;
        }
        if (chunk.block == 0)
            continue;
        chunks_made_++;
        in_use_slots_ += static_cast<std::uint64_t>(std::popcount(chunk.in_use));
        own({.kind = BlockOwner::chunk, .id = number}, chunk.block, uhsfs_chunk_blocks(&geo_),
            made);
        if (first >= super_.chunks_used)
            late_.push_back({number, chunk});
    }
}

void Checker::own_fixed(const OwnFunction &each) {
    for (const std::uint64_t block : {std::uint64_t{0}, std::uint64_t{UHSFS_SB_BLOCK},
                                      std::uint64_t{uhsfs_super_block(&geo_, 1)}})
        each({.kind = BlockOwner::super, .id = 0}, block, 1);
    for (std::uint64_t group = 0; group < super_.groups_used; group++)
        each({.kind = BlockOwner::bitmap, .id = group}, uhsfs_bitmap_home(&geo_, group, 0),
             UHSFS_GROUP_MAPS * std::uint64_t{geo_.homes});
    for (unsigned i = 0; i < super_.segments; i++) {
        const uhsfs_segment_info &segment = super_.segment[i];
        const std::uint64_t table = geo_.homes * DIV_ROUND_UP(segment.chunks, UHSFS_TABLE_CHUNKS);
        const std::uint64_t map = geo_.homes * DIV_ROUND_UP(segment.chunks, UHSFS_MAP_BITS);
        each({.kind = BlockOwner::table, .id = i}, segment.table, table);
        for (const std::uint64_t start : {segment.intent[0], segment.intent[1], segment.suspect})
            each({.kind = BlockOwner::map, .id = i}, start, map);
    }
}

void Checker::read_tables() {
    own_fixed([&](const BlockOwner &owner, std::uint64_t block, std::uint64_t count) {
        own(owner, block, count, false);
    });
    each_table([&](std::uint64_t first, unsigned segment) { read_table(first, segment); });
}

void Checker::each_chunk(const OwnFunction &each) {
    each_table([&](std::uint64_t first, unsigned) {
        const auto table = volume_.table_block(first);
        if (!table || !*table)
            return;
        for (std::uint64_t i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
            uhsfs_chunk_info chunk = {};
            uhsfs_chunk_decode(&table->record->chunk[i], &chunk);
            if (chunk.block != 0 && (first + i < super_.chunks_used || marked(first + i)) &&
                !unused(first + i, chunk))
                each({.kind = BlockOwner::chunk, .id = first + i}, chunk.block,
                     uhsfs_chunk_blocks(&geo_));
        }
    });
}

}  // namespace uhsfs::checking
