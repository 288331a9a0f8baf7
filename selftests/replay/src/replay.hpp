/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A story: a filesystem, operations on it that are recorded, and every cut of that.
 *
 *	Theatre theatre(shape, work);
 *	Story story(theatre, results);
 *	story.setup({...});          what is there, and durable, when the story begins
 *	story.tell({...});           operations, recorded
 *	story.replay(options);
 */
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crash.hpp"
#include "stage.hpp"
#include "world.hpp"

namespace uhsfs::replay {

// A result, with what went wrong.
class Results {
public:
    void begin(const std::string &name);
    void problem(const std::string &text);
    // What a story came to.
    void count(unsigned moments, unsigned images, unsigned mounts);
    void end();
    [[nodiscard]] bool failed() const { return !problems_.empty(); }
    [[nodiscard]] bool mentions(const std::string &what) const;
    [[nodiscard]] const std::vector<std::string> &problems() const { return problems_; }

private:
    std::string name_;
    std::vector<std::string> problems_;
    unsigned more_ = 0, stories_ = 0, moments_ = 0, images_ = 0, mounts_ = 0;
};

// How filesystems are made.
struct Shape {
    bool shadow = false;
    unsigned slot_size = 1024;
    unsigned blocks = 4096;
    [[nodiscard]] unsigned lba() const { return shadow ? 512 : 4096; }
    [[nodiscard]] std::string text() const;
};

// The devices of one shape, and the empty filesystem.
class Theatre {
public:
    Theatre(const Shape &shape, const std::string &work);

    [[nodiscard]] const Shape &shape() const { return shape_; }
    [[nodiscard]] Stage &stage() { return stage_; }
    [[nodiscard]] const Image &empty() const { return empty_; }

private:
    Shape shape_;
    Stage stage_;
    Image empty_;
};

// What a mount made of a crash image.
struct Outcome {
    FoundTree tree;
    std::vector<std::string> problems;  // mount, unmount, fsck
};

class Story {
public:
    Story(Theatre &theatre, Results &results)
        : theatre_(theatre), results_(results), image_(theatre.empty()), now_(image_) {}
    Story(const Story &) = delete;
    Story(Story &&) = delete;
    Story &operator=(const Story &) = delete;
    Story &operator=(Story &&) = delete;
    ~Story() { results_.count(moments_, images_, mounts_); }

    World &world() { return world_; }
    // Unmounted and settled afterwards.
    void setup(const std::vector<Op> &ops);
    void tell(const std::vector<Op> &ops);
    // Parts of tell(), for more than operations in between.
    void begin(const std::string &options = "checkpoint=300");
    void end();
    // The same, and what was done is what there is when the story begins.
    void end_setup();
    // The machine stops at a moment, with all that was issued on the device but not durable:
    // what comes next is told of that. Everything but the last operation was synced.
    void stop(std::uint64_t moment);
    // Moments: the last operation has ended; its slot is on its way.
    [[nodiscard]] std::uint64_t stop_after_last() const;
    [[nodiscard]] std::uint64_t stop_in_last() const;

    [[nodiscard]] const Recording &recording() const { return recording_; }
    [[nodiscard]] const Image &image() const { return image_; }

    void replay(const CrashOptions &options);
    // Some cuts, drawn, are mounted; every cut of what that wrote is mounted too.
    void replay_recovery(const CrashOptions &options, unsigned count);
    // Every cut, for a check of one's own.
    void each(const CrashOptions &options, const Crashes::Check &check);
    // Of one image.
    Outcome mount(const Image &image);

private:
    // True if all is well.
    bool judge(const Outcome &outcome, const Cut &cut, unsigned begun, unsigned ended);

    Theatre &theatre_;
    Results &results_;
    World world_;
    bool started_ = false;
    Image image_;        // when the recording begins
    Image now_;          // when the next mount does
    unsigned last_ = 0;  // operation before the newest unmount
    Recording recording_;
    std::map<std::uint64_t, Outcome> outcomes_;  // by hash
    unsigned moments_ = 0, images_ = 0, mounts_ = 0;
};

}  // namespace uhsfs::replay
