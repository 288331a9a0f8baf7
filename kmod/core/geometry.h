/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The shape of one filesystem: the numbers of its superblock that everything else is
 * computed with.  Constant while mounted, except by growing (which the owner of the
 * structure serialises).
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
	return copy ? (u64)uhsfs_group_blocks(geo, 0) - 1 : UHSFS_SB_BLOCK;
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

/* True if [block, block + len) lies within the device and is not block 0. */
static inline bool uhsfs_range_ok(const struct uhsfs_geometry *geo, u64 block, u64 len)
{
	return block && len && block < geo->blocks && len <= geo->blocks - block;
}

#endif /* UHSFS_GEOMETRY_H */
