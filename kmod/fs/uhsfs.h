/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal interface of kmod/fs: what its files offer one another.
 *
 * WHERE METADATA STANDS IN MEMORY.  All of it is in the page cache, can be reclaimed,
 * and is never seen through the block device's own mapping:
 *
 *	sbi->slots	slot blocks, by ino / slots per block
 *	sbi->tables	the chunk table, by device block
 *	sbi->meta	tree nodes and attribute blocks, by device block
 *	a directory	its buckets, by logical block
 *
 * A folio holds the copy of a home that counts.  It is checked once, when it is read;
 * tree nodes and attribute blocks, whose right content depends on who points to them,
 * are checked each time (and hence stand in a mapping of their own).
 *
 * AN INODE holds a checked copy of its slot (uhsfs_inode_info.view), which does not
 * change as long as the filesystem is mounted read-only.
 */
#ifndef UHSFS_H
#define UHSFS_H

#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/fs_parser.h>
#include <linux/kobject.h>
#include <linux/ratelimit.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat/compat.h"
#include "core/dir.h"
#include "core/etree.h"
#include "core/names.h"
#include "core/recover.h"
#include "core/slot.h"
#include "core/super.h"

struct fileattr;
struct fs_context;
struct uhsfs_rw;
struct uhsfs_overlay;

/* ---- the mounted filesystem ------------------------------------------------ */

#define UHSFS_CHECKPOINT_SECONDS 5
#define UHSFS_CHECKPOINT_MAX 300

struct uhsfs_options {
	u8 errors;		/* UHSFS_ERRORS_...; what the superblock says unless: */
	bool has_errors;
	bool norecovery;
	u32 checkpoint;		/* seconds; the default unless: */
	bool has_checkpoint;
	bool discard;
	bool has_discard;
};

struct uhsfs_sb_info {
	struct super_block *sb;
	struct uhsfs_super_info super;	/* as read at mount; of a mount that writes: rw->lock */
	int super_copy;			/* which of the two that was */
	struct uhsfs_options options;
	struct inode *slots;		/* see above */
	struct inode *tables;
	struct inode *meta;

	/*
	 * What the maps said at mount; constant.  Sets of chunks: bit maps by the first
	 * chunk of their block in the map, only those with bits set.
	 * unclean: some intent map is newer than the superblock's epoch.
	 * suspect_all: the suspect map cannot be read.
	 * crashed: there was a crash since the last scrub, so that a home that recovery
	 * need not look at may have a copy that is torn.
	 * blind (norecovery): the maps were not read; every chunk may be marked.
	 */
	struct xarray marked;
	struct xarray suspect;
	bool unclean;
	u32 live_epoch;		/* newest of the live maps */
	bool suspect_all;
	bool crashed;
	bool blind;
	struct uhsfs_overlay *overlay;	/* what recovery made of it, or NULL */

	struct uhsfs_rw *rw;		/* NULL: read-only */
	struct rw_semaphore slots_sem;	/* write: a folio of `slots` gets a new image */

	struct ratelimit_state messages;
	atomic64_t corruptions;		/* damage reported since mount */
	atomic64_t commits_r4, commits_r6, commits_r8;	/* by operations on names, for a rule */
	struct kobject kobj;		/* /sys/fs/uhsfs/<s_id> */
	struct completion kobj_gone;
};

static inline struct uhsfs_sb_info *uhsfs_sb(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline const struct uhsfs_geometry *uhsfs_geo(const struct super_block *sb)
{
	return &uhsfs_sb(sb)->super.geo;
}

/* ---- inodes ------------------------------------------------------------------ */

struct uhsfs_inode_info {
	/*
	 * The slot's newest image: header and records, with the pointers of view into it.
	 * Constant in a filesystem that is mounted read-only; else written with the lock.
	 */
	struct rw_semaphore lock;
	void *image;
	struct uhsfs_slot_view view;
	struct uhsfs_dir_info dir;	/* of a directory, in memory; i_rwsem */

	/*
	 * Of a filesystem that is written to.  list: all extents, once something maps or
	 * unmaps a block; else those of the image count.  disk_size: what an image may say,
	 * as the data behind it may not be on the device.  All under the lock.
	 */
	struct uhsfs_extent_list list;
	bool list_loaded;
	u64 map_seq;		/* rises with each change of the list */
	bool list_changed;	/* since the tree in the image was built */
	u64 disk_size;

	/*
	 * A directory: what an image may say of it, as its new buckets are on the device;
	 * dirty buckets by logical block, each with a reference; never written: XA_MARK_0.
	 */
	struct uhsfs_dir_info published, publishing;
	struct uhsfs_extent *pub, *pubbing;
	u32 pub_count, pubbing_count;
	bool pub_changed;
	struct xarray buckets;

	/*
	 * A regular file with its data in the slot: see inline.c.  inline_copy has the size
	 * of a slot and stays as long as the inode.  no_inline: i_rwsem.
	 */
	void *inline_copy;
	bool inlined;
	bool no_inline;

	/* It replaced another one by rename: its next image has the data of that moment (R4b). */
	bool data_first;
	/* It was cut to nothing: what follows is written when it is closed. */
	bool emptied;

	/* Blocks that are promised but not chosen: see delay.c. */
	struct uhsfs_extent_list delayed;
	u64 delayed_blocks;

	/* Data that was written and waits for its extents to say so. */
	spinlock_t ioend_lock;
	struct list_head ioends;
	struct work_struct ioend_work;

	struct list_head unpin;	/* of a commit that drops its reference */
	struct list_head held;	/* of the round of a commit that has one */
	struct inode vfs_inode;
};

static inline struct uhsfs_inode_info *uhsfs_i(const struct inode *inode)
{
	return container_of(inode, struct uhsfs_inode_info, vfs_inode);
}

/* inode.c */
int uhsfs_inode_cache_init(void);
void uhsfs_inode_cache_exit(void);
struct inode *uhsfs_alloc_inode(struct super_block *sb);
void uhsfs_free_inode(struct inode *inode);
void uhsfs_evict_inode(struct inode *inode);

/* An inode in use, or -ENOENT, -EUCLEAN (reported), -EIO (reported), -ENOMEM. */
struct inode *uhsfs_iget(struct super_block *sb, u64 ino);


/* The same if its generation is gen, else -ESTALE: for what may be out of date. */
struct inode *uhsfs_iget_generation(struct super_block *sb, u64 ino, u32 gen);

int uhsfs_getattr(struct uhsfs_idmap *idmap, const struct path *path, struct kstat *stat,
		  u32 request_mask, unsigned int flags);
int uhsfs_fileattr_get(struct dentry *dentry, struct fileattr *fa);

/* ---- block.c: reading metadata ------------------------------------------------ */

/*
 * How to check one copy of a home: embedded in a structure with what the check has to
 * know.  check(): the copy read from `block`; 0 and *seq, or -EUCLEAN and the fault.
 */
struct uhsfs_home {
	u64 block;		/* first block of the home */
	const char *object;	/* for messages: what it is and its number */
	u64 id;
	u32 record_size;	/* bytes of each record in it */
	bool torn_ok;		/* an invalid copy beside a valid one may be a torn write */
	int (*check)(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
		     struct uhsfs_fault *fault);
};

/*
 * The folio of a home, up to date, with a reference.  -EUCLEAN and -EIO are reported.
 * quiet: perhaps it was never written; -ENODATA if there is no valid copy.
 */
struct folio *uhsfs_read_home(struct super_block *sb, struct address_space *mapping, pgoff_t index,
			      const struct uhsfs_home *home, bool quiet);

/* The folio of one block in sbi->meta, up to date but not checked, with a reference. */
struct folio *uhsfs_read_block(struct super_block *sb, u64 block);

/* Read count blocks into as many pages, past all caches.  Not reported. */
int uhsfs_read_pages(struct super_block *sb, u64 block, struct page **pages, unsigned int count);

/*
 * Read `count` homes that stand one behind the other, past all caches, and call each()
 * with the index of every one and its image that counts, or an error: -EUCLEAN or, if
 * there is no valid copy, -ENODATA, with the fault; -EIO.  The home's block and what
 * else its check needs is set by prepare().  each() and prepare() may end it with an
 * error.
 */
struct uhsfs_home_scan {
	struct uhsfs_home *home;
	int (*prepare)(struct uhsfs_home_scan *scan, u32 index);
	int (*each)(struct uhsfs_home_scan *scan, u32 index, const void *image, int err,
		    const struct uhsfs_fault *fault);
	bool torn;	/* for each(): the image counts, but the other copy is torn */
};

int uhsfs_scan_homes(struct super_block *sb, u64 block, u32 count, struct uhsfs_home_scan *scan);

/* An internal inode whose mapping holds metadata of `pages` pages. */
struct inode *uhsfs_internal_inode(struct super_block *sb);

/* Metadata mapping: no reclaim into the filesystem, no highmem. */
extern const struct address_space_operations uhsfs_meta_aops;
void uhsfs_meta_mapping(struct address_space *mapping);

/* ---- slot.c: chunks and slots --------------------------------------------------- */

/* The block of the chunk table that has a chunk. */
struct folio *uhsfs_table_folio(struct super_block *sb, u64 chunk);

/* -ENOENT: never made, or past the last chunk. */
int uhsfs_chunk_get(struct super_block *sb, u64 number, struct uhsfs_chunk_info *chunk);

struct uhsfs_slot_home {
	struct uhsfs_home home;
	const struct uhsfs_geometry *geo;
	u64 first_ino;
	u64 nonce;
};

/* The home of the block of slots from first_ino on. */
void uhsfs_slot_home_init(struct super_block *sb, struct uhsfs_slot_home *home, u64 first_ino,
			  const struct uhsfs_chunk_info *chunk);

/*
 * A slot as last written, FREE ones too; view points into the folio until
 * uhsfs_slot_done().  -ENOENT: there is no such slot, or its block was never written.
 */
void uhsfs_slot_done(struct super_block *sb, struct folio *folio);
int uhsfs_slot_get(struct super_block *sb, u64 ino, struct uhsfs_slot_view *view,
		   struct folio **folio);

/* ---- node.c: nodes of trees ---------------------------------------------------- */

/* Context of uhsfs_tree_ops: the nodes an operation has read. */
struct uhsfs_nodes {
	struct super_block *sb;
	struct uhsfs_node_batch *batch;
	u32 count;
};

extern const struct uhsfs_tree_ops uhsfs_node_ops;
void uhsfs_nodes_init(struct uhsfs_nodes *nodes, struct super_block *sb);
void uhsfs_nodes_release(struct uhsfs_nodes *nodes);

/* Report how an operation on a tree of inode ino failed; returns err. */
int uhsfs_tree_failed(struct super_block *sb, u64 ino, int err, const struct uhsfs_tree *tree);

/* ---- extent.c, file.c ------------------------------------------------------------ */

int uhsfs_fsync(struct file *file, loff_t start, loff_t end, int datasync);

/* What a logical block maps to: 1 and *ext, 0 (a hole) or an error; *len blocks of it. */
int uhsfs_extent_lookup(struct inode *inode, u64 logical, struct uhsfs_ext *ext, u64 *len);

extern const struct iomap_ops uhsfs_iomap_ops;
extern const struct address_space_operations uhsfs_aops;
extern const struct file_operations uhsfs_file_operations;
extern const struct inode_operations uhsfs_file_inode_operations;

/* ---- dir.c, namei.c -------------------------------------------------------------- */

/*
 * Offer found() the entries of that name in the index, one after the other, until it
 * returns something else than 0, which is returned.
 */
int uhsfs_dir_find(struct inode *dir, const struct qstr *name,
		   int (*found)(void *ctx, const struct uhsfs_dirent *e), void *ctx);

/*
 * A walk along the chain of a bucket.  Start with uhsfs_chain_start(), end with
 * uhsfs_chain_end().
 */
struct uhsfs_chain {
	struct inode *dir;
	struct uhsfs_bucket_at at;
	u64 logical;		/* block to read next; valid unless done */
	bool done;
	struct folio *folio;	/* of `bucket`, or NULL */
	const struct uhsfs_bucket *bucket;	/* the block at position `position` */
	u32 position;
};

void uhsfs_chain_start(struct uhsfs_chain *chain, struct inode *dir, u32 bucket);
void uhsfs_chain_end(struct uhsfs_chain *chain);

/* The next block in chain->bucket: 1, 0 at the end, or an error. */
int uhsfs_chain_next(struct uhsfs_chain *chain);

/* Go to a position that was there a moment ago. */
int uhsfs_chain_seek(struct uhsfs_chain *chain, u32 bucket, u32 position);

/* 1 if the directory has any entry, 0 if none, or an error. */
int uhsfs_dir_any(struct inode *dir);

/* Gather what inserting an entry has to know. */
int uhsfs_dir_probe(struct inode *dir, struct uhsfs_dir_probe *probe);

/* Entries and subdirectories in fact. */
int uhsfs_dir_count(struct inode *dir, u64 *entries, u32 *subdirs);

/* 1: slot ino of that generation has the name in the directory; 0; or an error. */
int uhsfs_confirm(struct inode *dir, u64 ino, u32 gen, const u8 *name, u8 len);

/* The (one) name of a directory: its parent, without the name itself. */
bool uhsfs_dir_name(struct inode *dir, struct uhsfs_claim *claim);

extern const struct file_operations uhsfs_dir_operations;
extern const struct inode_operations uhsfs_dir_inode_operations;
extern const struct inode_operations uhsfs_symlink_inode_operations;
extern const struct inode_operations uhsfs_long_symlink_inode_operations;
extern const struct inode_operations uhsfs_special_inode_operations;

/* ---- xattr.c, export.c ------------------------------------------------------------ */

extern const struct xattr_handler *UHSFS_XATTR_TABLE uhsfs_xattr_handlers[];
ssize_t uhsfs_listxattr(struct dentry *dentry, char *buffer, size_t size);
struct posix_acl *uhsfs_get_acl(struct inode *inode, int type, bool rcu);

extern const struct export_operations uhsfs_export_operations;

/* ---- maps.c, recover.c, overlay.c: recovery of a read-only mount, in memory ---------- */

/* Read the intent and suspect maps. */
int uhsfs_load_maps(struct super_block *sb);
void uhsfs_free_maps(struct uhsfs_sb_info *sbi);

/* Which copy of a chunk's map block is written next (of two homes). */
int uhsfs_map_next_copy(struct super_block *sb, u64 chunk, unsigned int which, u8 *next);

/* May the chunk have changed since the last checkpoint?  Do entries into it need proof? */
bool uhsfs_chunk_marked(struct uhsfs_sb_info *sbi, u64 chunk);
bool uhsfs_chunk_suspect(struct uhsfs_sb_info *sbi, u64 chunk);

/* The first marked chunk from `chunk` on: true and the number. */
bool uhsfs_next_marked(struct uhsfs_sb_info *sbi, u64 *chunk);

/* Work out what recovery would do to an unclean filesystem, and keep it in sbi->overlay. */
int uhsfs_recover_in_memory(struct super_block *sb);

/* What recovery makes of an inode. */
struct uhsfs_overlay_slot {
	bool freed;
	bool made;		/* FREE on disk, now a whiteout of `generation` */
	u32 generation;
	s32 nlink;		/* to be added to the slot's */
	u32 lost_count;
	struct uhsfs_claim gained;	/* a name that it has besides; len 0: none */
	struct uhsfs_claim lost[];	/* names that it has no longer */
};

/* A name that recovery inserts into a directory whose index lacks it. */
struct uhsfs_overlay_name {
	u64 dir;
	u64 ties[UHSFS_COOKIE_TIES / 64];	/* tie-breakers of its hash in the index */
	struct uhsfs_dirent entry;
};

/* Constant once it is in sbi->overlay. */
struct uhsfs_overlay {
	struct xarray slots;	/* struct uhsfs_overlay_slot by ino */
	struct uhsfs_overlay_name *names;	/* by directory and cookie, each pair once */
	u32 count;
	u32 room;
	struct uhsfs_name_pool *pool;	/* the bytes of names */
};

struct uhsfs_overlay *uhsfs_overlay_alloc(void);
void uhsfs_overlay_free(struct uhsfs_overlay *overlay);

/* A copy of a name, as long as the overlay lives; NULL: no memory. */
const u8 *uhsfs_overlay_keep(struct uhsfs_overlay *overlay, const u8 *name, u8 len);

/* Append a name; when all are there, sort them. */
int uhsfs_overlay_add(struct uhsfs_overlay *overlay, const struct uhsfs_overlay_name *name);
void uhsfs_overlay_sort(struct super_block *sb, struct uhsfs_overlay *overlay);

/* NULL: nothing happens to it. */
const struct uhsfs_overlay_slot *uhsfs_overlay_slot(struct super_block *sb, u64 ino);
bool uhsfs_same_name(const struct uhsfs_claim *a, const struct uhsfs_claim *b);
bool uhsfs_overlay_lost(const struct uhsfs_overlay_slot *slot, const struct uhsfs_claim *claim);

/* The first name inserted into a directory with a cookie >= from, or NULL. */
const struct uhsfs_dirent *uhsfs_overlay_next(struct super_block *sb, u64 dir, u64 from);

/* ---- message.c ---------------------------------------------------------------------- */

/*
 * One line in the kernel log that names the device.  uhsfs_err() is for what the
 * filesystem could not do, limited in number; uhsfs_notice() is never left out;
 * uhsfs_corrupt() is for damage: it counts and applies errors=.
 */
__printf(2, 3) void uhsfs_err(struct super_block *sb, const char *format, ...);
__printf(2, 3) void uhsfs_notice(struct super_block *sb, const char *format, ...);

/* Report a fault about inode ino (0: none); returns -EUCLEAN. */
int uhsfs_fault(struct super_block *sb, u64 ino, const struct uhsfs_fault *fault);

/* Damage in words that no check of one structure finds; returns -EUCLEAN. */
int uhsfs_corrupt(struct super_block *sb, u64 ino, const char *field, u64 value, u64 limit,
		  const char *rule);

/* ---- super.c, options.c, sysfs.c ------------------------------------------------------ */

extern struct file_system_type uhsfs_type;

extern const struct fs_parameter_spec uhsfs_parameters[];
int uhsfs_parse_param(struct fs_context *fc, struct fs_parameter *param);
int uhsfs_show_options(struct seq_file *seq, struct dentry *root);

int uhsfs_sysfs_init(void);
void uhsfs_sysfs_exit(void);
int uhsfs_sysfs_add(struct super_block *sb);
void uhsfs_sysfs_remove(struct super_block *sb);

#endif /* UHSFS_H */
