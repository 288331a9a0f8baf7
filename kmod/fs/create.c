// SPDX-License-Identifier: GPL-2.0
/*
 * New inodes: create, mknod, mkdir, symlink, and O_TMPFILE, which has no name.
 *
 * Each operation changes one slot; the entry in the directory's index and its times and
 * counts follow.  The VFS holds i_rwsem of the directory, exclusively.
 */
#include <linux/iversion.h>
#include <linux/posix_acl.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "rw.h"

#include "core/xattr.h"

void uhsfs_names_changed(struct inode *dir, struct inode *inode)
{
	uhsfs_now(dir, S_MTIME | S_CTIME);
	inode_inc_iversion(dir);
	uhsfs_touch(dir);
	if (inode) {
		uhsfs_now(inode, S_CTIME);
		inode_inc_iversion(inode);
		/* One without a name is touched when it goes. */
		if (inode->i_nlink)
			uhsfs_touch(inode);
	}
}

/* ---- new inodes ----------------------------------------------------------- */

int uhsfs_set_up_new(struct inode *inode, dev_t dev, const char *target)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct uhsfs_device *device;
	int err;

	switch (inode->i_mode & S_IFMT) {
	case S_IFREG:
		inode->i_op = &uhsfs_file_inode_operations;
		inode->i_fop = &uhsfs_file_operations;
		inode->i_mapping->a_ops = &uhsfs_aops;
		mapping_set_large_folios(inode->i_mapping);
		info->list_loaded = true;
		return 0;
	case S_IFDIR:
		inode->i_op = &uhsfs_dir_inode_operations;
		inode->i_fop = &uhsfs_dir_operations;
		uhsfs_meta_mapping(inode->i_mapping);
		set_nlink(inode, 2);
		return uhsfs_dir_create(inode);
	case S_IFLNK:
		inode_nohighmem(inode);
		i_size_write(inode, strlen(target));
		info->disk_size = strlen(target);
		if (strlen(target) > uhsfs_inline_max(inode)) {
			inode->i_op = &uhsfs_long_symlink_inode_operations;
			inode->i_mapping->a_ops = &uhsfs_aops;
			down_write(&info->lock);
			err = uhsfs_first_block(inode, target, strlen(target));
			up_write(&info->lock);
			return err;
		}
		inode->i_op = &uhsfs_symlink_inode_operations;
		inode->i_link = kstrdup(target, GFP_KERNEL_ACCOUNT);
		info->image = kstrdup(target, GFP_KERNEL_ACCOUNT);
		if (!inode->i_link || !info->image)
			return -ENOMEM;
		info->view.value[UHSFS_TLV_INLINE] = info->image;
		info->view.len[UHSFS_TLV_INLINE] = strlen(target);
		return 0;
	default:
		inode->i_op = &uhsfs_special_inode_operations;
		init_special_inode(inode, inode->i_mode, dev);
		if (!S_ISBLK(inode->i_mode) && !S_ISCHR(inode->i_mode))
			return 0;
		device = kzalloc(sizeof(*device), GFP_KERNEL_ACCOUNT);
		if (!device)
			return -ENOMEM;
		device->major = cpu_to_le32(MAJOR(dev));
		device->minor = cpu_to_le32(MINOR(dev));
		info->image = device;
		info->view.value[UHSFS_TLV_DEVICE] = device;
		info->view.len[UHSFS_TLV_DEVICE] = sizeof(*device);
		return 0;
	}
}

static struct inode *new_slot_inode(struct uhsfs_idmap *idmap, struct inode *dir, umode_t mode,
				    const struct uhsfs_new_slot *slot)
{
	struct inode *inode = new_inode(dir->i_sb);
	struct uhsfs_attr *attr;

	if (!inode)
		return NULL;
	inode->i_ino = slot->ino;
	inode->i_generation = slot->gen;
	inode_init_owner(idmap, inode, dir, mode);
	uhsfs_now(inode, S_ATIME | S_MTIME | S_CTIME);
	inode_set_iversion(inode, 1);
	attr = &uhsfs_i(inode)->view.attr;
	attr->ino = slot->ino;
	attr->generation = slot->gen;
	attr->nonce = slot->nonce;
	attr->name_seq_max = slot->name_seq_max;
	uhsfs_get_times(inode, &attr->atime, &attr->mtime, &attr->ctime);
	attr->btime = attr->ctime;
	cache_no_acl(inode);
	return inode;
}

static void release_slot(struct super_block *sb, u64 ino)
{
	mutex_lock(&uhsfs_rw(sb)->lock);
	uhsfs_slot_release(sb, ino);
	mutex_unlock(&uhsfs_rw(sb)->lock);
}

/* Nothing of a directory without a name needs to go to the device any more. */
void uhsfs_forget_dir(struct inode *inode)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	bool kept;

	down_write(&uhsfs_i(inode)->lock);
	uhsfs_drop_buckets(inode);
	mutex_lock(&rw->lock);
	kept = xa_erase(&rw->dirty_dirs, inode->i_ino);
	mutex_unlock(&rw->lock);
	up_write(&uhsfs_i(inode)->lock);
	if (kept)
		iput(inode);
}

/* A new inode that gets no name goes as one does that lost it. */
void uhsfs_abandon(struct inode *inode)
{
	clear_nlink(inode);
	if (S_ISDIR(inode->i_mode))
		uhsfs_forget_dir(inode);
	discard_new_inode(inode);
}

/* ACLs cannot be stored yet: what needs one is refused rather than made without. */
static int apply_umask(struct inode *dir, umode_t *mode)
{
	struct posix_acl *inherited, *acl;
	int err = posix_acl_create(dir, mode, &inherited, &acl);

	if (err)
		return err;
	if (inherited || acl)
		err = -EOPNOTSUPP;
	posix_acl_release(inherited);
	posix_acl_release(acl);
	return err;
}

static int name_new(struct inode *inode, struct inode *dir, const struct qstr *name, dev_t dev,
		    const char *target)
{
	const struct uhsfs_name_step claim = {
		.kind = UHSFS_ORDER_CLAIM,
		.inode = inode,
		.dir = dir,
		.name = name,
		.born = true,
	};
	int err = uhsfs_set_up_new(inode, dev, target);

	if (!err)
		err = uhsfs_touch(dir) ?: uhsfs_announce(inode);
	if (!err)
		err = uhsfs_dir_insert_entry(dir, name, inode->i_ino, inode->i_generation,
					     uhsfs_mode_dtype(inode->i_mode));
	if (err)
		return err;
	err = uhsfs_change_names(dir->i_sb, &claim, 1);
	if (err)
		uhsfs_dir_remove_entry(dir, name, inode->i_ino, inode->i_generation);
	return err;
}

/* A new inode of mode and owner as the directory says, in the cache and locked; or an error. */
struct inode *uhsfs_new_inode(struct uhsfs_idmap *idmap, struct inode *dir, umode_t mode)
{
	struct super_block *sb = dir->i_sb;
	struct uhsfs_new_slot slot;
	struct inode *inode;
	int err;

	err = uhsfs_slot_alloc(sb, dir->i_ino, &slot);
	if (err)
		return ERR_PTR(err);
	inode = new_slot_inode(idmap, dir, mode, &slot);
	if (!inode || insert_inode_locked(inode)) {
		if (inode) {
			uhsfs_i(inode)->view.attr.nonce = 0;
			make_bad_inode(inode);
			iput(inode);
		}
		release_slot(sb, slot.ino);
		return ERR_PTR(inode ? -EIO : -ENOMEM);
	}
	return inode;
}

static int make_once(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry,
		     umode_t mode, dev_t dev, const char *target)
{
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	struct inode *inode = uhsfs_new_inode(idmap, dir, mode);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	down_read(&rw->gate);
	err = name_new(inode, dir, &dentry->d_name, dev, target);
	if (!err) {
		if (S_ISDIR(mode))
			inc_nlink(dir);
		uhsfs_names_changed(dir, NULL);
	}
	up_read(&rw->gate);
	if (err)
		uhsfs_abandon(inode);
	else
		d_instantiate_new(dentry, inode);
	return err;
}

static int make(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode,
		dev_t dev, const char *target)
{
	int err;

	if (dentry->d_name.len > UHSFS_NAME_LEN)
		return -ENAMETOOLONG;
	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(uhsfs_rw(dir->i_sb)->failed))
		return -EIO;
	if (S_ISDIR(mode) && dir->i_nlink >= UHSFS_LINK_MAX)
		return -EMLINK;
	err = apply_umask(dir, &mode);
	if (err)
		return err;
	err = make_once(idmap, dir, dentry, mode, dev, target);
	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(dir->i_sb))
		err = make_once(idmap, dir, dentry, mode, dev, target);
	return err;
}

/* Its slot says that it has no name, in memory from the start: nobody else says so. */
static int begin_nameless(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	int err;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_get(inode);
	err = IS_ERR(dslot) ? PTR_ERR(dslot) : 0;
	if (!err) {
		u64 op = uhsfs_next_op(sb);

		dslot->order.born = op;
		dslot->order.durable = 0;
		dslot->order.names = 0;
		dslot->names_loaded = true;
		err = uhsfs_touch_locked(sb, dslot, op);
	}
	mutex_unlock(&rw->lock);
	return err;
}

static int tmpfile_once(struct uhsfs_idmap *idmap, struct inode *dir, struct file *file,
			umode_t mode)
{
	struct inode *inode = uhsfs_new_inode(idmap, dir, mode);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = uhsfs_set_up_new(inode, 0, NULL);
	err = err ?: begin_nameless(inode);
	if (err) {
		uhsfs_abandon(inode);
		return err;
	}
	d_tmpfile(file, inode);
	unlock_new_inode(inode);
	return 0;
}

int uhsfs_tmpfile(struct uhsfs_idmap *idmap, struct inode *dir, struct file *file, umode_t mode)
{
	int err;

	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(uhsfs_rw(dir->i_sb)->failed))
		return -EIO;
	err = apply_umask(dir, &mode);
	if (err)
		return err;
	err = tmpfile_once(idmap, dir, file, mode);
	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(dir->i_sb))
		err = tmpfile_once(idmap, dir, file, mode);
	return finish_open_simple(file, err);
}

int uhsfs_create(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode,
		 bool excl)
{
	return make(idmap, dir, dentry, mode | S_IFREG, 0, NULL);
}

int uhsfs_mknod(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode,
		dev_t dev)
{
	return make(idmap, dir, dentry, mode, dev, NULL);
}

int uhsfs_mkdir(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry, umode_t mode)
{
	return make(idmap, dir, dentry, mode | S_IFDIR, 0, NULL);
}

int uhsfs_symlink(struct uhsfs_idmap *idmap, struct inode *dir, struct dentry *dentry,
		  const char *target)
{
	if (strlen(target) >= UHSFS_BLOCK_SIZE)
		return -ENAMETOOLONG;
	return make(idmap, dir, dentry, S_IFLNK | 0777, 0, target);
}
