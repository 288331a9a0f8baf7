// SPDX-License-Identifier: GPL-2.0
/*
 * The meaning of a mapping, one block at a time, and random operations on it: what
 * lists and trees of extents are compared with.
 */
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "etree.h"
#include "support/random.hpp"
#include "tree_support.hpp"

namespace uhsfs::test {

enum class OpKind { insert, replace, punch, truncate, convert, collapse, insert_range };

struct Op {
    OpKind kind;
    uhsfs_ext ext;  // logical and len of all operations; the rest of insert and replace
};

// Collects what an operation frees; fails at the nth call if asked to.
struct Freed {
    Freed() = default;
    Freed(const Freed &) = delete;
    Freed &operator=(const Freed &) = delete;

    std::multiset<u64> blocks;
    long fail = -1;
    uhsfs_freed told = {.range = call, .ctx = this};

    static int call(void *ctx, u64 block, u64 len) {
        auto *freed = static_cast<Freed *>(ctx);

        if (freed->fail >= 0 && freed->fail-- == 0)
            return -EIO;
        for (u64 i = 0; i < len; i++)
            freed->blocks.insert(block + i);
        return 0;
    }
};

class BlockModel {
public:
    using Value = std::tuple<u64, u32, u32>;  // physical, flags, birth

    bool operator==(const BlockModel &) const = default;

    // True if `other` maps the same, with births that merging may have raised: only such as
    // are newer than the snapshot, and never above the newest one.
    [[nodiscard]] bool maps_as(const BlockModel &other, u32 snapshot, u32 newest) const {
        return std::ranges::equal(blocks, other.blocks, [&](const auto &a, const auto &b) {
            const auto &[physical, flags, birth] = a.second;
            const auto &[other_physical, other_flags, other_birth] = b.second;
            const bool birth_ok = birth <= snapshot ? other_birth == birth
                                                    : other_birth >= birth && other_birth <= newest;
            return a.first == b.first && physical == other_physical && flags == other_flags &&
                   birth_ok;
        });
    }

    void set(const uhsfs_ext &ext, u32 scale) {
        for (u64 i = 0; i < ext.len; i++)
            blocks[ext.logical + i] = {ext.physical + i * scale, ext.flags, ext.birth};
    }

    [[nodiscard]] bool any(u64 logical, u64 len) const {
        const auto found = blocks.lower_bound(logical);

        return found != blocks.end() && found->first - logical < len;
    }

    // What the operation frees.
    std::multiset<u64> apply(const Op &op, u32 scale) {
        std::multiset<u64> freed;
        const u64 from = op.ext.logical;
        const u64 end = op.kind == OpKind::truncate ? U64_MAX : from + op.ext.len;

        switch (op.kind) {
            case OpKind::insert:
            case OpKind::replace:
                freed = erase(from, end, scale);
                set(op.ext, scale);
                break;
            case OpKind::punch:
            case OpKind::truncate:
                freed = erase(from, end, scale);
                break;
            case OpKind::convert:
                for (auto i = blocks.lower_bound(from); i != blocks.end() && i->first < end; ++i)
                    std::get<1>(i->second) &= ~static_cast<u32>(UHSFS_EXT_UNWRITTEN);
                break;
            case OpKind::collapse:
                freed = erase(from, end, scale);
                move(from, [&](u64 logical) { return logical - op.ext.len; });
                break;
            case OpKind::insert_range:
                move(from, [&](u64 logical) { return logical + op.ext.len; });
                break;
        }
        return freed;
    }

    std::map<u64, Value> blocks;

private:
    std::multiset<u64> erase(u64 from, u64 end, u32 scale) {
        std::multiset<u64> freed;
        auto i = blocks.lower_bound(from);

        while (i != blocks.end() && i->first < end) {
            for (u32 home = 0; home < scale; home++)
                freed.insert(std::get<0>(i->second) + home);
            i = blocks.erase(i);
        }
        return freed;
    }

    template <typename Where>
    void move(u64 from, Where where) {
        std::map<u64, Value> moved;

        for (const auto &[logical, value] : blocks)
            moved[logical < from ? logical : where(logical)] = value;
        blocks = std::move(moved);
    }
};

// Births of random operations are 0 to this.
inline constexpr u32 newest_birth = 4;

// An operation below logical `space`, at most `longest` blocks; *physical: next free one.
inline Op random_op(Random &random, u64 space, u32 longest, u64 *physical, u32 scale) {
    Op op{};
    const u64 dice = random.between(0, 99);

    op.kind = dice < 35   ? OpKind::insert
              : dice < 50 ? OpKind::replace
              : dice < 68 ? OpKind::punch
              : dice < 70 ? OpKind::truncate
              : dice < 90 ? OpKind::convert
              : dice < 95 ? OpKind::collapse
                          : OpKind::insert_range;
    op.ext.logical = random.between(0, space - 1);
    op.ext.len = static_cast<u32>(random.between(1, longest));
    if (op.kind == OpKind::collapse || op.kind == OpKind::insert_range)
        op.ext.len = op.ext.len % 5 + 1;
    op.ext.birth = static_cast<u32>(random.between(0, newest_birth));
    op.ext.flags = random.between(0, 1) != 0 ? UHSFS_EXT_UNWRITTEN : 0;
    // Half of them continue the one before on the device, so that some merge.
    *physical += random.between(0, 1) * 3;
    *physical = space_from(*physical, static_cast<u64>(op.ext.len) * scale);
    op.ext.physical = *physical;
    if (op.kind == OpKind::insert || op.kind == OpKind::replace)
        *physical += static_cast<u64>(op.ext.len) * scale;
    return op;
}

inline int apply_list(uhsfs_extent_list *list, const Op &op, Freed *freed) {
    const u64 logical = op.ext.logical;
    const u64 len = op.ext.len;

    switch (op.kind) {
        case OpKind::insert:
            return uhsfs_list_insert(list, &op.ext);
        case OpKind::replace:
            return uhsfs_list_replace(list, &op.ext, &freed->told);
        case OpKind::punch:
            return uhsfs_list_punch(list, logical, len, &freed->told);
        case OpKind::truncate:
            return uhsfs_list_truncate(list, logical, &freed->told);
        case OpKind::convert:
            return uhsfs_list_convert(list, logical, len);
        case OpKind::collapse:
            return uhsfs_list_collapse(list, logical, len, &freed->told);
        case OpKind::insert_range:
            return uhsfs_list_insert_range(list, logical, len, UHSFS_FILE_MAX_BLOCKS);
    }
    return -EINVAL;
}

// freed may be NULL.
inline int apply_tree(uhsfs_etree *tree, const Op &op, Freed *freed) {
    const uhsfs_freed *told = freed != nullptr ? &freed->told : nullptr;
    const u64 logical = op.ext.logical;
    const u64 len = op.ext.len;

    switch (op.kind) {
        case OpKind::insert:
            return uhsfs_etree_insert(tree, &op.ext);
        case OpKind::replace:
            return uhsfs_etree_replace(tree, &op.ext, told);
        case OpKind::punch:
            return uhsfs_etree_punch(tree, logical, len, told);
        case OpKind::truncate:
            return uhsfs_etree_truncate(tree, logical, told);
        case OpKind::convert:
            return uhsfs_etree_convert(tree, logical, len);
        case OpKind::collapse:
            return uhsfs_etree_collapse(tree, logical, len, told);
        case OpKind::insert_range:
            return uhsfs_etree_insert_range(tree, logical, len);
    }
    return -EINVAL;
}

}  // namespace uhsfs::test
