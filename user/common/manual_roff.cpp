// SPDX-License-Identifier: GPL-2.0
/*
 * The manual as man pages: the man(7) macros that every roff knows.
 */
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/manual.hpp"

namespace uhsfs::manual {

namespace {

// Text as roff shows it: nothing in it is a request, and '-' stays the character to type.
std::string roff(std::string_view text) {
    std::string out;
    bool line_start = true;

    for (const char c : text) {
        if (line_start && (c == '.' || c == '\''))
            out += "\\&";
        line_start = c == '\n';
        switch (c) {
            case '\\':
                out += "\\(rs";
                break;
            case '-':
                out += "\\-";
                break;
            case '~':
                out += "\\(ti";
                break;
            case '^':
                out += "\\(ha";
                break;
            case '`':
                out += "\\(ga";
                break;
            case '\'':
                out += "\\(aq";
                break;
            case '"':
                out += "\\(dq";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", roff(text)); }

std::string upper(std::string_view text) {
    std::string out(text);

    std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::toupper(c); });
    return out;
}

void section(std::string &out, std::string_view title) { out += fmt::format(".SH {}\n", title); }

void item(std::string &out, std::string_view head, std::string_view text) {
    out += fmt::format(".TP\n{}\n{}\n", head, roff(text));
}

void prose(std::string &out, std::string_view text) {
    bool first = true;

    for (const std::string &part : paragraphs(text)) {
        if (!first)
            out += ".PP\n";
        first = false;
        if (part.starts_with("  "))
            out += fmt::format(".nf\n{}\n.fi\n", roff(part));
        else
            out += fmt::format("{}\n", roff(part));
    }
}

std::string option_head(const Option &option) {
    std::string head;

    if (option.brief != 0)
        head = fmt::format("{}, ", bold(fmt::format("-{}", option.brief)));
    head += bold(fmt::format("--{}", option.name));
    if (!option.argument.empty())
        head += fmt::format(" {}", italic(option.argument));
    return head;
}

std::string option_text(const Option &option) {
    std::string text(option.text);

    if (!option.choices.empty())
        text += fmt::format(" One of: {}.", fmt::join(option.choices, ", "));
    return text;
}

void synopsis(std::string &out, const Program &program, const Command &command) {
    section(out, "SYNOPSIS");
    out += bold(program.name);
    if (!command.name.empty())
        out += fmt::format(" {}", bold(command.name));
    out += fmt::format(" [{}]", italic("OPTIONS"));
    if (&command == &program.self && !program.commands.empty())
        out += fmt::format(" {} [{}]", italic("COMMAND"), italic("ARGUMENTS"));
    for (const Argument &argument : command.arguments)
        out += argument.optional ? fmt::format(" [{}]", italic(argument.name))
                                 : fmt::format(" {}", italic(argument.name));
    out += '\n';
}

// References to other pages: the program's commands, or the program; then the rest.
void see_also(std::string &out, const Program &program, const Command &command) {
    std::vector<std::string> pages;

    if (&command != &program.self)
        pages.push_back(fmt::format("{}({})", bold(program.name), program.section));
    else
        for (const Command &each : program.commands)
            pages.push_back(fmt::format("{}({})", bold(page_name(program, each)), program.section));
    for (const std::string_view page : program.see_also) {
        const std::size_t bracket = std::min(page.find('('), page.size());
        pages.push_back(bold(page.substr(0, bracket)) + std::string(page.substr(bracket)));
    }
    if (pages.empty())
        return;
    section(out, "SEE ALSO");
    out += fmt::format("{}\n", fmt::join(pages, ",\n"));
}

}  // namespace

std::string man_page(const Program &program, const Command &command, std::string_view version) {
    const bool whole = &command == &program.self;
    const std::string name = page_name(program, command);
    std::string out = fmt::format(".TH {} {} \"\" \"{}\" \"uhsfs\"\n", roff(upper(name)),
                                  program.section, roff(version));

    // Left-aligned, without hyphenation: what is to be typed must not be broken.
    out += ".ad l\n.nh\n";
    section(out, "NAME");
    out += fmt::format("{} \\- {}\n", roff(name), roff(command.summary));
    synopsis(out, program, command);
    section(out, "DESCRIPTION");
    prose(out, command.description);
    if (whole && !program.commands.empty()) {
        section(out, "COMMANDS");
        for (const Command &each : program.commands)
            item(out, bold(each.name), each.summary);
    }
    if (!command.arguments.empty()) {
        section(out, "ARGUMENTS");
        for (const Argument &argument : command.arguments)
            item(out, italic(argument.name), argument.text);
    }
    section(out, "OPTIONS");
    for (const Option &option : all_options(program, command))
        item(out, option_head(option), option_text(option));
    section(out, "EXIT STATUS");
    for (const ExitStatus &exit : all_exits(program, command))
        item(out, fmt::format("{}", exit.status), exit.text);
    if (!command.examples.empty()) {
        section(out, "EXAMPLES");
        for (const Example &example : command.examples)
            item(out, bold(example.command), example.text);
    }
    see_also(out, program, command);
    return out;
}

}  // namespace uhsfs::manual
