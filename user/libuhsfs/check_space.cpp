// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/check_space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace uhsfs {

// ---- sets of blocks ------------------------------------------------------------------------

BlockSet::BlockSet(std::uint64_t groups)
    : groups_(groups), pages_((groups + page_groups - 1) / page_groups) {}

BlockSet::Group *BlockSet::find(std::uint64_t number) const {
    const Page *page = number < groups_ ? pages_[number / page_groups].load() : nullptr;

    return page == nullptr ? nullptr : (*page)[number % page_groups].load();
}

BlockSet::Group &BlockSet::make(std::uint64_t number) {
    const std::scoped_lock guard(lock_);
    auto &page = pages_[number / page_groups];

    if (page.load() == nullptr)
        page.store(made_pages_.emplace_back(std::make_unique<Page>()).get());
    auto &slot = (*page.load())[number % page_groups];
    if (slot.load() == nullptr)
        slot.store(made_groups_.emplace_back(std::make_unique<Group>()).get());
    return *slot.load();
}

void BlockSet::mark_word(std::uint64_t number, std::size_t index, std::uint64_t mask) {
    Group *found = find(number);
    Group &marks = found != nullptr ? *found : make(number);

    any_.store(true);
    marks[index].fetch_or(mask);
}

void BlockSet::mark(std::uint64_t block, std::uint64_t count, BlockSet *again) {
    constexpr std::uint64_t bits = 64;

    if (count > 0)
        any_.store(true);
    while (count > 0) {
        const std::uint64_t number = block / UHSFS_GROUP_BLOCKS;
        Group *found = find(number);
        Group &marks = found != nullptr ? *found : make(number);
        std::uint64_t at = block % UHSFS_GROUP_BLOCKS;
        const std::uint64_t end = std::min<std::uint64_t>(at + count, UHSFS_GROUP_BLOCKS);
        count -= end - at;
        block += end - at;
        while (at < end) {
            const std::uint64_t n = std::min(bits - at % bits, end - at);
            const std::uint64_t mask = (n == bits ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1)
                                       << (at % bits);
            const std::uint64_t twice = marks[at / bits].fetch_or(mask) & mask;
            if (twice != 0 && again != nullptr)
                again->mark_word(number, at / bits, twice);
            at += n;
        }
    }
}

bool BlockSet::has(std::uint64_t block) const {
    const std::uint64_t at = block % UHSFS_GROUP_BLOCKS;

    return (word(block / UHSFS_GROUP_BLOCKS, at / 64) >> (at % 64) & 1) != 0;
}

std::pair<std::uint64_t, std::uint64_t> BlockSet::next(std::uint64_t block,
                                                       std::uint64_t end) const {
    while (block < end) {
        const std::uint64_t at = block % UHSFS_GROUP_BLOCKS;
        const std::uint64_t number = block / UHSFS_GROUP_BLOCKS;
        if (group(number) == nullptr) {
            block = (number + 1) * UHSFS_GROUP_BLOCKS;
            continue;
        }
        const std::uint64_t left = word(number, at / 64) >> (at % 64);
        if (left != 0) {
            block += static_cast<std::uint64_t>(std::countr_zero(left));
            break;
        }
        block += 64 - at % 64;
    }
    if (block >= end)
        return {end, end};
    std::uint64_t stop = block;
    while (stop < end) {
        const std::uint64_t at = stop % UHSFS_GROUP_BLOCKS;
        const std::uint64_t left = word(stop / UHSFS_GROUP_BLOCKS, at / 64) >> (at % 64);
        const auto run = static_cast<std::uint64_t>(std::countr_one(left));
        stop += run;
        if (run < 64 - at % 64)
            break;
    }
    stop = std::min(stop, end);
    return {block, stop};
}

// ---- owners --------------------------------------------------------------------------------

std::string BlockOwner::text() const {
    switch (kind) {
        case super:
            return "the superblocks";
        case bitmap:
            return fmt::format("bitmaps of group {}", id);
        case table:
            return fmt::format("chunk table of segment {}", id);
        case map:
            return fmt::format("chunk maps of segment {}", id);
        case chunk:
            return fmt::format("chunk {}", id);
        case data:
            return fmt::format("data of inode {}", id);
        case extent_node:
            return fmt::format("extent tree of inode {}", id);
        case names_node:
            return fmt::format("names tree of inode {}", id);
        case xattr_block:
            return fmt::format("xattrs of inode {}", id);
    }
    return "?";
}

void OwnerList::own(const BlockOwner &owner, std::uint64_t block, std::uint64_t count) {
    const std::uint64_t end = block + count;

    for (;;) {
        const auto [first, last] = asked_.next(block, end);
        if (first >= end)
            return;
        const std::scoped_lock guard(lock_);
        const Range range{.block = first, .count = last - first, .owner = owner};
        if (ranges_.size() >= most_ && range >= *ranges_.rbegin())
            return;
        ranges_.insert(range);
        if (ranges_.size() > most_)
            ranges_.erase(std::prev(ranges_.end()));
        block = last;
    }
}

}  // namespace uhsfs
