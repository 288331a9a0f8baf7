// SPDX-License-Identifier: GPL-2.0
#include "probe.hpp"

#include <blkid/blkid.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>

namespace uhsfs {

namespace {

struct ProbeFree {
    void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<std::remove_pointer_t<blkid_probe>, ProbeFree>;

// libblkid reads at any alignment, which O_DIRECT does not allow.
class Buffered {
public:
    explicit Buffered(int fd) : fd_(fd), flags_(::fcntl(fd, F_GETFL)) {
        if (flags_ >= 0 && (flags_ & O_DIRECT) != 0)
            ::fcntl(fd_, F_SETFL, flags_ & ~O_DIRECT);
    }
    Buffered(const Buffered &) = delete;
    Buffered(Buffered &&) = delete;
    Buffered &operator=(const Buffered &) = delete;
    Buffered &operator=(Buffered &&) = delete;
    ~Buffered() {
        if (flags_ >= 0 && (flags_ & O_DIRECT) != 0)
            ::fcntl(fd_, F_SETFL, flags_);
    }

private:
    int fd_;
    int flags_;
};

Result<Probe> make_probe(const Device &device) {
    Probe probe(blkid_new_probe());

    if (!probe || blkid_probe_set_device(probe.get(), device.fd(), 0, 0) != 0)
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

void take_magic(const Probe &probe, const char *magic, const char *offset, Signature &found) {
    const char *value = nullptr;
    std::size_t len = 0;

    if (blkid_probe_lookup_value(probe.get(), magic, &value, &len) != 0)
        return;
    found.magic = std::strtoull(value_of(probe, offset).c_str(), nullptr, 10);
    found.magic_len = len;
}

// Whole blocks, so that it works with O_DIRECT.
Result<void> wipe(const Device &device, const Signature &found) {
    AlignedBuffer block(block_size);
    std::uint64_t at = found.magic;
    std::uint64_t left = found.magic_len;

    while (left > 0) {
        const std::uint64_t number = at / block_size;
        const std::size_t from = at % block_size;
        const std::size_t n = std::min<std::uint64_t>(left, block_size - from);
        // The rest behind the last whole block is not the filesystem's.
        if (number >= device.blocks())
            return {};
        UHSFS_TRY(device.read(number, block.span()));
        std::memset(block.data() + from, 0, n);
        UHSFS_TRY(device.write(number, block.span()));
        at += n;
        left -= n;
    }
    return {};
}

}  // namespace

Result<std::optional<Signature>> find_foreign(const Device &device) {
    const Buffered buffered(device.fd());
    const Probe probe = UHSFS_TRY(make_probe(device));
    int more = 0;

    while ((more = blkid_do_probe(probe.get())) == 0) {
        Signature found;
        found.type = value_of(probe, "TYPE");
        if (!found.type.empty()) {
            found.label = value_of(probe, "LABEL");
            found.filesystem = value_of(probe, "USAGE") == "filesystem";
            take_magic(probe, "SBMAGIC", "SBMAGIC_OFFSET", found);
            return found;
        }
        found.type = value_of(probe, "PTTYPE");
        found.table = true;
        take_magic(probe, "PTMAGIC", "PTMAGIC_OFFSET", found);
        if (!found.type.empty())
            return found;
    }
    // 1: nothing further. What cannot be read may be anything.
    if (more < 0)
        return fail(EIO, device.path(), "cannot look for what it holds");
    return std::optional<Signature>();
}

std::optional<Signature> find_foreign(const std::string &path) {
    const auto device = Device::open(path, OpenMode::read);
    const auto found = device ? find_foreign(*device) : std::nullopt;

    return found ? *found : std::nullopt;
}

Result<void> wipe_foreign(const Device &device) {
    // A signature that comes back after it was wiped is not ours to fight.
    constexpr int most = 64;

    // Each time from the start: what was wiped may have hidden something.
    for (int i = 0; i < most; i++) {
        const auto found = UHSFS_TRY(find_foreign(device));
        if (!found)
            break;
        UHSFS_TRY(wipe(device, *found));
    }
    return {};
}

}  // namespace uhsfs
