// SPDX-License-Identifier: GPL-2.0
/*
 * dump super, slot, path, block: one structure with every field.
 */
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "commands.hpp"
#include "copies.hpp"
#include "libuhsfs/text.hpp"
#include "open.hpp"

namespace uhsfs::ctl {

// ---- superblock ----------------------------------------------------------------------------

namespace {

struct Super {
    std::uint64_t block = 0;
    int code = 0;
    bool recognised = false;
    uhsfs_fault fault = {};
    uhsfs_super raw = {};
    std::unique_ptr<uhsfs_super_info> info = std::make_unique<uhsfs_super_info>();
};

Super read_super(const Device &device, std::uint64_t block) {
    Super super;
    std::array<std::uint8_t, block_size> bytes = {};

    super.block = block;
    const auto read = device.read(block, bytes);
    if (!read) {
        super.code = read.error().code;
        return super;
    }
    std::memcpy(&super.raw, bytes.data(), sizeof(super.raw));
    super.recognised = uhsfs_super_recognise(bytes.data());
    super.code = -uhsfs_super_decode(&super.raw, block, super.info.get(), &super.fault);
    return super;
}

// Copy 1, whose place follows from the size of the filesystem. If copy 0 does not say it, it
// is that of the device, or the smallest.
Super read_second(const Device &device, const Super &first) {
    uhsfs_geometry geo = {};

    geo.blocks = device.blocks();
    if (first.code == 0 && first.info->version == UHSFS_FORMAT_VERSION)
        geo.blocks = std::min<std::uint64_t>(first.info->geo.blocks, device.blocks());
    Super second = read_super(device, uhsfs_super_block(&geo, 1));
    if (first.code == 0 || second.recognised || device.blocks() < UHSFS_MIN_BLOCKS)
        return second;
    geo.blocks = UHSFS_MIN_BLOCKS;
    Super other = read_super(device, uhsfs_super_block(&geo, 1));
    return other.recognised ? std::move(other) : std::move(second);
}

Value super_copy_value(const Super &super, bool counts) {
    Copy copy;

    copy.code = super.code;
    copy.seq = super.info->seq;
    copy.fault = super.fault;
    Value value = describe(copy, super.block, counts);
    if (super.code == 0 || super.recognised)
        value.add("fields", describe(super.raw));
    return value;
}

Error super_error(const std::string &path, const Super &super) {
    if (super.code == EUCLEAN)
        return fault_error(path, super.fault);
    return {.code = super.code,
            .object = path,
            .message = fmt::format("superblock {}: cannot be read", super.block),
            .hint = {}};
}

}  // namespace

Result<void> run_dump_super(const Arguments &arguments, Report &report) {
    const std::string &path = arguments.words().at(0);
    const Device device = UHSFS_TRY(Device::open(path, OpenMode::read));

    if (device.blocks() <= UHSFS_SB_BLOCK)
        return tl::make_unexpected(no_filesystem(path));
    const Super first = read_super(device, UHSFS_SB_BLOCK);
    const Super second = read_second(device, first);
    if (!first.recognised && !second.recognised)
        return tl::make_unexpected(no_filesystem(path));
    const bool use_second = first.code != 0
                                ? second.code == 0 || (!first.recognised && second.recognised)
                                : second.code == 0 && second.info->seq > first.info->seq;
    const Super &chosen = use_second ? second : first;
    if (report.verbose()) {
        Value copies = Value::array();
        copies.push(super_copy_value(first, &chosen == &first && first.code == 0));
        copies.push(super_copy_value(second, &chosen == &second && second.code == 0));
        report.add("copies", std::move(copies));
    } else {
        report.add_all(describe(chosen.raw));
    }
    for (const Super *super : {&first, &second})
        if (super->code != 0)
            report.error(super_error(path, *super));
    return {};
}

// ---- slots ---------------------------------------------------------------------------------

namespace {

// Both copies of the slot, each with its fields, then what is wrong.
void report_slot(const Volume &volume, std::uint64_t ino, const uhsfs_chunk_info &chunk,
                 Report &report) {
    const uhsfs_geometry &geo = volume.geo();
    const Copies copies = read_slot_copies(volume, chunk, ino);
    const std::uint32_t offset = uhsfs_slot_offset(&geo, ino);
    const std::uint32_t index = uhsfs_ino_index(&geo, ino);
    const bool in_use = (chunk.in_use >> index & 1) != 0;
    const bool written = (chunk.written >> (index / geo.slots_per_block) & 1) != 0;

    report.add("ino", ino);
    report.add("chunk", uhsfs_ino_chunk(&geo, ino));
    report.add("index", index);
    report.add("in-use", in_use);
    report.add("home", copies.home.block);
    report.add("state", !written ? "never-written" : copies.home.valid() ? "valid" : "damaged");
    if (report.verbose()) {
        Value list = Value::array();
        for (unsigned i = 0; i < copies.home.copies; i++) {
            Value copy = describe_copy(copies.home, i);
            copy.add("slot", describe_slot(geo, copies.image(i).subspan(offset)));
            list.push(std::move(copy));
        }
        report.add("copies", std::move(list));
    } else {
        report.add("slot", describe_slot(geo, copies.image(copies.best()).subspan(offset)));
    }
    // What was never written is whatever stood there before.
    if (!copies.home.valid() && written)
        report.error(copies.home.error(volume.path()));
    else if (copies.home.suspicious && written)
        report.error({.code = EUCLEAN,
                      .object = volume.path(),
                      .message = fmt::format("the other copy of slot block {} is damaged",
                                             copies.home.block),
                      .hint = "-v shows both"});
}

}  // namespace

Result<void> run_dump_slot(const Arguments &arguments, Report &report) {
    const std::uint64_t ino = UHSFS_TRY(parse_number("INO", arguments.words().at(0)));
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    const std::uint64_t number = uhsfs_ino_chunk(&volume.geo(), ino);

    if (number >= uhsfs_super_chunks(&volume.super()))
        return fail(
            ENOENT, volume.path(),
            fmt::format("inode {}: the last one that could be made is {}", ino,
                        uhsfs_super_chunks(&volume.super()) * volume.geo().slots_per_chunk - 1));
    report_slot(volume, ino, UHSFS_TRY(volume.chunk(number)), report);
    return {};
}

Result<void> run_dump_path(const Arguments &arguments, Report &report) {
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    const Inode inode = UHSFS_TRY(volume.resolve(arguments.words().at(0)));

    report_slot(volume, inode.ino(),
                UHSFS_TRY(volume.chunk(uhsfs_ino_chunk(&volume.geo(), inode.ino()))), report);
    return {};
}

// ---- any block -----------------------------------------------------------------------------

Result<void> run_dump_block(const Arguments &arguments, Report &report) {
    const std::uint64_t block = UHSFS_TRY(parse_number("BLOCK", arguments.words().at(0)));
    const Volume volume = UHSFS_TRY(open_volume(arguments.words().at(1)));
    AlignedBuffer bytes(block_size);

    if (block >= volume.geo().blocks)
        return fail(0, volume.path(),
                    fmt::format("block {}: the last one is {}", block, volume.geo().blocks - 1));
    UHSFS_TRY(volume.device().read(block, bytes.span()));
    auto value = describe_block(volume.geo(), bytes.span());
    if (!value) {
        Error error = value.error();
        return fail(0, volume.path(), fmt::format("block {} {}", block, error.message));
    }
    report.add_all(*value);
    return {};
}

}  // namespace uhsfs::ctl
