// SPDX-License-Identifier: GPL-2.0
/*
 * Rules must be able to fail: without one of them some cut of a story loses something, and
 * with all of them none does.  The module is one whose rules can be switched off.
 */
#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>

#include "tests.hpp"

namespace uhsfs::replay {

namespace {

constexpr const char *parameter = "/sys/module/uhsfs/parameters/break_rule";

struct Rule {
    const char *name;
    const char *text;
    const char *setup;
    const char *tell;
    unsigned leave = 0;  // blocks that stay free, if the disk is full
};

std::string links(const char *format) {
    std::string all;
    for (char letter = 'a'; letter <= 'h'; letter++)
        all += fmt::format(fmt::runtime(format), letter, std::string(150, letter));
    return all;
}

// What a cut of the story loses; "": nothing.
std::string loses(Theatre &theatre, const Rule &rule, const char *broken,
                  const TestOptions &options) {
    Results results;
    Story story(theatre, results);

    story.begin();
    for (const Op &op : parse_ops(rule.setup))
        story.world().run(op);
    if (rule.leave != 0)
        fill_disk(theatre, story.world(), rule.leave);
    story.end_setup();
    // For what is recorded alone: crash images are mounted with all rules.
    write_file(parameter, broken);
    try {
        story.tell(parse_ops(rule.tell));
    } catch (...) {
        write_file(parameter, "none");
        throw;
    }
    write_file(parameter, "none");
    story.replay(options.crashes);
    std::string text;
    for (const std::string &problem : results.problems())
        text += (text.empty() ? "" : " | ") + problem;
    return text;
}

void check_rule(Theatre &theatre, const Rule &rule, const TestOptions &options) {
    Results results;

    results.begin(fmt::format("without {}, {}, a cut loses something ({})", rule.name, rule.text,
                              theatre.shape().text()));
    try {
        const std::string lost = loses(theatre, rule, "none", options);
        if (!lost.empty())
            results.problem("with all rules: " + lost);
        const std::string caught = loses(theatre, rule, rule.name, options);
        if (caught.empty())
            results.problem("nothing is lost");
        else
            fmt::print("# {}: {}\n", rule.name, caught);
    } catch (const std::exception &error) {
        results.problem(error.what());
    }
    results.end();
}

}  // namespace

void test_rules(const std::string &work, const TestOptions &options) {
    constexpr unsigned small_disk = 1024;
    const std::string tree = links("link a {1};") + "fsync a;" + links("unlink {1};") + "fsync a";
    const Rule rules[] = {
        {.name = "R0",
         .text = "intent",
         .setup = "create a",
         .tell = "create t; fsync t; chmod a 384; fsync a"},
        // What stood in the blocks before must not come to light.
        {.name = "R1",
         .text = "data",
         .setup = "create t; create old; write old 0 65536",
         .tell = "unlink old; sync; chmod t 384; fsync t; write t 0 20000; fsync t",
         .leave = 4},
        {.name = "R2", .text = "trees", .setup = "create a", .tell = tree.c_str()},
        {.name = "R3",
         .text = "freed blocks",
         .setup = "create a; write a 0 65536; create b; create t",
         .tell = "truncate a 0; write t 0 65536; fsync t; fsync b",
         .leave = 4},
        {.name = "N1",
         .text = "new directories",
         .setup = "create a",
         .tell = "mkdir d; create d/x; fsync d/x; mkdir d/e; create d/e/y; fsync d/e/y"},
    };

    if (::access(parameter, W_OK) != 0)
        failed(parameter);
    for (const bool shadow : {false, true}) {
        for (const Rule &rule : rules) {
            Theatre theatre({.shadow = shadow,
                             .slot_size = shadow ? 2048U : 1024U,
                             .blocks = rule.leave != 0 ? small_disk : Shape().blocks},
                            work);
            check_rule(theatre, rule, options);
        }
    }
}

}  // namespace uhsfs::replay
