/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each command of the table does. Errors that end it are returned; damage that leaves
 * something to show goes to the report.
 */
#pragma once

#include <string_view>

#include "common/arguments.hpp"
#include "report.hpp"

namespace uhsfs::ctl {

using Run = Result<void> (*)(const Arguments &arguments, Report &report);

// The function of a command of the table; null for one that main() does itself.
Run find_run(std::string_view command);

Result<void> run_info(const Arguments &arguments, Report &report);
Result<void> run_usage(const Arguments &arguments, Report &report);
Result<void> run_features(const Arguments &arguments, Report &report);
Result<void> run_dump_super(const Arguments &arguments, Report &report);
Result<void> run_dump_slot(const Arguments &arguments, Report &report);
Result<void> run_dump_path(const Arguments &arguments, Report &report);
Result<void> run_dump_dir(const Arguments &arguments, Report &report);
Result<void> run_dump_extents(const Arguments &arguments, Report &report);
Result<void> run_dump_chunks(const Arguments &arguments, Report &report);
Result<void> run_dump_intents(const Arguments &arguments, Report &report);
Result<void> run_dump_bitmap(const Arguments &arguments, Report &report);
Result<void> run_dump_block(const Arguments &arguments, Report &report);
Result<void> run_ls(const Arguments &arguments, Report &report);
Result<void> run_cat(const Arguments &arguments, Report &report);
Result<void> run_image(const Arguments &arguments, Report &report);
Result<void> run_completion(const Arguments &arguments, Report &report);
Result<void> run_help(const Arguments &arguments, Report &report);
Result<void> run_version(const Arguments &arguments, Report &report);

}  // namespace uhsfs::ctl
