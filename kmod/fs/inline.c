// SPDX-License-Identifier: GPL-2.0
/*
 * Data of small files in their slots.
 *
 * As long as info->inlined is set, info->inline_copy is the file, of disk_size bytes: reads
 * fill the page from it, writes change it and the page, and images carry it, so that fsync
 * is one slot write.  There are no extents and the page is never dirty: a file that was
 * opened for reading and writing, which may be mapped for writing, gets a block.
 *
 * Locks: i_rwsem for who writes, info->lock for the copy and disk_size.
 */
#include <linux/highmem.h>
#include <linux/iversion.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "rw.h"

/* What fits beside the longest name and a root of further names. */
u32 uhsfs_inline_max(struct inode *inode)
{
	static const u16 others[] = { UHSFS_TLV_XATTRS, UHSFS_TLV_XATTR_ROOT };
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	u32 room = uhsfs_geo(inode->i_sb)->slot_size - UHSFS_SLOT_HEADER -
		   uhsfs_tlv_size(sizeof(struct uhsfs_name) + UHSFS_NAME_LEN) -
		   uhsfs_tlv_size(sizeof(struct uhsfs_names_root)) - uhsfs_tlv_size(0) - 8;

	for (int i = 0; i < ARRAY_SIZE(others); i++) {
		u32 size = view->value[others[i]] ? uhsfs_tlv_size(view->len[others[i]]) : 0;

		room -= min(room, size);
	}
	return room;
}

/* ---- reading -------------------------------------------------------------- */

bool uhsfs_read_inline(struct folio *folio)
{
	struct uhsfs_inode_info *info = uhsfs_i(folio->mapping->host);
	size_t size = 0;
	bool inlined;

	down_read(&info->lock);
	inlined = info->inlined;
	if (inlined && !folio->index) {
		void *at = kmap_local_folio(folio, 0);

		size = info->disk_size;
		memcpy(at, info->inline_copy, size);
		kunmap_local(at);
	}
	up_read(&info->lock);
	if (inlined) {
		folio_zero_segment(folio, size, folio_size(folio));
		folio_mark_uptodate(folio);
	}
	return inlined;
}

/* ---- from the slot to a block --------------------------------------------- */

int uhsfs_first_block(struct inode *inode, const void *data, u32 len)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_writes writes;
	struct uhsfs_ext ext;
	struct page *page;
	int err;

	lockdep_assert_held_write(&info->lock);
	err = uhsfs_take_blocks(inode, 0, 1, &ext);
	if (err)
		return err;
	page = uhsfs_image_page();
	memcpy(page_address(page), data, len);
	uhsfs_writes_start(&writes, sb);
	uhsfs_write_block(&writes, page, ext.physical, REQ_SYNC);
	err = uhsfs_writes_wait(&writes);
	if (!err)
		err = uhsfs_list_convert(&info->list, 0, 1);
	if (!err) {
		WRITE_ONCE(info->list_loaded, true);
		return 0;
	}
	mutex_lock(&uhsfs_rw(sb)->lock);
	uhsfs_free_now(sb, ext.physical, 1);
	mutex_unlock(&uhsfs_rw(sb)->lock);
	info->list.count = 0;
	inode->i_blocks -= 1 << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	return err;
}

/*
 * Move data from the slot to a block of its own, which is written before an image points to
 * it.  Until then the data in the slot counts, in images too.
 */
int uhsfs_uninline(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	int err = 0;

	if (!uhsfs_rw(inode->i_sb) || !READ_ONCE(info->inlined))
		return 0;
	down_write(&info->lock);
	/* Another one may have done it. */
	if (info->inlined) {
		err = uhsfs_first_block(inode, info->inline_copy, info->disk_size);
		if (!err)
			WRITE_ONCE(info->inlined, false);
	}
	up_write(&info->lock);
	return err ?: uhsfs_touch(inode);
}

/* ---- writing -------------------------------------------------------------- */

/* May the file be in the slot if it ends at `end`?  i_rwsem is held. */
static bool fits(struct inode *inode, loff_t end)
{
	const struct uhsfs_inode_info *info = uhsfs_i(inode);

	if (info->no_inline || end > uhsfs_inline_max(inode))
		return false;
	if (info->inlined)
		return true;
	return info->list_loaded && !info->list.count && !info->delayed.count &&
	       !i_size_read(inode);
}

/* The page, if there is one, says the same. */
static void update_page(struct inode *inode)
{
	struct folio *folio = uhsfs_find_folio(inode->i_mapping, 0);

	if (!folio)
		return;
	folio_lock(folio);
	if (folio->mapping == inode->i_mapping && folio_test_uptodate(folio)) {
		uhsfs_read_inline(folio);
		flush_dcache_folio(folio);
	}
	folio_unlock(folio);
	folio_put(folio);
}

static int alloc_copy(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);

	if (!info->inline_copy)
		info->inline_copy = kmalloc(uhsfs_geo(inode->i_sb)->slot_size, GFP_KERNEL_ACCOUNT);
	return info->inline_copy ? 0 : -ENOMEM;
}

/* The copy gets a size; behind the old end there are zeros.  info->lock is held. */
static void resize(struct uhsfs_inode_info *info, u32 size)
{
	if (size > info->disk_size)
		memset(info->inline_copy + info->disk_size, 0, size - info->disk_size);
	info->disk_size = size;
	WRITE_ONCE(info->inlined, size > 0);
	WRITE_ONCE(info->list_loaded, !size);
}

static int put_bytes(struct inode *inode, const void *data, u32 at, u32 len)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	loff_t size = max_t(loff_t, i_size_read(inode), at + len);
	int err = alloc_copy(inode);

	if (err)
		return err;
	down_write(&info->lock);
	if (!info->inlined)
		info->disk_size = 0;
	resize(info, size);
	memcpy(info->inline_copy + at, data, len);
	up_write(&info->lock);
	/* Nobody reads what is behind the old end before the page has it. */
	update_page(inode);
	i_size_write(inode, size);
	return 0;
}

/* -EFBIG: it does not fit. */
ssize_t uhsfs_write_inline(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	size_t len = iov_iter_count(from);
	loff_t at = iocb->ki_pos;
	void *data;
	int err;

	if (!fits(inode, at + len))
		return -EFBIG;
	data = kmalloc(len, GFP_KERNEL);
	if (!data)
		return -ENOMEM;
	len = copy_from_iter(data, len, from);
	err = len ? put_bytes(inode, data, at, len) : -EFAULT;
	kfree(data);
	if (err)
		return err;
	inode_inc_iversion(inode);
	err = uhsfs_touch(inode);
	if (err)
		return err;
	iocb->ki_pos += len;
	return len;
}

/* Also of a file that may be mapped: page_mkwrite() is kept out. */
int uhsfs_truncate_inline(struct inode *inode, loff_t size)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	bool done;

	if (!READ_ONCE(info->inlined) || size > uhsfs_inline_max(inode))
		return -EFBIG;
	filemap_invalidate_lock(inode->i_mapping);
	down_write(&info->lock);
	done = info->inlined;
	if (done) {
		resize(info, size);
		i_size_write(inode, size);
	}
	up_write(&info->lock);
	if (done) {
		update_page(inode);
		truncate_pagecache(inode, size);
	}
	filemap_invalidate_unlock(inode->i_mapping);
	return done ? uhsfs_touch(inode) : -EFBIG;
}
