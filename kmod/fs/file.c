// SPDX-License-Identifier: GPL-2.0
/*
 * Reading files: through the page cache, directly, and mapped; all by iomap.
 */
#include <linux/iomap.h>
#include <linux/mm.h>
#include <linux/uio.h>

#include "rw.h"

static int read_folio(struct file *file, struct folio *folio)
{
	if (uhsfs_read_inline(folio)) {
		folio_unlock(folio);
		return 0;
	}
	return iomap_read_folio(folio, &uhsfs_iomap_ops);
}

static void readahead(struct readahead_control *rac)
{
	/* What is in the slot is read page by page. */
	if (!READ_ONCE(uhsfs_i(rac->mapping->host)->inlined))
		iomap_readahead(rac, &uhsfs_iomap_ops);
}

const struct address_space_operations uhsfs_aops = {
	.read_folio = read_folio,
	.readahead = readahead,
	.writepages = uhsfs_writepages,
	.dirty_folio = uhsfs_dirty_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
	.migrate_folio = filemap_migrate_folio,
	UHSFS_ERROR_REMOVE,
};

static ssize_t direct_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	ssize_t ret;

	if (iocb->ki_flags & IOCB_NOWAIT) {
		if (!inode_trylock_shared(inode))
			return -EAGAIN;
	} else {
		inode_lock_shared(inode);
	}
	ret = iomap_dio_rw(iocb, to, &uhsfs_iomap_ops, NULL, 0, NULL, 0);
	inode_unlock_shared(inode);
	file_accessed(iocb->ki_filp);
	return ret;
}

static ssize_t read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	if (!iov_iter_count(to))
		return 0;
	if (iocb->ki_flags & IOCB_DIRECT) {
		if (!READ_ONCE(uhsfs_i(file_inode(iocb->ki_filp))->inlined))
			return direct_read(iocb, to);
		iocb->ki_flags &= ~IOCB_DIRECT;
	}
	return generic_file_read_iter(iocb, to);
}

static int open_file(struct inode *inode, struct file *file)
{
	file->f_mode |= FMODE_CAN_ODIRECT | FMODE_NOWAIT | UHSFS_FMODE_BUF_RASYNC;
	/* It may be mapped for writing: no data goes into the slot any more. */
	if ((file->f_mode & (FMODE_READ | FMODE_WRITE)) == (FMODE_READ | FMODE_WRITE)) {
		inode_lock(inode);
		uhsfs_i(inode)->no_inline = true;
		inode_unlock(inode);
	}
	return generic_file_open(inode, file);
}

/* Who writes a file anew after cutting it to nothing does not find it empty after a crash. */
static int release_file(struct inode *inode, struct file *file)
{
	if (file->f_mode & FMODE_WRITE && READ_ONCE(uhsfs_i(inode)->emptied)) {
		WRITE_ONCE(uhsfs_i(inode)->emptied, false);
		filemap_flush(inode->i_mapping);
	}
	return 0;
}

static loff_t llseek(struct file *file, loff_t offset, int whence)
{
	struct inode *inode = file_inode(file);
	loff_t at;

	switch (whence) {
	case SEEK_HOLE:
	case SEEK_DATA:
		inode_lock_shared(inode);
		at = whence == SEEK_HOLE ? iomap_seek_hole(inode, offset, &uhsfs_iomap_ops) :
					   iomap_seek_data(inode, offset, &uhsfs_iomap_ops);
		inode_unlock_shared(inode);
		return at < 0 ? at : vfs_setpos(file, at, inode->i_sb->s_maxbytes);
	default:
		return generic_file_llseek(file, offset, whence);
	}
}

static int fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 start, u64 len)
{
	int err;

	inode_lock_shared(inode);
	err = iomap_fiemap(inode, info, start, len, &uhsfs_iomap_ops);
	inode_unlock_shared(inode);
	return err;
}

const struct file_operations uhsfs_file_operations = {
	UHSFS_BUF_RASYNC
	.open = open_file,
	.release = release_file,
	.llseek = llseek,
	.read_iter = read_iter,
	.write_iter = uhsfs_write_iter,
	.mmap = uhsfs_file_mmap,
	.splice_read = uhsfs_splice_read,
	.splice_write = iter_file_splice_write,
	.fsync = uhsfs_fsync,
};

const struct inode_operations uhsfs_file_inode_operations = {
	.setattr = uhsfs_setattr,
	.getattr = uhsfs_getattr,
	.fiemap = fiemap,
	.listxattr = uhsfs_listxattr,
	.fileattr_get = uhsfs_fileattr_get,
	UHSFS_GET_ACL = uhsfs_get_acl,
};
