/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tests of this program; each prints results.
 */
#pragma once

#include <string>

#include "replay.hpp"

namespace uhsfs::replay {

struct TestOptions {
    CrashOptions crashes = {};
    unsigned count = 1;  // stories of each kind
    bool both = true;    // every sequence on both kinds of devices
};

// A file takes what is free, except for so many blocks.
void fill_disk(Theatre &theatre, World &world, unsigned leave);

// Scenarios of the design.
void test_scenarios(const std::string &work, const TestOptions &options);

// Sequences from a file; see lib/sequences.py.
void test_sequences(const std::string &work, const TestOptions &options, const std::string &file);

// Random ones, and cuts of their recovery.
void test_random(const std::string &work, const TestOptions &options);

// What breaks without each rule.
void test_rules(const std::string &work, const TestOptions &options);

}  // namespace uhsfs::replay
