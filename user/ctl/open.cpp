// SPDX-License-Identifier: GPL-2.0
#include "open.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "common/probe.hpp"

namespace uhsfs::ctl {

namespace {

// "ext4", "a dos partition table"; empty if nothing is known.
std::string what_is_on(const std::string &path) {
    const auto found = find_foreign(path);

    if (!found)
        return {};
    return found->table ? fmt::format("a {} partition table", found->type) : found->type;
}

}  // namespace

Error no_filesystem(const std::string &path) {
    const std::string what = what_is_on(path);
    Error error{.code = 0,
                .object = path,
                .message = "not a uhsfs filesystem",
                .hint = "mkfs.uhsfs makes one, and destroys what is there"};

    if (!what.empty()) {
        error.message += fmt::format(": it holds {}", what);
        error.hint = what.ends_with("partition table") ? "name a partition of it" : "";
    }
    return error;
}

Result<Volume> open_volume(const std::string &path, const VolumeOptions &options) {
    auto volume = Volume::open(path, OpenMode::read, options);

    if (volume)
        return volume;
    Error error = std::move(volume).error();
    if (error.code == EINVAL)
        return tl::make_unexpected(no_filesystem(path));
    if (error.code == EUCLEAN && error.hint.empty())
        error.hint = "'uhsfs-ctl dump super -v' shows both superblocks, fsck.uhsfs may repair them";
    if (error.code == EACCES)
        error.hint = "devices are read as root";
    return tl::make_unexpected(std::move(error));
}

}  // namespace uhsfs::ctl
