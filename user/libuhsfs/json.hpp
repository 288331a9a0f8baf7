/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Writing JSON (RFC 8259): strings and their escapes. Documents are made of Values
 * (value.hpp).
 */
#pragma once

#include <string>
#include <string_view>

namespace uhsfs {

// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool utf8_valid(std::string_view bytes);

// The inside of a JSON string: quotes, backslashes and control characters escaped. Bytes
// that are not UTF-8, which names on disk may have, become U+FFFD each.
std::string json_escape(std::string_view bytes);

// The same in quotes.
std::string json_string(std::string_view bytes);

// "00ff...": two digits a byte.
std::string hex_string(std::string_view bytes);

}  // namespace uhsfs
