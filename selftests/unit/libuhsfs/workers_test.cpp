// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include "libuhsfs/result.hpp"

namespace {

using namespace uhsfs;

TEST(Workers, DoEachItemOnce) {
    for (const unsigned threads : {1U, 2U, 7U}) {
        for (const std::uint64_t items : {0U, 1U, 3U, 1000U}) {
            std::vector<std::atomic<int>> done(items);
            for_each_item(threads, items, [&](unsigned worker, std::uint64_t item) {
                EXPECT_LT(worker, threads);
                done.at(item)++;
            });
            for (const auto &count : done)
                EXPECT_EQ(count, 1);
        }
    }
}

TEST(Workers, StopWhenTold) {
    std::atomic<int> done = 0;

    for_each_item(4, 1000000, [&](unsigned, std::uint64_t) { done++; }, [&] { return done >= 10; });
    EXPECT_GE(done, 10);
    EXPECT_LE(done, 10 + 4);
}

TEST(Workers, HandTheirExceptionToTheCaller) {
    for (const unsigned threads : {1U, 4U}) {
        std::atomic<int> done = 0;
        EXPECT_THROW(for_each_item(threads, 1000000,
                                   [&](unsigned, std::uint64_t item) {
                                       done++;
                                       if (item % 10 == 9)
                                           throw std::out_of_range("ninth");
                                   }),
                     std::out_of_range);
        EXPECT_LE(done, 10 + 100 * 4) << "went on";
    }
}

TEST(WithoutExceptions, MakesErrorsOfThem) {
    const auto result = [](auto function) {
        return without_exceptions("disk", [&]() -> Result<int> { return function(); });
    };

    EXPECT_EQ(result([] { return 5; }), 5);
    const auto memory = result([]() -> int { throw std::bad_alloc(); });
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().code, ENOMEM);
    EXPECT_EQ(memory.error().object, "disk");
    const auto other = result([]() -> int { throw std::runtime_error("odd"); });
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().to_string(), "disk: odd");
}

}  // namespace
