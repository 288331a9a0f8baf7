// SPDX-License-Identifier: GPL-2.0
/*
 * The parts of the manual that all its forms share, and its plain form: --help.
 */
#include "common/manual.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace uhsfs::manual {

const Command *find_command(const Program &program, std::string_view name) {
    const auto found = std::ranges::find(program.commands, name, &Command::name);

    return found == program.commands.end() ? nullptr : &*found;
}

std::vector<Option> all_options(const Program &program, const Command &command) {
    std::vector<Option> options = command.options;

    if (&command != &program.self)
        options.insert(options.end(), program.self.options.begin(), program.self.options.end());
    return options;
}

std::vector<ExitStatus> all_exits(const Program &program, const Command &command) {
    std::vector<ExitStatus> exits = program.exits;

    for (const ExitStatus &own : command.exits) {
        const auto known = std::ranges::find(exits, own.status, &ExitStatus::status);
        if (known != exits.end())
            *known = own;
        else
            exits.push_back(own);
    }
    std::ranges::sort(exits, {}, &ExitStatus::status);
    return exits;
}

std::string usage_line(const Program &program, const Command &command) {
    std::string line(program.name);

    if (!command.name.empty())
        line += fmt::format(" {}", command.name);
    line += " [OPTIONS]";
    if (&command == &program.self && !program.commands.empty())
        return line + " COMMAND [ARGUMENTS]";
    for (const Argument &argument : command.arguments)
        line += argument.optional ? fmt::format(" [{}]", argument.name)
                                  : fmt::format(" {}", argument.name);
    return line;
}

std::string page_name(const Program &program, const Command &command) {
    std::string name(program.name);

    if (!command.name.empty())
        name += fmt::format("-{}", command.name);
    std::ranges::replace(name, ' ', '-');
    return name;
}

std::vector<std::string> paragraphs(std::string_view text) {
    std::vector<std::string> result;

    while (!text.empty()) {
        const std::size_t end = std::min(text.find("\n\n"), text.size());
        std::string_view part = text.substr(0, end);
        while (part.starts_with('\n'))
            part.remove_prefix(1);
        while (part.ends_with('\n'))
            part.remove_suffix(1);
        if (!part.empty())
            result.emplace_back(part);
        text.remove_prefix(std::min(end + 2, text.size()));
    }
    return result;
}

namespace {

constexpr std::size_t line_width = 80;
constexpr std::size_t text_column = 28;

// Breaks a text into lines of at most line_width columns; the first begins in the present
// column of `out`.
void append_wrapped(std::string &out, std::string_view text, std::size_t indent) {
    const std::size_t line_start = out.rfind('\n') + 1;
    std::size_t column = out.size() - line_start;
    bool first = true;

    while (!text.empty()) {
        const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (word.empty())
            continue;
        if (!first && column + 1 + word.size() > line_width) {
            out += fmt::format("\n{:{}}", "", indent);
            column = indent;
        } else if (!first) {
            out += ' ';
            column++;
        }
        out += word;
        column += word.size();
        first = false;
    }
    out += '\n';
}

// "  NAME      text", the text from text_column on.
void append_item(std::string &out, std::string_view name, std::string_view text) {
    std::string head = fmt::format("  {}", name);

    if (head.size() + 2 > text_column) {
        out += head;
        out += '\n';
        head.clear();
    }
    out += fmt::format("{:{}}", head, text_column);
    append_wrapped(out, text, text_column);
}

std::string option_head(const Option &option) {
    std::string head = option.brief != 0 ? fmt::format("-{}, --{}", option.brief, option.name)
                                         : fmt::format("    --{}", option.name);

    if (!option.argument.empty())
        head += fmt::format(" {}", option.argument);
    return head;
}

std::string option_text(const Option &option) {
    std::string text(option.text);

    if (!option.choices.empty())
        text += fmt::format(" ({})", fmt::join(option.choices, ", "));
    return text;
}

void append_text(std::string &out, std::string_view text) {
    for (const std::string &part : paragraphs(text)) {
        out += '\n';
        if (part.starts_with("  ")) {
            out += part;
            out += '\n';
        } else {
            append_wrapped(out, part, 0);
        }
    }
}

}  // namespace

std::string help_text(const Program &program, const Command &command) {
    const bool whole = &command == &program.self;
    std::string out = fmt::format("Usage: {}\n", usage_line(program, command));

    out += '\n';
    append_wrapped(out, fmt::format("{}: {}", page_name(program, command), command.summary), 0);
    append_text(out, command.description);
    if (whole && !program.commands.empty()) {
        out += "\nCommands:\n";
        for (const Command &each : program.commands)
            append_item(out, each.name, each.summary);
    }
    if (!command.arguments.empty()) {
        out += "\nArguments:\n";
        for (const Argument &argument : command.arguments)
            append_item(out, argument.name, argument.text);
    }
    out += whole && !program.commands.empty() ? "\nOptions of every command:\n" : "\nOptions:\n";
    for (const Option &option : all_options(program, command))
        append_item(out, option_head(option), option_text(option));
    if (!command.examples.empty()) {
        out += "\nExamples:\n";
        for (const Example &example : command.examples) {
            out += fmt::format("  {}\n{:6}", example.command, "");
            append_wrapped(out, example.text, 6);
        }
    }
    out += "\nExit status:\n";
    for (const ExitStatus &exit : all_exits(program, command))
        append_item(out, fmt::format("{}", exit.status), exit.text);
    return out;
}

}  // namespace uhsfs::manual
