// SPDX-License-Identifier: GPL-2.0
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "libuhsfs/json.hpp"

namespace uhsfs::ctl {

namespace {

constexpr std::size_t flush_at = 65536;
constexpr std::string_view step = "    ";

// "ENOENT" of an errno value, for programs.
std::string_view code_word(int code) {
    const char *name = ::strerrorname_np(code);

    return code != 0 && name != nullptr ? name : "";
}

}  // namespace

void Report::put(std::string_view text) {
    out_ += text;
    if (out_.size() >= flush_at)
        write_out();
}

void Report::write_out() {
    if (!failed_ && std::fwrite(out_.data(), 1, out_.size(), stdout) != out_.size()) {
        failed_ = true;
        fmt::print(stderr, "uhsfs-ctl: cannot write to standard output: {}\n",
                   std::strerror(errno));
    }
    out_.clear();
}

void Report::member(std::string_view key) {
    if (!opened_)
        put("{\n");
    opened_ = true;
    put(first_member_ ? "" : ",\n");
    first_member_ = false;
    put(fmt::format("{}{}: ", step, json_string(key)));
}

void Report::flush_pending() {
    if (pending_.empty())
        return;
    if (!json()) {
        put(pending_.to_text());
    } else {
        // Members one to a line; a member's own "-hex" twin stands beside it.
        for (const auto &[key, value] : pending_.members()) {
            Value single = Value::object();
            single.add(key, value);
            const std::string line = single.to_json();
            if (!opened_)
                put("{\n");
            opened_ = true;
            put(first_member_ ? "" : ",\n");
            first_member_ = false;
            put(step);
            put(std::string_view(line).substr(1, line.size() - 2));
        }
    }
    pending_ = Value::object();
}

void Report::add_all(const Value &object) { pending_.extend(object); }

void Report::begin_rows(std::string_view key, std::vector<Column> columns) {
    flush_pending();
    columns_ = std::move(columns);
    rows_key_ = key;
    first_row_ = true;
    if (json()) {
        member(key);
        put("[");
    }
}

void Report::row(const Value &object) {
    if (json()) {
        put(first_row_ ? "\n" : ",\n");
        first_row_ = false;
        put(fmt::format("{}{}{}", step, step, object.to_json()));
        return;
    }
    const auto line = [&](auto text_of) {
        std::string text(rows_key_.empty() ? std::string_view{} : step);
        for (const Column &column : columns_) {
            const std::string cell = text_of(column);
            text += cell;
            const std::size_t width = std::max(column.width, column.key.size());
            text.append(width - std::min(width, display_width(cell)) + 2, ' ');
        }
        while (text.ends_with(' '))
            text.pop_back();
        put(text + '\n');
    };
    if (first_row_ && !rows_key_.empty()) {
        put(fmt::format("{}:\n", rows_key_));
        line([](const Column &column) { return std::string(column.key); });
    }
    first_row_ = false;
    line([&](const Column &column) {
        const Value *value = object.find(column.key);
        return value != nullptr ? value->text() : std::string();
    });
}

void Report::end_rows() {
    if (json())
        put(first_row_ ? "]" : fmt::format("\n{}]", step));
    else if (first_row_ && !columns_.empty())
        put(fmt::format("{}: none\n", rows_key_));
}

void Report::raw(std::string_view bytes) {
    flush_pending();
    put(bytes);
}

void Report::begin_raw(std::string_view key) {
    flush_pending();
    if (json())
        member(key);
}

void Report::note(std::string_view text) {
    if (!quiet_)
        fmt::print(stderr, "uhsfs-ctl: {}\n", text);
}

void Report::error(const Error &error, int status) {
    Value value = Value::object();

    fmt::print(stderr, "uhsfs-ctl: {}\n", error);
    value.add("object", error.object);
    value.add("message", error.message);
    value.add("code", code_word(error.code));
    value.add("reason", error.code != 0 ? std::strerror(error.code) : "");
    value.add("hint", error.hint);
    errors_.push(std::move(value));
    status_ = std::max(status_, status);
}

int Report::finish() {
    flush_pending();
    if (json()) {
        member("errors");
        put(errors_.to_json());
        put("\n}\n");
    }
    write_out();
    if (std::fflush(stdout) != 0)
        failed_ = true;
    return failed_ ? std::max(status_, 1) : status_;
}

}  // namespace uhsfs::ctl
