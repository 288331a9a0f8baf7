// SPDX-License-Identifier: GPL-2.0
/*
 * Reading a trace and a log, and putting them together.
 */
#include "recording.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <tuple>

namespace uhsfs::replay {

namespace {

// ---- the log: little-endian numbers in blocks of the device -----------------------------------

constexpr std::uint64_t log_magic = 0x6a736677736872;

enum : std::uint64_t { log_fua = 2, log_discard = 4, log_mark = 8 };

struct LogSuper {
    std::uint64_t magic, version, entries;
    std::uint32_t block_size;
};

struct LogEntry {
    std::uint64_t sector, sectors, flags, data_len;
};

LogEntry read_entry(const std::uint8_t *log, unsigned lba, std::uint64_t &place) {
    LogEntry entry = {};

    std::memcpy(&entry, log + place, sizeof(entry));
    place += lba;
    if ((entry.flags & (log_discard | log_mark)) == 0)
        place += entry.sectors * lba;
    return entry;
}

// A write in the log is found by place, size and kind, those that are alike in order.
using Key = std::tuple<std::uint64_t, std::uint64_t, bool, bool>;

using Log = std::map<Key, std::deque<const std::uint8_t *>>;

Log read_log(const std::uint8_t *log, unsigned lba, std::uint64_t entries, std::uint64_t &place,
             std::uint64_t &count) {
    Log found;

    count = 0;
    for (; entries > 0; entries--) {
        const std::uint8_t *data = log + place + lba;
        const LogEntry entry = read_entry(log, lba, place);
        const std::uint64_t scale = lba / sector_size;
        const bool fua = (entry.flags & log_fua) != 0;
        const bool discard = (entry.flags & log_discard) != 0;
        if ((entry.flags & log_mark) != 0 || entry.sectors == 0)
            continue;
        found[{entry.sector * scale, entry.sectors * scale, fua, discard}].push_back(data);
        count++;
    }
    return found;
}

// ---- the trace ----------------------------------------------------------------------------------

std::string_view next_word(std::string_view &line) {
    const std::size_t from = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(from);
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end);
    return word;
}

std::uint64_t number(std::string_view word) {
    return std::strtoull(std::string(word).c_str(), nullptr, 10);
}

// "253,0 WFS 2048 + 8 [task]": a request without data and times.
bool parse_request(std::string_view line, Request &request) {
    next_word(line);
    std::string_view kind = next_word(line);
    request = {};
    if (kind.starts_with('F')) {
        request.preflush = true;
        kind.remove_prefix(1);
    }
    if (kind.empty() || kind.starts_with('R') || kind.starts_with('N'))
        return request.preflush;
    request.discard = kind.starts_with('D');
    request.fua = kind.find('F') != std::string_view::npos;
    request.sector = number(next_word(line));
    next_word(line);
    request.sectors = number(next_word(line));
    return true;
}

// "b12", "e12": see Stage.
bool parse_note(std::string_view text, Note &note) {
    if (text.starts_with("off"))
        note.kind = Note::Kind::cache_off;
    else if (text.starts_with("on"))
        note.kind = Note::Kind::cache_on;
    else if (text.starts_with('b') || text.starts_with('e'))
        note.kind = text.starts_with('b') ? Note::Kind::begin : Note::Kind::end;
    else
        return false;
    if (note.kind == Note::Kind::begin || note.kind == Note::Kind::end)
        note.operation = static_cast<unsigned>(number(text.substr(1)));
    return true;
}

class Trace {
public:
    explicit Trace(Recording &recording) : recording_(recording) {}

    void line(std::string_view text) {
        constexpr std::string_view queue = ": block_bio_queue: ";
        constexpr std::string_view complete = ": block_bio_complete: ";
        constexpr std::string_view mark = ": tracing_mark_write: ";
        Request request;
        Note note;

        if (const auto at = text.find(queue); at != std::string_view::npos) {
            if (parse_request(text.substr(at + queue.size()), request))
                issue(request);
        } else if (const auto to = text.find(complete); to != std::string_view::npos) {
            if (parse_request(text.substr(to + complete.size()), request))
                complete_one(request);
        } else if (const auto on = text.find(mark); on != std::string_view::npos) {
            note.at = ++recording_.end;
            if (parse_note(text.substr(on + mark.size()), note))
                recording_.notes.push_back(note);
        }
    }

    // Requests in the order in which they were done.
    [[nodiscard]] const std::vector<std::size_t> &done() const { return done_; }

private:
    void issue(Request request) {
        request.issued = ++recording_.end;
        open_.push_back(recording_.requests.size());
        recording_.requests.push_back(std::move(request));
    }

    void complete_one(const Request &what) {
        const auto same = [&](std::size_t i) {
            const Request &request = recording_.requests[i];
            // The sector of an empty flush means nothing.
            return request.sectors == what.sectors && request.discard == what.discard &&
                   (request.sectors == 0 || request.sector == what.sector);
        };
        const auto found = std::ranges::find_if(open_, same);

        if (found == open_.end())
            throw std::runtime_error(
                fmt::format("the trace has the end of {}, which did not begin", what.text()));
        recording_.requests[*found].done = ++recording_.end;
        done_.push_back(*found);
        open_.erase(found);
    }

    Recording &recording_;
    std::vector<std::size_t> open_;
    std::vector<std::size_t> done_;
};

}  // namespace

std::string Request::text() const {
    return fmt::format("{}{}{} at block {}+{}, {} sectors", discard ? "discard" : "write",
                       preflush ? " behind a flush" : "", fua ? ", durable" : "", sector / 8,
                       sector % 8, sectors);
}

unsigned Recording::begun(std::uint64_t moment) const {
    unsigned newest = 0;
    for (const Note &note : notes)
        if (note.kind == Note::Kind::begin && note.at < moment)
            newest = std::max(newest, note.operation);
    return newest;
}

unsigned Recording::ended(std::uint64_t moment) const {
    unsigned newest = 0;
    for (const Note &note : notes)
        if (note.kind == Note::Kind::end && note.at < moment)
            newest = std::max(newest, note.operation);
    return newest;
}

void Recording::settle() {
    const auto cache_off = [&](std::uint64_t moment) {
        bool off = false;
        for (const Note &note : notes)
            if (note.at < moment && note.kind >= Note::Kind::cache_off)
                off = note.kind == Note::Kind::cache_off;
        return off;
    };

    for (Request &request : requests) {
        request.durable = request.fua && request.done != never ? request.done : never;
        if (request.done != never && cache_off(request.done))
            request.durable = request.done;
        for (const Request &flush : requests)
            if (flush.preflush && request.done < flush.issued)
                request.durable = std::min(request.durable, flush.done);
    }
}

void Recording::cut(std::uint64_t moment) {
    std::erase_if(requests, [&](const Request &request) { return request.issued >= moment; });
    std::erase_if(notes, [&](const Note &note) { return note.at >= moment; });
    for (Request &request : requests)
        if (request.done >= moment)
            request.done = moment;
    end = moment;
    settle();
}

void Recording::append(Recording later) {
    for (Request &request : later.requests) {
        request.issued += end;
        if (request.done != never)
            request.done += end;
        requests.push_back(std::move(request));
    }
    for (Note &note : later.notes) {
        note.at += end;
        notes.push_back(note);
    }
    end += later.end;
    settle();
}

std::uint64_t log_entries(const std::uint8_t *log) {
    LogSuper super = {};
    std::memcpy(&super, log, sizeof(super));
    return super.magic == log_magic ? super.entries : 0;
}

bool log_has_mark(const std::uint8_t *log, unsigned lba, std::uint64_t entries,
                  std::uint64_t place) {
    LogEntry entry = {};

    for (; entries > 0; entries--)
        entry = read_entry(log, lba, place);
    return (entry.flags & log_mark) != 0;
}

Recording read_recording(std::string_view trace, const std::uint8_t *log, unsigned lba,
                         std::uint64_t entries, std::uint64_t &place) {
    Recording recording;
    Trace reader(recording);
    std::uint64_t logged = 0;
    std::uint64_t found = 0;

    while (!trace.empty()) {
        const std::size_t end = std::min(trace.find('\n'), trace.size());
        const std::string_view line = trace.substr(0, end);
        trace.remove_prefix(std::min(end + 1, trace.size()));
        if (!line.starts_with('#'))
            reader.line(line);
    }
    recording.end++;
    Log data = read_log(log, lba, entries, place, logged);
    for (const std::size_t i : reader.done()) {
        Request &request = recording.requests[i];
        if (request.sectors == 0)
            continue;
        auto &alike = data[{request.sector, request.sectors, request.fua, request.discard}];
        if (alike.empty())
            throw std::runtime_error("the log does not have the " + request.text());
        if (!request.discard)
            request.data.assign(alike.front(), alike.front() + request.sectors * sector_size);
        alike.pop_front();
        found++;
    }
    if (found != logged)
        throw std::runtime_error(fmt::format("the log has {} writes, the trace {}", logged, found));
    recording.settle();
    return recording;
}

}  // namespace uhsfs::replay
