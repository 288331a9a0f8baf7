/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mkfs.uhsfs prints.
 */
#pragma once

#include <chrono>
#include <string>

#include "libuhsfs/import.hpp"
#include "options.hpp"

namespace uhsfs::mkfs {

// What was made.
struct Made {
    uhsfs_super_info super = {};
    std::string atomic_reason;
    ImportStats contents;
};

void print_made(const Options &options, const Made &made);
void print_warning(const std::string &text);
void print_error(const Error &error, bool json);

// How far the import has come, on a terminal only.
class Progress {
public:
    explicit Progress(bool wanted);
    Progress(const Progress &) = delete;
    Progress(Progress &&) = delete;
    Progress &operator=(const Progress &) = delete;
    Progress &operator=(Progress &&) = delete;
    ~Progress();
    [[nodiscard]] bool shown() const noexcept { return shown_; }
    void show(const ImportStats &stats);

private:
    bool shown_ = false;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point last_;
};

}  // namespace uhsfs::mkfs
