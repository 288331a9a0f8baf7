// SPDX-License-Identifier: GPL-2.0
#include "cleaner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

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

// The checksum that stands in a record, and the one that belongs there.
bool sealed(MutableBytes record) {
    const auto stored = load<uhsfs_header>(record).crc;
    std::vector<std::uint8_t> copy(record.begin(), record.end());

    uhsfs_record_seal(copy.data(), copy.size());
    return load<uhsfs_header>(copy).crc == stored;
}

// Runs change(record) and seals what was sealed. A checksum that was wrong must not become
// right by chance.
template <typename Change>
void change_record(MutableBytes record, Change change) {
    const bool sound = sealed(record);

    change(record, sound);
    if (sound) {
        uhsfs_record_seal(record.data(), record.size());
    } else if (sealed(record)) {
        record[offsetof(uhsfs_header, crc)] ^= 1;
    }
}

std::string_view chars(Bytes bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

}  // namespace

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
    if (range != nullptr)
        fits = [&](std::string_view made) {
            const uhsfs_claim claim = {.parent_ino = parent_ino,
                                       .parent_gen = parent_gen,
                                       .len = static_cast<u32>(made.size()),
                                       .name_seq = 0,
                                       .name = reinterpret_cast<const u8 *>(made.data())};
            const std::uint64_t key = uhsfs_names_key(&geo_, &claim);
            return key >= range->low && key <= range->high;
        };
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
    change_record(bytes, [&](MutableBytes record, bool) {
        const auto head = load<uhsfs_slot>(record);
        const bool symlink = uhsfs_is_lnk(le16_to_cpu(head.mode));
        MutableBytes body = record.subspan(sizeof(head));
        std::size_t left = std::min<std::size_t>(le16_to_cpu(head.body_len), body.size());
        if (le32_to_cpu(head.h.magic) != UHSFS_TAG_SLOT) {
            // Garbage that was there before the chunk was.
            zero(record);
            return;
        }
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
    change_record(bytes, [&](MutableBytes record, bool) {
        const auto head = load<uhsfs_bucket>(record);
        MutableBytes entries = record.subspan(offsetof(uhsfs_bucket, entries));
        std::size_t left = std::min<std::size_t>(le16_to_cpu(head.used), entries.size());
        if (le32_to_cpu(head.h.magic) != UHSFS_TAG_BUCKET) {
            zero(record);
            return;
        }
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

void Cleaner::names_node(MutableBytes bytes, const KeyRange &range) {
    change_record(bytes, [&](MutableBytes record, bool sound) {
        const auto head = load<uhsfs_tree_node>(record);
        const MutableBytes payload = record.subspan(UHSFS_TREE_HEADER);
        std::vector<std::vector<std::uint8_t>> names;
        std::size_t at = 0;
        const std::size_t used = std::min<std::size_t>(le16_to_cpu(head.used), payload.size());
        if (le32_to_cpu(head.h.magic) != UHSFS_TAG_NAMES) {
            zero(record);
            return;
        }
        if (head.level != 0)
            return;  // keys and blocks; keys are hashes of names in the range, not of one
        while (at + sizeof(uhsfs_name) <= used) {
            const auto name = load<uhsfs_name>(payload.subspan(at));
            const std::size_t size = uhsfs_name_size(name.len);
            if (size > used - at || name.len == 0)
                break;
            const MutableBytes own = payload.subspan(at, size);
            name_at(own, sizeof(name), le64_to_cpu(name.parent_ino), le32_to_cpu(name.parent_gen),
                    name.len, sound ? &range : nullptr);
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
    });
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
        if (!acl)
            zero(stream.subspan(head, value));
        stream = stream.subspan(std::min<std::size_t>(padded(head + value), stream.size()));
    }
    zero(stream);
}

void Cleaner::xattr_block(MutableBytes bytes, Bytes cleaned_stream, std::size_t from) {
    change_record(bytes, [&](MutableBytes record, bool) {
        const auto head = load<uhsfs_xattr_block>(record);
        const MutableBytes payload = record.subspan(offsetof(uhsfs_xattr_block, bytes));
        if (le32_to_cpu(head.h.magic) == UHSFS_TAG_XATTR && head.level != 0)
            return;  // an index: numbers of blocks
        zero(payload);
        if (from < cleaned_stream.size())
            std::memcpy(payload.data(), cleaned_stream.data() + from,
                        std::min(payload.size(), cleaned_stream.size() - from));
    });
}

}  // namespace uhsfs::ctl
