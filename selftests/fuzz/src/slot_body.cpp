// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of slots: fields of the header, and TLV records as a list.
 */
#include <algorithm>
#include <array>

#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

struct Record {
    std::uint16_t type;
    std::vector<std::uint8_t> value;
};

std::vector<Record> records_of(const uhsfs_geometry &geo, const std::uint8_t *slot) {
    const auto *raw = reinterpret_cast<const uhsfs_slot *>(slot);
    const std::uint8_t *body = slot + UHSFS_SLOT_HEADER;
    const u32 end = std::min<u32>(le16_to_cpu(raw->body_len), geo.slot_size - UHSFS_SLOT_HEADER);
    std::vector<Record> records;

    for (u32 at = 0; end - at >= sizeof(uhsfs_tlv);) {
        uhsfs_tlv tlv = {};
        std::memcpy(&tlv, body + at, sizeof(tlv));
        const u16 len = le16_to_cpu(tlv.len);
        if (uhsfs_tlv_size(len) > end - at)
            break;
        const std::uint8_t *value = body + at + sizeof(tlv);
        records.push_back({le16_to_cpu(tlv.type), {value, value + len}});
        at += uhsfs_tlv_size(len);
    }
    return records;
}

void put_records(const uhsfs_geometry &geo, std::uint8_t *slot,
                 const std::vector<Record> &records) {
    auto *raw = reinterpret_cast<uhsfs_slot *>(slot);
    std::uint8_t *body = slot + UHSFS_SLOT_HEADER;
    const u32 capacity = geo.slot_size - UHSFS_SLOT_HEADER;
    u32 at = 0;

    std::memset(body, 0, capacity);
    for (const Record &record : records) {
        const auto len = static_cast<u32>(record.value.size());
        if (uhsfs_tlv_size(len) > capacity - at)
            break;
        const uhsfs_tlv tlv = {.type = cpu_to_le16(record.type),
                               .len = cpu_to_le16(static_cast<u16>(len)),
                               .reserved = 0};
        std::memcpy(body + at, &tlv, sizeof(tlv));
        std::copy(record.value.begin(), record.value.end(), body + at + sizeof(tlv));
        at += uhsfs_tlv_size(len);
    }
    raw->body_len = cpu_to_le16(static_cast<u16>(at));
}

template <typename T>
void append(std::vector<std::uint8_t> &bytes, const T &value) {
    const auto *from = reinterpret_cast<const std::uint8_t *>(&value);

    bytes.insert(bytes.end(), from, from + sizeof(value));
}

std::vector<std::uint8_t> random_claim(Random &random) {
    const std::string name = random_name(random);
    const uhsfs_claim claim = {.parent_ino = 1 + random.below(200),
                               .parent_gen = static_cast<u32>(random.below(3)),
                               .len = static_cast<u32>(name.size()),
                               .name_seq = 1 + random.below(1000),
                               .name = reinterpret_cast<const u8 *>(name.data())};
    std::vector<std::uint8_t> bytes(sizeof(uhsfs_name) + name.size());

    uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(bytes.data()));
    return bytes;
}

std::vector<std::uint8_t> random_intent(Random &random) {
    const std::string name = random_name(random);
    std::vector<std::uint8_t> bytes;
    uhsfs_intent intent = {};

    intent.peer_ino = cpu_to_le64(1 + random.below(200));
    intent.peer_gen = cpu_to_le32(static_cast<u32>(random.below(3)));
    intent.op = static_cast<u8>(1 + random.below(2));
    intent.len = static_cast<u8>(name.size());
    intent.parent_ino = cpu_to_le64(1 + random.below(8));
    intent.parent_gen = cpu_to_le32(static_cast<u32>(random.below(3)));
    intent.name_seq = cpu_to_le64(1 + random.below(1000));
    append(bytes, intent);
    bytes.insert(bytes.end(), name.begin(), name.end());
    return bytes;
}

// A value that might stand there.
std::vector<std::uint8_t> plausible(Random &random, const uhsfs_geometry &geo, std::uint16_t type) {
    std::vector<std::uint8_t> bytes;
    const __le64 block = cpu_to_le64(16 + random.below(geo.blocks));

    switch (type) {
        case UHSFS_TLV_NAME:
            return random_claim(random);
        case UHSFS_TLV_INTENT:
            return random_intent(random);
        case UHSFS_TLV_NAMES:
            append(bytes, uhsfs_names_root{.block = block,
                                           .count = cpu_to_le32(1 + random.below(4)),
                                           .depth = cpu_to_le16(1),
                                           .reserved = {}});
            break;
        case UHSFS_TLV_DIR:
            append(bytes, uhsfs_dir_root{.buckets = cpu_to_le32(1 + random.below(4)),
                                         .overflow = cpu_to_le32(random.below(3)),
                                         .entries = cpu_to_le64(random.below(9)),
                                         .subdirs = 0,
                                         .reserved = 0});
            break;
        case UHSFS_TLV_DEVICE:
            append(bytes, uhsfs_device{.major = cpu_to_le32(1), .minor = cpu_to_le32(3)});
            break;
        case UHSFS_TLV_XATTRS:
            return random_xattrs(random, 300);
        case UHSFS_TLV_XATTR_ROOT:
            append(bytes, uhsfs_xattr_root{.block = block,
                                           .bytes = cpu_to_le32(1 + random.below(9000)),
                                           .depth = cpu_to_le16(1 + random.below(2)),
                                           .reserved = {}});
            break;
        case UHSFS_TLV_EXTENTS:
            for (std::uint64_t i = 1 + random.below(4), logical = 0; i > 0; i--) {
                uhsfs_extent raw = {};
                const uhsfs_ext ext = random_extent(random, geo, logical);
                uhsfs_extent_encode(&ext, &raw);
                append(bytes, raw);
                logical = uhsfs_ext_end(&ext) + random.below(3);
            }
            break;
        case UHSFS_TLV_EXTENT_ROOT:
            append(bytes, uhsfs_extent_root{.block = block,
                                            .depth = cpu_to_le32(1 + random.below(3)),
                                            .reserved = 0,
                                            .count = cpu_to_le64(1 + random.below(300))});
            break;
        default:
            bytes.assign(1 + random.below(200), 'i');
            break;
    }
    return bytes;
}

void mutate_records(Random &random, const uhsfs_geometry &geo, std::vector<Record> &records) {
    const std::size_t some = records.empty() ? 0 : random.below(records.size());

    switch (records.empty() ? 0 : random.below(6)) {
        case 0: {
            const auto type = static_cast<std::uint16_t>(1 + random.below(UHSFS_TLV_TYPES));
            std::erase_if(records, [&](const Record &record) { return record.type == type; });
            records.push_back({type, plausible(random, geo, type)});
            break;
        }
        case 1:
            records.erase(records.begin() + static_cast<long>(some));
            break;
        case 2:
            records[some].value = plausible(random, geo, records[some].type);
            break;
        case 3:
            records[some].value.resize(
                static_cast<std::uint16_t>(interesting(random, geo, records[some].value.size())) %
                geo.slot_size);
            break;
        case 4:
            mutate_bytes(records[some].value, geo.slot_size);
            break;
        default: {
            std::vector<std::uint8_t> &value = records[some].value;
            const std::size_t at = random.below(value.size() / 4 + 1) * 4;
            std::uint32_t word = 0;
            if (value.size() - at < sizeof(word))
                break;
            std::memcpy(&word, value.data() + at, sizeof(word));
            word = static_cast<std::uint32_t>(interesting(random, geo, word));
            std::memcpy(value.data() + at, &word, sizeof(word));
            break;
        }
    }
    if (!random.one_in(16))
        std::ranges::stable_sort(records, {}, &Record::type);
}

void mutate_attributes(Random &random, const uhsfs_geometry &geo, uhsfs_slot &raw) {
    constexpr std::array<u16, 8> modes = {0100644, 0040755, 0120777, 0020600,
                                          0060600, 0010600, 0140600, 0170000};

    switch (random.below(12)) {
        case 0:
            raw.mode = cpu_to_le16(modes[random.below(modes.size())]);
            break;
        case 1:
            raw.state = static_cast<u8>(random.below(4));
            break;
        case 2:
            raw.nlink = cpu_to_le32(static_cast<u32>(interesting(random, geo, raw.nlink)));
            break;
        case 3:
            raw.size = interesting(random, geo, raw.size);
            break;
        case 4:
            raw.blocks = interesting(random, geo, raw.blocks);
            break;
        case 5:
            raw.flags = cpu_to_le32(static_cast<u32>(interesting(random, geo, raw.flags)));
            break;
        case 6:
            raw.name_seq_max = interesting(random, geo, raw.name_seq_max);
            break;
        case 7:
            raw.block_seq = interesting(random, geo, raw.block_seq);
            break;
        case 8:
            raw.h.owner_gen = static_cast<u32>(interesting(random, geo, raw.h.owner_gen));
            break;
        case 9:
            raw.h.seq = interesting(random, geo, raw.h.seq);
            break;
        case 10:
            raw.mtime = raw.version = random.next();
            break;
        default:
            raw.body_len = static_cast<u16>(interesting(random, geo, raw.body_len));
            break;
    }
}

}  // namespace

std::vector<std::uint8_t> random_xattrs(Random &random, std::size_t most) {
    std::vector<std::uint8_t> stream(most);
    u32 len = 0;

    for (std::uint64_t i = 1 + random.below(4); i > 0; i--) {
        const std::string name = random_name(random);
        const std::string value(random.below(random.one_in(4) ? most : 40), 'v');
        const auto space = static_cast<u8>(1 + random.below(UHSFS_XATTR_SPACES - 1));
        const bool acl = space == UHSFS_XATTR_ACL_ACCESS || space == UHSFS_XATTR_ACL_DEFAULT;
        const uhsfs_xattr_item item = {.space = space,
                                       .name_len = static_cast<u8>(acl ? 0 : name.size()),
                                       .value_len = static_cast<u32>(value.size()),
                                       .name = reinterpret_cast<const u8 *>(name.data()),
                                       .value = reinterpret_cast<const u8 *>(value.data())};
        (void)uhsfs_xattr_set(stream.data(), &len, static_cast<u32>(most), &item, 0);
    }
    stream.resize(len);
    if (stream.empty())
        stream.assign(8, 0);
    return stream;
}

uhsfs_ext random_extent(Random &random, const uhsfs_geometry &geo, std::uint64_t logical) {
    return {.logical = logical,
            .physical = 16 + random.below(geo.blocks),
            .len = static_cast<u32>(1 + random.below(4)),
            .birth = static_cast<u32>(random.below(3)),
            .flags = random.one_in(3) ? static_cast<u32>(UHSFS_EXT_UNWRITTEN) : 0U};
}

void mutate_slot(Random &random, const uhsfs_geometry &geo, std::uint8_t *slot) {
    if (random.one_in(3)) {
        mutate_attributes(random, geo, *reinterpret_cast<uhsfs_slot *>(slot));
        return;
    }
    std::vector<Record> records = records_of(geo, slot);
    mutate_records(random, geo, records);
    put_records(geo, slot, records);
}

void repair_slot(Random &random, const uhsfs_geometry &geo, std::uint8_t *slot) {
    auto *raw = reinterpret_cast<uhsfs_slot *>(slot);

    if (raw->state == UHSFS_SLOT_FREE) {
        // As if it had been freed.
        const uhsfs_header h = raw->h;
        const u64 block_seq = le64_to_cpu(raw->block_seq);
        uhsfs_slot_build_free(&geo, slot, le64_to_cpu(h.owner_ino), le32_to_cpu(h.owner_gen),
                              le64_to_cpu(raw->name_seq_max), le64_to_cpu(raw->nonce),
                              le64_to_cpu(h.seq));
        raw->h = h;
        raw->block_seq = cpu_to_le64(block_seq);
        return;
    }
    raw->flags &= cpu_to_le32(UHSFS_INODE_FLAGS);
    raw->blocks = cpu_to_le64(std::min<u64>(le64_to_cpu(raw->blocks), geo.blocks));
    u32 names = 0;
    for (const Record &record : records_of(geo, slot)) {
        if (record.type == UHSFS_TLV_NAME)
            names++;
        if (record.type == UHSFS_TLV_NAMES && record.value.size() == sizeof(uhsfs_names_root)) {
            uhsfs_names_root root = {};
            std::memcpy(&root, record.value.data(), sizeof(root));
            names += le32_to_cpu(root.count);
        }
        if (record.type == UHSFS_TLV_INLINE)
            raw->size = cpu_to_le64(record.value.size());
    }
    if (!random.one_in(8))
        raw->nlink = cpu_to_le32(names);
}

}  // namespace uhsfs::fuzz
