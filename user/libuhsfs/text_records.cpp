// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Slots, trees, buckets and attributes: structures with records of varying length. Their
 * lengths are believed only as far as the bytes at hand go.
 */
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "libuhsfs/json.hpp"
#include "libuhsfs/text.hpp"

namespace uhsfs {

namespace {

constexpr std::size_t record_align = 8;

// A structure at the start of the bytes, of whatever alignment; false: they are too few.
template <typename T>
bool take(Bytes bytes, T &to) {
    if (bytes.size() < sizeof(T))
        return false;
    std::memcpy(&to, bytes.data(), sizeof(T));
    return true;
}

std::string_view chars(Bytes bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

// `count` bytes behind the first `skip`, or as many as there are.
Bytes part(Bytes bytes, std::size_t skip, std::size_t count) {
    skip = std::min(skip, bytes.size());
    return bytes.subspan(skip, std::min(count, bytes.size() - skip));
}

Bytes after(Bytes bytes, std::size_t skip) { return part(bytes, skip, bytes.size()); }

Value truncated(Bytes bytes) {
    return Value::object().add("cut-off", Value::word(hex_string(chars(bytes))));
}

Value describe_name(Bytes bytes) {
    Value value = Value::object();
    uhsfs_name name = {};

    if (!take(bytes, name))
        return truncated(bytes);
    value.add("parent-ino", le64_to_cpu(name.parent_ino));
    value.add("parent-generation", le32_to_cpu(name.parent_gen));
    value.add("name-seq", seq_value(le64_to_cpu(name.name_seq)));
    value.add("length", name.len);
    value.add("name", chars(part(bytes, sizeof(name), name.len)));
    return value;
}

std::string_view intent_word(std::uint8_t op) {
    switch (op) {
        case UHSFS_INTENT_EXCHANGE:
            return "exchange";
        case UHSFS_INTENT_WHITEOUT:
            return "whiteout";
        default:
            return "unknown";
    }
}

Value describe_intent(Bytes bytes) {
    Value value = Value::object();
    uhsfs_intent intent = {};

    if (!take(bytes, intent))
        return truncated(bytes);
    value.add("operation", Value::number(intent.op, intent_word(intent.op)));
    value.add("peer-ino", le64_to_cpu(intent.peer_ino));
    value.add("peer-generation", le32_to_cpu(intent.peer_gen));
    value.add("parent-ino", le64_to_cpu(intent.parent_ino));
    value.add("parent-generation", le32_to_cpu(intent.parent_gen));
    value.add("name-seq", seq_value(le64_to_cpu(intent.name_seq)));
    value.add("length", intent.len);
    value.add("name", chars(part(bytes, sizeof(intent), intent.len)));
    return value;
}

Value describe_names_root(Bytes bytes) {
    Value value = Value::object();
    uhsfs_names_root root = {};

    if (!take(bytes, root))
        return truncated(bytes);
    value.add("block", le64_to_cpu(root.block));
    value.add("count", le32_to_cpu(root.count));
    value.add("depth", le16_to_cpu(root.depth));
    return value;
}

Value describe_dir(Bytes bytes) {
    Value value = Value::object();
    uhsfs_dir_root root = {};

    if (!take(bytes, root))
        return truncated(bytes);
    value.add("buckets", le32_to_cpu(root.buckets));
    value.add("overflow", le32_to_cpu(root.overflow));
    value.add("entries", le64_to_cpu(root.entries));
    value.add("subdirs", le32_to_cpu(root.subdirs));
    value.add("reserved", le32_to_cpu(root.reserved));
    return value;
}

Value describe_device(Bytes bytes) {
    Value value = Value::object();
    uhsfs_device device = {};

    if (!take(bytes, device))
        return truncated(bytes);
    value.add("major", le32_to_cpu(device.major));
    value.add("minor", le32_to_cpu(device.minor));
    return value;
}

std::string_view space_word(std::uint8_t space) {
    switch (space) {
        case UHSFS_XATTR_USER:
            return "user";
        case UHSFS_XATTR_TRUSTED:
            return "trusted";
        case UHSFS_XATTR_SECURITY:
            return "security";
        case UHSFS_XATTR_ACL_ACCESS:
            return "acl-access";
        case UHSFS_XATTR_ACL_DEFAULT:
            return "acl-default";
        default:
            return "unknown";
    }
}

Value describe_xattrs(Bytes bytes) {
    Value entries = Value::array();

    while (!bytes.empty()) {
        uhsfs_xattr entry = {};
        if (!take(bytes, entry)) {
            entries.push(truncated(bytes));
            break;
        }
        const std::uint64_t length = le32_to_cpu(entry.value_len);
        const std::uint64_t size = sizeof(entry) + entry.name_len + length;
        const Bytes data = part(bytes, sizeof(entry) + entry.name_len, length);
        Value value = Value::object();
        value.add("space", Value::word(space_word(entry.space)));
        value.add("name", chars(part(bytes, sizeof(entry), entry.name_len)));
        value.add("length", length);
        value.add("value", Value::word(hex_string(chars(data))));
        entries.push(std::move(value));
        bytes = after(bytes, (size + record_align - 1) / record_align * record_align);
    }
    return entries;
}

Value describe_xattr_root(Bytes bytes) {
    Value value = Value::object();
    uhsfs_xattr_root root = {};

    if (!take(bytes, root))
        return truncated(bytes);
    value.add("block", le64_to_cpu(root.block));
    value.add("bytes", le32_to_cpu(root.bytes));
    value.add("depth", le16_to_cpu(root.depth));
    return value;
}

Value describe_inline(Bytes bytes) {
    Value value = Value::object();

    value.add("bytes", bytes.size());
    value.add("data", Value::string(chars(bytes)));
    return value;
}

Value describe_extents(Bytes bytes, std::size_t count) {
    Value list = Value::array();
    uhsfs_extent raw = {};

    for (std::size_t i = 0; i < count && take(after(bytes, i * sizeof(raw)), raw); i++) {
        uhsfs_ext ext = {};
        uhsfs_extent_decode(&raw, &ext);
        list.push(describe(ext));
    }
    return list;
}

Value describe_extent_root(Bytes bytes) {
    Value value = Value::object();
    uhsfs_extent_root root = {};

    if (!take(bytes, root))
        return truncated(bytes);
    value.add("block", le64_to_cpu(root.block));
    value.add("depth", le32_to_cpu(root.depth));
    value.add("count", le64_to_cpu(root.count));
    return value;
}

// The key and the value of one record of a slot.
std::pair<std::string, Value> describe_tlv(std::uint16_t type, Bytes bytes) {
    switch (type) {
        case UHSFS_TLV_NAME:
            return {"name", describe_name(bytes)};
        case UHSFS_TLV_INTENT:
            return {"intent", describe_intent(bytes)};
        case UHSFS_TLV_NAMES:
            return {"names-tree", describe_names_root(bytes)};
        case UHSFS_TLV_DIR:
            return {"directory", describe_dir(bytes)};
        case UHSFS_TLV_DEVICE:
            return {"device", describe_device(bytes)};
        case UHSFS_TLV_XATTRS:
            return {"xattrs", describe_xattrs(bytes)};
        case UHSFS_TLV_XATTR_ROOT:
            return {"xattr-blocks", describe_xattr_root(bytes)};
        case UHSFS_TLV_INLINE:
            return {"inline", describe_inline(bytes)};
        case UHSFS_TLV_EXTENTS:
            return {"extents", describe_extents(bytes, bytes.size() / sizeof(uhsfs_extent))};
        case UHSFS_TLV_EXTENT_ROOT:
            return {"extent-tree", describe_extent_root(bytes)};
        default:
            return {fmt::format("record-{}", type), Value::word(hex_string(chars(bytes)))};
    }
}

// The records of a slot. A damaged one may have a type twice, and end within a record.
void add_tlvs(Value &value, Bytes body) {
    while (!body.empty()) {
        uhsfs_tlv head = {};
        if (!take(body, head)) {
            value.add("cut-off", Value::word(hex_string(chars(body))));
            return;
        }
        const std::size_t len = le16_to_cpu(head.len);
        const Bytes bytes = part(body, sizeof(head), len);
        auto [key, record] = describe_tlv(le16_to_cpu(head.type), bytes);
        const std::string plain = key;
        for (unsigned times = 2; value.find(key) != nullptr; times++)
            key = fmt::format("{}-{}", plain, times);
        value.add(key, std::move(record));
        if (bytes.size() < len)
            value.add("cut-off-bytes", len - bytes.size());
        body = after(body, sizeof(head) + (len + record_align - 1) / record_align * record_align);
    }
}

}  // namespace

Value describe_slot(const uhsfs_geometry &geo, Bytes bytes) {
    Value v = Value::object();
    uhsfs_slot s = {};

    bytes = bytes.first(std::min<std::size_t>(bytes.size(), geo.slot_size));
    if (!take(bytes, s))
        return truncated(bytes);
    const std::uint16_t mode = le16_to_cpu(s.mode);
    const std::uint32_t flags = le32_to_cpu(s.flags);
    const auto time = [](__le64 ns) {
        return time_value(static_cast<std::int64_t>(le64_to_cpu(ns)));
    };
    v.add("header", describe(s.h));
    v.add("block-seq", seq_value(le64_to_cpu(s.block_seq)));
    v.add("nonce", hex_value(le64_to_cpu(s.nonce)));
    v.add("name-seq-max", seq_value(le64_to_cpu(s.name_seq_max)));
    v.add("state", Value::number(s.state, state_word(s.state)));
    v.add("type", Value::word(s.state == UHSFS_SLOT_FREE ? "none" : mode_word(mode)));
    v.add("mode", mode_value(mode));
    v.add("nlink", le32_to_cpu(s.nlink));
    v.add("uid", le32_to_cpu(s.uid));
    v.add("gid", le32_to_cpu(s.gid));
    v.add("project", le32_to_cpu(s.projid));
    v.add("size", size_value(le64_to_cpu(s.size)));
    v.add("blocks", blocks_value(le64_to_cpu(s.blocks)));
    v.add("access-time", time(s.atime));
    v.add("modification-time", time(s.mtime));
    v.add("change-time", time(s.ctime));
    v.add("birth-time", time(s.btime));
    v.add("flags", flags, inode_flags_text(flags));
    v.add("version", le64_to_cpu(s.version));
    v.add("previous-image", le64_to_cpu(s.prev_image));
    v.add("body-length", le16_to_cpu(s.body_len));
    v.add("reserved-zero", s.reserved0 == 0 && all_zero(s.reserved1, sizeof(s.reserved1)));
    add_tlvs(v, part(bytes, sizeof(s), le16_to_cpu(s.body_len)));
    return v;
}

namespace {

Bytes payload(const void *start, std::size_t size) {
    return {static_cast<const std::uint8_t *>(start), size};
}

Value describe_refs(const uhsfs_tree_node &node) {
    Value list = Value::array();
    const std::size_t count = std::min<std::size_t>(le16_to_cpu(node.count), UHSFS_TREE_NODE_MAX);

    for (std::size_t i = 0; i < count; i++) {
        Value ref = Value::object();
        ref.add("key", le64_to_cpu(node.ref[i].key));
        ref.add("block", le64_to_cpu(node.ref[i].block));
        list.push(std::move(ref));
    }
    return list;
}

Value describe_leaf_names(Bytes bytes, std::size_t count) {
    Value list = Value::array();

    for (std::size_t i = 0; i < count && !bytes.empty(); i++) {
        uhsfs_name name = {};
        list.push(describe_name(bytes));
        if (!take(bytes, name))
            break;
        bytes = after(bytes, uhsfs_name_size(name.len));
    }
    return list;
}

}  // namespace

Value describe(const uhsfs_tree_node &node) {
    Value value = Value::object();
    const std::uint16_t count = le16_to_cpu(node.count);
    const Bytes bytes = payload(node.bytes, sizeof(node.bytes));

    value.add("header", describe(node.h));
    value.add("level", le16_to_cpu(node.level));
    value.add("count", count);
    value.add("used", le16_to_cpu(node.used));
    value.add("reserved-zero", node.reserved0 == 0 && node.reserved1 == 0);
    if (node.level != 0)
        value.add("children", describe_refs(node));
    else if (le32_to_cpu(node.h.magic) == UHSFS_TAG_NAMES)
        value.add("names", describe_leaf_names(part(bytes, 0, le16_to_cpu(node.used)), count));
    else
        value.add("extents", describe_extents(bytes, count));
    return value;
}

Value describe(const uhsfs_bucket &bucket) {
    Value value = Value::object();
    Value entries = Value::array();
    const std::uint32_t next = le32_to_cpu(bucket.next);
    Bytes bytes = payload(bucket.entries, sizeof(bucket.entries));

    bytes = part(bytes, 0, le16_to_cpu(bucket.used));
    value.add("header", describe(bucket.h));
    value.add("bucket", le32_to_cpu(bucket.bucket));
    value.add("position", le32_to_cpu(bucket.position));
    value.add("next", next, next == 0 ? "none" : "");
    value.add("count", le16_to_cpu(bucket.count));
    value.add("used", le16_to_cpu(bucket.used));
    value.add("previous-image", le64_to_cpu(bucket.prev_image));
    while (!bytes.empty()) {
        uhsfs_entry raw = {};
        Value entry = Value::object();
        if (!take(bytes, raw)) {
            entries.push(truncated(bytes));
            break;
        }
        entry.add("cookie", hex_value(le64_to_cpu(raw.cookie)));
        entry.add("ino", le64_to_cpu(raw.ino));
        entry.add("generation", le32_to_cpu(raw.gen));
        entry.add("type", Value::word(dtype_word(raw.type)));
        entry.add("name", chars(part(bytes, sizeof(raw), raw.len)));
        entries.push(std::move(entry));
        bytes = after(bytes, uhsfs_dirent_size(raw.len));
    }
    value.add("entries", std::move(entries));
    return value;
}

Value describe(const uhsfs_xattr_block &block) {
    Value value = Value::object();
    const std::uint32_t used = le32_to_cpu(block.used);

    value.add("header", describe(block.h));
    value.add("level", le16_to_cpu(block.level));
    value.add("count", le16_to_cpu(block.count));
    value.add("used", used);
    value.add("position", le32_to_cpu(block.position));
    value.add("reserved", le32_to_cpu(block.reserved));
    if (block.level != 0) {
        Value list = Value::array();
        const std::size_t count =
            std::min<std::size_t>(le16_to_cpu(block.count), UHSFS_XATTR_INDEX_MAX);
        for (std::size_t i = 0; i < count; i++)
            list.push(Value::number(le64_to_cpu(block.index[i])));
        value.add("blocks", std::move(list));
    } else {
        // A piece of a stream: entries may begin before and end behind it.
        const Bytes bytes = part(payload(block.bytes, sizeof(block.bytes)), 0, used);
        value.add("bytes", Value::word(hex_string(chars(bytes))));
    }
    return value;
}

namespace {

template <typename T>
Value describe_as(Bytes block) {
    auto record = std::make_unique<T>();

    static_assert(sizeof(T) == block_size);
    std::memcpy(record.get(), block.data(), sizeof(T));
    return describe(*record);
}

Value describe_slots(const uhsfs_geometry &geo, Bytes block) {
    Value value = Value::object();
    Value slots = Value::array();

    for (std::size_t at = 0; at + geo.slot_size <= block.size(); at += geo.slot_size)
        slots.push(describe_slot(geo, block.subspan(at, geo.slot_size)));
    value.add("slots", std::move(slots));
    return value;
}

}  // namespace

Result<Value> describe_block(const uhsfs_geometry &geo, Bytes block) {
    uhsfs_header header = {};

    if (block.size() != block_size || !take(block, header))
        return fail(EINVAL, "block", fmt::format("{} bytes are no block", block.size()));
    if (uhsfs_super_recognise(block.data()))
        return describe_as<uhsfs_super>(block);
    switch (le32_to_cpu(header.magic)) {
        case UHSFS_TAG_SLOT:
            return describe_slots(geo, block);
        case UHSFS_TAG_BUCKET:
            return describe_as<uhsfs_bucket>(block);
        case UHSFS_TAG_EXTENT:
        case UHSFS_TAG_NAMES:
            return describe_as<uhsfs_tree_node>(block);
        case UHSFS_TAG_XATTR:
            return describe_as<uhsfs_xattr_block>(block);
        case UHSFS_TAG_BITMAP:
        case UHSFS_TAG_INTENT:
        case UHSFS_TAG_SUSPECT:
            return describe_as<uhsfs_map_block>(block);
        case UHSFS_TAG_CHUNKS:
            return describe_as<uhsfs_table_block>(block);
        default:
            return fail(EINVAL, "block", "holds no metadata of uhsfs");
    }
}

}  // namespace uhsfs
