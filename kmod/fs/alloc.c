// SPDX-License-Identifier: GPL-2.0
/*
 * Space: groups, and which of their blocks are free.
 *
 * A bit in memory is set as long as the block must not be used: also while what gave it
 * up is not durable (R3).  A group's bit maps are written by checkpoints.  A group is
 * loaded at its first use and stays.
 */
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "rules.h"
#include "rw.h"

#include "core/map.h"

/* ---- groups --------------------------------------------------------------- */

struct bitmap_home {
	struct uhsfs_home home;
	const struct uhsfs_geometry *geo;
	struct uhsfs_map_id id;
};

static int bitmap_check(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
			struct uhsfs_fault *fault)
{
	const struct bitmap_home *bitmap = container_of(home, struct bitmap_home, home);
	const struct uhsfs_map_block *map = image;
	struct uhsfs_map_id id = bitmap->id;

	id.block = block;
	*seq = le64_to_cpu(map->h.seq);
	return uhsfs_map_check(map, bitmap->geo, &id, fault);
}

static int load_half(struct super_block *sb, struct uhsfs_group *group, u32 half)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	struct bitmap_home bitmap = {
		.home = {
			.block = uhsfs_bitmap_home(geo, group->number, half),
			.object = "bitmap",
			.id = 2 * group->number + half,
			.record_size = UHSFS_BLOCK_SIZE,
			.torn_ok = uhsfs_sb(sb)->crashed,
			.check = bitmap_check,
		},
		.geo = geo,
		.id = { .kind = UHSFS_MAP_BITMAP, .index = 2 * group->number + half },
	};
	const struct uhsfs_map_block *map;
	struct folio *folio;

	folio = uhsfs_read_home(sb, uhsfs_sb(sb)->tables->i_mapping, bitmap.home.block,
				&bitmap.home, false);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	map = folio_address(folio);
	memcpy(group->bits + half * UHSFS_MAP_BITS / 8, map->bits, UHSFS_MAP_BITS / 8);
	if (!half)
		group->zone = map->zone;
	group->next[half] = uhsfs_next_copy(sb, le64_to_cpu(map->h.block) - bitmap.home.block);
	folio_put(folio);
	return 0;
}

/* What is never free must not be free here either. */
static int check_reserved(struct super_block *sb, const struct uhsfs_group *group)
{
	u8 *reserved = kzalloc(sizeof(group->bits), GFP_NOFS);
	int err = reserved ? 0 : -ENOMEM;

	if (!err)
		uhsfs_group_reserve(uhsfs_geo(sb), group->number, reserved);
	for (u32 i = 0; !err && i < sizeof(group->bits); i++)
		if (reserved[i] & ~group->bits[i])
			err = uhsfs_corrupt(sb, 0, "bitmap of group", group->number, 8 * i,
					    "must have the bits of superblocks, bit maps and the end");
	kfree(reserved);
	return err;
}

static struct uhsfs_group *get_group(struct super_block *sb, u64 number)
{
	struct uhsfs_super_info *super = &uhsfs_sb(sb)->super;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_group *group = xa_load(&rw->groups, number);
	int err = 0;

	if (group)
		return group;
	/* All groups below the watermark have bit maps, so they come in order. */
	while (number > super->groups_used) {
		group = get_group(sb, super->groups_used);
		if (IS_ERR(group))
			return group;
	}
	group = kzalloc(sizeof(*group), GFP_NOFS | __GFP_NOFAIL);
	group->number = number;
	if (number < super->groups_used) {
		for (u32 half = 0; !err && half < UHSFS_GROUP_MAPS; half++)
			err = load_half(sb, group, half);
		if (!err)
			err = check_reserved(sb, group);
	} else {
		uhsfs_group_reserve(uhsfs_geo(sb), number, group->bits);
		memset(group->next, 2, sizeof(group->next));
		group->zone = UHSFS_ZONE_SMALL;
		group->dirty = true;
	}
	if (!err)
		err = xa_err(xa_store(&rw->groups, number, group, GFP_NOFS | __GFP_NOFAIL));
	if (err) {
		kfree(group);
		return ERR_PTR(err);
	}
	super->groups_used = max(super->groups_used, number + 1);
	group->free = UHSFS_GROUP_BLOCKS - uhsfs_map_count(group->bits, UHSFS_GROUP_BLOCKS);
	return group;
}

void uhsfs_free_groups(struct super_block *sb)
{
	struct uhsfs_group *group;
	unsigned long number;

	xa_for_each(&uhsfs_rw(sb)->groups, number, group)
		kfree(group);
	xa_destroy(&uhsfs_rw(sb)->groups);
}

/* ---- taking --------------------------------------------------------------- */

/* In one group, from bit `from` on. */
static bool take(struct super_block *sb, struct uhsfs_group *group, u32 from, u32 want, u32 unit,
		 u64 *block, u32 *got)
{
	u32 at, end, n;

	if (group->free < unit)
		return false;
	at = uhsfs_map_find(group->bits, UHSFS_GROUP_BLOCKS, from, unit, 1);
	if (at == UHSFS_GROUP_BLOCKS)
		return false;
	end = uhsfs_map_next(group->bits, UHSFS_GROUP_BLOCKS, at, true);
	n = min(want, (end - at) / unit);
	uhsfs_map_fill(group->bits, at, n * unit, true);
	group->free -= n * unit;
	group->dirty = true;
	uhsfs_rw(sb)->free_blocks -= n * unit;
	*block = group->number * UHSFS_GROUP_BLOCKS + at;
	*got = n;
	return true;
}

int uhsfs_alloc(struct super_block *sb, u64 goal, u32 want, u32 unit, u64 reserve, u64 *block,
		u32 *got)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u64 groups = uhsfs_group_count(uhsfs_geo(sb));
	u64 first = min3(goal / UHSFS_GROUP_BLOCKS, groups - 1,
			 uhsfs_sb(sb)->super.groups_used);

	lockdep_assert_held(&rw->lock);
	reserve += rw->reserved;
	if (rw->free_blocks < reserve + unit)
		return -ENOSPC;
	want = min_t(u64, want, (rw->free_blocks - reserve) / unit);
	for (u64 i = 0; i <= groups; i++) {
		struct uhsfs_group *group = get_group(sb, (first + i) % groups);
		u32 from = i ? 0 : goal % UHSFS_GROUP_BLOCKS;

		if (IS_ERR(group)) {
			if (PTR_ERR(group) == -ENOMEM)
				return -ENOMEM;
			continue;	/* reported; others may do */
		}
		if (take(sb, group, from, want, unit, block, got))
			return 0;
	}
	return -ENOSPC;
}

int uhsfs_use_blocks(struct super_block *sb, u64 block, u64 count)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	for (; count; block++, count--) {
		struct uhsfs_group *group = get_group(sb, block / UHSFS_GROUP_BLOCKS);
		u32 bit = block % UHSFS_GROUP_BLOCKS;

		if (IS_ERR(group))
			return PTR_ERR(group);
		if (uhsfs_map_test(group->bits, bit))
			continue;
		uhsfs_map_set(group->bits, bit);
		group->free--;
		group->dirty = true;
		rw->free_blocks--;
	}
	return 0;
}

/* ---- giving back ---------------------------------------------------------- */

static void free_in_group(struct super_block *sb, u64 block, u32 count)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u32 bit = block % UHSFS_GROUP_BLOCKS;
	struct uhsfs_group *group;

	group = block / UHSFS_GROUP_BLOCKS < uhsfs_sb(sb)->super.groups_used ?
		get_group(sb, block / UHSFS_GROUP_BLOCKS) : ERR_PTR(-EUCLEAN);
	/* What stood there as metadata must not be found in the cache. */
	truncate_inode_pages_range(uhsfs_sb(sb)->meta->i_mapping,
				   (loff_t)block << UHSFS_BLOCK_SHIFT,
				   ((loff_t)(block + count) << UHSFS_BLOCK_SHIFT) - 1);
	if (IS_ERR(group))
		return;	/* leaked until a scrub */
	if (uhsfs_map_next(group->bits, bit + count, bit, false) < bit + count) {
		uhsfs_corrupt(sb, 0, "block that is given up", block, count,
			      "must be in use, and by one inode");
		return;
	}
	uhsfs_map_fill(group->bits, block % UHSFS_GROUP_BLOCKS, count, false);
	group->free += count;
	group->dirty = true;
	rw->free_blocks += count;
}

/* A run may cross into the next group, before its bit maps. */
void uhsfs_free_now(struct super_block *sb, u64 block, u32 count)
{
	lockdep_assert_held(&uhsfs_rw(sb)->lock);
	while (count) {
		u32 n = min_t(u64, count, UHSFS_GROUP_BLOCKS - block % UHSFS_GROUP_BLOCKS);

		free_in_group(sb, block, n);
		block += n;
		count -= n;
	}
}

/* Blocks that are free when the slot is durable as it is now. */
void uhsfs_give_up(struct uhsfs_dslot *dslot, u64 block, u32 count)
{
	struct uhsfs_given_up *run;

	if (uhsfs_breaks("R3") && dslot->inode) {
		uhsfs_free_now(dslot->inode->i_sb, block, count);
		return;
	}
	run = kmalloc(sizeof(*run), GFP_NOFS | __GFP_NOFAIL);
	*run = (struct uhsfs_given_up) { .op = dslot->order.changed, .block = block,
					 .count = count };
	list_add_tail(&run->list, &dslot->given_up);
}

void uhsfs_free_run(struct super_block *sb, struct uhsfs_given_up *run)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	if (READ_ONCE(uhsfs_sb(sb)->options.discard)) {
		list_add_tail(&run->list, &rw->discards);
		return;
	}
	uhsfs_free_now(sb, run->block, run->count);
	kfree(run);
}

/*
 * With the option, blocks stay taken until a checkpoint has discarded them: nobody writes
 * to a block whose discard is on its way.  A discard that fails changes nothing.
 */
void uhsfs_discard_given_up(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_given_up *run, *next;
	LIST_HEAD(discards);

	mutex_lock(&rw->lock);
	list_splice_init(&rw->discards, &discards);
	mutex_unlock(&rw->lock);
	list_for_each_entry_safe(run, next, &discards, list) {
		blkdev_issue_discard(sb->s_bdev, run->block << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT),
				     (sector_t)run->count << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT),
				     GFP_NOFS);
		mutex_lock(&rw->lock);
		uhsfs_free_now(sb, run->block, run->count);
		mutex_unlock(&rw->lock);
		kfree(run);
	}
}

void uhsfs_free_discards(struct super_block *sb)
{
	struct uhsfs_given_up *run, *next;

	list_for_each_entry_safe(run, next, &uhsfs_rw(sb)->discards, list)
		kfree(run);
}

/* ---- writing -------------------------------------------------------------- */

struct seal_map {
	struct super_block *sb;
	const struct uhsfs_group *group;
	u32 half;
	u64 seq;
};

static void seal_bitmap(struct page *page, u64 block, void *ctx)
{
	const struct seal_map *seal = ctx;
	const struct uhsfs_map_id id = {
		.kind = UHSFS_MAP_BITMAP,
		.block = block,
		.index = 2 * seal->group->number + seal->half,
	};
	struct uhsfs_map_block *map = page_address(page);

	uhsfs_map_init(map, uhsfs_geo(seal->sb), &id, seal->seq, 0);
	memcpy(map->bits, seal->group->bits + seal->half * UHSFS_MAP_BITS / 8, UHSFS_MAP_BITS / 8);
	if (!seal->half)
		map->zone = seal->group->zone;
	uhsfs_map_seal(map);
}

/* Both halves: a group's image is of one moment. */
void uhsfs_write_groups(struct uhsfs_writes *writes)
{
	struct super_block *sb = writes->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_group *group;
	unsigned long number;

	lockdep_assert_held(&rw->lock);
	xa_for_each(&rw->groups, number, group) {
		if (!group->dirty)
			continue;
		for (u32 half = 0; half < UHSFS_GROUP_MAPS; half++) {
			struct seal_map seal = {
				.sb = sb,
				.group = group,
				.half = half,
				.seq = uhsfs_next_op(sb),
			};
			struct page *page = uhsfs_image_page();

			uhsfs_write_home(writes, page,
					 uhsfs_bitmap_home(uhsfs_geo(sb), number, half),
					 group->next[half], 0, seal_bitmap, &seal);
		}
		group->dirty = false;
		xa_set_mark(&rw->groups, number, XA_MARK_0);
	}
}

void uhsfs_groups_durable(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_group *group;
	unsigned long number;

	xa_for_each_marked(&rw->groups, number, group, XA_MARK_0) {
		for (u32 half = 0; half < UHSFS_GROUP_MAPS; half++)
			group->next[half] = uhsfs_next_copy(sb, group->next[half]);
		xa_clear_mark(&rw->groups, number, XA_MARK_0);
	}
}
