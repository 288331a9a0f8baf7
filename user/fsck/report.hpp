/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What fsck.uhsfs prints: progress while it checks, then the report.
 */
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libuhsfs/check.hpp"
#include "libuhsfs/result.hpp"

namespace uhsfs::fsck {

// Exit statuses of fsck(8).
enum Status : std::uint8_t { clean = 0, damaged = 4, failed = 8, usage = 16, cancelled = 32 };

class Output {
public:
    Output(bool json, bool verbose) : json_(json), verbose_(verbose) {}

    void warning(const std::string &text);
    // The result of a check, on standard output.
    void report(const std::string &device, const CheckReport &report, bool mounted) const;
    // No check was possible: on standard error, as JSON on standard output too.
    void error(const Error &error, Status status) const;

private:
    void text_report(const std::string &device, const CheckReport &report) const;

    const bool json_;
    const bool verbose_;
};

// Shows how far the check is: lines for fsck(8) or a bar.
class Progress {
public:
    // fd > 0: lines "PASS DONE TOTAL DEVICE"; 0: a bar; nothing: a bar if standard error is a
    // terminal.
    Progress(std::string device, std::optional<int> fd);
    Progress(const Progress &) = delete;
    Progress(Progress &&) = delete;
    Progress &operator=(const Progress &) = delete;
    Progress &operator=(Progress &&) = delete;
    ~Progress();

    void show(const CheckProgress &progress);

private:
    using Clock = std::chrono::steady_clock;

    const std::string device_;
    int fd_ = -1;
    bool bar_ = false;
    bool shown_ = false;
    unsigned pass_ = 0;
    Clock::time_point next_;
};

}  // namespace uhsfs::fsck
