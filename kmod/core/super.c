// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Superblock: check, decode, encode.  A superblock is the first thing read from a
 * device that may hold anything, so nothing of it is believed before it is checked,
 * and every number that later code computes with is bounded here.
 */
#include "super.h"

#include "bytes.h"
#include "crc32c.h"
#include "le.h"
#include "record.h"

static const char object[] = "superblock";

static u32 super_crc(const struct uhsfs_super *raw)
{
	static const u8 zero[4];
	const u8 *bytes = (const u8 *)raw;
	const size_t at = offsetof(struct uhsfs_super, crc);
	u32 crc;

	crc = uhsfs_crc32c(0, bytes, at);
	crc = uhsfs_crc32c(crc, zero, sizeof(zero));
	return uhsfs_crc32c(crc, bytes + at + sizeof(zero), sizeof(*raw) - at - sizeof(zero));
}

bool uhsfs_super_recognise(const void *block)
{
	return !memcmp(block, UHSFS_SB_MAGIC, 8);
}

/* Bytes after the first NUL of a padded string must be NUL too. */
static bool padded(const u8 *text, size_t len)
{
	size_t end = 0;

	while (end < len && text[end])
		end++;
	return uhsfs_is_zero(text + end, len - end);
}

static void decode_segment(const struct uhsfs_segment *raw, struct uhsfs_segment_info *seg)
{
	seg->first_chunk = le64_to_cpu(raw->first_chunk);
	seg->chunks = le64_to_cpu(raw->chunks);
	seg->table = le64_to_cpu(raw->table);
	seg->intent[0] = le64_to_cpu(raw->intent[0]);
	seg->intent[1] = le64_to_cpu(raw->intent[1]);
	seg->suspect = le64_to_cpu(raw->suspect);
}

static void decode(const struct uhsfs_super *raw, struct uhsfs_super_info *info)
{
	struct uhsfs_geometry *geo = &info->geo;

	memset(info, 0, sizeof(*info));
	geo->fsid = le64_to_cpu(raw->fsid);
	geo->blocks = le64_to_cpu(raw->blocks);
	geo->slot_size = le32_to_cpu(raw->slot_size);
	geo->erase_unit = le32_to_cpu(raw->erase_unit);
	geo->homes = raw->atomic == UHSFS_ATOMIC_SHADOW ? 2 : 1;
	memcpy(geo->hash_key, raw->hash_key, sizeof(geo->hash_key));
	memcpy(geo->nonce_key, raw->nonce_key, sizeof(geo->nonce_key));
	memcpy(info->uuid, raw->uuid, sizeof(info->uuid));
	memcpy(info->label, raw->label, UHSFS_LABEL_LEN);
	memcpy(info->writer, raw->writer, sizeof(raw->writer));
	info->version = le32_to_cpu(raw->version);
	info->seq = le64_to_cpu(raw->seq);
	info->compat = le64_to_cpu(raw->compat);
	info->ro_compat = le64_to_cpu(raw->ro_compat);
	info->incompat = le64_to_cpu(raw->incompat);
	geo->ro_compat = info->ro_compat;
	info->atomic = raw->atomic;
	info->errors = raw->errors;
	info->state = raw->state;
	info->groups_used = le64_to_cpu(raw->groups_used);
	info->chunks_used = le64_to_cpu(raw->chunks_used);
	info->reserve_blocks = le64_to_cpu(raw->reserve_blocks);
	info->epoch = le32_to_cpu(raw->epoch);
	info->free_blocks = le64_to_cpu(raw->free_blocks);
	info->used_slots = le64_to_cpu(raw->used_slots);
	info->made_ns = (s64)le64_to_cpu(raw->made_ns);
	info->mounted_ns = (s64)le64_to_cpu(raw->mounted_ns);
	info->checked_ns = (s64)le64_to_cpu(raw->checked_ns);
	info->mounts = le64_to_cpu(raw->mounts);
	info->segments = le32_to_cpu(raw->segments);
}

/* Fields of fixed value and of small ranges. */
static int check_fields(const struct uhsfs_super *raw, u64 block,
			const struct uhsfs_super_info *info, struct uhsfs_fault *fault)
{
	const struct uhsfs_geometry *geo = &info->geo;
	u32 slot = geo->slot_size, unit = geo->erase_unit;
	u64 features = info->ro_compat;

	if (le32_to_cpu(raw->block_size) != UHSFS_BLOCK_SIZE)
		return uhsfs_bad(fault, object, block, "block_size", le32_to_cpu(raw->block_size),
				 UHSFS_BLOCK_SIZE, UHSFS_RULE_EQUAL);
	if (slot != 1024 && slot != 2048 && slot != 4096)
		return uhsfs_bad(fault, object, block, "slot_size", slot, 4096,
				 "must be 1024, 2048 or 4096");
	if (unit < UHSFS_ERASE_UNIT_MIN || unit > UHSFS_ERASE_UNIT_MAX || (unit & (unit - 1)))
		return uhsfs_bad(fault, object, block, "erase_unit", unit, UHSFS_ERASE_UNIT_MAX,
				 "must be a power of two from 16 up");
	if (info->atomic != UHSFS_ATOMIC_DEVICE && info->atomic != UHSFS_ATOMIC_SHADOW)
		return uhsfs_bad(fault, object, block, "atomic", info->atomic, UHSFS_ATOMIC_SHADOW,
				 UHSFS_RULE_KNOWN);
	if (info->errors > UHSFS_ERRORS_PANIC)
		return uhsfs_bad(fault, object, block, "errors", info->errors, UHSFS_ERRORS_PANIC,
				 UHSFS_RULE_KNOWN);
	if (info->state & ~UHSFS_STATE_ERROR)
		return uhsfs_bad(fault, object, block, "state", info->state, UHSFS_STATE_ERROR,
				 UHSFS_RULE_KNOWN);
	if (geo->blocks < UHSFS_MIN_BLOCKS || geo->blocks > UHSFS_MAX_BLOCKS)
		return uhsfs_bad(fault, object, block, "blocks", geo->blocks, UHSFS_MIN_BLOCKS,
				 "must be within the smallest and largest filesystem");
	if (!padded(raw->label, sizeof(raw->label)))
		return uhsfs_bad(fault, object, block, "label", 0, 0, "must be padded with zeros");
	if (!padded(raw->writer, sizeof(raw->writer)))
		return uhsfs_bad(fault, object, block, "writer", 0, 0, "must be padded with zeros");
	if (raw->reserved0 || !uhsfs_is_zero(raw->reserved1, sizeof(raw->reserved1)))
		return uhsfs_bad(fault, object, block, "reserved", 1, 0, UHSFS_RULE_ZERO);
	/* A root belongs to its feature; whoever has that may keep something there. */
	if ((!(features & UHSFS_RO_COMPAT_REFLINK) &&
	     !uhsfs_is_zero(&raw->refcount_root, sizeof(raw->refcount_root))) ||
	    (!(features & UHSFS_RO_COMPAT_SNAPSHOTS) &&
	     !uhsfs_is_zero(&raw->snapshot_root, sizeof(raw->snapshot_root))) ||
	    (!(features & UHSFS_RO_COMPAT_QUOTA) &&
	     !uhsfs_is_zero(raw->quota_root, sizeof(raw->quota_root))))
		return uhsfs_bad(fault, object, block, "reserved roots", 1, 0, UHSFS_RULE_ZERO);
	return 0;
}

static int check_totals(u64 block, const struct uhsfs_super_info *info, struct uhsfs_fault *fault)
{
	const struct uhsfs_geometry *geo = &info->geo;

	if (block != uhsfs_super_block(geo, 0) && block != uhsfs_super_block(geo, 1))
		return uhsfs_bad(fault, object, block, "block", block, uhsfs_super_block(geo, 1),
				 "must be the place of a superblock");
	if (!info->epoch || info->epoch > UHSFS_EPOCH_MAX)
		return uhsfs_bad(fault, object, block, "epoch", info->epoch, UHSFS_EPOCH_MAX,
				 "must be 1 to the largest");
	if (uhsfs_seq_epoch(info->seq) < info->epoch ||
	    uhsfs_seq_epoch(info->seq) > UHSFS_EPOCH_MAX)
		return uhsfs_bad(fault, object, block, "seq", info->seq, info->epoch,
				 "must be of the checkpointed epoch or a later one");

	if (info->groups_used < 1 || info->groups_used > uhsfs_group_count(geo))
		return uhsfs_bad(fault, object, block, "groups_used", info->groups_used,
				 uhsfs_group_count(geo), "must be 1 to the number of groups");
	if (info->free_blocks > geo->blocks)
		return uhsfs_bad(fault, object, block, "free_blocks", info->free_blocks,
				 geo->blocks, UHSFS_RULE_AT_MOST);
	if (info->reserve_blocks > geo->blocks / 2)
		return uhsfs_bad(fault, object, block, "reserve_blocks", info->reserve_blocks,
				 geo->blocks / 2, UHSFS_RULE_AT_MOST);
	if (info->chunks_used < 1 || info->chunks_used > uhsfs_super_chunks(info))
		return uhsfs_bad(fault, object, block, "chunks_used", info->chunks_used,
				 uhsfs_super_chunks(info),
				 "must be 1 to the chunks of all segments");
	if (info->used_slots > info->chunks_used * geo->slots_per_chunk)
		return uhsfs_bad(fault, object, block, "used_slots", info->used_slots,
				 info->chunks_used * geo->slots_per_chunk, UHSFS_RULE_AT_MOST);
	return 0;
}

/* One region of a segment: `homes` homes in [start, ...) within the device. */
static int check_region(const struct uhsfs_geometry *geo, u64 block, const char *field, u64 start,
			u64 homes, struct uhsfs_fault *fault)
{
	if (!uhsfs_space_ok(geo, start, homes * geo->homes))
		return uhsfs_bad(fault, object, block, field, start, geo->blocks, UHSFS_RULE_SPACE);
	return 0;
}

static bool regions_overlap(const struct uhsfs_geometry *geo, const struct uhsfs_segment_info *seg,
			    u64 table, u64 map)
{
	const u64 start[] = {seg->table, seg->intent[0], seg->intent[1], seg->suspect};

	for (u32 i = 0; i < ARRAY_SIZE(start); i++)
		for (u32 j = i + 1; j < ARRAY_SIZE(start); j++)
			if (uhsfs_overlaps(start[i], (i ? map : table) * geo->homes, start[j],
					   map * geo->homes))
				return true;
	return false;
}

static int check_segments(const struct uhsfs_super *raw, u64 block, struct uhsfs_super_info *info,
			  struct uhsfs_fault *fault)
{
	u64 next = 0;
	int err;

	if (info->segments < 1 || info->segments > UHSFS_MAX_SEGMENTS)
		return uhsfs_bad(fault, object, block, "segments", info->segments,
				 UHSFS_MAX_SEGMENTS, "must be 1 to the largest number");
	if (!uhsfs_is_zero(raw->segment + info->segments,
			   (UHSFS_MAX_SEGMENTS - info->segments) * sizeof(raw->segment[0])))
		return uhsfs_bad(fault, object, block, "unused segments", 1, 0, UHSFS_RULE_ZERO);
	for (u32 i = 0; i < info->segments; i++) {
		struct uhsfs_segment_info *seg = &info->segment[i];
		u64 table, map;

		decode_segment(&raw->segment[i], seg);
		if (!uhsfs_is_zero(raw->segment[i].reserved, sizeof(raw->segment[i].reserved)))
			return uhsfs_bad(fault, object, block, "segment.reserved", 1, 0,
					 UHSFS_RULE_ZERO);
		if (seg->first_chunk != next)
			return uhsfs_bad(fault, object, block, "segment.first_chunk",
					 seg->first_chunk, next, UHSFS_RULE_EQUAL);
		if (!seg->chunks || seg->chunks > UHSFS_MAX_CHUNKS - next)
			return uhsfs_bad(fault, object, block, "segment.chunks", seg->chunks,
					 UHSFS_MAX_CHUNKS - next, "must be 1 to what is left");
		next += seg->chunks;
		table = DIV_ROUND_UP(seg->chunks, UHSFS_TABLE_CHUNKS);
		map = DIV_ROUND_UP(seg->chunks, UHSFS_MAP_BITS);
		err = check_region(&info->geo, block, "segment.table", seg->table, table, fault);
		if (!err)
			err = check_region(&info->geo, block, "segment.intent[0]", seg->intent[0],
					   map, fault);
		if (!err)
			err = check_region(&info->geo, block, "segment.intent[1]", seg->intent[1],
					   map, fault);
		if (!err)
			err = check_region(&info->geo, block, "segment.suspect", seg->suspect, map,
					   fault);
		if (err)
			return err;
		if (regions_overlap(&info->geo, seg, table, map))
			return uhsfs_bad(fault, object, block, "segment", i, info->segments,
					 "regions must not overlap");
	}
	return 0;
}

int uhsfs_super_decode(const struct uhsfs_super *raw, u64 block, struct uhsfs_super_info *info,
		       struct uhsfs_fault *fault)
{
	u32 crc = super_crc(raw);
	int err;

	if (!uhsfs_super_recognise(raw))
		return uhsfs_bad(fault, object, block, "magic", uhsfs_get_le64(raw->magic),
				 uhsfs_get_le64(UHSFS_SB_MAGIC), UHSFS_RULE_EQUAL);
	if (le32_to_cpu(raw->crc) != crc)
		return uhsfs_bad(fault, object, block, "crc", le32_to_cpu(raw->crc), crc,
				 UHSFS_RULE_EQUAL);
	if (le64_to_cpu(raw->block) != block)
		return uhsfs_bad(fault, object, block, "block", le64_to_cpu(raw->block), block,
				 UHSFS_RULE_EQUAL);
	decode(raw, info);
	/* The rest may mean anything: only the version's number and the features count. */
	if (info->version != UHSFS_FORMAT_VERSION || info->incompat & ~UHSFS_INCOMPAT_SUPPORTED)
		return 0;
	err = check_fields(raw, block, info, fault);
	if (err)
		return err;
	info->geo.slots_per_block = UHSFS_BLOCK_SIZE / info->geo.slot_size;
	info->geo.slots_per_chunk = info->geo.slots_per_block * UHSFS_CHUNK_BLOCKS;
	err = check_segments(raw, block, info, fault);
	if (err)
		return err;
	return check_totals(block, info, fault);
}

void uhsfs_super_encode(const struct uhsfs_super_info *info, u64 block, struct uhsfs_super *raw)
{
	const struct uhsfs_geometry *geo = &info->geo;

	memset(raw, 0, sizeof(*raw));
	memcpy(raw->magic, UHSFS_SB_MAGIC, sizeof(raw->magic));
	raw->version = cpu_to_le32(info->version);
	memcpy(raw->uuid, info->uuid, sizeof(raw->uuid));
	raw->fsid = cpu_to_le64(geo->fsid);
	raw->block = cpu_to_le64(block);
	raw->seq = cpu_to_le64(info->seq);
	raw->compat = cpu_to_le64(info->compat);
	raw->ro_compat = cpu_to_le64(info->ro_compat);
	raw->incompat = cpu_to_le64(info->incompat);
	raw->block_size = cpu_to_le32(UHSFS_BLOCK_SIZE);
	raw->slot_size = cpu_to_le32(geo->slot_size);
	raw->erase_unit = cpu_to_le32(geo->erase_unit);
	raw->atomic = info->atomic;
	raw->errors = info->errors;
	raw->state = info->state;
	raw->blocks = cpu_to_le64(geo->blocks);
	raw->groups_used = cpu_to_le64(info->groups_used);
	raw->chunks_used = cpu_to_le64(info->chunks_used);
	raw->reserve_blocks = cpu_to_le64(info->reserve_blocks);
	raw->epoch = cpu_to_le32(info->epoch);
	raw->segments = cpu_to_le32(info->segments);
	raw->free_blocks = cpu_to_le64(info->free_blocks);
	raw->used_slots = cpu_to_le64(info->used_slots);
	memcpy(raw->hash_key, geo->hash_key, sizeof(raw->hash_key));
	memcpy(raw->nonce_key, geo->nonce_key, sizeof(raw->nonce_key));
	raw->made_ns = cpu_to_le64((u64)info->made_ns);
	raw->mounted_ns = cpu_to_le64((u64)info->mounted_ns);
	raw->checked_ns = cpu_to_le64((u64)info->checked_ns);
	raw->mounts = cpu_to_le64(info->mounts);
	memcpy(raw->label, info->label, sizeof(raw->label));
	memcpy(raw->writer, info->writer, sizeof(raw->writer));
	for (u32 i = 0; i < info->segments; i++) {
		const struct uhsfs_segment_info *seg = &info->segment[i];

		raw->segment[i].first_chunk = cpu_to_le64(seg->first_chunk);
		raw->segment[i].chunks = cpu_to_le64(seg->chunks);
		raw->segment[i].table = cpu_to_le64(seg->table);
		raw->segment[i].intent[0] = cpu_to_le64(seg->intent[0]);
		raw->segment[i].intent[1] = cpu_to_le64(seg->intent[1]);
		raw->segment[i].suspect = cpu_to_le64(seg->suspect);
	}
	raw->crc = cpu_to_le32(super_crc(raw));
}

int uhsfs_super_choose(const struct uhsfs_super_info *a, const struct uhsfs_super_info *b)
{
	if (!a && !b)
		return -EUCLEAN;
	if (a && b)
		return b->seq > a->seq;
	return !a;
}

enum uhsfs_access uhsfs_super_access(const struct uhsfs_super_info *info, u64 *unknown)
{
	*unknown = info->incompat & ~UHSFS_INCOMPAT_SUPPORTED;
	if (*unknown || info->version != UHSFS_FORMAT_VERSION)
		return UHSFS_ACCESS_NONE;
	*unknown = info->ro_compat & ~UHSFS_RO_COMPAT_SUPPORTED;
	return *unknown ? UHSFS_ACCESS_READ : UHSFS_ACCESS_WRITE;
}

const struct uhsfs_segment_info *uhsfs_super_segment(const struct uhsfs_super_info *info, u64 chunk)
{
	for (u32 i = 0; i < info->segments; i++) {
		const struct uhsfs_segment_info *seg = &info->segment[i];

		if (chunk >= seg->first_chunk && chunk - seg->first_chunk < seg->chunks)
			return seg;
	}
	return NULL;
}

u64 uhsfs_super_chunks(const struct uhsfs_super_info *info)
{
	const struct uhsfs_segment_info *last;

	if (!info->segments)
		return 0;
	last = &info->segment[info->segments - 1];
	return last->first_chunk + last->chunks;
}
