/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a power cut may leave of a recording.
 *
 * Durable is a write with FUA that is done, and one that was done before a flush began that
 * is done. Whatever else was issued may be there or not: each write by itself, in units of a
 * block of the device. The moments that matter are those right before something becomes
 * durable: never is more in doubt, with so little that is certain. Of each moment are tried:
 * nothing and everything of what is in doubt, and subsets by chance, some of them with writes
 * that are cut off.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "recording.hpp"
#include "stage.hpp"

namespace uhsfs::replay {

using Random = std::mt19937_64;

struct CrashOptions {
    unsigned subsets = 16;  // by chance, of each moment
    bool torn = true;
    unsigned most = 0;       // images, 0: all; else they are drawn
    std::uint64_t from = 0;  // no moment before
    std::uint64_t seed = 1;
};

struct Cut {
    std::uint64_t moment = 0;
    std::uint64_t hash = 0;  // of the image
    std::string text;        // which
    bool plain = false;      // nothing or everything of what is in doubt
};

// Calls check() with the image of each crash. Those of one content are given one hash.
class Crashes {
public:
    Crashes(const Image &base, const Recording &recording, unsigned lba);

    // Returns false to stop.
    using Check = std::function<bool(const Cut &cut, const Image &image)>;

    void each(const CrashOptions &options, const Check &check);
    [[nodiscard]] unsigned moments() const { return moments_; }
    // Different ones, of which some were drawn.
    [[nodiscard]] unsigned images() const { return images_; }

    // All that was issued before a moment, as a machine that lost no power has it.
    static Image all(const Image &base, const Recording &recording, std::uint64_t moment);

private:
    // A choice: of each request in doubt, the units that are there.
    struct Choice {
        std::string text = {};
        std::vector<std::vector<bool>> units = {};
        bool plain = false;
    };

    struct Job {
        std::uint64_t moment;
        std::vector<std::size_t> open;
        Choice choice;
    };

    struct Unit {
        std::uint64_t hash = 0;   // of what stands there; 0: as in base
        std::size_t written = 0;  // by which request, from 1
    };

    [[nodiscard]] std::vector<Job> make_jobs(const CrashOptions &options);
    bool try_job(const Job &job, Image &durable, const Check &check);
    void walk(const std::vector<Job> &jobs, const Check &check);
    [[nodiscard]] std::set<std::uint64_t> draw(const std::vector<Job> &jobs,
                                               const CrashOptions &options);
    [[nodiscard]] std::vector<std::uint64_t> find_moments(std::uint64_t from) const;
    [[nodiscard]] std::vector<Choice> choices(const std::vector<std::size_t> &open,
                                              const CrashOptions &options, Random &random) const;
    [[nodiscard]] Choice by_chance(const std::vector<std::size_t> &open, bool torn,
                                   Random &random) const;
    void respect_flushes(const std::vector<std::size_t> &open, Choice &choice) const;
    void put(Image &image, std::size_t request, const std::vector<bool> *units);
    [[nodiscard]] std::vector<bool> units(std::size_t request, bool there) const;

    const Image &base_;
    const Recording &recording_;
    unsigned lba_;
    unsigned moments_ = 0, images_ = 0;
    std::vector<Unit> units_;
    std::uint64_t hash_ = 0;
};

}  // namespace uhsfs::replay
