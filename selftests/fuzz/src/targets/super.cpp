// SPDX-License-Identifier: GPL-2.0
/*
 * Superblocks. Input: block number (8 bytes), block.
 *
 * What is accepted is encoded to the same bytes, and every chunk's place that it gives lies
 * within the device. A byte changed afterwards is refused.
 */
#include "libuhsfs/layout.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

void place_of(const uhsfs_super_info &info, std::uint64_t chunk) {
    uhsfs_place place = {};
    const bool inside = uhsfs_chunk_table_place(&info, chunk, &place);

    MUST(inside == (chunk < uhsfs_super_chunks(&info)), "chunk {}", chunk);
    MUST(inside == (uhsfs_super_segment(&info, chunk) != nullptr), "chunk {}", chunk);
    if (!inside)
        return;
    MUST(uhsfs_range_ok(&info.geo, place.home, info.geo.homes), "chunk {} at {}", chunk,
         place.home);
    MUST(place.index < UHSFS_TABLE_CHUNKS && place.first + place.index == chunk, "chunk {}", chunk);
    for (unsigned which = 0; which <= UHSFS_MAP_WHICH_SUSPECT; which++) {
        MUST(uhsfs_chunk_map_place(&info, chunk, which, &place), "chunk {} map {}", chunk, which);
        MUST(uhsfs_range_ok(&info.geo, place.home, info.geo.homes), "chunk {} map {} at {}", chunk,
             which, place.home);
        MUST(place.index < UHSFS_MAP_BITS && place.first + place.index == chunk, "chunk {}", chunk);
    }
}

void use(const uhsfs_super_info &info, const Block &raw, std::uint64_t block) {
    Block again = {};
    u64 unknown = 0;

    uhsfs_super_encode(&info, block, again.as<uhsfs_super>());
    // Nobody writes what has features that only allow to read; these may use reserved fields.
    if (uhsfs_super_access(&info, &unknown) == UHSFS_ACCESS_WRITE)
        MUST(std::memcmp(&again, &raw, sizeof(raw)) == 0, "decoding and encoding loses something");
    MUST(uhsfs_group_count(&info.geo) >= 1, "groups");
    MUST(std::strlen(info.label) <= UHSFS_LABEL_LEN, "label");
    MUST(uhsfs_super_block(&info.geo, 1) < info.geo.blocks, "copy 1");
    for (std::uint32_t i = 0; i < info.segments; i++) {
        place_of(info, info.segment[i].first_chunk);
        place_of(info, info.segment[i].first_chunk + info.segment[i].chunks - 1);
    }
    place_of(info, info.chunks_used - 1);
    place_of(info, uhsfs_super_chunks(&info));
    place_of(info, ~0ULL);
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const auto block = reader.get<std::uint64_t>();
    Block raw = {};
    uhsfs_super_info info = {};
    uhsfs_fault fault = {};
    u64 unknown = 0;

    reader.copy(raw.bytes, sizeof(raw));
    const int err = uhsfs_super_decode(raw.as<uhsfs_super>(), block, &info, &fault);
    MUST(err == uhsfs_super_decode(raw.as<uhsfs_super>(), block, &info, nullptr), "without fault");
    if (err != 0) {
        MUST_SAY_WHY(err, fault);
        return;
    }
    MUST(uhsfs_super_recognise(&raw), "accepted, but not recognised");
    const uhsfs_access access = uhsfs_super_access(&info, &unknown);
    MUST(info.version == UHSFS_FORMAT_VERSION || access == UHSFS_ACCESS_NONE,
         "version {} may be used", info.version);
    MUST(unknown == 0 || access != UHSFS_ACCESS_WRITE, "access {} unknown {:#x}",
         static_cast<int>(access), unknown);
    // Of what may not be used no more than version and features is decoded.
    if (access == UHSFS_ACCESS_NONE)
        return;
    use(info, raw, block);
    // Any other byte is seen by the checksum.
    raw.bytes[info.seq % sizeof(raw)] ^= static_cast<std::uint8_t>(1U << info.mounts % 8);
    MUST(uhsfs_super_decode(raw.as<uhsfs_super>(), block, &info, &fault) == -EUCLEAN,
         "a flipped bit is accepted");
}

void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t /*most*/) {
    Reader reader(input);
    auto block = reader.get<std::uint64_t>();
    Block raw = {};
    const uhsfs_geometry geo = geometry(0);

    reader.copy(raw.bytes, sizeof(raw));
    if (random.one_in(8))
        mutate_bytes(raw.bytes, sizeof(raw));
    else
        mutate_deep(random, geo, raw.bytes);
    if (!random.one_in(8))
        std::memcpy(raw.bytes, UHSFS_SB_MAGIC, 8);
    if (random.one_in(32))
        block = interesting(random, geo, block);
    if (!random.one_in(16))
        raw.as<uhsfs_super>()->block = cpu_to_le64(block);
    if (!random.one_in(16))
        seal_block(geo, raw.bytes);
    input.resize(sizeof(block) + sizeof(raw));
    std::memcpy(input.data(), &block, sizeof(block));
    std::memcpy(input.data() + sizeof(block), raw.bytes, sizeof(raw));
}

void seeds(const SeedSink &sink) {
    const KeySource keys = KeySource::repeatable({1}, 1);
    int number = 0;

    for (const std::uint64_t blocks : {1024ULL, 40000ULL, 1ULL << 28})
        for (const bool shadow : {false, true}) {
            auto info = make_layout({.blocks = blocks,
                                     .slot_size = shadow ? 4096U : 1024U,
                                     .shadow = shadow,
                                     .uuid = {1},
                                     .label = "seed",
                                     .writer = "fuzz",
                                     .now_ns = 1},
                                    keys);
            MUST(info.has_value(), "{}", info.error().to_string());
            const std::uint64_t block = uhsfs_super_block(&info->geo, shadow ? 1 : 0);
            std::vector<std::uint8_t> input(sizeof(block) + block_size);
            Block raw = {};
            info->groups_used = info->chunks_used = info->epoch = 1;
            info->seq = uhsfs_seq_make(1, 1);
            uhsfs_super_encode(&*info, block, raw.as<uhsfs_super>());
            std::memcpy(input.data(), &block, sizeof(block));
            std::memcpy(input.data() + sizeof(block), raw.bytes, sizeof(raw));
            sink(fmt::format("layout-{}", number++), input);
        }
}

}  // namespace uhsfs::fuzz
