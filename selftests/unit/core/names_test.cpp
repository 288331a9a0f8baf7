// SPDX-License-Identifier: GPL-2.0
#include "names.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/random.hpp"
#include "tree_support.hpp"

namespace {

using uhsfs::test::Random;
using uhsfs::test::tree_geometry;
using uhsfs::test::TreeDevice;

constexpr u64 owner = 99;
constexpr u32 generation = 3;

using Place = std::tuple<u64, u32, std::string>;  // parent, generation, name
using Model = std::map<Place, u64>;               // its name_seq

uhsfs_claim claim_of(const Place &place, u64 seq = 0) {
    const auto &[parent, gen, name] = place;

    return {.parent_ino = parent,
            .parent_gen = gen,
            .len = static_cast<u32>(name.size()),
            .name_seq = seq,
            .name = reinterpret_cast<const u8 *>(name.data())};
}

class Tree {
public:
    Tree() : geo(tree_geometry()) {
        uhsfs_names_init(&names, &geo, TreeDevice::ops(), &device, owner, generation, nullptr);
    }

    struct Seen {
        std::set<u64> nodes;
        Model model;
        std::vector<Place> order;
        u64 count = 0;
        int err = 0;
    };

    Seen see() {
        Seen seen;
        const uhsfs_names_visitor visitor = {
            .node =
                [](void *ctx, u64 block) {
                    EXPECT_TRUE(static_cast<Seen *>(ctx)->nodes.insert(block).second);
                    return 0;
                },
            .name =
                [](void *ctx, const uhsfs_claim *claim) {
                    auto *to = static_cast<Seen *>(ctx);
                    const Place place{
                        claim->parent_ino, claim->parent_gen,
                        std::string(reinterpret_cast<const char *>(claim->name), claim->len)};
                    to->order.push_back(place);
                    EXPECT_TRUE(to->model.emplace(place, claim->name_seq).second) << "seen twice";
                    return 0;
                },
            .damaged = nullptr,
            .ctx = &seen,
        };
        seen.err = uhsfs_names_walk(&names, &visitor, &seen.count);
        return seen;
    }

    void check(const Model &model) {
        const Seen seen = see();

        ASSERT_EQ(seen.err, 0) << names.tree.fault.field << " " << names.tree.fault.rule;
        ASSERT_EQ(seen.count, names.tree.count);
        ASSERT_TRUE(seen.model == model);
        ASSERT_EQ(seen.nodes, device.live());
        ASSERT_EQ(names.tree.spares, 0U);
    }

    int insert(const Place &place, u64 seq) {
        const uhsfs_claim claim = claim_of(place, seq);
        return uhsfs_names_insert(&names, &claim);
    }

    int remove(const Place &place) {
        const uhsfs_claim claim = claim_of(place);
        return uhsfs_names_remove(&names, &claim);
    }

    int replace(const Place &from, const Place &to, u64 seq) {
        const uhsfs_claim before = claim_of(from);
        const uhsfs_claim after = claim_of(to, seq);
        return uhsfs_names_replace(&names, &before, &after);
    }

    void find(const Place &place, const Model &model) {
        const uhsfs_claim claim = claim_of(place);
        const auto found = model.find(place);
        u64 seq = 0;

        ASSERT_EQ(uhsfs_names_find(&names, &claim, &seq), found != model.end() ? 1 : 0);
        if (found != model.end()) {
            ASSERT_EQ(seq, found->second);
        }
    }

    uhsfs_geometry geo;
    TreeDevice device;
    uhsfs_names names{};
};

Place random_place(Random &random, u64 names, u64 longest) {
    std::string name = std::to_string(random.between(0, names));

    name.resize(std::max<u64>(name.size(), random.between(1, longest)), 'x');
    return {random.between(1, 3), static_cast<u32>(random.between(0, 1)), name};
}

TEST(Name, KnowsLegalNames) {
    const auto legal = [](const std::string &name) {
        return uhsfs_name_legal(reinterpret_cast<const u8 *>(name.data()),
                                static_cast<u32>(name.size()));
    };

    for (const char *good : {"a", "...", "..a", ".a", " ", "\n", "\xff\xfe", "a.b"})
        EXPECT_TRUE(legal(good)) << good;
    EXPECT_TRUE(legal(std::string(255, 'n')));
    for (const char *bad : {"", ".", "..", "/", "a/b", "/a", "a/"})
        EXPECT_FALSE(legal(bad)) << bad;
    EXPECT_FALSE(legal(std::string(256, 'n')));
    EXPECT_FALSE(legal(std::string("a\0b", 3)));
}

TEST(Name, ChecksARecordWithinItsRoom) {
    alignas(8) std::array<u8, 40> bytes{};
    auto *raw = reinterpret_cast<uhsfs_name *>(bytes.data());
    const Place place{5, 6, "hello"};
    const uhsfs_claim claim = claim_of(place, 7);
    const auto check = [&](u32 room) { return uhsfs_name_check(raw, room, 1, nullptr); };

    uhsfs_name_encode(&claim, raw);
    EXPECT_EQ(check(29), 0);
    EXPECT_EQ(check(40), 0);
    for (u32 room = 0; room < 29; room++)
        EXPECT_EQ(check(room), -EUCLEAN) << room;
    for (auto &reserved : raw->reserved) {
        reserved = 1;
        EXPECT_EQ(check(29), -EUCLEAN);
        reserved = 0;
    }
    raw->parent_ino = 0;
    EXPECT_EQ(check(29), -EUCLEAN);
    raw->parent_ino = cpu_to_le64(5);
    raw->name[2] = '/';
    EXPECT_EQ(check(29), -EUCLEAN);
    raw->name[2] = 0;
    EXPECT_EQ(check(29), -EUCLEAN);
    raw->name[2] = 'l';
    raw->len = 0;
    EXPECT_EQ(check(29), -EUCLEAN);
    raw->len = 5;
    EXPECT_EQ(check(29), 0);
}

TEST(NamesTree, MatchesAMap) {
    for (u64 i = 0; i < 4; i++) {
        Random random(uhsfs::test::seed() + i);
        SCOPED_TRACE(random.note());
        Tree tree;
        Model model;
        const u64 longest = i % 2 == 0 ? 20 : 255;

        for (u64 step = 1; step < 4000; step++) {
            // Grow, then shrink.
            const bool grow = step < 2000;
            const Place place = random_place(random, 400, longest);
            const u64 dice = random.between(0, 9);
            const bool there = model.count(place) != 0;

            if (dice < (grow ? 6U : 2U)) {
                ASSERT_EQ(tree.insert(place, step), there ? -EEXIST : 0);
                model.emplace(place, step);
            } else if (dice < 7 && !model.empty()) {
                auto victim = model.lower_bound(place);
                if (victim == model.end())
                    victim = model.begin();
                ASSERT_EQ(tree.remove(victim->first), 0);
                model.erase(victim);
            } else if (dice < 8 && !model.empty()) {
                auto from = model.lower_bound(random_place(random, 400, longest));
                if (from == model.end())
                    from = model.begin();
                const Place to = random.between(0, 3) == 0 ? from->first : place;
                const bool taken = model.count(to) != 0 && to != from->first;
                ASSERT_EQ(tree.replace(from->first, to, step), taken ? -EEXIST : 0);
                if (!taken) {
                    model.erase(from);
                    model[to] = step;
                }
            } else {
                if (!there) {
                    ASSERT_EQ(tree.remove(place), -ENOENT);
                    ASSERT_EQ(tree.replace(place, place, 1), -ENOENT);
                }
                tree.find(place, model);
            }
            if (random.between(0, 15) == 0)
                tree.device.commit();
            if (step % 100 == 0)
                tree.check(model);
            if (HasFatalFailure())
                return;
        }
        while (!model.empty()) {
            ASSERT_EQ(tree.remove(model.begin()->first), 0);
            model.erase(model.begin());
        }
        tree.device.commit();
        EXPECT_EQ(tree.names.tree.depth, 0U);
        EXPECT_TRUE(tree.device.nodes.empty());
    }
}

TEST(NamesTree, HoldsSeventyThousandNamesAtTheCostOfItsDepth) {
    constexpr u64 many = 70000;
    Tree tree;
    Model model;

    for (u64 i = 0; i < many; i++) {
        const Place place{i % 1000 + 1, 1, "link-" + std::to_string(i)};
        tree.device.reads = 0;
        ASSERT_EQ(tree.insert(place, i), 0);
        ASSERT_LE(tree.device.reads, tree.names.tree.depth);
        model.emplace(place, i);
    }
    tree.check(model);
    tree.device.commit();
    EXPECT_LE(tree.names.tree.depth, 3U);
    EXPECT_LE(tree.device.nodes.size(), many / 45);
    u64 i = 0;
    for (auto at = model.begin(); at != model.end(); i++) {
        if (i % 64 == 0) {
            // One transaction each: what is copied is one way.
            tree.device.commit();
            tree.device.allocs = 0;
            tree.device.reads = 0;
            ASSERT_EQ(tree.remove(at->first), 0);
            ASSERT_LE(tree.device.allocs, tree.names.tree.depth);
            ASSERT_LE(tree.device.reads, 3 * tree.names.tree.depth);
            at = model.erase(at);
        } else {
            if (i % 16 == 0)
                tree.find(at->first, model);
            ++at;
        }
    }
    tree.check(model);
}

TEST(NamesTree, LoadsASortedArray) {
    Random random;
    Tree tree;
    Model model;
    std::vector<uhsfs_claim> claims;

    for (u64 i = 0; i < 30000; i++)
        model.emplace(random_place(random, 100000, i % 100 == 0 ? 255 : 12), i);
    for (const auto &[place, seq] : model)
        claims.push_back(claim_of(place, seq));
    ASSERT_EQ(uhsfs_names_load(&tree.names, claims.data(), claims.size()), -EINVAL) << "not sorted";
    std::sort(claims.begin(), claims.end(), [&](const uhsfs_claim &a, const uhsfs_claim &b) {
        return uhsfs_names_compare(&tree.geo, &a, &b) < 0;
    });
    for (const long n : {0L, 1L, 200L}) {
        tree.device.fail_alloc = n;
        ASSERT_EQ(uhsfs_names_load(&tree.names, claims.data(), claims.size()), -ENOSPC);
        ASSERT_TRUE(tree.device.live().empty());
    }
    tree.device.fail_alloc = -1;
    ASSERT_EQ(uhsfs_names_load(&tree.names, claims.data(), claims.size()), 0);
    tree.check(model);
    const auto order = tree.see().order;
    ASSERT_EQ(order.size(), claims.size());
    for (std::size_t i = 0; i < order.size(); i++)
        ASSERT_EQ(std::get<2>(order[i]).size(), claims[i].len);
    EXPECT_EQ(uhsfs_names_load(&tree.names, claims.data(), claims.size()), -EINVAL) << "not empty";
    claims.insert(claims.begin() + 1, claims[0]);
    Tree other;
    EXPECT_EQ(uhsfs_names_load(&other.names, claims.data(), claims.size()), -EINVAL) << "twice";
}

TEST(NamesTree, RefusesIllegalNames) {
    Tree tree;

    EXPECT_EQ(tree.insert({0, 1, "a"}, 1), -EINVAL);
    EXPECT_EQ(tree.insert({1, 1, ".."}, 1), -EINVAL);
    EXPECT_EQ(tree.insert({1, 1, "a/b"}, 1), -EINVAL);
    EXPECT_EQ(tree.insert({1, 1, std::string(256, 'x')}, 1), -EINVAL);
    EXPECT_EQ(tree.remove({1, 1, "a"}), -ENOENT);
    EXPECT_EQ(tree.insert({1, 1, "a"}, 1), 0);
    EXPECT_EQ(tree.replace({1, 1, "a"}, {1, 1, "."}, 1), -EINVAL);
    tree.check({{{1, 1, "a"}, 1}});
}

TEST(NamesTree, FailsAsAWhole) {
    for (int op = 0; op < 3; op++) {
        for (int what = 0; what < 2; what++) {
            for (u64 variant = 0; variant < 8; variant++) {
                int err = -1;
                for (long n = 0; err != 0; n++) {
                    ASSERT_LT(n, 100);
                    Random random;
                    Tree tree;
                    Model model;
                    for (u64 i = 0; i < 300; i++) {
                        const Place place = random_place(random, 100000, 255);
                        ASSERT_EQ(tree.insert(place, i), 0);
                        model.emplace(place, i);
                    }
                    tree.device.commit();
                    const auto live = tree.device.live();
                    auto old = model.begin();
                    std::advance(old, static_cast<long>(variant * 30));
                    const Place fresh{7, 7, std::string(255, static_cast<char>('a' + variant))};
                    tree.device.begin();
                    (what == 0 ? tree.device.fail_alloc : tree.device.fail_read) = n;
                    err = op == 0   ? tree.insert(fresh, 1)
                          : op == 1 ? tree.remove(old->first)
                                    : tree.replace(old->first, fresh, 1);
                    tree.device.fail_alloc = -1;
                    tree.device.fail_read = -1;
                    if (err != 0) {
                        ASSERT_EQ(err, what == 0 ? -ENOSPC : -EIO);
                        ASSERT_EQ(tree.device.live(), live);
                    } else {
                        if (op != 0)
                            model.erase(old);
                        if (op != 1)
                            model[fresh] = 1;
                    }
                    tree.check(model);
                    if (HasFatalFailure())
                        return;
                }
            }
        }
    }
}

void use_damaged(Tree *tree, Random &random) {
    tree->see();
    for (int i = 0; i < 20; i++) {
        const Place a = random_place(random, 300, 255);
        const Place b = random_place(random, 300, 255);
        const uhsfs_claim claim = claim_of(a);
        u64 seq = 0;
        (void)uhsfs_names_find(&tree->names, &claim, &seq);
        (void)tree->insert(a, 1);
        (void)tree->remove(b);
        (void)tree->replace(a, b, 2);
    }
}

TEST(NamesTree, FindsEveryFlippedByteEvenIfSealed) {
    Random random;
    Tree tree;

    for (u64 i = 0; i < 120; i++)
        ASSERT_EQ(tree.insert(random_place(random, 300, 40), i), 0);
    tree.device.commit();
    ASSERT_GE(tree.device.nodes.size(), 2U);
    for (const u64 block : tree.device.live()) {
        auto *node = tree.device.nodes.at(block).get();
        auto *bytes = reinterpret_cast<unsigned char *>(node);
        for (u32 at = 0; at < UHSFS_BLOCK_SIZE; at++) {
            const unsigned char bit = 1U << random.between(0, 7);
            bytes[at] ^= bit;
            ASSERT_EQ(tree.see().err, -EUCLEAN) << block << " byte " << at;
            bytes[at] ^= bit;
        }
        if (node->level != 0)
            continue;
        // A name's hash is its place: but for name_seq, a leaf proves itself.
        std::set<u32> free_bytes;
        for (u32 at = 0; at < le16_to_cpu(node->used);) {
            const auto *raw = reinterpret_cast<const uhsfs_name *>(node->bytes + at);
            for (u32 i = 0; i < sizeof(raw->name_seq); i++)
                free_bytes.insert(UHSFS_TREE_HEADER + at + offsetof(uhsfs_name, name_seq) + i);
            at += uhsfs_name_size(raw->len);
        }
        u32 found = 0;
        u32 tried = 0;
        for (u32 at = sizeof(uhsfs_header); at < UHSFS_BLOCK_SIZE; at++) {
            if (free_bytes.count(at) != 0)
                continue;
            bytes[at] ^= 1;
            uhsfs_tree_seal(node, 1);
            tried++;
            found += tree.see().err == -EUCLEAN ? 1 : 0;
            bytes[at] ^= 1;
        }
        uhsfs_tree_seal(node, 1);
        EXPECT_GE(found, tried - tried / 20);
    }
    ASSERT_EQ(tree.see().err, 0);
}

TEST(NamesTree, SurvivesSealedNonsense) {
    for (u64 round = 0; round < 200; round++) {
        Random random(uhsfs::test::seed() + round);
        SCOPED_TRACE(random.note());
        Tree tree;
        for (u64 i = 0; i < 200; i++)
            (void)tree.insert(random_place(random, 300, 255), i);
        tree.device.commit();
        const auto live = tree.device.live();
        auto at = live.begin();
        std::advance(at, static_cast<long>(random.between(0, live.size() - 1)));
        auto *node = tree.device.nodes.at(*at).get();
        auto *bytes = reinterpret_cast<unsigned char *>(node);
        if (round % 4 == 0) {
            const auto noise = random.bytes(UHSFS_TREE_PAYLOAD);
            std::memcpy(node->bytes, noise.data(), noise.size());
            node->count = cpu_to_le16(static_cast<u16>(random.between(1, 130)));
            node->used = cpu_to_le16(static_cast<u16>(random.between(0, 4100)));
        } else if (round % 4 == 1) {
            node->used = cpu_to_le16(static_cast<u16>(random.between(0, 70000) & 0xffff));
        } else {
            for (u64 i = 0; i < round % 5 + 1; i++)
                bytes[random.between(sizeof(uhsfs_header), UHSFS_BLOCK_SIZE - 1)] ^=
                    static_cast<unsigned char>(random.between(1, 255));
        }
        uhsfs_tree_seal(node, 1);
        use_damaged(&tree, random);
    }
}

TEST(NamesTree, RefusesCyclesAndSharedNodes) {
    Random random;
    Tree tree;

    for (u64 i = 0; i < 300; i++)
        ASSERT_EQ(tree.insert(random_place(random, 100000, 255), i), 0);
    tree.device.commit();
    auto *root = tree.device.nodes.at(tree.names.tree.root).get();
    ASSERT_GT(le16_to_cpu(root->level), 0);
    const auto good = root->ref[1].block;
    for (const u64 block : {le64_to_cpu(root->ref[0].block), tree.names.tree.root}) {
        root->ref[1].block = cpu_to_le64(block);
        uhsfs_tree_seal(root, 1);
        EXPECT_EQ(tree.see().err, -EUCLEAN);
    }
    root->ref[1].block = good;
    uhsfs_tree_seal(root, 1);
    EXPECT_EQ(tree.see().err, 0);
}

}  // namespace
