// SPDX-License-Identifier: GPL-2.0
/*
 * crash_replay scenarios WORK MOST
 * crash_replay rules WORK MOST
 * crash_replay random WORK MOST COUNT
 * crash_replay sequences WORK MOST FILE [half]
 *
 * WORK: a folder on a tmpfs. MOST: images of each story, 0: all. COUNT: stories of each kind.
 * half: each sequence on one kind of device.
 */
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tests.hpp"

using namespace uhsfs::replay;

namespace {

// UHSFS_SEED repeats a run.
std::uint64_t seed() {
    const char *text = std::getenv("UHSFS_SEED");
    const std::uint64_t value =
        text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device()();

    fmt::print("# UHSFS_SEED={}\n", value);
    return value;
}

int run_test(const std::vector<std::string> &words) {
    TestOptions options;
    const std::string &test = words.at(0);
    const std::string &work = words.at(1);

    options.crashes.seed = seed();
    options.crashes.most = static_cast<unsigned>(std::stoul(words.at(2)));
    if (test == "scenarios") {
        test_scenarios(work, options);
    } else if (test == "sequences") {
        options.both = words.size() < 5;
        test_sequences(work, options, words.at(3));
    } else if (test == "rules") {
        test_rules(work, options);
    } else if (test == "random") {
        options.count = static_cast<unsigned>(std::stoul(words.at(3)));
        test_random(work, options);
    } else {
        throw std::runtime_error("no test " + test);
    }
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        return run_test({argv + 1, argv + argc});
    } catch (const std::exception &error) {
        fmt::print("# crash_replay: {}\n", error.what());
        return 1;
    }
}
