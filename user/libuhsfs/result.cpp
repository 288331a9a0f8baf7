// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/result.hpp"

#include <cerrno>
#include <iterator>
#include <system_error>

namespace uhsfs {

namespace {

void append_printable(std::string &line, std::string_view text) {
    constexpr unsigned char first_printable = 0x20;
    constexpr unsigned char del = 0x7f;

    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < first_printable || byte == del)
            fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
        else
            line += c;
    }
}

void append_part(std::string &line, std::string_view part) {
    if (part.empty())
        return;
    if (!line.empty())
        line += ": ";
    append_printable(line, part);
}

}  // namespace

std::string Error::to_string() const {
    std::string line;

    append_part(line, object);
    append_part(line, message);
    if (code != 0)
        append_part(line, std::generic_category().message(code));
    if (!hint.empty()) {
        line += " (hint: ";
        append_printable(line, hint);
        line += ')';
    }
    return line;
}

tl::unexpected<Error> fail(int code, std::string_view object, std::string_view message,
                           std::string_view hint) {
    return tl::make_unexpected(Error{.code = code,
                                     .object = std::string(object),
                                     .message = std::string(message),
                                     .hint = std::string(hint)});
}

tl::unexpected<Error> fail_errno(std::string_view object, std::string_view message,
                                 std::string_view hint) {
    const int code = errno;

    return fail(code, object, message, hint);
}

}  // namespace uhsfs
