// SPDX-License-Identifier: GPL-2.0
#include "signatures.hpp"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <type_traits>

#include "libuhsfs/core.hpp"

namespace uhsfs::mkfs {

namespace {

struct ProbeFree {
    void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<std::remove_pointer_t<blkid_probe>, ProbeFree>;

// A descriptor of its own: libblkid reads at any alignment, which O_DIRECT does not allow.
Result<Probe> make_probe(const Device &device, const unique_fd &fd) {
    Probe probe(blkid_new_probe());

    if (!probe || blkid_probe_set_device(probe.get(), fd.get(), 0, 0) != 0)
        return fail_errno(device.path(), "cannot look for what it holds");
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL |
                                                       BLKID_SUBLKS_USAGE | BLKID_SUBLKS_MAGIC |
                                                       BLKID_SUBLKS_BADCSUM);
    blkid_probe_enable_partitions(probe.get(), 1);
    blkid_probe_set_partitions_flags(probe.get(), BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
    return probe;
}

std::string value_of(const Probe &probe, const char *name) {
    const char *value = nullptr;

    return blkid_probe_lookup_value(probe.get(), name, &value, nullptr) == 0 ? value : "";
}

std::string labelled(const std::string &label) {
    return label.empty() ? "" : fmt::format(" labelled '{}'", label);
}

// Wherever a superblock may stand: a filesystem that lost its first one is still there.
Result<std::string> own_filesystem(const Device &device) {
    AlignedBuffer block(block_size);
    std::string found;

    for (const std::uint64_t place : {UHSFS_SB_BLOCK, UHSFS_SB_COPY_SMALL, UHSFS_SB_COPY}) {
        uhsfs_super_info info = {};
        if (place >= device.blocks())
            break;
        UHSFS_TRY(device.read(place, block.span()));
        if (!uhsfs_super_recognise(block.data()))
            continue;
        const auto *raw = reinterpret_cast<const uhsfs_super *>(block.data());
        if (uhsfs_super_decode(raw, place, &info, nullptr) == 0)
            return "a uhsfs filesystem" + labelled(info.label);
        found = "a damaged uhsfs filesystem";
    }
    return found;
}

}  // namespace

Result<std::string> find_signature(const Device &device) {
    if (std::string own = UHSFS_TRY(own_filesystem(device)); !own.empty())
        return own;
    const unique_fd fd = UHSFS_TRY(open_file(device.path(), O_RDONLY));
    const Probe probe = UHSFS_TRY(make_probe(device, fd));
    int more = 0;
    while ((more = blkid_do_probe(probe.get())) == 0) {
        const std::string type = value_of(probe, "TYPE");
        const std::string table = value_of(probe, "PTTYPE");
        const bool filesystem = value_of(probe, "USAGE") == "filesystem";
        if (!type.empty())
            return fmt::format("{} {}{}", type, filesystem ? "filesystem" : "signature",
                               labelled(value_of(probe, "LABEL")));
        if (!table.empty())
            return fmt::format("{} partition table", table);
    }
    // 1: nothing further.  What cannot be read may be anything.
    if (more < 0)
        return fail(EIO, device.path(), "cannot look for what it holds");
    return std::string();
}

Result<void> wipe_signatures(const Device &device) {
    // A signature that comes back after it was wiped is not ours to fight.
    constexpr int most = 64;
    const unique_fd fd = UHSFS_TRY(open_file(device.path(), O_RDWR));
    const Probe probe = UHSFS_TRY(make_probe(device, fd));

    for (int i = 0; i < most && blkid_do_probe(probe.get()) == 0; i++)
        if (blkid_do_wipe(probe.get(), 0) != 0)
            return fail(errno != 0 ? errno : EIO, device.path(),
                        "cannot remove the signature of what it held");
    return {};
}

}  // namespace uhsfs::mkfs
