// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/check_findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace uhsfs {

namespace {

// From what all depends on to what depends on all.
constexpr std::array<std::string_view, 16> ranks = {
    "superblock",      "chunk table", "chunk",  "intent map", "suspect map",    "bitmap",
    "block",           "slot block",  "slot",   "name",       "directory root", "extent tree node",
    "names tree node", "xattr block", "xattrs", "bucket",
};

std::size_t rank(const char *object) {
    return static_cast<std::size_t>(std::ranges::find(ranks, object) - ranks.begin());
}

// Negative, 0 or positive.
int compare(const uhsfs_fault &a, const uhsfs_fault &b) {
    const auto ra = rank(a.object);
    const auto rb = rank(b.object);

    if (ra != rb)
        return ra < rb ? -1 : 1;
    if (const int order = std::string_view(a.object).compare(b.object))
        return order;
    if (a.id != b.id)
        return a.id < b.id ? -1 : 1;
    if (const int order = std::string_view(a.field).compare(b.field))
        return order;
    if (a.value != b.value)
        return a.value < b.value ? -1 : 1;
    if (a.limit != b.limit)
        return a.limit < b.limit ? -1 : 1;
    return std::string_view(a.rule).compare(b.rule);
}

}  // namespace

bool FindingSet::Order::operator()(const Finding &a, const Finding &b) const {
    const int order = compare(a.fault, b.fault);

    return order != 0 ? order < 0 : a.detail < b.detail;
}

bool FindingSet::wanted(const uhsfs_fault &fault) {
    const std::scoped_lock guard(lock_);

    if (kept_.size() < most_ || (most_ > 0 && compare(fault, kept_.rbegin()->fault) <= 0))
        return true;
    total_++;
    return false;
}

void FindingSet::insert(Finding finding) {
    const std::scoped_lock guard(lock_);

    total_++;
    kept_.insert(std::move(finding));
    if (kept_.size() > most_)
        kept_.erase(std::prev(kept_.end()));
}

std::vector<Finding> FindingSet::take() {
    const std::scoped_lock guard(lock_);
    std::vector<Finding> all(kept_.begin(), kept_.end());

    kept_.clear();
    return all;
}

std::string Finding::text() const {
    Error line{.code = 0, .object = {}, .message = fault_text(fault), .hint = {}};

    if (!detail.empty())
        line.message += fmt::format(": {}", detail);
    return line.to_string();
}

unsigned CheckReport::used_percent() const noexcept {
    constexpr std::uint64_t whole = 100;

    if (blocks == 0 || free_blocks >= blocks)
        return 0;
    const auto part = static_cast<unsigned __int128>(blocks - free_blocks) * whole;
    return static_cast<unsigned>((part + blocks - 1) / blocks);
}

}  // namespace uhsfs
