/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows kernel versions.  Code elsewhere is written for the
 * newest supported kernel; what older ones lack or name differently is supplied
 * here.  The supported range comes from META through Kbuild.
 */
#ifndef UHSFS_COMPAT_H
#define UHSFS_COMPAT_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/posix_acl_xattr.h>
#include <linux/splice.h>
#include <linux/version.h>
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
