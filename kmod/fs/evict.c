// SPDX-License-Identifier: GPL-2.0
/*
 * The end of an inode: without a name and without users its slot becomes FREE, and what it
 * had is given up with that image (R3).
 */
#include "rw.h"

#include "core/xattr.h"

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
