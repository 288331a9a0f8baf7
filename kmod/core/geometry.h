/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The shape of one filesystem: the numbers of its superblock that everything else is
 * computed with.  Constant while mounted, except by growing and by snapshots (which the
 * owner of the structure serialises).
 */
#ifndef UHSFS_GEOMETRY_H
#define UHSFS_GEOMETRY_H

#include "uhsfs_platform.h"

#include <linux/uhsfs_fs.h>

struct uhsfs_geometry {
	u64 fsid;
	u64 blocks;		/* of the filesystem */
	u32 homes;		/* H: blocks per home, 1 (device) or 2 (shadow) */
	u32 slot_size;
	u32 slots_per_block;
	u32 slots_per_chunk;	/* at most 64 */
	u32 erase_unit;		/* blocks */
	u64 ro_compat;		/* UHSFS_RO_COMPAT_...: what fields these features own may hold */
	u32 snapshot;		/* epoch of the newest snapshot, 0: none; see extent.h */
	u8 hash_key[16];
	u8 nonce_key[16];
};

static inline u64 uhsfs_group_count(const struct uhsfs_geometry *geo)
{
	u64 full = geo->blocks / UHSFS_GROUP_BLOCKS;

	return full + (geo->blocks % UHSFS_GROUP_BLOCKS >= UHSFS_MIN_LAST_GROUP || !full);
}

/* Blocks of group `group`, shorter for the last one. */
static inline u32 uhsfs_group_blocks(const struct uhsfs_geometry *geo, u64 group)
{
	u64 left = geo->blocks - group * UHSFS_GROUP_BLOCKS;

	return (u32)min_t(u64, left, UHSFS_GROUP_BLOCKS);
}

/* Where superblock copy 0 or 1 stands. */
static inline u64 uhsfs_super_block(const struct uhsfs_geometry *geo, int copy)
{
	if (!copy)
		return UHSFS_SB_BLOCK;
	return geo->blocks < UHSFS_GROUP_BLOCKS ? UHSFS_SB_COPY_SMALL : UHSFS_SB_COPY;
}

/* First block of the home of bitmap half `half` (0, 1) of a group. */
static inline u64 uhsfs_bitmap_home(const struct uhsfs_geometry *geo, u64 group, u32 half)
{
	return group * UHSFS_GROUP_BLOCKS + UHSFS_BITMAP_OFFSET + (u64)half * geo->homes;
}

/* Blocks a chunk takes, its homes included. */
static inline u32 uhsfs_chunk_blocks(const struct uhsfs_geometry *geo)
{
	return UHSFS_CHUNK_BLOCKS * geo->homes;
}

static inline u64 uhsfs_ino_chunk(const struct uhsfs_geometry *geo, u64 ino)
{
	return ino / geo->slots_per_chunk;
}

/* Number of the slot within its chunk. */
static inline u32 uhsfs_ino_index(const struct uhsfs_geometry *geo, u64 ino)
{
	return (u32)(ino % geo->slots_per_chunk);
}

/* True if [block, block + len) has a block of [from, from + count). */
static inline bool uhsfs_overlaps(u64 block, u64 len, u64 from, u64 count)
{
	return block < from + count && from < block + len;
}

/* True if [block, block + len) lies within the device and is not block 0. */
static inline bool uhsfs_range_ok(const struct uhsfs_geometry *geo, u64 block, u64 len)
{
	return block && len && block < geo->blocks && len <= geo->blocks - block;
}

/*
 * True if [block, block + len) is moreover space that can be allocated: within the
 * groups, and without superblocks and bitmaps.  As every group begins with its bitmaps,
 * a longer run than a group is none.
 */
static inline bool uhsfs_space_ok(const struct uhsfs_geometry *geo, u64 block, u64 len)
{
	u64 first, last;

	if (!uhsfs_range_ok(geo, block, len))
		return false;
	first = block / UHSFS_GROUP_BLOCKS;
	last = (block + len - 1) / UHSFS_GROUP_BLOCKS;
	if (last > first + 1 || last >= uhsfs_group_count(geo))
		return false;
	for (u64 group = first; group <= last; group++)
		if (uhsfs_overlaps(block, len, uhsfs_bitmap_home(geo, group, 0),
				   (u64)UHSFS_GROUP_MAPS * geo->homes))
			return false;
	return !uhsfs_overlaps(block, len, UHSFS_SB_BLOCK, 1) &&
	       !uhsfs_overlaps(block, len, uhsfs_super_block(geo, 1), 1);
}

#endif /* UHSFS_GEOMETRY_H */
