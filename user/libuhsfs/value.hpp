/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a tool has to say, once, for two readers: a tree of values that is written as JSON
 * for programs (raw numbers) or as indented text for people (units, times, names of flags).
 *
 * Keys are whole words with '-' between them, the same in both forms.
 */
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace uhsfs {

class Value {
public:
    enum class Kind : std::uint8_t { scalar, object, array };

    Value() = default;  // null
    static Value object() { return Value(Kind::object); }
    static Value array() { return Value(Kind::array); }
    // Scalars. `text` is for people; empty: the number or string as it is.
    static Value boolean(bool value);
    static Value null(std::string_view text = {});
    template <std::integral T>
    static Value number(T value, std::string_view text = {}) {
        return scalar(std::to_string(value), text);
    }
    // Bytes from disk. What is not UTF-8 stands in JSON a second time, in a member of the
    // same key with "-hex" behind it. In text, control bytes and backslashes are escaped.
    static Value string(std::string_view bytes);
    // A word for programs, and a text for people.
    static Value word(std::string_view value, std::string_view text = {});

    [[nodiscard]] Kind kind() const noexcept { return kind_; }
    [[nodiscard]] bool empty() const noexcept { return members_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
    [[nodiscard]] const std::vector<std::pair<std::string, Value>> &members() const noexcept {
        return members_;
    }
    // Of a scalar: what people read.
    [[nodiscard]] const std::string &text() const noexcept { return text_; }
    // The member of an object, or null.
    [[nodiscard]] const Value *find(std::string_view key) const;

    // Objects.
    Value &add(std::string_view key, Value value);
    Value &add(std::string_view key, bool value) { return add(key, boolean(value)); }
    template <std::integral T>
        requires(!std::same_as<T, bool>)
    Value &add(std::string_view key, T value, std::string_view text = {}) {
        return add(key, number(value, text));
    }
    Value &add(std::string_view key, std::string_view bytes) { return add(key, string(bytes)); }
    Value &add(std::string_view key, const char *bytes) { return add(key, string(bytes)); }
    // All members of another object.
    Value &extend(const Value &object);
    // Arrays.
    Value &push(Value value);

    // One line, without spaces at its ends.
    [[nodiscard]] std::string to_json() const;
    void append_json(std::string &out) const;
    // Lines for people, each ended.
    [[nodiscard]] std::string to_text() const;
    void append_text(std::string &out, std::size_t indent) const;

private:
    explicit Value(Kind kind) : kind_(kind) {}
    static Value scalar(std::string json, std::string_view text);
    void append_object(std::string &out, std::size_t indent) const;
    void append_array(std::string &out, std::string_view key, std::size_t indent) const;
    [[nodiscard]] bool is_row() const;
    [[nodiscard]] bool is_line() const;
    [[nodiscard]] std::string line() const;

    Kind kind_ = Kind::scalar;
    std::string json_ = "null";
    std::string text_ = "none";
    std::string hex_;                                     // of bytes that are no UTF-8
    std::vector<std::pair<std::string, Value>> members_;  // an array's have no keys
};

// Bytes as people read them: control bytes as \xNN, backslash doubled; the rest as it is.
std::string printable(std::string_view bytes);

// Columns that text takes on a terminal; every character counts one.
std::size_t display_width(std::string_view text);

}  // namespace uhsfs
