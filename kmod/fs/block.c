// SPDX-License-Identifier: GPL-2.0
/*
 * Reading metadata: homes, of which one copy counts, and single blocks.
 *
 * What is read stands in folios of metadata mappings (see uhsfs.h) at the place that
 * the caller gives.  A folio is filled and checked under its lock and then up to date
 * for good; a folio that could not be filled stays in the mapping without being up to
 * date, so that the next reader tries again.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <linux/writeback.h>

#include "trace.h"
#include "uhsfs.h"

#include "core/record.h"

/* ---- mappings ---------------------------------------------------------------- */

const struct address_space_operations uhsfs_meta_aops = {
	.dirty_folio = filemap_dirty_folio,
	.migrate_folio = filemap_migrate_folio,
};

void uhsfs_meta_mapping(struct address_space *mapping)
{
	mapping->a_ops = &uhsfs_meta_aops;
	mapping_set_gfp_mask(mapping, GFP_NOFS | __GFP_NOFAIL);
}

struct inode *uhsfs_internal_inode(struct super_block *sb)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_mode = S_IFREG;
	/* Hashed for writeback, but not to be found by number. */
	inode_fake_hash(inode);
	set_nlink(inode, 1);
	i_size_write(inode, MAX_LFS_FILESIZE);
	uhsfs_meta_mapping(inode->i_mapping);
	return inode;
}

/* ---- reading from the device ----------------------------------------------------- */

int uhsfs_read_pages(struct super_block *sb, u64 block, struct page **pages, unsigned int count)
{
	struct bio *bio = bio_alloc(sb->s_bdev, count, REQ_OP_READ | REQ_META | REQ_PRIO,
				    GFP_NOFS);
	int err;

	bio->bi_iter.bi_sector = block << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	for (unsigned int i = 0; i < count; i++)
		__bio_add_page(bio, pages[i], UHSFS_BLOCK_SIZE, 0);
	err = submit_bio_wait(bio);
	bio_put(bio);
	return err && err != -ENOMEM ? -EIO : err;
}

/* One copy of a home, as read. */
struct copy {
	const void *image;
	int err;
	u64 seq;
	struct uhsfs_fault fault;
};

static void check_copy(struct super_block *sb, const struct uhsfs_home *home, u32 which,
		       struct copy *copy)
{
	u32 newest = uhsfs_seq_epoch(uhsfs_sb(sb)->super.seq);

	if (copy->err)
		return;
	copy->err = home->check(home, copy->image, home->block + which, &copy->seq, &copy->fault);
	if (!copy->err && uhsfs_seq_epoch(copy->seq) > newest)
		copy->err = uhsfs_bad(&copy->fault, home->object, home->id, "seq's epoch",
				      uhsfs_seq_epoch(copy->seq), newest,
				      "must not be newer than the superblock's");
}

/* Copies of one seq are the same image: the first write of a home writes both. */
static bool same_image(const struct uhsfs_home *home, const struct copy *copies)
{
	for (u32 at = 0; at < UHSFS_BLOCK_SIZE; at += home->record_size)
		if (!uhsfs_record_same(copies[0].image + at, copies[1].image + at,
				       home->record_size))
			return false;
	return true;
}

/*
 * One copy is valid, the other is not.  A write that was cut off leaves something that
 * can be read; what cannot be read may be newer.
 */
static int accept_one(const struct uhsfs_home *home, const struct copy *copies, int valid,
		      struct uhsfs_fault *fault)
{
	const struct copy *bad = &copies[1 - valid];

	if (bad->err != -EUCLEAN)
		return bad->err;
	*fault = bad->fault;
	if (!home->torn_ok)
		return -EUCLEAN;
	return valid;
}

/*
 * Which copy counts, or an error.  -EUCLEAN: damage, and -ENODATA: there is no valid copy,
 * which is damage if there should be one; both with a fault.  Else a copy that decides
 * could not be read.
 */
static int choose(const struct uhsfs_home *home, struct copy *copies, u32 count,
		  struct uhsfs_fault *fault)
{
	struct uhsfs_copy a = { .valid = !copies[0].err, .seq = copies[0].seq };
	struct uhsfs_copy b = { .valid = !copies[1].err, .seq = copies[1].seq };
	bool suspicious = false;
	int chosen;

	*fault = copies[0].fault;
	if (count == 1)
		return copies[0].err == -EUCLEAN ? -ENODATA : copies[0].err;
	chosen = uhsfs_home_choose(&a, &b, &suspicious);
	if (chosen < 0 && copies[0].err == -EUCLEAN && copies[1].err == -EUCLEAN)
		return -ENODATA;
	if (chosen < 0)
		return copies[0].err == -EUCLEAN ? copies[1].err : copies[0].err;
	if (suspicious)
		return accept_one(home, copies, chosen, fault);
	if (a.seq == b.seq && !same_image(home, copies))
		return uhsfs_bad(fault, home->object, home->id, "seq", a.seq, b.seq,
				 "copies of one seq must be the same");
	return chosen;
}

/* Read the copies of a home, one by one if they cannot be read together. */
static void read_copies(struct super_block *sb, u64 block, struct page **pages,
			struct copy *copies, u32 count)
{
	int err = uhsfs_read_pages(sb, block, pages, count);

	for (u32 i = 0; i < count; i++) {
		copies[i].image = page_address(pages[i]);
		copies[i].err = err;
		if (err && count > 1)
			copies[i].err = uhsfs_read_pages(sb, block + i, &pages[i], 1);
	}
}

/* Report why a home cannot be used; returns err. */
static int home_failed(struct super_block *sb, const struct uhsfs_home *home, int err,
		       const struct uhsfs_fault *fault)
{
	if (err == -EUCLEAN || err == -ENODATA)
		return uhsfs_fault(sb, 0, fault);
	if (err == -ENOMEM)
		return err;
	uhsfs_err(sb, "%s %llu: cannot read block %llu (error %d)", home->object, home->id,
		  home->block, err);
	return err;
}

/* Fill a locked folio. */
static int fill_home(struct super_block *sb, struct folio *folio, const struct uhsfs_home *home,
		     bool quiet)
{
	u32 count = uhsfs_geo(sb)->homes;
	struct page *pages[2] = { folio_page(folio, 0) };
	struct copy copies[2] = {};
	struct uhsfs_fault fault;
	int chosen;

	if (count > 1) {
		pages[1] = alloc_page(GFP_NOFS);
		if (!pages[1])
			return -ENOMEM;
	}
	read_copies(sb, home->block, pages, copies, count);
	for (u32 i = 0; i < count; i++)
		check_copy(sb, home, i, &copies[i]);
	chosen = choose(home, copies, count, &fault);
	if (chosen == 1)
		memcpy(page_address(pages[0]), page_address(pages[1]), UHSFS_BLOCK_SIZE);
	if (count > 1)
		__free_page(pages[1]);
	if (chosen >= 0)
		return 0;
	if (quiet && chosen == -ENODATA)
		return chosen;
	return home_failed(sb, home, chosen, &fault);
}

struct folio *uhsfs_read_home(struct super_block *sb, struct address_space *mapping, pgoff_t index,
			      const struct uhsfs_home *home, bool quiet)
{
	struct folio *folio = uhsfs_find_folio(mapping, index);
	int err = 0;

	if (folio) {
		if (folio_test_uptodate(folio)) {
			folio_mark_accessed(folio);
			return folio;
		}
		folio_put(folio);
	}
	folio = uhsfs_lock_folio(mapping, index);
	if (!folio)
		return ERR_PTR(-ENOMEM);
	if (!folio_test_uptodate(folio)) {
		err = fill_home(sb, folio, home, quiet);
		if (!err)
			folio_mark_uptodate(folio);
	}
	folio_unlock(folio);
	if (err) {
		folio_put(folio);
		return ERR_PTR(err);
	}
	return folio;
}


struct folio *uhsfs_read_block(struct super_block *sb, u64 block)
{
	struct address_space *mapping = uhsfs_sb(sb)->meta->i_mapping;
	struct folio *folio = uhsfs_find_folio(mapping, block);
	struct page *page;
	int err = 0;

	if (folio && folio_test_uptodate(folio)) {
		folio_mark_accessed(folio);
		return folio;
	}
	if (folio)
		folio_put(folio);
	folio = uhsfs_lock_folio(mapping, block);
	if (!folio)
		return ERR_PTR(-ENOMEM);
	page = folio_page(folio, 0);
	if (!folio_test_uptodate(folio))
		err = uhsfs_read_pages(sb, block, &page, 1);
	if (!err)
		folio_mark_uptodate(folio);
	folio_unlock(folio);
	if (err) {
		folio_put(folio);
		return ERR_PTR(err);
	}
	return folio;
}

/* ---- many homes at once ------------------------------------------------------------ */

#define SCAN_PAGES 32

struct scan_buffer {
	struct page *pages[SCAN_PAGES];
};

static void free_buffer(struct scan_buffer *buffer)
{
	for (int i = 0; i < SCAN_PAGES; i++)
		if (buffer->pages[i])
			__free_page(buffer->pages[i]);
	kfree(buffer);
}

static struct scan_buffer *alloc_buffer(void)
{
	struct scan_buffer *buffer = kzalloc(sizeof(*buffer), GFP_NOFS);

	for (int i = 0; buffer && i < SCAN_PAGES; i++) {
		buffer->pages[i] = alloc_page(GFP_NOFS);
		if (!buffer->pages[i]) {
			free_buffer(buffer);
			return NULL;
		}
	}
	return buffer;
}

/* One home of a piece that was read (err: of the read), at pages[0 .. homes). */
static int scan_home(struct super_block *sb, struct uhsfs_home_scan *scan, u32 index,
		     struct page **pages, int err)
{
	u32 count = uhsfs_geo(sb)->homes;
	struct copy copies[2] = {};
	struct uhsfs_fault fault;
	int chosen;

	chosen = scan->prepare(scan, index);
	if (chosen)
		return chosen;
	if (err)
		read_copies(sb, scan->home->block, pages, copies, count);
	for (u32 i = 0; i < count; i++) {
		copies[i].image = page_address(pages[i]);
		check_copy(sb, scan->home, i, &copies[i]);
	}
	chosen = choose(scan->home, copies, count, &fault);
	if (chosen < 0)
		return scan->each(scan, index, NULL, chosen, &fault);
	scan->torn = count > 1 && copies[1 - chosen].err;
	return scan->each(scan, index, copies[chosen].image, 0, NULL);
}

int uhsfs_scan_homes(struct super_block *sb, u64 block, u32 count, struct uhsfs_home_scan *scan)
{
	u32 homes = uhsfs_geo(sb)->homes;
	u32 step = SCAN_PAGES / homes;
	struct scan_buffer *buffer = alloc_buffer();
	int err = buffer ? 0 : -ENOMEM;

	for (u32 at = 0; !err && at < count; at += step) {
		u32 n = min(step, count - at);
		int read = uhsfs_read_pages(sb, block + (u64)at * homes, buffer->pages, n * homes);

		for (u32 i = 0; !err && i < n; i++)
			err = scan_home(sb, scan, at + i, buffer->pages + i * homes, read);
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	if (buffer)
		free_buffer(buffer);
	return err;
}
