// SPDX-License-Identifier: GPL-2.0
/*
 * Directories as the index they are: buckets in the directory's own mapping, finding a
 * name, and walking all entries in order of cookies.
 *
 * The VFS holds the directory's lock, shared at least.  An entry is a hint: finding asks
 * the slot always (namei.c), walking only where the entry points into a chunk that is
 * marked or suspect.  What recovery would insert (overlay.c) is part of a directory.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "uhsfs.h"

/* ---- chains of blocks ------------------------------------------------------------ */

struct bucket_home {
	struct uhsfs_home home;
	const struct uhsfs_geometry *geo;
	const struct uhsfs_bucket_at *at;
};

static int bucket_check(const struct uhsfs_home *home, const void *image, u64 block, u64 *seq,
			struct uhsfs_fault *fault)
{
	const struct bucket_home *bucket = container_of(home, struct bucket_home, home);
	const struct uhsfs_bucket *raw = image;
	struct uhsfs_bucket_at at = *bucket->at;

	at.block = block;
	*seq = le64_to_cpu(raw->h.seq);
	return uhsfs_bucket_check(raw, bucket->geo, &at, fault);
}

/* The device block of the home that is logical block `logical`. */
static int bucket_block(struct inode *dir, u64 logical, u64 *block)
{
	struct uhsfs_ext ext;
	u64 len;
	int found;

	down_read(&uhsfs_i(dir)->lock);
	found = uhsfs_extent_lookup(dir, logical, &ext, &len);
	up_read(&uhsfs_i(dir)->lock);
	if (found < 0)
		return found;
	if (!found || ext.flags & UHSFS_EXT_UNWRITTEN)
		return uhsfs_corrupt(dir->i_sb, dir->i_ino, "bucket's extent", logical, logical,
				     "a bucket's block must be mapped");
	*block = ext.physical + (logical - ext.logical) * uhsfs_geo(dir->i_sb)->homes;
	return 0;
}

void uhsfs_chain_start(struct uhsfs_chain *chain, struct inode *dir, u32 bucket)
{
	*chain = (struct uhsfs_chain) {
		.dir = dir,
		.logical = bucket,
		.at = {
			.dir_ino = dir->i_ino,
			.dir_gen = dir->i_generation,
			.bucket = bucket,
			.overflow = uhsfs_i(dir)->dir.overflow,
		},
	};
}

void uhsfs_chain_end(struct uhsfs_chain *chain)
{
	if (chain->folio)
		folio_put(chain->folio);
	chain->folio = NULL;
}

/* A block found in the cache was checked, but perhaps as part of another chain. */
static int check_place(struct uhsfs_chain *chain)
{
	const struct uhsfs_bucket *b = chain->bucket;

	if (le32_to_cpu(b->bucket) == chain->at.bucket &&
	    le32_to_cpu(b->position) == chain->at.position)
		return 0;
	return uhsfs_corrupt(chain->dir->i_sb, chain->dir->i_ino, "block of bucket",
			     chain->at.bucket, le32_to_cpu(b->bucket),
			     "must not stand in two chains");
}

/* The next block in chain->bucket: 1, 0 at the end, or an error. */
int uhsfs_chain_next(struct uhsfs_chain *chain)
{
	struct super_block *sb = chain->dir->i_sb;
	struct address_space *mapping = chain->dir->i_mapping;
	struct bucket_home home = {
		.home = {
			.object = "directory",
			.id = chain->dir->i_ino,
			.record_size = UHSFS_BLOCK_SIZE,
			.torn_ok = uhsfs_sb(sb)->crashed,
			.check = bucket_check,
		},
		.geo = uhsfs_geo(sb),
		.at = &chain->at,
	};
	int err;

	uhsfs_chain_end(chain);
	if (chain->done)
		return 0;
	/* A hostile chain is as long as the device has blocks. */
	if (!uhsfs_sb(sb)->rw && fatal_signal_pending(current))
		return -EINTR;
	cond_resched();
	chain->folio = uhsfs_find_folio(mapping, chain->logical);
	if (chain->folio && !folio_test_uptodate(chain->folio))
		uhsfs_chain_end(chain);
	if (!chain->folio) {
		struct folio *folio;

		err = bucket_block(chain->dir, chain->logical, &home.home.block);
		if (err)
			return err;
		folio = uhsfs_read_home(sb, mapping, chain->logical, &home.home, false);
		if (IS_ERR(folio))
			return PTR_ERR(folio);
		chain->folio = folio;
	}
	folio_mark_accessed(chain->folio);
	chain->bucket = folio_address(chain->folio);
	err = check_place(chain);
	if (err)
		return err;
	chain->position = chain->at.position;
	chain->logical = uhsfs_bucket_next(chain->bucket, &chain->at);
	chain->done = !chain->logical;
	return 1;
}

/* Go to a position of a bucket's chain that was there a moment ago. */
int uhsfs_chain_seek(struct uhsfs_chain *chain, u32 bucket, u32 position)
{
	int more = 1;

	if (chain->folio && chain->at.bucket == bucket && chain->position == position)
		return 0;
	if (!chain->folio || chain->at.bucket != bucket || chain->position > position) {
		struct inode *dir = chain->dir;

		uhsfs_chain_end(chain);
		uhsfs_chain_start(chain, dir, bucket);
	}
	while (more > 0) {
		more = uhsfs_chain_next(chain);
		if (more > 0 && chain->position == position)
			return 0;
	}
	return more ?: uhsfs_corrupt(chain->dir->i_sb, chain->dir->i_ino, "bucket's chain",
				     position, chain->position, "must not become shorter");
}

/* ---- finding a name ---------------------------------------------------------------- */

static int find_in_block(const struct uhsfs_bucket *b, u64 hash, const struct qstr *name,
			 int (*found)(void *ctx, const struct uhsfs_dirent *e), void *ctx)
{
	u32 from = 0;
	int ret = 0;

	while (!ret) {
		struct uhsfs_dirent e;
		int at = uhsfs_bucket_find(b, from, hash, name->name, name->len);

		if (at < 0 || !uhsfs_bucket_get(b, at, &e))
			break;
		ret = found(ctx, &e);
		from = at + uhsfs_dirent_size(e.len);
	}
	return ret;
}

int uhsfs_dir_find(struct inode *dir, const struct qstr *name,
		   int (*found)(void *ctx, const struct uhsfs_dirent *e), void *ctx)
{
	u64 hash = uhsfs_dir_hash(uhsfs_geo(dir->i_sb), name->name, name->len);
	struct uhsfs_chain chain;
	int ret;

	uhsfs_chain_start(&chain, dir, uhsfs_dir_bucket(hash, uhsfs_i(dir)->dir.buckets));
	while ((ret = uhsfs_chain_next(&chain)) > 0) {
		ret = find_in_block(chain.bucket, hash, name, found, ctx);
		if (ret)
			break;
	}
	uhsfs_chain_end(&chain);
	return ret;
}

int uhsfs_dir_probe(struct inode *dir, struct uhsfs_dir_probe *probe)
{
	struct uhsfs_chain chain;
	int more;

	uhsfs_chain_start(&chain, dir, uhsfs_dir_bucket(probe->hash, uhsfs_i(dir)->dir.buckets));
	while ((more = uhsfs_chain_next(&chain)) > 0)
		uhsfs_dir_probe_block(probe, chain.bucket);
	uhsfs_chain_end(&chain);
	return more;
}

/* ---- walking ------------------------------------------------------------------------ */

#define WALK_REFS 128

/*
 * All entries with cookies from pos on, in order.  each() may stop the walk with
 * something else than 0, which is returned; pos is then the cookie of that entry.
 */
struct walk {
	struct inode *dir;
	u64 pos;
	int (*each)(struct walk *walk, const struct uhsfs_dirent *e);
	void *ctx;
	struct uhsfs_chain chain;
	struct uhsfs_dir_scan scan;
	struct uhsfs_dir_ref refs[WALK_REFS];
};

static bool needs_confirming(struct super_block *sb, u64 ino)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	u64 chunk = uhsfs_ino_chunk(&sbi->super.geo, ino);

	return uhsfs_chunk_marked(sbi, chunk) || uhsfs_chunk_suspect(sbi, chunk);
}

/* Entries that recovery would insert, with cookies below `end`. */
static int walk_overlay(struct walk *walk, u64 end)
{
	const struct uhsfs_dirent *e;
	int ret = 0;

	while (!ret) {
		e = uhsfs_overlay_next(walk->dir->i_sb, walk->dir->i_ino, walk->pos);
		if (!e || e->cookie >= end)
			break;
		walk->pos = e->cookie;
		ret = walk->each(walk, e);
		if (!ret)
			walk->pos++;
	}
	return ret;
}

static int walk_ref(struct walk *walk, const struct uhsfs_dir_ref *ref)
{
	struct inode *dir = walk->dir;
	struct uhsfs_dirent e;
	int ret;

	ret = walk_overlay(walk, ref->cookie);
	/* The same cookie again is what a crash left of an entry that moved. */
	if (ret || ref->cookie < walk->pos)
		return ret;
	ret = uhsfs_chain_seek(&walk->chain, walk->scan.bucket, ref->position);
	if (ret)
		return ret;
	if (!uhsfs_bucket_get(walk->chain.bucket, ref->offset, &e))
		return uhsfs_corrupt(dir->i_sb, dir->i_ino, "entry's offset", ref->offset, 0,
				     "must not become shorter");
	if (needs_confirming(dir->i_sb, e.ino)) {
		ret = uhsfs_confirm(dir, e.ino, e.gen, e.name, e.len);
		/* What cannot be read was reported; its name is kept. */
		if (ret <= 0 && ret != -EUCLEAN && ret != -EIO)
			return ret;
	}
	walk->pos = ref->cookie;
	ret = walk->each(walk, &e);
	if (!ret)
		walk->pos++;
	return ret;
}

/* One bucket, as much of it at a time as there is room for. */
static int walk_bucket(struct walk *walk)
{
	struct uhsfs_dir_scan *scan = &walk->scan;
	int ret = 0;

	do {
		uhsfs_chain_end(&walk->chain);
		uhsfs_chain_start(&walk->chain, walk->dir, scan->bucket);
		while ((ret = uhsfs_chain_next(&walk->chain)) > 0)
			uhsfs_dir_scan_block(scan, walk->chain.bucket);
		if (ret)
			return ret;
		uhsfs_dir_scan_sort(scan);
		for (u32 i = 0; !ret && i < scan->count; i++)
			ret = walk_ref(walk, &scan->refs[i]);
	} while (!ret && uhsfs_dir_scan_more(scan));
	return ret;
}

static int walk_all(struct walk *walk)
{
	u32 buckets = uhsfs_i(walk->dir)->dir.buckets;
	int ret = 0;

	walk->chain = (struct uhsfs_chain) { .dir = walk->dir };
	while (!ret && walk->pos < UHSFS_COOKIE_END) {
		uhsfs_dir_scan_init(&walk->scan, buckets, walk->pos, walk->refs, WALK_REFS);
		ret = walk_bucket(walk);
		/* Who saves data wants the other buckets. */
		if (uhsfs_sb(walk->dir->i_sb)->blind && (ret == -EUCLEAN || ret == -EIO))
			ret = 0;
		if (ret)
			break;
		ret = walk_overlay(walk, uhsfs_dir_scan_after(&walk->scan));
		if (ret)
			break;
		walk->pos = uhsfs_dir_scan_after(&walk->scan);
		if (fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	uhsfs_chain_end(&walk->chain);
	return ret;
}

struct counts {
	u64 entries;
	u32 subdirs;
};

static int count_entry(struct walk *walk, const struct uhsfs_dirent *e)
{
	struct counts *counts = walk->ctx;

	counts->entries++;
	if (e->type == DT_DIR && counts->subdirs < UHSFS_LINK_MAX - 2)
		counts->subdirs++;
	return 0;
}

int uhsfs_dir_count(struct inode *dir, u64 *entries, u32 *subdirs)
{
	struct counts counts = {};
	struct walk *walk = kmalloc(sizeof(*walk), GFP_NOFS);
	int err;

	if (!walk)
		return -ENOMEM;
	walk->dir = dir;
	walk->pos = UHSFS_COOKIE_FIRST;
	walk->each = count_entry;
	walk->ctx = &counts;
	err = walk_all(walk);
	kfree(walk);
	*entries = counts.entries;
	*subdirs = counts.subdirs;
	return err;
}

static int any_entry(struct walk *walk, const struct uhsfs_dirent *e)
{
	return 1;
}

int uhsfs_dir_any(struct inode *dir)
{
	struct walk *walk = kmalloc(sizeof(*walk), GFP_NOFS);
	int ret;

	if (!walk)
		return -ENOMEM;
	walk->dir = dir;
	walk->pos = UHSFS_COOKIE_FIRST;
	walk->each = any_entry;
	ret = walk_all(walk);
	kfree(walk);
	return ret;
}

static int emit_entry(struct walk *walk, const struct uhsfs_dirent *e)
{
	struct dir_context *ctx = walk->ctx;

	ctx->pos = e->cookie;
	return !dir_emit(ctx, (const char *)e->name, e->len, e->ino, e->type);
}

static int iterate(struct file *file, struct dir_context *ctx)
{
	struct walk *walk;
	int ret;

	if (!dir_emit_dots(file, ctx) || ctx->pos >= UHSFS_COOKIE_END)
		return 0;
	walk = kmalloc(sizeof(*walk), GFP_KERNEL);
	if (!walk)
		return -ENOMEM;
	walk->dir = file_inode(file);
	walk->pos = ctx->pos;
	walk->each = emit_entry;
	walk->ctx = ctx;
	ret = walk_all(walk);
	/* An entry that did not fit is where the next call begins. */
	ctx->pos = walk->pos;
	kfree(walk);
	return ret > 0 ? 0 : ret;
}

/* Positions are cookies, not bytes. */
static loff_t dir_llseek(struct file *file, loff_t offset, int whence)
{
	return generic_file_llseek_size(file, offset, whence, UHSFS_COOKIE_END, UHSFS_COOKIE_END);
}

const struct file_operations uhsfs_dir_operations = {
	.llseek = dir_llseek,
	.read = generic_read_dir,
	.iterate_shared = iterate,
	.fsync = uhsfs_fsync,
};
