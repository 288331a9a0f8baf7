// SPDX-License-Identifier: GPL-2.0
#include "cleaner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "crc32c.h"

namespace uhsfs::ctl {

namespace {

constexpr std::size_t record_align = 8;

std::size_t padded(std::size_t len) {
    return (len + record_align - 1) / record_align * record_align;
}

template <typename T>
T load(Bytes bytes) {
    T value = {};

    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
    return value;
}

void zero(MutableBytes bytes) { std::memset(bytes.data(), 0, bytes.size()); }

// The checksum that stands in a record is the one that belongs there.
bool sealed(Bytes record) {
    const auto stored = load<uhsfs_header>(record).crc;
    std::vector<std::uint8_t> copy(record.begin(), record.end());

    uhsfs_record_seal(copy.data(), copy.size());
    return load<uhsfs_header>(copy).crc == stored;
}

// Runs change(record) on a sound record and seals it again. Of a damaged one the first `head`
// bytes are kept; a checksum that was wrong must not become right by chance.
template <typename Change>
void change_record(MutableBytes record, std::size_t head, Change change) {
    if (sealed(record)) {
        change(record);
        uhsfs_record_seal(record.data(), record.size());
        return;
    }
    zero(record.subspan(head));
    if (sealed(record))
        record[offsetof(uhsfs_header, crc)] ^= 1;
}

std::string_view chars(Bytes bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

// How much of a record of 4096 bytes is head, and how much of it is entries; a number of
// entries that makes no sense counts as all.
struct Extent {
    std::size_t head;
    std::size_t end;
};

Extent plain_extent(Bytes record) {
    const auto node = load<uhsfs_tree_node>(record);

    switch (le32_to_cpu(node.h.magic)) {
        case UHSFS_TAG_CHUNKS:
            return {.head = offsetof(uhsfs_table_block, chunk), .end = record.size()};
        case UHSFS_TAG_EXTENT:
        case UHSFS_TAG_NAMES: {
            const std::size_t size =
                node.level == 0 ? sizeof(uhsfs_extent) : sizeof(uhsfs_tree_ref);
            return {
                .head = UHSFS_TREE_HEADER,
                .end = std::min(record.size(), UHSFS_TREE_HEADER + le16_to_cpu(node.count) * size)};
        }
        default:
            return {.head = offsetof(uhsfs_map_block, reserved), .end = record.size()};
    }
}

__le32 super_crc(MutableBytes super) {
    constexpr std::size_t at = offsetof(uhsfs_super, crc);
    const __le32 none = 0;

    std::memcpy(super.data() + at, &none, sizeof(none));
    return cpu_to_le32(uhsfs_crc32c(0, super.data(), super.size()));
}

}  // namespace

// ---- records -------------------------------------------------------------------------------

bool Cleaner::is_record(Bytes block, std::uint32_t magic, std::uint64_t number,
                        std::uint64_t owner) const {
    const auto head = load<uhsfs_header>(block);

    return le32_to_cpu(head.magic) == magic && le64_to_cpu(head.fsid) == geo_.fsid &&
           le64_to_cpu(head.block) == number && le64_to_cpu(head.owner_ino) == owner;
}

bool Cleaner::is_sound(Bytes block) { return sealed(block); }

bool Cleaner::is_super(Bytes block, std::uint64_t number) const {
    const auto super = load<uhsfs_super>(block);

    return uhsfs_super_recognise(block.data()) && le64_to_cpu(super.fsid) == geo_.fsid &&
           le64_to_cpu(super.block) == number;
}

void Cleaner::super(MutableBytes block) const {
    constexpr std::size_t at = offsetof(uhsfs_super, crc);
    const auto stored = load<uhsfs_super>(block).crc;
    const bool sound = super_crc(block) == stored;

    if (!sound)
        zero(block.subspan(offsetof(uhsfs_super, label)));
    if (names_ != nullptr)
        for (std::uint8_t &c : block.subspan(offsetof(uhsfs_super, label), UHSFS_LABEL_LEN))
            c = c != 0 ? hidden : 0;
    __le32 crc = super_crc(block);
    if (!sound)
        crc = stored != crc ? stored : crc ^ cpu_to_le32(1);
    std::memcpy(block.data() + at, &crc, sizeof(crc));
}

void Cleaner::plain(MutableBytes block) {
    const Extent extent = plain_extent(block);

    change_record(block, extent.head,
                  [&](MutableBytes record) { zero(record.subspan(extent.end)); });
}

// ---- names ---------------------------------------------------------------------------------

void Cleaner::name_at(MutableBytes record, std::size_t head, std::uint64_t parent_ino,
                      std::uint32_t parent_gen, std::size_t len, const KeyRange *range) {
    if (record.size() < head)
        return;
    const MutableBytes old = record.subspan(head, std::min(len, record.size() - head));
    if (names_ == nullptr || old.empty())
        return;
    if (!uhsfs_name_legal(old.data(), old.size())) {
        // No name that anything could point to.
        std::memset(old.data(), hidden, old.size());
        return;
    }
    std::function<bool(std::string_view)> fits;
    const auto in_range = [&](std::string_view name) {
        const uhsfs_claim claim = {.parent_ino = parent_ino,
                                   .parent_gen = parent_gen,
                                   .len = static_cast<u32>(name.size()),
                                   .name_seq = 0,
                                   .name = reinterpret_cast<const u8 *>(name.data())};
        const std::uint64_t key = uhsfs_names_key(&geo_, &claim);
        return key >= range->low && key <= range->high;
    };
    // A name that stands in the wrong leaf is not to be kept for want of one that fits.
    if (range != nullptr && in_range(chars(old)))
        fits = in_range;
    const std::string &made = names_->of(parent_ino, parent_gen, chars(old), fits);
    std::memcpy(old.data(), made.data(), old.size());
}

// ---- slots ---------------------------------------------------------------------------------

void Cleaner::tlv(std::uint16_t type, MutableBytes value, bool symlink) {
    switch (type) {
        case UHSFS_TLV_NAME: {
            const auto name = load<uhsfs_name>(value);
            name_at(value, sizeof(name), le64_to_cpu(name.parent_ino), le32_to_cpu(name.parent_gen),
                    name.len, nullptr);
            break;
        }
        case UHSFS_TLV_INTENT: {
            const auto intent = load<uhsfs_intent>(value);
            name_at(value, sizeof(intent), le64_to_cpu(intent.parent_ino),
                    le32_to_cpu(intent.parent_gen), intent.len, nullptr);
            break;
        }
        case UHSFS_TLV_XATTRS:
            xattr_stream(value);
            break;
        case UHSFS_TLV_INLINE:
            std::memset(value.data(), symlink ? hidden : 0, value.size());
            break;
        default:
            break;
    }
}

void Cleaner::slot(MutableBytes bytes) {
    const auto header = load<uhsfs_header>(bytes);

    if (le32_to_cpu(header.magic) != UHSFS_TAG_SLOT || le64_to_cpu(header.fsid) != geo_.fsid) {
        // Garbage that was there before the chunk was.
        zero(bytes);
        return;
    }
    change_record(bytes, sizeof(uhsfs_slot), [&](MutableBytes record) {
        const auto head = load<uhsfs_slot>(record);
        const bool symlink = uhsfs_is_lnk(le16_to_cpu(head.mode));
        MutableBytes body = record.subspan(sizeof(head));
        std::size_t left = std::min<std::size_t>(le16_to_cpu(head.body_len), body.size());
        while (left >= sizeof(uhsfs_tlv)) {
            const auto tlv_head = load<uhsfs_tlv>(body);
            const std::size_t size = sizeof(tlv_head) + padded(le16_to_cpu(tlv_head.len));
            const std::uint16_t type = le16_to_cpu(tlv_head.type);
            if (size > left || type == 0 || type >= UHSFS_TLV_TYPES)
                break;
            tlv(type, body.subspan(sizeof(tlv_head), le16_to_cpu(tlv_head.len)), symlink);
            zero(body.subspan(sizeof(tlv_head) + le16_to_cpu(tlv_head.len),
                              size - sizeof(tlv_head) - le16_to_cpu(tlv_head.len)));
            body = body.subspan(size);
            left -= size;
        }
        zero(body);
    });
}

void Cleaner::slot_block(MutableBytes block) {
    for (std::size_t at = 0; at + geo_.slot_size <= block.size(); at += geo_.slot_size)
        slot(block.subspan(at, geo_.slot_size));
}

// ---- buckets -------------------------------------------------------------------------------

void Cleaner::bucket(MutableBytes bytes) {
    const auto header = load<uhsfs_header>(bytes);

    if (le32_to_cpu(header.magic) != UHSFS_TAG_BUCKET || le64_to_cpu(header.fsid) != geo_.fsid) {
        zero(bytes);
        return;
    }
    change_record(bytes, offsetof(uhsfs_bucket, entries), [&](MutableBytes record) {
        const auto head = load<uhsfs_bucket>(record);
        MutableBytes entries = record.subspan(offsetof(uhsfs_bucket, entries));
        std::size_t left = std::min<std::size_t>(le16_to_cpu(head.used), entries.size());
        while (left >= sizeof(uhsfs_entry)) {
            const auto entry = load<uhsfs_entry>(entries);
            const std::size_t size = uhsfs_dirent_size(entry.len);
            if (size > left || entry.len == 0)
                break;
            const MutableBytes own = entries.first(size);
            const MutableBytes name = own.subspan(sizeof(entry), entry.len);
            const std::string old(chars(name));
            name_at(own, sizeof(entry), le64_to_cpu(head.h.owner_ino),
                    le32_to_cpu(head.h.owner_gen), entry.len, nullptr);
            if (old != chars(name)) {
                const std::uint64_t cookie =
                    uhsfs_cookie_make(uhsfs_dir_hash(&geo_, name.data(), entry.len),
                                      uhsfs_cookie_tie(le64_to_cpu(entry.cookie)));
                const __le64 raw = cpu_to_le64(cookie);
                std::memcpy(own.data() + offsetof(uhsfs_entry, cookie), &raw, sizeof(raw));
            }
            zero(own.subspan(sizeof(entry) + entry.len));
            entries = entries.subspan(size);
            left -= size;
        }
        zero(entries);
    });
}

// ---- names trees ---------------------------------------------------------------------------

std::optional<std::uint64_t> Cleaner::names_leaf(MutableBytes bytes, const KeyRange &range) {
    std::optional<std::uint64_t> last;

    change_record(bytes, UHSFS_TREE_HEADER, [&](MutableBytes record) {
        const auto head = load<uhsfs_tree_node>(record);
        const MutableBytes payload = record.subspan(UHSFS_TREE_HEADER);
        std::vector<std::vector<std::uint8_t>> names;
        std::size_t at = 0;
        const std::size_t used = std::min<std::size_t>(le16_to_cpu(head.used), payload.size());
        while (at + sizeof(uhsfs_name) <= used) {
            const auto name = load<uhsfs_name>(payload.subspan(at));
            const std::size_t size = uhsfs_name_size(name.len);
            if (size > used - at || name.len == 0)
                break;
            const MutableBytes own = payload.subspan(at, size);
            name_at(own, sizeof(name), le64_to_cpu(name.parent_ino), le32_to_cpu(name.parent_gen),
                    name.len, &range);
            zero(own.subspan(sizeof(name) + name.len));
            names.emplace_back(own.begin(), own.end());
            at += size;
        }
        // New names have new keys, which order the leaf.
        const auto claim = [](const std::vector<std::uint8_t> &raw) {
            uhsfs_claim decoded = {};
            uhsfs_name_decode(reinterpret_cast<const uhsfs_name *>(raw.data()), &decoded);
            return decoded;
        };
        if (names_ != nullptr)
            std::ranges::stable_sort(names, [&](const auto &a, const auto &b) {
                const uhsfs_claim first = claim(a);
                const uhsfs_claim second = claim(b);
                return uhsfs_names_compare(&geo_, &first, &second) < 0;
            });
        at = 0;
        for (const auto &name : names) {
            std::memcpy(payload.data() + at, name.data(), name.size());
            at += name.size();
        }
        zero(payload.subspan(at));
        if (!names.empty()) {
            const uhsfs_claim highest = claim(names.back());
            last = uhsfs_names_key(&geo_, &highest);
        }
    });
    return last;
}

// ---- attributes ----------------------------------------------------------------------------

void Cleaner::xattr_stream(MutableBytes stream) {
    while (stream.size() >= sizeof(uhsfs_xattr)) {
        const auto entry = load<uhsfs_xattr>(stream);
        const std::uint64_t value = le32_to_cpu(entry.value_len);
        const std::uint64_t head = sizeof(entry) + entry.name_len;
        if (head + value > stream.size())
            break;
        const bool acl =
            entry.space == UHSFS_XATTR_ACL_ACCESS || entry.space == UHSFS_XATTR_ACL_DEFAULT;
        if (entry.space == 0 || entry.space >= UHSFS_XATTR_SPACES || entry.reserved != 0 ||
            acl != (entry.name_len == 0))
            break;
        if (!acl)
            zero(stream.subspan(head, value));
        stream = stream.subspan(std::min<std::size_t>(padded(head + value), stream.size()));
    }
    zero(stream);
}

void Cleaner::xattr_block(MutableBytes bytes, Bytes cleaned_stream, std::size_t from) {
    constexpr std::size_t head = offsetof(uhsfs_xattr_block, bytes);

    change_record(bytes, head, [&](MutableBytes record) {
        const auto block = load<uhsfs_xattr_block>(record);
        const MutableBytes payload = record.subspan(head);
        if (block.level != 0) {
            // Numbers of blocks.
            zero(payload.subspan(
                std::min(payload.size(), le16_to_cpu(block.count) * sizeof(block.index[0]))));
            return;
        }
        zero(payload);
        if (from < cleaned_stream.size())
            std::memcpy(payload.data(), cleaned_stream.data() + from,
                        std::min(payload.size(), cleaned_stream.size() - from));
    });
}

}  // namespace uhsfs::ctl
