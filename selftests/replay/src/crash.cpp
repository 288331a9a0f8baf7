// SPDX-License-Identifier: GPL-2.0
/*
 * Moments, choices, and images that follow from them.
 */
#include "crash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

namespace uhsfs::replay {

namespace {

std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 32U)) * 0xd6e8feb86659fd93ULL;
    value = (value ^ (value >> 32U)) * 0xd6e8feb86659fd93ULL;
    return value ^ (value >> 32U);
}

std::uint64_t content_hash(std::uint64_t place, const std::uint8_t *data, std::size_t size) {
    std::uint64_t hash = mix(place + 1);

    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + at, sizeof(word));
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29U;
    }
    return mix(hash);
}

unsigned below(Random &random, std::uint64_t limit) {
    return static_cast<unsigned>(random() % limit);
}

}  // namespace

Crashes::Crashes(const Image &base, const Recording &recording, unsigned lba)
    : base_(base), recording_(recording), lba_(lba), units_(base.bytes.size() / lba) {}

std::vector<std::uint64_t> Crashes::find_moments(std::uint64_t from) const {
    std::set<std::uint64_t> moments;

    for (const Request &request : recording_.requests)
        if (request.durable != never && request.durable >= from)
            moments.insert(request.durable);
    moments.insert(recording_.end);
    return {moments.begin(), moments.end()};
}

std::vector<bool> Crashes::units(std::size_t request, bool there) const {
    return std::vector<bool>(recording_.requests[request].sectors * sector_size / lba_, there);
}

// What is written behind a flush of its own is there only if everything before it is.
void Crashes::respect_flushes(const std::vector<std::size_t> &open, Choice &choice) const {
    for (std::size_t i = open.size(); i-- > 0;) {
        const Request &request = recording_.requests[open[i]];
        if (!request.preflush || std::ranges::find(choice.units[i], true) == choice.units[i].end())
            continue;
        for (std::size_t k = 0; k < open.size(); k++)
            if (recording_.requests[open[k]].done < request.issued)
                choice.units[k] = units(open[k], true);
    }
}

Crashes::Choice Crashes::by_chance(const std::vector<std::size_t> &open, bool torn,
                                   Random &random) const {
    constexpr unsigned percent = 100;
    constexpr unsigned shares[] = {15, 50, 85};
    const unsigned share = shares[below(random, 3)];
    Choice choice;

    // One alone, or all but one, are what an order that is not kept shows first.
    const unsigned how = below(random, 4);
    const std::size_t odd = below(random, open.size());
    for (std::size_t i = 0; i < open.size(); i++) {
        bool there = below(random, percent) < share;
        if (how < 2)
            there = (i == odd) == (how == 0);
        std::vector<bool> which = units(open[i], there);
        if (torn && which.size() > 1 && below(random, 3) == 0) {
            const std::size_t cut = 1 + below(random, which.size() - 1);
            const bool front = below(random, 2) == 0;
            const bool any = below(random, 3) == 0;
            for (std::size_t unit = 0; unit < which.size(); unit++)
                which[unit] = any ? below(random, 2) == 0 : (unit < cut) == front;
        }
        choice.units.push_back(std::move(which));
    }
    return choice;
}

std::vector<Crashes::Choice> Crashes::choices(const std::vector<std::size_t> &open,
                                              const CrashOptions &options, Random &random) const {
    std::vector<Choice> all;

    for (const bool there : {false, true}) {
        Choice choice{.text = there ? "all" : "none", .units = {}, .plain = true};
        for (const std::size_t request : open)
            choice.units.push_back(units(request, there));
        all.push_back(std::move(choice));
        if (open.empty())
            return all;
    }
    for (unsigned i = 0; i < options.subsets; i++) {
        Choice choice = by_chance(open, options.torn, random);
        choice.text = fmt::format("subset {}", i);
        respect_flushes(open, choice);
        all.push_back(std::move(choice));
    }
    return all;
}

// Units of a request get to the image; a null pointer: all.
void Crashes::put(Image &image, std::size_t number, const std::vector<bool> *units) {
    const Request &request = recording_.requests[number];
    const std::uint64_t first = request.sector * sector_size / lba_;
    const std::uint64_t count = request.sectors * sector_size / lba_;
    static const std::vector<std::uint8_t> zeros(block_size);

    for (std::uint64_t i = 0; i < count; i++) {
        if (units != nullptr && !(*units)[i])
            continue;
        const std::uint8_t *data = request.discard ? zeros.data() : request.data.data() + i * lba_;
        Unit &unit = units_[first + i];
        // Of two writes the later one is newer, whichever becomes durable first.
        if (unit.written > number)
            continue;
        hash_ ^= unit.hash;
        unit = {.hash = content_hash(first + i, data, lba_), .written = number + 1};
        hash_ ^= unit.hash;
        image.write((first + i) * lba_, data, lba_);
    }
}

std::vector<Crashes::Job> Crashes::make_jobs(const CrashOptions &options) {
    Random random(options.seed);
    std::vector<Job> jobs;
    const std::vector<std::uint64_t> moments = find_moments(options.from);

    moments_ = static_cast<unsigned>(moments.size());
    for (const std::uint64_t moment : moments) {
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < recording_.requests.size(); i++) {
            const Request &request = recording_.requests[i];
            if (request.sectors != 0 && request.issued < moment && request.durable >= moment)
                open.push_back(i);
        }
        for (Choice &choice : choices(open, options, random))
            jobs.push_back({moment, open, std::move(choice)});
    }
    return jobs;
}

// Puts what is in doubt on top of what is durable, for as long as check() takes.
bool Crashes::try_job(const Job &job, Image &durable, const Check &check) {
    const std::uint64_t hash = hash_;
    std::vector<std::pair<std::uint64_t, Unit>> units;
    std::vector<std::pair<std::uint64_t, std::vector<std::uint8_t>>> bytes;

    for (const std::size_t i : job.open) {
        const Request &request = recording_.requests[i];
        const std::uint64_t from = request.sector * sector_size;
        const std::uint64_t end = from + request.sectors * sector_size;
        for (std::uint64_t unit = from / lba_; unit < end / lba_; unit++)
            units.emplace_back(unit, units_[unit]);
        bytes.emplace_back(
            from, std::vector<std::uint8_t>(durable.bytes.begin() + static_cast<off_t>(from),
                                            durable.bytes.begin() + static_cast<off_t>(end)));
    }
    for (std::size_t k = 0; k < job.open.size(); k++)
        put(durable, job.open[k], &job.choice.units[k]);
    Cut cut{.moment = job.moment, .hash = hash_, .text = {}, .plain = job.choice.plain};
    cut.text = fmt::format("cut at {} of {}, {} of {} writes in doubt", job.moment, recording_.end,
                           job.choice.text, job.open.size());
    const bool more = check(cut, durable);
    for (std::size_t k = bytes.size(); k-- > 0;)
        durable.write(bytes[k].first, bytes[k].second.data(), bytes[k].second.size());
    for (std::size_t k = units.size(); k-- > 0;)
        units_[units[k].first] = units[k].second;
    hash_ = hash;
    return more;
}

void Crashes::walk(const std::vector<Job> &jobs, const Check &check) {
    Image durable = base_;
    std::vector<bool> there(recording_.requests.size());

    std::ranges::fill(units_, Unit());
    hash_ = 0;
    for (const Job &job : jobs) {
        for (std::size_t i = 0; i < there.size(); i++) {
            const Request &request = recording_.requests[i];
            if (there[i] || request.sectors == 0 || request.durable >= job.moment)
                continue;
            there[i] = true;
            put(durable, i, nullptr);
        }
        if (!try_job(job, durable, check))
            return;
    }
}

// Two in three of those that are drawn have nothing or everything of what is in doubt, if there
// are so many.
std::set<std::uint64_t> Crashes::draw(const std::vector<Job> &jobs, const CrashOptions &options) {
    std::set<std::uint64_t> plain;
    std::set<std::uint64_t> other;
    std::vector<std::uint64_t> rest;
    Random random(options.seed);

    walk(jobs, [&](const Cut &cut, const Image &) {
        (cut.plain ? plain : other).insert(cut.hash);
        return true;
    });
    std::ranges::set_difference(other, plain, std::back_inserter(rest));
    images_ = static_cast<unsigned>(plain.size() + rest.size());
    if (options.most != 0 && options.most < images_) {
        std::vector<std::uint64_t> drawn(plain.begin(), plain.end());
        const std::size_t share = std::min<std::size_t>(2 * options.most / 3, drawn.size());
        std::ranges::shuffle(drawn, random);
        std::ranges::shuffle(rest, random);
        rest.resize(std::min(rest.size(), options.most - share));
        drawn.resize(std::min(drawn.size(), options.most - rest.size()));
        plain = {drawn.begin(), drawn.end()};
    }
    plain.insert(rest.begin(), rest.end());
    return plain;
}

void Crashes::each(const CrashOptions &options, const Check &check) {
    const std::vector<Job> jobs = make_jobs(options);
    const std::set<std::uint64_t> drawn = draw(jobs, options);

    walk(jobs, [&](const Cut &cut, const Image &image) {
        return !drawn.contains(cut.hash) || check(cut, image);
    });
}

Image Crashes::all(const Image &base, const Recording &recording, std::uint64_t moment) {
    Crashes crashes(base, recording, sector_size);
    Image image = base;

    for (std::size_t i = 0; i < recording.requests.size(); i++)
        if (recording.requests[i].sectors != 0 && recording.requests[i].issued < moment)
            crashes.put(image, i, nullptr);
    return image;
}

}  // namespace uhsfs::replay
