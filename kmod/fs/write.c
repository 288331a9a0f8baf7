// SPDX-License-Identifier: GPL-2.0
/*
 * Writing files: blocks, data, sizes, and what makes them durable.
 *
 * A write into a hole promises blocks (delay.c); writeback takes them as unwritten extents;
 * when the data is on the device, the extents become written in memory and the size that
 * an image may say follows (R1).  fsync then commits the slot behind a flush.  Small files
 * have none of this: their data is in the slot (inline.c).
 */
#include <linux/iomap.h>
#include <linux/iversion.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/posix_acl.h>
#include <linux/slab.h>
#include <linux/writeback.h>

#include "rw.h"

/* ---- blocks --------------------------------------------------------------- */

/* A mapping that something else changed since: writeback made its blocks written, say. */
static bool map_valid(struct inode *inode, const struct iomap *iomap)
{
	return iomap->validity_cookie == READ_ONCE(uhsfs_i(inode)->map_seq);
}

static const struct uhsfs_page_ops page_ops = {
	.iomap_valid = map_valid,
};

/* What is there, or is now promised; info->lock is held. */
static int map_or_delay(struct inode *inode, u64 logical, u64 want, bool zero, struct iomap *iomap)
{
	struct uhsfs_ext ext;
	u64 len, delayed;
	u32 got;
	int found = uhsfs_extent_lookup(inode, logical, &ext, &len), err;

	if (found < 0)
		return found;
	if (found) {
		iomap->type = ext.flags & UHSFS_EXT_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_MAPPED;
		iomap->addr = (ext.physical + (logical - ext.logical)) << UHSFS_BLOCK_SHIFT;
		iomap->length = len << UHSFS_BLOCK_SHIFT;
		return 0;
	}
	iomap->addr = IOMAP_NULL_ADDR;
	iomap->type = IOMAP_DELALLOC;
	if (uhsfs_delayed_lookup(inode, logical, &delayed)) {
		iomap->length = delayed << UHSFS_BLOCK_SHIFT;
		return 0;
	}
	len = min3(len, delayed, want);
	if (zero) {
		iomap->type = IOMAP_HOLE;
		iomap->length = len << UHSFS_BLOCK_SHIFT;
		return 0;
	}
	err = uhsfs_delay(inode, logical, len, &got);
	if (err)
		return err;
	iomap->flags = IOMAP_F_NEW;
	iomap->length = (u64)got << UHSFS_BLOCK_SHIFT;
	return 0;
}

static int map_for_write(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
			 struct iomap *iomap)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 logical = offset >> UHSFS_BLOCK_SHIFT;
	u64 end = ((u64)offset + length + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	int err;

	if (READ_ONCE(uhsfs_rw(inode->i_sb)->failed))
		return -EIO;
	if (flags & IOMAP_NOWAIT)
		return -EAGAIN;
	err = uhsfs_uninline(inode);
	err = err ?: uhsfs_load_extents(inode);
	if (err)
		return err;
	iomap->bdev = inode->i_sb->s_bdev;
	iomap->flags = 0;
	iomap->offset = (loff_t)logical << UHSFS_BLOCK_SHIFT;
	down_write(&info->lock);
	err = map_or_delay(inode, logical, end - logical, flags & IOMAP_ZERO, iomap);
	iomap->validity_cookie = info->map_seq;
	iomap->UHSFS_PAGE_OPS = &page_ops;
	up_write(&info->lock);
	return err;
}

int uhsfs_iomap_write(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
		      struct iomap *iomap)
{
	int err = map_for_write(inode, offset, length, flags, iomap);

	/*
	 * What was given up lately is free after a checkpoint.  A fault has the folio locked,
	 * which a commit may wait for: see page_mkwrite().
	 */
	if (err == -ENOSPC && !(flags & IOMAP_FAULT) && !uhsfs_checkpoint(inode->i_sb))
		err = map_for_write(inode, offset, length, flags, iomap);
	return err;
}

/* A write ended early: blocks that it promised and that got no data are not needed. */
int uhsfs_write_end(struct inode *inode, loff_t offset, ssize_t written, unsigned int flags,
		    const struct iomap *iomap)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	loff_t end = iomap->offset + iomap->length;
	loff_t at = written > 0 ? round_up(offset + written, UHSFS_BLOCK_SIZE) :
				  round_down(offset, UHSFS_BLOCK_SIZE);

	if (!(iomap->flags & IOMAP_F_NEW) || flags & IOMAP_FAULT || at >= end)
		return 0;
	/* A fault may have made a page of it dirty in the meantime: none does now. */
	filemap_invalidate_lock(inode->i_mapping);
	for (; at < end; at += UHSFS_BLOCK_SIZE) {
		if (filemap_range_has_writeback(inode->i_mapping, at, at + UHSFS_BLOCK_SIZE - 1))
			continue;
		down_write(&info->lock);
		uhsfs_undelay(inode, at >> UHSFS_BLOCK_SHIFT, 1);
		up_write(&info->lock);
	}
	filemap_invalidate_unlock(inode->i_mapping);
	return 0;
}

/* ---- writeback ------------------------------------------------------------ */

/* 1: blocks for what was promised; 0: nothing was. */
static int keep_promise(struct inode *inode, u64 logical, struct uhsfs_ext *ext, u64 *len)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 end = ((u64)i_size_read(inode) + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	int found, err;

	down_write(&info->lock);
	/* Another writeback may have taken the whole promise in the meantime. */
	found = uhsfs_extent_lookup(inode, logical, ext, len);
	if (found) {
		up_write(&info->lock);
		return found;
	}
	/* Not what a write behind it is only about to use. */
	err = uhsfs_take_delayed(inode, logical, end > logical ? end - logical : 1, ext);
	up_write(&info->lock);
	if (err)
		return err == -ENODATA ? 0 : err;
	*len = ext->len;
	return uhsfs_touch(inode) ?: 1;
}

static int map_blocks(struct iomap_writepage_ctx *wpc, struct inode *inode, loff_t offset)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 logical = offset >> UHSFS_BLOCK_SHIFT;
	struct uhsfs_ext ext;
	u64 len;
	int found;

	if (READ_ONCE(uhsfs_rw(inode->i_sb)->failed))
		return -EIO;
	down_read(&info->lock);
	found = uhsfs_extent_lookup(inode, logical, &ext, &len);
	up_read(&info->lock);
	if (!found)
		found = keep_promise(inode, logical, &ext, &len);
	if (found < 0)
		return found;
	wpc->iomap.bdev = inode->i_sb->s_bdev;
	wpc->iomap.flags = 0;
	wpc->iomap.offset = (loff_t)logical << UHSFS_BLOCK_SHIFT;
	if (!found) {
		/* Truncated since it became dirty. */
		wpc->iomap.type = IOMAP_HOLE;
		wpc->iomap.addr = IOMAP_NULL_ADDR;
		wpc->iomap.length = UHSFS_BLOCK_SIZE;
		return 0;
	}
	wpc->iomap.type = ext.flags & UHSFS_EXT_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_MAPPED;
	wpc->iomap.addr = (ext.physical + (logical - ext.logical)) << UHSFS_BLOCK_SHIFT;
	wpc->iomap.length = len << UHSFS_BLOCK_SHIFT;
	return 0;
}

/* The data of an ioend is on the device: extents and size may say so. */
static int data_written(struct inode *inode, loff_t offset, size_t size, bool unwritten)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 first = offset >> UHSFS_BLOCK_SHIFT;
	u64 end = (offset + size + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	u64 reached = min_t(u64, offset + size, i_size_read(inode));
	int err = 0;

	down_write(&info->lock);
	if (unwritten) {
		err = uhsfs_list_room(inode, 2);
		if (!err)
			err = uhsfs_list_convert(&info->list, first, end - first);
		info->list_changed = true;
		info->map_seq++;
	}
	if (!err)
		info->disk_size = max(info->disk_size, reached);
	up_write(&info->lock);
	return err ?: uhsfs_touch(inode);
}

void uhsfs_ioend_work(struct work_struct *work)
{
	struct uhsfs_inode_info *info = container_of(work, struct uhsfs_inode_info, ioend_work);
	struct iomap_ioend *ioend;
	LIST_HEAD(done);

	spin_lock_irq(&info->ioend_lock);
	list_splice_init(&info->ioends, &done);
	spin_unlock_irq(&info->ioend_lock);
	while ((ioend = list_first_entry_or_null(&done, struct iomap_ioend, io_list))) {
		int err = blk_status_to_errno(uhsfs_ioend_bio(ioend)->bi_status);

		list_del_init(&ioend->io_list);
		if (!err)
			err = data_written(&info->vfs_inode, ioend->io_offset, ioend->io_size,
					   ioend->io_type == IOMAP_UNWRITTEN);
		iomap_finish_ioends(ioend, err);
	}
}

static void ioend_done(struct bio *bio)
{
	struct iomap_ioend *ioend = uhsfs_bio_ioend(bio);
	struct uhsfs_inode_info *info = uhsfs_i(ioend->io_inode);
	unsigned long flags;

	spin_lock_irqsave(&info->ioend_lock, flags);
	if (list_empty(&info->ioends))
		queue_work(uhsfs_io_wq, &info->ioend_work);
	list_add_tail(&ioend->io_list, &info->ioends);
	spin_unlock_irqrestore(&info->ioend_lock, flags);
}

static int prepare_ioend(struct iomap_ioend *ioend, int status)
{
	const struct uhsfs_inode_info *info = uhsfs_i(ioend->io_inode);

	if (ioend->io_type == IOMAP_UNWRITTEN ||
	    ioend->io_offset + ioend->io_size > READ_ONCE(info->disk_size))
		uhsfs_ioend_bio(ioend)->bi_end_io = ioend_done;
	return status;
}

UHSFS_MAP_BLOCKS(map_blocks)

/* It cannot be written, which fsync reports: its blocks are not needed. */
static void discard_folio(struct folio *folio, loff_t pos)
{
	struct inode *inode = folio->mapping->host;
	loff_t end = folio_pos(folio) + folio_size(folio);

	down_write(&uhsfs_i(inode)->lock);
	uhsfs_undelay(inode, pos >> UHSFS_BLOCK_SHIFT, (end - pos) >> UHSFS_BLOCK_SHIFT);
	up_write(&uhsfs_i(inode)->lock);
}

static const struct iomap_writeback_ops writeback_ops = {
	.map_blocks = uhsfs_map_blocks,
	.discard_folio = discard_folio,
	.prepare_ioend = prepare_ioend,
};

int uhsfs_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {};

	return iomap_writepages(mapping, wbc, &wpc, &writeback_ops);
}

/* ---- write ---------------------------------------------------------------- */

static ssize_t write_blocks(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	loff_t size = i_size_read(inode);
	int err = uhsfs_uninline(inode);

	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(inode->i_sb))
		err = uhsfs_uninline(inode);
	/*
	 * What a mapping may have left behind the end becomes zero, once it is where zeroing
	 * finds it.
	 */
	if (!err && iocb->ki_pos > size && size % UHSFS_BLOCK_SIZE)
		err = filemap_write_and_wait_range(inode->i_mapping,
						   round_down(size, UHSFS_BLOCK_SIZE), size);
	if (!err && iocb->ki_pos > size)
		err = iomap_zero_range(inode, size, iocb->ki_pos - size, NULL, &uhsfs_iomap_ops);
	return err ?: uhsfs_buffered_write(iocb, from, &uhsfs_iomap_ops);
}

ssize_t uhsfs_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct inode *inode = file_inode(file);
	ssize_t ret;

	if (!uhsfs_rw(inode->i_sb))
		return -EROFS;
	if (READ_ONCE(uhsfs_rw(inode->i_sb)->failed))
		return -EIO;
	if (iocb->ki_flags & IOCB_NOWAIT)
		return -EAGAIN;
	inode_lock(inode);
	ret = generic_write_checks(iocb, from);
	if (ret > 0) {
		int err = file_remove_privs(file);

		err = err ?: file_update_time(file);
		ret = err ?: uhsfs_write_inline(iocb, from);
		if (ret == -EFBIG)
			ret = write_blocks(iocb, from);
	}
	inode_unlock(inode);
	if (ret <= 0)
		return ret;
	/* Direct writes go through the page cache, and are there when they return. */
	if (iocb->ki_flags & IOCB_DIRECT) {
		loff_t end = iocb->ki_pos - 1;
		int err = filemap_write_and_wait_range(inode->i_mapping, end - ret + 1, end);

		if (err)
			return err;
		invalidate_mapping_pages(inode->i_mapping, (end - ret + 1) >> PAGE_SHIFT,
					 end >> PAGE_SHIFT);
	}
	return generic_write_sync(iocb, ret);
}

/* Promise the blocks of a folio that are not there yet. */
static int promise_folio(struct inode *inode, struct folio *folio)
{
	loff_t at = folio_pos(folio);
	loff_t end = min_t(loff_t, at + folio_size(folio), i_size_read(inode));
	int err = 0;

	while (!err && at < end) {
		struct iomap iomap = {};

		err = uhsfs_iomap_write(inode, at, end - at, 0, &iomap);
		at = iomap.offset + iomap.length;
	}
	return err;
}

static vm_fault_t page_mkwrite(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	vm_fault_t ret;

	sb_start_pagefault(inode->i_sb);
	file_update_time(vmf->vma->vm_file);
	filemap_invalidate_lock_shared(inode->i_mapping);
	/* Here a checkpoint may make room; what fails fails again below. */
	promise_folio(inode, page_folio(vmf->page));
	ret = iomap_page_mkwrite(vmf, &uhsfs_iomap_ops);
	filemap_invalidate_unlock_shared(inode->i_mapping);
	sb_end_pagefault(inode->i_sb);
	return ret;
}

static const struct vm_operations_struct file_vm_ops = {
	.fault = filemap_fault,
	.map_pages = filemap_map_pages,
	.page_mkwrite = page_mkwrite,
};

int uhsfs_file_mmap(struct file *file, struct vm_area_struct *vma)
{
	file_accessed(file);
	vma->vm_ops = &file_vm_ops;
	return 0;
}

/* ---- sizes ---------------------------------------------------------------- */

static int give_up_range(void *ctx, u64 block, u64 len)
{
	struct uhsfs_dslot *dslot = ctx;

	while (len) {
		u32 n = min_t(u64, len, UHSFS_GROUP_BLOCKS - block % UHSFS_GROUP_BLOCKS);

		uhsfs_give_up(dslot, block, n);
		dslot->inode->i_blocks -= (blkcnt_t)n << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
		block += n;
		len -= n;
	}
	return 0;
}

static int cut_extents(struct inode *inode, loff_t size)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u64 first = ((u64)size + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	struct uhsfs_dslot *dslot;
	int err;

	down_write(&info->lock);
	err = uhsfs_list_room(inode, 1);
	mutex_lock(&rw->lock);
	dslot = err ? ERR_PTR(err) : uhsfs_dslot_get(inode);
	err = IS_ERR(dslot) ? PTR_ERR(dslot) :
			      uhsfs_touch_locked(sb, dslot, uhsfs_next_op(sb));
	if (!err) {
		const struct uhsfs_freed freed = { .range = give_up_range, .ctx = dslot };

		err = uhsfs_list_truncate(&info->list, first, &freed);
		info->list_changed = true;
		info->map_seq++;
		info->disk_size = size;
	}
	mutex_unlock(&rw->lock);
	if (!err)
		uhsfs_undelay(inode, first, UHSFS_LOGICAL_END);
	up_write(&info->lock);
	return err;
}

static int set_size(struct inode *inode, loff_t size)
{
	loff_t old = i_size_read(inode);
	loff_t tail = min(old, size);
	loff_t from;
	int err = uhsfs_truncate_inline(inode, size);

	if (err != -EFBIG)
		return err;
	err = uhsfs_uninline(inode);
	err = err ?: uhsfs_load_extents(inode);
	if (err)
		return err;
	inode_dio_wait(inode);
	filemap_invalidate_lock(inode->i_mapping);
	/* Zeroing leaves unwritten blocks alone, even if there is data for them in the cache. */
	err = filemap_write_and_wait_range(inode->i_mapping, round_down(tail, PAGE_SIZE), tail);
	if (!err && size > old)
		err = iomap_zero_range(inode, old, size - old, NULL, &uhsfs_iomap_ops);
	else if (!err)
		err = iomap_truncate_page(inode, size, NULL, &uhsfs_iomap_ops);
	/*
	 * R1: up to the size that an image will say the data is on the device, and what lay
	 * behind the end is zero.
	 */
	from = round_down(min_t(u64, uhsfs_i(inode)->disk_size, tail), UHSFS_BLOCK_SIZE);
	if (!err && from < tail)
		err = filemap_write_and_wait_range(inode->i_mapping, from, tail - 1);
	if (!err) {
		truncate_setsize(inode, size);
		if (size < old) {
			err = cut_extents(inode, size);
		} else {
			down_write(&uhsfs_i(inode)->lock);
			uhsfs_i(inode)->disk_size = size;
			up_write(&uhsfs_i(inode)->lock);
			err = uhsfs_touch(inode);
		}
	}
	filemap_invalidate_unlock(inode->i_mapping);
	return err;
}

static bool has_acl(struct inode *inode)
{
	struct posix_acl *acl;

	if (S_ISLNK(inode->i_mode))
		return false;
	acl = uhsfs_get_acl(inode, ACL_TYPE_ACCESS, false);
	if (!IS_ERR_OR_NULL(acl))
		posix_acl_release(acl);
	return acl;
}

int uhsfs_setattr(struct uhsfs_idmap *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);
	int err;

	if (!uhsfs_rw(inode->i_sb))
		return -EROFS;
	err = setattr_prepare(idmap, dentry, attr);
	if (err)
		return err;
	if (READ_ONCE(uhsfs_rw(inode->i_sb)->failed))
		return -EIO;
	/* The ACL would have to change with it. */
	if (attr->ia_valid & ATTR_MODE && has_acl(inode))
		return -EOPNOTSUPP;
	if (attr->ia_valid & ATTR_SIZE && attr->ia_size != i_size_read(inode)) {
		if (!attr->ia_size)
			WRITE_ONCE(uhsfs_i(inode)->emptied, true);
		err = set_size(inode, attr->ia_size);
		if (err)
			return err;
		uhsfs_now(inode, S_MTIME | S_CTIME);
	}
	setattr_copy(idmap, inode, attr);
	inode_inc_iversion(inode);
	return uhsfs_touch(inode);
}

/* ---- durable -------------------------------------------------------------- */

int uhsfs_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct inode *inode = file_inode(file);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err;

	if (!rw)
		return 0;
	if (S_ISDIR(inode->i_mode))
		return uhsfs_commit_entries(inode);
	err = file_write_and_wait_range(file, start, end);
	if (err)
		return err;
	if (uhsfs_is_dirty(inode, datasync))
		return uhsfs_commit(sb, inode->i_ino);
	/* Data that was written in place. */
	return READ_ONCE(rw->failed) ? -EIO : uhsfs_flush(sb);
}

int uhsfs_sync_fs(struct super_block *sb, int wait)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	if (!rw || !wait)
		return 0;
	/* What the user did before is durable; an orphan that went since can wait. */
	if (sb->s_writers.frozen > SB_FREEZE_PAGEFAULT)
		return 0;
	if (!uhsfs_needs_checkpoint(sb))
		return READ_ONCE(rw->failed) ? -EIO : uhsfs_flush(sb);
	return uhsfs_checkpoint(sb);
}
