/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where the blocks of a new filesystem go: a device, or nowhere to see what would happen.
 * Neighbouring small writes are put together, so that a device with O_DIRECT gets few of them.
 */
#pragma once

#include <cstdint>

#include "libuhsfs/device.hpp"

namespace uhsfs {

class BlockSink {
public:
    // device == nullptr: nothing is written. The device stays the caller's.
    explicit BlockSink(const Device *device);

    // Whole blocks. They may be written later, at the latest by flush(): order is arbitrary.
    Result<void> write(std::uint64_t block, Bytes from);
    Result<void> zero(std::uint64_t block, std::uint64_t count);
    // Everything so far is durable.
    Result<void> flush();
    [[nodiscard]] std::uint64_t blocks_written() const noexcept { return written_; }

private:
    Result<void> drain();

    const Device *device_;
    AlignedBuffer buffer_;
    std::uint64_t start_ = 0;
    std::size_t used_ = 0;
    std::uint64_t written_ = 0;
};

}  // namespace uhsfs
