// SPDX-License-Identifier: GPL-2.0
/*
 * Where the blocks of an inode stand: its extent list or tree, for lookups and for
 * iomap.
 */
#include <linux/iomap.h>

#include "rw.h"

#include "core/extent.h"

static int lookup_tree(struct inode *inode, u64 logical, struct uhsfs_ext *ext, u64 *len)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	struct super_block *sb = inode->i_sb;
	struct uhsfs_nodes nodes;
	struct uhsfs_etree etree;
	int found;

	uhsfs_nodes_init(&nodes, sb);
	uhsfs_etree_init(&etree, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, inode->i_ino,
			 inode->i_generation, S_ISDIR(inode->i_mode),
			 view->value[UHSFS_TLV_EXTENT_ROOT]);
	found = uhsfs_etree_lookup(&etree, logical, ext, len);
	uhsfs_nodes_release(&nodes);
	return found < 0 ? uhsfs_tree_failed(sb, inode->i_ino, found, &etree.tree) : found;
}

int uhsfs_extent_lookup(struct inode *inode, u64 logical, struct uhsfs_ext *ext, u64 *len)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	u32 count = view->len[UHSFS_TLV_EXTENTS] / sizeof(struct uhsfs_extent);
	struct uhsfs_extent_list list = {
		.extent = (struct uhsfs_extent *)view->value[UHSFS_TLV_EXTENTS],
		.count = count,
		.capacity = count,
		.scale = S_ISDIR(inode->i_mode) ? uhsfs_geo(inode->i_sb)->homes : 1,
	};

	/* Of a file in its slot the list is empty, whatever the image has. */
	if (uhsfs_i(inode)->list_loaded || uhsfs_i(inode)->inlined)
		return uhsfs_list_lookup(&uhsfs_i(inode)->list, logical, ext, len);
	if (view->value[UHSFS_TLV_EXTENT_ROOT])
		return lookup_tree(inode, logical, ext, len);
	return uhsfs_list_lookup(&list, logical, ext, len);
}

/*
 * Data in the slot, for who asks what there is.  It is not read in this way, but by a fault
 * that came before the data: then all of the copy is there to be read.
 */
static void map_inline(struct inode *inode, unsigned int flags, struct iomap *iomap)
{
	iomap->type = IOMAP_INLINE;
	iomap->addr = IOMAP_NULL_ADDR;
	iomap->offset = 0;
	iomap->length = flags & IOMAP_REPORT ? READ_ONCE(uhsfs_i(inode)->disk_size) :
					       uhsfs_geo(inode->i_sb)->slot_size;
	iomap->inline_data = uhsfs_i(inode)->inline_copy;
}

static int map_blocks(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
		      struct iomap *iomap)
{
	u64 logical = offset >> UHSFS_BLOCK_SHIFT;
	u64 end = ((u64)offset + length + UHSFS_BLOCK_SIZE - 1) >> UHSFS_BLOCK_SHIFT;
	bool delayed = false;
	struct uhsfs_ext ext;
	u64 len;
	int found;

	down_read(&uhsfs_i(inode)->lock);
	found = uhsfs_extent_lookup(inode, logical, &ext, &len);
	if (!found) {
		u64 more;

		/* A direct read has written the pages: only a mapping was faster again. */
		delayed = uhsfs_delayed_lookup(inode, logical, &more) && !(flags & IOMAP_DIRECT);
		len = min(len, more);
	}
	up_read(&uhsfs_i(inode)->lock);
	if (found < 0)
		return found;
	if (!found) {
		iomap->type = delayed ? IOMAP_DELALLOC : IOMAP_HOLE;
		iomap->addr = IOMAP_NULL_ADDR;
		/* A hole may reach past the largest offset. */
		len = min(len, end - logical);
	} else {
		iomap->type = ext.flags & UHSFS_EXT_UNWRITTEN ? IOMAP_UNWRITTEN : IOMAP_MAPPED;
		iomap->addr = (ext.physical + (logical - ext.logical)) << UHSFS_BLOCK_SHIFT;
	}
	iomap->offset = (loff_t)logical << UHSFS_BLOCK_SHIFT;
	iomap->length = len << UHSFS_BLOCK_SHIFT;
	return 0;
}

static int iomap_begin(struct inode *inode, loff_t offset, loff_t length, unsigned int flags,
		       struct iomap *iomap, struct iomap *srcmap)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;

	if (flags & IOMAP_WRITE)
		return uhsfs_iomap_write(inode, offset, length, flags, iomap);
	/* A tree may have to be read. */
	if (flags & IOMAP_NOWAIT && view->value[UHSFS_TLV_EXTENT_ROOT])
		return -EAGAIN;
	iomap->bdev = inode->i_sb->s_bdev;
	iomap->flags = 0;
	if (READ_ONCE(uhsfs_i(inode)->inlined) && offset < READ_ONCE(uhsfs_i(inode)->disk_size)) {
		map_inline(inode, flags, iomap);
		return 0;
	}
	return map_blocks(inode, offset, length, flags, iomap);
}

static int iomap_end(struct inode *inode, loff_t offset, loff_t length, ssize_t written,
		     unsigned int flags, struct iomap *iomap)
{
	return flags & IOMAP_WRITE ?
	       uhsfs_write_end(inode, offset, written, flags, iomap) : 0;
}

const struct iomap_ops uhsfs_iomap_ops = {
	.iomap_begin = iomap_begin,
	.iomap_end = iomap_end,
};
