// SPDX-License-Identifier: GPL-2.0
/*
 * Inodes: from a slot to a struct inode, and its life.
 *
 * An inode keeps a copy of its slot, so that reading a file touches no slot block.  The
 * copy is freed with the inode, after a grace period: walks in RCU mode read symlinks
 * from it.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/fileattr.h>
#include <linux/iversion.h>
#include <linux/log2.h>
#include <linux/posix_acl.h>
#include <linux/slab.h>

#include "rw.h"

static struct kmem_cache *inode_cache;

static void init_once(void *object)
{
	struct uhsfs_inode_info *info = object;

	inode_init_once(&info->vfs_inode);
	init_rwsem(&info->lock);
	xa_init(&info->buckets);
	INIT_LIST_HEAD(&info->unpin);
	INIT_LIST_HEAD(&info->held);
	INIT_LIST_HEAD(&info->ioends);
	spin_lock_init(&info->ioend_lock);
	INIT_WORK(&info->ioend_work, uhsfs_ioend_work);
}

int uhsfs_inode_cache_init(void)
{
	inode_cache = kmem_cache_create("uhsfs_inode", sizeof(struct uhsfs_inode_info), 0,
					SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT, init_once);
	return inode_cache ? 0 : -ENOMEM;
}

void uhsfs_inode_cache_exit(void)
{
	/* Inodes are freed after a grace period. */
	rcu_barrier();
	kmem_cache_destroy(inode_cache);
}

struct inode *uhsfs_alloc_inode(struct super_block *sb)
{
	struct uhsfs_inode_info *info = alloc_inode_sb(sb, inode_cache, GFP_NOFS);

	if (!info)
		return NULL;
	info->image = NULL;
	memset(&info->view, 0, sizeof(info->view));
	memset(&info->dir, 0, sizeof(info->dir));
	memset(&info->list, 0, sizeof(info->list));
	memset(&info->delayed, 0, sizeof(info->delayed));
	info->delayed_blocks = 0;
	info->inline_copy = NULL;
	info->inlined = false;
	info->data_first = false;
	info->emptied = false;
	info->no_inline = false;
	info->list_loaded = false;
	info->list_changed = false;
	info->disk_size = 0;
	info->map_seq = 0;
	memset(&info->published, 0, sizeof(info->published));
	memset(&info->publishing, 0, sizeof(info->publishing));
	info->pub = NULL;
	info->pubbing = NULL;
	info->pub_count = 0;
	info->pub_changed = false;
	return &info->vfs_inode;
}

void uhsfs_free_inode(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);

	if (S_ISLNK(inode->i_mode))
		kfree(inode->i_link);
	kfree(info->image);
	kfree(info->inline_copy);
	kvfree(info->list.extent);
	kvfree(info->delayed.extent);
	kvfree(info->pub);
	kvfree(info->pubbing);
	kmem_cache_free(inode_cache, info);
}

void uhsfs_evict_inode(struct inode *inode)
{
	truncate_inode_pages_final(&inode->i_data);
	if (uhsfs_i(inode)->delayed.count) {
		down_write(&uhsfs_i(inode)->lock);
		uhsfs_undelay(inode, 0, UHSFS_LOGICAL_END);
		up_write(&uhsfs_i(inode)->lock);
	}
	if (uhsfs_sb(inode->i_sb)->rw && uhsfs_i(inode)->view.attr.nonce) {
		if (inode->i_nlink || is_bad_inode(inode))
			uhsfs_forget_dslot(inode);
		else
			uhsfs_free_evicted(inode);
	}
	uhsfs_drop_buckets(inode);
	clear_inode(inode);
}

/* ---- from the slot ------------------------------------------------------------- */

/*
 * Copy the used part of a slot and point the view into the copy.
 */
int uhsfs_keep_image(struct uhsfs_inode_info *info, const struct uhsfs_slot_view *view)
{
	size_t size = UHSFS_SLOT_HEADER + le16_to_cpu(view->raw->body_len);
	const u8 *from = (const u8 *)view->raw;
	/* The copy of an image that is being committed there must be. */
	u8 *image = kmalloc(size, GFP_NOFS | __GFP_ACCOUNT | (info->image ? __GFP_NOFAIL : 0));

	if (!image)
		return -ENOMEM;
	memcpy(image, from, size);
	kfree(info->image);
	info->image = image;
	info->view = *view;
	info->view.raw = (const void *)image;
	for (int i = 0; i < UHSFS_TLV_TYPES; i++)
		if (view->value[i])
			info->view.value[i] = image + ((const u8 *)view->value[i] - from);
	return 0;
}

/* A slot has a power of two, so that the copy does not cross a page, as iomap demands. */
static int keep_inline(struct uhsfs_inode_info *info)
{
	u32 len = info->view.len[UHSFS_TLV_INLINE];

	if (!info->view.value[UHSFS_TLV_INLINE] || !len || !S_ISREG(info->vfs_inode.i_mode))
		return 0;
	info->inline_copy = kmalloc(uhsfs_geo(info->vfs_inode.i_sb)->slot_size,
				    GFP_KERNEL_ACCOUNT);
	if (!info->inline_copy)
		return -ENOMEM;
	memcpy(info->inline_copy, info->view.value[UHSFS_TLV_INLINE], len);
	info->inlined = true;
	return 0;
}

static unsigned int vfs_flags(u32 flags)
{
	return (flags & UHSFS_INODE_SYNC ? S_SYNC : 0) |
	       (flags & UHSFS_INODE_IMMUTABLE ? S_IMMUTABLE : 0) |
	       (flags & UHSFS_INODE_APPEND ? S_APPEND : 0) |
	       (flags & UHSFS_INODE_NOATIME ? S_NOATIME : 0) |
	       (flags & UHSFS_INODE_DIRSYNC ? S_DIRSYNC : 0);
}

static void set_attributes(struct inode *inode, const struct uhsfs_attr *attr)
{
	inode->i_mode = attr->mode;
	i_uid_write(inode, attr->uid);
	i_gid_write(inode, attr->gid);
	inode->i_generation = attr->generation;
	inode->i_blocks = attr->blocks << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	uhsfs_set_times(inode, ns_to_timespec64(attr->atime), ns_to_timespec64(attr->mtime),
			ns_to_timespec64(attr->ctime));
	inode_set_flags(inode, vfs_flags(attr->flags),
			S_SYNC | S_IMMUTABLE | S_APPEND | S_NOATIME | S_DIRSYNC);
	i_size_write(inode, attr->size);
	uhsfs_i(inode)->disk_size = attr->size;
	inode_set_iversion_queried(inode, attr->version);
}

static int set_up_dir(struct inode *inode)
{
	const struct uhsfs_sb_info *sbi = uhsfs_sb(inode->i_sb);
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct uhsfs_fault fault;
	u64 entries;
	u32 subdirs;
	int err;

	if (uhsfs_dir_root_decode(info->view.value[UHSFS_TLV_DIR], info->view.len[UHSFS_TLV_DIR],
				  inode->i_ino, &info->dir, &fault))
		return uhsfs_fault(inode->i_sb, inode->i_ino, &fault);
	inode->i_op = &uhsfs_dir_inode_operations;
	inode->i_fop = &uhsfs_dir_operations;
	uhsfs_meta_mapping(inode->i_mapping);
	i_size_write(inode, (loff_t)info->dir.buckets << UHSFS_BLOCK_SHIFT);
	/* After a crash the counts in the slot are hints; better those than nothing. */
	if (sbi->crashed && (sbi->overlay || !sbi->unclean)) {
		err = uhsfs_dir_count(inode, &entries, &subdirs);
		if (err == -EINTR || err == -ENOMEM)
			return err;
		if (!err) {
			info->dir.entries = entries;
			info->dir.subdirs = subdirs;
		}
	}
	set_nlink(inode, 2 + info->dir.subdirs);
	return 0;
}

static int set_up_symlink(struct inode *inode)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	const void *target = view->value[UHSFS_TLV_INLINE];

	inode_nohighmem(inode);
	if (!target) {
		inode->i_op = &uhsfs_long_symlink_inode_operations;
		inode->i_mapping->a_ops = &uhsfs_aops;
		return 0;
	}
	if (memchr(target, '\0', view->len[UHSFS_TLV_INLINE]))
		return uhsfs_corrupt(inode->i_sb, inode->i_ino, "symlink target", 0, 1,
				     "must have no NUL");
	inode->i_link = kmemdup_nul(target, view->len[UHSFS_TLV_INLINE], GFP_KERNEL_ACCOUNT);
	inode->i_op = &uhsfs_symlink_inode_operations;
	return inode->i_link ? 0 : -ENOMEM;
}

static int set_up_special(struct inode *inode)
{
	const struct uhsfs_device *device = uhsfs_i(inode)->view.value[UHSFS_TLV_DEVICE];
	u32 major = device ? le32_to_cpu(device->major) : 0;
	u32 minor = device ? le32_to_cpu(device->minor) : 0;

	if (major >= 1U << (32 - MINORBITS) || minor > MINORMASK) {
		uhsfs_err(inode->i_sb, "inode %lu: device %u:%u is beyond what can be (%u:%u)",
			  inode->i_ino, major, minor, (1U << (32 - MINORBITS)) - 1, MINORMASK);
		return -EOVERFLOW;
	}
	inode->i_op = &uhsfs_special_inode_operations;
	init_special_inode(inode, inode->i_mode, MKDEV(major, minor));
	return 0;
}

static int set_up(struct inode *inode)
{
	switch (inode->i_mode & S_IFMT) {
	case S_IFREG:
		inode->i_op = &uhsfs_file_inode_operations;
		inode->i_fop = &uhsfs_file_operations;
		inode->i_mapping->a_ops = &uhsfs_aops;
		mapping_set_large_folios(inode->i_mapping);
		return 0;
	case S_IFDIR:
		return set_up_dir(inode);
	case S_IFLNK:
		return set_up_symlink(inode);
	default:
		return set_up_special(inode);
	}
}

/* Recovery made it from a FREE slot: a whiteout, without attributes of its own. */
static void make_whiteout(struct inode *inode, u32 generation)
{
	struct timespec64 none = {};

	inode->i_mode = S_IFCHR;
	inode->i_generation = generation;
	uhsfs_set_times(inode, none, none, none);
	inode_set_iversion_queried(inode, 0);
	set_nlink(inode, 1);
	inode->i_op = &uhsfs_special_inode_operations;
	init_special_inode(inode, inode->i_mode, WHITEOUT_DEV);
}

static int read_inode(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	const struct uhsfs_overlay_slot *overlay = uhsfs_overlay_slot(sb, inode->i_ino);
	struct uhsfs_slot_view view;
	struct folio *folio;
	int err;

	if (overlay && overlay->made) {
		make_whiteout(inode, overlay->generation);
		return 0;
	}
	if (overlay && overlay->freed)
		return -ENOENT;
	if (uhsfs_rw(sb) && uhsfs_freed_in_memory(sb, inode->i_ino))
		return -ENOENT;
	err = uhsfs_slot_get(sb, inode->i_ino, &view, &folio);
	if (err)
		return err;
	err = -ENOENT;
	if (view.attr.state == UHSFS_SLOT_INODE)
		err = uhsfs_keep_image(uhsfs_i(inode), &view);
	uhsfs_slot_done(sb, folio);
	if (err)
		return err;
	set_attributes(inode, &view.attr);
	set_nlink(inode, view.attr.nlink + (overlay ? overlay->nlink : 0));
	if (!view.value[UHSFS_TLV_XATTRS] && !view.value[UHSFS_TLV_XATTR_ROOT])
		cache_no_acl(inode);
	err = keep_inline(uhsfs_i(inode));
	return err ?: set_up(inode);
}

struct inode *uhsfs_iget(struct super_block *sb, u64 ino)
{
	struct inode *inode = iget_locked(sb, ino);
	int err;

	if (!inode)
		return ERR_PTR(-ENOMEM);
	if (!(inode->i_state & I_NEW))
		return inode;
	err = read_inode(inode);
	if (err) {
		iget_failed(inode);
		return ERR_PTR(err);
	}
	unlock_new_inode(inode);
	return inode;
}

struct inode *uhsfs_iget_generation(struct super_block *sb, u64 ino, u32 gen)
{
	struct inode *inode;

	if (ino == UHSFS_INO_INVALID)
		return ERR_PTR(-ESTALE);
	inode = uhsfs_iget(sb, ino);
	if (IS_ERR(inode))
		return PTR_ERR(inode) == -ENOENT ? ERR_PTR(-ESTALE) : inode;
	if (inode->i_generation != gen || (!inode->i_nlink && ino != UHSFS_INO_ROOT)) {
		iput(inode);
		return ERR_PTR(-ESTALE);
	}
	return inode;
}

/* ---- attributes -------------------------------------------------------------------- */

int uhsfs_getattr(struct uhsfs_idmap *idmap, const struct path *path, struct kstat *stat,
		  u32 request_mask, unsigned int flags)
{
	struct inode *inode = d_inode(path->dentry);
	const struct uhsfs_attr *attr = &uhsfs_i(inode)->view.attr;

	if (inode->i_flags & S_APPEND)
		stat->attributes |= STATX_ATTR_APPEND;
	if (inode->i_flags & S_IMMUTABLE)
		stat->attributes |= STATX_ATTR_IMMUTABLE;
	if (attr->flags & UHSFS_INODE_NODUMP)
		stat->attributes |= STATX_ATTR_NODUMP;
	stat->attributes_mask |= STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE | STATX_ATTR_NODUMP;
	uhsfs_fillattr(idmap, request_mask, inode, stat);
	/* What is promised is as good as taken. */
	stat->blocks += READ_ONCE(uhsfs_i(inode)->delayed_blocks) <<
			(UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	/* A whiteout that recovery made has no slot yet. */
	if (uhsfs_i(inode)->image) {
		stat->result_mask |= STATX_BTIME;
		stat->btime = ns_to_timespec64(attr->btime);
	}
	if (request_mask & STATX_DIOALIGN && S_ISREG(inode->i_mode)) {
		stat->result_mask |= STATX_DIOALIGN;
		stat->dio_mem_align = bdev_dma_alignment(inode->i_sb->s_bdev) + 1;
		stat->dio_offset_align = bdev_logical_block_size(inode->i_sb->s_bdev);
	}
	return 0;
}

int uhsfs_fileattr_get(struct dentry *dentry, struct fileattr *fa)
{
	static const struct {
		u32 inode, attribute;
	} flags[] = {
		{ UHSFS_INODE_SYNC, FS_SYNC_FL },
		{ UHSFS_INODE_IMMUTABLE, FS_IMMUTABLE_FL },
		{ UHSFS_INODE_APPEND, FS_APPEND_FL },
		{ UHSFS_INODE_NODUMP, FS_NODUMP_FL },
		{ UHSFS_INODE_NOATIME, FS_NOATIME_FL },
		{ UHSFS_INODE_DIRSYNC, FS_DIRSYNC_FL },
		{ UHSFS_INODE_PROJINHERIT, FS_PROJINHERIT_FL },
	};
	const struct uhsfs_attr *attr = &uhsfs_i(d_inode(dentry))->view.attr;
	u32 found = 0;

	for (int i = 0; i < ARRAY_SIZE(flags); i++)
		if (attr->flags & flags[i].inode)
			found |= flags[i].attribute;
	fileattr_fill_flags(fa, found);
	fa->fsx_projid = attr->projid;
	return 0;
}
