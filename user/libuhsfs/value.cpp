// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "libuhsfs/json.hpp"

namespace uhsfs {

// ---- making --------------------------------------------------------------------------------

Value Value::scalar(std::string json, std::string_view text) {
    Value value;

    value.text_ = text.empty() ? json : std::string(text);
    value.json_ = std::move(json);
    return value;
}

Value Value::boolean(bool value) { return scalar(value ? "true" : "false", value ? "yes" : "no"); }

Value Value::null(std::string_view text) { return scalar("null", text.empty() ? "none" : text); }

Value Value::word(std::string_view value, std::string_view text) {
    return scalar(json_string(value), text.empty() ? printable(value) : text);
}

Value Value::string(std::string_view bytes) {
    Value value;

    value.json_ = json_string(bytes);
    value.text_ = printable(bytes);
    if (!utf8_valid(bytes))
        value.hex_ = hex_string(bytes);
    return value;
}

const Value *Value::find(std::string_view key) const {
    const auto found =
        std::ranges::find_if(members_, [&](const auto &member) { return member.first == key; });

    return found == members_.end() ? nullptr : &found->second;
}

Value &Value::add(std::string_view key, Value value) {
    members_.emplace_back(key, std::move(value));
    return *this;
}

Value &Value::extend(const Value &object) {
    members_.insert(members_.end(), object.members_.begin(), object.members_.end());
    return *this;
}

Value &Value::push(Value value) {
    members_.emplace_back(std::string(), std::move(value));
    return *this;
}

// ---- JSON ----------------------------------------------------------------------------------

void Value::append_json(std::string &out) const {
    const bool object = kind_ == Kind::object;
    bool first = true;

    if (kind_ == Kind::scalar) {
        out += json_;
        return;
    }
    out += object ? '{' : '[';
    for (const auto &[key, value] : members_) {
        if (!first)
            out += ", ";
        first = false;
        if (object)
            fmt::format_to(std::back_inserter(out), "{}: ", json_string(key));
        value.append_json(out);
        if (object && !value.hex_.empty())
            fmt::format_to(std::back_inserter(out), ", {}: \"{}\"", json_string(key + "-hex"),
                           value.hex_);
    }
    out += object ? '}' : ']';
}

std::string Value::to_json() const {
    std::string out;

    append_json(out);
    return out;
}

// ---- text ----------------------------------------------------------------------------------

std::string printable(std::string_view bytes) {
    constexpr unsigned char first_printable = 0x20;
    constexpr unsigned char del = 0x7f;
    const bool utf8 = utf8_valid(bytes);
    std::string out;

    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\\')
            out += "\\\\";
        else if (byte < first_printable || byte == del || (!utf8 && byte > del))
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
        else
            out += c;
    }
    return out;
}

std::size_t display_width(std::string_view text) {
    constexpr unsigned char continuation = 0x80;
    constexpr unsigned char mask = 0xc0;

    return static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & mask) != continuation; }));
}

namespace {

constexpr std::size_t step = 4;

void pad(std::string &out, std::string_view text, std::size_t width) {
    out += text;
    out.append(width - std::min(width, display_width(text)), ' ');
}

// Spaces at the end of a line help nobody.
void end_line(std::string &out) {
    while (out.ends_with(' '))
        out.pop_back();
    out += '\n';
}

using Members = std::vector<std::pair<std::string, Value>>;

// Objects with the same keys and without anything inside, as columns.
void append_table(std::string &out, const Members &rows, std::size_t indent) {
    const Members &first = rows.front().second.members();
    std::vector<std::size_t> width;

    for (std::size_t i = 0; i < first.size(); i++) {
        std::size_t most = first[i].first.size();
        for (const auto &row : rows)
            most = std::max(most, display_width(row.second.members()[i].second.text()));
        width.push_back(most + 2);
    }
    out.append(indent, ' ');
    for (std::size_t i = 0; i < first.size(); i++)
        pad(out, first[i].first, width[i]);
    end_line(out);
    for (const auto &row : rows) {
        out.append(indent, ' ');
        for (std::size_t i = 0; i < first.size(); i++)
            pad(out, row.second.members()[i].second.text(), width[i]);
        end_line(out);
    }
}

bool same_keys(const Members &rows) {
    const Members &first = rows.front().second.members();

    return std::ranges::all_of(rows, [&](const auto &row) {
        return std::ranges::equal(
            row.second.members(), first, {}, [](const auto &member) { return member.first; },
            [](const auto &member) { return member.first; });
    });
}

}  // namespace

bool Value::is_row() const {
    return kind_ == Kind::object && !members_.empty() &&
           std::ranges::all_of(members_,
                               [](const auto &m) { return m.second.kind() == Kind::scalar; });
}

// A scalar, or a list of nothing but scalars.
bool Value::is_line() const {
    return kind_ == Kind::scalar ||
           (kind_ == Kind::array && std::ranges::all_of(members_, [](const auto &m) {
                return m.second.kind() == Kind::scalar;
            }));
}

std::string Value::line() const {
    std::string list;

    if (kind_ == Kind::scalar)
        return text_;
    for (const auto &[unused, value] : members_)
        fmt::format_to(std::back_inserter(list), "{}{}", list.empty() ? "" : ", ", value.text());
    return list.empty() ? "none" : list;
}

void Value::append_array(std::string &out, std::string_view key, std::size_t indent) const {
    if (std::ranges::all_of(members_, [](const auto &m) { return m.second.is_row(); }) &&
        same_keys(members_)) {
        fmt::format_to(std::back_inserter(out), "{:{}}{}:\n", "", indent, key);
        append_table(out, members_, indent + step);
        return;
    }
    std::size_t number = 0;
    for (const auto &[unused, value] : members_) {
        fmt::format_to(std::back_inserter(out), "{:{}}{}[{}]:\n", "", indent, key, number++);
        value.append_text(out, indent + step);
    }
}

void Value::append_object(std::string &out, std::size_t indent) const {
    std::size_t width = 0;

    for (const auto &[key, value] : members_)
        if (value.is_line())
            width = std::max(width, key.size() + 2);
    for (const auto &[key, value] : members_) {
        if (value.is_line()) {
            out.append(indent, ' ');
            pad(out, key + ":", width);
            out += value.line();
            end_line(out);
        } else if (value.kind() == Kind::array) {
            value.append_array(out, key, indent);
        } else {
            fmt::format_to(std::back_inserter(out), "{:{}}{}:\n", "", indent, key);
            value.append_text(out, indent + step);
        }
    }
}

void Value::append_text(std::string &out, std::size_t indent) const {
    if (kind_ == Kind::object)
        append_object(out, indent);
    else if (is_line())
        fmt::format_to(std::back_inserter(out), "{:{}}{}\n", "", indent, line());
    else
        append_array(out, "", indent);
}

std::string Value::to_text() const {
    std::string out;

    append_text(out, 0);
    return out;
}

}  // namespace uhsfs
