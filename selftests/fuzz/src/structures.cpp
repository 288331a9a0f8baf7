// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of all structures but slots.
 */
#include "structures.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "crc32c.h"

namespace uhsfs::fuzz {

namespace {

struct Field {
    std::uint16_t offset;
    std::uint8_t width;
};

#define FIELD(type, member) \
    Field { offsetof(type, member), sizeof(type::member) }

constexpr std::array header_fields = {
    FIELD(uhsfs_header, fsid),      FIELD(uhsfs_header, block), FIELD(uhsfs_header, owner_ino),
    FIELD(uhsfs_header, owner_gen), FIELD(uhsfs_header, flags), FIELD(uhsfs_header, seq)};

constexpr std::array super_fields = {
    FIELD(uhsfs_super, version),     FIELD(uhsfs_super, fsid),
    FIELD(uhsfs_super, block),       FIELD(uhsfs_super, seq),
    FIELD(uhsfs_super, compat),      FIELD(uhsfs_super, ro_compat),
    FIELD(uhsfs_super, incompat),    FIELD(uhsfs_super, block_size),
    FIELD(uhsfs_super, slot_size),   FIELD(uhsfs_super, erase_unit),
    FIELD(uhsfs_super, atomic),      FIELD(uhsfs_super, errors),
    FIELD(uhsfs_super, state),       FIELD(uhsfs_super, reserved0),
    FIELD(uhsfs_super, blocks),      FIELD(uhsfs_super, groups_used),
    FIELD(uhsfs_super, chunks_used), FIELD(uhsfs_super, reserve_blocks),
    FIELD(uhsfs_super, epoch),       FIELD(uhsfs_super, segments),
    FIELD(uhsfs_super, free_blocks), FIELD(uhsfs_super, used_slots),
    FIELD(uhsfs_super, made_ns),     FIELD(uhsfs_super, mounts)};

constexpr std::array segment_fields = {
    FIELD(uhsfs_segment, first_chunk), FIELD(uhsfs_segment, chunks),
    FIELD(uhsfs_segment, table),       FIELD(uhsfs_segment, intent[0]),
    FIELD(uhsfs_segment, intent[1]),   FIELD(uhsfs_segment, suspect)};

constexpr std::array chunk_fields = {FIELD(uhsfs_chunk, block),    FIELD(uhsfs_chunk, nonce),
                                     FIELD(uhsfs_chunk, in_use),   FIELD(uhsfs_chunk, incarnation),
                                     FIELD(uhsfs_chunk, gen_base), FIELD(uhsfs_chunk, birth),
                                     FIELD(uhsfs_chunk, written)};

constexpr std::array map_fields = {FIELD(uhsfs_map_block, index), FIELD(uhsfs_map_block, epoch),
                                   FIELD(uhsfs_map_block, set), FIELD(uhsfs_map_block, zone)};

constexpr std::array node_fields = {FIELD(uhsfs_tree_node, level), FIELD(uhsfs_tree_node, count),
                                    FIELD(uhsfs_tree_node, used), FIELD(uhsfs_tree_node, reserved0),
                                    FIELD(uhsfs_tree_node, reserved1)};

constexpr std::array extent_fields = {FIELD(uhsfs_extent, logical), FIELD(uhsfs_extent, physical),
                                      FIELD(uhsfs_extent, len), FIELD(uhsfs_extent, birth)};

constexpr std::array ref_fields = {FIELD(uhsfs_tree_ref, key), FIELD(uhsfs_tree_ref, block)};

constexpr std::array xattr_fields = {
    FIELD(uhsfs_xattr_block, level), FIELD(uhsfs_xattr_block, count),
    FIELD(uhsfs_xattr_block, used), FIELD(uhsfs_xattr_block, position)};

constexpr std::array bucket_fields = {
    FIELD(uhsfs_bucket, bucket), FIELD(uhsfs_bucket, next),     FIELD(uhsfs_bucket, count),
    FIELD(uhsfs_bucket, used),   FIELD(uhsfs_bucket, position), FIELD(uhsfs_bucket, prev_image)};

constexpr std::array entry_fields = {FIELD(uhsfs_entry, cookie), FIELD(uhsfs_entry, ino),
                                     FIELD(uhsfs_entry, gen), FIELD(uhsfs_entry, type),
                                     FIELD(uhsfs_entry, len)};

constexpr std::array name_fields = {FIELD(uhsfs_name, parent_ino), FIELD(uhsfs_name, parent_gen),
                                    FIELD(uhsfs_name, len), FIELD(uhsfs_name, name_seq)};

void change_field(Random &random, const uhsfs_geometry &geo, std::uint8_t *base, Field field) {
    std::uint64_t value = 0;

    std::memcpy(&value, base + field.offset, field.width);
    value = interesting(random, geo, value);
    std::memcpy(base + field.offset, &value, field.width);
}

template <std::size_t N>
void change_one(Random &random, const uhsfs_geometry &geo, std::uint8_t *base,
                const std::array<Field, N> &fields) {
    change_field(random, geo, base, fields[random.below(N)]);
}

// An array of n elements of some size with room for `most`: change, add, drop or move one.
// change() gets the element.
template <typename Change>
std::size_t mutate_array(Random &random, std::uint8_t *base, std::size_t element, std::size_t n,
                         std::size_t most, Change change) {
    n = std::min(n, most);
    const auto at = [&](std::size_t i) { return base + i * element; };

    switch (random.below(8)) {
        case 0:
            if (n > 0) {
                const std::size_t i = random.below(n);
                std::memmove(at(i), at(i + 1), (n - i - 1) * element);
                std::memset(at(n - 1), 0, element);
                return n - 1;
            }
            break;
        case 1:
            if (n > 0 && n < most) {
                const std::size_t i = random.below(n);
                std::memmove(at(i + 1), at(i), (n - i) * element);
                change(at(random.one_in(2) ? i : i + 1));
                return n + 1;
            }
            break;
        case 2:
            if (n > 1) {
                const std::size_t i = random.below(n);
                std::swap_ranges(at(i), at(i) + element, at(random.below(n)));
            }
            return n;
        default:
            break;
    }
    if (n > 0)
        change(at(random.below(n)));
    else
        change(at(0));
    return std::max<std::size_t>(n, 1);
}

// ---- buckets -------------------------------------------------------------------------------

void mutate_bucket(Random &random, const uhsfs_geometry &geo, uhsfs_bucket &bucket) {
    std::vector<std::uint32_t> offsets;
    uhsfs_dirent e = {};

    for (u32 at = 0; uhsfs_bucket_get(&bucket, at, &e); at += uhsfs_dirent_size(e.len))
        offsets.push_back(at);
    const std::uint32_t some = offsets.empty() ? 0 : offsets[random.below(offsets.size())];
    switch (random.below(6)) {
        case 0:
            change_one(random, geo, reinterpret_cast<std::uint8_t *>(&bucket), bucket_fields);
            break;
        case 1:
            uhsfs_bucket_remove(&bucket, some);
            break;
        case 2:
        case 3: {
            std::string name = random_name(random);
            e = {};
            e.ino = 1 + random.below(200);
            e.gen = static_cast<u32>(random.below(3));
            e.type = uhsfs_mode_dtype(UHSFS_S_IFREG);
            // The same name again, or the same entry.
            uhsfs_dirent old = {};
            if (random.one_in(4) && uhsfs_bucket_get(&bucket, some, &old))
                name.assign(reinterpret_cast<const char *>(old.name), old.len);
            if (random.one_in(3))
                e.type = static_cast<u8>(random.below(16));
            e.len = static_cast<u8>(name.size());
            e.name = reinterpret_cast<const u8 *>(name.data());
            e.cookie = uhsfs_cookie_make(uhsfs_dir_hash(&geo, e.name, e.len),
                                         static_cast<u32>(random.below(4)));
            uhsfs_bucket_insert(&bucket, &e);
            break;
        }
        default:
            if (!offsets.empty())
                change_one(random, geo, bucket.entries + some, entry_fields);
            break;
    }
}

void repair_bucket(const uhsfs_geometry &geo, uhsfs_bucket &bucket) {
    uhsfs_dirent e = {};
    u32 at = 0;
    u16 count = 0;

    bucket.used = cpu_to_le16(static_cast<u16>(
        std::min<u32>(round_down(u32{le16_to_cpu(bucket.used)}, 8U), UHSFS_BUCKET_PAYLOAD)));
    for (; uhsfs_bucket_get(&bucket, at, &e); at += uhsfs_dirent_size(e.len)) {
        auto *entry = reinterpret_cast<uhsfs_entry *>(bucket.entries + at);
        entry->cookie = cpu_to_le64(
            uhsfs_cookie_make(uhsfs_dir_hash(&geo, e.name, e.len), uhsfs_cookie_tie(e.cookie)));
        std::memset(entry->reserved, 0, sizeof(entry->reserved));
        std::memset(entry->name + e.len, 0, uhsfs_dirent_size(e.len) - sizeof(*entry) - e.len);
        count++;
    }
    bucket.used = cpu_to_le16(static_cast<u16>(at));
    bucket.count = cpu_to_le16(count);
    std::memset(bucket.entries + at, 0, UHSFS_BUCKET_PAYLOAD - at);
}

// ---- trees ---------------------------------------------------------------------------------

std::vector<std::uint32_t> name_offsets(const uhsfs_tree_node &node) {
    std::vector<std::uint32_t> offsets;
    std::uint32_t at = 0;

    for (u32 i = 0; i < le16_to_cpu(node.count); i++) {
        if (UHSFS_TREE_PAYLOAD - at < sizeof(uhsfs_name))
            break;
        const auto *name = reinterpret_cast<const uhsfs_name *>(node.bytes + at);
        if (uhsfs_name_size(name->len) > UHSFS_TREE_PAYLOAD - at)
            break;
        offsets.push_back(at);
        at += uhsfs_name_size(name->len);
    }
    return offsets;
}

std::vector<std::vector<std::uint8_t>> name_records(const uhsfs_tree_node &node) {
    std::vector<std::vector<std::uint8_t>> records;

    for (const std::uint32_t at : name_offsets(node)) {
        const auto *name = reinterpret_cast<const uhsfs_name *>(node.bytes + at);
        records.emplace_back(node.bytes + at, node.bytes + at + uhsfs_name_size(name->len));
    }
    return records;
}

void put_names(uhsfs_tree_node &node, const std::vector<std::vector<std::uint8_t>> &records) {
    std::size_t at = 0;
    u16 count = 0;

    std::memset(node.bytes, 0, sizeof(node.bytes));
    for (const auto &record : records) {
        if (record.size() > sizeof(node.bytes) - at)
            break;
        std::memcpy(node.bytes + at, record.data(), record.size());
        at += record.size();
        count++;
    }
    node.count = cpu_to_le16(count);
    node.used = cpu_to_le16(static_cast<u16>(at));
}

std::vector<std::uint8_t> name_record(Random &random) {
    const std::string name = random_name(random);
    std::vector<std::uint8_t> record(uhsfs_name_size(static_cast<u32>(name.size())));
    const uhsfs_claim claim = {.parent_ino = 1 + random.below(8),
                               .parent_gen = static_cast<u32>(random.below(3)),
                               .len = static_cast<u32>(name.size()),
                               .name_seq = random.below(1000) + 1,
                               .name = reinterpret_cast<const u8 *>(name.data())};

    uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(record.data()));
    return record;
}

void mutate_names(Random &random, const uhsfs_geometry &geo, uhsfs_tree_node &node) {
    auto records = name_records(node);

    switch (random.below(3)) {
        case 0:
            records.push_back(name_record(random));
            break;
        case 1:
            if (records.size() > 1)
                records.erase(records.begin() + static_cast<long>(random.below(records.size())));
            break;
        default:
            if (!records.empty())
                change_one(random, geo, records[random.below(records.size())].data(), name_fields);
            break;
    }
    put_names(node, records);
}

void mutate_node(Random &random, const uhsfs_geometry &geo, uhsfs_tree_node &node, bool names) {
    const u16 count = le16_to_cpu(node.count);

    if (random.one_in(5)) {
        change_one(random, geo, reinterpret_cast<std::uint8_t *>(&node), node_fields);
    } else if (node.level != 0) {
        const std::size_t n =
            mutate_array(random, node.bytes, sizeof(uhsfs_tree_ref), count, UHSFS_TREE_NODE_MAX,
                         [&](std::uint8_t *at) { change_one(random, geo, at, ref_fields); });
        node.count = cpu_to_le16(static_cast<u16>(n));
    } else if (names) {
        mutate_names(random, geo, node);
    } else {
        const std::size_t n =
            mutate_array(random, node.bytes, sizeof(uhsfs_extent), count, UHSFS_EXTENT_LEAF_MAX,
                         [&](std::uint8_t *at) { change_one(random, geo, at, extent_fields); });
        node.count = cpu_to_le16(static_cast<u16>(n));
    }
}

void repair_node(const uhsfs_geometry &geo, uhsfs_tree_node &node, bool names) {
    node.reserved0 = 0;
    node.reserved1 = 0;
    if (node.level != 0) {
        const u16 n = static_cast<u16>(std::min<u32>(le16_to_cpu(node.count), UHSFS_TREE_NODE_MAX));
        node.count = cpu_to_le16(n);
        node.used = 0;
        std::sort(node.ref, node.ref + n, [](const uhsfs_tree_ref &a, const uhsfs_tree_ref &b) {
            return le64_to_cpu(a.key) < le64_to_cpu(b.key);
        });
        std::memset(node.ref + n, 0, (UHSFS_TREE_NODE_MAX - n) * sizeof(node.ref[0]));
        return;
    }
    if (!names) {
        const u16 n =
            static_cast<u16>(std::min<u32>(le16_to_cpu(node.count), UHSFS_EXTENT_LEAF_MAX));
        node.count = cpu_to_le16(n);
        node.used = 0;
        std::sort(node.extent, node.extent + n, [](const uhsfs_extent &a, const uhsfs_extent &b) {
            return le64_to_cpu(a.logical) < le64_to_cpu(b.logical);
        });
        std::memset(node.bytes + n * sizeof(uhsfs_extent), 0,
                    sizeof(node.bytes) - n * sizeof(uhsfs_extent));
        return;
    }
    auto records = name_records(node);
    std::ranges::sort(records, [&](const auto &a, const auto &b) {
        uhsfs_claim left = {};
        uhsfs_claim right = {};
        uhsfs_name_decode(reinterpret_cast<const uhsfs_name *>(a.data()), &left);
        uhsfs_name_decode(reinterpret_cast<const uhsfs_name *>(b.data()), &right);
        return uhsfs_names_compare(&geo, &left, &right) < 0;
    });
    put_names(node, records);
}

// ---- attributes ----------------------------------------------------------------------------

void mutate_xattr_block(Random &random, const uhsfs_geometry &geo, uhsfs_xattr_block &block) {
    const u32 used = std::min<u32>(le32_to_cpu(block.used), UHSFS_XATTR_PAYLOAD);

    if (random.one_in(4)) {
        change_one(random, geo, reinterpret_cast<std::uint8_t *>(&block), xattr_fields);
    } else if (block.level != 0) {
        const std::size_t n = mutate_array(
            random, block.bytes, sizeof(__le64), le16_to_cpu(block.count), UHSFS_XATTR_INDEX_MAX,
            [&](std::uint8_t *at) { change_field(random, geo, at, {0, sizeof(__le64)}); });
        block.count = cpu_to_le16(static_cast<u16>(n));
    } else if (random.one_in(4)) {
        const auto stream = random_xattrs(random, UHSFS_XATTR_PAYLOAD);
        std::memset(block.bytes, 0, sizeof(block.bytes));
        std::memcpy(block.bytes, stream.data(), stream.size());
        block.used = cpu_to_le32(static_cast<u32>(stream.size()));
    } else if (used > 0) {
        mutate_bytes(block.bytes, used);
    }
}

// ---- chunk tables, maps, superblocks -------------------------------------------------------

void mutate_table(Random &random, const uhsfs_geometry &geo, uhsfs_table_block &table) {
    if (random.one_in(12)) {
        change_field(random, geo, reinterpret_cast<std::uint8_t *>(&table),
                     FIELD(uhsfs_table_block, first_chunk));
        return;
    }
    // Mostly one that is in use.
    uhsfs_chunk &chunk = table.chunk[random.below(random.one_in(4) ? UHSFS_TABLE_CHUNKS : 3)];
    if (random.one_in(3))
        chunk.in_use ^= cpu_to_le64(1ULL << random.below(64));
    else
        change_one(random, geo, reinterpret_cast<std::uint8_t *>(&chunk), chunk_fields);
}

void repair_table(const uhsfs_geometry &geo, uhsfs_table_block &table) {
    for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
        uhsfs_chunk_info info = {};
        uhsfs_chunk_decode(&table.chunk[i], &info);
        if (info.block == 0) {
            const u32 incarnation = info.incarnation;
            info = {};
            info.incarnation = incarnation;
        } else {
            info.nonce =
                uhsfs_chunk_nonce(&geo, le64_to_cpu(table.first_chunk) + i, info.incarnation);
        }
        info.in_use &= uhsfs_chunk_slot_mask(&geo);
        uhsfs_chunk_encode(&info, &table.chunk[i]);
    }
}

void mutate_map(Random &random, const uhsfs_geometry &geo, uhsfs_map_block &map) {
    if (random.one_in(3)) {
        change_one(random, geo, reinterpret_cast<std::uint8_t *>(&map), map_fields);
        return;
    }
    const u32 bit =
        static_cast<u32>(random.below(random.one_in(2) ? UHSFS_MAP_BITS : UHSFS_MIN_BLOCKS));
    if (random.one_in(3))
        uhsfs_map_fill(map.bits, bit, static_cast<u32>(random.below(UHSFS_MAP_BITS - bit)),
                       random.one_in(2));
    else
        map.bits[bit / 8] ^= static_cast<u8>(1U << bit % 8);
}

void mutate_super(Random &random, const uhsfs_geometry &geo, uhsfs_super &super) {
    const u32 segments = std::min<u32>(le32_to_cpu(super.segments), UHSFS_MAX_SEGMENTS);

    switch (random.below(6)) {
        case 0:
        case 1: {
            const std::size_t n = mutate_array(
                random, reinterpret_cast<std::uint8_t *>(super.segment), sizeof(uhsfs_segment),
                segments, UHSFS_MAX_SEGMENTS,
                [&](std::uint8_t *at) { change_one(random, geo, at, segment_fields); });
            super.segments = cpu_to_le32(static_cast<u32>(n));
            break;
        }
        case 2:
            mutate_bytes(random.one_in(2) ? super.label : super.writer, sizeof(super.writer));
            break;
        default:
            change_one(random, geo, reinterpret_cast<std::uint8_t *>(&super), super_fields);
            break;
    }
}

void repair_super(uhsfs_super &super) {
    const u32 segments = std::min<u32>(le32_to_cpu(super.segments), UHSFS_MAX_SEGMENTS);
    u64 next = 0;

    for (u32 i = 0; i < segments; i++) {
        super.segment[i].first_chunk = cpu_to_le64(next);
        next += le64_to_cpu(super.segment[i].chunks);
    }
}

std::uint32_t magic_of(const std::uint8_t *block) {
    __le32 magic = 0;

    std::memcpy(&magic, block, sizeof(magic));
    return le32_to_cpu(magic);
}

}  // namespace

std::uint64_t interesting(Random &random, const uhsfs_geometry &geo, std::uint64_t old) {
    switch (random.below(12)) {
        case 0:
            return 0;
        case 1:
            return ~0ULL >> random.below(64);
        case 2:
            return 1ULL << random.below(64);
        case 3:
            return old + 1;
        case 4:
            return old - 1;
        case 5:
            return old ^ (1ULL << random.below(64));
        case 6:
            return old + random.below(16) * 8;
        case 7:
            return geo.blocks - random.below(3);
        case 8:
            return random.below(16);
        case 9:
            return random.below(geo.blocks);
        case 10:
            return old ^ (1ULL << random.below(16));
        default:
            return random.next() >> random.below(64);
    }
}

std::string random_name(Random &random) {
    static const std::array<const char *, 8> some = {"a",  "b",  "ab", "file",
                                                     ".x", "..", ".",  "a/b"};

    if (random.one_in(2))
        return some[random.below(random.one_in(8) ? some.size() : 5)];
    std::string name(1 + random.below(random.one_in(4) ? UHSFS_NAME_LEN : 20), 'n');
    name[random.below(name.size())] = static_cast<char>(1 + random.below(255));
    return name;
}

void mutate_block(Random &random, const uhsfs_geometry &geo, std::uint8_t *block) {
    if (uhsfs_super_recognise(block))
        return mutate_super(random, geo, *reinterpret_cast<uhsfs_super *>(block));
    const std::uint32_t magic = magic_of(block);
    if (random.one_in(16) && magic != UHSFS_TAG_SLOT)
        return change_one(random, geo, block, header_fields);
    switch (magic) {
        case UHSFS_TAG_SLOT:
            return mutate_slot(random, geo,
                               block + random.below(geo.slots_per_block) * geo.slot_size);
        case UHSFS_TAG_BUCKET:
            return mutate_bucket(random, geo, *reinterpret_cast<uhsfs_bucket *>(block));
        case UHSFS_TAG_EXTENT:
        case UHSFS_TAG_NAMES:
            return mutate_node(random, geo, *reinterpret_cast<uhsfs_tree_node *>(block),
                               magic == UHSFS_TAG_NAMES);
        case UHSFS_TAG_XATTR:
            return mutate_xattr_block(random, geo, *reinterpret_cast<uhsfs_xattr_block *>(block));
        case UHSFS_TAG_CHUNKS:
            return mutate_table(random, geo, *reinterpret_cast<uhsfs_table_block *>(block));
        case UHSFS_TAG_BITMAP:
        case UHSFS_TAG_INTENT:
        case UHSFS_TAG_SUSPECT:
            return mutate_map(random, geo, *reinterpret_cast<uhsfs_map_block *>(block));
        default:
            return mutate_bytes(block, block_size);
    }
}

void repair_block(Random &random, const uhsfs_geometry &geo, std::uint8_t *block) {
    if (uhsfs_super_recognise(block))
        return repair_super(*reinterpret_cast<uhsfs_super *>(block));
    const std::uint32_t magic = magic_of(block);
    switch (magic) {
        case UHSFS_TAG_SLOT:
            for (u32 i = 0; i < geo.slots_per_block; i++)
                repair_slot(random, geo, block + std::size_t{i} * geo.slot_size);
            break;
        case UHSFS_TAG_BUCKET:
            repair_bucket(geo, *reinterpret_cast<uhsfs_bucket *>(block));
            break;
        case UHSFS_TAG_EXTENT:
        case UHSFS_TAG_NAMES:
            repair_node(geo, *reinterpret_cast<uhsfs_tree_node *>(block), magic == UHSFS_TAG_NAMES);
            break;
        case UHSFS_TAG_CHUNKS:
            repair_table(geo, *reinterpret_cast<uhsfs_table_block *>(block));
            break;
        case UHSFS_TAG_BITMAP:
        case UHSFS_TAG_INTENT:
        case UHSFS_TAG_SUSPECT:
            uhsfs_map_seal(reinterpret_cast<uhsfs_map_block *>(block));
            break;
        default:
            break;
    }
}

void seal_block(const uhsfs_geometry &geo, std::uint8_t *block) {
    if (uhsfs_super_recognise(block)) {
        auto *super = reinterpret_cast<uhsfs_super *>(block);
        super->crc = 0;
        super->crc = cpu_to_le32(uhsfs_crc32c(0, super, sizeof(*super)));
    } else if (magic_of(block) == UHSFS_TAG_SLOT) {
        for (u32 i = 0; i < geo.slots_per_block; i++)
            uhsfs_record_seal(block + std::size_t{i} * geo.slot_size, geo.slot_size);
    } else {
        uhsfs_record_seal(block, block_size);
    }
}

void identify(const uhsfs_geometry &geo, std::uint8_t *block, std::uint32_t magic,
              const Identity &identity) {
    auto *h = reinterpret_cast<uhsfs_header *>(block);

    h->magic = cpu_to_le32(magic);
    h->fsid = cpu_to_le64(geo.fsid);
    h->block = cpu_to_le64(identity.block);
    h->owner_ino = cpu_to_le64(identity.owner_ino);
    h->owner_gen = cpu_to_le32(identity.owner_gen);
    h->flags = 0;
}

void mutate_deep(Random &random, const uhsfs_geometry &geo, std::uint8_t *block) {
    for (std::uint64_t n = 1 + random.below(random.one_in(4) ? 4 : 1); n > 0; n--)
        mutate_block(random, geo, block);
    if (!random.one_in(4))
        repair_block(random, geo, block);
}

}  // namespace uhsfs::fuzz
