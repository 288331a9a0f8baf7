// SPDX-License-Identifier: GPL-2.0
/*
 * The maps of chunks at mount: which chunks may have changed since the last checkpoint,
 * and into which chunks point entries that need confirmation.
 *
 * Maps are read as a whole, each with large requests; few of their blocks have bits set,
 * and those are kept.
 */
#include <linux/slab.h>

#include "uhsfs.h"

#include "core/chunk.h"
#include "core/map.h"

#define MAP_BYTES (UHSFS_MAP_BITS / 8)

/* ---- sets of chunks ------------------------------------------------------------ */

static int add_bits(struct xarray *set, u64 first, const u8 *bits)
{
	u8 *own = xa_load(set, first);
	int err;

	if (!own) {
		own = kzalloc(MAP_BYTES, GFP_NOFS);
		if (!own)
			return -ENOMEM;
		err = xa_err(xa_store(set, first, own, GFP_NOFS));
		if (err) {
			kfree(own);
			return err;
		}
	}
	for (u32 i = 0; i < MAP_BYTES; i++)
		own[i] |= bits[i];
	return 0;
}

static void free_set(struct xarray *set)
{
	unsigned long first;
	u8 *bits;

	xa_for_each(set, first, bits)
		kfree(bits);
	xa_destroy(set);
}

static bool has_chunk(struct uhsfs_sb_info *sbi, struct xarray *set, u64 chunk)
{
	struct uhsfs_place place;
	const u8 *bits;

	if (xa_empty(set))
		return false;
	/* All maps are divided alike. */
	if (!uhsfs_chunk_map_place(&sbi->super, chunk, 0, &place))
		return false;
	bits = xa_load(set, place.first);
	return bits && uhsfs_map_test(bits, place.index);
}

bool uhsfs_chunk_marked(struct uhsfs_sb_info *sbi, u64 chunk)
{
	return sbi->blind || has_chunk(sbi, &sbi->marked, chunk);
}

bool uhsfs_chunk_suspect(struct uhsfs_sb_info *sbi, u64 chunk)
{
	return sbi->suspect_all || has_chunk(sbi, &sbi->suspect, chunk);
}

bool uhsfs_next_marked(struct uhsfs_sb_info *sbi, u64 *chunk)
{
	unsigned long first;
	const u8 *bits;

	xa_for_each_start(&sbi->marked, first, bits,
			  *chunk < UHSFS_MAP_BITS ? 0 : *chunk - UHSFS_MAP_BITS + 1) {
		u64 from = *chunk > first ? *chunk - first : 0;
		u32 bit;

		if (from >= UHSFS_MAP_BITS)
			continue;
		bit = uhsfs_map_next(bits, UHSFS_MAP_BITS, from, true);
		if (bit == UHSFS_MAP_BITS)
			continue;
		*chunk = first + bit;
		return true;
	}
	return false;
}

void uhsfs_free_maps(struct uhsfs_sb_info *sbi)
{
	free_set(&sbi->marked);
	free_set(&sbi->suspect);
}

/* ---- reading --------------------------------------------------------------------- */

struct map_scan {
	struct uhsfs_home_scan scan;
	struct uhsfs_home home;
	struct super_block *sb;
	const struct uhsfs_segment_info *segment;
	unsigned int which;	/* 0, 1 or UHSFS_MAP_WHICH_SUSPECT */
	struct uhsfs_map_id id;
	u32 skip;		/* blocks of the map before the first one that is read */
	u8 copy;		/* that counts, of the last one */
};

static int map_check(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
		     struct uhsfs_fault *fault)
{
	const struct map_scan *scan = container_of(home, struct map_scan, home);
	const struct uhsfs_map_block *map = image;
	struct uhsfs_map_id id = scan->id;

	id.block = block;
	*seq = le64_to_cpu(map->h.seq);
	return uhsfs_map_check(map, uhsfs_geo(scan->sb), &id, fault);
}

static int prepare_map(struct uhsfs_home_scan *base, u32 index)
{
	struct map_scan *scan = container_of(base, struct map_scan, scan);
	const struct uhsfs_segment_info *segment = scan->segment;
	bool suspect = scan->which == UHSFS_MAP_WHICH_SUSPECT;
	u64 start = suspect ? segment->suspect : segment->intent[scan->which];

	index += scan->skip;
	scan->home.block = start + (u64)index * uhsfs_geo(scan->sb)->homes;
	scan->home.id = scan->home.block;
	scan->id.index = segment->first_chunk + (u64)index * UHSFS_MAP_BITS;
	return 0;
}

/* A map block that cannot be used.  Without the suspect map everything is suspect. */
static int map_failed(struct map_scan *scan, int err, const struct uhsfs_fault *fault)
{
	if (err == -EUCLEAN || err == -ENODATA)
		err = uhsfs_fault(scan->sb, 0, fault);
	else if (err == -EIO)
		uhsfs_err(scan->sb, "%s: cannot read block %llu (error %d)", scan->home.object,
			  scan->home.block, err);
	if (scan->which != UHSFS_MAP_WHICH_SUSPECT || (err != -EUCLEAN && err != -EIO))
		return err;
	uhsfs_sb(scan->sb)->suspect_all = true;
	return 0;
}

static int take_map(struct uhsfs_home_scan *base, u32 index, const void *image, int err,
		    const struct uhsfs_fault *fault)
{
	struct map_scan *scan = container_of(base, struct map_scan, scan);
	struct uhsfs_sb_info *sbi = uhsfs_sb(scan->sb);
	const struct uhsfs_map_block *map = image;
	bool suspect = scan->which == UHSFS_MAP_WHICH_SUSPECT;
	struct uhsfs_fault own;

	if (!err) {
		err = uhsfs_chunk_map_check(map, &sbi->super, scan->which, scan->id.index, &own);
		fault = &own;
	}
	if (err)
		return map_failed(scan, err, fault);
	if (!map->set || (!suspect && !uhsfs_map_live(map, sbi->super.epoch)))
		return 0;
	sbi->unclean |= !suspect;
	if (!suspect)
		sbi->live_epoch = max(sbi->live_epoch, le32_to_cpu(map->epoch));
	return add_bits(suspect ? &sbi->suspect : &sbi->marked, scan->id.index, map->bits);
}

static int load_map(struct super_block *sb, const struct uhsfs_segment_info *segment,
		    unsigned int which)
{
	bool suspect = which == UHSFS_MAP_WHICH_SUSPECT;
	struct map_scan scan = {
		.scan = { .home = &scan.home, .prepare = prepare_map, .each = take_map },
		.home = {
			.object = suspect ? "suspect map" : "intent map",
			.record_size = UHSFS_BLOCK_SIZE,
			.torn_ok = true,
			.check = map_check,
		},
		.sb = sb,
		.segment = segment,
		.which = which,
		.id = { .kind = suspect ? UHSFS_MAP_SUSPECT : UHSFS_MAP_INTENT },
	};
	u64 start = suspect ? segment->suspect : segment->intent[which];

	return uhsfs_scan_homes(sb, start, DIV_ROUND_UP(segment->chunks, UHSFS_MAP_BITS),
				&scan.scan);
}

static int take_copy(struct uhsfs_home_scan *base, u32 index, const void *image, int err,
		     const struct uhsfs_fault *fault)
{
	struct map_scan *scan = container_of(base, struct map_scan, scan);
	const struct uhsfs_map_block *map = image;

	if (err)
		return map_failed(scan, err, fault);
	scan->copy = le64_to_cpu(map->h.block) - scan->home.block;
	return 0;
}

int uhsfs_map_next_copy(struct super_block *sb, u64 chunk, unsigned int which, u8 *next)
{
	const struct uhsfs_super_info *super = &uhsfs_sb(sb)->super;
	const struct uhsfs_segment_info *segment = uhsfs_super_segment(super, chunk);
	bool suspect = which == UHSFS_MAP_WHICH_SUSPECT;
	struct map_scan scan = {
		.scan = { .home = &scan.home, .prepare = prepare_map, .each = take_copy },
		.home = {
			.object = suspect ? "suspect map" : "intent map",
			.record_size = UHSFS_BLOCK_SIZE,
			.torn_ok = true,
			.check = map_check,
		},
		.sb = sb,
		.segment = segment,
		.which = which,
		.id = { .kind = suspect ? UHSFS_MAP_SUSPECT : UHSFS_MAP_INTENT },
		.skip = segment ? (chunk - segment->first_chunk) / UHSFS_MAP_BITS : 0,
	};
	struct uhsfs_place place;
	int err;

	*next = 0;
	if (!uhsfs_chunk_map_place(super, chunk, which, &place))
		return -EINVAL;
	if (super->geo.homes == 1)
		return 0;
	err = uhsfs_scan_homes(sb, place.home, 1, &scan.scan);
	*next = 1 - scan.copy;
	return err;
}

int uhsfs_load_maps(struct super_block *sb)
{
	const struct uhsfs_super_info *super = &uhsfs_sb(sb)->super;
	int err = 0;

	for (u32 i = 0; !err && i < super->segments; i++)
		for (unsigned int which = 0; !err && which <= UHSFS_MAP_WHICH_SUSPECT; which++)
			err = load_map(sb, &super->segment[i], which);
	return err;
}
