// SPDX-License-Identifier: GPL-2.0
/*
 * uhsfs-ctl: looks into uhsfs filesystems, mounted or not.
 */
#include <fmt/format.h>

#include <cerrno>
#include <exception>
#include <string>
#include <vector>

#include "commands.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::ctl;

constexpr int usage_error = 2;

// Errors in the command line are reported in the format it asks for, as far as it can be read.
Format wanted_format(const std::vector<std::string> &words) {
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; i++) {
        const bool next = words[i] == "-o" || words[i] == "--output";
        if (words[i] == "-ojson" || words[i] == "--output=json" ||
            (next && i + 1 < words.size() && words[i + 1] == "json"))
            return Format::json;
    }
    return Format::text;
}

int wrong_usage(const std::vector<std::string> &words, Error error) {
    Report report(wanted_format(words), false, 0);

    if (error.code == EINVAL)
        error.code = 0;  // "Invalid argument" says nothing more
    report.error(error, usage_error);
    return report.finish();
}

int run(const std::vector<std::string> &words) {
    const manual::Program &table = manual::program();
    const auto line = find_command_line(table, words);

    if (!line)
        return wrong_usage(words, line.error());
    const manual::Command &command = *line->command;
    const auto arguments = parse_arguments(table, command, line->rest);
    if (!arguments)
        return wrong_usage(words, arguments.error());
    Report report(arguments->value("output") == "json" ? Format::json : Format::text,
                  arguments->has("quiet"), arguments->count("verbose"));
    if (arguments->has("help")) {
        report.raw(report.json() ? "" : help_text(table, command));
        if (report.json())
            report.add("help", help_text(table, command));
        return report.finish();
    }
    const Run function = find_run(command.name);
    if (function == nullptr)
        return wrong_usage(words, {.code = 0,
                                   .object = {},
                                   .message = "no command given",
                                   .hint = fmt::format("see '{} help'", table.name)});
    const auto result = function(*arguments, report);
    if (!result) {
        Error error = result.error();
        const bool usage = error.code == EINVAL;
        if (usage)
            error.code = 0;
        report.error(error, usage ? usage_error : 1);
    }
    return report.finish();
}

}  // namespace

int main(int argc, char **argv) {
    try {
        return run({argv + 1, argv + argc});
    } catch (const std::exception &exception) {
        fmt::print(stderr, "uhsfs-ctl: {}\n", exception.what());
        return 1;
    }
}
