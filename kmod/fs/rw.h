/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The writing side of kmod/fs.
 *
 * A change happens in memory: in the inode (attributes, extents), in the slot's names
 * (struct uhsfs_dslot) and in the buckets of directories.  It becomes durable when an
 * image of the slot is written (commit.c), by fsync or by the checkpoint (checkpoint.c),
 * in the order that core/order.c says.
 *
 * LOCKS, outer first:
 *	i_rwsem of directories and files (VFS)
 *	rw->commit_lock		one commit or checkpoint at a time
 *	rw->gate		a namespace operation, against the moment of a checkpoint
 *	info->lock		what the inode maps, buckets of a directory
 *	rw->lock		everything in struct uhsfs_rw
 * Nothing under rw->lock waits for commit_lock; evict takes info->lock and rw->lock.
 */
#ifndef UHSFS_RW_H
#define UHSFS_RW_H

#include <linux/bio.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "core/chunk.h"
#include "core/map.h"
#include "core/order.h"
#include "uhsfs.h"

/* ---- slots with changes that are not durable ------------------------------ */

/* A name of an inode in memory. */
struct uhsfs_own_name {
	struct uhsfs_claim claim;	/* name points to bytes */
	u8 bytes[UHSFS_NAME_LEN];
};

/* The first half of an operation on two slots, in the image until the second is durable (R8). */
struct uhsfs_own_intent {
	u8 op;			/* UHSFS_INTENT_... */
	u64 peer_ino;
	u32 peer_gen;
	struct uhsfs_claim claim;	/* of the peer; name points to bytes */
	u8 bytes[UHSFS_NAME_LEN];
};

/* Blocks that a slot gives up: free when it is durable with operation op (R3). */
struct uhsfs_given_up {
	struct list_head list;
	u64 op;
	u64 block;
	u32 count;
};

struct uhsfs_dslot {
	struct uhsfs_order_slot order;
	u64 ino;
	u32 gen;
	u64 nonce;
	u64 name_seq_max;
	u32 refs;		/* changes that point here */
	u64 data_op;		/* newest operation that fdatasync has to make durable */
	bool dirty;		/* counts as changed > durable: in rw->dirty */
	bool pinned;		/* holds a reference to inode */
	bool free;		/* the inode is gone, the slot is FREE */
	struct inode *inode;	/* valid unless free; a reference only if pinned */
	bool gone;		/* durably FREE: not in rw->dslots any more, but in rw->gone */
	struct list_head list;	/* rw->dirty or rw->gone */
	struct list_head given_up;

	bool names_loaded;	/* else the names are those of the slot's image */
	bool names_changed;	/* since the tree of further names was built */
	u32 name_count, name_room;
	struct uhsfs_own_name **names;
	struct uhsfs_names_root names_root;
	struct uhsfs_own_intent *intent;	/* or NULL */

	/* Of the commit that is under way. */
	bool wanted;
	u64 writing;		/* operation of the image that is being written, 0: none */
	struct list_head batch;
};

/* A change of a name, with the name. */
struct uhsfs_name_change {
	struct uhsfs_order_change change;
	u8 name[UHSFS_NAME_LEN];
};

/* ---- space ---------------------------------------------------------------- */

struct uhsfs_group {
	u64 number;
	u32 free;
	u8 zone;
	bool dirty;
	u8 next[UHSFS_GROUP_MAPS];	/* copy to write next; 2: both, for the first time */
	u8 bits[UHSFS_GROUP_BLOCKS / 8];
};

/* A block of an intent map of one of two epochs. */
struct uhsfs_marks {
	u64 first;		/* chunk */
	u64 home;
	bool dirty;
	u8 next;
	u8 bits[UHSFS_MAP_BITS / 8];
};

/* A block of the chunk table. */
struct uhsfs_table {
	u64 first;
	u64 home;
	bool dirty;
	bool urgent;		/* has a chunk whose descriptor is not durable */
	u8 next;
	u32 incarnation[UHSFS_TABLE_CHUNKS];	/* of unused numbers: the newest there was */
	/*
	 * What the superblock counts: in_use and written as of the last checkpoint.  A block
	 * that is written for a new chunk says that of the others.
	 */
	u64 settled_in_use[UHSFS_TABLE_CHUNKS];
	u16 settled_written[UHSFS_TABLE_CHUNKS];
	u64 taken[UHSFS_TABLE_CHUNKS];	/* slots in use in memory; in_use is what is durable */
	struct uhsfs_table_block block;
};

/* What bit maps and chunk table on the device come to, for the superblock. */
struct uhsfs_written {
	u64 groups_used;
	u64 chunks_used;
	u64 free_blocks;
	u64 used_slots;
};

#define UHSFS_ORDER_BITS 10

struct uhsfs_rw {
	struct super_block *sb;
	struct mutex commit_lock;
	struct mutex lock;
	u32 epoch;		/* open: of operations and seqs */
	u32 map_epoch;		/* of the map that operations mark: the same but in recovery */
	bool recovering;
	bool changed;		/* something since the newest checkpoint began */
	/*
	 * Read: a namespace operation, from its mark to its entry.  Write: the moment a
	 * checkpoint is of.  Between commit_lock and info->lock; not held over a commit.
	 */
	struct rw_semaphore gate;
	u32 counter;
	u32 marked;		/* chunks in the open epoch */
	bool hurry;		/* the work was asked to come at once */
	wait_queue_head_t settled;	/* a checkpoint has ended */
	struct list_head requests;	/* of commits */
	struct list_head waiting;	/* operations on names that let go of the gate */
	struct uhsfs_order order;
	struct list_head names[1 << UHSFS_ORDER_BITS];
	struct xarray dslots;	/* by ino */
	struct list_head dirty;
	u32 dirty_count;
	struct list_head gone;	/* of earlier generations, that changes refer to */
	struct xarray dirty_dirs;	/* inodes with dirty buckets, by ino; references */
	struct xarray groups;
	struct xarray tables;	/* by first chunk */
	struct xarray marks[2];	/* by first chunk; epoch e: e & 1 */
	u64 free_blocks;
	u64 used_slots;		/* in memory */
	u64 durable_slots;	/* as in_use of the chunk table says */
	struct uhsfs_written written;
	u64 slot_hint;		/* chunk to look for a free slot first */
	u64 goal;		/* block */
	u64 reserved;		/* blocks that delayed allocations will take */
	struct list_head discards;	/* given up durably; free after a discard */
	u8 super_next;		/* superblock copy to write next */
	bool failed;		/* a write failed: nothing is written any more */
	struct delayed_work work;
	u64 commits, checkpoints;
};

static inline struct uhsfs_rw *uhsfs_rw(const struct super_block *sb)
{
	return uhsfs_sb(sb)->rw;
}

/* ---- home.c: writing ------------------------------------------------------ */

/* Writes under way; the pages belong to it and are freed when they are written. */
struct uhsfs_writes {
	struct super_block *sb;
	bool any;		/* write since the start */
	atomic_t pending;
	struct completion done;
	spinlock_t lock;
	struct bio_list failed;	/* lock */
};

void uhsfs_writes_start(struct uhsfs_writes *writes, struct super_block *sb);

/* 0, or why one of them failed for good: it was tried several times. */
int uhsfs_writes_wait(struct uhsfs_writes *writes);

/* A zeroed page for an image; there always is one. */
struct page *uhsfs_image_page(void);

/* Write one block. */
void uhsfs_write_block(struct uhsfs_writes *writes, struct page *page, u64 block, blk_opf_t flags);

/*
 * Write a home: to copy `next`, or to both if that is 2.  seal() makes the page's image
 * one for the given block.
 */
void uhsfs_write_home(struct uhsfs_writes *writes, struct page *page, u64 home, u8 next,
		      blk_opf_t flags, void (*seal)(struct page *page, u64 block, void *ctx),
		      void *ctx);

/*
 * Make durable what was written.  What a flush that failed leaves behind nobody knows:
 * nothing is written any more then.
 */
int uhsfs_flush(struct super_block *sb);

/* The copy to write after one that was chosen or written and is durable now. */
u8 uhsfs_next_copy(struct super_block *sb, u8 written);

/* ---- epoch.c: numbers, marks, superblock ---------------------------------- */

u64 uhsfs_next_op(struct super_block *sb);
int uhsfs_mark(struct super_block *sb, u64 ino);
int uhsfs_open_epoch(struct super_block *sb);
int uhsfs_adopt_marks(struct super_block *sb);
int uhsfs_write_suspects(struct super_block *sb);
void uhsfs_write_marks(struct uhsfs_writes *writes);
void uhsfs_marks_durable(struct super_block *sb);
void uhsfs_note_written(struct super_block *sb);
int uhsfs_write_super(struct super_block *sb, u32 epoch);
void uhsfs_free_marks(struct super_block *sb);

/* ---- alloc.c: space ------------------------------------------------------- */

/*
 * Between 1 and want units of `unit` blocks each that stand together, near goal.
 * reserve: blocks that must stay free.  -ENOSPC.
 */
int uhsfs_alloc(struct super_block *sb, u64 goal, u32 want, u32 unit, u64 reserve, u64 *block,
		u32 *got);
void uhsfs_free_now(struct super_block *sb, u64 block, u32 count);
void uhsfs_give_up(struct uhsfs_dslot *dslot, u64 block, u32 count);

/* What a durable image gave up is free, or, with the option, when it is discarded. */
void uhsfs_free_run(struct super_block *sb, struct uhsfs_given_up *run);
void uhsfs_discard_given_up(struct super_block *sb);
void uhsfs_free_discards(struct super_block *sb);

/* Recovery: these blocks are in use, whatever the bit map says. */
int uhsfs_use_blocks(struct super_block *sb, u64 block, u64 count);
void uhsfs_write_groups(struct uhsfs_writes *writes);
void uhsfs_groups_durable(struct super_block *sb);
void uhsfs_free_groups(struct super_block *sb);

/* ---- chunks.c: slots ------------------------------------------------------ */

struct uhsfs_new_slot {
	u64 ino;
	u32 gen;
	u64 nonce;
	u64 name_seq_max;
};

int uhsfs_slot_alloc(struct super_block *sb, u64 near, struct uhsfs_new_slot *slot);
void uhsfs_slot_release(struct super_block *sb, u64 ino);
int uhsfs_slot_durable(struct super_block *sb, u64 ino, bool in_use);
int uhsfs_slot_found(struct super_block *sb, u64 ino, bool in_use);
int uhsfs_drop_unused_chunks(struct super_block *sb);
int uhsfs_chunks_found(struct super_block *sb, u64 end);
int uhsfs_slot_chunk(struct super_block *sb, u64 ino, struct uhsfs_chunk_info *chunk,
		     bool *written);
void uhsfs_write_tables(struct uhsfs_writes *writes, bool all);
void uhsfs_tables_durable(struct super_block *sb);
void uhsfs_free_tables(struct super_block *sb);
int uhsfs_table_get(struct super_block *sb, u64 chunk, struct uhsfs_chunk_info *info);

/* ---- dslot.c -------------------------------------------------------------- */

struct uhsfs_dslot *uhsfs_dslot_find(struct super_block *sb, u64 ino);
struct uhsfs_dslot *uhsfs_dslot_get(struct inode *inode);
int uhsfs_touch(struct inode *inode);

/* Only times changed, which fdatasync need not make durable. */
int uhsfs_touch_times(struct inode *inode);

/* Is there something that fsync or fdatasync has to commit? */
bool uhsfs_is_dirty(struct inode *inode, bool data);
int uhsfs_touch_locked(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op);
void uhsfs_dslot_durable(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op,
			 struct list_head *unpin);
void uhsfs_dslot_maybe_free(struct super_block *sb, struct uhsfs_dslot *dslot);
int uhsfs_load_names(struct inode *inode);
struct uhsfs_own_name *uhsfs_own_name(struct uhsfs_dslot *dslot, const struct uhsfs_claim *claim);
void uhsfs_drop_dslots(struct super_block *sb);

/* The descriptor on the device, in whatever state it is; not from memory. */
int uhsfs_chunk_on_device(struct super_block *sb, u64 number, struct uhsfs_chunk_info *chunk);
int uhsfs_in_memory(struct super_block *sb, u64 ino, u32 gen, const struct uhsfs_claim *claim);

/* ---- commit.c, checkpoint.c ----------------------------------------------- */

/* Commit the slot's newest image and what it waits for. */
int uhsfs_commit(struct super_block *sb, u64 ino);
int uhsfs_commit_all(struct super_block *sb);
int uhsfs_commit_entries(struct inode *dir);
int uhsfs_checkpoint(struct super_block *sb);

/* More is dirty: start a checkpoint if one is due.  rw->lock is held. */
void uhsfs_hurry(struct super_block *sb);

/* Wait as long as far too much is dirty; without any lock of ours. */
void uhsfs_balance(struct super_block *sb);
int uhsfs_freeze(struct super_block *sb);
bool uhsfs_needs_checkpoint(struct super_block *sb);
int uhsfs_rw_start(struct super_block *sb);

/* replay.c: recovery that writes; part of uhsfs_rw_start(). */
int uhsfs_recover_and_write(struct super_block *sb);

void uhsfs_rw_stop(struct super_block *sb);
int uhsfs_rw_remount(struct super_block *sb, bool readonly);
void uhsfs_rw_fail(struct super_block *sb, const char *what, int err);

/* ---- bucket.c ------------------------------------------------------------- */

int uhsfs_dir_insert_entry(struct inode *dir, const struct qstr *name, u64 ino, u32 gen, u8 type);
void uhsfs_dir_remove_entry(struct inode *dir, const struct qstr *name, u64 ino, u32 gen);
int uhsfs_dir_create(struct inode *dir);
int uhsfs_write_new_buckets(struct inode *dir, struct uhsfs_writes *writes);

/* Images of buckets of one moment; see checkpoint.c. */
struct uhsfs_bucket_images {
	struct list_head fresh;		/* that the device does not know */
	struct list_head old;
};

int uhsfs_snapshot_buckets(struct inode *dir, struct uhsfs_bucket_images *images);
void uhsfs_write_images(struct list_head *images, struct uhsfs_writes *writes);
bool uhsfs_buckets_durable(struct inode *dir);

/* True if the slot has to say something new. */
bool uhsfs_publish(struct inode *dir);
void uhsfs_drop_buckets(struct inode *dir);

/* ---- map.c: extents in memory --------------------------------------------- */

int uhsfs_load_extents(struct inode *inode);

/* Room for more extents than there are; info->lock is held. */
int uhsfs_list_room(struct inode *inode, u32 more);
int uhsfs_room_in(struct inode *inode, struct uhsfs_extent_list *list, u32 more);

/* ---- delay.c: blocks of files; info->lock is held ------------------------- */

/* Map a hole that begins at `logical` to unwritten blocks, 1 to len. */
int uhsfs_take_blocks(struct inode *inode, u64 logical, u64 len, struct uhsfs_ext *ext);

/* Promise blocks for a hole: 1 to len of them, or -ENOSPC. */
int uhsfs_delay(struct inode *inode, u64 logical, u64 len, u32 *got);

/* Are blocks promised there?  *len: for how many, or how many not. */
bool uhsfs_delayed_lookup(struct inode *inode, u64 logical, u64 *len);

/* Take back what was promised in a range. */
void uhsfs_undelay(struct inode *inode, u64 logical, u64 len);

/* Keep 1 to `want` promises from `logical` on: unwritten blocks.  -ENODATA: none was made. */
int uhsfs_take_delayed(struct inode *inode, u64 logical, u64 want, struct uhsfs_ext *ext);

/* ---- inline.c ------------------------------------------------------------- */

u32 uhsfs_inline_max(struct inode *inode);

/* Fill a locked folio; false: the file is not in its slot. */
bool uhsfs_read_inline(struct folio *folio);

/* Both: -EFBIG if the file cannot be in its slot; i_rwsem is held. */
ssize_t uhsfs_write_inline(struct kiocb *iocb, struct iov_iter *from);
int uhsfs_truncate_inline(struct inode *inode, loff_t size);

/* Give the file a block with this content, written; info->lock is held. */
int uhsfs_first_block(struct inode *inode, const void *data, u32 len);
int uhsfs_uninline(struct inode *inode);

/* ---- build.c: images ------------------------------------------------------ */

/* Build the image of a slot; nodes of trees that it needs are written with `writes`. */
int uhsfs_compose(struct uhsfs_dslot *dslot, void *image, struct uhsfs_writes *writes);
int uhsfs_give_up_tree(struct super_block *sb, struct uhsfs_dslot *dslot, struct inode *inode,
		       const void *root, bool names, u32 *count);

/* The slot's block as last written: up to date, with a reference. */
struct folio *uhsfs_slot_block(struct super_block *sb, u64 ino,
			       const struct uhsfs_chunk_info *chunk);

/* Copy the used part of an image to the inode. */
int uhsfs_keep_image(struct uhsfs_inode_info *info, const struct uhsfs_slot_view *view);

/* ---- names.c -------------------------------------------------------------- */

/* One thing that an operation does to a name; see enum uhsfs_order_kind. */
struct uhsfs_name_step {
	enum uhsfs_order_kind kind;
	struct inode *inode;	/* whose name, or the peer */
	struct inode *other;	/* who took it or was replaced; INTENT, PEER: the other half */
	struct inode *dir;
	const struct qstr *name;
	bool born;		/* this is a new inode */
	u8 intent;		/* INTENT: UHSFS_INTENT_... */
};

#define UHSFS_NAME_STEPS 6

/*
 * An operation: departures, then claims, then INTENT and PEER.  The caller has references
 * to the inodes, their i_rwsem where names change, and the gate, which may be let go of and
 * taken again.  i_nlink of inodes that gain or lose names follows, not that of directories
 * they are in.
 */
int uhsfs_change_names(struct super_block *sb, const struct uhsfs_name_step *steps, u32 count);

/*
 * Before an entry for the inode stands in a bucket, which may be written at any time: after
 * a crash its chunk is suspect then, and the entry has to be confirmed.
 */
int uhsfs_announce(struct inode *inode);

/* A new epoch: mark what operations that wait will change.  rw->lock is held. */
int uhsfs_mark_waiting(struct super_block *sb);
void uhsfs_remove_own(struct uhsfs_dslot *dslot, struct uhsfs_own_name *own);
int uhsfs_drop_intent(struct inode *inode);

/* ---- evict.c -------------------------------------------------------------- */

/* The inode has no name and nobody uses it: its slot becomes FREE. */
void uhsfs_free_evicted(struct inode *inode);
void uhsfs_forget_dslot(struct inode *inode);
bool uhsfs_freed_in_memory(struct super_block *sb, u64 ino);

/* ---- create.c, rename.c, write.c ------------------------------------------ */

/* A new inode, in the cache and locked, with the mode that the directory gives it. */
struct inode *uhsfs_new_inode(struct uhsfs_idmap *idmap, struct inode *dir, umode_t mode);

/* It gets no name. */
void uhsfs_abandon(struct inode *inode);
int uhsfs_set_up_new(struct inode *inode, dev_t dev, const char *target);

/* Nothing of a directory without a name needs to go to the device any more. */
void uhsfs_forget_dir(struct inode *inode);

/* Times of a directory, and of an inode in it, after a change of names. */
void uhsfs_names_changed(struct inode *dir, struct inode *inode);

extern struct workqueue_struct *uhsfs_wq;	/* checkpoints */
extern struct workqueue_struct *uhsfs_io_wq;	/* ends of I/O */
void uhsfs_ioend_work(struct work_struct *work);
int uhsfs_iomap_write(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
		      struct iomap *iomap);
int uhsfs_setattr(struct uhsfs_idmap *idmap, struct dentry *dentry, struct iattr *attr);
ssize_t uhsfs_write_iter(struct kiocb *iocb, struct iov_iter *from);
int uhsfs_file_mmap(struct file *file, struct vm_area_struct *vma);
int uhsfs_writepages(struct address_space *mapping, struct writeback_control *wbc);
int uhsfs_write_end(struct inode *inode, loff_t offset, ssize_t written, unsigned int flags,
		    const struct iomap *iomap);
int uhsfs_create(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode,
		 bool excl);
int uhsfs_mknod(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode,
		dev_t dev);
int uhsfs_mkdir(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode);
int uhsfs_symlink(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry,
		  const char *target);
int uhsfs_tmpfile(struct uhsfs_idmap *idmap, struct inode *dir, struct file *file, umode_t mode);
int uhsfs_link(struct dentry *old, struct inode *dir, struct dentry *dentry);
int uhsfs_unlink(struct inode *dir, struct dentry *dentry);
int uhsfs_rmdir(struct inode *dir, struct dentry *dentry);
int uhsfs_rename(struct uhsfs_idmap *idmap, struct inode *old_dir, struct dentry *old,
		 struct inode *new_dir, struct dentry *new, unsigned int flags);
int uhsfs_sync_fs(struct super_block *sb, int wait);

#endif /* UHSFS_RW_H */
