// SPDX-License-Identifier: GPL-2.0
/*
 * Extended attributes. Input: a head, operations (2 bytes each, 12 of them), then a stream of
 * any length or a block.
 *
 * A stream that is accepted is the same when its attributes are set one by one in any order,
 * and takes further changes as a map does. A block that is accepted is built again from what
 * it holds.
 */
#include <algorithm>
#include <map>

#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::uint64_t where = 55;
constexpr std::size_t operations = 12;
constexpr std::size_t longest = 6000;

struct Head {
    std::uint8_t kind;  // 0 stream, 1 block of a stream, 2 index
    std::uint8_t part;
    std::uint16_t flip;
    std::uint32_t bytes;
    std::uint16_t more;  // room for changes
    std::uint8_t bit;
    std::uint8_t reserved;
    std::uint8_t operation[operations][2];
};

using Key = std::pair<u8, std::string>;
using Model = std::map<Key, std::string>;

std::string text_of(const u8 *bytes, std::size_t size) {
    return size == 0 ? std::string() : std::string(reinterpret_cast<const char *>(bytes), size);
}

uhsfs_xattr_item item_of(const Key &key, const std::string &value) {
    return {.space = key.first,
            .name_len = static_cast<u8>(key.second.size()),
            .value_len = static_cast<u32>(value.size()),
            .name = reinterpret_cast<const u8 *>(key.second.data()),
            .value = reinterpret_cast<const u8 *>(value.data())};
}

Model attributes_of(const u8 *stream, u32 len) {
    Model model;
    uhsfs_xattr_item item = {};
    u32 at = 0;

    while (uhsfs_xattr_next(stream, len, &at, &item))
        model[{item.space, text_of(item.name, item.name_len)}] =
            text_of(item.value, item.value_len);
    return model;
}

void operate(std::vector<u8> &stream, u32 &len, u32 capacity, const std::uint8_t *operation,
             Model *model) {
    const auto space = static_cast<u8>(1 + operation[0] / 8 % 6);
    const bool acl = space == UHSFS_XATTR_ACL_ACCESS || space == UHSFS_XATTR_ACL_DEFAULT;
    const Key key = {
        space, acl && operation[1] % 8 != 7
                   ? std::string()
                   : std::string(operation[1] % 8, static_cast<char>('a' + operation[1] / 64))};
    const std::string value(static_cast<std::size_t>(operation[1]) * (operation[0] / 64), 'v');
    const uhsfs_xattr_item item = item_of(key, value);
    const bool there = model != nullptr && model->contains(key);
    const u32 before = len;
    uhsfs_xattr_item found = {};
    int err = uhsfs_xattr_find(stream.data(), len, space, item.name, item.name_len, &found);

    if (model != nullptr)
        MUST((err == 0) == there, "find: {}", err);
    if (operation[0] % 2 == 0) {
        err = uhsfs_xattr_remove(stream.data(), &len, space, item.name, item.name_len);
        if (model != nullptr) {
            MUST((err == 0) == there, "remove: {}", err);
            model->erase(key);
        }
        return;
    }
    const u32 flags = operation[0] / 2 % 4;
    err = uhsfs_xattr_set(stream.data(), &len, capacity, &item, flags);
    MUST(err == 0 || len == before, "set fails with {} and changes the length", err);
    MUST(len <= std::max(before, capacity), "{} bytes of {}", len, capacity);
    if (model == nullptr)
        return;
    if (err == 0)
        (*model)[key] = value;
    else if (err == -EEXIST)
        MUST(there && (flags & UHSFS_XATTR_CREATE) != 0, "set: {}", err);
    else if (err == -ENODATA)
        MUST(!there && (flags & UHSFS_XATTR_REPLACE) != 0, "set: {}", err);
    else if (err == -EINVAL)
        MUST(!uhsfs_xattr_name_ok(space, item.name, item.name_len), "set: {}", err);
    else
        MUST(err == -ENOSPC, "set: {}", err);
}

void run_stream(const Head &head, Bytes input) {
    const auto size = static_cast<u32>(std::min(input.size(), longest));
    std::vector<u8> stream(input.begin(), input.begin() + size);
    uhsfs_fault fault = {};
    const int err = uhsfs_xattr_check(stream.data(), size, "fuzz", 1, &fault);
    const u32 capacity = size + head.more % 2048U;
    u32 len = size;
    Model model = attributes_of(stream.data(), size);

    if (err != 0) {
        MUST_SAY_WHY(err, fault);
        stream.resize(capacity);
        for (const auto &operation : head.operation)
            operate(stream, len, capacity, operation, nullptr);
        return;
    }
    // Last one first.
    std::vector<u8> again(size);
    u32 made = 0;
    for (auto i = model.rbegin(); i != model.rend(); ++i) {
        const uhsfs_xattr_item item = item_of(i->first, i->second);
        MUST(uhsfs_xattr_set(again.data(), &made, size, &item, UHSFS_XATTR_CREATE) == 0, "set");
    }
    MUST(made == size && again == stream, "setting the same gives another stream");
    stream.resize(capacity);
    for (const auto &operation : head.operation) {
        operate(stream, len, capacity, operation, &model);
        MUST(attributes_of(stream.data(), len) == model, "operation {} {}", operation[0],
             operation[1]);
    }
    MUST(uhsfs_xattr_check(stream.data(), len, "fuzz", 1, &fault) == 0, "changed: {}", text(fault));
    MUST(std::all_of(stream.begin() + len, stream.end(), [](u8 byte) { return byte == 0; }),
         "bytes behind the stream");
}

void run_block(const Head &head, Bytes input) {
    const uhsfs_geometry geo = geometry(0);
    const uhsfs_xattr_owner owner = {.ino = 7, .gen = 3};
    const u32 bytes = 1 + head.bytes % (UHSFS_XATTR_BYTES_MAX);
    const u32 part = head.part % uhsfs_xattr_data_blocks(bytes);
    Block block = {};
    Block again = {};
    uhsfs_fault fault = {};
    const auto check = [&] {
        return head.kind % 3 == 1 ? uhsfs_xattr_data_check(block.as<uhsfs_xattr_block>(), &geo,
                                                           &owner, where, bytes, part, &fault)
                                  : uhsfs_xattr_index_check(block.as<uhsfs_xattr_block>(), &geo,
                                                            &owner, where, bytes, &fault);
    };

    Reader(input).copy(block.bytes, sizeof(block));
    const int err = check();
    if (err != 0) {
        MUST_SAY_WHY(err, fault);
        return;
    }
    const u64 seq = le64_to_cpu(block.as<uhsfs_xattr_block>()->h.seq);
    if (head.kind % 3 == 1) {
        std::vector<u8> stream(bytes);
        uhsfs_xattr_collect(stream.data(), bytes, part, block.as<uhsfs_xattr_block>());
        uhsfs_xattr_build(again.as<uhsfs_xattr_block>(), &geo, &owner, where, seq, stream.data(),
                          bytes, part);
    } else {
        std::vector<u64> data(uhsfs_xattr_data_blocks(bytes));
        for (u32 i = 0; i < data.size(); i++)
            data[i] = uhsfs_xattr_index_get(block.as<uhsfs_xattr_block>(), i);
        if (data.size() < 2)
            return;
        uhsfs_xattr_build_index(again.as<uhsfs_xattr_block>(), &geo, &owner, where, seq,
                                data.data(), static_cast<u32>(data.size()));
    }
    MUST(std::memcmp(&again, &block, sizeof(block)) == 0, "building it again gives another block");
    block.bytes[head.flip % sizeof(block)] ^= static_cast<std::uint8_t>(1U << head.bit % 8);
    MUST(check() == -EUCLEAN, "bit {} of byte {} flipped is accepted", head.bit % 8,
         head.flip % sizeof(block));
}

void put(const Head &head, const std::uint8_t *bytes, std::size_t size,
         std::vector<std::uint8_t> &input) {
    input.resize(sizeof(head) + size);
    std::memcpy(input.data(), &head, sizeof(head));
    std::copy(bytes, bytes + size, input.data() + sizeof(head));
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const auto head = reader.get<Head>();

    if (head.kind % 3 == 0)
        run_stream(head, reader.take(reader.left()));
    else
        run_block(head, reader.take(reader.left()));
}

void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t most) {
    Reader reader(input);
    auto head = reader.get<Head>();
    auto *bytes = reinterpret_cast<std::uint8_t *>(&head);

    for (std::uint64_t n = random.below(4); n > 0; n--)
        bytes[random.below(sizeof(head))] = static_cast<std::uint8_t>(random.next());
    if (head.kind % 3 == 0) {
        const Bytes rest = reader.take(reader.left());
        std::vector<std::uint8_t> stream(rest.begin(), rest.end());
        if (random.one_in(6))
            stream = random_xattrs(random, 1 + random.below(1000));
        else
            mutate_bytes(stream, std::min(longest, most - std::min(most, sizeof(head))));
        // Streams are whole words: padding was trimmed, or is cut here.
        if (!random.one_in(8))
            stream.resize(round_up(stream.size(), std::size_t{8}));
        // A last byte that is not zero keeps the length; zeros at the end are trimmed.
        put(head, stream.data(), stream.size(), input);
        return;
    }
    Block block = {};
    const uhsfs_geometry geo = geometry(0);
    reader.copy(block.bytes, sizeof(block));
    identify(geo, block.bytes, UHSFS_TAG_XATTR, {.block = where, .owner_ino = 7, .owner_gen = 3});
    if (random.one_in(8))
        mutate_bytes(block.bytes, sizeof(block));
    else
        mutate_deep(random, geo, block.bytes);
    if (!random.one_in(8)) {
        auto *raw = block.as<uhsfs_xattr_block>();
        const u32 size = 1 + head.bytes % UHSFS_XATTR_BYTES_MAX;
        const u32 parts = uhsfs_xattr_data_blocks(size);
        const u32 part = head.part % parts;
        const bool data = head.kind % 3 == 1;
        identify(geo, block.bytes, UHSFS_TAG_XATTR,
                 {.block = where, .owner_ino = 7, .owner_gen = 3});
        raw->h.flags = 0;
        raw->level = cpu_to_le16(data ? 0 : 1);
        raw->count = cpu_to_le16(data ? 0 : static_cast<u16>(parts));
        raw->position = cpu_to_le32(data ? part : 0);
        const u32 used = std::min(size - part * UHSFS_XATTR_PAYLOAD, u32{UHSFS_XATTR_PAYLOAD});
        raw->used = cpu_to_le32(data ? used : 0);
        raw->reserved = 0;
        if (data)
            std::memset(raw->bytes + used, 0, sizeof(raw->bytes) - used);
        for (u32 i = 0; !data && i < UHSFS_XATTR_INDEX_MAX; i++)
            if (i >= parts)
                raw->index[i] = 0;
            else if (raw->index[i] == 0)
                raw->index[i] = cpu_to_le64(1000 + i);
    }
    if (!random.one_in(16))
        seal_block(geo, block.bytes);
    put(head, block.bytes, sizeof(block), input);
}

void seeds(const SeedSink &sink) {
    Random random(3);

    for (std::uint8_t number = 0; number < 10; number++) {
        Head head = {};
        std::vector<std::uint8_t> input;
        head.kind = number % 3;
        head.bytes = number < 5 ? 2999 : 3 * UHSFS_XATTR_PAYLOAD - 8;
        head.part = number / 3;
        head.more = 500;
        for (auto &operation : head.operation)
            for (auto &byte : operation)
                byte = static_cast<std::uint8_t>(random.next());
        if (head.kind == 0) {
            std::vector<u8> stream(400);
            u32 len = 0;
            for (u8 i = 0; i <= number; i++) {
                const Key key = {UHSFS_XATTR_USER, std::string(1U + i % 7, 'a')};
                const std::string value(8U * i + 7, 'v');
                const uhsfs_xattr_item item = item_of(key, value);
                (void)uhsfs_xattr_set(stream.data(), &len, 400, &item, 0);
            }
            put(head, stream.data(), len, input);
        } else {
            Block block = {};
            const uhsfs_geometry geo = geometry(0);
            const uhsfs_xattr_owner owner = {.ino = 7, .gen = 3};
            const u32 bytes = 1 + head.bytes;
            const std::vector<u8> stream(bytes, 's');
            const u64 data[] = {60, 61, 62};
            head.part = static_cast<u8>(head.part % uhsfs_xattr_data_blocks(bytes));
            if (head.kind == 1)
                uhsfs_xattr_build(block.as<uhsfs_xattr_block>(), &geo, &owner, where, 1,
                                  stream.data(), bytes, head.part);
            else
                uhsfs_xattr_build_index(block.as<uhsfs_xattr_block>(), &geo, &owner, where, 1, data,
                                        3);
            put(head, block.bytes, sizeof(block), input);
        }
        sink(fmt::format("{}-{}",
                         head.kind == 0   ? "stream"
                         : head.kind == 1 ? "block"
                                          : "index",
                         number),
             input);
    }
}

}  // namespace uhsfs::fuzz
