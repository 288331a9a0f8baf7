// SPDX-License-Identifier: GPL-2.0
/*
 * Checkpoints, and the beginning and end of a mount that writes.
 *
 * Checkpoint of epoch e.  While no namespace operation is half done: open e + 1, copy all
 * dirty buckets, start writing the marks.  Then, with operations going on in e + 1: marks,
 * flush; buckets that directories did not have, flush; slots; buckets in place, flush; bit
 * maps and the chunk table, flush; superblock {e}, which retires the marks of e.
 *
 * So buckets on the device contain no operation whose mark is not there (R0), and one that
 * was divided is overwritten only when its directory's slot knows the new one.
 */
#include <linux/slab.h>

#include "rw.h"

/* ---- phases --------------------------------------------------------------- */

/* The directories with dirty buckets, each with a reference. */
static struct inode **get_dirs(struct super_block *sb, u32 *count)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct inode **dirs, *dir;
	unsigned long ino;
	u32 n = 0;

	mutex_lock(&rw->lock);
	xa_for_each(&rw->dirty_dirs, ino, dir)
		n++;
	dirs = kvmalloc_array(n + 1, sizeof(*dirs), GFP_NOFS | __GFP_NOFAIL);
	*count = 0;
	xa_for_each(&rw->dirty_dirs, ino, dir) {
		ihold(dir);
		dirs[(*count)++] = dir;
	}
	mutex_unlock(&rw->lock);
	return dirs;
}

static int write_images(struct super_block *sb, struct list_head *images)
{
	struct uhsfs_writes writes;
	int err;

	if (list_empty(images))
		return 0;
	uhsfs_writes_start(&writes, sb);
	uhsfs_write_images(images, &writes);
	err = uhsfs_writes_wait(&writes);
	return err ?: uhsfs_flush(sb);
}

static void release_dirs(struct super_block *sb, struct inode **dirs, u32 count, bool durable)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	for (u32 i = 0; i < count; i++) {
		bool drop = false;

		/* i_rwsem is not held: whoever makes a bucket dirty now finds none kept. */
		if (durable && uhsfs_buckets_durable(dirs[i])) {
			down_read(&uhsfs_i(dirs[i])->lock);
			mutex_lock(&rw->lock);
			if (xa_empty(&uhsfs_i(dirs[i])->buckets))
				drop = xa_erase(&rw->dirty_dirs, dirs[i]->i_ino);
			mutex_unlock(&rw->lock);
			up_read(&uhsfs_i(dirs[i])->lock);
		}
		if (drop)
			iput(dirs[i]);
		iput(dirs[i]);
	}
	kvfree(dirs);
}

static int write_space(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_writes writes;

	uhsfs_writes_start(&writes, sb);
	mutex_lock(&rw->lock);
	uhsfs_write_groups(&writes);
	uhsfs_write_tables(&writes, true);
	uhsfs_note_written(sb);
	mutex_unlock(&rw->lock);
	return uhsfs_writes_wait(&writes);
}

/* The moment the checkpoint is of. */
static int begin(struct super_block *sb, struct inode ***dirs, u32 *count,
		 struct uhsfs_bucket_images *images, u32 *epoch)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_writes writes;
	int err, wait;

	INIT_LIST_HEAD(&images->fresh);
	INIT_LIST_HEAD(&images->old);
	uhsfs_writes_start(&writes, sb);
	down_write(&rw->gate);
	mutex_lock(&rw->lock);
	*epoch = rw->epoch;
	err = uhsfs_open_epoch(sb);
	mutex_unlock(&rw->lock);
	*dirs = get_dirs(sb, count);
	for (u32 i = 0; !err && i < *count; i++)
		err = uhsfs_snapshot_buckets((*dirs)[i], images);
	if (!err) {
		mutex_lock(&rw->lock);
		uhsfs_write_marks(&writes);
		mutex_unlock(&rw->lock);
	}
	up_write(&rw->gate);
	wait = uhsfs_writes_wait(&writes);
	err = err ?: wait;
	err = err ?: uhsfs_flush(sb);
	if (!err) {
		mutex_lock(&rw->lock);
		uhsfs_marks_durable(sb);
		mutex_unlock(&rw->lock);
	}
	return err;
}

static int phases(struct super_block *sb, struct inode **dirs, u32 count,
		  struct uhsfs_bucket_images *images, u32 epoch)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err;

	err = write_images(sb, &images->fresh);
	/* Slots with what was published are written in any case. */
	for (u32 i = 0; !err && i < count; i++)
		if (uhsfs_publish(dirs[i]))
			err = uhsfs_touch(dirs[i]);
	err = err ?: uhsfs_commit_all(sb);
	if (!err)
		uhsfs_discard_given_up(sb);
	err = err ?: write_images(sb, &images->old);
	err = err ?: write_space(sb);
	err = err ?: uhsfs_flush(sb);
	if (err)
		return err;
	mutex_lock(&rw->lock);
	uhsfs_groups_durable(sb);
	uhsfs_tables_durable(sb);
	mutex_unlock(&rw->lock);
	return uhsfs_write_super(sb, epoch);
}

int uhsfs_checkpoint(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_bucket_images images;
	struct inode **dirs = NULL;
	u32 epoch, count = 0;
	int err;

	mutex_lock(&rw->commit_lock);
	if (rw->failed) {
		mutex_unlock(&rw->commit_lock);
		return -EIO;
	}
	err = begin(sb, &dirs, &count, &images, &epoch);
	err = err ?: phases(sb, dirs, count, &images, epoch);
	if (err)
		uhsfs_rw_fail(sb, "a checkpoint", err);
	else
		rw->checkpoints++;
	wake_up_all(&rw->settled);
	uhsfs_write_images(&images.fresh, NULL);
	uhsfs_write_images(&images.old, NULL);
	if (dirs)
		release_dirs(sb, dirs, count, !err);
	mutex_unlock(&rw->commit_lock);
	return err;
}

bool uhsfs_needs_checkpoint(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	return READ_ONCE(rw->changed) || rw->dirty_count || !xa_empty(&rw->dirty_dirs);
}

/* ---- when ----------------------------------------------------------------- */

/*
 * By time; when so many chunks are marked that recovery would take long; when so much is
 * dirty that memory would be short.
 */
#define MARKED_MAX 4096

/* Slots that may be dirty: a twentieth of the memory at about 2 KiB each. */
static u32 dirty_max(void)
{
	return clamp_t(unsigned long, totalram_pages() / 10, 1024, 1 << 20);
}

static bool is_due(const struct uhsfs_rw *rw)
{
	return READ_ONCE(rw->marked) >= MARKED_MAX ||
	       READ_ONCE(rw->dirty_count) >= dirty_max() / 4;
}

static void come_back(struct super_block *sb, bool now)
{
	unsigned long delay = now ? 0 : READ_ONCE(uhsfs_sb(sb)->options.checkpoint) * HZ;

	mod_delayed_work(uhsfs_wq, &uhsfs_rw(sb)->work, delay);
}

static void work(struct work_struct *work)
{
	struct uhsfs_rw *rw = container_of(to_delayed_work(work), struct uhsfs_rw, work);
	struct super_block *sb = rw->sb;
	bool done = false;

	if (!rw->failed && !sb_rdonly(sb) && uhsfs_needs_checkpoint(sb) &&
	    sb_start_intwrite_trylock(sb)) {
		done = !uhsfs_checkpoint(sb);
		sb_end_intwrite(sb);
	}
	/* Under the lock, so that who asks for it now is not put off. */
	mutex_lock(&rw->lock);
	rw->hurry = done && is_due(rw);
	if (!sb_rdonly(sb))
		come_back(sb, rw->hurry);
	mutex_unlock(&rw->lock);
}

void uhsfs_hurry(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	if (rw->hurry || rw->recovering || !is_due(rw))
		return;
	rw->hurry = true;
	come_back(sb, true);
}

void uhsfs_balance(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	wait_event_killable(rw->settled, READ_ONCE(rw->dirty_count) < dirty_max() ||
			    READ_ONCE(rw->failed));
}

/* ---- mounting ------------------------------------------------------------- */

static struct uhsfs_rw *alloc_rw(struct super_block *sb)
{
	struct uhsfs_rw *rw = kvzalloc(sizeof(*rw), GFP_KERNEL);

	if (!rw)
		return NULL;
	rw->sb = sb;
	mutex_init(&rw->commit_lock);
	init_rwsem(&rw->gate);
	mutex_init(&rw->lock);
	uhsfs_order_init(&rw->order, rw->names, UHSFS_ORDER_BITS);
	xa_init(&rw->dslots);
	INIT_LIST_HEAD(&rw->dirty);
	INIT_LIST_HEAD(&rw->gone);
	INIT_LIST_HEAD(&rw->requests);
	INIT_LIST_HEAD(&rw->waiting);
	INIT_LIST_HEAD(&rw->discards);
	init_waitqueue_head(&rw->settled);
	xa_init(&rw->dirty_dirs);
	xa_init(&rw->groups);
	xa_init(&rw->tables);
	xa_init(&rw->marks[0]);
	xa_init(&rw->marks[1]);
	INIT_DELAYED_WORK(&rw->work, work);
	return rw;
}

static void free_rw(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	uhsfs_free_discards(sb);
	uhsfs_free_marks(sb);
	uhsfs_free_tables(sb);
	uhsfs_free_groups(sb);
	xa_destroy(&rw->dslots);
	xa_destroy(&rw->dirty_dirs);
	uhsfs_sb(sb)->rw = NULL;
	kvfree(rw);
}

/*
 * This mount's first epoch is the one after the superblock's seq.  If nothing is marked,
 * everything before it is checkpointed; else recovery comes first, which writes in this
 * epoch, but marks in the newest live map.
 */
int uhsfs_rw_start(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = alloc_rw(sb);
	u32 epoch = uhsfs_seq_epoch(sbi->super.seq);
	int err = 0;

	if (!rw)
		return -ENOMEM;
	sbi->rw = rw;
	rw->epoch = epoch + 1;
	rw->map_epoch = sbi->unclean ? sbi->live_epoch : rw->epoch;
	rw->recovering = sbi->unclean;
	rw->free_blocks = sbi->super.free_blocks;
	rw->used_slots = sbi->super.used_slots;
	rw->durable_slots = sbi->super.used_slots;
	uhsfs_note_written(sb);
	rw->super_next = sbi->super_copy ? 0 : 1;
	sbi->super.mounts++;
	sbi->super.mounted_ns = ktime_get_real_ns();
	if (!sbi->unclean)
		err = uhsfs_drop_unused_chunks(sb);
	/* What is not recovered stays marked: the epoch is that of the last checkpoint. */
	if (!err)
		err = uhsfs_write_super(sb, sbi->unclean ? sbi->super.epoch : epoch);
	if (err)
		uhsfs_notice(sb, "cannot begin to write (error %d)", err);
	else if (sbi->unclean)
		err = uhsfs_recover_and_write(sb);
	if (err) {
		uhsfs_drop_dslots(sb);
		/* A remount: others may read by way of it already. */
		if (!sb->s_root)
			free_rw(sb);
		return err;
	}
	come_back(sb, false);
	return 0;
}

/* A remount: all that was written is on the device before it becomes read-only. */
int uhsfs_rw_remount(struct super_block *sb, bool readonly)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err;

	if (!readonly && rw->failed)
		return -EROFS;
	if (!readonly) {
		if (sb_rdonly(sb))
			come_back(sb, false);
		return 0;
	}
	if (sb_rdonly(sb))
		return 0;
	err = sync_filesystem(sb);
	cancel_delayed_work_sync(&rw->work);
	for (int i = 0; !err && i < 4 && uhsfs_needs_checkpoint(sb); i++)
		err = uhsfs_checkpoint(sb);
	/* It stays writable then. */
	if (err)
		come_back(sb, false);
	return err;
}

/* Nothing is left to be written by whatever goes on while it is frozen. */
int uhsfs_freeze(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err = 0;

	for (int i = 0; rw && !err && i < 4 && uhsfs_needs_checkpoint(sb); i++)
		err = uhsfs_checkpoint(sb);
	return err;
}

void uhsfs_rw_stop(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	cancel_delayed_work_sync(&rw->work);
	/* An inode that goes with a checkpoint may leave a FREE slot to write. */
	for (int i = 0; i < 4 && !rw->failed && uhsfs_needs_checkpoint(sb); i++)
		uhsfs_checkpoint(sb);
	/* An inode that went last may have asked for another one. */
	cancel_delayed_work_sync(&rw->work);
	uhsfs_drop_dslots(sb);
	free_rw(sb);
}
