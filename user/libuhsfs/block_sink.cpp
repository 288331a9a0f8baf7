// SPDX-License-Identifier: GPL-2.0 OR MIT
#include "libuhsfs/block_sink.hpp"

#include <cstring>

namespace uhsfs {

namespace {

constexpr std::size_t capacity = std::size_t{1} << 20;

}  // namespace

BlockSink::BlockSink(const Device *device) : device_(device), buffer_(device ? capacity : 0) {}

Result<void> BlockSink::drain() {
    const std::size_t used = used_;

    used_ = 0;
    if (used == 0)
        return {};
    return device_->write(start_, buffer_.span().first(used));
}

Result<void> BlockSink::write(std::uint64_t block, Bytes from) {
    written_ += from.size() / block_size;
    if (device_ == nullptr)
        return {};
    if (used_ > 0 && (block != start_ + used_ / block_size || from.size() > capacity - used_))
        UHSFS_TRY(drain());
    if (from.size() >= capacity)
        return device_->write(block, from);
    if (used_ == 0)
        start_ = block;
    std::memcpy(buffer_.data() + used_, from.data(), from.size());
    used_ += from.size();
    return {};
}

Result<void> BlockSink::zero(std::uint64_t block, std::uint64_t count) {
    if (device_ == nullptr)
        return {};
    UHSFS_TRY(drain());
    return device_->zero(block, count);
}

Result<void> BlockSink::flush() {
    if (device_ == nullptr)
        return {};
    UHSFS_TRY(drain());
    return device_->flush();
}

}  // namespace uhsfs
