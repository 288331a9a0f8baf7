/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Findings of a check, bounded and in an order that does not depend on threads: of more
 * findings than are kept, the first ones in that order stay.
 */
#pragma once

#include <mutex>
#include <set>
#include <utility>

#include "libuhsfs/check.hpp"

namespace uhsfs {

class FindingSet {
public:
    explicit FindingSet(std::size_t most) : most_(most) {}

    // Safe from several threads.
    void add(const uhsfs_fault &fault, std::string detail = {}) {
        add_with(fault, [&] { return std::move(detail); });
    }
    // detail() is called only if the finding is kept, for what takes reading to tell.
    template <typename Detail>
    void add_with(const uhsfs_fault &fault, Detail detail) {
        if (wanted(fault))
            insert({.fault = fault, .detail = detail()});
    }

    [[nodiscard]] std::uint64_t total() const { return total_; }
    // All that were kept; the set is empty then.
    std::vector<Finding> take();

private:
    struct Order {
        bool operator()(const Finding &a, const Finding &b) const;
    };

    // Counts a finding that is not kept.
    bool wanted(const uhsfs_fault &fault);
    void insert(Finding finding);

    const std::size_t most_;
    mutable std::mutex lock_;
    std::multiset<Finding, Order> kept_;
    std::uint64_t total_ = 0;
};

// A fault as a value; strings must be constants.
inline uhsfs_fault make_fault(const char *object, std::uint64_t id, const char *field,
                              std::uint64_t value, std::uint64_t limit, const char *rule) {
    return {
        .object = object, .id = id, .field = field, .value = value, .limit = limit, .rule = rule};
}

}  // namespace uhsfs
