/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows kernel versions.  Code elsewhere is written for the
 * newest supported kernel; what older ones lack or name differently is supplied
 * here.  The supported range comes from META through Kbuild.
 */
#ifndef UHSFS_COMPAT_H
#define UHSFS_COMPAT_H

#include <linux/err.h>
#include <linux/blk_types.h>
#include <linux/fs.h>
#include <linux/iomap.h>
#include <linux/pagemap.h>
#include <linux/posix_acl_xattr.h>
#include <linux/splice.h>
#include <linux/version.h>
#include <linux/writeback.h>
#include <linux/xattr.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(UHSFS_KERNEL_MIN_MAJOR, UHSFS_KERNEL_MIN_MINOR, 0)
#error "uhsfs: this kernel is older than Kernel-Minimum in META"
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(UHSFS_KERNEL_MAX_MAJOR, UHSFS_KERNEL_MAX_MINOR + 1, 0)
#error "uhsfs: this kernel is newer than Kernel-Maximum in META"
#endif

/* Inode numbers and page indexes hold 64 bits; a block is a page. */
#if BITS_PER_LONG != 64
#error "uhsfs: a 64-bit kernel is needed"
#endif

/* 6.3: what maps ids of a mount has a type of its own. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define uhsfs_idmap mnt_idmap
#else
#define uhsfs_idmap user_namespace
#endif

/* 6.6: generic_fillattr() is told what was asked for. */
static inline void uhsfs_fillattr(struct uhsfs_idmap *idmap, u32 mask, struct inode *inode,
				  struct kstat *stat)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	generic_fillattr(idmap, mask, inode, stat);
#else
	generic_fillattr(idmap, inode, stat);
#endif
}

/* 6.6 and 6.7: times of an inode are behind functions; stable kernels have some earlier. */
static inline void uhsfs_set_times(struct inode *inode, struct timespec64 atime,
				   struct timespec64 mtime, struct timespec64 ctime)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	inode_set_atime_to_ts(inode, atime);
	inode_set_mtime_to_ts(inode, mtime);
	inode_set_ctime_to_ts(inode, ctime);
#else
	inode->i_atime = atime;
	inode->i_mtime = mtime;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	inode_set_ctime_to_ts(inode, ctime);
#else
	inode->i_ctime = ctime;
#endif
#endif
}

static inline s64 uhsfs_ts_ns(struct timespec64 ts)
{
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static inline void uhsfs_get_times(const struct inode *inode, s64 *atime, s64 *mtime, s64 *ctime)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	*atime = uhsfs_ts_ns(inode_get_atime(inode));
	*mtime = uhsfs_ts_ns(inode_get_mtime(inode));
	*ctime = uhsfs_ts_ns(inode_get_ctime(inode));
#else
	*atime = uhsfs_ts_ns(inode->i_atime);
	*mtime = uhsfs_ts_ns(inode->i_mtime);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	*ctime = uhsfs_ts_ns(inode_get_ctime(inode));
#else
	*ctime = uhsfs_ts_ns(inode->i_ctime);
#endif
#endif
}

/* Set some of S_ATIME, S_MTIME, S_CTIME to now. */
static inline void uhsfs_now(struct inode *inode, int which)
{
	struct timespec64 now = current_time(inode);
	s64 atime, mtime, ctime;

	uhsfs_get_times(inode, &atime, &mtime, &ctime);
	uhsfs_set_times(inode, which & S_ATIME ? now : ns_to_timespec64(atime),
			which & S_MTIME ? now : ns_to_timespec64(mtime),
			which & S_CTIME ? now : ns_to_timespec64(ctime));
}

/* 6.12 and before: how an ioend and its bio find each other, and what else iomap changed. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define uhsfs_ioend_bio(ioend) (&(ioend)->io_bio)
#define uhsfs_bio_ioend(bio) iomap_ioend_from_bio(bio)
#define UHSFS_MAP_BLOCKS(function) \
static int uhsfs_map_blocks(struct iomap_writepage_ctx *wpc, struct inode *inode, loff_t offset, \
			    unsigned int len) \
{ \
	return function(wpc, inode, offset); \
}
#else
#define uhsfs_ioend_bio(ioend) ((ioend)->io_bio)
#define uhsfs_bio_ioend(bio) ((struct iomap_ioend *)(bio)->bi_private)
#define UHSFS_MAP_BLOCKS(function) \
static int uhsfs_map_blocks(struct iomap_writepage_ctx *wpc, struct inode *inode, loff_t offset) \
{ \
	return function(wpc, inode, offset); \
}
#endif

/* 6.5: a buffered write moves the position itself; 6.12: it has private data. */
static inline ssize_t uhsfs_buffered_write(struct kiocb *iocb, struct iov_iter *from,
					   const struct iomap_ops *ops)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	return iomap_file_buffered_write(iocb, from, ops, NULL);
#else
	ssize_t ret = iomap_file_buffered_write(iocb, from, ops);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	if (ret > 0)
		iocb->ki_pos += ret;
#endif
	return ret;
#endif
}

/* 6.3: operations on pages of a mapping are on folios. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define uhsfs_page_ops iomap_folio_ops
#define UHSFS_PAGE_OPS folio_ops
#else
#define uhsfs_page_ops iomap_page_ops
#define UHSFS_PAGE_OPS page_ops
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
#define uhsfs_dirty_folio iomap_dirty_folio
#else
#define uhsfs_dirty_folio filemap_dirty_folio
#endif

/* 6.4: an absent folio is an error pointer.  Here: NULL. */
static inline struct folio *uhsfs_find_folio(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(mapping, index);

	return IS_ERR(folio) ? NULL : folio;
}

/* A locked folio, made if there is none; NULL: no memory. */
static inline struct folio *uhsfs_lock_folio(struct address_space *mapping, pgoff_t index)
{
	struct folio *folio = __filemap_get_folio(mapping, index,
						  FGP_LOCK | FGP_ACCESSED | FGP_CREAT,
						  mapping_gfp_mask(mapping));

	return IS_ERR(folio) ? NULL : folio;
}

/* 6.5: splicing from the page cache is a function of its own. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define uhsfs_splice_read filemap_splice_read
#else
#define uhsfs_splice_read generic_file_splice_read
#endif

/* 6.10: that buffered reads may be asynchronous is a property of the operations. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define UHSFS_BUF_RASYNC .fop_flags = FOP_BUFFER_RASYNC,
#define UHSFS_FMODE_BUF_RASYNC 0
#else
#define UHSFS_BUF_RASYNC
#define UHSFS_FMODE_BUF_RASYNC FMODE_BUF_RASYNC
#endif

/* 6.8: the operation takes a folio. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define UHSFS_ERROR_REMOVE .error_remove_folio = generic_error_remove_folio
#else
#define UHSFS_ERROR_REMOVE .error_remove_page = generic_error_remove_page
#endif

/* 6.2: the inode operation that reads an ACL has another name and no handlers. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define UHSFS_GET_ACL .get_inode_acl
#define UHSFS_ACL_HANDLERS
#else
#define UHSFS_GET_ACL .get_acl
#define UHSFS_ACL_HANDLERS &posix_acl_access_xattr_handler, &posix_acl_default_xattr_handler,
#endif

/* 6.7: the table of xattr handlers is constant. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
#define UHSFS_XATTR_TABLE const
#else
#define UHSFS_XATTR_TABLE
#endif

/* 6.9: the uuid is set by a function. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 9, 0)
static inline void super_set_uuid(struct super_block *sb, const u8 *uuid, unsigned int len)
{
	memcpy(&sb->s_uuid, uuid, min_t(size_t, len, sizeof(sb->s_uuid)));
}
#endif

/* 6.10: the source of a trace event's string is known from its declaration. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define uhsfs_assign_str(field, source) __assign_str(field)
#else
#define uhsfs_assign_str(field, source) __assign_str(field, source)
#endif

#endif /* UHSFS_COMPAT_H */
