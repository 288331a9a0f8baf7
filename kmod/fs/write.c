// SPDX-License-Identifier: GPL-2.0
/*
 * Writing files: blocks, data, sizes, and what makes them durable.
 *
 * A write takes blocks as unwritten extents; when writeback has put the data on the
 * device, the extents become written in memory and the size that an image may say
 * follows (R1).  fsync then commits the slot behind a flush.
 */
#include <linux/blkdev.h>
#include <linux/iomap.h>
#include <linux/iversion.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/posix_acl.h>
#include <linux/slab.h>
#include <linux/writeback.h>

#include "rw.h"

/* ---- blocks --------------------------------------------------------------- */

#define TAKE_MAX 2048

/* Map a hole that begins at `logical`, of at most len blocks; info->lock is held. */
static int take_blocks(struct inode *inode, u64 logical, u64 len, struct uhsfs_ext *ext)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u32 before = uhsfs_list_find(&info->list, logical);
	u64 goal;
	u32 got;
	int err;

	err = uhsfs_list_room(inode, 2);
	if (err)
		return err;
	mutex_lock(&rw->lock);
	goal = rw->goal;
	if (before) {
		struct uhsfs_ext last;

		uhsfs_extent_decode(&info->list.extent[before - 1], &last);
		goal = last.physical + last.len;
	}
	*ext = (struct uhsfs_ext) {
		.logical = logical,
		.birth = rw->epoch,
		.flags = UHSFS_EXT_UNWRITTEN,
	};
	err = uhsfs_alloc(sb, goal, min_t(u64, len, TAKE_MAX), 1,
			  uhsfs_sb(sb)->super.reserve_blocks, &ext->physical, &got);
	if (!err) {
		ext->len = got;
		rw->goal = ext->physical + got;
		err = uhsfs_list_insert(&info->list, ext);
		if (err)
			uhsfs_free_now(sb, ext->physical, got);
	}
	mutex_unlock(&rw->lock);
	if (err)
		return err;
	inode->i_blocks += (blkcnt_t)got << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	info->list_changed = true;
	info->map_seq++;
	return 0;
}

/* A mapping that something else changed since: writeback made its blocks written, say. */
static bool map_valid(struct inode *inode, const struct iomap *iomap)
{
	return iomap->validity_cookie == READ_ONCE(uhsfs_i(inode)->map_seq);
}

static const struct uhsfs_page_ops page_ops = {
	.iomap_valid = map_valid,
};

static int map_for_write(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
			 struct iomap *iomap)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 logical = offset >> UHSFS_BLOCK_SHIFT;
	u64 end = ((u64)offset + length + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	struct uhsfs_ext ext;
	u64 len;
	int found, err = 0;
	bool taken = false;

	if (READ_ONCE(uhsfs_rw(inode->i_sb)->failed))
		return -EIO;
	if (flags & IOMAP_NOWAIT)
		return -EAGAIN;
	err = uhsfs_uninline(inode);
	err = err ?: uhsfs_load_extents(inode);
	if (err)
		return err;
	down_write(&info->lock);
	found = uhsfs_extent_lookup(inode, logical, &ext, &len);
	if (!found && !(flags & IOMAP_ZERO)) {
		err = take_blocks(inode, logical, min(len, end - logical), &ext);
		len = ext.len;
		found = !err;
		taken = found;
	}
	iomap->validity_cookie = info->map_seq;
	iomap->UHSFS_PAGE_OPS = &page_ops;
	up_write(&info->lock);
	if (found < 0 || err)
		return err ?: found;
	if (taken) {
		err = uhsfs_touch(inode);
		if (err)
			return err;
	}
	iomap->bdev = inode->i_sb->s_bdev;
	iomap->flags = 0;
	iomap->offset = (loff_t)logical << UHSFS_BLOCK_SHIFT;
	if (!found) {
		iomap->type = IOMAP_HOLE;
		iomap->addr = IOMAP_NULL_ADDR;
		len = min(len, end - logical);
	} else {
		iomap->type = ext.flags & UHSFS_EXT_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_MAPPED;
		iomap->addr = (ext.physical + (logical - ext.logical)) << UHSFS_BLOCK_SHIFT;
	}
	iomap->length = len << UHSFS_BLOCK_SHIFT;
	return 0;
}

int uhsfs_iomap_write(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
		      struct iomap *iomap)
{
	int err = map_for_write(inode, offset, length, flags, iomap);

	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(inode->i_sb))
		err = map_for_write(inode, offset, length, flags, iomap);
	return err;
}

/* ---- writeback ------------------------------------------------------------ */

static int map_blocks(struct iomap_writepage_ctx *wpc, struct inode *inode, loff_t offset)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 logical = offset >> UHSFS_BLOCK_SHIFT;
	struct uhsfs_ext ext;
	u64 len;
	int found;

	down_read(&info->lock);
	found = uhsfs_extent_lookup(inode, logical, &ext, &len);
	up_read(&info->lock);
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
		queue_work(uhsfs_wq, &info->ioend_work);
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

static const struct iomap_writeback_ops writeback_ops = {
	.map_blocks = uhsfs_map_blocks,
	.prepare_ioend = prepare_ioend,
};

int uhsfs_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {};

	return iomap_writepages(mapping, wbc, &wpc, &writeback_ops);
}

/* ---- data in the slot ----------------------------------------------------- */

/*
 * Move data from the slot to a block of its own, before the first change of the file:
 * the block is written before an image points to it.
 */
int uhsfs_uninline(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_writes writes;
	struct uhsfs_ext ext;
	struct page *page;
	int err;

	if (!uhsfs_rw(sb) || READ_ONCE(info->list_loaded) || !info->inline_copy)
		return 0;
	page = uhsfs_image_page();
	if (!page)
		return -ENOMEM;
	memcpy(page_address(page), info->inline_copy, info->view.len[UHSFS_TLV_INLINE]);
	/* Until the list is there, the data in the slot counts, in images too. */
	down_write(&info->lock);
	/* Another one may have done it. */
	if (info->list_loaded) {
		up_write(&info->lock);
		__free_page(page);
		return 0;
	}
	err = take_blocks(inode, 0, 1, &ext);
	if (err) {
		__free_page(page);
	} else {
		uhsfs_writes_start(&writes, sb);
		uhsfs_write_block(&writes, page, ext.physical, REQ_SYNC);
		err = uhsfs_writes_wait(&writes);
		if (!err)
			err = uhsfs_list_convert(&info->list, 0, 1);
		if (!err)
			WRITE_ONCE(info->list_loaded, true);
		if (err) {
			mutex_lock(&uhsfs_rw(sb)->lock);
			uhsfs_free_now(sb, ext.physical, 1);
			mutex_unlock(&uhsfs_rw(sb)->lock);
			info->list.count = 0;
			inode->i_blocks -= 1 << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
		}
	}
	up_write(&info->lock);
	return err ?: uhsfs_touch(inode);
}

/* ---- write ---------------------------------------------------------------- */

ssize_t uhsfs_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp;
	struct inode *inode = file_inode(file);
	ssize_t ret;

	if (!uhsfs_rw(inode->i_sb))
		return -EROFS;
	if (iocb->ki_flags & IOCB_NOWAIT)
		return -EAGAIN;
	inode_lock(inode);
	ret = generic_write_checks(iocb, from);
	if (ret > 0) {
		loff_t size = i_size_read(inode);
		int err = file_remove_privs(file);

		err = err ?: file_update_time(file);
		err = err ?: uhsfs_uninline(inode);
		/* What a mapping may have left behind the end. */
		if (!err && iocb->ki_pos > size)
			err = iomap_zero_range(inode, size, iocb->ki_pos - size, NULL,
					       &uhsfs_iomap_ops);
		ret = err ?: uhsfs_buffered_write(iocb, from, &uhsfs_iomap_ops);
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

static vm_fault_t page_mkwrite(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	vm_fault_t ret;

	sb_start_pagefault(inode->i_sb);
	file_update_time(vmf->vma->vm_file);
	filemap_invalidate_lock_shared(inode->i_mapping);
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
	up_write(&info->lock);
	return err;
}

static int set_size(struct inode *inode, loff_t size)
{
	loff_t old = i_size_read(inode);
	loff_t tail = min(old, size);
	int err;

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
	/* R1: what lies behind the end is zero on the device before a larger size is there. */
	if (!err)
		err = filemap_write_and_wait_range(inode->i_mapping, 0, tail);
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
	struct uhsfs_dslot *dslot;
	bool dirty;
	int err;

	if (!rw)
		return 0;
	if (S_ISDIR(inode->i_mode))
		return uhsfs_commit_entries(inode);
	err = file_write_and_wait_range(file, start, end);
	if (err)
		return err;
	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(sb, inode->i_ino);
	dirty = dslot && dslot->dirty;
	mutex_unlock(&rw->lock);
	if (dirty)
		return uhsfs_commit(sb, inode->i_ino);
	/* Data that was written in place. */
	return READ_ONCE(rw->failed) ? -EIO : blkdev_issue_flush(sb->s_bdev);
}

int uhsfs_sync_fs(struct super_block *sb, int wait)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	if (!rw || !wait)
		return 0;
	if (!uhsfs_needs_checkpoint(sb))
		return READ_ONCE(rw->failed) ? -EIO : blkdev_issue_flush(sb->s_bdev);
	return uhsfs_checkpoint(sb);
}
