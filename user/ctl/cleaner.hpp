/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Takes what is private out of metadata blocks, in place, and keeps them what they are: sound
 * ones sound, damaged ones damaged.
 *
 * A record whose checksum was right gets a new one. Of one whose checksum was wrong nothing
 * but what can be recognised is kept: behind the first length that makes no sense, everything
 * is zeroed, and the checksum stays wrong.
 */
#pragma once

#include <functional>
#include <map>
#include <string>

#include "libuhsfs/volume.hpp"
#include "new_names.hpp"

namespace uhsfs::ctl {

// Keys that a leaf of a names tree may hold, both included.
struct KeyRange {
    std::uint64_t low = 0;
    std::uint64_t high = UINT64_MAX;
};

class Cleaner {
public:
    // names == nullptr: names stay.
    Cleaner(const uhsfs_geometry &geo, NewNames *names) : geo_(geo), names_(names) {}

    // All take a block of 4096 bytes.
    void slot_block(MutableBytes block);
    void bucket(MutableBytes block);
    void names_node(MutableBytes block, const KeyRange &range);
    // The stream that the block is a part of, and where in it the block's bytes begin.
    void xattr_block(MutableBytes block, Bytes cleaned_stream, std::size_t from);

    // Zeroes the values of a stream of attributes but those of ACLs.
    static void xattr_stream(MutableBytes stream);

private:
    void slot(MutableBytes slot);
    void tlv(std::uint16_t type, MutableBytes value, bool symlink);
    void name_at(MutableBytes record, std::size_t head, std::uint64_t parent_ino,
                 std::uint32_t parent_gen, std::size_t len, const KeyRange *range);

    const uhsfs_geometry &geo_;
    NewNames *names_;
};

// Where nothing of a symbolic link's target is to be known.
inline constexpr char hidden = 'x';

}  // namespace uhsfs::ctl
