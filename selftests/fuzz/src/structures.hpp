/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of on-disk structures that keep them structures.
 *
 * A random byte in a block fails at its checksum, a random field often at the first count that
 * does not fit. So a change is made at the level of fields and entries, then what depends on
 * others (counts, order, cookies, nonces) is mostly made right again, then the checksum.
 */
#pragma once

#include <cstdint>
#include <vector>

#include "fuzz.hpp"

namespace uhsfs::fuzz {

// What a header has to say, so that whoever reads the block asks no questions.
struct Identity {
    std::uint64_t block = 0;
    std::uint64_t owner_ino = 0;
    std::uint32_t owner_gen = 0;
};

// Change one thing in a block of 4096 bytes, by its magic; a block without a known one is
// changed as bytes.
void mutate_block(Random &random, const uhsfs_geometry &geo, std::uint8_t *block);

// Make right what follows from other fields, so that a check goes further.
void repair_block(Random &random, const uhsfs_geometry &geo, std::uint8_t *block);

// The checksum, by magic. Slot blocks: of each slot.
void seal_block(const uhsfs_geometry &geo, std::uint8_t *block);

// Magic and header as somebody expects them. Not for slots and superblocks.
void identify(const uhsfs_geometry &geo, std::uint8_t *block, std::uint32_t magic,
              const Identity &identity);

// One to four changes, then mostly repaired.
void mutate_deep(Random &random, const uhsfs_geometry &geo, std::uint8_t *block);

// Values that limits are made of.
std::uint64_t interesting(Random &random, const uhsfs_geometry &geo, std::uint64_t old);

// A legal name, mostly.
std::string random_name(Random &random);

// ---- slots (slot_body.cpp) -----------------------------------------------------------------

void mutate_slot(Random &random, const uhsfs_geometry &geo, std::uint8_t *slot);
void repair_slot(Random &random, const uhsfs_geometry &geo, std::uint8_t *slot);

// A stream of some attributes.
std::vector<std::uint8_t> random_xattrs(Random &random, std::size_t most);
uhsfs_ext random_extent(Random &random, const uhsfs_geometry &geo, std::uint64_t logical);

}  // namespace uhsfs::fuzz
