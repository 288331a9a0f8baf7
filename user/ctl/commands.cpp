// SPDX-License-Identifier: GPL-2.0
/*
 * From names of commands to functions, and the commands about the program itself.
 */
#include "commands.hpp"

#include <fmt/format.h>

#include <linux/uhsfs_fs.h>
#include <algorithm>
#include <array>
#include <cerrno>

#include "libuhsfs/json.hpp"

namespace uhsfs::ctl {

namespace {

struct Entry {
    std::string_view name;
    Run run;
};

constexpr std::array entries = {
    Entry{"info", run_info},
    Entry{"usage", run_usage},
    Entry{"features", run_features},
    Entry{"dump super", run_dump_super},
    Entry{"dump slot", run_dump_slot},
    Entry{"dump path", run_dump_path},
    Entry{"dump dir", run_dump_dir},
    Entry{"dump extents", run_dump_extents},
    Entry{"dump chunks", run_dump_chunks},
    Entry{"dump intents", run_dump_intents},
    Entry{"dump bitmap", run_dump_bitmap},
    Entry{"dump block", run_dump_block},
    Entry{"ls", run_ls},
    Entry{"cat", run_cat},
    Entry{"image", run_image},
    Entry{"completion", run_completion},
    Entry{"help", run_help},
    Entry{"version", run_version},
};

// ---- the table as JSON ---------------------------------------------------------------------

Value words(const std::vector<std::string_view> &list) {
    Value value = Value::array();

    for (const std::string_view word : list)
        value.push(Value::word(word));
    return value;
}

Value describe(const manual::Command &command) {
    Value value = Value::object();
    Value arguments = Value::array();
    Value options = Value::array();
    Value examples = Value::array();

    for (const manual::Argument &argument : command.arguments) {
        Value each = Value::object();
        each.add("name", argument.name);
        each.add("optional", argument.optional);
        each.add("choices", words(argument.choices));
        each.add("text", argument.text);
        arguments.push(std::move(each));
    }
    for (const manual::Option &option : command.options) {
        Value each = Value::object();
        each.add("name", option.name);
        each.add("letter", option.brief != 0 ? std::string(1, option.brief) : std::string());
        each.add("argument", option.argument);
        each.add("choices", words(option.choices));
        each.add("text", option.text);
        options.push(std::move(each));
    }
    for (const manual::Example &example : command.examples)
        examples.push(Value::object().add("command", example.command).add("text", example.text));
    value.add("name", command.name);
    value.add("page", manual::page_name(manual::program(), command));
    value.add("summary", command.summary);
    value.add("description", command.description);
    value.add("arguments", std::move(arguments));
    value.add("options", std::move(options));
    value.add("examples", std::move(examples));
    return value;
}

}  // namespace

Run find_run(std::string_view command) {
    const auto *found = std::ranges::find(entries, command, &Entry::name);

    return found == entries.end() ? nullptr : found->run;
}

Result<void> run_help(const Arguments &arguments, Report &report) {
    const manual::Program &table = manual::program();
    const manual::Command *command = &table.self;

    if (!arguments.words().empty()) {
        const auto line = UHSFS_TRY(find_command_line(table, arguments.words()));
        if (!line.rest.empty())
            return fail(EINVAL, {},
                        fmt::format("no command '{}'", fmt::join(arguments.words(), " ")),
                        fmt::format("see '{} help'", table.name));
        command = line.command;
    }
    if (!report.json()) {
        report.raw(help_text(table, *command));
        return {};
    }
    report.add("program", table.name);
    report.add("common", describe(table.self));
    report.begin_rows("commands", {});
    for (const manual::Command &each : table.commands)
        if (command == &table.self || command == &each)
            report.row(describe(each));
    report.end_rows();
    return {};
}

Result<void> run_completion(const Arguments &arguments, Report &report) {
    const std::string script = manual::bash_completion(manual::program());

    if (report.json()) {
        report.add("shell", arguments.words().at(0));
        report.add("script", script);
    } else {
        report.raw(script);
    }
    return {};
}

Result<void> run_version(const Arguments &, Report &report) {
    if (!report.json()) {
        report.raw(
            fmt::format("uhsfs-ctl {}, format version {}\n", UHSFS_VERSION, UHSFS_FORMAT_VERSION));
        return {};
    }
    report.add("program", "uhsfs-ctl");
    report.add("version", UHSFS_VERSION);
    report.add("format-version", UHSFS_FORMAT_VERSION);
    return {};
}

}  // namespace uhsfs::ctl
