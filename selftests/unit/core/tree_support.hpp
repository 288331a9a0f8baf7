// SPDX-License-Identifier: GPL-2.0
/*
 * A device for tests of trees: nodes in memory, with what the kernel does around them
 * (fresh nodes, deferred frees, commits) and failures on demand.
 */
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "cowtree.h"

namespace uhsfs::test {

inline uhsfs_geometry tree_geometry(u32 homes = 1) {
    uhsfs_geometry geo{};

    geo.fsid = 0x1122334455667788ULL;
    geo.blocks = 1ULL << 40;
    geo.homes = homes;
    geo.slot_size = 1024;
    geo.slots_per_block = 4;
    geo.slots_per_chunk = 64;
    geo.erase_unit = 512;
    for (u8 i = 0; i < sizeof(geo.hash_key); i++)
        geo.hash_key[i] = static_cast<u8>(i * 7 + 1);
    return geo;
}

// Nodes stand from this block on; test data stands below.
inline constexpr u64 node_base = (1ULL << 39) + 100;

// The first block from `block` on with `len` blocks that can be allocated, with any homes.
inline u64 space_from(u64 block, u64 len) {
    static const uhsfs_geometry geo = tree_geometry(2);

    while (!uhsfs_space_ok(&geo, block, len))
        block = (block / UHSFS_GROUP_BLOCKS + 1) * UHSFS_GROUP_BLOCKS + UHSFS_BITMAP_OFFSET +
                UHSFS_GROUP_MAPS * 2;
    return block;
}

// Block `i` of those that can be allocated, not all of them.
inline u64 space_at(u64 i) {
    constexpr u64 used = UHSFS_GROUP_BLOCKS - 100;

    return (i / used + 1) * UHSFS_GROUP_BLOCKS + 50 + i % used;
}

class TreeDevice {
public:
    static const uhsfs_tree_ops *ops() {
        static const uhsfs_tree_ops table = {
            .read = [](void *ctx, u64 block,
                       uhsfs_tree_node **node) { return self(ctx)->read(block, node); },
            .alloc = [](void *ctx, u64 *block,
                        uhsfs_tree_node **node) { return self(ctx)->alloc(block, node); },
            .free = [](void *ctx, u64 block) { self(ctx)->free(block); },
            .fresh = [](void *ctx, u64 block) { return self(ctx)->fresh.count(block) != 0; },
        };
        return &table;
    }

    // What is given up is gone, what is new is sealed and must not change any more.
    void commit() {
        for (const u64 block : fresh)
            uhsfs_tree_seal(nodes.at(block).get(), ++seq);
        fresh.clear();
        for (const u64 block : freed)
            nodes.erase(block);
        freed.clear();
    }

    // A new operation: what the one before has read is not held any more.
    void begin() { held.clear(); }

    // Blocks that an image may need: neither given up nor spare.
    [[nodiscard]] std::set<u64> live() const {
        std::set<u64> blocks;

        for (const auto &[block, node] : nodes)
            if (freed.count(block) == 0)
                blocks.insert(block);
        return blocks;
    }

    // The nth allocation from now on fails, and all after it; < 0: none.
    long fail_alloc = -1;
    // The nth first read of a node in the operation fails; < 0: none.
    long fail_read = -1;
    u64 allocs = 0;
    u64 reads = 0;

    std::map<u64, std::unique_ptr<uhsfs_tree_node>> nodes;
    std::set<u64> fresh;
    std::set<u64> freed;
    std::set<u64> held;

private:
    static TreeDevice *self(void *ctx) { return static_cast<TreeDevice *>(ctx); }

    int read(u64 block, uhsfs_tree_node **node) {
        const auto found = nodes.find(block);

        reads++;
        if (fresh.count(block) == 0 && held.count(block) == 0 && fail_read >= 0 && fail_read-- == 0)
            return -EIO;
        held.insert(block);
        if (found == nodes.end())
            return -EIO;
        *node = found->second.get();
        return 0;
    }

    int alloc(u64 *block, uhsfs_tree_node **node) {
        if (fail_alloc == 0)
            return -ENOSPC;
        if (fail_alloc > 0)
            fail_alloc--;
        allocs++;
        *block = space_from(next, 1);
        next = *block + 1;
        auto made = std::make_unique<uhsfs_tree_node>();
        std::memset(made.get(), 0, sizeof(*made));
        *node = made.get();
        nodes.emplace(*block, std::move(made));
        fresh.insert(*block);
        return 0;
    }

    // Readable until the commit, as the contract wants it until the operation's end.
    void free(u64 block) {
        EXPECT_TRUE(nodes.count(block) == 1) << "freed a block that is none: " << block;
        EXPECT_TRUE(freed.insert(block).second) << "freed twice: " << block;
        fresh.erase(block);
    }

    u64 next = node_base;
    u64 seq = 0;
};

}  // namespace uhsfs::test
