// SPDX-License-Identifier: GPL-2.0
/*
 * Epochs: numbers of operations, intent maps, and the superblock.
 *
 * An operation's number is epoch << 32 | counter; it is also the seq of what is written
 * and the name_seq of names.  Each operation marks the chunks of the slots it changes in
 * the map of its epoch; marks are durable before any home that contains the operation is
 * written (R0).  Marks are written as whole blocks with all marks so far, so that they
 * become durable in the order of operations.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "rw.h"

#include "core/chunk.h"
#include "core/map.h"

u64 uhsfs_next_op(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	return uhsfs_seq_make(rw->epoch, ++rw->counter);
}

/* ---- marks ---------------------------------------------------------------- */

static struct uhsfs_marks *get_marks(struct super_block *sb, u64 chunk, u32 *bit)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	unsigned int which = rw->map_epoch & 1;
	struct uhsfs_marks *marks;
	struct uhsfs_place place;
	int err;

	if (!uhsfs_chunk_map_place(&uhsfs_sb(sb)->super, chunk, which, &place))
		return ERR_PTR(-EINVAL);
	*bit = place.index;
	marks = xa_load(&rw->marks[which], place.first);
	if (marks)
		return marks;
	marks = kzalloc(sizeof(*marks), GFP_NOFS | __GFP_NOFAIL);
	marks->first = place.first;
	marks->home = place.home;
	/* A retired map is overwritten as any home is: one copy stays valid. */
	err = uhsfs_map_next_copy(sb, chunk, which, &marks->next);
	if (!err)
		err = xa_err(xa_store(&rw->marks[which], place.first, marks,
				       GFP_NOFS | __GFP_NOFAIL));
	if (err) {
		kfree(marks);
		return ERR_PTR(err);
	}
	return marks;
}

int uhsfs_mark(struct super_block *sb, u64 ino)
{
	struct uhsfs_marks *marks;
	u32 bit;

	uhsfs_rw(sb)->changed = true;
	marks = get_marks(sb, uhsfs_ino_chunk(uhsfs_geo(sb), ino), &bit);
	if (IS_ERR(marks))
		return PTR_ERR(marks);
	if (!uhsfs_map_test(marks->bits, bit)) {
		uhsfs_map_set(marks->bits, bit);
		marks->dirty = true;
		uhsfs_rw(sb)->marked++;
	}
	return 0;
}

struct seal_marks {
	struct super_block *sb;
	const struct uhsfs_marks *marks;
	u32 epoch;
	u64 seq;
};

static void seal_intent(struct page *page, u64 block, void *ctx)
{
	const struct seal_marks *seal = ctx;
	const struct uhsfs_map_id id = {
		.kind = UHSFS_MAP_INTENT,
		.block = block,
		.index = seal->marks->first,
	};
	struct uhsfs_map_block *map = page_address(page);

	uhsfs_map_init(map, uhsfs_geo(seal->sb), &id, seal->seq, seal->epoch);
	memcpy(map->bits, seal->marks->bits, sizeof(map->bits));
	uhsfs_map_seal(map);
}

void uhsfs_write_marks(struct uhsfs_writes *writes)
{
	struct super_block *sb = writes->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	for (unsigned int which = 0; which < 2; which++) {
		u32 epoch = (rw->map_epoch & 1) == which ? rw->map_epoch : rw->map_epoch - 1;
		struct uhsfs_marks *marks;
		unsigned long first;

		xa_for_each(&rw->marks[which], first, marks) {
			struct seal_marks seal = { .sb = sb, .marks = marks, .epoch = epoch };
			struct page *page;

			if (!marks->dirty)
				continue;
			page = uhsfs_image_page();
			seal.seq = uhsfs_next_op(sb);
			uhsfs_write_home(writes, page, marks->home, marks->next, 0, seal_intent,
					 &seal);
			marks->dirty = false;
			xa_set_mark(&rw->marks[which], first, XA_MARK_0);
		}
	}
}

void uhsfs_marks_durable(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	for (unsigned int which = 0; which < 2; which++) {
		struct uhsfs_marks *marks;
		unsigned long first;

		xa_for_each_marked(&rw->marks[which], first, marks, XA_MARK_0) {
			marks->next = uhsfs_next_copy(sb, marks->next);
			xa_clear_mark(&rw->marks[which], first, XA_MARK_0);
		}
	}
}

void uhsfs_free_marks(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	for (unsigned int which = 0; which < 2; which++) {
		struct uhsfs_marks *marks;
		unsigned long first;

		xa_for_each(&rw->marks[which], first, marks)
			kfree(marks);
		xa_destroy(&rw->marks[which]);
	}
}

/* The next epoch: its map, which the superblock has retired, starts with orphans only. */
int uhsfs_open_epoch(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	struct uhsfs_marks *marks;
	unsigned long first, ino;
	int err = 0;

	lockdep_assert_held(&rw->lock);
	rw->epoch++;
	rw->counter = 0;
	rw->changed = false;
	/* Recovery's marks go to the newest map that is live, up to its end. */
	if (rw->recovering)
		return 0;
	rw->map_epoch = rw->epoch;
	xa_for_each(&rw->marks[rw->map_epoch & 1], first, marks) {
		memset(marks->bits, 0, sizeof(marks->bits));
		marks->dirty = false;
	}
	xa_for_each(&rw->dslots, ino, dslot) {
		if (!dslot->order.names && !dslot->free && !err)
			err = uhsfs_mark(sb, ino);
	}
	err = err ?: uhsfs_mark_waiting(sb);
	/* Orphans that stay are no change, and not what makes recovery long. */
	rw->changed = false;
	rw->marked = 0;
	return err;
}

/* Recovery: what the live maps mark, in the newest of them. */
int uhsfs_adopt_marks(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	unsigned long first;
	const u8 *bits;

	lockdep_assert_held(&sbi->rw->lock);
	xa_for_each(&sbi->marked, first, bits) {
		struct uhsfs_marks *marks;
		u32 bit;

		marks = get_marks(sb, first, &bit);
		if (IS_ERR(marks))
			return PTR_ERR(marks);
		memcpy(marks->bits, bits, sizeof(marks->bits));
		marks->dirty = true;
	}
	return 0;
}

struct seal_suspects {
	struct super_block *sb;
	const u8 *marked, *suspect;
	u64 first;
	u64 seq;
};

static void seal_suspects(struct page *page, u64 block, void *ctx)
{
	const struct seal_suspects *seal = ctx;
	const struct uhsfs_map_id id = {
		.kind = UHSFS_MAP_SUSPECT,
		.block = block,
		.index = seal->first,
	};
	struct uhsfs_map_block *map = page_address(page);

	uhsfs_map_init(map, uhsfs_geo(seal->sb), &id, seal->seq, 0);
	for (u32 i = 0; i < sizeof(map->bits); i++)
		map->bits[i] = seal->marked[i] | (seal->suspect ? seal->suspect[i] : 0);
	uhsfs_map_seal(map);
}

/* Recovery: marked chunks are suspect from now on. */
int uhsfs_write_suspects(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_writes writes;
	unsigned long first;
	const u8 *bits;
	int err = 0, wait;

	uhsfs_writes_start(&writes, sb);
	xa_for_each(&sbi->marked, first, bits) {
		struct seal_suspects seal = {
			.sb = sb,
			.marked = bits,
			.suspect = xa_load(&sbi->suspect, first),
			.first = first,
		};
		struct uhsfs_place place;
		struct page *page;
		u8 next;

		err = uhsfs_map_next_copy(sb, first, UHSFS_MAP_WHICH_SUSPECT, &next);
		if (err)
			break;
		page = uhsfs_image_page();
		mutex_lock(&sbi->rw->lock);
		seal.seq = uhsfs_next_op(sb);
		mutex_unlock(&sbi->rw->lock);
		uhsfs_chunk_map_place(&sbi->super, first, UHSFS_MAP_WHICH_SUSPECT, &place);
		uhsfs_write_home(&writes, page, place.home, next, 0, seal_suspects, &seal);
	}
	wait = uhsfs_writes_wait(&writes);
	err = err ?: wait;
	return err ?: blkdev_issue_flush(sb->s_bdev);
}

/* Bit maps and tables are written as they are now: what the superblock says of them. */
void uhsfs_note_written(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;

	rw->written = (struct uhsfs_written) {
		.groups_used = sbi->super.groups_used,
		.chunks_used = sbi->super.chunks_used,
		.free_blocks = rw->free_blocks,
		.used_slots = rw->durable_slots,
	};
}

/* ---- superblock ----------------------------------------------------------- */

int uhsfs_write_super(struct super_block *sb, u32 epoch)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;
	struct uhsfs_super_info *super;
	struct uhsfs_writes writes;
	struct page *page = uhsfs_image_page();
	u64 block = uhsfs_super_block(&sbi->super.geo, rw->super_next);
	int err;

	super = kvmalloc(sizeof(*super), GFP_NOFS | __GFP_NOFAIL);
	mutex_lock(&rw->lock);
	sbi->super.epoch = epoch;
	/* The next epoch may be opened before the next superblock. */
	sbi->super.seq = max(sbi->super.seq + 1, uhsfs_seq_make(rw->epoch + 1, 0));
	*super = sbi->super;
	super->groups_used = rw->written.groups_used;
	super->chunks_used = rw->written.chunks_used;
	super->free_blocks = rw->written.free_blocks;
	super->used_slots = rw->written.used_slots;
	mutex_unlock(&rw->lock);
	uhsfs_super_encode(super, block, page_address(page));
	kvfree(super);
	err = uhsfs_flush(sb);
	if (err) {
		__free_page(page);
		return err;
	}
	uhsfs_writes_start(&writes, sb);
	uhsfs_write_block(&writes, page, block, REQ_FUA | REQ_SYNC);
	err = uhsfs_writes_wait(&writes);
	if (!err)
		rw->super_next = !rw->super_next;
	return err;
}
