/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a command prints: members of one object, long lists among them row by row, notes and
 * errors. As text or as JSON, always one whole object that has a member "errors".
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libuhsfs/result.hpp"
#include "libuhsfs/value.hpp"

namespace uhsfs::ctl {

enum class Format : std::uint8_t { text, json };

// A column of a list that is printed while it is read: at least `width` wide in text.
struct Column {
    std::string_view key;
    std::size_t width = 0;
};

class Report {
public:
    Report(Format format, bool quiet, unsigned verbose)
        : format_(format), quiet_(quiet), verbose_(verbose) {}

    [[nodiscard]] bool json() const noexcept { return format_ == Format::json; }
    [[nodiscard]] bool verbose() const noexcept { return verbose_ != 0; }

    // A member of the object.
    template <typename T>
    void add(std::string_view key, T &&value) {
        pending_.add(key, std::forward<T>(value));
    }
    // All members of an object.
    void add_all(const Value &object);

    // A list of objects, each with the columns as its first keys; in text those alone are
    // shown, and the heading only if there is a row.
    void begin_rows(std::string_view key, std::vector<Column> columns);
    void row(const Value &object);
    void end_rows();

    // Text for people only, as it is; or JSON's inside, for what is neither member nor row.
    void raw(std::string_view bytes);
    // Starts a member whose value is written with raw().
    void begin_raw(std::string_view key);

    // To standard error unless -q; not in JSON.
    void note(std::string_view text);
    // To standard error and into "errors". The exit status becomes at least `status`.
    void error(const Error &error, int status = 1);
    // What was found is damaged, as shown already: no message.
    void damaged() { status_ = status_ == 0 ? 1 : status_; }

    // Ends the object and writes everything; the exit status.
    int finish();

private:
    void flush_pending();
    void put(std::string_view text);
    void write_out();
    void member(std::string_view key);

    Format format_;
    bool quiet_;
    unsigned verbose_;
    int status_ = 0;
    bool failed_ = false;  // standard output
    bool opened_ = false;  // JSON: the object's brace is written
    bool first_member_ = true;
    bool first_row_ = true;
    std::vector<Column> columns_;
    std::string rows_key_;
    Value pending_ = Value::object();
    Value errors_ = Value::array();
    std::string out_;
};

}  // namespace uhsfs::ctl
