/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Repeatable random input. Every test that uses it names the seed when it
 * fails; UHSFS_TEST_SEED=N runs the same data again, or other data.
 */
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace uhsfs::test {

inline std::uint64_t seed() {
    constexpr std::uint64_t usual = 20200601;
    constexpr int any_base = 0;
    const char *text = std::getenv("UHSFS_TEST_SEED");

    return text != nullptr ? std::strtoull(text, nullptr, any_base) : usual;
}

class Random {
public:
    explicit Random(std::uint64_t from = seed()) : seed_(from), engine_(from) {}

    // In [low, high], both included.
    std::uint64_t between(std::uint64_t low, std::uint64_t high) {
        return std::uniform_int_distribution<std::uint64_t>(low, high)(engine_);
    }

    std::vector<unsigned char> bytes(std::size_t count) {
        constexpr std::uint64_t largest_byte = 255;
        std::vector<unsigned char> data(count);

        for (auto &byte : data)
            byte = static_cast<unsigned char>(between(0, largest_byte));
        return data;
    }

    // For SCOPED_TRACE.
    [[nodiscard]] std::string note() const { return "UHSFS_TEST_SEED=" + std::to_string(seed_); }

private:
    std::uint64_t seed_;
    std::mt19937_64 engine_;
};

}  // namespace uhsfs::test
