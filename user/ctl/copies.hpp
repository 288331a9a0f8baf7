/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Both copies of a home with their bytes, whatever they are: for looking at damage, and for
 * copying it.
 */
#pragma once

#include <array>

#include "libuhsfs/volume.hpp"

namespace uhsfs::ctl {

struct Copies {
    Home home;
    AlignedBuffer bytes;  // home.copies blocks; zeros where one could not be read

    [[nodiscard]] Bytes image(unsigned copy) const {
        return bytes.span().subspan(copy * block_size, block_size);
    }
    // The copy to look at: the one that counts, else the one that seems newest.
    [[nodiscard]] unsigned best() const;
};

Copies read_copies(const Volume &volume, std::uint64_t block, const CopyCheck &check);

// The slot block that an inode stands in; its chunk must be made.
Copies read_slot_copies(const Volume &volume, const uhsfs_chunk_info &chunk, std::uint64_t ino);

}  // namespace uhsfs::ctl
