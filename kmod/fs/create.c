// SPDX-License-Identifier: GPL-2.0
/*
 * Making and removing names: create, mknod, mkdir, symlink, link, unlink, rmdir; inodes
 * without a name, from the start (O_TMPFILE) or in the end.
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

/* ---- names of an inode, in memory ----------------------------------------- */

#define FIRST_MAX 8

/* What R4(c) wants to be committed before an operation. */
struct first {
	u32 count;
	u64 ino[FIRST_MAX];
};

static int add_first(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	struct first *first = ctx;

	if (first->count == FIRST_MAX)
		return 1;
	first->ino[first->count++] = container_of(on, struct uhsfs_dslot, order)->ino;
	return 0;
}

static int commit_first(struct super_block *sb, const struct first *first)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err = 0;

	up_read(&rw->gate);
	for (u32 i = 0; !err && i < first->count; i++)
		err = uhsfs_commit(sb, first->ino[i]);
	down_read(&rw->gate);
	return err;
}

static int room_for_name(struct uhsfs_dslot *dslot)
{
	struct uhsfs_own_name **names;
	u32 room = dslot->name_room ? 2 * dslot->name_room : 2;

	if (dslot->name_count < dslot->name_room)
		return 0;
	names = krealloc(dslot->names, room * sizeof(*names), GFP_NOFS);
	if (!names)
		return -ENOMEM;
	dslot->names = names;
	dslot->name_room = room;
	return 0;
}

/* Record a change of a name; with R4(c) it is taken back, and *first says why. */
static int record(struct super_block *sb, struct uhsfs_name_change *change,
		  struct uhsfs_dslot *dslot, struct uhsfs_dslot *parent, const struct qstr *name,
		  struct first *first)
{
	const struct uhsfs_order_visitor visitor = { .wait = add_first, .ctx = first };
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u64 before = dslot->order.changed;

	memcpy(change->name, name->name, name->len);
	change->change.op = uhsfs_next_op(sb);
	change->change.slot = &dslot->order;
	change->change.parent = &parent->order;
	change->change.name = change->name;
	change->change.len = name->len;
	uhsfs_order_add(&rw->order, &change->change);
	first->count = 0;
	uhsfs_order_first(&rw->order, &dslot->order, change->change.op, &visitor);
	if (first->count) {
		uhsfs_order_undo(&rw->order, &change->change, before);
		return -EAGAIN;
	}
	parent->refs++;
	return 0;
}

/* The inode has a further name, or its first one. */
static int claim_once(struct inode *inode, struct inode *dir, const struct qstr *name, bool born,
		      struct first *first)
{
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_name_change *change = kzalloc(sizeof(*change), GFP_NOFS);
	struct uhsfs_own_name *own = kzalloc(sizeof(*own), GFP_NOFS);
	struct uhsfs_dslot *dslot, *parent;
	int err = change && own ? 0 : -ENOMEM;

	mutex_lock(&rw->lock);
	dslot = err ? ERR_PTR(err) : uhsfs_dslot_get(inode);
	parent = err ? ERR_PTR(err) : uhsfs_dslot_get(dir);
	if (IS_ERR(dslot) || IS_ERR(parent))
		err = -ENOMEM;
	/* A commit may have dropped the dslot that had the names. */
	if (!err && !born && !dslot->names_loaded)
		err = -EAGAIN;
	if (!err)
		err = room_for_name(dslot);
	/* Touching comes first: it can fail. */
	if (!err)
		err = uhsfs_mark(sb, dslot->ino) ?: uhsfs_mark(sb, parent->ino);
	if (!err) {
		if (born) {
			dslot->order.born = uhsfs_seq_make(rw->epoch, rw->counter + 1);
			dslot->order.durable = 0;
			dslot->order.names = 0;
			dslot->names_loaded = true;
		}
		change->change.kind = UHSFS_ORDER_CLAIM;
		err = record(sb, change, dslot, parent, name, first);
	}
	if (!err) {
		memcpy(own->bytes, name->name, name->len);
		own->claim = (struct uhsfs_claim) {
			.parent_ino = dir->i_ino,
			.parent_gen = dir->i_generation,
			.len = name->len,
			.name_seq = change->change.op,
			.name = own->bytes,
		};
		dslot->names[dslot->name_count++] = own;
		dslot->name_seq_max = change->change.op;
		dslot->names_changed = true;
		uhsfs_touch_locked(sb, dslot, change->change.op);
		uhsfs_touch_locked(sb, parent, change->change.op);
	}
	mutex_unlock(&rw->lock);
	if (err) {
		kfree(change);
		kfree(own);
	}
	return err;
}

/* The gate is held, but not while something else is committed. */
static int claim_name(struct inode *inode, struct inode *dir, const struct qstr *name, bool born)
{
	struct first first = {};
	int err;

	do {
		err = born ? 0 : uhsfs_load_names(inode);
		err = err ?: claim_once(inode, dir, name, born, &first);
		if (err == -EAGAIN && commit_first(inode->i_sb, &first))
			return -EIO;
	} while (err == -EAGAIN);
	return err;
}

void uhsfs_remove_own(struct uhsfs_dslot *dslot, struct uhsfs_own_name *own)
{
	u32 i = 0;

	while (dslot->names[i] != own)
		i++;
	kfree(own);
	dslot->name_count--;
	memmove(&dslot->names[i], &dslot->names[i + 1],
		(dslot->name_count - i) * sizeof(*dslot->names));
	dslot->names_changed = true;
}

/* The inode loses a name.  *unpin: the caller drops a reference. */
static int leave_once(struct inode *inode, struct inode *dir, const struct qstr *name,
		      struct first *first, bool *unpin)
{
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	const struct uhsfs_claim claim = {
		.parent_ino = dir->i_ino,
		.parent_gen = dir->i_generation,
		.name = name->name,
		.len = name->len,
	};
	struct uhsfs_name_change *change = kzalloc(sizeof(*change), GFP_NOFS);
	struct uhsfs_own_name *own = NULL;
	struct uhsfs_dslot *dslot, *parent;
	int err = change ? 0 : -ENOMEM;

	mutex_lock(&rw->lock);
	dslot = err ? ERR_PTR(err) : uhsfs_dslot_get(inode);
	parent = err ? ERR_PTR(err) : uhsfs_dslot_get(dir);
	if (IS_ERR(dslot) || IS_ERR(parent))
		err = -ENOMEM;
	/* A commit may have dropped the dslot that had the names. */
	if (!err && !dslot->names_loaded)
		err = -EAGAIN;
	if (!err) {
		own = uhsfs_own_name(dslot, &claim);
		err = own ? uhsfs_mark(sb, dslot->ino) ?: uhsfs_mark(sb, parent->ino) : -ESTALE;
	}
	if (!err) {
		change->change.kind = UHSFS_ORDER_UNLINK;
		change->change.was = own->claim.name_seq;
		err = record(sb, change, dslot, parent, name, first);
	}
	if (!err) {
		uhsfs_remove_own(dslot, own);
		dslot->name_seq_max = change->change.op;
		uhsfs_touch_locked(sb, dslot, change->change.op);
		uhsfs_touch_locked(sb, parent, change->change.op);
		*unpin = !dslot->order.names && dslot->pinned;
		if (*unpin)
			dslot->pinned = false;
	}
	mutex_unlock(&rw->lock);
	if (err)
		kfree(change);
	return err;
}

static int leave_name(struct inode *inode, struct inode *dir, const struct qstr *name)
{
	struct first first = {};
	bool unpin = false;
	int err;

	do {
		err = uhsfs_load_names(inode);
		err = err ?: leave_once(inode, dir, name, &first, &unpin);
		if (err == -EAGAIN && commit_first(inode->i_sb, &first))
			return -EIO;
	} while (err == -EAGAIN);
	/* The caller has a reference of its own. */
	if (unpin)
		iput(inode);
	return err;
}

static void change_times(struct inode *dir, struct inode *inode)
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

static int set_up_new(struct inode *inode, dev_t dev, const char *target)
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
static void forget_dir(struct inode *inode)
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
static void abandon(struct inode *inode)
{
	clear_nlink(inode);
	if (S_ISDIR(inode->i_mode))
		forget_dir(inode);
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
	int err = set_up_new(inode, dev, target);

	if (!err)
		err = uhsfs_touch(dir);
	if (!err)
		err = uhsfs_dir_insert_entry(dir, name, inode->i_ino, inode->i_generation,
					     uhsfs_mode_dtype(inode->i_mode));
	if (err)
		return err;
	err = claim_name(inode, dir, name, true);
	if (err)
		uhsfs_dir_remove_entry(dir, name, inode->i_ino, inode->i_generation);
	return err;
}

/* A new inode of mode and owner as the directory says, in the cache and locked; or an error. */
static struct inode *new_inode_in(struct uhsfs_idmap *idmap, struct inode *dir, umode_t mode)
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
	struct inode *inode = new_inode_in(idmap, dir, mode);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	down_read(&rw->gate);
	err = name_new(inode, dir, &dentry->d_name, dev, target);
	if (!err) {
		if (S_ISDIR(mode))
			inc_nlink(dir);
		change_times(dir, NULL);
	}
	up_read(&rw->gate);
	if (err)
		abandon(inode);
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
	struct inode *inode = new_inode_in(idmap, dir, mode);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = set_up_new(inode, 0, NULL);
	err = err ?: begin_nameless(inode);
	if (err) {
		abandon(inode);
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

/* ---- further names, fewer names ------------------------------------------- */

/*
 * Would the slot have room whichever name is the first?  Data in the slot that leaves none
 * goes to a block; the caller holds the inode's lock.
 */
static int make_room(struct inode *inode, u32 len)
{
	static const u16 fixed[] = {
		UHSFS_TLV_DIR, UHSFS_TLV_DEVICE, UHSFS_TLV_XATTRS, UHSFS_TLV_XATTR_ROOT,
	};
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	u32 room = uhsfs_geo(inode->i_sb)->slot_size - UHSFS_SLOT_HEADER;
	struct uhsfs_dslot *dslot;
	u32 need;

	down_read(&info->lock);
	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	for (u32 i = 0; dslot && i < dslot->name_count; i++)
		len = max(len, dslot->names[i]->claim.len);
	mutex_unlock(&rw->lock);
	need = uhsfs_tlv_size(sizeof(struct uhsfs_name) + len) +
	       uhsfs_tlv_size(sizeof(struct uhsfs_names_root)) +
	       uhsfs_tlv_size(sizeof(struct uhsfs_extent_root));
	for (u32 i = 0; i < ARRAY_SIZE(fixed); i++)
		if (info->view.value[fixed[i]])
			need += uhsfs_tlv_size(info->view.len[fixed[i]]);
	if (S_ISLNK(inode->i_mode) && info->view.value[UHSFS_TLV_INLINE])
		need += uhsfs_tlv_size(info->view.len[UHSFS_TLV_INLINE]);
	up_read(&info->lock);
	if (need > room)
		return -ENOSPC;
	/* Longer data fits only beside short names: mkfs makes such. */
	return info->disk_size > uhsfs_inline_max(inode) ? uhsfs_uninline(inode) : 0;
}

int uhsfs_link(struct dentry *old, struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(old);
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	int err;

	if (inode->i_nlink >= UHSFS_LINK_MAX)
		return -EMLINK;
	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(rw->failed))
		return -EIO;
	err = uhsfs_load_names(inode);
	err = err ?: make_room(inode, dentry->d_name.len);
	if (err)
		return err;
	down_read(&rw->gate);
	err = uhsfs_touch(dir);
	if (!err)
		err = uhsfs_dir_insert_entry(dir, &dentry->d_name, inode->i_ino,
					     inode->i_generation, uhsfs_mode_dtype(inode->i_mode));
	if (!err) {
		err = claim_name(inode, dir, &dentry->d_name, false);
		if (err)
			uhsfs_dir_remove_entry(dir, &dentry->d_name, inode->i_ino,
					       inode->i_generation);
	}
	if (!err) {
		inc_nlink(inode);
		change_times(dir, inode);
		ihold(inode);
	}
	up_read(&rw->gate);
	if (!err)
		d_instantiate(dentry, inode);
	return err;
}

int uhsfs_unlink(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	int err;

	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(rw->failed))
		return -EIO;
	err = uhsfs_load_extents(dir);
	if (err)
		return err;
	down_read(&rw->gate);
	err = leave_name(inode, dir, &dentry->d_name);
	if (!err) {
		uhsfs_dir_remove_entry(dir, &dentry->d_name, inode->i_ino, inode->i_generation);
		drop_nlink(inode);
		change_times(dir, inode);
	}
	up_read(&rw->gate);
	return err;
}

int uhsfs_rmdir(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	int err = uhsfs_dir_any(inode);

	if (err)
		return err > 0 ? -ENOTEMPTY : err;
	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(rw->failed))
		return -EIO;
	err = uhsfs_load_extents(inode);
	err = err ?: uhsfs_load_extents(dir);
	if (err)
		return err;
	down_read(&rw->gate);
	err = leave_name(inode, dir, &dentry->d_name);
	if (!err) {
		uhsfs_dir_remove_entry(dir, &dentry->d_name, inode->i_ino, inode->i_generation);
		clear_nlink(inode);
		drop_nlink(dir);
		change_times(dir, inode);
		forget_dir(inode);
	}
	up_read(&rw->gate);
	return err;
}

/* ---- the end of an inode -------------------------------------------------- */

bool uhsfs_freed_in_memory(struct super_block *sb, u64 ino)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	bool freed;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(sb, ino);
	freed = dslot && dslot->free;
	mutex_unlock(&rw->lock);
	return freed;
}

void uhsfs_forget_dslot(struct inode *inode)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	struct uhsfs_dslot *dslot;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	if (dslot && dslot->inode == inode) {
		dslot->inode = NULL;
		/* Nobody is left who could say what to write. */
		if (dslot->dirty && !dslot->free) {
			dslot->dirty = false;
			list_del_init(&dslot->list);
			rw->dirty_count--;
		}
		uhsfs_dslot_maybe_free(inode->i_sb, dslot);
	}
	mutex_unlock(&rw->lock);
}

static void give_up_xattrs(struct inode *inode, struct uhsfs_dslot *dslot)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	struct super_block *sb = inode->i_sb;
	struct uhsfs_xattr_place place;
	struct folio *index;

	if (!view->value[UHSFS_TLV_XATTR_ROOT] ||
	    uhsfs_xattr_root_decode(view->value[UHSFS_TLV_XATTR_ROOT],
				    view->len[UHSFS_TLV_XATTR_ROOT], uhsfs_geo(sb), inode->i_ino,
				    &place, NULL))
		return;
	uhsfs_give_up(dslot, place.block, 1);
	if (place.depth == 1)
		return;
	index = uhsfs_read_block(sb, place.block);
	if (IS_ERR(index))
		return;
	for (u32 i = 0; i < uhsfs_xattr_data_blocks(place.bytes); i++) {
		u64 block = uhsfs_xattr_index_get(folio_address(index), i);

		if (uhsfs_space_ok(uhsfs_geo(sb), block, 1))
			uhsfs_give_up(dslot, block, 1);
	}
	folio_put(index);
}

void uhsfs_free_evicted(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	u32 count;
	int err;

	/* What cannot be read stays taken until a scrub. */
	err = uhsfs_load_extents(inode);
	mutex_lock(&rw->lock);
	dslot = rw->failed ? ERR_PTR(-EIO) : uhsfs_dslot_get(inode);
	if (!IS_ERR(dslot))
		err = uhsfs_touch_locked(sb, dslot, uhsfs_next_op(sb));
	if (IS_ERR(dslot) || err) {
		mutex_unlock(&rw->lock);
		uhsfs_forget_dslot(inode);
		uhsfs_err(sb, "inode %lu: its slot stays an orphan until the next recovery",
			  inode->i_ino);
		return;
	}
	for (u32 i = 0; info->list_loaded && i < info->list.count; i++) {
		struct uhsfs_ext ext;

		uhsfs_extent_decode(&info->list.extent[i], &ext);
		uhsfs_give_up(dslot, ext.physical, ext.len * info->list.scale);
	}
	uhsfs_give_up_tree(sb, dslot, inode, info->view.value[UHSFS_TLV_EXTENT_ROOT], false,
			   &count);
	uhsfs_give_up_tree(sb, dslot, inode, info->view.value[UHSFS_TLV_NAMES], true, &count);
	give_up_xattrs(inode, dslot);
	dslot->free = true;
	dslot->inode = NULL;
	mutex_unlock(&rw->lock);
}
