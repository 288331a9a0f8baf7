// SPDX-License-Identifier: GPL-2.0
#include "new_names.hpp"

#include <algorithm>

namespace uhsfs::ctl {

namespace {

// Letters and digits: safe in every shell. Short names take what is printable, since there
// are few of them.
constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view printables =
    "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_-+=@%,;:!#$&()[]{}^~<>?*|";
constexpr std::size_t short_length = 3;

// Candidates for one name. A bucket of the largest directory takes fewer.
constexpr std::uint64_t most_tries = std::uint64_t{1} << 24;
constexpr std::uint64_t most_short_tries = std::uint64_t{1} << 14;
constexpr std::size_t most_spares = 64;

}  // namespace

NewNames::NewNames(const Volume &volume) : volume_(volume), random_(std::random_device{}()) {}

std::uint64_t NewNames::hash(std::string_view name) const {
    return uhsfs_dir_hash(&volume_.geo(), reinterpret_cast<const u8 *>(name.data()),
                          static_cast<u8>(name.size()));
}

std::string NewNames::candidate(std::size_t length) {
    const std::string_view alphabet = length <= short_length ? printables : letters;
    std::uniform_int_distribution<std::size_t> pick(0, alphabet.size() - 1);
    std::string name;

    while (name.size() < length)
        name += alphabet[pick(random_)];
    return name;
}

NewNames::Directory &NewNames::directory(std::uint64_t ino, std::uint32_t gen) {
    const auto [place, fresh] = directories_.try_emplace({ino, gen});
    Directory &dir = place->second;

    if (!fresh)
        return dir;
    const auto inode = volume_.inode(ino);
    if (!inode || inode->attr().generation != gen || !inode->is_dir())
        return dir;
    const auto info = volume_.dir_info(*inode);
    if (!info)
        return dir;
    dir.buckets = info->buckets;
    if (const auto entries = volume_.entries(*inode))
        for (const DirEntry &entry : *entries)
            if (entry.name.size() <= short_length)
                dir.taken.insert(entry.name);
    return dir;
}

std::optional<std::string> NewNames::take_spare(Directory &dir, std::size_t length,
                                                std::uint32_t bucket) {
    const auto found = dir.spare.find({length, bucket});

    if (found == dir.spare.end() || found->second.empty())
        return std::nullopt;
    std::string name = std::move(found->second.back());
    found->second.pop_back();
    return name;
}

std::optional<std::string> NewNames::find(Directory &dir, std::string_view name,
                                          const std::function<bool(std::string_view)> &fits) {
    const std::uint32_t bucket = uhsfs_dir_bucket(hash(name), dir.buckets);
    const std::uint64_t tries = name.size() <= short_length ? most_short_tries : most_tries;
    const auto usable = [&](const std::string &made) {
        return made != name && !dir.taken.contains(made) && !dir.hashes.contains(hash(made)) &&
               (!fits || fits(made));
    };

    while (auto spare = fits ? std::nullopt : take_spare(dir, name.size(), bucket))
        if (usable(*spare))
            return spare;
    for (std::uint64_t i = 0; i < tries; i++) {
        std::string made = candidate(name.size());
        const std::uint32_t its = uhsfs_dir_bucket(hash(made), dir.buckets);
        if (its == bucket && usable(made))
            return made;
        if (its == bucket)
            continue;
        auto &spares = dir.spare[{name.size(), its}];
        if (spares.size() < most_spares)
            spares.push_back(std::move(made));
    }
    return std::nullopt;
}

const std::string &NewNames::of(std::uint64_t parent_ino, std::uint32_t parent_gen,
                                std::string_view name,
                                const std::function<bool(std::string_view)> &fits) {
    Directory &dir = directory(parent_ino, parent_gen);
    const std::string old(name);
    const auto known = dir.names.find(old);

    if (known != dir.names.end())
        return known->second;
    auto found = find(dir, name, fits);
    (found ? replaced_ : kept_)++;
    const std::string made = found.value_or(old);
    dir.taken.insert(made);
    dir.hashes.insert(hash(made));
    return dir.names.emplace(old, made).first->second;
}

}  // namespace uhsfs::ctl
