// SPDX-License-Identifier: GPL-2.0
/*
 * Telling stories, and replaying them.
 */
#include "replay.hpp"

#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "libuhsfs/check.hpp"
#include "libuhsfs/volume.hpp"

namespace uhsfs::replay {

namespace {

constexpr std::size_t problems_shown = 10;

std::vector<std::string> fsck(const std::string &file) {
    std::vector<std::string> problems;
    const auto volume = Volume::open(file);
    CheckOptions options;

    if (!volume)
        return {"fsck: " + volume.error().to_string()};
    options.threads = 1;
    const auto report = check_volume(*volume, options);
    if (!report)
        return {"fsck: " + report.error().to_string()};
    if (report->recovery.needed)
        problems.emplace_back("fsck: it is not clean after an unmount");
    for (const Finding &finding : report->findings)
        problems.push_back("fsck: " + finding.text());
    return problems;
}

std::string corruptions(const std::string &device) {
    std::ifstream stream("/sys/fs/uhsfs/" + device.substr(sizeof("/dev/") - 1) + "/corruptions");
    std::string value;

    std::getline(stream, value);
    return value;
}

// A crash image that failed, for a look at it.
void keep(const Image &image) {
    if (const char *path = std::getenv("UHSFS_KEEP"); path != nullptr) {
        std::ofstream stream(path, std::ios::binary);
        stream.write(reinterpret_cast<const char *>(image.bytes.data()),
                     static_cast<std::streamsize>(image.bytes.size()));
    }
}

}  // namespace

// ---- results
// --------------------------------------------------------------------------------------

void Results::begin(const std::string &name) {
    *this = {};
    name_ = name;
}

void Results::problem(const std::string &text) {
    if (problems_.size() < problems_shown)
        problems_.push_back(text);
    else
        more_++;
}

bool Results::mentions(const std::string &what) const {
    return std::ranges::any_of(problems_, [&](const std::string &problem) {
        return problem.find(what) != std::string::npos;
    });
}

void Results::count(unsigned moments, unsigned images, unsigned mounts) {
    stories_++;
    moments_ += moments;
    images_ += images;
    mounts_ += mounts;
}

void Results::end() {
    fmt::print("{} {}\n", problems_.empty() ? "ok" : "not ok", name_);
    for (const std::string &text : problems_)
        fmt::print("# {}\n", text);
    if (more_ != 0)
        fmt::print("# and {} more\n", more_);
    if (stories_ != 0)
        fmt::print("# {} stories, {} moments, {} different images, {} mounts\n", stories_, moments_,
                   images_, mounts_);
    std::fflush(stdout);
}

// ---- filesystems
// ----------------------------------------------------------------------------------

std::string Shape::text() const {
    return fmt::format("{}, slots of {}", shadow ? "shadow" : "device", slot_size);
}

Theatre::Theatre(const Shape &shape, const std::string &work)
    : shape_(shape), stage_(work, shape.blocks * block_size, shape.lba()) {
    Disk &disk = stage_.crash();

    replay::run({"mkfs.uhsfs", "-q", "-f", "--atomic", shape.shadow ? "shadow" : "device",
                 "--slot-size", fmt::format("{}", shape.slot_size), disk.path(),
                 fmt::format("{}", shape.blocks)});
    empty_ = disk.image();
}

// ---- stories
// --------------------------------------------------------------------------------------

void Story::begin(const std::string &options) {
    Stage &stage = theatre_.stage();

    stage.begin(now_, options);
    if (!started_)
        world_.start(stage.mount_point(), [&stage](const std::string &text) { stage.note(text); });
    started_ = true;
}

void Story::end() {
    last_ = world_.operations();
    world_.before_unmount();
    Recording recording = theatre_.stage().end();
    world_.after_unmount();
    if (recording_.requests.empty())
        recording_ = std::move(recording);
    else
        recording_.append(std::move(recording));
}

void Story::end_setup() {
    end();
    world_.settle();
    image_ = theatre_.stage().image();
    now_ = image_;
    recording_ = {};
    outcomes_.clear();
}

void Story::setup(const std::vector<Op> &ops) {
    begin();
    for (const Op &op : ops)
        world_.run(op);
    end_setup();
}

std::uint64_t Story::stop_after_last() const {
    for (const Note &note : recording_.notes)
        if (note.kind == Note::Kind::end && note.operation == last_)
            return note.at + 1;
    throw std::runtime_error("the last operation did not end");
}

std::uint64_t Story::stop_in_last() const {
    std::uint64_t begun = never;

    for (const Note &note : recording_.notes)
        if (note.kind == Note::Kind::begin && note.operation == last_)
            begun = note.at;
    for (const Request &request : recording_.requests)
        if (request.fua && request.issued > begun && request.durable != never)
            return request.durable;
    throw std::runtime_error("the last operation wrote no slot");
}

void Story::stop(std::uint64_t moment) {
    now_ = Crashes::all(image_, recording_, moment);
    recording_.cut(moment);
    // The unmount, and perhaps the last operation, promised nothing.
    world_.take_back(world_.operations());
    if (recording_.ended(moment) < last_)
        world_.take_back(last_);
    outcomes_.clear();
}

void Story::tell(const std::vector<Op> &ops) {
    begin();
    for (const Op &op : ops) {
        if (!world_.can(op))
            throw std::runtime_error("not possible: " + op.text());
        world_.run(op);
    }
    end();
}

Outcome Story::mount(const Image &image) {
    Disk &disk = theatre_.stage().crash();
    const std::string &top = theatre_.stage().mount_point();
    Outcome outcome;

    mounts_++;
    disk.load(image);
    if (::mount(disk.path().c_str(), top.c_str(), "uhsfs", MS_NOATIME, "checkpoint=300") != 0) {
        outcome.problems.push_back(fmt::format("mount: {}", std::strerror(errno)));
        return outcome;
    }
    outcome.tree = look(top, world_.ever());
    if (const std::string count = corruptions(disk.path()); count != "0")
        outcome.problems.push_back("corruptions: " + count);
    if (::umount2(top.c_str(), 0) != 0)
        failed("umount");
    for (std::string &problem : fsck(disk.path()))
        outcome.problems.push_back(std::move(problem));
    return outcome;
}

void Story::each(const CrashOptions &options, const Crashes::Check &check) {
    Crashes crashes(image_, recording_, theatre_.stage().lba());

    crashes.each(options, check);
    moments_ += crashes.moments();
    images_ += crashes.images();
}

bool Story::judge(const Outcome &outcome, const Cut &cut, unsigned begun, unsigned ended) {
    std::vector<std::string> problems = outcome.problems;
    for (std::string &problem : world_.judge(outcome.tree, begun, ended))
        problems.push_back(std::move(problem));
    if (problems.empty())
        return true;
    results_.problem(fmt::format("{}, in operation {} ({}), {} ended:", cut.text, begun,
                                 world_.text(begun), ended));
    for (const std::string &problem : problems)
        results_.problem("  " + problem);
    return false;
}

void Story::replay(const CrashOptions &options) {
    each(options, [&](const Cut &cut, const Image &image) {
        auto known = outcomes_.find(cut.hash);
        if (known == outcomes_.end())
            known = outcomes_.emplace(cut.hash, mount(image)).first;
        if (judge(known->second, cut, recording_.begun(cut.moment), recording_.ended(cut.moment)))
            return true;
        keep(image);
        return false;
    });
}

void Story::replay_recovery(const CrashOptions &options, unsigned count) {
    struct Crashed {
        Cut cut;
        Image image;
    };
    std::vector<Crashed> crashed;
    Random random(options.seed);
    unsigned seen = 0;

    // Each with the same chance.
    each(options, [&](const Cut &cut, const Image &image) {
        const std::size_t place = seen++ < count ? crashed.size() : random() % seen;
        if (place == crashed.size() && place < count)
            crashed.push_back({cut, image});
        else if (place < count)
            crashed[place] = {cut, image};
        return true;
    });
    for (const auto &[first, image] : crashed) {
        theatre_.stage().begin(image, "checkpoint=300");
        const Recording recovery = theatre_.stage().end();
        Crashes crashes(image, recovery, theatre_.stage().lba());
        crashes.each(options, [&, &first = first](const Cut &second, const Image &again) {
            const Cut cut{.text = first.text + "; in recovery: " + second.text};
            if (judge(mount(again), cut, recording_.begun(first.moment),
                      recording_.ended(first.moment)))
                return true;
            keep(again);
            return false;
        });
        if (results_.failed())
            return;
    }
}

}  // namespace uhsfs::replay
