// SPDX-License-Identifier: GPL-2.0
/*
 * Writing metadata: blocks and homes, from private images.
 *
 * A home on a shadow device is written to the copy that is not the newest durable one;
 * its first write goes to both.  Who writes keeps the number of the copy to write next
 * and moves it on when the write is durable, so that a write that may have failed is
 * repeated to the same copy.
 *
 * A write that fails is repeated a few times, by who waits for it.  A flush is not: what
 * stood in the device's cache may be gone with the first failure.  Hence no write here
 * carries one.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/delay.h>

#include "rw.h"

#define ATTEMPTS 4
#define FIRST_PAUSE_MS 10

/* Never NULL: what is half committed cannot be left so for want of one page. */
struct page *uhsfs_image_page(void)
{
	return alloc_page(GFP_NOFS | __GFP_ZERO | __GFP_NOFAIL);
}

void uhsfs_writes_start(struct uhsfs_writes *writes, struct super_block *sb)
{
	writes->sb = sb;
	writes->any = false;
	atomic_set(&writes->pending, 1);
	init_completion(&writes->done);
	spin_lock_init(&writes->lock);
	bio_list_init(&writes->failed);
}

static void put_writes(struct uhsfs_writes *writes)
{
	if (atomic_dec_and_test(&writes->pending))
		complete(&writes->done);
}

static void wait_for_all(struct uhsfs_writes *writes)
{
	put_writes(writes);
	wait_for_completion_io(&writes->done);
}

static void write_done(struct bio *bio)
{
	struct uhsfs_writes *writes = bio->bi_private;
	unsigned long flags;

	if (bio->bi_status) {
		spin_lock_irqsave(&writes->lock, flags);
		bio_list_add(&writes->failed, bio);
		spin_unlock_irqrestore(&writes->lock, flags);
	} else {
		__free_page(bio_first_page_all(bio));
		bio_put(bio);
	}
	put_writes(writes);
}

/* The page's private number is the block. */
static void submit(struct uhsfs_writes *writes, struct bio *bio, struct page *page)
{
	bio->bi_iter.bi_sector = page_private(page) << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	bio->bi_private = writes;
	bio->bi_end_io = write_done;
	__bio_add_page(bio, page, UHSFS_BLOCK_SIZE, 0);
	atomic_inc(&writes->pending);
	submit_bio(bio);
}

void uhsfs_write_block(struct uhsfs_writes *writes, struct page *page, u64 block, blk_opf_t flags)
{
	set_page_private(page, block);
	writes->any = true;
	submit(writes, bio_alloc(writes->sb->s_bdev, 1, REQ_OP_WRITE | REQ_META | REQ_PRIO | flags,
				 GFP_NOFS), page);
}

/* Submit what failed again. */
static void repeat(struct uhsfs_writes *writes)
{
	struct bio_list failed = writes->failed;
	struct bio *bio;

	bio_list_init(&writes->failed);
	atomic_set(&writes->pending, 1);
	reinit_completion(&writes->done);
	while ((bio = bio_list_pop(&failed))) {
		struct page *page = bio_first_page_all(bio);

		bio_reset(bio, writes->sb->s_bdev, bio->bi_opf);
		submit(writes, bio, page);
	}
	wait_for_all(writes);
}

int uhsfs_writes_wait(struct uhsfs_writes *writes)
{
	struct bio *bio;
	int err = 0;

	wait_for_all(writes);
	for (int i = 1; i < ATTEMPTS && !bio_list_empty(&writes->failed); i++) {
		msleep(FIRST_PAUSE_MS << (2 * (i - 1)));
		repeat(writes);
	}
	while ((bio = bio_list_pop(&writes->failed))) {
		struct page *page = bio_first_page_all(bio);

		err = blk_status_to_errno(bio->bi_status);
		uhsfs_err(writes->sb, "block %lu cannot be written (error %d, %d attempts)",
			  page_private(page), err, ATTEMPTS);
		__free_page(page);
		bio_put(bio);
	}
	return err;
}

void uhsfs_write_home(struct uhsfs_writes *writes, struct page *page, u64 home, u8 next,
		      blk_opf_t flags, void (*seal)(struct page *page, u64 block, void *ctx),
		      void *ctx)
{
	bool both = next == 2 && uhsfs_geo(writes->sb)->homes > 1;
	u64 block = home + (next == 2 ? 0 : next);

	if (both) {
		struct page *second = uhsfs_image_page();

		memcpy(page_address(second), page_address(page), UHSFS_BLOCK_SIZE);
		seal(second, home + 1, ctx);
		uhsfs_write_block(writes, second, home + 1, flags);
	}
	seal(page, block, ctx);
	uhsfs_write_block(writes, page, block, flags);
}

int uhsfs_flush(struct super_block *sb)
{
	int err = blkdev_issue_flush(sb->s_bdev);

	if (err)
		uhsfs_rw_fail(sb, "a flush of the device", err);
	return err;
}

u8 uhsfs_next_copy(struct super_block *sb, u8 written)
{
	/* Both were written: copy 0 counts among equals. */
	if (written == 2)
		written = 0;
	return uhsfs_geo(sb)->homes > 1 ? 1 - written : 0;
}
