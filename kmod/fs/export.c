// SPDX-License-Identifier: GPL-2.0
/*
 * File handles: inode number and generation in full, of the parent too if it is wanted.
 * A handle of an inode that is gone is stale, also when its slot is in use again.
 */
#include <linux/exportfs.h>

#include "uhsfs.h"

/* Types and layout as other filesystems with 64-bit inode numbers have them. */
enum {
	FILEID_UHSFS = 0x81,
	FILEID_UHSFS_PARENT = 0x82,
};

struct handle {
	u64 ino;
	u32 gen;
	u64 parent_ino;
	u32 parent_gen;
} __packed;

#define WORDS_ALONE	3
#define WORDS_PARENT	6

static int encode_fh(struct inode *inode, __u32 *words, int *max_len, struct inode *parent)
{
	int wanted = parent ? WORDS_PARENT : WORDS_ALONE;
	struct handle *handle = (struct handle *)words;

	if (*max_len < wanted) {
		*max_len = wanted;
		return FILEID_INVALID;
	}
	*max_len = wanted;
	handle->ino = inode->i_ino;
	handle->gen = inode->i_generation;
	if (!parent)
		return FILEID_UHSFS;
	handle->parent_ino = parent->i_ino;
	handle->parent_gen = parent->i_generation;
	return FILEID_UHSFS_PARENT;
}

static struct dentry *fh_to_dentry(struct super_block *sb, struct fid *fid, int len, int type)
{
	const struct handle *handle = (const struct handle *)fid->raw;

	if ((type != FILEID_UHSFS && type != FILEID_UHSFS_PARENT) || len < WORDS_ALONE)
		return NULL;
	return d_obtain_alias(uhsfs_iget_generation(sb, handle->ino, handle->gen));
}

static struct dentry *fh_to_parent(struct super_block *sb, struct fid *fid, int len, int type)
{
	const struct handle *handle = (const struct handle *)fid->raw;

	if (type != FILEID_UHSFS_PARENT || len < WORDS_PARENT)
		return NULL;
	return d_obtain_alias(uhsfs_iget_generation(sb, handle->parent_ino, handle->parent_gen));
}

static struct dentry *get_parent(struct dentry *child)
{
	struct uhsfs_claim claim;

	if (!uhsfs_dir_name(d_inode(child), &claim))
		return ERR_PTR(-ESTALE);
	return d_obtain_alias(uhsfs_iget_generation(child->d_sb, claim.parent_ino,
						    claim.parent_gen));
}

const struct export_operations uhsfs_export_operations = {
	.encode_fh = encode_fh,
	.fh_to_dentry = fh_to_dentry,
	.fh_to_parent = fh_to_parent,
	.get_parent = get_parent,
};
