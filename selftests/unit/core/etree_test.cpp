// SPDX-License-Identifier: GPL-2.0
#include "etree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crc32c.h"
#include "extent_model.hpp"
#include "support/random.hpp"
#include "tree_support.hpp"

namespace {

using uhsfs::test::apply_list;
using uhsfs::test::apply_tree;
using uhsfs::test::BlockModel;
using uhsfs::test::Freed;
using uhsfs::test::node_base;
using uhsfs::test::Op;
using uhsfs::test::OpKind;
using uhsfs::test::Random;
using uhsfs::test::space_at;
using uhsfs::test::space_from;
using uhsfs::test::tree_geometry;
using uhsfs::test::TreeDevice;

constexpr u64 owner = 77;
constexpr u32 generation = 5;

// What a check of a whole tree sees.
struct Seen {
    std::set<u64> nodes;
    std::vector<uhsfs_ext> extents;
    u64 count = 0;
    int err = 0;
};

class Tree {
public:
    explicit Tree(bool dir = false) : geo(tree_geometry(dir ? 2 : 1)) {
        uhsfs_etree_init(&etree, &geo, TreeDevice::ops(), &device, owner, generation, dir, nullptr);
    }

    Seen see() {
        Seen seen;
        const uhsfs_etree_visitor visitor = {
            .node =
                [](void *ctx, u64 block) {
                    EXPECT_TRUE(static_cast<Seen *>(ctx)->nodes.insert(block).second)
                        << "node seen twice";
                    return 0;
                },
            .extent =
                [](void *ctx, const uhsfs_ext *ext) {
                    static_cast<Seen *>(ctx)->extents.push_back(*ext);
                    return 0;
                },
            .damaged = nullptr,
            .ctx = &seen,
        };
        seen.err = uhsfs_etree_check(&etree, &visitor, &seen.count);
        return seen;
    }

    BlockModel model() {
        BlockModel model;
        u64 end = 0;
        const Seen seen = see();

        EXPECT_EQ(seen.err, 0) << etree.tree.fault.field << " " << etree.tree.fault.rule;
        EXPECT_EQ(seen.count, etree.tree.count);
        for (const auto &ext : seen.extents) {
            EXPECT_GE(ext.logical, end);
            end = uhsfs_ext_end(&ext);
            model.set(ext, etree.limits.scale);
        }
        return model;
    }

    // No node is lost and none is missing.
    void check_nodes() { ASSERT_EQ(see().nodes, device.live()); }

    // `count` extents of 1 to 3 blocks with holes between some of them.
    void load(Random &random, u32 count, BlockModel *model, u64 *physical) {
        std::vector<uhsfs_extent> list(count);
        u64 logical = 0;

        for (auto &raw : list) {
            uhsfs_ext ext{};
            logical += random.between(0, 2);
            ext.logical = logical;
            ext.len = static_cast<u32>(random.between(1, 3));
            *physical += random.between(1, 2);
            *physical = space_from(*physical, static_cast<u64>(ext.len) * etree.limits.scale);
            ext.physical = *physical;
            ext.flags = random.between(0, 1) != 0 ? UHSFS_EXT_UNWRITTEN : 0;
            ext.birth = 1;
            logical += ext.len;
            *physical += static_cast<u64>(ext.len) * etree.limits.scale;
            uhsfs_extent_encode(&ext, &raw);
            if (model != nullptr)
                model->set(ext, etree.limits.scale);
        }
        ASSERT_EQ(uhsfs_etree_load(&etree, list.data(), list.size()), 0);
    }

    uhsfs_geometry geo;
    TreeDevice device;
    uhsfs_etree etree{};
};

// The same random operations on a tree, a list and a map of blocks.
void run_model(u64 seed, u32 preload, u64 space, u32 longest, int steps, bool dir, u32 snapshot) {
    Random random(seed);
    SCOPED_TRACE(random.note());
    Tree tree(dir);
    tree.geo.snapshot = snapshot;
    const u32 scale = tree.etree.limits.scale;
    std::vector<uhsfs_extent> storage(100000);
    uhsfs_extent_list list = {.extent = storage.data(),
                              .count = 0,
                              .capacity = 100000,
                              .scale = scale,
                              .snapshot = snapshot};
    BlockModel model;
    u64 physical = 10;

    if (preload != 0) {
        tree.load(random, preload, &model, &physical);
        for (const auto &ext : tree.see().extents)
            uhsfs_extent_encode(&ext, &list.extent[list.count++]);
    }
    for (int step = 0; step < steps; step++) {
        Op op = uhsfs::test::random_op(random, space, longest, &physical, scale);
        if (op.kind == OpKind::truncate && preload != 0)
            op.ext.logical = space - op.ext.logical % (space / 50 + 1);
        Freed from_list;
        Freed from_tree;
        const int list_err = apply_list(&list, op, &from_list);
        const int tree_err = apply_tree(&tree.etree, op, &from_tree);

        ASSERT_EQ(tree_err, list_err) << "step " << step << " op " << static_cast<int>(op.kind);
        ASSERT_EQ(tree.etree.tree.spares, 0U);
        if (list_err != 0)
            continue;
        ASSERT_EQ(from_tree.blocks, from_list.blocks) << "step " << step;
        ASSERT_EQ(from_list.blocks, model.apply(op, scale));
        const u64 logical = random.between(0, space);
        uhsfs_ext ext{};
        u64 len = 0;
        const int found = uhsfs_etree_lookup(&tree.etree, logical, &ext, &len);
        ASSERT_EQ(found, model.any(logical, 1) ? 1 : 0);
        if (found == 0) {
            ASSERT_FALSE(model.any(logical, len));
            ASSERT_TRUE(logical + len == 1ULL << 52 || model.any(logical + len, 1));
        }
        if (random.between(0, 9) == 0)
            tree.device.commit();
        if (step % 50 == 0 || step + 1 == steps) {
            ASSERT_TRUE(model.maps_as(tree.model(), snapshot, uhsfs::test::newest_birth))
                << "step " << step;
            tree.check_nodes();
        }
    }
}

TEST(ExtentTree, MatchesAListAndAMapOfBlocks) {
    for (u64 i = 0; i < 4; i++) {
        const u32 snapshot = i < 2 ? 0 : 2;
        run_model(uhsfs::test::seed() + i, 0, 2000, 20, 3000, i % 2 != 0, snapshot);
        if (testing::Test::HasFatalFailure())
            return;
    }
}

TEST(ExtentTree, MatchesAListWithManyLeaves) {
    for (u64 i = 0; i < 3; i++) {
        const auto snapshot = static_cast<u32>(i);
        run_model(uhsfs::test::seed() + i, 3000, 9000, i == 0 ? 5 : 1500, 400, i % 2 != 0,
                  snapshot);
        if (testing::Test::HasFatalFailure())
            return;
    }
}

TEST(ExtentTree, HoldsAHundredThousandExtents) {
    constexpr u64 many = 100000;
    Tree tree;
    Random random;

    for (u64 i = 0; i < many; i++) {
        const uhsfs_ext ext = {
            .logical = i, .physical = space_at(2 * i), .len = 1, .birth = 1, .flags = 0};
        ASSERT_EQ(uhsfs_etree_insert(&tree.etree, &ext), 0);
    }
    tree.device.commit();
    EXPECT_EQ(tree.etree.tree.count, many);
    EXPECT_EQ(tree.etree.tree.depth, 3U);
    // In order of their keys: full leaves.
    EXPECT_LE(tree.device.live().size(), many / 167 + 10);
    for (int i = 0; i < 1000; i++) {
        const u64 logical = random.between(0, many - 1);
        uhsfs_ext ext{};
        u64 len = 0;
        tree.device.reads = 0;
        ASSERT_EQ(uhsfs_etree_lookup(&tree.etree, logical, &ext, &len), 1);
        ASSERT_EQ(ext.physical, space_at(2 * logical));
        ASSERT_EQ(tree.device.reads, 3U);
    }
    // Then in random order, all in one transaction: nodes are copied once.
    const u64 nodes = tree.device.live().size();
    tree.device.allocs = 0;
    for (int i = 0; i < 20000; i++) {
        ASSERT_EQ(uhsfs_etree_punch(&tree.etree, random.between(0, many - 1), 3, nullptr), 0);
    }
    EXPECT_LE(tree.device.allocs, nodes + 20);
    tree.check_nodes();
    // A truncation of everything takes hardly a block.
    tree.device.commit();
    tree.device.allocs = 0;
    Freed freed;
    const u64 left = tree.model().blocks.size();
    ASSERT_EQ(uhsfs_etree_truncate(&tree.etree, 0, &freed.told), 0);
    EXPECT_EQ(freed.blocks.size(), left);
    EXPECT_LE(tree.device.allocs, 6U);
    EXPECT_EQ(tree.etree.tree.depth, 0U);
    EXPECT_EQ(tree.etree.tree.count, 0U);
    tree.device.commit();
    EXPECT_TRUE(tree.device.nodes.empty());
}

// A contiguous file written in one block an epoch: an extent a leaf at most, one here.
TEST(ExtentTree, MergesEpochsButNotAcrossASnapshot) {
    Tree tree;
    u64 len = 0;
    uhsfs_ext ext{};
    const auto append = [&](u32 first, u32 last) {
        for (u32 epoch = first; epoch <= last; epoch++) {
            ext = {
                .logical = epoch, .physical = 1000 + epoch, .len = 1, .birth = epoch, .flags = 0};
            ASSERT_EQ(uhsfs_etree_insert(&tree.etree, &ext), 0);
            tree.device.commit();
        }
    };

    append(1, 500);
    EXPECT_EQ(tree.etree.tree.count, 1U);
    tree.geo.snapshot = 500;
    append(501, 1000);
    EXPECT_EQ(tree.etree.tree.count, 2U);
    ASSERT_EQ(uhsfs_etree_lookup(&tree.etree, 1, &ext, &len), 1);
    EXPECT_EQ(ext.birth, 500U);
    ASSERT_EQ(uhsfs_etree_lookup(&tree.etree, 501, &ext, &len), 1);
    EXPECT_EQ(ext.birth, 1000U);
    EXPECT_EQ(len, 500U);
}

TEST(ExtentTree, StaysDenseEnoughWhenFilledAtRandom) {
    constexpr u32 many = 20000;
    Tree tree;
    std::vector<u64> order(many);
    std::mt19937_64 engine(uhsfs::test::seed());

    for (u32 i = 0; i < many; i++)
        order[i] = i;
    std::shuffle(order.begin(), order.end(), engine);
    for (const u64 i : order) {
        const uhsfs_ext ext = {
            .logical = 2 * i, .physical = space_at(i), .len = 1, .birth = 1, .flags = 0};
        ASSERT_EQ(uhsfs_etree_insert(&tree.etree, &ext), 0);
    }
    tree.check_nodes();
    EXPECT_LE(tree.device.live().size(), many / 84 + 10);
    // Taking out at random merges, and lowers the tree again.
    std::shuffle(order.begin(), order.end(), engine);
    for (u32 i = 0; i < many - 10; i++)
        ASSERT_EQ(uhsfs_etree_punch(&tree.etree, 2 * order[i], 1, nullptr), 0);
    tree.check_nodes();
    EXPECT_EQ(tree.etree.tree.count, 10U);
    EXPECT_EQ(tree.etree.tree.depth, 1U);
}

// Every allocation and every read of an operation fails once: the old tree stands, on
// the device as in memory, and no block is lost.
TEST(ExtentTree, FailsAsAWhole) {
    const std::vector<std::pair<OpKind, uhsfs_ext>> ops = {
        {OpKind::insert, {.logical = 500, .physical = 5000000, .len = 1, .birth = 9, .flags = 0}},
        {OpKind::replace,
         {.logical = 200, .physical = 5000000, .len = 3000, .birth = 9, .flags = 0}},
        {OpKind::replace, {.logical = 200, .physical = 5000000, .len = 1, .birth = 9, .flags = 0}},
        {OpKind::punch, {.logical = 333, .physical = 0, .len = 1, .birth = 0, .flags = 0}},
        {OpKind::punch, {.logical = 100, .physical = 0, .len = 4000, .birth = 0, .flags = 0}},
        {OpKind::convert, {.logical = 100, .physical = 0, .len = 4000, .birth = 0, .flags = 0}},
        {OpKind::truncate, {.logical = 1000, .physical = 0, .len = 1, .birth = 0, .flags = 0}},
        {OpKind::collapse, {.logical = 300, .physical = 0, .len = 2000, .birth = 0, .flags = 0}},
        {OpKind::insert_range, {.logical = 301, .physical = 0, .len = 7, .birth = 0, .flags = 0}},
    };

    for (const auto &[kind, ext] : ops) {
        for (int what = 0; what < 3; what++) {
            for (long n = 0;; n++) {
                ASSERT_LT(n, 2000);
                SCOPED_TRACE(testing::Message()
                             << "op " << static_cast<int>(kind) << " what " << what << " n " << n);
                Random random;
                Tree tree;
                BlockModel model;
                u64 physical = 10;
                tree.load(random, 1500, &model, &physical);
                // A hole for the insertion, and some fresh nodes beside durable ones.
                tree.device.commit();
                for (const u64 hole : {500ULL, 2000ULL}) {
                    ASSERT_EQ(uhsfs_etree_punch(&tree.etree, hole, 3, nullptr), 0);
                    model.apply({OpKind::punch, {hole, 0, 3, 0, 0}}, 1);
                }
                const auto live = tree.device.live();
                const auto old = tree.etree.tree;
                Freed freed;
                tree.device.begin();
                tree.device.fail_alloc = what == 0 ? n : -1;
                tree.device.fail_read = what == 1 ? n : -1;
                freed.fail = what == 2 ? n : -1;
                const int err = apply_tree(&tree.etree, {kind, ext}, &freed);
                // A merge may do without a sibling that it cannot read.
                const bool spent = what == 0 || (what == 1 && tree.device.fail_read >= 0) ||
                                   (what == 2 && freed.fail >= 0);
                tree.device.fail_alloc = -1;
                tree.device.fail_read = -1;
                if (err == 0) {
                    model.apply({kind, ext}, 1);
                } else {
                    ASSERT_EQ(err, what == 0 ? -ENOSPC : -EIO);
                    ASSERT_EQ(tree.etree.tree.root, old.root);
                    ASSERT_EQ(tree.etree.tree.depth, old.depth);
                    ASSERT_EQ(tree.device.live(), live);
                }
                ASSERT_TRUE(tree.model() == model);
                tree.check_nodes();
                // Done once the failure is further away than the operation gets.
                if (err == 0 && spent)
                    break;
                if (err != 0) {
                    tree.device.begin();
                    freed.fail = -1;
                    ASSERT_EQ(apply_tree(&tree.etree, {kind, ext}, &freed), 0);
                    // Calls of freed() are many: try some.
                    n += what == 2 ? n / 2 : 0;
                }
            }
        }
    }
}

TEST(ExtentTree, NeedsNoAllocationAfterAReservation) {
    Random random;
    Tree tree;
    u64 physical = 10;

    tree.load(random, 1500, nullptr, &physical);
    tree.device.commit();
    for (int i = 0; i < 200; i++) {
        const u64 logical = random.between(0, 3000);
        ASSERT_EQ(uhsfs_tree_reserve(&tree.etree.tree, uhsfs_tree_worst(tree.etree.tree.depth)), 0);
        u32 need = 0;
        ASSERT_EQ(uhsfs_etree_need(&tree.etree, logical, 2, &need), 0);
        ASSERT_LE(need, tree.etree.tree.spares);
        tree.device.fail_alloc = 0;
        if (i % 2 != 0) {
            ASSERT_EQ(uhsfs_etree_convert(&tree.etree, logical, 2), 0);
        } else {
            const uhsfs_ext ext = {
                .logical = logical, .physical = physical += 5, .len = 2, .birth = 2, .flags = 1};
            ASSERT_EQ(uhsfs_etree_replace(&tree.etree, &ext, nullptr), 0);
        }
        tree.device.fail_alloc = -1;
        uhsfs_tree_release(&tree.etree.tree, 0);
        tree.check_nodes();
        if (i % 5 == 0)
            tree.device.commit();
    }
}

// What is collapsed is a leaf: its place falls to the leaf before, wherever that hangs.
TEST(ExtentTree, CollapsesWholeLeaves) {
    for (const u32 leaf : {0U, 1U, 252U, 297U}) {
        Random random;
        Tree tree;
        BlockModel model;
        u64 physical = 10;
        tree.load(random, 168 * 298, &model, &physical);
        tree.device.commit();
        const auto seen = tree.see().extents;
        const u64 from = seen[168 * leaf].logical;
        const u64 end = uhsfs_ext_end(&seen[168 * leaf + 167]);
        const Op op = {OpKind::collapse, {from, 0, static_cast<u32>(end - from), 0, 0}};
        ASSERT_EQ(apply_tree(&tree.etree, op, nullptr), 0) << leaf;
        model.apply(op, 1);
        ASSERT_TRUE(tree.model() == model) << leaf;
        tree.check_nodes();
    }
}

TEST(ExtentTree, RefusesBadArguments) {
    Tree tree;
    uhsfs_ext ext = {.logical = 1ULL << 51, .physical = 10, .len = 1, .birth = 1, .flags = 0};

    EXPECT_EQ(uhsfs_etree_insert(&tree.etree, &ext), -EFBIG);
    ext.logical = 0;
    ext.physical = 0;
    EXPECT_EQ(uhsfs_etree_insert(&tree.etree, &ext), -EINVAL);
    ext.physical = tree.geo.blocks;
    EXPECT_EQ(uhsfs_etree_insert(&tree.etree, &ext), -EINVAL);
    ext.physical = 32768 + 2;
    EXPECT_EQ(uhsfs_etree_insert(&tree.etree, &ext), -EINVAL);
    EXPECT_EQ(uhsfs_etree_punch(&tree.etree, 0, 0, nullptr), -EINVAL);
    EXPECT_EQ(uhsfs_etree_punch(&tree.etree, 5, 5, nullptr), 0) << "of nothing";
    EXPECT_EQ(tree.device.allocs, 0U);
}

TEST(ExtentTree, TellsEachExtentAndNodeOnceAndGivesAllBack) {
    Random random;
    Tree tree(true);
    u64 physical = 10;

    tree.load(random, 50000, nullptr, &physical);
    EXPECT_EQ(tree.see().count, 50000U);
    EXPECT_EQ(tree.see().nodes, tree.device.live());
    EXPECT_EQ(tree.see().nodes.size(), uhsfs_tree_nodes(298));
    tree.device.commit();
    tree.device.begin();
    tree.device.fail_read = 100;
    EXPECT_EQ(uhsfs_tree_destroy(&tree.etree.tree), -EIO);
    EXPECT_TRUE(tree.device.freed.empty());
    tree.device.fail_read = -1;
    EXPECT_EQ(uhsfs_tree_destroy(&tree.etree.tree), 0);
    tree.device.commit();
    EXPECT_TRUE(tree.device.nodes.empty());
}

// Every operation on a damaged tree: an error or not, but nothing worse.
void use_damaged(Tree *tree, Random &random) {
    u64 physical = 1000000;

    tree->see();
    for (int i = 0; i < 12; i++) {
        const Op op = uhsfs::test::random_op(random, 4000, 1000, &physical, 1);
        Freed freed;
        const auto root = tree->etree.tree.root;
        const int err = apply_tree(&tree->etree, op, &freed);
        if (err != 0) {
            ASSERT_EQ(tree->etree.tree.root, root);
        }
    }
}

TEST(ExtentTree, FindsEveryFlippedByte) {
    Random random;
    Tree tree;
    u64 physical = 10;

    tree.load(random, 400, nullptr, &physical);
    tree.device.commit();
    for (const u64 block : tree.device.live()) {
        auto *bytes = reinterpret_cast<unsigned char *>(tree.device.nodes.at(block).get());
        for (u32 at = 0; at < UHSFS_BLOCK_SIZE; at++) {
            bytes[at] ^= 1U << (at % 8);
            ASSERT_EQ(tree.see().err, -EUCLEAN) << block << " byte " << at;
            ASSERT_EQ(tree.etree.tree.fault.id, block);
            bytes[at] ^= 1U << (at % 8);
        }
    }
    ASSERT_EQ(tree.see().err, 0);
}

TEST(ExtentTree, SurvivesSealedNonsense) {
    for (u64 round = 0; round < 300; round++) {
        Random random(uhsfs::test::seed() + round);
        SCOPED_TRACE(random.note());
        Tree tree;
        u64 physical = 10;
        tree.load(random, 1000, nullptr, &physical);
        tree.device.commit();
        const auto live = tree.device.live();
        auto at = live.begin();
        std::advance(at, static_cast<long>(random.between(0, live.size() - 1)));
        auto *node = tree.device.nodes.at(*at).get();
        auto *bytes = reinterpret_cast<unsigned char *>(node);
        // A few bytes, or all after the header, with a good checksum.
        if (round % 3 == 0) {
            const auto noise = random.bytes(UHSFS_BLOCK_SIZE - sizeof(uhsfs_header));
            std::memcpy(bytes + sizeof(uhsfs_header), noise.data(), noise.size());
            if (round % 2 == 0) {
                node->level = 0;
                node->count = cpu_to_le16(static_cast<u16>(random.between(0, 300)));
                node->used = 0;
                node->reserved0 = 0;
                node->reserved1 = 0;
            }
        } else {
            for (u64 i = 0; i < round % 5 + 1; i++)
                bytes[random.between(sizeof(uhsfs_header), UHSFS_BLOCK_SIZE - 1)] ^=
                    static_cast<unsigned char>(random.between(1, 255));
        }
        uhsfs_tree_seal(node, 1);
        use_damaged(&tree, random);
        if (testing::Test::HasFatalFailure())
            return;
    }
}

// Well-formed nodes that do not belong where they stand.
TEST(ExtentTree, RefusesCyclesSharedNodesAndWrongRanges) {
    Random random;
    u64 physical = 10;
    const auto root_of = [](Tree &tree) {
        return tree.device.nodes.at(tree.etree.tree.root).get();
    };
    const auto expect_refused = [&](const char *what, auto damage) {
        Tree tree;
        physical = 10;
        tree.load(random, 60000, nullptr, &physical);
        tree.device.commit();
        ASSERT_EQ(tree.etree.tree.depth, 3U);
        damage(tree);
        for (const auto &[block, node] : tree.device.nodes)
            uhsfs_tree_seal(node.get(), 1);
        const Seen seen = tree.see();
        EXPECT_EQ(seen.err, -EUCLEAN) << what;
        use_damaged(&tree, random);
    };

    expect_refused("root is its own child", [&](Tree &tree) {
        root_of(tree)->ref[0].block = cpu_to_le64(tree.etree.tree.root);
    });
    expect_refused("one child twice",
                   [&](Tree &tree) { root_of(tree)->ref[1].block = root_of(tree)->ref[0].block; });
    expect_refused("one leaf twice", [&](Tree &tree) {
        auto *inner = tree.device.nodes.at(le64_to_cpu(root_of(tree)->ref[0].block)).get();
        inner->ref[9].block = inner->ref[8].block;
    });
    expect_refused("leaf as an inner node", [&](Tree &tree) {
        const auto *inner = tree.device.nodes.at(le64_to_cpu(root_of(tree)->ref[0].block)).get();
        root_of(tree)->ref[0].block = inner->ref[0].block;
    });
    expect_refused("keys out of order", [&](Tree &tree) {
        std::swap(root_of(tree)->ref[0].key, root_of(tree)->ref[1].key);
    });
    expect_refused("key beyond a child's extents", [&](Tree &tree) {
        auto *inner = tree.device.nodes.at(le64_to_cpu(root_of(tree)->ref[0].block)).get();
        inner->ref[5].key = cpu_to_le64(le64_to_cpu(inner->ref[5].key) + 1);
    });
    expect_refused("key before the end of the child in front", [&](Tree &tree) {
        auto *inner = tree.device.nodes.at(le64_to_cpu(root_of(tree)->ref[0].block)).get();
        inner->ref[5].key = cpu_to_le64(le64_to_cpu(inner->ref[4].key) + 1);
    });
    expect_refused("block with a bitmap",
                   [&](Tree &tree) { root_of(tree)->ref[1].block = cpu_to_le64(32768 * 5 + 2); });
    expect_refused("block with a superblock",
                   [&](Tree &tree) { root_of(tree)->ref[1].block = cpu_to_le64(32767); });
    expect_refused("data on a bitmap", [&](Tree &tree) {
        const auto *inner = tree.device.nodes.at(le64_to_cpu(root_of(tree)->ref[0].block)).get();
        auto *leaf = tree.device.nodes.at(le64_to_cpu(inner->ref[3].block)).get();
        leaf->extent[0].physical = cpu_to_le64(32768 * 5 + 3);
    });
    expect_refused("root on a bitmap", [&](Tree &tree) { tree.etree.tree.root = 3; });
    expect_refused("block outside of the device",
                   [&](Tree &tree) { root_of(tree)->ref[1].block = cpu_to_le64(tree.geo.blocks); });
    expect_refused("wrong owner", [&](Tree &tree) { root_of(tree)->h.owner_ino = 3; });
    expect_refused("flags", [&](Tree &tree) { root_of(tree)->h.flags = cpu_to_le32(1); });
    expect_refused("byte after the last entry",
                   [&](Tree &tree) { root_of(tree)->bytes[UHSFS_TREE_PAYLOAD - 1] = 1; });
    expect_refused("empty node", [&](Tree &tree) { root_of(tree)->count = 0; });
    expect_refused("count beyond the node", [&](Tree &tree) {
        root_of(tree)->count = cpu_to_le16(UHSFS_TREE_NODE_MAX + 1);
    });
    expect_refused("depth of the slot's root", [&](Tree &tree) { tree.etree.tree.depth = 2; });
    expect_refused("depth beyond the limit", [&](Tree &tree) { tree.etree.tree.depth = 9; });
}

// A hostile image points to a block that is free there and then becomes a fresh node.
TEST(ExtentTree, RefusesAFreshNodeWhereAnOldOneIsExpected) {
    Random random;
    Tree tree;
    u64 physical = 10;

    tree.load(random, 1000, nullptr, &physical);
    tree.device.commit();
    auto *root = tree.device.nodes.at(tree.etree.tree.root).get();
    root->ref[3].block = cpu_to_le64(space_from(node_base + tree.device.nodes.size(), 1));
    uhsfs_tree_seal(root, 1);
    use_damaged(&tree, random);
    EXPECT_NE(tree.see().err, 0);
}

TEST(ExtentTree, GoesOnBehindDamageIfAskedTo) {
    struct Damage {
        u64 extents = 0;
        int nodes = 0;
    } damage;
    Random random;
    Tree tree;
    u64 physical = 10;
    u64 count = 0;
    const uhsfs_etree_visitor visitor = {
        .node = nullptr,
        .extent =
            [](void *ctx, const uhsfs_ext *) {
                static_cast<Damage *>(ctx)->extents++;
                return 0;
            },
        .damaged =
            [](void *ctx, u64, int err, const uhsfs_fault *fault) {
                EXPECT_EQ(err, -EUCLEAN);
                EXPECT_STREQ(fault->field, "crc");
                static_cast<Damage *>(ctx)->nodes++;
                return 0;
            },
        .ctx = &damage,
    };

    tree.load(random, 168 * 10, nullptr, &physical);
    tree.device.commit();
    const auto *root = tree.device.nodes.at(tree.etree.tree.root).get();
    for (const u32 leaf : {2U, 7U})
        tree.device.nodes.at(le64_to_cpu(root->ref[leaf].block))->bytes[100] ^= 1;
    EXPECT_EQ(uhsfs_etree_check(&tree.etree, &visitor, &count), 0);
    EXPECT_EQ(damage.nodes, 2);
    EXPECT_EQ(damage.extents, 168U * 8);
    EXPECT_EQ(count, 168U * 8);
}

// What a reader with its own cache of nodes asks.
TEST(ExtentTree, ChecksANodeWhereItIsSaidToHang) {
    Random random;
    Tree tree;
    u64 physical = 10;
    tree.load(random, 168 * 3, nullptr, &physical);
    tree.device.commit();
    const u64 root = tree.etree.tree.root;
    const auto *node = tree.device.nodes.at(root).get();
    const u64 leaf = le64_to_cpu(node->ref[1].block);
    const u64 low = le64_to_cpu(node->ref[1].key);
    const u64 high = le64_to_cpu(node->ref[2].key) - 1;
    auto *bytes = tree.device.nodes.at(leaf).get();
    const auto check = [&](u64 block, u32 level, u64 from, u64 to, bool passed) -> std::string {
        const uhsfs_tree_at at = {.block = block, .level = level, .low = from, .high = to};
        const auto *what = tree.device.nodes.at(block == root ? root : leaf).get();
        const int err = uhsfs_tree_check_node(&tree.etree.tree, what, &at, passed);
        EXPECT_TRUE(err == 0 || err == -EUCLEAN);
        return err == 0 ? "" : tree.etree.tree.fault.field;
    };

    for (const bool passed : {false, true}) {
        EXPECT_EQ(check(root, 1, 0, U64_MAX, passed), "");
        EXPECT_EQ(check(leaf, 0, low, high, passed), "");
        EXPECT_EQ(check(leaf, 1, low, high, passed), "level");
        EXPECT_EQ(check(root, 0, 0, U64_MAX, passed), "level");
        EXPECT_EQ(check(leaf, 0, low + 1, high, passed), "first key");
        EXPECT_EQ(check(leaf, 0, low, low, passed), "last key");
        EXPECT_EQ(check(leaf + 1, 0, low, high, passed), "block");
        tree.etree.tree.owner_ino++;
        EXPECT_EQ(check(leaf, 0, low, high, passed), "owner_ino");
        tree.etree.tree.owner_ino--;
        tree.etree.tree.owner_gen++;
        EXPECT_EQ(check(leaf, 0, low, high, passed), "owner_gen");
        tree.etree.tree.owner_gen--;
    }
    bytes->bytes[5] ^= 1;
    EXPECT_EQ(check(leaf, 0, low, high, false), "crc");
}

}  // namespace
