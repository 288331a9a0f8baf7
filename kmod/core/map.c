// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bit maps: record handling and searches.  Searches skip whole bytes, then whole
 * words; bit order is little-endian, as on disk.
 */
#include "map.h"

#include "bytes.h"
#include "le.h"

static const struct {
	const char *object;
	u32 magic;
} kinds[] = {
	[UHSFS_MAP_BITMAP] = {"bitmap", UHSFS_TAG_BITMAP},
	[UHSFS_MAP_INTENT] = {"intent map", UHSFS_TAG_INTENT},
	[UHSFS_MAP_SUSPECT] = {"suspect map", UHSFS_TAG_SUSPECT},
};

static struct uhsfs_record_id record_id(const struct uhsfs_geometry *geo,
					const struct uhsfs_map_id *id)
{
	return (struct uhsfs_record_id) {
		.object = kinds[id->kind].object,
		.magic = kinds[id->kind].magic,
		.fsid = geo->fsid,
		.block = id->block,
	};
}

void uhsfs_map_init(struct uhsfs_map_block *map, const struct uhsfs_geometry *geo,
		    const struct uhsfs_map_id *id, u64 seq, u32 epoch)
{
	struct uhsfs_record_id record = record_id(geo, id);

	memset(map, 0, sizeof(*map));
	uhsfs_record_init(&map->h, &record, seq);
	map->index = cpu_to_le64(id->index);
	map->epoch = cpu_to_le32(epoch);
}

void uhsfs_map_seal(struct uhsfs_map_block *map)
{
	map->set = cpu_to_le32(uhsfs_map_count(map->bits, UHSFS_MAP_BITS));
	uhsfs_record_seal(map, sizeof(*map));
}

int uhsfs_map_check(const struct uhsfs_map_block *map, const struct uhsfs_geometry *geo,
		    const struct uhsfs_map_id *id, struct uhsfs_fault *fault)
{
	struct uhsfs_record_id record = record_id(geo, id);
	bool has_zone = id->kind == UHSFS_MAP_BITMAP && !(id->index & 1);
	const char *object = record.object;
	u32 set;
	int err;

	err = uhsfs_record_check(map, sizeof(*map), &record, fault);
	if (err)
		return err;
	if (le64_to_cpu(map->index) != id->index)
		return uhsfs_bad(fault, object, id->block, "index", le64_to_cpu(map->index),
				 id->index, UHSFS_RULE_EQUAL);
	set = uhsfs_map_count(map->bits, UHSFS_MAP_BITS);
	if (le32_to_cpu(map->set) != set)
		return uhsfs_bad(fault, object, id->block, "set", le32_to_cpu(map->set), set,
				 UHSFS_RULE_EQUAL);
	if (!uhsfs_is_zero(map->reserved, sizeof(map->reserved)))
		return uhsfs_bad(fault, object, id->block, "reserved", 1, 0, UHSFS_RULE_ZERO);
	if (map->zone > (has_zone ? UHSFS_ZONE_LARGE : 0))
		return uhsfs_bad(fault, object, id->block, "zone", map->zone, UHSFS_ZONE_LARGE,
				 UHSFS_RULE_KNOWN);
	if (id->kind == UHSFS_MAP_BITMAP && map->epoch)
		return uhsfs_bad(fault, object, id->block, "epoch", le32_to_cpu(map->epoch), 0,
				 UHSFS_RULE_ZERO);
	return 0;
}

void uhsfs_map_fill(u8 *bits, u32 from, u32 len, bool set)
{
	u32 end = from + len;

	while (from < end) {
		if (!(from & 7) && end - from >= 8) {
			u32 bytes = (end - from) >> 3;

			memset(bits + (from >> 3), set ? 0xff : 0, bytes);
			from += bytes << 3;
		} else {
			if (set)
				uhsfs_map_set(bits, from);
			else
				uhsfs_map_clear(bits, from);
			from++;
		}
	}
}

u32 uhsfs_map_count(const u8 *bits, u32 nbits)
{
	u32 count = 0, bit = 0;

	for (; nbits - bit >= 64; bit += 64)
		count += (u32)hweight64(uhsfs_get_le64(bits + (bit >> 3)));
	for (; bit < nbits; bit++)
		count += uhsfs_map_test(bits, bit);
	return count;
}

u32 uhsfs_map_next(const u8 *bits, u32 nbits, u32 from, bool set)
{
	u64 flip = set ? 0 : U64_MAX;

	while (from < nbits) {
		if (!(from & 63) && nbits - from >= 64) {
			u64 word = uhsfs_get_le64(bits + (from >> 3)) ^ flip;

			if (word)
				return from + (u32)__builtin_ctzll(word);
			from += 64;
		} else {
			if (uhsfs_map_test(bits, from) == set)
				return from;
			from++;
		}
	}
	return nbits;
}

u32 uhsfs_map_find(const u8 *bits, u32 nbits, u32 from, u32 want, u32 align)
{
	while (from < nbits) {
		u32 end;

		from = uhsfs_map_next(bits, nbits, from, false);
		from = round_up(from, align);
		if (from >= nbits || want > nbits - from)
			return nbits;
		end = uhsfs_map_next(bits, from + want, from, true);
		if (end == from + want)
			return from;
		from = end + 1;
	}
	return nbits;
}

u32 uhsfs_map_longest(const u8 *bits, u32 nbits, u32 from, u32 enough, u32 *start)
{
	u32 best = 0;

	while (best < enough && from < nbits) {
		u32 end;

		from = uhsfs_map_next(bits, nbits, from, false);
		end = uhsfs_map_next(bits, nbits, from, true);
		if (end - from > best) {
			best = end - from;
			*start = from;
		}
		from = end;
	}
	return best;
}

void uhsfs_group_reserve(const struct uhsfs_geometry *geo, u64 group, u8 *bits)
{
	u32 blocks = uhsfs_group_blocks(geo, group);

	if (!group) {
		uhsfs_map_set(bits, 0);
		uhsfs_map_set(bits, UHSFS_SB_BLOCK);
		uhsfs_map_set(bits, (u32)uhsfs_super_block(geo, 1));
	}
	uhsfs_map_fill(bits, UHSFS_BITMAP_OFFSET, UHSFS_GROUP_MAPS * geo->homes, true);
	uhsfs_map_fill(bits, blocks, UHSFS_GROUP_BLOCKS - blocks, true);
}
