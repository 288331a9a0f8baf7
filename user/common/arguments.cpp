// SPDX-License-Identifier: GPL-2.0
#include "common/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <charconv>

namespace uhsfs {

namespace po = boost::program_options;

unsigned Arguments::count(std::string_view option) const {
    const auto found = options_.find(option);

    return found == options_.end() ? 0 : static_cast<unsigned>(found->second.size());
}

std::string Arguments::value(std::string_view option, std::string_view otherwise) const {
    const auto found = options_.find(option);

    return found == options_.end() ? std::string(otherwise) : found->second.back();
}

std::vector<std::string> Arguments::values(std::string_view option) const {
    const auto found = options_.find(option);

    return found == options_.end() ? std::vector<std::string>{} : found->second;
}

namespace {

std::string help_hint(const manual::Program &program, const manual::Command &command) {
    if (command.name.empty())
        return fmt::format("see '{} --help'", program.name);
    return fmt::format("see '{} {} --help'", program.name, command.name);
}

po::options_description description(const std::vector<manual::Option> &options) {
    po::options_description all;

    for (const manual::Option &option : options) {
        std::string name(option.name);
        if (option.brief != 0)
            name += fmt::format(",{}", option.brief);
        const bool no_argument = option.argument.empty();
        all.add_options()(name.c_str(), new po::untyped_value(no_argument), "");
    }
    return all;
}

Result<void> check_choice(std::string_view what, const std::vector<std::string_view> &choices,
                          std::string_view value, std::string_view hint) {
    if (choices.empty() || std::ranges::find(choices, value) != choices.end())
        return {};
    return fail(EINVAL, what, fmt::format("'{}' is none of {}", value, fmt::join(choices, ", ")),
                hint);
}

Result<void> check_arguments(const manual::Program &program, const manual::Command &command,
                             const std::vector<std::string> &words) {
    const std::string hint = help_hint(program, command);
    const auto needed = static_cast<std::size_t>(
        std::ranges::count(command.arguments, false, &manual::Argument::optional));

    if (words.size() < needed)
        return fail(EINVAL, command.name,
                    fmt::format("no {} given", command.arguments[words.size()].name), hint);
    if (words.size() > command.arguments.size())
        return fail(EINVAL, command.name,
                    fmt::format("'{}' is one argument too many", words[command.arguments.size()]),
                    hint);
    for (std::size_t i = 0; i < words.size(); i++)
        UHSFS_TRY(
            check_choice(command.arguments[i].name, command.arguments[i].choices, words[i], hint));
    return {};
}

}  // namespace

Result<Arguments> parse_arguments(const manual::Program &program, const manual::Command &command,
                                  const std::vector<std::string> &words, bool check_words) {
    const auto options = manual::all_options(program, command);
    const po::options_description table = description(options);
    const std::string hint = help_hint(program, command);
    Arguments arguments;
    po::parsed_options parsed(&table);

    try {
        // Guessing would make every new option change the meaning of old command lines.
        const int style =
            po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
        parsed = po::command_line_parser(words).options(table).style(style).run();
    } catch (const po::error &error) {
        return fail(EINVAL, command.name, error.what(), hint);
    }
    for (const po::option &option : parsed.options) {
        if (option.position_key >= 0 || option.string_key.empty()) {
            arguments.words_.insert(arguments.words_.end(), option.value.begin(),
                                    option.value.end());
            continue;
        }
        std::string value = option.value.empty() ? std::string() : option.value.front();
        const auto known = std::ranges::find(options, option.string_key, &manual::Option::name);
        if (known != options.end() && !known->argument.empty())
            UHSFS_TRY(check_choice(fmt::format("--{}", known->name), known->choices, value, hint));
        arguments.options_[option.string_key].push_back(std::move(value));
    }
    if (check_words && !arguments.has("help"))
        UHSFS_TRY(check_arguments(program, command, arguments.words_));
    return arguments;
}

namespace {

// True if the word is an option whose argument is the next word.
bool takes_next(const manual::Program &program, std::string_view word) {
    return std::ranges::any_of(program.self.options, [&](const manual::Option &option) {
        if (option.argument.empty())
            return false;
        return word == fmt::format("--{}", option.name) ||
               (option.brief != 0 && word == fmt::format("-{}", option.brief));
    });
}

// The words that may stand where an unknown one does.
std::string known_words(const manual::Program &program, std::string_view first) {
    std::vector<std::string_view> known;

    for (const manual::Command &command : program.commands) {
        std::string_view word = command.name;
        if (!first.empty()) {
            if (!word.starts_with(first) || word.size() <= first.size() ||
                word[first.size()] != ' ')
                continue;
            word.remove_prefix(first.size() + 1);
        }
        word = word.substr(0, word.find(' '));
        if (std::ranges::find(known, word) == known.end())
            known.push_back(word);
    }
    return fmt::format("{}", fmt::join(known, ", "));
}

}  // namespace

Result<CommandLine> find_command_line(const manual::Program &program,
                                      const std::vector<std::string> &words) {
    CommandLine line;
    std::size_t at = 0;

    line.command = &program.self;
    line.rest = words;
    while (at < words.size() && words[at].starts_with('-') && words[at] != "--")
        at += takes_next(program, words[at]) ? 2 : 1;
    if (at >= words.size() || program.commands.empty())
        return line;
    const auto take = [&](const manual::Command *command, std::ptrdiff_t count) {
        const auto from = line.rest.begin() + static_cast<std::ptrdiff_t>(at);
        line.command = command;
        line.rest.erase(from, from + count);
        return line;
    };
    if (at + 1 < words.size())
        if (const auto *found =
                manual::find_command(program, fmt::format("{} {}", words[at], words[at + 1])))
            return take(found, 2);
    if (const auto *found = manual::find_command(program, words[at]))
        return take(found, 1);
    const std::string second = known_words(program, words[at]);
    if (second.empty())
        return fail(EINVAL, {}, fmt::format("no command '{}'", words[at]),
                    fmt::format("one of {}", known_words(program, {})));
    return fail(EINVAL, words[at],
                at + 1 < words.size() ? fmt::format("no command '{} {}'", words[at], words[at + 1])
                                      : fmt::format("'{}' alone is no command", words[at]),
                fmt::format("followed by one of {}", second));
}

Result<std::uint64_t> parse_number(std::string_view what, std::string_view text) {
    std::string_view digits = text;
    int base = 10;
    std::uint64_t number = 0;

    if (digits.starts_with("0x") || digits.starts_with("0X")) {
        digits.remove_prefix(2);
        base = 16;
    }
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (error == std::errc::result_out_of_range)
        return fail(EINVAL, what, fmt::format("'{}' is too large, at most {}", text, UINT64_MAX));
    if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
        return fail(EINVAL, what, fmt::format("'{}' is no number", text),
                    "a decimal number, or a hexadecimal one with 0x");
    return number;
}

}  // namespace uhsfs
