// SPDX-License-Identifier: GPL-2.0
/*
 * Committing: images of slots, in the order that core/order.c gives.
 *
 * A commit wants some slots to be durable as they are in memory.  It goes in rounds:
 * each writes the images of all wanted slots that wait for nothing any more; what the
 * others wait for is wanted too.  A round is
 *
 *	intent marks, descriptors of new chunks, nodes of trees, buckets of directories
 *	that the device does not know; wait;
 *	slot blocks, behind a flush that makes all that and the data before it durable
 *	(R0-R2), each FUA.
 *
 * A slot block carries the newest image of the slots that are written and the last
 * written image of the others.  One commit runs at a time, for all who asked until it
 * began: they share its rounds and their flushes.
 *
 * When a write or a flush has failed for good, what is on the device is still in order,
 * but memory is ahead of it in ways that cannot be taken back: nothing is written any
 * more, whatever errors= says, except that it may say panic.
 */
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/pagemap.h>
#include <linux/slab.h>

#include "rules.h"
#include "rw.h"

struct slot_block {
	struct list_head list;
	u64 first_ino;
	struct folio *folio;	/* what was written last */
	struct page *page;	/* what is written now */
	u64 home;
	u64 nonce;
	u8 next;
};

struct commit {
	struct super_block *sb;
	struct list_head wanted;	/* dslots, by `batch` */
	struct list_head blocks;
	struct xarray by_ino;		/* the same, by first_ino */
	struct list_head written;	/* dslots of this round, by `batch` */
	struct list_head unpin;
	struct list_head held;		/* inodes of this round, by `held`, with references */
	struct uhsfs_writes before;
	struct page *scratch;		/* an image that is being built */
	u32 count;			/* blocks */
	u32 images;			/* of this round */
	bool flushed;			/* the device, since the commit began */
};

void uhsfs_rw_fail(struct super_block *sb, const char *what, int err)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	if (READ_ONCE(rw->failed))
		return;
	WRITE_ONCE(rw->failed, true);
	uhsfs_notice(sb, "%s failed (error %d): nothing is written from now on", what, err);
	if (READ_ONCE(uhsfs_sb(sb)->options.errors) == UHSFS_ERRORS_PANIC)
		panic(KBUILD_MODNAME ": %s: cannot write, and errors=panic\n", sb->s_id);
	/* syncfs asks no filesystem that is read-only. */
	errseq_set(&sb->s_wb_err, err);
	sb->s_flags |= SB_RDONLY;
	wake_up_all(&rw->settled);
}

/* ---- what is wanted ------------------------------------------------------- */

static void want(struct commit *commit, struct uhsfs_dslot *dslot)
{
	/* What is being written is asked for again in the next round, if need be. */
	if (dslot->wanted || dslot->writing || !dslot->dirty)
		return;
	dslot->wanted = true;
	list_add_tail(&dslot->batch, &commit->wanted);
}

struct waiting {
	struct commit *commit;
	bool blocked;
};

static int wait_for_slot(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	struct waiting *waiting = ctx;
	struct uhsfs_dslot *dslot = container_of(on, struct uhsfs_dslot, order);

	if (uhsfs_breaks("N1") && op == dslot->order.born)
		return 0;
	waiting->blocked = true;
	want(waiting->commit, dslot);
	return 0;
}

/* ---- blocks --------------------------------------------------------------- */

/* Slots of a block that was never written: all FREE. */
static void fill_free(struct super_block *sb, void *image, u64 first_ino,
		      const struct uhsfs_chunk_info *chunk)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);

	for (u32 i = 0; i < geo->slots_per_block; i++)
		uhsfs_slot_build_free(geo, image + i * geo->slot_size, first_ino + i,
				      chunk->gen_base, 0, chunk->nonce, uhsfs_next_op(sb));
}

/* The block of a slot in this round; rw->lock is held. */
static struct slot_block *get_block(struct commit *commit, u64 ino)
{
	struct super_block *sb = commit->sb;
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	u64 first_ino = ino - ino % geo->slots_per_block;
	struct uhsfs_chunk_info chunk;
	struct slot_block *block;
	bool written;
	int err;

	block = xa_load(&commit->by_ino, first_ino);
	if (block)
		return block;
	err = uhsfs_slot_chunk(sb, ino, &chunk, &written);
	if (err)
		return ERR_PTR(err);
	block = kzalloc(sizeof(*block), GFP_NOFS | __GFP_NOFAIL);
	block->first_ino = first_ino;
	block->nonce = chunk.nonce;
	block->home = uhsfs_slot_home(geo, chunk.block, first_ino);
	block->page = uhsfs_image_page();
	block->next = 2;
	if (written)
		block->folio = uhsfs_slot_block(sb, ino, &chunk);
	else
		block->folio = uhsfs_lock_folio(uhsfs_sb(sb)->slots->i_mapping,
						first_ino / geo->slots_per_block);
	if (IS_ERR_OR_NULL(block->folio)) {
		err = block->folio ? PTR_ERR(block->folio) : -ENOMEM;
		__free_page(block->page);
		kfree(block);
		return ERR_PTR(err);
	}
	if (written) {
		const struct uhsfs_header *head = folio_address(block->folio);

		block->next = uhsfs_next_copy(sb, le64_to_cpu(head->block) - block->home);
		memcpy(page_address(block->page), head, UHSFS_BLOCK_SIZE);
	} else {
		/* Nobody reads it before the chunk says that it was written. */
		folio_unlock(block->folio);
		fill_free(sb, page_address(block->page), first_ino, &chunk);
	}
	xa_store(&commit->by_ino, first_ino, block, GFP_NOFS | __GFP_NOFAIL);
	list_add_tail(&block->list, &commit->blocks);
	commit->count++;
	return block;
}

struct seal_block {
	struct super_block *sb;
	u64 seq;
};

static void seal_slots(struct page *page, u64 block, void *ctx)
{
	const struct seal_block *seal = ctx;

	uhsfs_slot_block_seal(uhsfs_geo(seal->sb), page_address(page), block, seal->seq);
}

/* ---- one slot ------------------------------------------------------------- */

/* The inode's copy of the image that was just built. */
static int adopt(struct uhsfs_dslot *dslot, struct super_block *sb, void *image, u64 block)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	const struct uhsfs_slot_id id = {
		.ino = dslot->ino,
		.block = block,
		.nonce = dslot->nonce,
	};
	struct uhsfs_slot_view view;
	struct uhsfs_fault fault;

	/* Also the last check before it goes to the device. */
	uhsfs_record_move(image, geo->slot_size, block);
	if (uhsfs_slot_parse(geo, image, &id, &view, &fault))
		return uhsfs_fault(sb, dslot->ino, &fault);
	return dslot->free ? 0 : uhsfs_keep_image(uhsfs_i(dslot->inode), &view);
}

/* Build the slot's image if nothing is in its way; the locks are held. */
static int try_slot(struct commit *commit, struct uhsfs_dslot *dslot)
{
	struct super_block *sb = commit->sb;
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct waiting waiting = { .commit = commit };
	const struct uhsfs_order_visitor visitor = { .wait = wait_for_slot, .ctx = &waiting };
	struct slot_block *block;
	bool names_changed;
	void *image;
	int err;

	list_del_init(&dslot->batch);
	dslot->wanted = false;
	if (!dslot->dirty) {
		uhsfs_dslot_maybe_free(sb, dslot);
		return 0;
	}
	uhsfs_order_waits(&rw->order, &dslot->order, &visitor);
	if (waiting.blocked) {
		want(commit, dslot);
		return 0;
	}
	block = get_block(commit, dslot->ino);
	if (IS_ERR(block))
		return PTR_ERR(block);
	image = page_address(commit->scratch);
	names_changed = dslot->names_changed;
	err = uhsfs_compose(dslot, image, &commit->before);
	/* Nodes that this round gives up are free after it.  What was built cannot be undone. */
	if (err == -ENOSPC && commit->images && dslot->names_changed == names_changed) {
		want(commit, dslot);
		return -EAGAIN;
	}
	if (!err)
		err = adopt(dslot, sb, image, block->home);
	if (err)
		return err;
	memcpy(page_address(block->page) + uhsfs_slot_offset(geo, dslot->ino), image,
	       geo->slot_size);
	commit->images++;
	dslot->writing = dslot->order.changed;
	list_add_tail(&dslot->batch, &commit->written);
	return 0;
}

/*
 * What an image waits for that is not another slot.  A directory that the device does not
 * know goes there with all its buckets; who replaced a file by rename, with its data.  Data
 * that cannot be written is reported to who fsyncs the file.
 */
static int prepare(struct commit *commit, struct uhsfs_dslot *dslot, struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	int err;

	if (READ_ONCE(info->data_first)) {
		WRITE_ONCE(info->data_first, false);
		filemap_fdatawrite(inode->i_mapping);
		filemap_fdatawait_keep_errors(inode->i_mapping);
	}
	if (!S_ISDIR(inode->i_mode) || !dslot->order.born ||
	    dslot->order.durable >= dslot->order.born)
		return 0;
	err = uhsfs_write_new_buckets(inode, &commit->before);
	if (!err)
		uhsfs_publish(inode);
	return err;
}

/* Try the first wanted slot. */
static int try_next(struct commit *commit)
{
	struct super_block *sb = commit->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	struct inode *inode = NULL;
	int err = 0;

	mutex_lock(&rw->lock);
	dslot = list_first_entry(&commit->wanted, struct uhsfs_dslot, batch);
	if (!dslot->free && !dslot->inode) {
		/* Eviction failed: an orphan until the next recovery. */
		list_del_init(&dslot->batch);
		dslot->wanted = false;
		mutex_unlock(&rw->lock);
		return 0;
	}
	if (!dslot->free) {
		inode = igrab(dslot->inode);
		if (!inode) {
			/* It is being evicted, and FREE in a moment. */
			list_move_tail(&dslot->batch, &commit->wanted);
			mutex_unlock(&rw->lock);
			return 0;
		}
	}
	mutex_unlock(&rw->lock);
	if (inode) {
		err = prepare(commit, dslot, inode);
		down_write(&uhsfs_i(inode)->lock);
	}
	mutex_lock(&rw->lock);
	/* dslot stays: it is wanted.  Renamed over a file since prepare(): with its data. */
	if (!err && inode && READ_ONCE(uhsfs_i(inode)->data_first))
		list_move_tail(&dslot->batch, &commit->wanted);
	else if (!err)
		err = try_slot(commit, dslot);
	mutex_unlock(&rw->lock);
	if (inode) {
		up_write(&uhsfs_i(inode)->lock);
		/* Eviction would read nodes of trees that are on their way. */
		list_add(&uhsfs_i(inode)->held, &commit->held);
	}
	return err;
}

/* ---- one round ------------------------------------------------------------ */

static u32 wanted_count(struct commit *commit)
{
	struct list_head *at;
	u32 count = 0;

	list_for_each(at, &commit->wanted)
		count++;
	return count;
}

static void write_before(struct commit *commit)
{
	struct uhsfs_rw *rw = uhsfs_rw(commit->sb);

	mutex_lock(&rw->lock);
	if (!uhsfs_breaks("R0"))
		uhsfs_write_marks(&commit->before);
	uhsfs_write_tables(&commit->before, false);
	mutex_unlock(&rw->lock);
}

/* R2 broken: the flush comes before what it is for; marks do not depend on it. */
static int flush_early(struct commit *commit)
{
	int err;

	write_before(commit);
	err = uhsfs_writes_wait(&commit->before);
	uhsfs_writes_start(&commit->before, commit->sb);
	return err ?: uhsfs_flush(commit->sb);
}

/* R1 broken: data alone is no reason for a flush. */
static bool leaves_flush_out(const struct commit *commit)
{
	return uhsfs_breaks("R2") || (uhsfs_breaks("R1") && !commit->before.any);
}

static int write_blocks(struct commit *commit)
{
	struct super_block *sb = commit->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_writes writes;
	struct slot_block *block;
	int err;

	if (!leaves_flush_out(commit)) {
		err = uhsfs_flush(sb);
		if (err)
			return err;
		commit->flushed = true;
	}
	uhsfs_writes_start(&writes, sb);
	list_for_each_entry(block, &commit->blocks, list) {
		struct seal_block seal = { .sb = sb };
		struct page *page = uhsfs_image_page();

		mutex_lock(&rw->lock);
		seal.seq = uhsfs_next_op(sb);
		mutex_unlock(&rw->lock);
		/* A copy stays for the folio. */
		seal_slots(block->page, block->home + (block->next == 2 ? 0 : block->next), &seal);
		memcpy(page_address(page), page_address(block->page), UHSFS_BLOCK_SIZE);
		uhsfs_write_home(&writes, page, block->home, block->next, REQ_FUA | REQ_SYNC,
				 seal_slots, &seal);
	}
	return uhsfs_writes_wait(&writes);
}

/* The images are durable. */
static void round_durable(struct commit *commit)
{
	struct super_block *sb = commit->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot, *next;
	struct slot_block *block;

	down_write(&uhsfs_sb(sb)->slots_sem);
	list_for_each_entry(block, &commit->blocks, list) {
		memcpy(folio_address(block->folio), page_address(block->page), UHSFS_BLOCK_SIZE);
		folio_mark_uptodate(block->folio);
	}
	up_write(&uhsfs_sb(sb)->slots_sem);
	mutex_lock(&rw->lock);
	uhsfs_marks_durable(sb);
	uhsfs_tables_durable(sb);
	list_for_each_entry_safe(dslot, next, &commit->written, batch) {
		u64 op = dslot->writing;

		list_del_init(&dslot->batch);
		dslot->writing = 0;
		uhsfs_slot_durable(sb, dslot->ino, !dslot->free || dslot->order.changed > op);
		uhsfs_dslot_durable(sb, dslot, op, &commit->unpin);
	}
	rw->commits++;
	mutex_unlock(&rw->lock);
}

static void end_round(struct commit *commit)
{
	struct slot_block *block, *next;
	struct uhsfs_dslot *dslot, *more;

	list_for_each_entry_safe(block, next, &commit->blocks, list) {
		__free_page(block->page);
		folio_put(block->folio);
		kfree(block);
	}
	INIT_LIST_HEAD(&commit->blocks);
	xa_destroy(&commit->by_ino);
	commit->count = 0;
	commit->images = 0;
	/* After a failure. */
	list_for_each_entry_safe(dslot, more, &commit->written, batch) {
		list_del_init(&dslot->batch);
		dslot->writing = 0;
	}
	while (!list_empty(&commit->held)) {
		struct uhsfs_inode_info *info;

		info = list_first_entry(&commit->held, struct uhsfs_inode_info, held);
		list_del_init(&info->held);
		iput(&info->vfs_inode);
	}
}

static int one_round(struct commit *commit)
{
	u32 left = wanted_count(commit);
	int err = 0, wait;

	uhsfs_writes_start(&commit->before, commit->sb);
	if (uhsfs_breaks("R2"))
		err = flush_early(commit);
	while (!err && left--)
		err = try_next(commit);
	if (err == -EAGAIN)
		err = 0;
	if (!err && commit->count)
		write_before(commit);
	wait = uhsfs_writes_wait(&commit->before);
	err = err ?: wait;
	if (!err && commit->count)
		err = write_blocks(commit);
	if (!err && commit->count)
		round_durable(commit);
	end_round(commit);
	return err;
}

static void drop_wanted(struct commit *commit)
{
	struct uhsfs_rw *rw = uhsfs_rw(commit->sb);
	struct uhsfs_dslot *dslot, *next;

	mutex_lock(&rw->lock);
	list_for_each_entry_safe(dslot, next, &commit->wanted, batch) {
		list_del_init(&dslot->batch);
		dslot->wanted = false;
	}
	mutex_unlock(&rw->lock);
}

/* References that were held for slots that are durable now. */
static void unpin_all(struct commit *commit)
{
	while (!list_empty(&commit->unpin)) {
		struct uhsfs_inode_info *info;

		info = list_first_entry(&commit->unpin, struct uhsfs_inode_info, unpin);
		list_del_init(&info->unpin);
		iput(&info->vfs_inode);
	}
}

/* Rounds until nothing is wanted; commit_lock is held. */
static int run(struct commit *commit)
{
	struct super_block *sb = commit->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err = READ_ONCE(rw->failed) ? -EIO : 0;
	u32 idle = 0;

	lockdep_assert_held(&rw->commit_lock);
	commit->scratch = uhsfs_image_page();
	while (!err && !list_empty(&commit->wanted)) {
		u64 before = rw->commits;
		u32 wanted = wanted_count(commit);

		if (READ_ONCE(rw->failed))
			err = -EIO;
		else
			err = one_round(commit);
		/* Before anyone else can commit and drop a reference of the same inode. */
		unpin_all(commit);
		if (!err && rw->commits == before && wanted_count(commit) == wanted) {
			/* Everything waits for an inode that is being evicted. */
			msleep(1);
			if (++idle == 10000)
				err = -EDEADLK;
		}
	}
	__free_page(commit->scratch);
	if (err) {
		drop_wanted(commit);
		uhsfs_rw_fail(sb, "a commit", err);
	}
	return err;
}

static void start(struct commit *commit, struct super_block *sb)
{
	*commit = (struct commit) { .sb = sb };
	INIT_LIST_HEAD(&commit->wanted);
	INIT_LIST_HEAD(&commit->blocks);
	xa_init(&commit->by_ino);
	INIT_LIST_HEAD(&commit->written);
	INIT_LIST_HEAD(&commit->unpin);
	INIT_LIST_HEAD(&commit->held);
}

/* ---- who commits ---------------------------------------------------------- */

/* Somebody who waits for a slot, or for all entries of a directory. */
struct request {
	struct list_head list;	/* rw->requests until it is served; rw->lock */
	u64 ino;
	bool entries;
	bool served;		/* commit_lock; err is valid */
	int err;
};

static int want_entry(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	want(ctx, container_of(on, struct uhsfs_dslot, order));
	return 0;
}

/* What is asked for so far moves to `served`; rw->lock is held. */
static void pick(struct commit *commit, struct list_head *served)
{
	const struct uhsfs_order_visitor visitor = { .wait = want_entry, .ctx = commit };
	struct request *request;

	list_splice_init(&uhsfs_rw(commit->sb)->requests, served);
	list_for_each_entry(request, served, list) {
		struct uhsfs_dslot *dslot = uhsfs_dslot_find(commit->sb, request->ino);

		if (!dslot)
			continue;
		want(commit, dslot);
		/* R7: the directory, and what came into it or left it. */
		if (request->entries)
			uhsfs_order_entries(&dslot->order, &visitor);
	}
}

/*
 * Run, and tell who asked; they may be gone when commit_lock is let go of.  The slot may
 * have been written by the commit before, and data in place after the flush of that one.
 */
static int run_for(struct commit *commit, struct list_head *served)
{
	int err = run(commit);
	struct request *request;

	if (!err && !commit->flushed && !list_empty(served))
		err = uhsfs_flush(commit->sb);
	list_for_each_entry(request, served, list) {
		request->err = err;
		request->served = true;
	}
	return err;
}

static void serve(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct commit commit;
	LIST_HEAD(served);

	start(&commit, sb);
	mutex_lock(&rw->lock);
	pick(&commit, &served);
	mutex_unlock(&rw->lock);
	run_for(&commit, &served);
}

static int commit_one(struct super_block *sb, u64 ino, bool entries)
{
	struct request request = { .ino = ino, .entries = entries };
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	mutex_lock(&rw->lock);
	list_add_tail(&request.list, &rw->requests);
	mutex_unlock(&rw->lock);
	mutex_lock(&rw->commit_lock);
	if (!request.served)
		serve(sb);
	mutex_unlock(&rw->commit_lock);
	return request.err;
}

int uhsfs_commit(struct super_block *sb, u64 ino)
{
	return commit_one(sb, ino, false);
}

int uhsfs_commit_entries(struct inode *dir)
{
	return commit_one(dir->i_sb, dir->i_ino, true);
}

/* All that is dirty now; commit_lock is held. */
int uhsfs_commit_all(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	struct commit commit;
	LIST_HEAD(served);

	start(&commit, sb);
	mutex_lock(&rw->lock);
	list_for_each_entry(dslot, &rw->dirty, list)
		want(&commit, dslot);
	pick(&commit, &served);
	mutex_unlock(&rw->lock);
	return run_for(&commit, &served);
}
