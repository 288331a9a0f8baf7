// SPDX-License-Identifier: GPL-2.0
/*
 * Names: which inode has a name in a directory, and the inode operations of
 * directories, symlinks and special files.
 *
 * A name is what a slot claims; an entry of the index only says where to ask.
 */
#include <linux/dcache.h>

#include "trace.h"
#include "rw.h"

#include "core/names.h"

/* ---- what a slot claims ------------------------------------------------------------ */

static int find_in_tree(struct super_block *sb, const struct uhsfs_slot_view *view,
			const struct uhsfs_claim *claim)
{
	struct uhsfs_nodes nodes;
	struct uhsfs_names names;
	u64 name_seq;
	int found;

	uhsfs_nodes_init(&nodes, sb);
	uhsfs_names_init(&names, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, view->attr.ino,
			 view->attr.generation, view->value[UHSFS_TLV_NAMES]);
	found = uhsfs_names_find(&names, claim, &name_seq);
	uhsfs_nodes_release(&nodes);
	return found < 0 ? uhsfs_tree_failed(sb, view->attr.ino, found, &names.tree) : found;
}

/* 1 if the slot has the name, apart from what recovery changes. */
static int claims(struct super_block *sb, const struct uhsfs_slot_view *view,
		  const struct uhsfs_claim *claim)
{
	struct uhsfs_claim first;

	if (view->value[UHSFS_TLV_NAME]) {
		uhsfs_name_decode(view->value[UHSFS_TLV_NAME], &first);
		if (uhsfs_same_name(&first, claim))
			return 1;
	}
	return view->value[UHSFS_TLV_NAMES] ? find_in_tree(sb, view, claim) : 0;
}

int uhsfs_confirm(struct inode *dir, u64 ino, u32 gen, const u8 *name, u8 len)
{
	struct super_block *sb = dir->i_sb;
	const struct uhsfs_overlay_slot *overlay = uhsfs_overlay_slot(sb, ino);
	const struct uhsfs_claim claim = {
		.parent_ino = dir->i_ino,
		.parent_gen = dir->i_generation,
		.name = name,
		.len = len,
	};
	struct uhsfs_slot_view view;
	struct folio *folio;
	int ret;

	if (uhsfs_rw(sb)) {
		ret = uhsfs_in_memory(sb, ino, gen, &claim);
		if (ret != -ENODATA)
			return ret;
	}
	if (overlay && overlay->freed)
		return 0;
	if (overlay && overlay->made)
		return overlay->generation == gen && uhsfs_same_name(&overlay->gained, &claim);
	ret = uhsfs_slot_get(sb, ino, &view, &folio);
	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (view.attr.state != UHSFS_SLOT_INODE || view.attr.generation != gen)
		ret = 0;
	else if (overlay && uhsfs_same_name(&overlay->gained, &claim))
		ret = 1;
	else if (overlay && uhsfs_overlay_lost(overlay, &claim))
		ret = 0;
	else
		ret = claims(sb, &view, &claim);
	uhsfs_slot_done(sb, folio);
	return ret;
}

bool uhsfs_dir_name(struct inode *dir, struct uhsfs_claim *claim)
{
	const struct uhsfs_overlay_slot *overlay = uhsfs_overlay_slot(dir->i_sb, dir->i_ino);
	const struct uhsfs_slot_view *view = &uhsfs_i(dir)->view;
	bool named;

	down_read(&uhsfs_i(dir)->lock);
	named = view->value[UHSFS_TLV_NAME];
	if (named) {
		uhsfs_name_decode(view->value[UHSFS_TLV_NAME], claim);
		named = !overlay || !uhsfs_overlay_lost(overlay, claim);
		/* The image may go with the next commit. */
		claim->name = NULL;
		claim->len = 0;
	}
	up_read(&uhsfs_i(dir)->lock);
	if (named)
		return true;
	if (!overlay || !overlay->gained.len)
		return false;
	*claim = overlay->gained;
	return true;
}

/* ---- lookup --------------------------------------------------------------------------- */

struct search {
	struct inode *dir;
	u64 ino;
	int err;	/* an entry could not be confirmed or refuted */
};

static int entry_found(void *ctx, const struct uhsfs_dirent *e)
{
	struct search *search = ctx;
	int ret = uhsfs_confirm(search->dir, e->ino, e->gen, e->name, e->len);

	if (ret == -EUCLEAN || ret == -EIO) {
		search->err = ret;
		return 0;
	}
	if (ret > 0)
		search->ino = e->ino;
	return ret;
}

/* Among the names that recovery would insert. */
static void find_in_overlay(struct search *search, const struct qstr *name)
{
	struct super_block *sb = search->dir->i_sb;
	u64 hash = uhsfs_dir_hash(uhsfs_geo(sb), name->name, name->len);
	u64 cookie = uhsfs_cookie_make(hash, 0);
	const struct uhsfs_dirent *e;

	while ((e = uhsfs_overlay_next(sb, search->dir->i_ino, cookie))) {
		if (uhsfs_cookie_hash(e->cookie) != hash)
			return;
		if (e->len == name->len && !memcmp(e->name, name->name, e->len)) {
			search->ino = e->ino;
			return;
		}
		cookie = e->cookie + 1;
	}
}

static struct dentry *lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct search search = { .dir = dir };
	struct inode *inode = NULL;
	int err;

	if (dentry->d_name.len > UHSFS_NAME_LEN)
		return ERR_PTR(-ENAMETOOLONG);
	err = uhsfs_dir_find(dir, &dentry->d_name, entry_found, &search);
	if (!err)
		find_in_overlay(&search, &dentry->d_name);
	err = search.ino ? 0 : err ?: search.err;
	trace_uhsfs_lookup(dir, &dentry->d_name, search.ino, err);
	if (err)
		return ERR_PTR(err);
	if (search.ino)
		inode = uhsfs_iget(dir->i_sb, search.ino);
	/* An error pointer is passed on by d_splice_alias(). */
	return d_splice_alias(inode, dentry);
}

const struct inode_operations uhsfs_dir_inode_operations = {
	.lookup = lookup,
	.create = uhsfs_create,
	.mknod = uhsfs_mknod,
	.mkdir = uhsfs_mkdir,
	.symlink = uhsfs_symlink,
	.link = uhsfs_link,
	.unlink = uhsfs_unlink,
	.rmdir = uhsfs_rmdir,
	.tmpfile = uhsfs_tmpfile,
	.rename = uhsfs_rename,
	.setattr = uhsfs_setattr,
	.getattr = uhsfs_getattr,
	.listxattr = uhsfs_listxattr,
	.fileattr_get = uhsfs_fileattr_get,
	UHSFS_GET_ACL = uhsfs_get_acl,
};

const struct inode_operations uhsfs_symlink_inode_operations = {
	.get_link = simple_get_link,
	.setattr = uhsfs_setattr,
	.getattr = uhsfs_getattr,
	.listxattr = uhsfs_listxattr,
};

/* The target is the file's data. */
static const char *get_long_link(struct dentry *dentry, struct inode *inode,
				 struct delayed_call *done)
{
	const char *target = page_get_link(dentry, inode, done);

	if (!IS_ERR_OR_NULL(target) && strlen(target) != i_size_read(inode))
		return ERR_PTR(uhsfs_corrupt(inode->i_sb, inode->i_ino, "symlink target",
					     strlen(target), i_size_read(inode),
					     "must have no NUL"));
	return target;
}

const struct inode_operations uhsfs_long_symlink_inode_operations = {
	.get_link = get_long_link,
	.setattr = uhsfs_setattr,
	.getattr = uhsfs_getattr,
	.listxattr = uhsfs_listxattr,
};

const struct inode_operations uhsfs_special_inode_operations = {
	.setattr = uhsfs_setattr,
	.getattr = uhsfs_getattr,
	.listxattr = uhsfs_listxattr,
	UHSFS_GET_ACL = uhsfs_get_acl,
};
