/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Checks a whole filesystem: everything that stands on disk is read, by the same code of the
 * core that a mount uses, and compared with everything else that speaks of it. Nothing is
 * changed.
 *
 * PASSES
 *  1 maps          write-intent maps (does the image need recovery?), suspect map, both
 *                  superblocks, chunk table
 *  2 recovery      only if needed: the marked chunks are read and kmod/core/recover.h decides
 *                  in memory what the next mount will do; later passes see the result of that
 *  3 inodes        every slot block in parallel: both copies, nonces, generations, trees,
 *                  attributes, what each inode owns and which names it claims
 *  4 names         claims against each other, parents, cycles, the way to the root
 *  5 directories   every bucket in parallel: entries against claims, and claims without one
 *  6 space         bitmaps against ownership, totals of the superblock
 *  7 owners        only if blocks are owned twice or are free, says the bitmap: who owns them
 *
 * FINDINGS AND NOTES. A finding is damage: something that no crash and no rule of the format
 * explains. What a mount repairs by itself, or what a crash may leave until the next scrub
 * (leaked blocks, entries that nobody confirms and that point into suspect chunks), is a note.
 * While something cannot be read, what follows from that alone is not told: no list of blocks
 * without owner because one slot is damaged.
 *
 * MEMORY. One bit for each block of groups that own something, 32 bytes (in the worst case
 * 64, while arrays grow) for each name, 64 bytes for each directory, one bit for each chunk
 * that is suspect or marked, the bucket chain's cookies (16 bytes an entry) and the extents
 * (32 bytes each) of the directories at hand, 64 KiB a thread for reading; for recovery,
 * about 120 bytes for each slot and name in marked chunks. Findings and notes are bounded by
 * the options. One TiB with ten million files takes 0.4 GB.
 *
 * HOSTILE IMAGES. Sizes come from fields that the core has checked against the device; every
 * loop is bounded by blocks of the device that passed their check, or by a limit on damaged
 * ones (check_damage_limit for each directory).
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libuhsfs/result.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs {

// After so many damaged blocks the rest of a directory is not read.
inline constexpr unsigned check_damage_limit = 64;

// Something to tell. The fault's strings are constants.
struct Finding {
    uhsfs_fault fault = {};
    std::string detail;  // a name, another owner; may be empty
    // One printable line without a full stop.
    [[nodiscard]] std::string text() const;
};

struct CheckProgress {
    unsigned pass = 0;  // 1 to passes
    unsigned passes = 0;
    const char *name = "";  // "inodes"
    std::uint64_t done = 0;
    std::uint64_t total = 0;
};

struct CheckOptions {
    unsigned threads = 0;             // 0: as many as the machine has processors
    std::size_t max_findings = 1000;  // kept; all are counted
    std::size_t max_notes = 1000;
    // Called now and then, by one thread at a time.
    std::function<void(const CheckProgress &)> progress;
    // Asked often, by several threads: true ends the check with ECANCELED.
    std::function<bool()> cancelled;
};

// What a mount will do, if some intent map is newer than the last checkpoint.
struct CheckRecovery {
    bool needed = false;
    std::uint32_t epoch = 0;          // newest live one
    std::uint64_t chunks = 0;         // marked
    std::uint64_t slots = 0;          // read in them
    std::uint64_t intents = 0;        // finished
    std::uint64_t names_lost = 0;     // to a newer claim
    std::uint64_t names_dropped = 0;  // their directory is gone
    std::uint64_t slots_freed = 0;
    std::uint64_t entries = 0;  // names to insert into their directory
};

struct CheckReport {
    // In order of object, number and field, the first of them.
    std::vector<Finding> findings;
    std::uint64_t findings_total = 0;
    std::vector<Finding> notes;
    std::uint64_t notes_total = 0;
    CheckRecovery recovery;

    // What is there, after recovery.
    std::uint64_t files = 0;  // all but directories
    std::uint64_t directories = 0;
    std::uint64_t names = 0;
    std::uint64_t blocks = 0;         // of the filesystem
    std::uint64_t free_blocks = 0;    // as the bitmaps say
    std::uint64_t stale_entries = 0;  // that no slot confirms, rightly
    std::uint64_t leaked_blocks = 0;  // in use, says the bitmap, but nobody's, rightly

    [[nodiscard]] bool clean() const noexcept { return findings_total == 0; }
    // Share of blocks in use, rounded up.
    [[nodiscard]] unsigned used_percent() const noexcept;
};

// ECANCELED: options.cancelled said so. ENOMEM. Unreadable blocks are findings, not errors.
Result<CheckReport> check_volume(const Volume &volume, const CheckOptions &options = {});

}  // namespace uhsfs
