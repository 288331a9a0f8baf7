// SPDX-License-Identifier: GPL-2.0
/*
 * Slot blocks. Input: geometry (1 byte), byte and bit to flip (2 + 1), 4 bytes unused, block.
 * The block stands in place 4096 * 3 of the chunk with the nonce below.
 *
 * What is accepted is built again from its view, byte by byte; all values in it can be used
 * without another check; a flipped bit is refused.
 */
#include <algorithm>
#include <array>

#include "libuhsfs/volume.hpp"
#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::uint64_t where = 777;
constexpr std::uint64_t nonce = 0x5eed5eed5eedULL;

struct Head {
    std::uint8_t geometry;
    std::uint8_t bit;
    std::uint16_t flip;
    std::uint8_t root;  // 1: the first slot is the root's
    std::uint8_t reserved[3];
};

std::uint64_t first_ino(const Head &head, const uhsfs_geometry &geo) {
    return head.root != 0 ? 0 : geo.slots_per_chunk;
}

// Every accessor of what a view holds.
void use_values(const uhsfs_geometry &geo, const uhsfs_slot_view &view) {
    const u64 ino = view.attr.ino;
    const bool dir = uhsfs_is_dir(view.attr.mode);

    if (const auto *raw = static_cast<const uhsfs_name *>(view.value[UHSFS_TLV_NAME])) {
        uhsfs_claim claim = {};
        std::vector<std::uint8_t> again(view.len[UHSFS_TLV_NAME]);
        uhsfs_name_decode(raw, &claim);
        MUST(uhsfs_name_legal(claim.name, claim.len), "name of {} bytes", claim.len);
        MUST(again.size() == sizeof(*raw) + claim.len, "name of {} bytes", claim.len);
        uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(again.data()));
        MUST(std::memcmp(again.data(), raw, again.size()) == 0, "a name is lost");
        (void)uhsfs_names_key(&geo, &claim);
    }
    if (dir) {
        uhsfs_dir_info info = {};
        uhsfs_dir_root again = {};
        MUST(uhsfs_dir_root_decode(view.value[UHSFS_TLV_DIR], view.len[UHSFS_TLV_DIR], ino, &info,
                                   nullptr) == 0,
             "directory root");
        uhsfs_dir_root_encode(&again, &info);
        MUST(std::memcmp(&again, view.value[UHSFS_TLV_DIR], sizeof(again)) == 0, "directory root");
        MUST(info.buckets >= 1 && info.buckets <= UHSFS_DIR_MAX_BUCKETS, "{}", info.buckets);
    }
    if (const void *value = view.value[UHSFS_TLV_EXTENTS]) {
        const u32 count = view.len[UHSFS_TLV_EXTENTS] / sizeof(uhsfs_extent);
        std::vector<uhsfs_extent> extents(count + 2);
        uhsfs_extent_list list = {.extent = extents.data(),
                                  .count = count,
                                  .capacity = count + 2,
                                  .scale = dir ? geo.homes : 1,
                                  .snapshot = geo.snapshot};
        u64 end = 0;
        std::memcpy(extents.data(), value, count * sizeof(uhsfs_extent));
        for (u32 i = 0; i < count; i++) {
            uhsfs_ext ext = {};
            uhsfs_extent again = {};
            uhsfs_extent_decode(&extents[i], &ext);
            uhsfs_extent_encode(&ext, &again);
            MUST(std::memcmp(&again, &extents[i], sizeof(again)) == 0, "extent {}", i);
            MUST(ext.len != 0 && ext.logical >= end, "extent {} at {}", i, ext.logical);
            MUST(uhsfs_space_ok(&geo, ext.physical, u64{ext.len} * list.scale), "extent {}", i);
            end = uhsfs_ext_end(&ext);
            uhsfs_ext found = {};
            u64 len = 0;
            MUST(uhsfs_list_lookup(&list, ext.logical, &found, &len) && len == ext.len,
                 "extent {} is not found", i);
        }
        MUST(uhsfs_list_truncate(&list, 0, nullptr) == 0 && list.count == 0, "truncate");
    }
    if (view.value[UHSFS_TLV_XATTRS] != nullptr) {
        uhsfs_xattr_item item = {};
        u32 at = 0;
        while (uhsfs_xattr_next(view.value[UHSFS_TLV_XATTRS], view.len[UHSFS_TLV_XATTRS], &at,
                                &item)) {
            uhsfs_xattr_item found = {};
            MUST(uhsfs_xattr_name_ok(item.space, item.name, item.name_len), "attribute");
            MUST(uhsfs_xattr_find(view.value[UHSFS_TLV_XATTRS], view.len[UHSFS_TLV_XATTRS],
                                  item.space, item.name, item.name_len, &found) == 0 &&
                     found.value == item.value,
                 "an attribute is not found");
        }
        MUST(at == view.len[UHSFS_TLV_XATTRS], "attributes end at {}", at);
    }
    if (view.value[UHSFS_TLV_XATTR_ROOT] != nullptr) {
        uhsfs_xattr_place place = {};
        uhsfs_xattr_root again = {};
        MUST(uhsfs_xattr_root_decode(view.value[UHSFS_TLV_XATTR_ROOT],
                                     view.len[UHSFS_TLV_XATTR_ROOT], &geo, ino, &place,
                                     nullptr) == 0,
             "attribute root");
        uhsfs_xattr_root_encode(&again, place.block, place.bytes);
        MUST(std::memcmp(&again, view.value[UHSFS_TLV_XATTR_ROOT], sizeof(again)) == 0,
             "attribute root");
    }
}

void build_again(const uhsfs_geometry &geo, const uhsfs_slot_view &view, std::uint8_t *to) {
    uhsfs_slot_builder builder = {};

    if (view.attr.state == UHSFS_SLOT_FREE) {
        uhsfs_slot_build_free(&geo, to, view.attr.ino, view.attr.generation, view.attr.name_seq_max,
                              view.attr.nonce, view.attr.seq);
        return;
    }
    uhsfs_slot_begin(&builder, &geo, to, &view.attr);
    for (u16 type = 1; type < UHSFS_TLV_TYPES; type++)
        if (view.value[type] != nullptr)
            MUST(uhsfs_slot_put(&builder, type, view.value[type], view.len[type]) == 0,
                 "record {} does not fit", type);
    uhsfs_slot_finish(&builder);
}

// Slots by themselves, where the block as a whole may be refused.
bool parse_each(const uhsfs_geometry &geo, const Block &block, std::uint64_t first) {
    bool all = true;

    for (u32 i = 0; i < geo.slots_per_block; i++) {
        const uhsfs_slot_id id = {.ino = first + i, .block = where, .nonce = nonce};
        const std::uint8_t *slot = block.bytes + std::size_t{i} * geo.slot_size;
        uhsfs_slot_view view = {};
        uhsfs_fault fault = {};
        const int err = uhsfs_slot_parse(&geo, slot, &id, &view, &fault);
        const auto inode = Inode::parse(geo, slot, id, "fuzz");
        MUST(inode.has_value() == (err == 0), "Inode::parse() and the core differ");
        if (err != 0) {
            MUST_SAY_WHY(err, fault);
            all = false;
            continue;
        }
        MUST(view.attr.ino == first + i, "inode {}", view.attr.ino);
        if (view.attr.state == UHSFS_SLOT_INODE)
            use_values(geo, view);
    }
    return all;
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const auto head = reader.get<Head>();
    const uhsfs_geometry geo = geometry(head.geometry);
    const std::uint64_t first = first_ino(head, geo);
    Block block = {};
    Block again = {};
    Copy copy;

    reader.copy(block.bytes, sizeof(block));
    const bool all = parse_each(geo, block, first);
    const int err = check_slot_block(geo, block.bytes, where, first, nonce, copy);
    if (err != 0) {
        MUST_SAY_WHY(err, copy.fault);
        return;
    }
    MUST(all, "the block is accepted, a slot of it is not");
    for (u32 i = 0; i < geo.slots_per_block; i++) {
        const std::size_t at = std::size_t{i} * geo.slot_size;
        const uhsfs_slot_id id = {.ino = first + i, .block = where, .nonce = nonce};
        uhsfs_slot_view view = {};
        MUST(uhsfs_slot_parse(&geo, block.bytes + at, &id, &view, nullptr) == 0, "slot {}", i);
        MUST(le64_to_cpu(view.raw->block_seq) == copy.seq, "slot {}", i);
        build_again(geo, view, again.bytes + at);
        auto *built = reinterpret_cast<uhsfs_slot *>(again.bytes + at);
        built->h.block = cpu_to_le64(where);
        built->h.flags = view.raw->h.flags;
        built->block_seq = cpu_to_le64(copy.seq);
    }
    seal_block(geo, again.bytes);
    MUST(std::memcmp(&again, &block, sizeof(block)) == 0, "parsing and building loses something");
    block.bytes[head.flip % sizeof(block)] ^= static_cast<std::uint8_t>(1U << head.bit % 8);
    MUST(check_slot_block(geo, block.bytes, where, first, nonce, copy) == -EUCLEAN,
         "bit {} of byte {} flipped is accepted", head.bit % 8, head.flip % sizeof(block));
}

void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t /*most*/) {
    Reader reader(input);
    auto head = reader.get<Head>();
    Block block = {};

    reader.copy(block.bytes, sizeof(block));
    if (random.one_in(16))
        head.geometry ^= static_cast<std::uint8_t>(1U << random.below(3));
    if (random.one_in(16))
        head.root ^= 1;
    head.flip = static_cast<std::uint16_t>(random.next());
    head.bit = static_cast<std::uint8_t>(random.next());
    const uhsfs_geometry geo = geometry(head.geometry);
    if (random.one_in(8))
        mutate_bytes(block.bytes, sizeof(block));
    else
        mutate_deep(random, geo, block.bytes);
    const u64 first = first_ino(head, geo);
    const bool one_seq = !random.one_in(8);
    for (u32 i = 0; i < geo.slots_per_block && !random.one_in(32); i++) {
        auto *raw = reinterpret_cast<uhsfs_slot *>(block.bytes + std::size_t{i} * geo.slot_size);
        const auto *lead = block.as<uhsfs_slot>();
        identify(
            geo, reinterpret_cast<std::uint8_t *>(raw), UHSFS_TAG_SLOT,
            {.block = where, .owner_ino = first + i, .owner_gen = le32_to_cpu(raw->h.owner_gen)});
        raw->nonce = cpu_to_le64(nonce);
        if (one_seq) {
            raw->block_seq = lead->block_seq;
            raw->h.flags = lead->h.flags;
            raw->h.seq =
                cpu_to_le64(std::min(le64_to_cpu(raw->h.seq), le64_to_cpu(lead->block_seq)));
        }
        if (raw->state == 0)
            raw->state = UHSFS_SLOT_FREE;
    }
    if (!random.one_in(16))
        seal_block(geo, block.bytes);
    input.resize(sizeof(head) + sizeof(block));
    std::memcpy(input.data(), &head, sizeof(head));
    std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
}

void seeds(const SeedSink &sink) {
    Random random(1);

    // Slots that grow by accepted changes: some of each kind.
    for (int number = 0; number < 12; number++) {
        Head head = {};
        head.geometry = static_cast<std::uint8_t>(number % 6);
        const uhsfs_geometry geo = geometry(head.geometry);
        constexpr std::array<u16, 6> modes = {0100644, 0040755, 0120777, 0020600, 0010600, 0100600};
        Block block = {};
        for (u32 i = 0; i < geo.slots_per_block; i++) {
            std::uint8_t *slot = block.bytes + std::size_t{i} * geo.slot_size;
            uhsfs_attr attr = {};
            attr.ino = first_ino(head, geo) + i;
            attr.generation = 1;
            attr.nonce = nonce;
            attr.seq = 9;
            attr.name_seq_max = 1000;
            attr.state = UHSFS_SLOT_INODE;
            attr.mode = modes[static_cast<std::size_t>(number + static_cast<int>(i)) % 6];
            if (i == 3) {
                uhsfs_slot_build_free(&geo, slot, attr.ino, 1, 5, nonce, 9);
                continue;
            }
            uhsfs_slot_builder b = {};
            uhsfs_slot_begin(&b, &geo, slot, &attr);
            const std::string name = "file";
            const uhsfs_claim claim = {.parent_ino = 1,
                                       .parent_gen = 1,
                                       .len = 4,
                                       .name_seq = 7,
                                       .name = reinterpret_cast<const u8 *>(name.data())};
            auto *value = uhsfs_slot_reserve(&b, UHSFS_TLV_NAME,
                                             static_cast<u32>(sizeof(uhsfs_name)) + claim.len);
            uhsfs_name_encode(&claim, static_cast<uhsfs_name *>(value));
            if (uhsfs_is_dir(attr.mode)) {
                uhsfs_dir_info info = {};
                uhsfs_dir_root root = {};
                uhsfs_dir_info_init(&info);
                uhsfs_dir_root_encode(&root, &info);
                uhsfs_slot_put(&b, UHSFS_TLV_DIR, &root, sizeof(root));
            }
            if (attr.mode == 0020600) {
                const uhsfs_device device = {.major = cpu_to_le32(1), .minor = cpu_to_le32(3)};
                uhsfs_slot_put(&b, UHSFS_TLV_DEVICE, &device, sizeof(device));
            }
            if (number % 2 == 0) {
                const auto stream = random_xattrs(random, 200);
                uhsfs_slot_put(&b, UHSFS_TLV_XATTRS, stream.data(),
                               static_cast<u32>(stream.size()));
            }
            const bool dir = uhsfs_is_dir(attr.mode);
            if (dir || attr.mode == 0100644) {
                const uhsfs_ext ext = {
                    .logical = 0, .physical = 1000 + i * 2, .len = 1, .birth = 1, .flags = 0};
                uhsfs_extent extent = {};
                uhsfs_extent_encode(&ext, &extent);
                uhsfs_slot_put(&b, UHSFS_TLV_EXTENTS, &extent, sizeof(extent));
            } else if (uhsfs_is_lnk(attr.mode) || attr.mode == 0100600) {
                uhsfs_slot_put(&b, UHSFS_TLV_INLINE, "inline", 6);
            }
            uhsfs_slot_finish(&b);
            repair_slot(random, geo, slot);
        }
        for (u32 i = 0; i < geo.slots_per_block; i++) {
            auto *raw =
                reinterpret_cast<uhsfs_slot *>(block.bytes + std::size_t{i} * geo.slot_size);
            raw->h.block = cpu_to_le64(where);
            raw->block_seq = cpu_to_le64(9);
        }
        seal_block(geo, block.bytes);
        std::vector<std::uint8_t> input(sizeof(head) + sizeof(block));
        std::memcpy(input.data(), &head, sizeof(head));
        std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
        sink(fmt::format("block-{:02}", number), input);
    }
}

}  // namespace uhsfs::fuzz
