// SPDX-License-Identifier: GPL-2.0
/*
 * Chunk tables and bit maps. Input: a head, block.
 *
 * What is accepted is encoded to the same bytes; searches in bits say what a look at each bit
 * says; filling and counting agree; a flipped bit is refused.
 */
#include <array>

#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::uint64_t where = 99;

struct Head {
    std::uint8_t geometry;
    std::uint8_t kind;  // 0 table, 1 to 3 maps
    std::uint16_t flip;
    std::uint8_t bit;
    std::uint8_t align;
    std::uint16_t from;
    std::uint16_t bits;
    std::uint16_t want;
    std::uint16_t index;
    std::uint16_t limit;
};

constexpr std::array<std::uint32_t, 4> magics = {UHSFS_TAG_CHUNKS, UHSFS_TAG_BITMAP,
                                                 UHSFS_TAG_INTENT, UHSFS_TAG_SUSPECT};

uhsfs_map_id map_id(const Head &head) {
    return {.kind = static_cast<uhsfs_map_kind>((head.kind & 3) - 1),
            .block = where,
            .index = head.index};
}

int check(const Head &head, const uhsfs_geometry &geo, Block &block, uhsfs_fault *fault) {
    const uhsfs_map_id id = map_id(head);

    if ((head.kind & 3) == 0)
        return uhsfs_table_check(block.as<uhsfs_table_block>(), &geo, where, head.index, head.limit,
                                 fault);
    return uhsfs_map_check(block.as<uhsfs_map_block>(), &geo, &id, fault);
}

void use_table(const Head &head, const uhsfs_geometry &geo, Block &block) {
    const auto *table = block.as<uhsfs_table_block>();
    Block again = {};
    auto *copy = again.as<uhsfs_table_block>();

    copy->h = table->h;
    copy->first_chunk = cpu_to_le64(head.index);
    for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
        uhsfs_chunk_info info = {};
        uhsfs_chunk_decode(&table->chunk[i], &info);
        uhsfs_chunk_encode(&info, &copy->chunk[i]);
        if (info.block == 0)
            continue;
        MUST(head.index + i < head.limit, "chunk {} past {}", head.index + i, head.limit);
        const u64 ino = (u64{head.index} + i + 1) * geo.slots_per_chunk - 1;
        const u64 home = uhsfs_slot_home(&geo, info.block, ino);
        MUST(uhsfs_range_ok(&geo, home, geo.homes), "slot {} at {}", ino, home);
        MUST(uhsfs_slot_offset(&geo, ino) + geo.slot_size <= block_size, "slot {}", ino);
    }
    uhsfs_record_seal(copy, sizeof(*copy));
    MUST(std::memcmp(copy, table, sizeof(*copy)) == 0, "decoding and encoding loses something");
}

u32 slow_next(const u8 *bits, u32 nbits, u32 from, bool set) {
    while (from < nbits && uhsfs_map_test(bits, from) != set)
        from++;
    return std::min(from, std::max(from, nbits));
}

u32 slow_run(const u8 *bits, u32 nbits, u32 from) {
    return slow_next(bits, nbits, from, true) - from;
}

void search(const Head &head, u8 *bits) {
    const u32 nbits = head.bits % (UHSFS_MAP_BITS + 1U);
    const u32 from = nbits != 0 ? head.from % nbits : 0;
    const u32 align = 1U << head.align % 10;
    const u32 want = 1 + head.want % 600U;

    for (const bool set : {false, true})
        MUST(uhsfs_map_next(bits, nbits, from, set) == slow_next(bits, nbits, from, set),
             "next {} from {} of {}", set, from, nbits);
    u32 expected = nbits;
    for (u32 at = round_up(from, align); at < nbits; at += align)
        if (want <= nbits - at && slow_run(bits, at + want, at) == want) {
            expected = at;
            break;
        }
    const u32 found = uhsfs_map_find(bits, nbits, from, want, align);
    MUST(found == expected, "find {} by {} from {} of {}: {}, not {}", want, align, from, nbits,
         found, expected);
    u32 best = 0;
    for (u32 at = from; at < nbits;) {
        const u32 run = slow_run(bits, nbits, at);
        best = std::max(best, run);
        at += run + 1;
    }
    u32 start = 0;
    const u32 longest = uhsfs_map_longest(bits, nbits, from, ~0U, &start);
    MUST(longest == best, "longest from {} of {}: {}, not {}", from, nbits, longest, best);
    MUST(longest == 0 || slow_run(bits, nbits, start) >= longest, "longest starts at {}", start);

    u32 count = 0;
    for (u32 i = 0; i < nbits; i++)
        count += uhsfs_map_test(bits, i) ? 1 : 0;
    MUST(uhsfs_map_count(bits, nbits) == count, "{} bits", count);
    const u32 len = std::min(want, nbits - from);
    const u32 before = uhsfs_map_count(bits, UHSFS_MAP_BITS);
    u32 cleared = 0;
    for (u32 i = from; i < from + len; i++)
        cleared += uhsfs_map_test(bits, i) ? 0 : 1;
    uhsfs_map_fill(bits, from, len, true);
    MUST(uhsfs_map_count(bits, UHSFS_MAP_BITS) == before + cleared, "fill {} from {}", len, from);
}

void use_map(const Head &head, Block &block) {
    auto *map = block.as<uhsfs_map_block>();
    Block again = {};
    auto *copy = again.as<uhsfs_map_block>();

    copy->h = map->h;
    copy->index = cpu_to_le64(head.index);
    copy->epoch = map->epoch;
    copy->zone = map->zone;
    std::memcpy(copy->bits, map->bits, sizeof(copy->bits));
    uhsfs_map_seal(copy);
    MUST(std::memcmp(copy, map, sizeof(*copy)) == 0, "building it again gives another block");
    search(head, map->bits);
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const auto head = reader.get<Head>();
    const uhsfs_geometry geo = geometry(head.geometry);
    Block block = {};
    uhsfs_fault fault = {};

    reader.copy(block.bytes, sizeof(block));
    const int err = check(head, geo, block, &fault);
    if (err != 0) {
        MUST_SAY_WHY(err, fault);
        return;
    }
    Block flipped = block;
    if ((head.kind & 3) == 0)
        use_table(head, geo, block);
    else
        use_map(head, block);
    flipped.bytes[head.flip % sizeof(block)] ^= static_cast<std::uint8_t>(1U << head.bit % 8);
    MUST(check(head, geo, flipped, &fault) == -EUCLEAN, "bit {} of byte {} flipped is accepted",
         head.bit % 8, head.flip % sizeof(block));
}

void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t /*most*/) {
    Reader reader(input);
    auto head = reader.get<Head>();
    Block block = {};

    reader.copy(block.bytes, sizeof(block));
    auto *bytes = reinterpret_cast<std::uint8_t *>(&head);
    for (std::uint64_t n = random.below(3); n > 0; n--)
        bytes[random.below(sizeof(head))] = static_cast<std::uint8_t>(random.next());
    const uhsfs_geometry geo = geometry(head.geometry);
    if (!random.one_in(16))
        identify(geo, block.bytes, magics[head.kind & 3], {.block = where});
    if (random.one_in(8))
        mutate_bytes(block.bytes, sizeof(block));
    else
        mutate_deep(random, geo, block.bytes);
    if (!random.one_in(16)) {
        // Index and first_chunk stand in the same place.
        block.as<uhsfs_map_block>()->index = cpu_to_le64(head.index);
        identify(geo, block.bytes, magics[head.kind & 3], {.block = where});
        if (!random.one_in(4))
            repair_block(random, geo, block.bytes);
    }
    if (!random.one_in(16))
        seal_block(geo, block.bytes);
    input.resize(sizeof(head) + sizeof(block));
    std::memcpy(input.data(), &head, sizeof(head));
    std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
}

void seeds(const SeedSink &sink) {
    static_assert(offsetof(uhsfs_map_block, index) == offsetof(uhsfs_table_block, first_chunk));
    for (std::uint8_t kind = 0; kind < 8; kind++) {
        Head head = {};
        Block block = {};
        head.kind = kind & 3;
        head.geometry = kind / 4;
        head.bits = UHSFS_MAP_BITS;
        head.limit = 40;
        head.want = 3;
        const uhsfs_geometry geo = geometry(head.geometry);
        if (head.kind == 0) {
            auto *table = block.as<uhsfs_table_block>();
            identify(geo, block.bytes, magics[0], {.block = where});
            for (u32 i = 0; i < 2; i++) {
                uhsfs_chunk_info info = {};
                info.block = 200 + u64{i} * 32;
                info.nonce = uhsfs_chunk_nonce(&geo, i, 1);
                info.incarnation = 1;
                info.gen_base = 3;
                info.in_use = 7;
                info.birth = 1;
                info.written = 1;
                uhsfs_chunk_encode(&info, &table->chunk[i]);
            }
            uhsfs_record_seal(table, sizeof(*table));
        } else {
            auto *map = block.as<uhsfs_map_block>();
            identify(geo, block.bytes, magics[head.kind], {.block = where});
            map->epoch = cpu_to_le32(head.kind == 1 ? 0 : 2);
            uhsfs_map_fill(map->bits, 5, 40, true);
            uhsfs_map_fill(map->bits, 700, 3, true);
            uhsfs_map_seal(map);
        }
        std::vector<std::uint8_t> input(sizeof(head) + sizeof(block));
        std::memcpy(input.data(), &head, sizeof(head));
        std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
        sink(fmt::format("{}-{}", kind % 4 == 0 ? "table" : "map", kind), input);
    }
}

}  // namespace uhsfs::fuzz
