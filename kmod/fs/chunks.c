// SPDX-License-Identifier: GPL-2.0
/*
 * Slots for new inodes: the chunk table in memory, free slots, new chunks.
 *
 * A slot is taken in memory at once and given back when its FREE image is durable.  A
 * new chunk's descriptor is written before the first slot in it (`urgent`); what else
 * changes in a descriptor is brought up to date by checkpoints.  New chunks get the
 * numbers from chunks_used on, so that a descriptor that a crash left there is replaced.
 */
#include <linux/blkdev.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "rw.h"

#include "core/chunk.h"

/* ---- table blocks --------------------------------------------------------- */

/* The block is on the device, or goes there, as it is now. */
static void settle(struct uhsfs_table *table)
{
	for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
		table->settled_in_use[i] = le64_to_cpu(table->block.chunk[i].in_use);
		table->settled_written[i] = le16_to_cpu(table->block.chunk[i].written);
	}
}

static int load_table(struct super_block *sb, struct uhsfs_table *table, u64 chunk)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct folio *folio = uhsfs_table_folio(sb, chunk);
	const struct uhsfs_table_block *raw;

	if (IS_ERR(folio))
		return PTR_ERR(folio);
	raw = folio_address(folio);
	table->block = *raw;
	table->next = uhsfs_next_copy(sb, le64_to_cpu(raw->h.block) - table->home);
	folio_put(folio);
	for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
		struct uhsfs_chunk *chunk = &table->block.chunk[i];
		__le32 incarnation = chunk->incarnation;

		/* What a crash left there was never used; its incarnation is not used again. */
		if (table->first + i >= sbi->super.chunks_used) {
			table->dirty |= chunk->block != 0;
			memset(chunk, 0, sizeof(*chunk));
			table->incarnation[i] = le32_to_cpu(incarnation);
		}
		table->taken[i] = le64_to_cpu(chunk->in_use);
	}
	settle(table);
	return 0;
}

static struct uhsfs_table *get_table(struct super_block *sb, u64 chunk, u32 *index)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;
	struct uhsfs_table *table;
	struct uhsfs_place place;
	int err = 0;

	if (!uhsfs_chunk_table_place(&sbi->super, chunk, &place))
		return ERR_PTR(-ENOSPC);
	*index = place.index;
	table = xa_load(&rw->tables, place.first);
	if (table)
		return table;
	table = kzalloc(sizeof(*table), GFP_NOFS | __GFP_NOFAIL);
	table->first = place.first;
	table->home = place.home;
	table->next = 2;
	if (place.first < sbi->super.chunks_used)
		err = load_table(sb, table, place.first);
	if (!err)
		err = xa_err(xa_store(&rw->tables, place.first, table,
				       GFP_NOFS | __GFP_NOFAIL));
	if (err) {
		kfree(table);
		return ERR_PTR(err);
	}
	return table;
}

int uhsfs_table_get(struct super_block *sb, u64 chunk, struct uhsfs_chunk_info *info)
{
	struct uhsfs_table *table;
	u32 index;
	int err = 0;

	mutex_lock(&uhsfs_rw(sb)->lock);
	table = get_table(sb, chunk, &index);
	if (IS_ERR(table))
		err = PTR_ERR(table) == -ENOSPC ? -ENOENT : PTR_ERR(table);
	else
		uhsfs_chunk_decode(&table->block.chunk[index], info);
	mutex_unlock(&uhsfs_rw(sb)->lock);
	if (!err && !info->block)
		err = -ENOENT;
	return err;
}

void uhsfs_free_tables(struct super_block *sb)
{
	struct uhsfs_table *table;
	unsigned long first;

	xa_for_each(&uhsfs_rw(sb)->tables, first, table)
		kfree(table);
	xa_destroy(&uhsfs_rw(sb)->tables);
}

/*
 * Before the superblock's epoch passes those in which a crash left descriptors of chunks
 * that were never used: they are not told from others then, so they go.
 */
int uhsfs_drop_unused_chunks(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;
	struct uhsfs_writes writes;
	struct uhsfs_place place;
	struct uhsfs_table *table;
	u32 index;
	int err;

	/* Of later blocks nothing is believed. */
	if (!uhsfs_chunk_table_place(&sbi->super, sbi->super.chunks_used, &place) ||
	    place.first >= sbi->super.chunks_used)
		return 0;
	mutex_lock(&rw->lock);
	table = get_table(sb, sbi->super.chunks_used, &index);
	mutex_unlock(&rw->lock);
	if (IS_ERR(table))
		return PTR_ERR(table);
	if (!table->dirty)
		return 0;
	/* No record is newer than the superblock's seq. */
	err = uhsfs_write_super(sb, sbi->super.epoch);
	if (err)
		return err;
	uhsfs_writes_start(&writes, sb);
	mutex_lock(&rw->lock);
	uhsfs_write_tables(&writes, true);
	mutex_unlock(&rw->lock);
	err = uhsfs_writes_wait(&writes);
	err = err ?: blkdev_issue_flush(sb->s_bdev);
	if (!err) {
		mutex_lock(&rw->lock);
		uhsfs_tables_durable(sb);
		mutex_unlock(&rw->lock);
	}
	return err;
}

/* ---- taking a slot -------------------------------------------------------- */

static int make_chunk(struct super_block *sb, u64 near)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const struct uhsfs_geometry *geo = &sbi->super.geo;
	u64 number = sbi->super.chunks_used;
	struct uhsfs_chunk_info chunk = {};
	struct uhsfs_table *table;
	u32 index, got;
	int err;

	table = get_table(sb, number, &index);
	if (IS_ERR(table))
		return PTR_ERR(table);
	uhsfs_chunk_decode(&table->block.chunk[index], &chunk);
	err = uhsfs_alloc(sb, near, 1, uhsfs_chunk_blocks(geo), sbi->super.reserve_blocks,
			  &chunk.block, &got);
	if (err)
		return err;
	chunk.incarnation = table->incarnation[index] + 1;
	chunk.nonce = uhsfs_chunk_nonce(geo, number, chunk.incarnation);
	chunk.gen_base = get_random_u32();
	chunk.birth = sbi->rw->epoch;
	uhsfs_chunk_encode(&chunk, &table->block.chunk[index]);
	table->dirty = true;
	table->urgent = true;
	sbi->super.chunks_used++;
	return 0;
}

/* A free slot of the chunk: its index, or -1. */
static int free_slot(struct super_block *sb, u64 number, struct uhsfs_table **table, u32 *index)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	struct uhsfs_chunk_info chunk;
	u64 free;

	*table = get_table(sb, number, index);
	if (IS_ERR(*table))
		return -1;
	uhsfs_chunk_decode(&(*table)->block.chunk[*index], &chunk);
	if (!chunk.block)
		return -1;
	free = ~(*table)->taken[*index] & uhsfs_chunk_slot_mask(geo);
	/* Number 0 is not an inode. */
	if (!number)
		free &= ~1ULL;
	return free ? __ffs64(free) : -1;
}

/* What the slot was before, if it ever was. */
static int describe(struct super_block *sb, struct uhsfs_new_slot *slot)
{
	struct uhsfs_slot_view view;
	struct folio *folio;
	int err = uhsfs_slot_get(sb, slot->ino, &view, &folio);

	if (err == -ENOENT)
		return 0;
	if (err)
		return err;
	if (view.attr.state != UHSFS_SLOT_FREE)
		err = uhsfs_corrupt(sb, slot->ino, "state", view.attr.state, UHSFS_SLOT_FREE,
				    "must be free where the chunk says so");
	slot->gen = view.attr.generation + 1;
	slot->name_seq_max = view.attr.name_seq_max;
	uhsfs_slot_done(sb, folio);
	return err;
}

static int take_slot(struct super_block *sb, u64 number, struct uhsfs_new_slot *slot)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	struct uhsfs_chunk_info chunk;
	struct uhsfs_table *table;
	u32 index;
	int at = free_slot(sb, number, &table, &index);

	if (at < 0)
		return -ENOSPC;
	uhsfs_chunk_decode(&table->block.chunk[index], &chunk);
	table->taken[index] |= 1ULL << at;
	uhsfs_rw(sb)->used_slots++;
	*slot = (struct uhsfs_new_slot) {
		.ino = number * geo->slots_per_chunk + at,
		.gen = chunk.gen_base,
		.nonce = chunk.nonce,
	};
	return 0;
}

int uhsfs_slot_alloc(struct super_block *sb, u64 near, struct uhsfs_new_slot *slot)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;
	u64 number = uhsfs_ino_chunk(&sbi->super.geo, near);
	int err;

	mutex_lock(&rw->lock);
	err = take_slot(sb, number, slot);
	while (err == -ENOSPC && rw->slot_hint < sbi->super.chunks_used) {
		err = take_slot(sb, rw->slot_hint, slot);
		if (err == -ENOSPC)
			rw->slot_hint++;
	}
	if (err == -ENOSPC) {
		err = make_chunk(sb, rw->goal);
		if (!err)
			err = take_slot(sb, sbi->super.chunks_used - 1, slot);
	}
	mutex_unlock(&rw->lock);
	if (err)
		return err;
	err = describe(sb, slot);
	if (err) {
		mutex_lock(&rw->lock);
		uhsfs_slot_release(sb, slot->ino);
		mutex_unlock(&rw->lock);
	}
	return err;
}

/* The slot may be taken again: its FREE image is durable, or it never had another. */
void uhsfs_slot_release(struct super_block *sb, u64 ino)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	u64 number = uhsfs_ino_chunk(geo, ino);
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_table *table;
	u32 index;

	lockdep_assert_held(&rw->lock);
	table = get_table(sb, number, &index);
	if (IS_ERR(table))
		return;
	table->taken[index] &= ~(1ULL << uhsfs_ino_index(geo, ino));
	rw->used_slots--;
	rw->slot_hint = min(rw->slot_hint, number);
}

/* An image of the slot is durable. */
int uhsfs_slot_durable(struct super_block *sb, u64 ino, bool in_use)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	u32 at = uhsfs_ino_index(geo, ino);
	struct uhsfs_chunk_info chunk;
	struct uhsfs_table *table;
	u32 index;

	table = get_table(sb, uhsfs_ino_chunk(geo, ino), &index);
	if (IS_ERR(table))
		return PTR_ERR(table);
	uhsfs_chunk_decode(&table->block.chunk[index], &chunk);
	chunk.written |= 1U << (at / geo->slots_per_block);
	if (in_use != (chunk.in_use >> at & 1))
		uhsfs_rw(sb)->durable_slots += in_use ? 1 : -1;
	if (in_use)
		chunk.in_use |= 1ULL << at;
	else
		chunk.in_use &= ~(1ULL << at);
	uhsfs_chunk_encode(&chunk, &table->block.chunk[index]);
	table->dirty = true;
	return 0;
}

/* Recovery read the slot: this is how it stands on the device. */
int uhsfs_slot_found(struct super_block *sb, u64 ino, bool in_use)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	u64 bit = 1ULL << uhsfs_ino_index(geo, ino);
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_table *table;
	u32 index;

	table = get_table(sb, uhsfs_ino_chunk(geo, ino), &index);
	if (IS_ERR(table))
		return PTR_ERR(table);
	if (in_use && !(table->taken[index] & bit))
		rw->used_slots++;
	if (!in_use && table->taken[index] & bit)
		rw->used_slots--;
	if (in_use)
		table->taken[index] |= bit;
	else
		table->taken[index] &= ~bit;
	return uhsfs_slot_durable(sb, ino, in_use);
}

/* Recovery: chunks up to `end` were made, those after the checkpoint are not in bit maps. */
int uhsfs_chunks_found(struct super_block *sb, u64 end)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	u64 number = sbi->super.chunks_used;
	int err = 0;

	sbi->super.chunks_used = max(number, end);
	for (; !err && number < end; number++) {
		struct uhsfs_chunk_info chunk;
		struct uhsfs_table *table;
		u32 index;

		table = get_table(sb, number, &index);
		if (IS_ERR(table))
			return PTR_ERR(table);
		uhsfs_chunk_decode(&table->block.chunk[index], &chunk);
		if (chunk.block)
			err = uhsfs_use_blocks(sb, chunk.block,
					       uhsfs_chunk_blocks(&sbi->super.geo));
	}
	return err;
}

/* The chunk of a slot in memory, and whether the home of the slot's block was ever written. */
int uhsfs_slot_chunk(struct super_block *sb, u64 ino, struct uhsfs_chunk_info *chunk,
		     bool *written)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	struct uhsfs_table *table;
	u32 index;

	table = get_table(sb, uhsfs_ino_chunk(geo, ino), &index);
	if (IS_ERR(table))
		return PTR_ERR(table);
	uhsfs_chunk_decode(&table->block.chunk[index], chunk);
	*written = chunk->written >> (uhsfs_ino_index(geo, ino) / geo->slots_per_block) & 1;
	return chunk->block ? 0 : -EUCLEAN;
}

/* ---- writing -------------------------------------------------------------- */

struct seal_table {
	struct super_block *sb;
	struct uhsfs_table *table;
	u64 seq;
};

static void seal_table(struct page *page, u64 block, void *ctx)
{
	const struct seal_table *seal = ctx;
	struct uhsfs_table_block *raw = page_address(page);

	uhsfs_table_init(raw, uhsfs_geo(seal->sb), block, seal->table->first, seal->seq);
	memcpy(raw->chunk, seal->table->block.chunk, sizeof(raw->chunk));
	for (u32 i = 0; i < UHSFS_TABLE_CHUNKS; i++) {
		raw->chunk[i].in_use = cpu_to_le64(seal->table->settled_in_use[i]);
		raw->chunk[i].written = cpu_to_le16(seal->table->settled_written[i]);
	}
	uhsfs_record_seal(raw, sizeof(*raw));
}

void uhsfs_write_tables(struct uhsfs_writes *writes, bool all)
{
	struct super_block *sb = writes->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_table *table;
	unsigned long first;

	lockdep_assert_held(&rw->lock);
	xa_for_each(&rw->tables, first, table) {
		struct seal_table seal = { .sb = sb, .table = table };
		struct page *page;

		if (!table->urgent && !(all && table->dirty))
			continue;
		page = uhsfs_image_page();
		seal.seq = uhsfs_next_op(sb);
		if (all) {
			settle(table);
			table->dirty = false;
		}
		uhsfs_write_home(writes, page, table->home, table->next, 0, seal_table, &seal);
		table->urgent = false;
		xa_set_mark(&rw->tables, first, XA_MARK_0);
	}
}

void uhsfs_tables_durable(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_table *table;
	unsigned long first;

	xa_for_each_marked(&rw->tables, first, table, XA_MARK_0) {
		table->next = uhsfs_next_copy(sb, table->next);
		xa_clear_mark(&rw->tables, first, XA_MARK_0);
	}
}
