// SPDX-License-Identifier: GPL-2.0
/*
 * fsck.uhsfs: checks a filesystem (libuhsfs/check.hpp) and reports.
 */
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "common/arguments.hpp"
#include "libuhsfs/check.hpp"
#include "report.hpp"

namespace {

using namespace uhsfs;
using namespace uhsfs::fsck;

volatile std::sig_atomic_t interrupted = 0;

void interrupt(int) { interrupted = 1; }

void catch_signals() {
    struct sigaction action = {};

    action.sa_handler = interrupt;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        ::sigaction(signal, &action, nullptr);
    // Whoever reads the progress may go away.
    action.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &action, nullptr);
}

// Damage that leaves nothing to check is damage all the same.
Status status_of(const Error &error) {
    if (error.code == ECANCELED)
        return cancelled;
    return error.code == EUCLEAN ? damaged : failed;
}

Result<std::optional<int>> progress_fd(const Arguments &arguments) {
    if (!arguments.has("progress"))
        return std::optional<int>();
    const std::uint64_t fd = UHSFS_TRY(parse_number("--progress", arguments.value("progress")));
    if (fd > std::numeric_limits<int>::max())
        return fail(EINVAL, "--progress", fmt::format("'{}' is no file descriptor", fd));
    return std::optional<int>(static_cast<int>(fd));
}

// Where the device is in use, if it is.
std::string use_of(const std::string &device) {
    const auto use = device_in_use(device);

    return use && *use ? **use : std::string();
}

Status check(const std::string &device, std::optional<int> fd, Output &output) {
    const std::string use = use_of(device);
    const auto volume = Volume::open(device, OpenMode::read);

    if (!volume) {
        output.error(volume.error(), status_of(volume.error()));
        return status_of(volume.error());
    }
    if (!use.empty())
        output.warning(fmt::format("{}: {}: it changes while it is checked, findings may be false",
                                   device, use));
    Result<CheckReport> report = fail(ECANCELED, device, "not checked");
    {
        Progress progress(device, fd);
        CheckOptions options;
        options.progress = [&](const CheckProgress &now) { progress.show(now); };
        options.cancelled = [] { return interrupted != 0; };
        report = check_volume(*volume, options);
    }
    if (!report) {
        output.error(report.error(), status_of(report.error()));
        return status_of(report.error());
    }
    output.report(device, *report, !use.empty());
    return report->clean() ? clean : damaged;
}

int run(const std::vector<std::string> &words) {
    const manual::Program &table = manual::program();
    auto arguments = parse_arguments(table, table.self, words, false);
    const auto wrong = [](Error error, bool json) {
        error.code = 0;  // "Invalid argument" says nothing more
        Output(json, false).error(error, usage);
        return usage;
    };

    if (!arguments)
        return wrong(arguments.error(), false);
    const bool json = arguments->value("output") == "json";
    if (arguments->has("help")) {
        fmt::print("{}", manual::help_text(table, table.self));
        return clean;
    }
    if (arguments->has("version")) {
        fmt::print("fsck.uhsfs {}, format version {}\n", UHSFS_VERSION, UHSFS_FORMAT_VERSION);
        return clean;
    }
    arguments = parse_arguments(table, table.self, words);
    if (!arguments)
        return wrong(arguments.error(), json);
    Output output(json, arguments->has("verbose"));
    const std::string &device = arguments->words().front();
    const auto fd = progress_fd(*arguments);
    if (!fd)
        return wrong(fd.error(), json);
    if (arguments->has("yes") || arguments->has("repair")) {
        output.error({.code = 0,
                      .object = device,
                      .message = "repair is not available yet",
                      .hint = "check with -n; mounting does recovery"},
                     failed);
        return failed;
    }
    catch_signals();
    return check(device, *fd, output);
}

}  // namespace

int main(int argc, char **argv) {
    try {
        const int status = run({argv + 1, argv + argc});
        if (std::fflush(stdout) != 0) {
            fmt::print(stderr, "fsck.uhsfs: cannot write the result\n");
            return failed;
        }
        return status;
    } catch (const std::exception &exception) {
        fmt::print(stderr, "fsck.uhsfs: {}\n", exception.what());
        return failed;
    }
}
