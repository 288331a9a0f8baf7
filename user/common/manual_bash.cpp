// SPDX-License-Identifier: GPL-2.0
/*
 * The manual as bash completion.
 *
 * The script needs bash alone. It looks through the words before the cursor for the command
 * and for how many arguments it already has, then offers what the table says of that place:
 * a command, an option, the choices of an argument, or a path. In a script words of a
 * command are a case label; the name of the case is empty for a program without commands.
 */
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/manual.hpp"

namespace uhsfs::manual {

namespace {

constexpr std::string_view head = R"(# shellcheck shell=bash
# bash completion for {name}, generated from its command table.
{function}()
{{
	local current=${{COMP_WORDS[COMP_CWORD]}} previous="" word command="" options="" offer="" i
	local -a words=() kinds=()
	local IFS=$' \t\n'

	# Bash splits --option=value into three words.
	if [ "$COMP_CWORD" -gt 1 ]; then
		previous=${{COMP_WORDS[COMP_CWORD - 1]}}
		[ "$current" != = ] || current=""
		[ "$previous" != = ] || previous=${{COMP_WORDS[COMP_CWORD - 2]}}
	fi
	i=1
	while [ "$i" -lt "$COMP_CWORD" ]; do
		word=${{COMP_WORDS[i]}}
		case $word in
{with_argument}		= | -*) ;;
		*) words+=("$word") ;;
		esac
		i=$((i + 1))
	done
)";

constexpr std::string_view tail = R"(
	case $current in
	-*) offer="words $options" ;;
	*) [ -n "$offer" ] || offer=${{kinds[${{#words[@]}}]-}} ;;
	esac
	case $offer in
	"words "*) mapfile -t COMPREPLY < <(compgen -W "${{offer#words }}" -- "$current") ;;
	path)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		;;
	*) COMPREPLY=() ;;
	esac
}}
complete -F {function} {name}
)";

std::string offer(Kind kind, const std::vector<std::string_view> &choices) {
    if (!choices.empty())
        return fmt::format("words {}", fmt::join(choices, " "));
    return kind == Kind::file || kind == Kind::device ? "path" : "none";
}

std::string option_pattern(const Option &option) {
    std::string pattern = fmt::format("--{}", option.name);

    if (option.brief != 0)
        pattern = fmt::format("-{} | {}", option.brief, pattern);
    return pattern;
}

std::string option_words(const std::vector<Option> &options) {
    std::vector<std::string> words;

    for (const Option &option : options) {
        if (option.brief != 0)
            words.push_back(fmt::format("-{}", option.brief));
        words.push_back(fmt::format("--{}", option.name));
    }
    return fmt::format("{}", fmt::join(words, " "));
}

// What may stand in each place behind the words of the command.
std::string argument_kinds(const Command &command) {
    std::string kinds;

    for (const Argument &argument : command.arguments)
        kinds += fmt::format(" \"{}\"", offer(argument.kind, argument.choices));
    return kinds.empty() ? kinds : kinds.substr(1);
}

// Options that take an argument: their words are skipped together with it.
std::string with_argument(const Program &program) {
    std::vector<std::string> patterns;
    std::set<std::string> seen;
    const auto add = [&](const Command &command) {
        for (const Option &option : command.options)
            if (!option.argument.empty() && seen.insert(option_pattern(option)).second)
                patterns.push_back(option_pattern(option));
    };

    add(program.self);
    for (const Command &command : program.commands)
        add(command);
    if (patterns.empty())
        return {};
    return fmt::format(
        "\t\t{}) i=$((i + 1)); [ \"${{COMP_WORDS[i]-}}\" != = ] || i=$((i + 1)) ;;\n",
        fmt::join(patterns, " | "));
}

// The case that finds the command in words[] and takes its words away.
std::string find_case(const Program &program) {
    std::set<std::string_view> one;
    std::set<std::string_view> two;
    std::string out;

    if (program.commands.empty())
        return out;
    for (const Command &command : program.commands)
        (command.name.find(' ') == std::string_view::npos ? one : two).insert(command.name);
    const auto labels = [](const std::set<std::string_view> &names) {
        return fmt::format("\"{}\"", fmt::join(names, "\" | \""));
    };
    out += "\tcase ${words[*]:0:1} in\n";
    if (!one.empty())
        out += fmt::format("\t{}) command=${{words[0]}}; words=(\"${{words[@]:1}}\") ;;\n",
                           labels(one));
    out += "\tesac\n";
    if (!two.empty()) {
        out += "\tcase $command${words[*]:0:2} in\n";
        out +=
            fmt::format("\t{}) command=${{words[*]:0:2}}; words=(\"${{words[@]:2}}\") ;;\n\tesac\n",
                        labels(two));
    }
    return out;
}

// Offers the argument of an option that the cursor stands behind.
std::string previous_case(const std::vector<Option> &options) {
    std::string labels;

    for (const Option &option : options)
        if (!option.argument.empty())
            labels += fmt::format("\t\t{}) offer=\"{}\" ;;\n", option_pattern(option),
                                  offer(option.kind, option.choices));
    return labels.empty() ? labels : fmt::format("\t\tcase $previous in\n{}\t\tesac\n", labels);
}

// First words of commands, and the second words of each first one that has some.
std::string group_cases(const Program &program) {
    std::vector<std::string_view> first;
    std::string out;

    for (const Command &command : program.commands) {
        const std::string_view word = command.name.substr(0, command.name.find(' '));
        if (std::ranges::find(first, word) == first.end())
            first.push_back(word);
    }
    for (const std::string_view word : first) {
        std::vector<std::string_view> second;
        for (const Command &command : program.commands)
            if (command.name.size() > word.size() + 1 && command.name.starts_with(word) &&
                command.name[word.size()] == ' ')
                second.push_back(command.name.substr(word.size() + 1));
        if (!second.empty())
            out += fmt::format("\t\t\"{}\") kinds=(\"\" \"words {}\") ;;\n", word,
                               fmt::join(second, " "));
    }
    return fmt::format(
        "\t\"\")\n\t\toptions=\"{}\"\n\t\tcase ${{words[*]:0:1}} in\n{}"
        "\t\t*) kinds=(\"words {}\") ;;\n\t\tesac\n{}\t\t;;\n",
        option_words(program.self.options), out, fmt::join(first, " "),
        previous_case(program.self.options));
}

std::string command_case(const Program &program, const Command &command) {
    const auto options = all_options(program, command);
    std::string out = fmt::format("\t\"{}\")\n\t\toptions=\"{}\"\n\t\tkinds=({})\n", command.name,
                                  option_words(options), argument_kinds(command));
    return out + previous_case(options) + "\t\t;;\n";
}

}  // namespace

std::string bash_completion(const Program &program) {
    std::string function = fmt::format("_{}", program.name);

    std::ranges::replace_if(function, [](char c) { return c == '-' || c == '.'; }, '_');
    std::string out = fmt::format(fmt::runtime(head), fmt::arg("name", program.name),
                                  fmt::arg("function", function),
                                  fmt::arg("with_argument", with_argument(program)));
    out += find_case(program);
    out += "\tcase $command in\n";
    if (program.commands.empty())
        out += command_case(program, program.self);
    else
        out += group_cases(program);
    for (const Command &command : program.commands)
        out += command_case(program, command);
    out += "\tesac\n";
    out += fmt::format(fmt::runtime(tail), fmt::arg("name", program.name),
                       fmt::arg("function", function));
    return out;
}

}  // namespace uhsfs::manual
