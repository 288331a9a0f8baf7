// SPDX-License-Identifier: GPL-2.0
/*
 * Delayed allocation: a write into a hole promises blocks, writeback chooses them.
 *
 * What is promised stands in info->delayed, a list of extents of which only the logical
 * blocks mean anything: the physical ones are the same, so that neighbours merge.  A block
 * is in that list or in info->list or in none, and one in `delayed` has a dirty page.
 *
 * rw->reserved counts the promises of all inodes.  free_blocks - reserved is what may be
 * promised or taken otherwise, so that a promise is kept whatever happens (R3: what is
 * given up counts only when that is durable).  Blocks of trees come out of the reserve of
 * the superblock.
 *
 * Locks: info->lock for the lists, rw->lock for the counts.
 */
#include <linux/pagemap.h>

#include "rw.h"

#define TAKE_MAX 2048

/* ---- blocks --------------------------------------------------------------- */

/* Map a hole that begins at `logical`, of at most len blocks; promised: they were. */
static int take(struct inode *inode, u64 logical, u32 len, bool promised, struct uhsfs_ext *ext)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u32 before = uhsfs_list_find(&info->list, logical);
	u32 back = promised ? len : 0;
	u64 goal;
	u32 got;
	int err;

	lockdep_assert_held_write(&info->lock);
	err = uhsfs_list_room(inode, 2);
	if (err)
		return err;
	mutex_lock(&rw->lock);
	goal = rw->goal;
	if (before) {
		struct uhsfs_ext last;

		uhsfs_extent_decode(&info->list.extent[before - 1], &last);
		goal = last.physical + last.len;
	}
	*ext = (struct uhsfs_ext) {
		.logical = logical,
		.birth = rw->epoch,
		.flags = UHSFS_EXT_UNWRITTEN,
	};
	rw->reserved -= back;
	err = uhsfs_alloc(sb, goal, len, 1,
			  promised ? 0 : uhsfs_sb(sb)->super.reserve_blocks, &ext->physical, &got);
	if (!err) {
		ext->len = got;
		rw->goal = ext->physical + got;
		err = uhsfs_list_insert(&info->list, ext);
		if (err)
			uhsfs_free_now(sb, ext->physical, got);
		else if (promised)
			back -= got;
	}
	rw->reserved += back;
	mutex_unlock(&rw->lock);
	if (err)
		return err;
	inode->i_blocks += (blkcnt_t)got << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	info->list_changed = true;
	info->map_seq++;
	return 0;
}

int uhsfs_take_blocks(struct inode *inode, u64 logical, u64 len, struct uhsfs_ext *ext)
{
	return take(inode, logical, min_t(u64, len, TAKE_MAX), false, ext);
}

/* ---- promises ------------------------------------------------------------- */

bool uhsfs_delayed_lookup(struct inode *inode, u64 logical, u64 *len)
{
	struct uhsfs_ext ext;

	return uhsfs_list_lookup(&uhsfs_i(inode)->delayed, logical, &ext, len);
}

int uhsfs_delay(struct inode *inode, u64 logical, u64 len, u32 *got)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u64 reserve = uhsfs_sb(sb)->super.reserve_blocks;
	struct uhsfs_ext ext = { .logical = logical, .physical = logical };
	int err = uhsfs_room_in(inode, &info->delayed, 2);

	lockdep_assert_held_write(&info->lock);
	if (err)
		return err;
	mutex_lock(&rw->lock);
	if (rw->free_blocks > rw->reserved + reserve)
		ext.len = min3(len, (u64)TAKE_MAX, rw->free_blocks - rw->reserved - reserve);
	rw->reserved += ext.len;
	mutex_unlock(&rw->lock);
	if (!ext.len)
		return -ENOSPC;
	*got = ext.len;
	err = uhsfs_list_insert(&info->delayed, &ext);
	if (err) {
		mutex_lock(&rw->lock);
		rw->reserved -= ext.len;
		mutex_unlock(&rw->lock);
		return err;
	}
	info->delayed_blocks += ext.len;
	return 0;
}

static int count_range(void *ctx, u64 block, u64 len)
{
	*(u64 *)ctx += len;
	return 0;
}

/* Promises in the range are kept or not needed any more; how many there were. */
static u64 forget(struct inode *inode, u64 logical, u64 len)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 count = 0;
	const struct uhsfs_freed freed = { .range = count_range, .ctx = &count };

	if (uhsfs_list_punch(&info->delayed, logical, len, &freed))
		return 0;
	info->delayed_blocks -= count;
	return count;
}

void uhsfs_undelay(struct inode *inode, u64 logical, u64 len)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	u64 count;

	lockdep_assert_held_write(&uhsfs_i(inode)->lock);
	if (!uhsfs_i(inode)->delayed.count)
		return;
	/* Cutting an extent in two needs room; without memory it stays promised. */
	uhsfs_room_in(inode, &uhsfs_i(inode)->delayed, 1);
	count = forget(inode, logical, min(len, UHSFS_LOGICAL_END - logical));
	mutex_lock(&rw->lock);
	rw->reserved -= count;
	mutex_unlock(&rw->lock);
}

/* Writeback: blocks for the promises from `logical` on. */
int uhsfs_take_delayed(struct inode *inode, u64 logical, u64 want, struct uhsfs_ext *ext)
{
	u64 len;
	int err;

	if (!uhsfs_delayed_lookup(inode, logical, &len))
		return -ENODATA;
	err = uhsfs_room_in(inode, &uhsfs_i(inode)->delayed, 1);
	if (err)
		return err;
	err = take(inode, logical, min3(len, want, (u64)TAKE_MAX), true, ext);
	if (!err)
		forget(inode, ext->logical, ext->len);
	return err;
}
