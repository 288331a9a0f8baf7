// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Inode chunks: arithmetic of places, and the chunk table.
 */
#include "chunk.h"

#include "bytes.h"
#include "le.h"
#include "siphash.h"

static const char object[] = "chunk table";

bool uhsfs_chunk_table_place(const struct uhsfs_super_info *info, u64 chunk,
			     struct uhsfs_place *place)
{
	const struct uhsfs_segment_info *seg = uhsfs_super_segment(info, chunk);
	u64 relative;

	if (!seg)
		return false;
	relative = chunk - seg->first_chunk;
	place->index = (u32)(relative % UHSFS_TABLE_CHUNKS);
	place->first = chunk - place->index;
	place->home = seg->table + relative / UHSFS_TABLE_CHUNKS * info->geo.homes;
	return true;
}

bool uhsfs_chunk_map_place(const struct uhsfs_super_info *info, u64 chunk, unsigned int which,
			   struct uhsfs_place *place)
{
	const struct uhsfs_segment_info *seg = uhsfs_super_segment(info, chunk);
	u64 relative, start;

	if (!seg)
		return false;
	start = which == UHSFS_MAP_WHICH_SUSPECT ? seg->suspect : seg->intent[which & 1];
	relative = chunk - seg->first_chunk;
	place->index = (u32)(relative % UHSFS_MAP_BITS);
	place->first = chunk - place->index;
	place->home = start + relative / UHSFS_MAP_BITS * info->geo.homes;
	return true;
}

int uhsfs_chunk_map_check(const struct uhsfs_map_block *map, const struct uhsfs_super_info *info,
			  unsigned int which, u64 first, struct uhsfs_fault *fault)
{
	const struct uhsfs_segment_info *seg = uhsfs_super_segment(info, first);
	const char *name = which == UHSFS_MAP_WHICH_SUSPECT ? "suspect map" : "intent map";
	u32 epoch = le32_to_cpu(map->epoch), newest = uhsfs_seq_epoch(info->seq), covered, beyond;
	u64 block = le64_to_cpu(map->h.block), end;

	if (!seg || (first - seg->first_chunk) % UHSFS_MAP_BITS)
		return -EINVAL;
	end = seg->first_chunk + seg->chunks;
	covered = (u32)min_t(u64, end - first, UHSFS_MAP_BITS);
	beyond = uhsfs_map_next(map->bits, UHSFS_MAP_BITS, covered, true);
	if (beyond < UHSFS_MAP_BITS)
		return uhsfs_bad(fault, name, block, "bits", first + beyond, end,
				 "must be clear past the last chunk of the segment");
	if (epoch > newest)
		return uhsfs_bad(fault, name, block, "epoch", epoch, newest,
				 "must not be newer than the superblock's seq");
	if (which == UHSFS_MAP_WHICH_SUSPECT || !epoch)
		return 0;
	if ((epoch & 1) != which)
		return uhsfs_bad(fault, name, block, "epoch", epoch, which,
				 "must be even in the first map, odd in the second");
	if (epoch > info->epoch && epoch - info->epoch > 2)
		return uhsfs_bad(fault, name, block, "epoch", epoch, (u64)info->epoch + 2,
				 "at most two epochs are newer than the superblock's");
	return 0;
}

u64 uhsfs_slot_home(const struct uhsfs_geometry *geo, u64 chunk_block, u64 ino)
{
	return chunk_block + (u64)(uhsfs_ino_index(geo, ino) / geo->slots_per_block) * geo->homes;
}

u32 uhsfs_slot_offset(const struct uhsfs_geometry *geo, u64 ino)
{
	return uhsfs_ino_index(geo, ino) % geo->slots_per_block * geo->slot_size;
}

u64 uhsfs_chunk_nonce(const struct uhsfs_geometry *geo, u64 chunk, u32 incarnation)
{
	u8 message[12];
	u64 nonce;

	uhsfs_put_le64(message, chunk);
	uhsfs_put_le32(message + 8, incarnation);
	nonce = uhsfs_siphash(geo->nonce_key, message, sizeof(message));
	return nonce ? nonce : 1;
}

u64 uhsfs_chunk_slot_mask(const struct uhsfs_geometry *geo)
{
	return U64_MAX >> (64 - geo->slots_per_chunk);
}

static struct uhsfs_record_id table_id(const struct uhsfs_geometry *geo, u64 block)
{
	return (struct uhsfs_record_id) {
		.object = object,
		.magic = UHSFS_TAG_CHUNKS,
		.fsid = geo->fsid,
		.block = block,
	};
}

void uhsfs_table_init(struct uhsfs_table_block *table, const struct uhsfs_geometry *geo, u64 block,
		      u64 first, u64 seq)
{
	struct uhsfs_record_id id = table_id(geo, block);

	memset(table, 0, sizeof(*table));
	uhsfs_record_init(&table->h, &id, seq);
	table->first_chunk = cpu_to_le64(first);
}

void uhsfs_chunk_decode(const struct uhsfs_chunk *raw, struct uhsfs_chunk_info *chunk)
{
	chunk->block = le64_to_cpu(raw->block);
	chunk->nonce = le64_to_cpu(raw->nonce);
	chunk->in_use = le64_to_cpu(raw->in_use);
	chunk->incarnation = le32_to_cpu(raw->incarnation);
	chunk->gen_base = le32_to_cpu(raw->gen_base);
	chunk->birth = le32_to_cpu(raw->birth);
	chunk->written = le16_to_cpu(raw->written);
}

void uhsfs_chunk_encode(const struct uhsfs_chunk_info *chunk, struct uhsfs_chunk *raw)
{
	memset(raw, 0, sizeof(*raw));
	raw->block = cpu_to_le64(chunk->block);
	raw->nonce = cpu_to_le64(chunk->nonce);
	raw->in_use = cpu_to_le64(chunk->in_use);
	raw->incarnation = cpu_to_le32(chunk->incarnation);
	raw->gen_base = cpu_to_le32(chunk->gen_base);
	raw->birth = cpu_to_le32(chunk->birth);
	raw->written = cpu_to_le16(chunk->written);
}

static int check_chunk(const struct uhsfs_chunk *raw, const struct uhsfs_geometry *geo, u64 number,
		       u64 limit, struct uhsfs_fault *fault)
{
	struct uhsfs_chunk_info chunk;
	u64 nonce;

	uhsfs_chunk_decode(raw, &chunk);
	if (raw->reserved0 || !uhsfs_is_zero(raw->reserved, sizeof(raw->reserved)))
		return uhsfs_bad(fault, "chunk", number, "reserved", 1, 0, UHSFS_RULE_ZERO);
	if (number >= limit && !uhsfs_is_zero(raw, sizeof(*raw)))
		return uhsfs_bad(fault, "chunk", number, "descriptor", number, limit,
				 "must be empty past the last chunk of its segment");
	if (!chunk.block) {
		/* Space given back: the incarnation stays, so that the next nonce is new. */
		if (chunk.nonce || chunk.in_use || chunk.gen_base || chunk.birth || chunk.written)
			return uhsfs_bad(fault, "chunk", number, "block", 0, 1,
					 "must be set where anything else is");
		return 0;
	}
	if (!uhsfs_space_ok(geo, chunk.block, uhsfs_chunk_blocks(geo)))
		return uhsfs_bad(fault, "chunk", number, "block", chunk.block, geo->blocks,
				 UHSFS_RULE_SPACE);
	nonce = uhsfs_chunk_nonce(geo, number, chunk.incarnation);
	if (chunk.nonce != nonce)
		return uhsfs_bad(fault, "chunk", number, "nonce", chunk.nonce, nonce,
				 UHSFS_RULE_EQUAL);
	if (chunk.in_use & ~uhsfs_chunk_slot_mask(geo))
		return uhsfs_bad(fault, "chunk", number, "in_use", chunk.in_use,
				 uhsfs_chunk_slot_mask(geo), "bits must stand for slots");
	for (u32 i = 0; i < geo->slots_per_chunk; i++)
		if (chunk.in_use >> i & 1 && !(chunk.written >> i / geo->slots_per_block & 1))
			return uhsfs_bad(fault, "chunk", number, "written", chunk.written, i,
					 "a slot in use must stand in a home that was written");
	return 0;
}

int uhsfs_table_check(const struct uhsfs_table_block *table, const struct uhsfs_geometry *geo,
		      u64 block, u64 first, u64 limit, struct uhsfs_fault *fault)
{
	struct uhsfs_record_id id = table_id(geo, block);
	int err;

	err = uhsfs_record_check(table, sizeof(*table), &id, fault);
	if (err)
		return err;
	if (le64_to_cpu(table->first_chunk) != first)
		return uhsfs_bad(fault, object, block, "first_chunk",
				 le64_to_cpu(table->first_chunk), first, UHSFS_RULE_EQUAL);
	if (table->reserved)
		return uhsfs_bad(fault, object, block, "reserved", le64_to_cpu(table->reserved), 0,
				 UHSFS_RULE_ZERO);
	for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
		err = check_chunk(&table->chunk[i], geo, first + i, limit, fault);
		if (err)
			return err;
	}
	return 0;
}
