// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The check's passes, one after the other, and what all of them use.
 */
#include "libuhsfs/check.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libuhsfs/check_state.hpp"
#include "libuhsfs/workers.hpp"

namespace uhsfs {

Result<CheckReport> check_volume(const Volume &volume, const CheckOptions &options) {
    return without_exceptions(volume.path(),
                              [&] { return checking::Checker(volume, options).run(); });
}

namespace checking {

Checker::Checker(const Volume &volume, const CheckOptions &options)
    : volume_(volume),
      options_(options),
      super_(volume.super()),
      geo_(volume.geo()),
      threads_(Volume::scan_threads({.threads = options.threads, .filter = {}})),
      findings_(options.max_findings),
      notes_(options.max_notes),
      owned_(uhsfs_group_count(&volume.geo())),
      asked_(uhsfs_group_count(&volume.geo())),
      free_(uhsfs_group_count(&volume.geo())),
      recent_(uhsfs_group_count(&volume.geo())),
      recovery_(volume) {}

Result<CheckReport> Checker::run() {
    if (::getrandom(key_.data(), key_.size(), 0) != static_cast<ssize_t>(key_.size()))
        return fail_errno("random numbers", "cannot get them from the kernel");
    pass(1, "maps", 1);
    read_maps();
    check_supers();
    read_tables();
    pass(2, "recovery", std::max<std::uint64_t>(marked_.count(), 1));
    if (unclean_ && !stop()) {
        read_marked();
        if (!stop())
            UHSFS_TRY(recovery_.run([&](const uhsfs_rec_event &event) { take_event(event); }));
        take_recovery();
    }
    if (!stop())
        check_slots();
    if (!stop())
        check_claims();
    if (!stop())
        check_directories();
    if (!stop())
        check_bitmaps();
    if (!stop() && !asked_.empty())
        find_owners();
    if (stop())
        return fail(ECANCELED, volume_.path(), "the check was cancelled");
    report_.findings_total = findings_.total();
    report_.findings = findings_.take();
    report_.notes_total = notes_.total();
    report_.notes = notes_.take();
    report_.files = files_;
    report_.directories = dirs_.size();
    report_.names = claims_.size();
    report_.blocks = geo_.blocks;
    report_.stale_entries = stale_;
    report_.leaked_blocks = leaked_;
    report_.recovery.entries = inserted_;
    return std::move(report_);
}

// ---- progress and threads ------------------------------------------------------------------

bool Checker::stop() {
    if (!stopped_ && options_.cancelled && options_.cancelled())
        stopped_ = true;
    return stopped_;
}

void Checker::pass(unsigned number, const char *name, std::uint64_t total) {
    constexpr unsigned passes = 7;
    const std::scoped_lock guard(progress_lock_);

    progress_ = {.pass = number, .passes = passes, .name = name, .done = 0, .total = total};
    if (options_.progress)
        options_.progress(progress_);
}

void Checker::step(std::uint64_t n) {
    const std::scoped_lock guard(progress_lock_);

    progress_.done = std::min(progress_.done + n, progress_.total);
    if (options_.progress)
        options_.progress(progress_);
}

void Checker::parallel(std::uint64_t items, const std::function<void(std::uint64_t)> &work) {
    for_each_item(
        threads_, items, [&](unsigned, std::uint64_t item) { work(item); }, [&] { return stop(); });
}

// ---- what is checked everywhere ------------------------------------------------------------

void Checker::check_seq(const char *object, std::uint64_t id, const char *field,
                        std::uint64_t seq) {
    const std::uint64_t limit = uhsfs_seq_make(newest(), UINT32_MAX);

    if (seq > limit)
        findings_.add(make_fault(object, id, field, seq, limit,
                                 "must not be of a newer epoch than the superblock's seq"));
}

namespace {

// A slot whose header is bad is numbered by its block, any other one by its inode.
uhsfs_fault named_fault(uhsfs_fault fault, std::string_view object) {
    constexpr std::array<std::string_view, 6> header = {"magic", "crc",       "fsid",
                                                        "block", "owner_ino", "owner_gen"};

    if (object == slot_block && std::ranges::find(header, fault.field) != header.end())
        fault.object = slot_block;
    return fault;
}

}  // namespace

void Checker::check_home(const Home &home, const char *object, bool tolerated,
                         const std::string &detail) {
    const auto tell = [&](unsigned i, FindingSet &set, const std::string &more) {
        const Copy &copy = home.copy[i];
        const std::uint64_t block = home.block + i;
        if (copy.code == EUCLEAN)
            set.add(named_fault(copy.fault, object), more);
        else
            set.add(make_fault(object, block, "read error", static_cast<std::uint64_t>(copy.code),
                               0, "must be readable"),
                    more);
    };

    if (home.differ)
        findings_.add(make_fault(object, home.block, "seq", home.copy[1].seq, home.copy[0].seq,
                                 "copies of one seq must be the same"),
                      detail);
    if (home.valid() && !home.suspicious)
        return;
    if (home.valid()) {
        const unsigned other = home.chosen == 0 ? 1 : 0;
        // A write that was cut off leaves something that can be read.
        const bool torn = tolerated && home.copy[other].code == EUCLEAN;
        const std::string more =
            fmt::format("{}{}in block {}; the copy in block {} counts, but this one {}", detail,
                        detail.empty() ? "" : ", ", home.block + other, home.chosen_block(),
                        torn ? "may be a write that was cut off" : "may have been newer");
        tell(other, torn ? notes_ : findings_, more);
        return;
    }
    for (unsigned i = 0; i < home.copies; i++)
        tell(i, findings_, detail);
}

void Checker::own(const BlockOwner &owner, std::uint64_t block, std::uint64_t count, bool recent) {
    const std::uint64_t groups = uhsfs_group_count(&geo_);
    const std::uint64_t end = std::min<std::uint64_t>(geo_.blocks, groups * UHSFS_GROUP_BLOCKS);
    const std::uint64_t used =
        std::min<std::uint64_t>(end, super_.groups_used * UHSFS_GROUP_BLOCKS);
    const bool inode = owner.kind >= BlockOwner::data;
    const auto bad = [&](std::uint64_t limit, const char *rule) {
        findings_.add(make_fault(inode                             ? "slot"
                                 : owner.kind == BlockOwner::chunk ? "chunk"
                                                                   : "superblock",
                                 owner.id, "block", block, limit, rule),
                      fmt::format("{} blocks of {}", count, owner.text()));
    };

    if (block >= end || count > end - block)
        return bad(end, "must lie within a group");
    if (block + count > used && !unclean_)
        return bad(used, "must lie within a group that was used");
    // An image that says of its blocks many times over that they are in use is broken enough.
    if (claimed_blocks_.fetch_add(count) / 4 > geo_.blocks) {
        incomplete_ = true;
        return;
    }
    owned_.mark(block, count, &asked_);
    if (recent)
        recent_.mark(block, count);
}

}  // namespace checking

}  // namespace uhsfs
