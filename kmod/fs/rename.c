// SPDX-License-Identifier: GPL-2.0
/*
 * Names of inodes that exist: link, unlink, rmdir, rename in all its forms.
 *
 * Each operation is one call of uhsfs_change_names(); entries in directories, which are
 * hints, come before it where they are new and after it where they go.  The VFS holds
 * i_rwsem of the directories and of the inodes.
 *
 * What an operation commits itself, under these locks (R4b, R6, R8), is named where it is
 * done; all else waits for fsync or a checkpoint.
 */
#include <linux/iversion.h>
#include <linux/pagemap.h>

#include "rw.h"

#include "core/xattr.h"

/* ---- room in the slot ----------------------------------------------------- */

/* Bytes of the records that do not move out of the slot. */
static u32 fixed_bytes(struct inode *inode)
{
	static const u16 fixed[] = {
		UHSFS_TLV_DIR, UHSFS_TLV_DEVICE, UHSFS_TLV_XATTRS, UHSFS_TLV_XATTR_ROOT,
	};
	const struct uhsfs_inode_info *info = uhsfs_i(inode);
	u32 bytes = uhsfs_tlv_size(sizeof(struct uhsfs_names_root)) +
		    uhsfs_tlv_size(sizeof(struct uhsfs_extent_root));

	for (u32 i = 0; i < ARRAY_SIZE(fixed); i++)
		if (info->view.value[fixed[i]])
			bytes += uhsfs_tlv_size(info->view.len[fixed[i]]);
	if (S_ISLNK(inode->i_mode) && !info->list_loaded)
		bytes += uhsfs_tlv_size(info->view.len[UHSFS_TLV_INLINE]);
	return bytes;
}

static u32 longest_name(struct inode *inode, u32 len)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	struct uhsfs_dslot *dslot;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	for (u32 i = 0; dslot && i < dslot->name_count; i++)
		len = max_t(u32, len, dslot->names[i]->claim.len);
	mutex_unlock(&rw->lock);
	return len;
}

/* A symlink made beside a short name may be too long for another one. */
static int move_target(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	int err;

	down_write(&info->lock);
	err = uhsfs_first_block(inode, inode->i_link, strlen(inode->i_link));
	up_write(&info->lock);
	return err ?: uhsfs_touch(inode);
}

/*
 * Would the slot have room whichever name is the first, with an intent for a name of
 * intent_len bytes (0: none)?  Data in the slot that leaves none goes to a block; the caller
 * holds the inode's lock and has loaded its names.
 */
static int make_room(struct inode *inode, u32 len, u32 intent_len)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	u32 intent = intent_len ? uhsfs_tlv_size(sizeof(struct uhsfs_intent) + intent_len) : 0;
	u32 room = uhsfs_geo(inode->i_sb)->slot_size - UHSFS_SLOT_HEADER;
	u32 need;

	down_read(&info->lock);
	need = uhsfs_tlv_size(sizeof(struct uhsfs_name) + longest_name(inode, len)) + intent +
	       fixed_bytes(inode);
	up_read(&info->lock);
	if (need > room && S_ISLNK(inode->i_mode) && !info->list_loaded)
		return move_target(inode);
	if (need > room)
		return -ENOSPC;
	if (info->inlined && (intent || info->disk_size > uhsfs_inline_max(inode)))
		return uhsfs_uninline(inode);
	return 0;
}

/* ---- one name ------------------------------------------------------------- */

static int insert(struct inode *dir, const struct qstr *name, struct inode *inode)
{
	int err = uhsfs_touch(dir) ?: uhsfs_announce(inode);

	return err ?: uhsfs_dir_insert_entry(dir, name, inode->i_ino, inode->i_generation,
					     uhsfs_mode_dtype(inode->i_mode));
}

static void take_out(struct inode *dir, const struct qstr *name, struct inode *inode)
{
	uhsfs_dir_remove_entry(dir, name, inode->i_ino, inode->i_generation);
}

static int link_once(struct dentry *old, struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(old);
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	const struct uhsfs_name_step claim = {
		.kind = UHSFS_ORDER_CLAIM,
		.inode = inode,
		.dir = dir,
		.name = &dentry->d_name,
	};
	int err;

	err = uhsfs_load_names(inode);
	err = err ?: make_room(inode, dentry->d_name.len, 0);
	if (err)
		return err;
	down_read(&rw->gate);
	err = insert(dir, &dentry->d_name, inode);
	if (!err) {
		err = uhsfs_change_names(dir->i_sb, &claim, 1);
		if (err)
			take_out(dir, &dentry->d_name, inode);
	}
	if (!err) {
		uhsfs_names_changed(dir, inode);
		ihold(inode);
	}
	up_read(&rw->gate);
	if (!err)
		d_instantiate(dentry, inode);
	return err;
}

int uhsfs_link(struct dentry *old, struct inode *dir, struct dentry *dentry)
{
	int err;

	if (d_inode(old)->i_nlink >= UHSFS_LINK_MAX)
		return -EMLINK;
	uhsfs_balance(dir->i_sb);
	if (READ_ONCE(uhsfs_rw(dir->i_sb)->failed))
		return -EIO;
	err = link_once(old, dir, dentry);
	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(dir->i_sb))
		err = link_once(old, dir, dentry);
	return err;
}

/* An inode loses a name that nobody has then: its number of links changes with it. */
static int leave(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);
	const struct uhsfs_name_step step = {
		.kind = UHSFS_ORDER_UNLINK,
		.inode = inode,
		.dir = dir,
		.name = &dentry->d_name,
	};
	int err = uhsfs_change_names(dir->i_sb, &step, 1);

	if (!err)
		uhsfs_dir_remove_entry(dir, &dentry->d_name, inode->i_ino, inode->i_generation);
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
	err = leave(dir, dentry);
	if (!err)
		uhsfs_names_changed(dir, inode);
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
	err = leave(dir, dentry);
	if (!err) {
		drop_nlink(dir);
		uhsfs_names_changed(dir, inode);
		uhsfs_forget_dir(inode);
	}
	up_read(&rw->gate);
	return err;
}

/* ---- rename --------------------------------------------------------------- */

/* Who is renamed, from where to where, and whom that replaces or is exchanged with. */
struct renaming {
	struct super_block *sb;
	struct inode *inode;
	struct inode *old_dir;
	const struct qstr *old;
	struct inode *new_dir;
	const struct qstr *new;
	struct inode *victim;	/* or NULL; of an exchange: the other one */
	struct inode *whiteout;	/* takes the old name; or NULL */
	bool changed;		/* the names are, durably or not */
};

/* Its current image, and its data, are durable. */
static int settle(struct inode *inode)
{
	int err = S_ISREG(inode->i_mode) ? filemap_write_and_wait(inode->i_mapping) : 0;

	return err ?: uhsfs_commit(inode->i_sb, inode->i_ino);
}

/* R4(b): what the victim keeps is durable before; and the data that replaces it, with it. */
static int before_replacing(struct renaming *r)
{
	struct uhsfs_rw *rw = uhsfs_rw(r->sb);
	struct uhsfs_dslot *dslot;
	bool pending;

	if (S_ISREG(r->inode->i_mode)) {
		WRITE_ONCE(uhsfs_i(r->inode)->data_first, true);
		filemap_flush(r->inode->i_mapping);
	}
	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(r->sb, r->victim->i_ino);
	pending = dslot && dslot->name_count > 1 && !list_empty(&dslot->order.changes);
	mutex_unlock(&rw->lock);
	if (!pending)
		return 0;
	atomic64_inc(&uhsfs_sb(r->sb)->commits_r4);
	return uhsfs_commit(r->sb, r->victim->i_ino);
}

static int before_rename(struct renaming *r)
{
	u32 intent_len = r->whiteout ? r->old->len : 0;
	int err;

	err = uhsfs_load_names(r->inode);
	err = err ?: make_room(r->inode, r->new->len, intent_len);
	err = err ?: uhsfs_load_extents(r->old_dir);
	err = err ?: uhsfs_load_extents(r->new_dir);
	if (!err && r->victim) {
		err = uhsfs_load_names(r->victim);
		if (!err && S_ISDIR(r->victim->i_mode))
			err = uhsfs_load_extents(r->victim);
		err = err ?: before_replacing(r);
	}
	/* R8: before the first half. */
	if (!err && r->whiteout)
		err = settle(r->inode);
	return err;
}

static int rename_steps(const struct renaming *r, struct uhsfs_name_step *step)
{
	int n = 0;

	if (r->victim)
		step[n++] = (struct uhsfs_name_step) {
			.kind = UHSFS_ORDER_REPLACED, .inode = r->victim, .other = r->inode,
			.dir = r->new_dir, .name = r->new,
		};
	step[n++] = (struct uhsfs_name_step) {
		.kind = UHSFS_ORDER_MOVE, .inode = r->inode, .dir = r->old_dir, .name = r->old,
	};
	step[n++] = (struct uhsfs_name_step) {
		.kind = UHSFS_ORDER_CLAIM, .inode = r->inode, .other = r->victim,
		.dir = r->new_dir, .name = r->new,
	};
	if (!r->whiteout)
		return n;
	step[n++] = (struct uhsfs_name_step) {
		.kind = UHSFS_ORDER_CLAIM, .inode = r->whiteout, .dir = r->old_dir,
		.name = r->old, .born = true,
	};
	step[n++] = (struct uhsfs_name_step) {
		.kind = UHSFS_ORDER_INTENT, .inode = r->inode, .other = r->whiteout,
		.dir = r->old_dir, .name = r->old, .intent = UHSFS_INTENT_WHITEOUT,
	};
	step[n++] = (struct uhsfs_name_step) {
		.kind = UHSFS_ORDER_PEER, .inode = r->whiteout, .other = r->inode,
		.dir = r->old_dir, .name = r->old, .born = true,
	};
	return n;
}

/* The names have changed: entries that go, counts, times. */
static void after_rename(struct renaming *r)
{
	bool dir = S_ISDIR(r->inode->i_mode);

	take_out(r->old_dir, r->old, r->inode);
	if (r->victim) {
		take_out(r->new_dir, r->new, r->victim);
		if (dir) {
			drop_nlink(r->new_dir);
			uhsfs_forget_dir(r->victim);
		}
		uhsfs_names_changed(r->new_dir, r->victim);
	}
	if (dir && r->old_dir != r->new_dir) {
		drop_nlink(r->old_dir);
		inc_nlink(r->new_dir);
	}
	uhsfs_names_changed(r->old_dir, r->inode);
	uhsfs_names_changed(r->new_dir, NULL);
}

static int change_entries_and_names(struct renaming *r)
{
	struct uhsfs_name_step step[UHSFS_NAME_STEPS];
	int err;

	err = insert(r->new_dir, r->new, r->inode);
	if (!err && r->whiteout)
		err = insert(r->old_dir, r->old, r->whiteout);
	if (!err)
		err = uhsfs_change_names(r->sb, step, rename_steps(r, step));
	if (!err) {
		r->changed = true;
		after_rename(r);
		return 0;
	}
	take_out(r->new_dir, r->new, r->inode);
	if (r->whiteout)
		take_out(r->old_dir, r->old, r->whiteout);
	return err;
}

/* What has to be durable when the operation returns. */
static int after_commit(struct renaming *r)
{
	int err;

	/* R8: the peer waits for the first half. */
	if (r->whiteout) {
		atomic64_inc(&uhsfs_sb(r->sb)->commits_r8);
		err = uhsfs_commit(r->sb, r->whiteout->i_ino);
		return err ?: uhsfs_drop_intent(r->inode);
	}
	/* R6: its new ancestors first, by N1. */
	if (!S_ISDIR(r->inode->i_mode) || r->old_dir == r->new_dir)
		return 0;
	atomic64_inc(&uhsfs_sb(r->sb)->commits_r6);
	return uhsfs_commit(r->sb, r->inode->i_ino);
}

static int rename_once(struct renaming *r)
{
	struct uhsfs_rw *rw = uhsfs_rw(r->sb);
	int err = before_rename(r);

	if (err)
		return err;
	down_read(&rw->gate);
	err = change_entries_and_names(r);
	up_read(&rw->gate);
	return err ?: after_commit(r);
}

/* ---- exchange ------------------------------------------------------------- */

static int before_exchange(struct renaming *r)
{
	int err;

	err = uhsfs_load_names(r->inode);
	err = err ?: uhsfs_load_names(r->victim);
	err = err ?: make_room(r->inode, r->new->len, r->old->len);
	err = err ?: make_room(r->victim, r->old->len, 0);
	err = err ?: uhsfs_load_extents(r->old_dir);
	err = err ?: uhsfs_load_extents(r->new_dir);
	/* R8: before the first half. */
	err = err ?: settle(r->inode);
	return err ?: settle(r->victim);
}

static int exchange_names(const struct renaming *r)
{
	const struct uhsfs_name_step step[] = {
		{ .kind = UHSFS_ORDER_EXCHANGE, .inode = r->inode, .dir = r->old_dir,
		  .name = r->old },
		{ .kind = UHSFS_ORDER_EXCHANGE, .inode = r->victim, .dir = r->new_dir,
		  .name = r->new },
		{ .kind = UHSFS_ORDER_CLAIM, .inode = r->inode, .dir = r->new_dir,
		  .name = r->new },
		{ .kind = UHSFS_ORDER_CLAIM, .inode = r->victim, .dir = r->old_dir,
		  .name = r->old },
		{ .kind = UHSFS_ORDER_INTENT, .inode = r->inode, .other = r->victim,
		  .dir = r->old_dir, .name = r->old, .intent = UHSFS_INTENT_EXCHANGE },
		{ .kind = UHSFS_ORDER_PEER, .inode = r->victim, .other = r->inode,
		  .dir = r->old_dir, .name = r->old },
	};

	return uhsfs_change_names(r->sb, step, ARRAY_SIZE(step));
}

static int exchange_entries_and_names(struct renaming *r)
{
	int err;

	err = insert(r->new_dir, r->new, r->inode);
	err = err ?: insert(r->old_dir, r->old, r->victim);
	err = err ?: exchange_names(r);
	if (err) {
		take_out(r->new_dir, r->new, r->inode);
		take_out(r->old_dir, r->old, r->victim);
		return err;
	}
	take_out(r->old_dir, r->old, r->inode);
	take_out(r->new_dir, r->new, r->victim);
	if (S_ISDIR(r->inode->i_mode) != S_ISDIR(r->victim->i_mode) && r->old_dir != r->new_dir) {
		drop_nlink(S_ISDIR(r->inode->i_mode) ? r->old_dir : r->new_dir);
		inc_nlink(S_ISDIR(r->inode->i_mode) ? r->new_dir : r->old_dir);
	}
	uhsfs_names_changed(r->old_dir, r->inode);
	uhsfs_names_changed(r->new_dir, r->victim);
	return 0;
}

static int exchange(struct renaming *r)
{
	struct uhsfs_rw *rw = uhsfs_rw(r->sb);
	int err = before_exchange(r);

	if (err)
		return err;
	down_read(&rw->gate);
	err = exchange_entries_and_names(r);
	up_read(&rw->gate);
	if (err)
		return err;
	atomic64_inc(&uhsfs_sb(r->sb)->commits_r8);
	err = uhsfs_commit(r->sb, r->victim->i_ino);
	return err ?: uhsfs_drop_intent(r->inode);
}

/* ---- all of them ---------------------------------------------------------- */

static int new_whiteout(struct uhsfs_idmap *idmap, struct renaming *r)
{
	int err;

	r->whiteout = uhsfs_new_inode(idmap, r->old_dir, S_IFCHR | WHITEOUT_MODE);
	if (IS_ERR(r->whiteout)) {
		err = PTR_ERR(r->whiteout);
		r->whiteout = NULL;
		return err;
	}
	return uhsfs_set_up_new(r->whiteout, WHITEOUT_DEV, NULL);
}

static int rename_with(struct uhsfs_idmap *idmap, struct renaming *r, unsigned int flags)
{
	int err = 0;

	if (flags & RENAME_EXCHANGE)
		return exchange(r);
	if (flags & RENAME_WHITEOUT)
		err = new_whiteout(idmap, r);
	err = err ?: rename_once(r);
	if (!r->whiteout)
		return err;
	/* Once it has its name it stays, even if it could not be made durable. */
	if (!r->changed) {
		uhsfs_abandon(r->whiteout);
	} else {
		unlock_new_inode(r->whiteout);
		iput(r->whiteout);
	}
	r->whiteout = NULL;
	return err;
}

static int may_rename(const struct renaming *r, unsigned int flags)
{
	bool dir = S_ISDIR(r->inode->i_mode);
	bool gains = r->old_dir != r->new_dir && dir &&
		     !(r->victim && S_ISDIR(r->victim->i_mode));
	bool gives = flags & RENAME_EXCHANGE && r->old_dir != r->new_dir && !dir &&
		     S_ISDIR(r->victim->i_mode);
	int any;

	if ((gains && r->new_dir->i_nlink >= UHSFS_LINK_MAX) ||
	    (gives && r->old_dir->i_nlink >= UHSFS_LINK_MAX))
		return -EMLINK;
	if (flags & RENAME_EXCHANGE || !r->victim || !S_ISDIR(r->victim->i_mode))
		return 0;
	any = uhsfs_dir_any(r->victim);
	return any > 0 ? -ENOTEMPTY : any;
}

int uhsfs_rename(struct uhsfs_idmap *idmap, struct inode *old_dir, struct dentry *old,
		 struct inode *new_dir, struct dentry *new, unsigned int flags)
{
	struct renaming r = {
		.sb = old_dir->i_sb,
		.inode = d_inode(old),
		.old_dir = old_dir,
		.old = &old->d_name,
		.new_dir = new_dir,
		.new = &new->d_name,
		.victim = d_inode(new),
	};
	int err;

	if (flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	uhsfs_balance(r.sb);
	if (READ_ONCE(uhsfs_rw(r.sb)->failed))
		return -EIO;
	err = may_rename(&r, flags);
	err = err ?: rename_with(idmap, &r, flags);
	/* What was given up lately is free after a checkpoint. */
	if (err == -ENOSPC && !uhsfs_checkpoint(r.sb))
		err = rename_with(idmap, &r, flags);
	return err;
}
