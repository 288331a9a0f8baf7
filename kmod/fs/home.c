// SPDX-License-Identifier: GPL-2.0
/*
 * Writing metadata: blocks and homes, from private images.
 *
 * A home on a shadow device is written to the copy that is not the newest durable one;
 * its first write goes to both.  Who writes keeps the number of the copy to write next
 * and moves it on when the write is durable, so that a write that may have failed is
 * repeated to the same copy.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>

#include "rw.h"

struct page *uhsfs_image_page(void)
{
	return alloc_page(GFP_NOFS | __GFP_ZERO);
}

void uhsfs_writes_start(struct uhsfs_writes *writes, struct super_block *sb)
{
	writes->sb = sb;
	writes->err = 0;
	atomic_set(&writes->pending, 1);
	init_completion(&writes->done);
}

static void put_writes(struct uhsfs_writes *writes)
{
	if (atomic_dec_and_test(&writes->pending))
		complete(&writes->done);
}

int uhsfs_writes_wait(struct uhsfs_writes *writes)
{
	put_writes(writes);
	wait_for_completion_io(&writes->done);
	return READ_ONCE(writes->err);
}

static void write_done(struct bio *bio)
{
	struct uhsfs_writes *writes = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(writes->err, blk_status_to_errno(bio->bi_status));
	__free_page(bio_first_page_all(bio));
	bio_put(bio);
	put_writes(writes);
}

void uhsfs_write_block(struct uhsfs_writes *writes, struct page *page, u64 block, blk_opf_t flags)
{
	struct bio *bio = bio_alloc(writes->sb->s_bdev, 1,
				    REQ_OP_WRITE | REQ_META | REQ_PRIO | flags, GFP_NOFS);

	bio->bi_iter.bi_sector = block << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	bio->bi_private = writes;
	bio->bi_end_io = write_done;
	__bio_add_page(bio, page, UHSFS_BLOCK_SIZE, 0);
	atomic_inc(&writes->pending);
	submit_bio(bio);
}

void uhsfs_write_home(struct uhsfs_writes *writes, struct page *page, u64 home, u8 next,
		      blk_opf_t flags, void (*seal)(struct page *page, u64 block, void *ctx),
		      void *ctx)
{
	bool both = next == 2 && uhsfs_geo(writes->sb)->homes > 1;
	u64 block = home + (next == 2 ? 0 : next);

	if (both) {
		struct page *second = uhsfs_image_page();

		if (!second) {
			WRITE_ONCE(writes->err, -ENOMEM);
			__free_page(page);
			return;
		}
		memcpy(page_address(second), page_address(page), UHSFS_BLOCK_SIZE);
		seal(second, home + 1, ctx);
		uhsfs_write_block(writes, second, home + 1, flags);
	}
	seal(page, block, ctx);
	uhsfs_write_block(writes, page, block, flags);
}

u8 uhsfs_next_copy(struct super_block *sb, u8 written)
{
	/* Both were written: copy 0 counts among equals. */
	if (written == 2)
		written = 0;
	return uhsfs_geo(sb)->homes > 1 ? 1 - written : 0;
}
