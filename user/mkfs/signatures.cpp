// SPDX-License-Identifier: GPL-2.0
#include "signatures.hpp"

#include <fmt/format.h>

#include "common/probe.hpp"
#include "libuhsfs/core.hpp"

namespace uhsfs::mkfs {

namespace {

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
    const auto found = UHSFS_TRY(find_foreign(device));
    if (!found)
        return std::string();
    if (found->table)
        return fmt::format("{} partition table", found->type);
    return fmt::format("{} {}{}", found->type, found->filesystem ? "filesystem" : "signature",
                       labelled(found->label));
}

}  // namespace uhsfs::mkfs
