/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Who owns which block.
 *
 * Sets of blocks are bitmaps of whole groups that come into being when something of them is
 * marked: a check needs a bit for each block of groups in use, and nothing for the others.
 */
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "libuhsfs/core.hpp"

namespace uhsfs {

class BlockSet {
public:
    static constexpr std::size_t words = UHSFS_GROUP_BLOCKS / 64;
    using Group = std::array<std::atomic<std::uint64_t>, words>;

    explicit BlockSet(std::uint64_t groups);

    // Marks [block, block + count), which lies within the groups; those that were marked
    // before are marked in *again. Safe from several threads.
    void mark(std::uint64_t block, std::uint64_t count, BlockSet *again = nullptr);
    [[nodiscard]] bool has(std::uint64_t block) const;
    [[nodiscard]] bool empty() const noexcept { return !any_.load(); }
    // Null: nothing of the group is marked.
    [[nodiscard]] const Group *group(std::uint64_t number) const { return find(number); }
    [[nodiscard]] std::uint64_t word(std::uint64_t group, std::size_t index) const {
        const Group *bits = this->group(group);
        return bits == nullptr ? 0 : (*bits)[index].load(std::memory_order_relaxed);
    }
    // First marked block in [block, end) and the end of its run there; {end, end}: none.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> next(std::uint64_t block,
                                                               std::uint64_t end) const;

private:
    static constexpr std::uint64_t page_groups = 4096;
    using Page = std::array<std::atomic<Group *>, page_groups>;

    [[nodiscard]] Group *find(std::uint64_t number) const;
    Group &make(std::uint64_t number);
    void mark_word(std::uint64_t number, std::size_t index, std::uint64_t mask);

    const std::uint64_t groups_;
    std::vector<std::atomic<Page *>> pages_;
    std::mutex lock_;
    // What pages_ points to.
    std::vector<std::unique_ptr<Page>> made_pages_;
    std::vector<std::unique_ptr<Group>> made_groups_;
    std::atomic<bool> any_ = false;
};

// What a block belongs to.
struct BlockOwner {
    enum Kind : std::uint8_t {
        super,
        bitmap,
        table,
        map,
        chunk,
        data,
        extent_node,
        names_node,
        xattr_block,
    };
    Kind kind = super;
    std::uint64_t id = 0;  // group, segment, chunk, inode

    auto operator<=>(const BlockOwner &) const = default;
    [[nodiscard]] std::string text() const;  // "data of inode 12"
};

// Owners of blocks that were asked for, the first ones in order of blocks.
class OwnerList {
public:
    struct Range {
        std::uint64_t block = 0;
        std::uint64_t count = 0;
        BlockOwner owner;
        auto operator<=>(const Range &) const = default;
    };

    OwnerList(const BlockSet &asked, std::size_t most) : asked_(asked), most_(most) {}
    // What of [block, block + count) was asked for. Safe from several threads.
    void own(const BlockOwner &owner, std::uint64_t block, std::uint64_t count);
    [[nodiscard]] const std::multiset<Range> &ranges() const { return ranges_; }

private:
    const BlockSet &asked_;
    const std::size_t most_;
    std::mutex lock_;
    std::multiset<Range> ranges_;
};

}  // namespace uhsfs
