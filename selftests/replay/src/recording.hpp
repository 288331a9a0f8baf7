/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a device was asked to write, in order.
 *
 * dm-log-writes keeps the data, but in the order in which writes became durable: a write that
 * nobody flushed stands behind those that were. When each was issued and when it was done is
 * taken from the tracepoints of the block layer; so is what the program said meanwhile. Every
 * write of the trace must be found in the log and the other way round.
 */
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace uhsfs::replay {

inline constexpr unsigned sector_size = 512;
inline constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

// A write, a flush or a discard. Moments are places in the order of all events.
struct Request {
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;  // 0: only a flush
    bool preflush = false;
    bool fua = false;
    bool discard = false;
    std::uint64_t issued = 0;
    std::uint64_t done = never;
    std::uint64_t durable = never;  // at the latest
    std::vector<std::uint8_t> data;

    [[nodiscard]] std::string text() const;
};

// The program has begun an operation, or has ended it; or the write cache was switched.
struct Note {
    enum class Kind : std::uint8_t { begin, end, cache_off, cache_on };
    std::uint64_t at = 0;
    Kind kind = Kind::begin;
    unsigned operation = 0;
};

struct Recording {
    std::vector<Request> requests;  // as issued
    std::vector<Note> notes;
    std::uint64_t end = 0;  // after all events

    // Newest operation that had begun, or ended, before a moment; 0: none.
    [[nodiscard]] unsigned begun(std::uint64_t moment) const;
    [[nodiscard]] unsigned ended(std::uint64_t moment) const;
    // Sets Request::durable.
    void settle();
    // What comes after a moment never happens.
    void cut(std::uint64_t moment);
    // What happened later on the same device.
    void append(Recording later);
};

// trace: as tracefs shows it; log: dm-log-writes' from its entry at `place`, which moves on.
Recording read_recording(std::string_view trace, const std::uint8_t *log, unsigned lba,
                         std::uint64_t entries, std::uint64_t &place);

// Entries that the log's superblock counts.
std::uint64_t log_entries(const std::uint8_t *log);

// Is the last of so many entries from `place` on a mark?
bool log_has_mark(const std::uint8_t *log, unsigned lba, std::uint64_t entries,
                  std::uint64_t place);

}  // namespace uhsfs::replay
