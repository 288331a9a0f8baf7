// SPDX-License-Identifier: GPL-2.0
/*
 * Directory buckets. Input: a head, operations (2 bytes each, 16 of them), block.
 *
 * Operations are safe on any block. On one that is accepted they do what a map does, entries
 * written one by one give the same block, and the result of any change is accepted again.
 */
#include <map>
#include <tuple>

#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr std::uint64_t where = 4321;
constexpr std::size_t operations = 16;

struct Head {
    std::uint8_t geometry;
    std::uint8_t bit;
    std::uint16_t flip;
    std::uint8_t bucket;
    std::uint8_t buckets;
    std::uint8_t position;
    std::uint8_t overflow;
    std::uint8_t operation[operations][2];
};

uhsfs_bucket_at place(const Head &head) {
    return {.block = where,
            .dir_ino = 5,
            .dir_gen = 2,
            .bucket = head.bucket,
            .position = head.position,
            .overflow = head.overflow};
}

using Key = std::tuple<std::string, u64, u32>;  // name, ino, gen

std::string name_of(const uhsfs_dirent &e) {
    return {reinterpret_cast<const char *>(e.name), e.len};
}

std::map<Key, u64> entries_of(const uhsfs_bucket &bucket) {
    std::map<Key, u64> entries;
    uhsfs_dirent e = {};

    for (u32 at = 0; uhsfs_bucket_get(&bucket, at, &e); at += uhsfs_dirent_size(e.len))
        entries[{name_of(e), e.ino, e.gen}] = e.cookie;
    return entries;
}

void copy_again(const uhsfs_geometry &geo, const uhsfs_bucket &bucket) {
    Block again = {};
    auto *copy = again.as<uhsfs_bucket>();
    uhsfs_dirent e = {};

    uhsfs_bucket_init(copy, &geo, le64_to_cpu(bucket.h.owner_ino), le32_to_cpu(bucket.h.owner_gen),
                      le32_to_cpu(bucket.bucket), le32_to_cpu(bucket.position));
    copy->next = bucket.next;
    for (u32 at = 0; uhsfs_bucket_get(&bucket, at, &e); at += uhsfs_dirent_size(e.len))
        MUST(uhsfs_bucket_insert(copy, &e) == static_cast<int>(at), "entry at {}", at);
    copy->h = bucket.h;
    uhsfs_record_seal(copy, sizeof(*copy));
    MUST(std::memcmp(copy, &bucket, sizeof(bucket)) == 0, "reading and writing loses something");
}

// Every entry comes out of a scan that has room for three, in order and once.
void scan(const uhsfs_bucket &bucket, u32 buckets, std::size_t expected) {
    uhsfs_dir_ref refs[3] = {};
    uhsfs_dir_scan state = {};
    u64 first = 0;
    u64 last = 0;
    u64 before = 0;
    std::size_t seen = 0;

    uhsfs_dir_range(le32_to_cpu(bucket.bucket), buckets, &first, &last);
    uhsfs_dir_scan_init(&state, buckets, first, refs, 3);
    MUST(state.bucket == le32_to_cpu(bucket.bucket), "scan of bucket {}", state.bucket);
    do {
        uhsfs_dir_scan_block(&state, &bucket);
        uhsfs_dir_scan_sort(&state);
        for (u32 i = 0; i < state.count; i++) {
            uhsfs_dirent e = {};
            MUST(uhsfs_bucket_get(&bucket, refs[i].offset, &e) && e.cookie == refs[i].cookie,
                 "scan gives offset {}", refs[i].offset);
            MUST(e.cookie > before && e.cookie >= first && e.cookie <= last, "scan gives {:#x}",
                 e.cookie);
            before = e.cookie;
            seen++;
        }
        MUST(seen <= UHSFS_BUCKET_ENTRIES, "scan gives {} entries", seen);
    } while (uhsfs_dir_scan_more(&state));
    MUST(seen == expected, "scan gives {} of {} entries", seen, expected);
}

void split(const uhsfs_geometry &geo, const uhsfs_bucket &bucket, u32 buckets) {
    if (le32_to_cpu(bucket.bucket) != uhsfs_dir_split_from(buckets))
        return;
    Block low = {};
    Block high = {};
    uhsfs_bucket *low_chain[] = {low.as<uhsfs_bucket>()};
    uhsfs_bucket *high_chain[] = {high.as<uhsfs_bucket>()};
    const uhsfs_bucket *chain[] = {&bucket};
    uhsfs_dir_info info = {.buckets = buckets, .overflow = 0, .entries = 0, .subdirs = 0};
    uhsfs_dir_writer old = {};
    uhsfs_dir_writer fresh = {};

    uhsfs_dir_writer_init(&old, low_chain, 1, &geo, 5, 2, uhsfs_dir_split_from(buckets), &info);
    uhsfs_dir_writer_init(&fresh, high_chain, 1, &geo, 5, 2, buckets, &info);
    MUST(uhsfs_dir_split(buckets, chain, 1, &old, &fresh) == 0, "split");
    u64 first = 0;
    u64 last = 0;
    uhsfs_dir_range(le32_to_cpu(bucket.bucket), buckets, &first, &last);
    std::map<Key, u64> expected = entries_of(bucket);
    std::erase_if(expected, [&](const auto &e) { return e.second < first || e.second > last; });
    std::map<Key, u64> got = entries_of(*low_chain[0]);
    got.merge(entries_of(*high_chain[0]));
    MUST(got == expected, "a split keeps {} of {} entries", got.size(), expected.size());
}

// One insertion, removal, lookup or change; on a sound bucket it does what the map does.
void operate(const uhsfs_geometry &geo, uhsfs_bucket &bucket, const std::uint8_t *operation,
             std::map<Key, u64> *model) {
    const std::string name(1 + operation[1] % 64U, static_cast<char>('a' + operation[1] / 64));
    const auto *bytes = reinterpret_cast<const u8 *>(name.data());
    const auto len = static_cast<u8>(name.size());
    const u64 hash = uhsfs_dir_hash(&geo, bytes, len);
    const u64 ino = 1 + operation[0] / 64U;
    const int found = uhsfs_bucket_find_exact(&bucket, hash, bytes, len, ino, 1);

    if (model != nullptr)
        MUST((found >= 0) == model->contains({name, ino, 1}), "lookup of {}", name);
    (void)uhsfs_bucket_find(&bucket, operation[0] * 8U, hash, bytes, len);
    switch (operation[0] % 4) {
        case 0: {
            uhsfs_bucket *chain[] = {&bucket};
            uhsfs_dirent e = {.cookie = 0,
                              .ino = ino,
                              .gen = 1,
                              .type = uhsfs_mode_dtype(UHSFS_S_IFREG),
                              .len = len,
                              .name = bytes};
            u32 position = 0;
            const int err = uhsfs_dir_insert(chain, 1, &geo, &e, &position);
            if (model == nullptr)
                break;
            MUST(err == 1 || err == 0 || err == -EAGAIN || err == -ENOSPC, "insert: {}", err);
            MUST((err == 0) == (found >= 0), "insert of {}: {}", name, err);
            if (err == 1)
                (*model)[{name, ino, 1}] = e.cookie;
            break;
        }
        case 1: {
            // Of a sound block only what is an entry.
            const u32 at = found >= 0         ? static_cast<u32>(found)
                           : model != nullptr ? UHSFS_BUCKET_PAYLOAD
                                              : operation[1] * 8U;
            uhsfs_dirent e = {};
            const bool there = uhsfs_bucket_get(&bucket, at, &e);
            const int err = uhsfs_bucket_remove(&bucket, at);
            MUST(err == (there ? 0 : -ENOENT), "remove at {}: {}", at, err);
            if (model != nullptr)
                model->erase({name, ino, 1});
            break;
        }
        case 2: {
            if (found < 0)
                break;
            const int err = uhsfs_bucket_retarget(&bucket, static_cast<u32>(found), ino + 1, 1,
                                                  uhsfs_mode_dtype(UHSFS_S_IFDIR));
            if (model == nullptr)
                break;
            MUST((err == -EEXIST) == model->contains({name, ino + 1, 1}), "retarget: {}", err);
            if (err == 0) {
                const u64 cookie = model->at({name, ino, 1});
                model->erase({name, ino, 1});
                (*model)[{name, ino + 1, 1}] = cookie;
            }
            break;
        }
        default: {
            const u64 limit = uhsfs_cookie_make(u64{operation[1]} << 48, 0);
            if (operation[0] % 16 != 3)
                break;
            const u32 removed = uhsfs_bucket_trim(&bucket, 0, limit);
            if (model != nullptr)
                MUST(removed == std::erase_if(*model, [&](auto &e) { return e.second > limit; }),
                     "trim takes {}", removed);
            break;
        }
    }
}

}  // namespace

void run(Bytes input) {
    Reader reader(input);
    const auto head = reader.get<Head>();
    const uhsfs_geometry geo = geometry(head.geometry);
    Block block = {};
    uhsfs_fault fault = {};
    uhsfs_bucket_at at = place(head);

    reader.copy(block.bytes, sizeof(block));
    auto *bucket = block.as<uhsfs_bucket>();
    const int err = uhsfs_bucket_check(bucket, &geo, &at, &fault);
    if (err != 0) {
        MUST_SAY_WHY(err, fault);
        for (const auto &operation : head.operation)
            operate(geo, *bucket, operation, nullptr);
        (void)entries_of(*bucket);
        (void)uhsfs_bucket_next(bucket, &at);
        return;
    }
    std::map<Key, u64> model = entries_of(*bucket);
    MUST(model.size() == le16_to_cpu(bucket->count), "{} entries of {}", model.size(),
         le16_to_cpu(bucket->count));
    copy_again(geo, *bucket);
    const u32 buckets = u32{head.bucket} + 1 + head.buckets;
    u64 first = 0;
    u64 last = 0;
    uhsfs_dir_range(head.bucket, buckets, &first, &last);
    std::size_t inside = 0;
    for (const auto &[key, cookie] : model)
        inside += cookie >= first && cookie <= last ? 1 : 0;
    scan(*bucket, buckets, inside);
    split(geo, *bucket, buckets);

    Block flipped = block;
    flipped.bytes[head.flip % sizeof(block)] ^= static_cast<std::uint8_t>(1U << head.bit % 8);
    MUST(uhsfs_bucket_check(flipped.as<uhsfs_bucket>(), &geo, &at, &fault) == -EUCLEAN,
         "bit {} of byte {} flipped is accepted", head.bit % 8, head.flip % sizeof(block));

    for (const auto &operation : head.operation) {
        operate(geo, *bucket, operation, &model);
        MUST(entries_of(*bucket) == model, "operation {} {}", operation[0], operation[1]);
    }
    uhsfs_record_seal(bucket, sizeof(*bucket));
    MUST(uhsfs_bucket_check(bucket, &geo, &at, &fault) == 0, "changed: {}", text(fault));
    copy_again(geo, *bucket);
}

void mutate(Random &random, std::vector<std::uint8_t> &input, std::size_t /*most*/) {
    Reader reader(input);
    auto head = reader.get<Head>();
    Block block = {};

    reader.copy(block.bytes, sizeof(block));
    auto *bytes = reinterpret_cast<std::uint8_t *>(&head);
    for (std::uint64_t n = random.below(4); n > 0; n--)
        bytes[random.below(sizeof(head))] = static_cast<std::uint8_t>(random.next());
    const uhsfs_geometry geo = geometry(head.geometry);
    if (random.one_in(8))
        mutate_bytes(block.bytes, sizeof(block));
    else
        mutate_deep(random, geo, block.bytes);
    auto *bucket = block.as<uhsfs_bucket>();
    if (!random.one_in(16)) {
        const uhsfs_bucket_at at = place(head);
        identify(geo, block.bytes, UHSFS_TAG_BUCKET,
                 {.block = where, .owner_ino = at.dir_ino, .owner_gen = at.dir_gen});
        bucket->bucket = cpu_to_le32(at.bucket);
        bucket->position = cpu_to_le32(at.position);
    }
    if (!random.one_in(16))
        seal_block(geo, block.bytes);
    input.resize(sizeof(head) + sizeof(block));
    std::memcpy(input.data(), &head, sizeof(head));
    std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
}

void seeds(const SeedSink &sink) {
    Random random(2);

    for (u32 number = 0; number < 6; number++) {
        Head head = {};
        Block block = {};
        head.geometry = static_cast<std::uint8_t>(number);
        const uhsfs_geometry geo = geometry(head.geometry);
        uhsfs_bucket_init(block.as<uhsfs_bucket>(), &geo, 5, 2, 0, 0);
        for (u32 i = 0; i < number * number * 2; i++) {
            const std::string name = fmt::format("{}{}", std::string(i % 5 * 9, 'n'), i);
            uhsfs_dirent e = {.cookie = 0,
                              .ino = 10 + i,
                              .gen = 1,
                              .type = uhsfs_mode_dtype(UHSFS_S_IFREG),
                              .len = static_cast<u8>(name.size()),
                              .name = reinterpret_cast<const u8 *>(name.data())};
            e.cookie = uhsfs_cookie_make(uhsfs_dir_hash(&geo, e.name, e.len), 0);
            uhsfs_bucket_insert(block.as<uhsfs_bucket>(), &e);
        }
        block.as<uhsfs_bucket>()->h.block = cpu_to_le64(where);
        seal_block(geo, block.bytes);
        std::vector<std::uint8_t> input(sizeof(head) + sizeof(block));
        for (auto &operation : head.operation)
            for (auto &byte : operation)
                byte = static_cast<std::uint8_t>(random.next());
        std::memcpy(input.data(), &head, sizeof(head));
        std::memcpy(input.data() + sizeof(head), block.bytes, sizeof(block));
        sink(fmt::format("bucket-{}", number), input);
    }
}

}  // namespace uhsfs::fuzz
