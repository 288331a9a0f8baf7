/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Bit maps in blocks (struct uhsfs_map_block): free space, write intents, suspects.
 *
 * Free space.  A group has two map blocks; bit b of half h is block
 * group * 32768 + h * 16384 + b.  Bits set by mkfs and never cleared: the superblock
 * copies, block 0, the bitmap homes themselves, and everything past the end.
 *
 * Write intents.  Two maps alternate by epoch.  A block counts only if its epoch is
 * newer than the superblock's (uhsfs_map_live()): so a checkpoint retires a whole map
 * by writing one superblock, and nothing is ever cleared.
 */
#ifndef UHSFS_MAP_H
#define UHSFS_MAP_H

#include "record.h"

UHSFS_BEGIN_DECLS

enum uhsfs_map_kind {
	UHSFS_MAP_BITMAP,
	UHSFS_MAP_INTENT,
	UHSFS_MAP_SUSPECT,
};

/* What a map block must say of itself besides its header. */
struct uhsfs_map_id {
	enum uhsfs_map_kind kind;
	u64 block; /* where it was read from or goes to */
	u64 index; /* see struct uhsfs_map_block */
};

/* An empty map block; the caller sets bits, then seals it. */
void uhsfs_map_init(struct uhsfs_map_block *map, const struct uhsfs_geometry *geo,
		    const struct uhsfs_map_id *id, u64 seq, u32 epoch);

/* Recompute the count of set bits and the checksum. */
void uhsfs_map_seal(struct uhsfs_map_block *map);

int uhsfs_map_check(const struct uhsfs_map_block *map, const struct uhsfs_geometry *geo,
		    const struct uhsfs_map_id *id, struct uhsfs_fault *fault);

/* True if an intent block says something that the superblock's epoch does not retire. */
static inline bool uhsfs_map_live(const struct uhsfs_map_block *map, u32 super_epoch)
{
	return le32_to_cpu(map->epoch) > super_epoch;
}

static inline bool uhsfs_map_test(const u8 *bits, u32 bit)
{
	return bits[bit >> 3] >> (bit & 7) & 1;
}

static inline void uhsfs_map_set(u8 *bits, u32 bit)
{
	bits[bit >> 3] |= (u8)(1U << (bit & 7));
}

static inline void uhsfs_map_clear(u8 *bits, u32 bit)
{
	bits[bit >> 3] &= (u8) ~(1U << (bit & 7));
}

/* Set or clear [from, from + len). */
void uhsfs_map_fill(u8 *bits, u32 from, u32 len, bool set);

/* Set bits among the first nbits. */
u32 uhsfs_map_count(const u8 *bits, u32 nbits);

/* First set (or clear) bit in [from, nbits), or nbits. */
u32 uhsfs_map_next(const u8 *bits, u32 nbits, u32 from, bool set);

/*
 * The first run of clear bits in [from, nbits) of at least `want` bits whose start is
 * a multiple of `align` (a power of two).  Returns its start, or nbits if there is
 * none; a run is reported from its first aligned bit.
 */
u32 uhsfs_map_find(const u8 *bits, u32 nbits, u32 from, u32 want, u32 align);

/*
 * The longest run of clear bits in [from, nbits): start in *start, length returned, 0
 * if there is none.  Stops early at a run of `enough`.
 */
u32 uhsfs_map_longest(const u8 *bits, u32 nbits, u32 from, u32 enough, u32 *start);

/*
 * Set the bits of everything in a group that is in use in an empty filesystem.  bits:
 * UHSFS_GROUP_BLOCKS bits of the group, all clear.
 */
void uhsfs_group_reserve(const struct uhsfs_geometry *geo, u64 group, u8 *bits);

UHSFS_END_DECLS

#endif /* UHSFS_MAP_H */
