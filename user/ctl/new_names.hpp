/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names for an image without the user's names: random ones of equal length, which belong to
 * the same bucket of their directory as the old ones.
 *
 * A bucket is found by the leading bits of a name's hash, and a SipHash cannot be run
 * backwards, so that candidates are tried until one fits. Candidates that fall into another
 * bucket are kept for the names of that bucket: for a directory of N buckets about N ln N
 * candidates are tried, however many names it has.
 *
 * A name has the same new name wherever it stands: in slots, intents, names trees, buckets.
 */
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libuhsfs/volume.hpp"

namespace uhsfs::ctl {

class NewNames {
public:
    explicit NewNames(const Volume &volume);

    // The new name of a name in a directory. `fits`, if given, is a further condition, which
    // counts the first time that the name is asked for.
    const std::string &of(std::uint64_t parent_ino, std::uint32_t parent_gen, std::string_view name,
                          const std::function<bool(std::string_view)> &fits = {});

    // Names that stay as they are, since nothing else fitted.
    [[nodiscard]] std::uint64_t kept() const noexcept { return kept_; }
    [[nodiscard]] std::uint64_t replaced() const noexcept { return replaced_; }

private:
    struct Directory {
        std::uint32_t buckets = 1;
        std::unordered_map<std::string, std::string> names;
        // New names in use, and short old ones, which may have to be kept.
        std::unordered_set<std::string> taken;
        std::unordered_set<std::uint64_t> hashes;
        // By length and bucket: candidates that were tried for another bucket.
        std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::string>> spare;
    };

    Directory &directory(std::uint64_t ino, std::uint32_t gen);
    std::optional<std::string> find(Directory &dir, std::string_view name,
                                    const std::function<bool(std::string_view)> &fits);
    std::optional<std::string> take_spare(Directory &dir, std::size_t length, std::uint32_t bucket);
    std::string candidate(std::size_t length);
    [[nodiscard]] std::uint64_t hash(std::string_view name) const;

    const Volume &volume_;
    std::map<std::pair<std::uint64_t, std::uint32_t>, Directory> directories_;
    std::mt19937_64 random_;
    std::uint64_t kept_ = 0;
    std::uint64_t replaced_ = 0;
};

}  // namespace uhsfs::ctl
