// SPDX-License-Identifier: GPL-2.0
/*
 * Extent trees and names trees in a device of blocks in memory. Input: a head, operations
 * (4 bytes each), nodes (a length of 2 bytes, then that many bytes, the rest zeros).
 *
 * A tree that is accepted does what a list of extents, or a map of names, does; the result is
 * accepted again, before and after a commit; to destroy it frees each node once. On any other
 * tree operations fail or succeed as a whole: after an error the root is what it was. A tree
 * may also point to blocks that are free and are given out while it is changed.
 */
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "structures.hpp"

namespace uhsfs::fuzz {

namespace {

constexpr u64 base = 16;                   // the first node, which is the root
constexpr u64 far_away = (1U << 19) + 64;  // behind the bitmaps of a group
constexpr u64 ino = 9;
constexpr u32 gen = 4;
constexpr std::size_t most_nodes = 8;
constexpr std::size_t most_operations = 24;
constexpr u32 model_capacity = 8192;

struct Head {
    std::uint8_t geometry;
    std::uint8_t names;
    std::uint8_t dir;
    std::uint8_t depth;
    std::uint16_t count;
    std::uint8_t nodes;
    std::uint8_t operations;
    std::uint8_t alias;       // new blocks stand right behind the nodes
    std::uint8_t fail_alloc;  // n - 1 allocations succeed; 0: all
    std::uint8_t reserved[2];
};

struct Operation {
    std::uint8_t what;
    std::uint8_t a, b, c;
};

struct Input {
    Head head = {};
    std::vector<Operation> operations;
    std::vector<std::unique_ptr<Block>> nodes;
};

Input parse(Bytes bytes) {
    Reader reader(bytes);
    Input input;

    input.head = reader.get<Head>();
    input.operations.resize(input.head.operations % (most_operations + 1));
    for (Operation &operation : input.operations)
        operation = reader.get<Operation>();
    for (std::size_t i = input.head.nodes % (most_nodes + 1); i > 0; i--) {
        const auto length = std::min<std::size_t>(reader.get<std::uint16_t>(), block_size);
        auto node = std::make_unique<Block>();
        Reader(reader.take(length)).copy(node->bytes, sizeof(*node));
        input.nodes.push_back(std::move(node));
    }
    return input;
}

std::vector<std::uint8_t> write(const Input &input) {
    std::vector<std::uint8_t> bytes;
    const auto append = [&](const void *from, std::size_t size) {
        const auto *at = static_cast<const std::uint8_t *>(from);
        bytes.insert(bytes.end(), at, at + size);
    };
    Head head = input.head;

    head.operations = static_cast<std::uint8_t>(input.operations.size());
    head.nodes = static_cast<std::uint8_t>(input.nodes.size());
    append(&head, sizeof(head));
    for (const Operation &operation : input.operations)
        append(&operation, sizeof(operation));
    for (const auto &node : input.nodes) {
        std::uint16_t length = block_size;
        while (length > 0 && node->bytes[length - 1] == 0)
            length--;
        append(&length, sizeof(length));
        append(node->bytes, length);
    }
    return bytes;
}

// ---- the device ----------------------------------------------------------------------------

class Store {
public:
    Store(Input &input, bool strict_from_start)
        : next_(input.head.alias != 0 ? base + input.nodes.size() : far_away),
          allocs_(input.head.fail_alloc != 0 ? input.head.fail_alloc - 1 : -1),
          strict(strict_from_start) {
        for (std::size_t i = 0; i < input.nodes.size(); i++)
            nodes_[base + i] = std::move(input.nodes[i]);
    }

    static const uhsfs_tree_ops *ops() {
        static const uhsfs_tree_ops table = {
            .read = [](void *ctx, u64 block,
                       uhsfs_tree_node **node) { return self(ctx)->read(block, node); },
            .alloc = [](void *ctx, u64 *block,
                        uhsfs_tree_node **node) { return self(ctx)->alloc(block, node); },
            .free = [](void *ctx, u64 block) { self(ctx)->free(block); },
            .fresh = [](void *ctx, u64 block) { return self(ctx)->fresh_.contains(block); },
        };
        return &table;
    }

    void commit() {
        for (const u64 block : fresh_)
            uhsfs_tree_seal(nodes_.at(block)->as<uhsfs_tree_node>(), 7);
        fresh_.clear();
        for (const u64 block : freed_)
            nodes_.erase(block);
        freed_.clear();
    }

    [[nodiscard]] std::size_t live() const { return nodes_.size() - freed_.size(); }
    [[nodiscard]] const std::set<u64> &freed() const { return freed_; }

private:
    static Store *self(void *ctx) { return static_cast<Store *>(ctx); }

    int read(u64 block, uhsfs_tree_node **node) {
        const auto found = nodes_.find(block);

        if (found == nodes_.end())
            return -EIO;
        *node = found->second->as<uhsfs_tree_node>();
        return 0;
    }

    int alloc(u64 *block, uhsfs_tree_node **node) {
        if (allocs_ == 0)
            return -ENOSPC;
        if (allocs_ > 0)
            allocs_--;
        *block = next_++;
        nodes_[*block] = std::make_unique<Block>();
        fresh_.insert(*block);
        *node = nodes_[*block]->as<uhsfs_tree_node>();
        return 0;
    }

    // Readable until the commit.
    void free(u64 block) {
        const bool known = nodes_.contains(block);
        const bool once = freed_.insert(block).second;

        MUST(!strict || (known && once), "block {} freed, known {}, once {}", block, known, once);
        fresh_.erase(block);
    }

    std::map<u64, std::unique_ptr<Block>> nodes_;
    std::set<u64> fresh_;
    std::set<u64> freed_;
    u64 next_;
    int allocs_;

public:
    bool strict;
};

// What an operation must leave alone when it fails.
struct Root {
    u64 block;
    u32 depth;
    u64 count;
    bool operator==(const Root &) const = default;
};

Root root_of(const uhsfs_tree &tree) {
    return {.block = tree.root, .depth = tree.depth, .count = tree.count};
}

// ---- extents -------------------------------------------------------------------------------

// What is mapped, with neighbours put together, and without births: how far merging raises
// them depends on where leaves end.
using Mapping = std::vector<std::tuple<u64, u64, u64, u32>>;

void add(Mapping &mapping, const uhsfs_ext &ext, u32 scale) {
    if (!mapping.empty()) {
        auto &[logical, len, physical, flags] = mapping.back();
        if (logical + len == ext.logical && physical + len * scale == ext.physical &&
            flags == ext.flags) {
            len += ext.len;
            return;
        }
    }
    mapping.emplace_back(ext.logical, ext.len, ext.physical, ext.flags);
}

struct Freed {
    u64 blocks = 0;
    uhsfs_freed told = {.range = call, .ctx = this};
    Freed() = default;
    Freed(const Freed &) = delete;
    Freed &operator=(const Freed &) = delete;
    static int call(void *ctx, u64 /*block*/, u64 len) {
        static_cast<Freed *>(ctx)->blocks += len;
        return 0;
    }
};

class Extents {
public:
    explicit Extents(Input input)
        : head_(input.head),
          geo_(geometry(input.head.geometry)),
          operations_(input.operations),
          store_(input, false) {
        const uhsfs_extent_root root = {.block = cpu_to_le64(base),
                                        .depth = cpu_to_le32(head_.depth % 10U),
                                        .reserved = 0,
                                        .count = cpu_to_le64(head_.count)};
        uhsfs_etree_init(&tree_, &geo_, Store::ops(), &store_, ino, gen, head_.dir % 2 != 0, &root);
        list_ = {.extent = array_.data(),
                 .count = 0,
                 .capacity = model_capacity,
                 .scale = tree_.limits.scale,
                 .snapshot = 0};
    }

    void run() {
        const bool sound = check(&collected_) == 0 && tree_.tree.count == collected_.size() &&
                           tree_.tree.depth != 0;
        store_.strict = sound;
        for (const uhsfs_ext &ext : collected_)
            uhsfs_extent_encode(&ext, &list_.extent[list_.count++]);
        for (const Operation &operation : operations_) {
            const Root before = root_of(tree_.tree);
            tree_.tree.fault = {};
            operate(operation, sound, before);
        }
        uhsfs_tree_release(&tree_.tree, 0);
        if (!sound)
            return;
        compare("after operations");
        store_.commit();
        compare("after the commit");
        const std::size_t live = store_.live();
        const std::size_t reached = nodes_.size();
        MUST(live >= reached, "{} nodes, {} of them live", reached, live);
        MUST(uhsfs_tree_destroy(&tree_.tree) == 0, "destroy");
        MUST(store_.freed() == nodes_, "{} nodes, {} freed", reached, store_.freed().size());
        MUST(tree_.tree.depth == 0 && tree_.tree.count == 0, "destroyed");
    }

private:
    int check(std::vector<uhsfs_ext> *to) {
        u64 count = 0;
        nodes_.clear();
        to->clear();
        seen_ = to;
        const uhsfs_etree_visitor visitor = {
            .node =
                [](void *ctx, u64 block) {
                    auto *self = static_cast<Extents *>(ctx);
                    MUST(self->nodes_.insert(block).second, "node {} is visited twice", block);
                    return 0;
                },
            .extent =
                [](void *ctx, const uhsfs_ext *ext) {
                    static_cast<Extents *>(ctx)->seen_->push_back(*ext);
                    return 0;
                },
            .damaged = nullptr,
            .ctx = this};
        tree_.tree.fault = {};
        const int err = uhsfs_etree_check(&tree_, &visitor, &count);
        if (err == -EUCLEAN)
            MUST_SAY_WHY(err, tree_.tree.fault);
        if (err == 0)
            MUST(count == to->size(), "{} extents counted, {} seen", count, to->size());
        return err;
    }

    void compare(const char *when) {
        std::vector<uhsfs_ext> now;
        Mapping got;
        Mapping expected;
        const int err = check(&now);

        MUST(err == 0, "{}: {}: {}", when, err, text(tree_.tree.fault));
        MUST(now.size() == tree_.tree.count, "{}: {} extents, the root says {}", when, now.size(),
             tree_.tree.count);
        for (const uhsfs_ext &ext : now)
            add(got, ext, list_.scale);
        for (u32 i = 0; i < list_.count; i++) {
            uhsfs_ext ext = {};
            uhsfs_extent_decode(&list_.extent[i], &ext);
            add(expected, ext, list_.scale);
        }
        MUST(got == expected, "{}: the tree maps {} ranges, the list {}", when, got.size(),
             expected.size());
    }

    void look(u64 logical, bool sound) {
        uhsfs_ext in_tree = {};
        uhsfs_ext in_list = {};
        u64 tree_len = 0;
        u64 list_len = 0;
        const int err = uhsfs_etree_lookup(&tree_, logical, &in_tree, &tree_len);
        const bool mapped = uhsfs_list_lookup(&list_, logical, &in_list, &list_len);

        if (!sound)
            return;
        MUST(err == (mapped ? 1 : 0), "lookup of {}: {}, not {}", logical, err, mapped);
        if (!mapped) {
            MUST(tree_len == list_len, "hole at {}: {}, not {}", logical, tree_len, list_len);
            return;
        }
        MUST(in_tree.physical + (logical - in_tree.logical) * list_.scale ==
                     in_list.physical + (logical - in_list.logical) * list_.scale &&
                 in_tree.flags == in_list.flags,
             "lookup of {}", logical);
    }

    void operate(const Operation &operation, bool sound, const Root &before) {
        const u64 max = tree_.limits.max;
        u64 logical = operation.a * 8U + operation.b / 32U;
        u64 len = 1 + operation.b % 32U;
        if (operation.c % 8 == 7)
            logical = max - logical % max;
        if (operation.c % 16 == 6)
            len <<= 20;
        const uhsfs_ext ext = {
            .logical = logical,
            .physical = 1000 + u64{operation.c} * 64,
            .len = static_cast<u32>(len),
            .birth = operation.c / 128U,
            .flags = operation.c / 64U % 2 != 0 ? static_cast<u32>(UHSFS_EXT_UNWRITTEN) : 0U};
        // Whoever asks for a range keeps it within the file.
        if (logical >= max || len > max - logical)
            return look(logical, sound);
        const std::uint8_t what = operation.what % 9;
        if ((what == 0 || what == 1 || what == 8) &&
            !uhsfs_space_ok(&geo_, ext.physical, len * list_.scale)) {
            MUST(uhsfs_etree_insert(&tree_, &ext) < 0, "maps {} blocks to {}", len, ext.physical);
            MUST(root_of(tree_.tree) == before, "the root changes");
            return;
        }
        Freed by_tree;
        Freed by_list;
        const std::vector<uhsfs_extent> saved(array_.begin(), array_.begin() + list_.count);
        int err = 0;
        int expected = 0;
        switch (what) {
            case 0:
            case 8:
                err = uhsfs_etree_insert(&tree_, &ext);
                expected = uhsfs_list_insert(&list_, &ext);
                break;
            case 1:
                err = uhsfs_etree_replace(&tree_, &ext, &by_tree.told);
                expected = uhsfs_list_replace(&list_, &ext, &by_list.told);
                break;
            case 2:
                err = uhsfs_etree_punch(&tree_, logical, len, &by_tree.told);
                expected = uhsfs_list_punch(&list_, logical, len, &by_list.told);
                break;
            case 3:
                err = uhsfs_etree_truncate(&tree_, logical, &by_tree.told);
                expected = uhsfs_list_truncate(&list_, logical, &by_list.told);
                break;
            case 4:
                err = uhsfs_etree_convert(&tree_, logical, len);
                expected = uhsfs_list_convert(&list_, logical, len);
                break;
            case 5:
                err = uhsfs_etree_collapse(&tree_, logical, len, &by_tree.told);
                expected = uhsfs_list_collapse(&list_, logical, len, &by_list.told);
                break;
            case 6:
                err = uhsfs_etree_insert_range(&tree_, logical, len);
                expected = uhsfs_list_insert_range(&list_, logical, len, max);
                break;
            default: {
                u32 need = 0;
                look(logical, sound);
                if (uhsfs_etree_need(&tree_, logical, len, &need) == 0)
                    (void)uhsfs_tree_reserve(&tree_.tree, std::min(need, 200U));
                return;
            }
        }
        if (err != 0)
            MUST(root_of(tree_.tree) == before, "operation {} fails with {} and changes the root",
                 what, err);
        if (err == -EUCLEAN)
            MUST_SAY_WHY(err, tree_.tree.fault);
        if (!sound)
            return;
        // Only trees have to allocate.
        if (err == -ENOSPC) {
            std::copy(saved.begin(), saved.end(), array_.begin());
            list_.count = static_cast<u32>(saved.size());
            return;
        }
        MUST(err == expected, "operation {} of {} at {}: {}, not {}; {}", what, len, logical, err,
             expected, text(tree_.tree.fault));
        if (err == 0)
            MUST(by_tree.blocks == by_list.blocks, "{} blocks freed, not {}", by_tree.blocks,
                 by_list.blocks);
    }

    const Head head_;
    const uhsfs_geometry geo_;
    const std::vector<Operation> operations_;
    Store store_;
    uhsfs_etree tree_ = {};
    std::vector<uhsfs_extent> array_ = std::vector<uhsfs_extent>(model_capacity);
    uhsfs_extent_list list_ = {};
    std::vector<uhsfs_ext> collected_;
    std::vector<uhsfs_ext> *seen_ = nullptr;
    std::set<u64> nodes_;
};

// ---- names ---------------------------------------------------------------------------------

class Names {
public:
    explicit Names(Input input)
        : head_(input.head),
          geo_(geometry(input.head.geometry)),
          operations_(input.operations),
          store_(input, false) {
        const struct uhsfs_names_root root = {.block = cpu_to_le64(base),
                                              .count = cpu_to_le32(head_.count),
                                              .depth = cpu_to_le16(head_.depth % 10U),
                                              .reserved = {}};
        uhsfs_names_init(&tree_, &geo_, Store::ops(), &store_, ino, gen, &root);
    }

    void run() {
        const bool sound =
            check(model_) == 0 && tree_.tree.count == counted_ && tree_.tree.depth != 0;
        if (sound)
            MUST(model_.size() == counted_, "{} names, {} of them different", counted_,
                 model_.size());
        store_.strict = sound;
        for (const Operation &operation : operations_) {
            const Root before = root_of(tree_.tree);
            tree_.tree.fault = {};
            operate(operation, sound, before);
        }
        uhsfs_tree_release(&tree_.tree, 0);
        if (!sound)
            return;
        compare("after operations");
        store_.commit();
        compare("after the commit");
        MUST(uhsfs_tree_destroy(&tree_.tree) == 0, "destroy");
        MUST(store_.freed() == nodes_, "{} nodes, {} freed", nodes_.size(), store_.freed().size());
    }

private:
    using Key = std::tuple<u64, u32, std::string>;
    using Model = std::map<Key, u64>;

    static uhsfs_claim claim_of(const Key &key, u64 seq) {
        const auto &[parent, parent_gen, name] = key;
        return {.parent_ino = parent,
                .parent_gen = parent_gen,
                .len = static_cast<u32>(name.size()),
                .name_seq = seq,
                .name = reinterpret_cast<const u8 *>(name.data())};
    }

    int check(Model &to) {
        nodes_.clear();
        to.clear();
        seen_ = &to;
        const uhsfs_names_visitor visitor = {
            .node =
                [](void *ctx, u64 block) {
                    auto *self = static_cast<Names *>(ctx);
                    MUST(self->nodes_.insert(block).second, "node {} is visited twice", block);
                    return 0;
                },
            .name =
                [](void *ctx, const uhsfs_claim *claim) {
                    auto *self = static_cast<Names *>(ctx);
                    MUST(uhsfs_name_legal(claim->name, claim->len), "name of {} bytes", claim->len);
                    (*self->seen_)[{claim->parent_ino, claim->parent_gen,
                                    std::string(reinterpret_cast<const char *>(claim->name),
                                                claim->len)}] = claim->name_seq;
                    return 0;
                },
            .damaged = nullptr,
            .ctx = this};
        tree_.tree.fault = {};
        const int err = uhsfs_names_walk(&tree_, &visitor, &counted_);
        if (err == -EUCLEAN)
            MUST_SAY_WHY(err, tree_.tree.fault);
        return err;
    }

    void compare(const char *when) {
        Model now;
        const int err = check(now);

        MUST(err == 0, "{}: {}: {}", when, err, text(tree_.tree.fault));
        MUST(counted_ == tree_.tree.count && now == model_, "{}: {} names, {} in the root, not {}",
             when, now.size(), tree_.tree.count, model_.size());
    }

    void operate(const Operation &operation, bool sound, const Root &before) {
        const Key key = {1 + operation.a % 4U, operation.a / 128U,
                         std::string(1 + operation.b % (operation.c % 4 == 0 ? 255U : 4U),
                                     static_cast<char>('a' + operation.c / 32))};
        const Key other = {1 + operation.c % 4U, 1, std::string(1 + operation.a % 200U, 'z')};
        const uhsfs_claim claim = claim_of(key, 1 + operation.c);
        const uhsfs_claim change = claim_of(other, 300U + operation.c);
        const bool there = model_.contains(key);
        u64 seq = 0;
        int err = 0;

        switch (operation.what % 5) {
            case 0:
            case 4:
                err = uhsfs_names_insert(&tree_, &claim);
                if (sound && err != -ENOSPC)
                    MUST(err == (there ? -EEXIST : 0), "insert: {}", err);
                if (err == 0)
                    model_[key] = claim.name_seq;
                break;
            case 1:
                err = uhsfs_names_remove(&tree_, &claim);
                if (sound && err != -ENOSPC)
                    MUST(err == (there ? 0 : -ENOENT), "remove: {}", err);
                if (err == 0)
                    model_.erase(key);
                break;
            case 2:
                err = uhsfs_names_find(&tree_, &claim, &seq);
                if (sound)
                    MUST(err == (there ? 1 : 0) && (!there || seq == model_.at(key)),
                         "find: {}, name_seq {}", err, seq);
                return;
            default:
                err = uhsfs_names_replace(&tree_, &claim, &change);
                if (sound && err != -ENOSPC)
                    MUST(err == (!there                                   ? -ENOENT
                                 : key != other && model_.contains(other) ? -EEXIST
                                                                          : 0),
                         "replace: {}", err);
                if (err == 0) {
                    model_.erase(key);
                    model_[other] = change.name_seq;
                }
                break;
        }
        if (err != 0)
            MUST(root_of(tree_.tree) == before, "operation {} fails with {} and changes the root",
                 operation.what % 5, err);
        if (err == -EUCLEAN)
            MUST_SAY_WHY(err, tree_.tree.fault);
    }

    const Head head_;
    const uhsfs_geometry geo_;
    const std::vector<Operation> operations_;
    Store store_;
    uhsfs_names tree_ = {};
    Model model_;
    Model *seen_ = nullptr;
    u64 counted_ = 0;
    std::set<u64> nodes_;
};

}  // namespace

void run(Bytes bytes) {
    Input input = parse(bytes);

    if (input.head.names % 2 != 0)
        Names(std::move(input)).run();
    else
        Extents(std::move(input)).run();
}

void mutate(Random &random, std::vector<std::uint8_t> &bytes, std::size_t most) {
    Input input = parse(bytes);
    Head &head = input.head;

    if (random.one_in(8))
        reinterpret_cast<std::uint8_t *>(&head)[random.below(sizeof(head))] =
            static_cast<std::uint8_t>(random.below(random.one_in(2) ? 256 : 4));
    if (random.one_in(16))
        head.alias ^= 1;
    const uhsfs_geometry geo = geometry(head.geometry);
    if (random.one_in(2) || input.nodes.empty()) {
        // Operations, which may be many.
        if (input.operations.size() < most_operations && random.one_in(2))
            input.operations.insert(input.operations.begin() + static_cast<long>(random.below(
                                                                   input.operations.size() + 1)),
                                    Operation{.what = static_cast<std::uint8_t>(random.next()),
                                              .a = static_cast<std::uint8_t>(random.next()),
                                              .b = static_cast<std::uint8_t>(random.next()),
                                              .c = static_cast<std::uint8_t>(random.next())});
        else if (!input.operations.empty())
            mutate_bytes(reinterpret_cast<std::uint8_t *>(input.operations.data()),
                         input.operations.size() * sizeof(Operation));
    } else {
        mutate_deep(random, geo, input.nodes[random.below(input.nodes.size())]->bytes);
    }
    if (input.nodes.size() < most_nodes && random.one_in(16)) {
        auto copy = std::make_unique<Block>();
        if (!input.nodes.empty())
            *copy = *input.nodes[random.below(input.nodes.size())];
        input.nodes.push_back(std::move(copy));
    }
    std::uint64_t entries = 0;
    for (std::size_t i = 0; i < input.nodes.size(); i++) {
        auto *node = input.nodes[i]->as<uhsfs_tree_node>();
        // Another child, or one that is free and will be given out.
        if (node->level != 0 && random.one_in(16))
            node->ref[random.below(3)].block =
                cpu_to_le64(base + random.below(input.nodes.size() + 6));
        if (!random.one_in(32))
            identify(geo, input.nodes[i]->bytes,
                     head.names % 2 != 0 ? UHSFS_TAG_NAMES : UHSFS_TAG_EXTENT,
                     {.block = base + i, .owner_ino = ino, .owner_gen = gen});
        if (!random.one_in(32))
            node->h.flags = 0;
        entries += node->level == 0 ? le16_to_cpu(node->count) : 0;
        if (!random.one_in(32))
            seal_block(geo, input.nodes[i]->bytes);
    }
    if (!random.one_in(8))
        head.count = static_cast<std::uint16_t>(entries);
    if (!random.one_in(8) && !input.nodes.empty())
        head.depth = static_cast<std::uint8_t>(
            le16_to_cpu(input.nodes[0]->as<uhsfs_tree_node>()->level) + 1);
    std::vector<std::uint8_t> changed = write(input);
    if (changed.size() <= most)
        bytes = std::move(changed);
}

void seeds(const SeedSink &sink) {
    Random random(5);

    // Depth 1 to 3, by hand: leaves with a few entries under inner nodes.
    for (int number = 0; number < 12; number++) {
        Input input;
        Head &head = input.head;
        head.names = static_cast<std::uint8_t>(number % 2);
        head.geometry = static_cast<std::uint8_t>(number / 2 % 2);
        head.dir = static_cast<std::uint8_t>(number / 4 % 2);
        head.depth = static_cast<std::uint8_t>(1 + number % 3);
        const uhsfs_geometry geo = geometry(head.geometry);
        // Node 0 is the root; leaves 1 and 2, or 2 and 3 below node 1.
        const std::size_t leaves = head.depth == 1 ? 1 : 2;
        for (std::size_t i = 0; i < head.depth - 1 + leaves; i++)
            input.nodes.push_back(std::make_unique<Block>());
        const std::size_t first_leaf = input.nodes.size() - leaves;
        std::vector<u64> low(leaves, 0);
        std::vector<std::vector<std::uint8_t>> names;
        std::vector<u64> keys;
        for (int i = 0; i < 12; i++) {
            const std::string name(static_cast<std::size_t>(1 + i), static_cast<char>('a' + i % 3));
            const uhsfs_claim claim = {.parent_ino = 1 + static_cast<u64>(i) % 3,
                                       .parent_gen = 1,
                                       .len = static_cast<u32>(name.size()),
                                       .name_seq = 1 + static_cast<u64>(i),
                                       .name = reinterpret_cast<const u8 *>(name.data())};
            std::vector<std::uint8_t> record(uhsfs_name_size(claim.len));
            uhsfs_name_encode(&claim, reinterpret_cast<uhsfs_name *>(record.data()));
            names.push_back(record);
        }
        const auto key_of = [&](const std::vector<std::uint8_t> &record) {
            uhsfs_claim claim = {};
            uhsfs_name_decode(reinterpret_cast<const uhsfs_name *>(record.data()), &claim);
            return uhsfs_names_key(&geo, &claim);
        };
        std::ranges::sort(names, {}, key_of);
        for (std::size_t leaf = 0; leaf < leaves; leaf++) {
            auto *node = input.nodes[first_leaf + leaf]->as<uhsfs_tree_node>();
            if (head.names != 0) {
                std::size_t at = 0;
                low[leaf] = leaf == 0 ? 0 : key_of(names[6]);
                for (std::size_t i = leaf * 6; i < leaf * 6 + 6; i++) {
                    std::memcpy(node->bytes + at, names[i].data(), names[i].size());
                    at += names[i].size();
                }
                node->count = cpu_to_le16(6);
                node->used = cpu_to_le16(static_cast<u16>(at));
            } else {
                low[leaf] = leaf * 100;
                for (u64 i = 0; i < 5; i++) {
                    const uhsfs_ext ext = {
                        .logical = leaf * 100 + i * 7,
                        .physical = 500 + leaf * 200 + i * 20,
                        .len = static_cast<u32>(3 + i % 2 * 4),
                        .birth = 1,
                        .flags = i % 3 == 1 ? static_cast<u32>(UHSFS_EXT_UNWRITTEN) : 0U};
                    uhsfs_extent_encode(&ext, &node->extent[i]);
                }
                node->count = cpu_to_le16(5);
            }
        }
        if (head.depth > 1) {
            auto *above = input.nodes[first_leaf - 1]->as<uhsfs_tree_node>();
            above->level = cpu_to_le16(1);
            above->count = cpu_to_le16(2);
            for (std::size_t leaf = 0; leaf < leaves; leaf++)
                above->ref[leaf] = {.key = cpu_to_le64(low[leaf]),
                                    .block = cpu_to_le64(base + first_leaf + leaf)};
        }
        if (head.depth > 2) {
            auto *root = input.nodes[0]->as<uhsfs_tree_node>();
            root->level = cpu_to_le16(2);
            root->count = cpu_to_le16(1);
            root->ref[0] = {.key = 0, .block = cpu_to_le64(base + 1)};
        }
        for (std::size_t i = 0; i < input.nodes.size(); i++) {
            identify(geo, input.nodes[i]->bytes,
                     head.names != 0 ? UHSFS_TAG_NAMES : UHSFS_TAG_EXTENT,
                     {.block = base + i, .owner_ino = ino, .owner_gen = gen});
            seal_block(geo, input.nodes[i]->bytes);
        }
        head.count = static_cast<std::uint16_t>((head.names != 0 ? 6 : 5) * leaves);
        for (int i = 0; i < 8; i++)
            input.operations.push_back({.what = static_cast<std::uint8_t>(random.next()),
                                        .a = static_cast<std::uint8_t>(random.below(32)),
                                        .b = static_cast<std::uint8_t>(random.next()),
                                        .c = static_cast<std::uint8_t>(random.next())});
        sink(fmt::format("{}-depth{}-{:02}", head.names != 0 ? "names" : "extents", head.depth,
                         number),
             write(input));
    }
}

}  // namespace uhsfs::fuzz
