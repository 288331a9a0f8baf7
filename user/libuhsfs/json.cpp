// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/json.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>

namespace uhsfs {

namespace {

// Length of the well-formed UTF-8 sequence that the bytes begin with, 0 if it is none.
std::size_t utf8_length(std::string_view bytes) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned char first = byte(0);
    std::size_t length = 0;
    unsigned char low = 0x80;  // limits of the second byte
    unsigned char high = 0xbf;

    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        length = 2;
    else if (first >= 0xe0 && first <= 0xef)
        length = 3;
    else if (first >= 0xf0 && first <= 0xf4)
        length = 4;
    if (length == 0 || bytes.size() < length)
        return 0;
    if (first == 0xe0)
        low = 0xa0;  // shorter forms exist
    else if (first == 0xed)
        high = 0x9f;  // surrogates
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;  // above U+10FFFF
    if (byte(1) < low || byte(1) > high)
        return 0;
    for (std::size_t i = 2; i < length; i++)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    return length;
}

}  // namespace

bool utf8_valid(std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t length = utf8_length(bytes);
        if (length == 0)
            return false;
        bytes.remove_prefix(length);
    }
    return true;
}

std::string json_escape(std::string_view bytes) {
    std::string out;

    out.reserve(bytes.size());
    while (!bytes.empty()) {
        const std::size_t length = utf8_length(bytes);
        const auto first = static_cast<unsigned char>(bytes.front());
        if (length == 0)
            out += "\\ufffd";
        else if (first == '"' || first == '\\')
            out += {'\\', bytes.front()};
        else if (first == '\n')
            out += "\\n";
        else if (first == '\t')
            out += "\\t";
        else if (first < 0x20 || first == 0x7f)
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", first);
        else
            out += bytes.substr(0, length);
        bytes.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

std::string json_string(std::string_view bytes) {
    return fmt::format("\"{}\"", json_escape(bytes));
}

std::string hex_string(std::string_view bytes) {
    std::string out;

    for (const char c : bytes)
        fmt::format_to(std::back_inserter(out), "{:02x}", static_cast<unsigned char>(c));
    return out;
}

}  // namespace uhsfs
