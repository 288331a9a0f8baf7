// SPDX-License-Identifier: GPL-2.0
/*
 * Extents in memory: the whole list of an inode, from its first change on.
 *
 * Files take their blocks when they are written to, as unwritten extents; these become
 * written in memory when the data is on its way to the device no more (R1).
 */
#include <linux/iomap.h>
#include <linux/mm.h>

#include "rw.h"

static int add_extent(void *ctx, const struct uhsfs_ext *ext)
{
	struct inode *inode = ctx;
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	int err = uhsfs_list_room(inode, 1);

	if (err)
		return err;
	uhsfs_extent_encode(ext, &info->list.extent[info->list.count++]);
	return 0;
}

int uhsfs_room_in(struct inode *inode, struct uhsfs_extent_list *list, u32 more)
{
	u32 room = max3(16U, 2 * list->capacity, list->count + more);
	struct uhsfs_extent *extent;

	if (list->count + more <= list->capacity)
		return 0;
	/* Data that was written must find its way into the list. */
	extent = kvmalloc_array(room, sizeof(*extent), GFP_NOFS | __GFP_NOFAIL);
	if (list->count)
		memcpy(extent, list->extent, list->count * sizeof(*extent));
	kvfree(list->extent);
	list->extent = extent;
	list->capacity = room;
	list->scale = S_ISDIR(inode->i_mode) ? uhsfs_geo(inode->i_sb)->homes : 1;
	list->snapshot = uhsfs_geo(inode->i_sb)->snapshot;
	return 0;
}

int uhsfs_list_room(struct inode *inode, u32 more)
{
	return uhsfs_room_in(inode, &uhsfs_i(inode)->list, more);
}

static int load_tree(struct inode *inode)
{
	const struct uhsfs_etree_visitor visitor = { .extent = add_extent, .ctx = inode };
	struct uhsfs_nodes nodes;
	struct uhsfs_etree etree;
	u64 count;
	int err;

	uhsfs_nodes_init(&nodes, inode->i_sb);
	uhsfs_etree_init(&etree, uhsfs_geo(inode->i_sb), &uhsfs_node_ops, &nodes, inode->i_ino,
			 inode->i_generation, S_ISDIR(inode->i_mode),
			 uhsfs_i(inode)->view.value[UHSFS_TLV_EXTENT_ROOT]);
	err = uhsfs_etree_check(&etree, &visitor, &count);
	uhsfs_nodes_release(&nodes);
	return err ? uhsfs_tree_failed(inode->i_sb, inode->i_ino, err, &etree.tree) : 0;
}

/* A directory: what is on the device now is what was published. */
static int publish_loaded(struct uhsfs_inode_info *info)
{
	info->pub = kvmalloc_array(info->list.count + 1, sizeof(*info->pub), GFP_NOFS);
	if (!info->pub)
		return -ENOMEM;
	memcpy(info->pub, info->list.extent, info->list.count * sizeof(*info->pub));
	info->pub_count = info->list.count;
	info->published = info->dir;
	return 0;
}

int uhsfs_load_extents(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	const struct uhsfs_extent *raw;
	u32 count;
	int err = 0;

	if (READ_ONCE(info->list_loaded))
		return 0;
	down_write(&info->lock);
	/* Data in the slot counts until uhsfs_uninline() has moved it. */
	if (info->list_loaded || info->inlined)
		goto out;
	raw = info->view.value[UHSFS_TLV_EXTENTS];
	count = info->view.len[UHSFS_TLV_EXTENTS] / sizeof(*raw);
	info->list.count = 0;
	err = uhsfs_list_room(inode, count + 1);
	if (!err && raw) {
		memcpy(info->list.extent, raw, count * sizeof(*raw));
		info->list.count = count;
	}
	if (!err && info->view.value[UHSFS_TLV_EXTENT_ROOT])
		err = load_tree(inode);
	if (!err && S_ISDIR(inode->i_mode))
		err = publish_loaded(info);
	if (!err)
		WRITE_ONCE(info->list_loaded, true);
out:
	up_write(&info->lock);
	return err;
}
