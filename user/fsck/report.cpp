// SPDX-License-Identifier: GPL-2.0
#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "libuhsfs/value.hpp"

namespace uhsfs::fsck {

// ---- the report ----------------------------------------------------------------------------

namespace {

constexpr const char *plural(std::uint64_t n) { return n == 1 ? "" : "s"; }

std::string recovery_text(const CheckRecovery &recovery) {
    return fmt::format(
        "recovery at mount: {} chunk{} with {} slot{}; {} intent{} finished, {} name{} lost to "
        "newer ones, {} name{} in removed directories, {} inode{} freed, {} entr{} inserted",
        recovery.chunks, plural(recovery.chunks), recovery.slots, plural(recovery.slots),
        recovery.intents, plural(recovery.intents), recovery.names_lost,
        plural(recovery.names_lost), recovery.names_dropped, plural(recovery.names_dropped),
        recovery.slots_freed, plural(recovery.slots_freed), recovery.entries,
        recovery.entries == 1 ? "y" : "ies");
}

Value finding_value(const Finding &finding) {
    Value value = Value::object();

    value.add("object", finding.fault.object);
    value.add("number", finding.fault.id);
    value.add("field", finding.fault.field);
    value.add("value", finding.fault.value);
    value.add("limit", finding.fault.limit);
    value.add("rule", finding.fault.rule);
    value.add("detail", finding.detail);
    value.add("text", finding.text());
    return value;
}

Value findings_value(const std::vector<Finding> &findings) {
    Value list = Value::array();

    for (const Finding &finding : findings)
        list.push(finding_value(finding));
    return list;
}

const char *state_of(const CheckReport &report) {
    if (!report.clean())
        return "damaged";
    return report.recovery.needed ? "needs-recovery" : "clean";
}

Value report_value(const std::string &device, const CheckReport &report, bool mounted) {
    Value value = Value::object();
    const CheckRecovery &r = report.recovery;
    Value recovery = Value::object();

    recovery.add("needed", r.needed);
    recovery.add("newest-epoch", r.epoch);
    recovery.add("chunks", r.chunks);
    recovery.add("slots", r.slots);
    recovery.add("intents-finished", r.intents);
    recovery.add("names-lost", r.names_lost);
    recovery.add("names-dropped", r.names_dropped);
    recovery.add("inodes-freed", r.slots_freed);
    recovery.add("entries-inserted", r.entries);
    value.add("device", device);
    value.add("state", state_of(report));
    value.add("status", static_cast<int>(report.clean() ? clean : damaged));
    value.add("mounted", mounted);
    value.add("files", report.files);
    value.add("directories", report.directories);
    value.add("names", report.names);
    value.add("blocks", report.blocks);
    value.add("free-blocks", report.free_blocks);
    value.add("stale-entries", report.stale_entries);
    value.add("leaked-blocks", report.leaked_blocks);
    value.add("recovery", std::move(recovery));
    value.add("findings-total", report.findings_total);
    value.add("findings-shown", report.findings.size());
    value.add("findings", findings_value(report.findings));
    value.add("notes-total", report.notes_total);
    value.add("notes-shown", report.notes.size());
    value.add("notes", findings_value(report.notes));
    return value;
}

void print_findings(const std::vector<Finding> &findings, std::uint64_t total, const char *what) {
    for (const Finding &finding : findings)
        fmt::print("{}{}\n", what, finding.text());
    if (total > findings.size())
        fmt::print("{}{} more are not shown\n", what, total - findings.size());
}

}  // namespace

void Output::warning(const std::string &text) { fmt::print(stderr, "fsck.uhsfs: {}\n", text); }

void Output::text_report(const std::string &device, const CheckReport &report) const {
    const bool recovery = report.recovery.needed;
    std::string state = recovery ? "clean after recovery, which mount does" : "clean";

    print_findings(report.findings, report.findings_total, "");
    if (verbose_)
        print_findings(report.notes, report.notes_total, "note: ");
    if (recovery)
        fmt::print("{}\n", recovery_text(report.recovery));
    if (!report.clean())
        state = fmt::format("{} finding{}", report.findings_total, plural(report.findings_total));
    if (!verbose_ && report.notes_total > 0 && !recovery)
        state += fmt::format(", {} note{}", report.notes_total, plural(report.notes_total));
    fmt::print("{}: {}, {} file{}, {} director{}, {} % used\n", device, state, report.files,
               plural(report.files), report.directories, report.directories == 1 ? "y" : "ies",
               report.used_percent());
}

void Output::report(const std::string &device, const CheckReport &report, bool mounted) const {
    if (json_)
        fmt::print("{}\n", report_value(device, report, mounted).to_json());
    else
        text_report(device, report);
}

void Output::error(const Error &error, Status status) const {
    fmt::print(stderr, "fsck.uhsfs: {}\n", error.to_string());
    if (!json_)
        return;
    Value value = Value::object();
    value.add("device", error.object);
    value.add("state", status == damaged ? "damaged" : status == cancelled ? "cancelled" : "error");
    value.add("status", static_cast<int>(status));
    value.add("error", error.to_string());
    fmt::print("{}\n", value.to_json());
}

// ---- progress ------------------------------------------------------------------------------

Progress::Progress(std::string device, std::optional<int> fd) : device_(std::move(device)) {
    if (fd && *fd > 0)
        fd_ = *fd;
    else
        bar_ = fd.has_value() || ::isatty(STDERR_FILENO) == 1;
}

Progress::~Progress() {
    if (shown_)
        fmt::print(stderr, "\r\x1b[K");
}

void Progress::show(const CheckProgress &progress) {
    constexpr auto interval = std::chrono::milliseconds(100);
    const auto now = Clock::now();

    if ((fd_ < 0 && !bar_) || (progress.pass == pass_ && now < next_))
        return;
    pass_ = progress.pass;
    next_ = now + interval;
    if (bar_) {
        const std::uint64_t share =
            progress.total == 0 ? 100 : progress.done * 100 / progress.total;
        fmt::print(stderr, "\r{}: {} of {}: {} {:3} %\x1b[K", device_, progress.pass,
                   progress.passes, progress.name, share);
        shown_ = true;
        return;
    }
    const std::string line = fmt::format("{} {} {} {}\n", progress.pass, progress.done,
                                         std::max<std::uint64_t>(progress.total, 1), device_);
    if (::write(fd_, line.data(), line.size()) < 0)
        fd_ = -1;  // nobody reads it
}

}  // namespace uhsfs::fsck
