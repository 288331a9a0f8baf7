/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Takes what is private out of metadata blocks, in place, and keeps them what they are: sound
 * ones sound, damaged ones damaged.
 *
 * A record is taken for one only if magic and filesystem are right: anything else may be data
 * of a file. If its checksum was right it gets a new one. If not, nothing but its head is
 * kept, with a checksum that is wrong: behind the head may be what stood there before.
 */
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "libuhsfs/volume.hpp"
#include "new_names.hpp"

namespace uhsfs::ctl {

// Keys that a node of a names tree may hold, both included.
struct KeyRange {
    std::uint64_t low = 0;
    std::uint64_t high = UINT64_MAX;
};

class Cleaner {
public:
    // names == nullptr: names stay.
    Cleaner(const uhsfs_geometry &geo, NewNames *names) : geo_(geo), names_(names) {}

    // All take a block of 4096 bytes.

    // Whether a block is a record of this kind, written to that place for that inode (0: the
    // filesystem), sound or not.
    [[nodiscard]] bool is_record(Bytes block, std::uint32_t magic, std::uint64_t number,
                                 std::uint64_t owner) const;
    [[nodiscard]] static bool is_sound(Bytes block);
    // The same of a superblock. Only its label, which its head does not have, is private.
    [[nodiscard]] bool is_super(Bytes block, std::uint64_t number) const;
    void super(MutableBytes block) const;

    // Bitmaps, other maps, blocks of the chunk table, nodes of extent trees: nothing private.
    static void plain(MutableBytes block);
    void slot_block(MutableBytes block);
    void bucket(MutableBytes block);
    // Its keys are in this range. Returns the highest one that it has now; nothing if damaged.
    std::optional<std::uint64_t> names_leaf(MutableBytes block, const KeyRange &range);
    // The stream that the block is a part of, and where in it the block's bytes begin; empty:
    // the stream is damaged.
    static void xattr_block(MutableBytes block, Bytes cleaned_stream, std::size_t from);

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
