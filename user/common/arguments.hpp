/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Command lines, parsed as the program's table says (manual.hpp).
 */
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/manual.hpp"
#include "libuhsfs/result.hpp"

namespace uhsfs {

// The options and arguments of one command.
class Arguments {
public:
    // How often a flag or option was given, by its long name.
    [[nodiscard]] unsigned count(std::string_view option) const;
    [[nodiscard]] bool has(std::string_view option) const { return count(option) != 0; }
    // The argument of an option, of the last one if it was given several times; `otherwise`
    // if it was not given.
    [[nodiscard]] std::string value(std::string_view option, std::string_view otherwise = {}) const;
    // All arguments of an option that may be repeated.
    [[nodiscard]] std::vector<std::string> values(std::string_view option) const;
    // The arguments that are not options, in order.
    [[nodiscard]] const std::vector<std::string> &words() const noexcept { return words_; }

private:
    friend Result<Arguments> parse_arguments(const manual::Program &, const manual::Command &,
                                             const std::vector<std::string> &, bool);
    std::map<std::string, std::vector<std::string>, std::less<>> options_;
    std::vector<std::string> words_;
};

// Parses everything behind the command's name. EINVAL with a hint at --help: an unknown
// option, a missing argument, one too many, a value that is none of the choices. Options may
// stand before, between and after arguments; "--" ends them. With check_words == false the
// number of arguments is not judged (--help is enough by itself).
Result<Arguments> parse_arguments(const manual::Program &program, const manual::Command &command,
                                  const std::vector<std::string> &words, bool check_words = true);

// The command that a command line names.
struct CommandLine {
    const manual::Command *command = nullptr;
    std::vector<std::string> rest;  // the command line without the command's name
};

// Finds the command behind options of the program. Without any: the program itself. EINVAL:
// no such command, with the nearest ones as a hint.
Result<CommandLine> find_command_line(const manual::Program &program,
                                      const std::vector<std::string> &words);

// A number, decimal or with 0x; EINVAL names `what`.
Result<std::uint64_t> parse_number(std::string_view what, std::string_view text);

}  // namespace uhsfs
