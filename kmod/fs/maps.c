// SPDX-License-Identifier: GPL-2.0
/*
 * The maps of chunks at mount: which chunks may have changed since the last checkpoint,
 * and into which chunks point entries that need confirmation.
 *
 * Maps are read as a whole, each with large requests; few of their bits are set.
 */
#include "uhsfs.h"

#include "core/map.h"

struct map_scan {
	struct uhsfs_home_scan scan;
	struct uhsfs_home home;
	struct super_block *sb;
	const struct uhsfs_segment_info *segment;
	unsigned int which;	/* 0, 1 or UHSFS_MAP_WHICH_SUSPECT */
	struct uhsfs_map_id id;
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

	scan->home.block = start + (u64)index * uhsfs_geo(scan->sb)->homes;
	scan->home.id = scan->home.block;
	scan->id.index = segment->first_chunk + (u64)index * UHSFS_MAP_BITS;
	return 0;
}

static int take_map(struct uhsfs_home_scan *base, u32 index, const void *image, int err,
		    const struct uhsfs_fault *fault)
{
	struct map_scan *scan = container_of(base, struct map_scan, scan);
	struct uhsfs_sb_info *sbi = uhsfs_sb(scan->sb);
	const struct uhsfs_map_block *map = image;
	bool suspect = scan->which == UHSFS_MAP_WHICH_SUSPECT;
	struct xarray *chunks = suspect ? &sbi->suspect : &sbi->marked;

	if (err == -EUCLEAN)
		return uhsfs_fault(scan->sb, 0, fault);
	if (err) {
		uhsfs_err(scan->sb, "%s: cannot read block %llu (error %d)", scan->home.object,
			  scan->home.block, err);
		return err;
	}
	if (!suspect && !uhsfs_map_live(map, sbi->super.epoch))
		return 0;
	for (u32 bit = 0; bit < UHSFS_MAP_BITS; bit++) {
		bit = uhsfs_map_next(map->bits, UHSFS_MAP_BITS, bit, true);
		if (bit == UHSFS_MAP_BITS)
			break;
		err = xa_err(xa_store(chunks, scan->id.index + bit, xa_mk_value(1), GFP_NOFS));
		if (err)
			return err;
		if (!suspect)
			sbi->unclean = true;
	}
	return 0;
}

static int load_map(struct super_block *sb, const struct uhsfs_segment_info *segment,
		    unsigned int which)
{
	bool suspect = which == UHSFS_MAP_WHICH_SUSPECT;
	struct map_scan scan = {
		.scan = { .home = &scan.home, .prepare = prepare_map, .each = take_map },
		.home = {
			.object = suspect ? "suspect map" : "intent map",
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

int uhsfs_load_maps(struct super_block *sb)
{
	const struct uhsfs_super_info *super = &uhsfs_sb(sb)->super;
	int err = 0;

	for (u32 i = 0; !err && i < super->segments; i++)
		for (unsigned int which = 0; !err && which <= UHSFS_MAP_WHICH_SUSPECT; which++)
			err = load_map(sb, &super->segment[i], which);
	return err;
}
