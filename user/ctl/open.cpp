// SPDX-License-Identifier: GPL-2.0
#include "open.hpp"

#include <blkid/blkid.h>
#include <fmt/format.h>

#include <cerrno>
#include <memory>

namespace uhsfs::ctl {

std::string what_is_on(const std::string &path) {
    struct Free {
        void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
    };
    const std::unique_ptr<std::remove_pointer_t<blkid_probe>, Free> probe(
        blkid_new_probe_from_filename(path.c_str()));
    const char *value = nullptr;

    if (!probe)
        return {};
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE);
    blkid_probe_enable_partitions(probe.get(), 1);
    if (blkid_do_safeprobe(probe.get()) != 0)
        return {};
    if (blkid_probe_lookup_value(probe.get(), "TYPE", &value, nullptr) == 0)
        return value;
    if (blkid_probe_lookup_value(probe.get(), "PTTYPE", &value, nullptr) == 0)
        return fmt::format("a {} partition table", value);
    return {};
}

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
