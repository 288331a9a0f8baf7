/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table that describes a program: what it is called, what it takes, what it does.
 *
 * Everything a user reads or types about a program derives from this one table: the parser
 * of its command line (arguments.hpp), --help, man pages, bash completion. The pages and the
 * completion are written when the toolkit is built, by a generator that links the table
 * (uhsfs_manual() in UhsfsTargets.cmake).
 *
 * A program either has commands, as uhsfs-ctl, or is one command itself, as mkfs.uhsfs.
 * Names of commands are one word or two ("dump super"). Texts are plain: paragraphs are
 * separated by empty lines, and a paragraph whose lines begin with two spaces is shown as it
 * stands.
 */
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace uhsfs::manual {

// What a word of the command line is, for completion.
enum class Kind : std::uint8_t {
    other,   // cannot be completed, unless there are choices
    file,    // a path of this machine
    device,  // a block device or image file
    choice,  // one of the choices
};

struct Option {
    char brief = 0;                  // 'o' for -o; 0: none
    std::string_view name = {};      // "output" for --output
    std::string_view argument = {};  // "FORMAT"; empty: a flag. Options have no optional arguments
    Kind kind = Kind::other;         // of the argument
    std::vector<std::string_view> choices = {};
    std::string_view text = {};  // what it does, a sentence or two
};

struct Argument {
    std::string_view name = {};  // "DEVICE"
    Kind kind = Kind::other;
    bool optional = false;  // only the last ones
    std::vector<std::string_view> choices = {};
    std::string_view text = {};
};

struct Example {
    std::string_view command = {};
    std::string_view text = {};
};

struct ExitStatus {
    int status = 0;
    std::string_view text = {};
};

struct Command {
    std::string_view name = {};     // "dump super"; of a program without commands: empty
    std::string_view summary = {};  // "show the superblock": no capital, no full stop
    std::string_view description = {};
    std::vector<Argument> arguments = {};
    std::vector<Option> options = {};
    std::vector<Example> examples = {};
    std::vector<ExitStatus> exits = {};  // instead of the program's, or beyond them
};

struct Program {
    std::string_view name = {};  // "uhsfs-ctl"
    int section = 8;
    Command self = {};  // its options are accepted by every command
    std::vector<Command> commands = {};
    std::vector<ExitStatus> exits = {};
    std::vector<std::string_view> see_also = {};  // "mkfs.uhsfs(8)"
};

// The table of a program's own sources; each program that has one defines this.
const Program &program();

// Nothing: there is no such command.
const Command *find_command(const Program &program, std::string_view name);

// All options of a command: its own, then the program's.
std::vector<Option> all_options(const Program &program, const Command &command);

// What its exit statuses mean, in order.
std::vector<ExitStatus> all_exits(const Program &program, const Command &command);

// "uhsfs-ctl ls [OPTIONS] DEVICE [PATH]"
std::string usage_line(const Program &program, const Command &command);

// What --help prints: of the program (command: program.self) or of one command.
std::string help_text(const Program &program, const Command &command);

// "uhsfs-ctl-dump-super": the name of a command's man page, without the section.
std::string page_name(const Program &program, const Command &command);

// The man page in roff (man macros). version: "uhsfs 0.1.0".
std::string man_page(const Program &program, const Command &command, std::string_view version);

// A script that makes bash complete the program's command lines.
std::string bash_completion(const Program &program);

// Paragraphs of a text.
std::vector<std::string> paragraphs(std::string_view text);

}  // namespace uhsfs::manual
