// SPDX-License-Identifier: GPL-2.0
/*
 * From an inode number to its slot: chunk table, chunk, slot block, record.
 *
 * What was never written is told from what is damaged.  A table block from chunks_used
 * on and a slot block whose bit is not set in `written` may be anything; if the chunk is
 * marked they may have been written since the last checkpoint, so that they are tried,
 * and count as never written unless they are valid.
 */
#include <linux/swap.h>

#include "rw.h"
#include "trace.h"
#include "uhsfs.h"

#include "core/chunk.h"

/* ---- chunks -------------------------------------------------------------------- */

struct table_home {
	struct uhsfs_home home;
	const struct uhsfs_geometry *geo;
	u64 first;		/* chunk of the first descriptor */
	u64 limit;		/* chunks of the segment end here */
};

static int table_check(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
		       struct uhsfs_fault *fault)
{
	const struct table_home *table = container_of(home, struct table_home, home);
	const struct uhsfs_table_block *raw = image;

	*seq = le64_to_cpu(raw->h.seq);
	return uhsfs_table_check(raw, table->geo, block, table->first, table->limit, fault);
}

struct folio *uhsfs_table_folio(struct super_block *sb, u64 chunk)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const struct uhsfs_segment_info *segment = uhsfs_super_segment(&sbi->super, chunk);
	struct uhsfs_place place;
	struct table_home table = {
		.home = {
			.object = "chunk table",
			.record_size = UHSFS_BLOCK_SIZE,
			.torn_ok = sbi->crashed,
			.check = table_check,
		},
		.geo = &sbi->super.geo,
		.limit = segment->first_chunk + segment->chunks,
	};

	uhsfs_chunk_table_place(&sbi->super, chunk, &place);
	table.home.block = place.home;
	table.home.id = place.home;
	table.first = place.first;
	return uhsfs_read_home(sb, sbi->tables->i_mapping, place.home, &table.home,
			       place.first >= sbi->super.chunks_used);
}

int uhsfs_chunk_get(struct super_block *sb, u64 number, struct uhsfs_chunk_info *chunk)
{
	if (uhsfs_rw(sb) && !uhsfs_rw(sb)->recovering)
		return uhsfs_table_get(sb, number, chunk);
	return uhsfs_chunk_on_device(sb, number, chunk);
}

int uhsfs_chunk_on_device(struct super_block *sb, u64 number, struct uhsfs_chunk_info *chunk)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const struct uhsfs_table_block *table;
	struct uhsfs_place place;
	struct folio *folio;

	if (!uhsfs_chunk_table_place(&sbi->super, number, &place))
		return -ENOENT;
	if (number >= sbi->super.chunks_used && !uhsfs_chunk_marked(sbi, number))
		return -ENOENT;
	folio = uhsfs_table_folio(sb, number);
	if (IS_ERR(folio))
		return PTR_ERR(folio) == -ENODATA ? -ENOENT : PTR_ERR(folio);
	table = folio_address(folio);
	uhsfs_chunk_decode(&table->chunk[place.index], chunk);
	folio_put(folio);
	if (!chunk->block)
		return -ENOENT;
	/* Made after the last checkpoint, and then no slot of it was ever in use. */
	if (chunk->birth > sbi->super.epoch && !uhsfs_chunk_marked(sbi, number))
		return -ENOENT;
	return 0;
}

/* ---- slots ----------------------------------------------------------------------- */

static int slot_check(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
		      struct uhsfs_fault *fault)
{
	const struct uhsfs_slot_home *slot = container_of(home, struct uhsfs_slot_home, home);

	return uhsfs_slot_block_check(slot->geo, image, block, slot->first_ino, slot->nonce, seq,
				      fault);
}

void uhsfs_slot_home_init(struct super_block *sb, struct uhsfs_slot_home *home, u64 first_ino,
			  const struct uhsfs_chunk_info *chunk)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const struct uhsfs_geometry *geo = &sbi->super.geo;
	bool recent = uhsfs_chunk_marked(sbi, uhsfs_ino_chunk(geo, first_ino));

	*home = (struct uhsfs_slot_home) {
		.home = {
			.block = uhsfs_slot_home(geo, chunk->block, first_ino),
			.object = "slots from inode",
			.id = first_ino,
			.record_size = geo->slot_size,
			.torn_ok = recent,
			.check = slot_check,
		},
		.geo = geo,
		.first_ino = first_ino,
		.nonce = chunk->nonce,
	};
}

/* The folio of the block that has slot ino; -ENOENT: never written. */
struct folio *uhsfs_slot_block(struct super_block *sb, u64 ino,
			       const struct uhsfs_chunk_info *chunk)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const struct uhsfs_geometry *geo = &sbi->super.geo;
	u32 number = uhsfs_ino_index(geo, ino) / geo->slots_per_block;
	bool written = chunk->written >> number & 1;
	struct address_space *mapping = sbi->slots->i_mapping;
	pgoff_t index = ino / geo->slots_per_block;
	struct uhsfs_slot_home home;
	struct folio *folio;

	if (!written && !uhsfs_chunk_marked(sbi, uhsfs_ino_chunk(geo, ino)))
		return ERR_PTR(-ENOENT);
	folio = uhsfs_find_folio(mapping, index);
	if (folio && folio_test_uptodate(folio)) {
		folio_mark_accessed(folio);
		return folio;
	}
	if (folio)
		folio_put(folio);
	uhsfs_slot_home_init(sb, &home, ino - ino % geo->slots_per_block, chunk);
	folio = uhsfs_read_home(sb, mapping, index, &home.home, !written);
	trace_uhsfs_slot_read(sb, home.first_ino, home.home.block, PTR_ERR_OR_ZERO(folio));
	return folio == ERR_PTR(-ENODATA) ? ERR_PTR(-ENOENT) : folio;
}

int uhsfs_slot_get(struct super_block *sb, u64 ino, struct uhsfs_slot_view *view,
		   struct folio **result)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	const struct uhsfs_header *head;
	struct uhsfs_chunk_info chunk;
	struct uhsfs_slot_id id;
	struct uhsfs_fault fault;
	struct folio *folio;
	int err;

	if (ino == UHSFS_INO_INVALID)
		return -ENOENT;
	err = uhsfs_chunk_get(sb, uhsfs_ino_chunk(geo, ino), &chunk);
	if (err)
		return err;
	folio = uhsfs_slot_block(sb, ino, &chunk);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	down_read(&uhsfs_sb(sb)->slots_sem);
	head = folio_address(folio) + uhsfs_slot_offset(geo, ino);
	/* The copy that counts says where it was read from: the whole block was checked. */
	id = (struct uhsfs_slot_id) {
		.ino = ino,
		.block = le64_to_cpu(head->block),
		.nonce = chunk.nonce,
	};
	err = uhsfs_slot_parse(geo, head, &id, view, &fault);
	if (err) {
		uhsfs_slot_done(sb, folio);
		return uhsfs_fault(sb, ino, &fault);
	}
	*result = folio;
	return 0;
}

void uhsfs_slot_done(struct super_block *sb, struct folio *folio)
{
	up_read(&uhsfs_sb(sb)->slots_sem);
	folio_put(folio);
}
