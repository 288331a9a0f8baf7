// SPDX-License-Identifier: GPL-2.0
/*
 * Images of slots from what is in memory.
 *
 * What does not fit the slot goes to trees, which are built anew as a whole when their
 * content changed (R2: new blocks, durable before the slot); the old nodes are given up
 * with the image (R3).
 */
#include <linux/iversion.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "rw.h"

#include "core/extent.h"
#include "core/xattr.h"

/* ---- trees ---------------------------------------------------------------- */

struct new_node {
	struct list_head list;
	u64 block;
	struct page *page;
};

struct building {
	struct super_block *sb;
	struct list_head nodes;
	u32 count;
};

static int read_own(void *ctx, u64 block, struct uhsfs_tree_node **node)
{
	struct building *building = ctx;
	struct new_node *own;

	list_for_each_entry(own, &building->nodes, list) {
		if (own->block == block) {
			*node = page_address(own->page);
			return UHSFS_TREE_CHECKED;
		}
	}
	return -EIO;
}

static int alloc_node(void *ctx, u64 *block, struct uhsfs_tree_node **node)
{
	struct building *building = ctx;
	struct new_node *own = kzalloc(sizeof(*own), GFP_NOFS | __GFP_NOFAIL);
	u32 got;
	int err;

	err = uhsfs_alloc(building->sb, uhsfs_rw(building->sb)->goal, 1, 1, 0, &own->block, &got);
	if (err) {
		kfree(own);
		return err;
	}
	own->page = uhsfs_image_page();
	list_add_tail(&own->list, &building->nodes);
	building->count++;
	*block = own->block;
	*node = page_address(own->page);
	return 0;
}

static void free_node(void *ctx, u64 block)
{
	struct building *building = ctx;
	struct new_node *own;

	list_for_each_entry(own, &building->nodes, list) {
		if (own->block != block)
			continue;
		uhsfs_free_now(building->sb, block, 1);
		list_del(&own->list);
		building->count--;
		__free_page(own->page);
		kfree(own);
		return;
	}
}

static bool always_fresh(void *ctx, u64 block)
{
	return true;
}

static const struct uhsfs_tree_ops building_ops = {
	.read = read_own,
	.alloc = alloc_node,
	.free = free_node,
	.fresh = always_fresh,
};

/* Write the nodes, or drop them. */
static void finish_building(struct building *building, struct uhsfs_writes *writes)
{
	struct new_node *own, *next;

	list_for_each_entry_safe(own, next, &building->nodes, list) {
		list_del(&own->list);
		if (writes) {
			uhsfs_tree_seal(page_address(own->page), uhsfs_next_op(building->sb));
			uhsfs_write_block(writes, own->page, own->block, 0);
		} else {
			uhsfs_free_now(building->sb, own->block, 1);
			__free_page(own->page);
		}
		kfree(own);
	}
}

struct giving_up {
	struct uhsfs_dslot *dslot;
	u32 count;
};

static int give_up_node(void *ctx, u64 block)
{
	struct giving_up *giving_up = ctx;

	giving_up->count++;
	uhsfs_give_up(giving_up->dslot, block, 1);
	return 0;
}

/* Give up all nodes of a tree that an image has; rw->lock is held. */
int uhsfs_give_up_tree(struct super_block *sb, struct uhsfs_dslot *dslot, struct inode *inode,
			const void *root, bool names, u32 *count)
{
	struct giving_up giving_up = { .dslot = dslot };
	struct uhsfs_nodes nodes;
	u64 entries;
	int err;

	*count = 0;
	if (!root)
		return 0;
	uhsfs_nodes_init(&nodes, sb);
	if (names) {
		const struct uhsfs_names_visitor visitor = {
			.node = give_up_node,
			.ctx = &giving_up,
		};
		struct uhsfs_names tree;

		uhsfs_names_init(&tree, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, inode->i_ino,
				 inode->i_generation, root);
		err = uhsfs_names_walk(&tree, &visitor, &entries);
	} else {
		const struct uhsfs_etree_visitor visitor = {
			.node = give_up_node,
			.ctx = &giving_up,
		};
		struct uhsfs_etree tree;

		uhsfs_etree_init(&tree, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, inode->i_ino,
				 inode->i_generation, S_ISDIR(inode->i_mode), root);
		err = uhsfs_etree_check(&tree, &visitor, &entries);
	}
	uhsfs_nodes_release(&nodes);
	*count = giving_up.count;
	/* What cannot be read is leaked until a scrub. */
	return err == -ENOMEM ? err : 0;
}

/* ---- extents -------------------------------------------------------------- */

static int put_extents(struct uhsfs_dslot *dslot, struct uhsfs_slot_builder *b,
		       const struct uhsfs_extent *extent, u32 count, bool changed,
		       struct uhsfs_writes *writes)
{
	struct inode *inode = dslot->inode;
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	const struct uhsfs_extent_root *root = info->view.value[UHSFS_TLV_EXTENT_ROOT];
	struct building building = { .sb = sb };
	struct uhsfs_extent_root fresh;
	struct uhsfs_etree etree;
	u32 old = 0;
	int err;

	if (!changed && root)
		return uhsfs_slot_put(b, UHSFS_TLV_EXTENT_ROOT, root, sizeof(*root));
	INIT_LIST_HEAD(&building.nodes);
	if (count * sizeof(*extent) <= uhsfs_slot_room(b)) {
		err = count ? uhsfs_slot_put(b, UHSFS_TLV_EXTENTS, extent,
					     count * sizeof(*extent)) : 0;
	} else {
		uhsfs_etree_init(&etree, uhsfs_geo(sb), &building_ops, &building, inode->i_ino,
				 inode->i_generation, S_ISDIR(inode->i_mode), NULL);
		err = uhsfs_etree_load(&etree, extent, count);
		uhsfs_tree_release(&etree.tree, 0);
		if (!err) {
			uhsfs_etree_put_root(&etree, &fresh);
			err = uhsfs_slot_put(b, UHSFS_TLV_EXTENT_ROOT, &fresh, sizeof(fresh));
		}
	}
	/* Only if nothing can fail any more: the next attempt begins with the same. */
	if (!err)
		err = uhsfs_give_up_tree(sb, dslot, inode, root, false, &old);
	if (!err)
		inode->i_blocks += ((blkcnt_t)building.count - old)
				   << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	finish_building(&building, err ? NULL : writes);
	return err;
}

/* ---- names ---------------------------------------------------------------- */

static int compare_claims(const void *a, const void *b, const void *geo)
{
	return uhsfs_names_compare(geo, a, b);
}

/* All but the first name, in order of the tree. */
static struct uhsfs_claim *further_names(struct uhsfs_dslot *dslot,
					 const struct uhsfs_geometry *geo)
{
	u32 count = dslot->name_count - 1;
	struct uhsfs_claim *claims = kvmalloc_array(count, sizeof(*claims),
						    GFP_NOFS | __GFP_NOFAIL);

	for (u32 i = 0; i < count; i++)
		claims[i] = dslot->names[i + 1]->claim;
	sort_r(claims, count, sizeof(*claims), compare_claims, NULL, geo);
	return claims;
}

static int build_names(struct uhsfs_dslot *dslot, struct uhsfs_writes *writes)
{
	struct inode *inode = dslot->inode;
	struct super_block *sb = inode->i_sb;
	const void *root = uhsfs_i(inode)->view.value[UHSFS_TLV_NAMES];
	struct building building = { .sb = sb };
	struct uhsfs_claim *claims;
	struct uhsfs_names names;
	u32 old = 0;
	int err = 0;

	INIT_LIST_HEAD(&building.nodes);
	if (dslot->name_count > 1) {
		claims = further_names(dslot, uhsfs_geo(sb));
		uhsfs_names_init(&names, uhsfs_geo(sb), &building_ops, &building, inode->i_ino,
				 inode->i_generation, NULL);
		err = uhsfs_names_load(&names, claims, dslot->name_count - 1);
		uhsfs_tree_release(&names.tree, 0);
		if (!err)
			uhsfs_names_put_root(&names, &dslot->names_root);
		kvfree(claims);
	}
	if (!err)
		err = uhsfs_give_up_tree(sb, dslot, inode, root, true, &old);
	if (!err) {
		inode->i_blocks += ((blkcnt_t)building.count - old)
				   << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
		dslot->names_changed = false;
	}
	finish_building(&building, err ? NULL : writes);
	return err;
}

static int put_intent(struct uhsfs_dslot *dslot, struct uhsfs_slot_builder *b)
{
	const struct uhsfs_own_intent *intent = dslot->intent;
	struct uhsfs_intent *raw;

	if (!intent)
		return 0;
	raw = uhsfs_slot_reserve(b, UHSFS_TLV_INTENT, sizeof(*raw) + intent->claim.len);
	if (!raw)
		return -ENOSPC;
	raw->peer_ino = cpu_to_le64(intent->peer_ino);
	raw->peer_gen = cpu_to_le32(intent->peer_gen);
	raw->op = intent->op;
	raw->len = intent->claim.len;
	raw->parent_ino = cpu_to_le64(intent->claim.parent_ino);
	raw->parent_gen = cpu_to_le32(intent->claim.parent_gen);
	raw->name_seq = cpu_to_le64(intent->claim.name_seq);
	memcpy(raw->name, intent->bytes, intent->claim.len);
	return 0;
}

static int put_names(struct uhsfs_dslot *dslot, struct uhsfs_slot_builder *b,
		     struct uhsfs_writes *writes)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(dslot->inode)->view;
	int err = 0;

	if (!dslot->names_loaded) {
		if (view->value[UHSFS_TLV_NAME])
			err = uhsfs_slot_put(b, UHSFS_TLV_NAME, view->value[UHSFS_TLV_NAME],
					     view->len[UHSFS_TLV_NAME]);
		if (!err && view->value[UHSFS_TLV_NAMES])
			err = uhsfs_slot_put(b, UHSFS_TLV_NAMES, view->value[UHSFS_TLV_NAMES],
					     view->len[UHSFS_TLV_NAMES]);
		return err;
	}
	if (dslot->name_count) {
		const struct uhsfs_claim *claim = &dslot->names[0]->claim;
		struct uhsfs_name *raw;

		raw = uhsfs_slot_reserve(b, UHSFS_TLV_NAME, sizeof(*raw) + claim->len);
		if (!raw)
			return -ENOSPC;
		uhsfs_name_encode(claim, raw);
	}
	err = put_intent(dslot, b);
	if (!err && dslot->names_changed)
		err = build_names(dslot, writes);
	if (!err && dslot->name_count > 1)
		err = uhsfs_slot_put(b, UHSFS_TLV_NAMES, &dslot->names_root,
				     sizeof(dslot->names_root));
	return err;
}

/* ---- the image ------------------------------------------------------------ */

static void get_attributes(struct uhsfs_dslot *dslot, struct uhsfs_attr *attr)
{
	struct inode *inode = dslot->inode;
	struct uhsfs_inode_info *info = uhsfs_i(inode);

	*attr = info->view.attr;
	attr->ino = inode->i_ino;
	attr->generation = inode->i_generation;
	attr->state = UHSFS_SLOT_INODE;
	attr->mode = inode->i_mode;
	attr->nlink = dslot->names_loaded ? dslot->name_count : info->view.attr.nlink;
	attr->uid = i_uid_read(inode);
	attr->gid = i_gid_read(inode);
	attr->size = S_ISDIR(inode->i_mode) ? 0 : info->disk_size;
	attr->blocks = inode->i_blocks >> (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	uhsfs_get_times(inode, &attr->atime, &attr->mtime, &attr->ctime);
	attr->version = inode_peek_iversion(inode);
	attr->name_seq_max = dslot->name_seq_max;
	attr->nonce = dslot->nonce;
	attr->seq = uhsfs_next_op(inode->i_sb);
}

static int put_copy(struct uhsfs_slot_builder *b, const struct uhsfs_slot_view *view, u16 type)
{
	return view->value[type] ? uhsfs_slot_put(b, type, view->value[type], view->len[type]) : 0;
}

static int put_dir(struct uhsfs_dslot *dslot, struct uhsfs_slot_builder *b)
{
	const struct uhsfs_inode_info *info = uhsfs_i(dslot->inode);
	struct uhsfs_dir_info dir = info->dir;
	struct uhsfs_dir_root root;

	/* The counts are hints; what leads to blocks must be on the device. */
	if (info->list_loaded) {
		dir.buckets = info->published.buckets;
		dir.overflow = info->published.overflow;
	}
	dir.entries = max_t(u64, dir.entries, dir.subdirs);
	uhsfs_dir_root_encode(&root, &dir);
	return uhsfs_slot_put(b, UHSFS_TLV_DIR, &root, sizeof(root));
}

static int put_content(struct uhsfs_dslot *dslot, struct uhsfs_slot_builder *b,
		       struct uhsfs_writes *writes)
{
	struct uhsfs_inode_info *info = uhsfs_i(dslot->inode);
	const struct uhsfs_slot_view *view = &info->view;
	bool dir = S_ISDIR(dslot->inode->i_mode);
	int err;

	if (info->inlined) {
		/* A tree from before may be left to give up. */
		err = put_extents(dslot, b, NULL, 0, true, writes);
		return err ?: uhsfs_slot_put(b, UHSFS_TLV_INLINE, info->inline_copy,
					     info->disk_size);
	}
	if (!info->list_loaded) {
		err = put_copy(b, view, UHSFS_TLV_INLINE);
		err = err ?: put_copy(b, view, UHSFS_TLV_EXTENTS);
		return err ?: put_copy(b, view, UHSFS_TLV_EXTENT_ROOT);
	}
	if (dir) {
		err = put_extents(dslot, b, info->pub, info->pub_count, info->pub_changed, writes);
		if (!err)
			info->pub_changed = false;
	} else {
		err = put_extents(dslot, b, info->list.extent, info->list.count, info->list_changed,
				  writes);
		if (!err)
			info->list_changed = false;
	}
	return err;
}

static u64 extent_blocks(const struct uhsfs_extent *extent, u32 count)
{
	u64 blocks = 0;

	for (u32 i = 0; i < count; i++) {
		struct uhsfs_ext ext;

		uhsfs_extent_decode(&extent[i], &ext);
		blocks += ext.len;
	}
	return blocks;
}

/* What the image leads to: of a directory, not buckets that are not on the device yet. */
static u64 image_blocks(struct inode *inode)
{
	const struct uhsfs_inode_info *info = uhsfs_i(inode);
	u64 blocks = inode->i_blocks >> (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);

	if (!S_ISDIR(inode->i_mode) || !info->list_loaded)
		return blocks;
	return blocks - info->list.scale *
	       (extent_blocks(info->list.extent, info->list.count) -
		extent_blocks(info->pub, info->pub_count));
}

/*
 * info->lock (write) and rw->lock are held.  Blocks of trees are counted while the image
 * is built, so the count is put into the header at the end.
 */
int uhsfs_compose(struct uhsfs_dslot *dslot, void *image, struct uhsfs_writes *writes)
{
	struct super_block *sb = writes->sb;
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	const struct uhsfs_slot_view *view;
	struct uhsfs_slot_builder b;
	struct uhsfs_attr attr;
	int err;

	if (dslot->free) {
		uhsfs_slot_build_free(geo, image, dslot->ino, dslot->gen, dslot->name_seq_max,
				      dslot->nonce, uhsfs_next_op(sb));
		return 0;
	}
	view = &uhsfs_i(dslot->inode)->view;
	get_attributes(dslot, &attr);
	uhsfs_slot_begin(&b, geo, image, &attr);
	err = put_names(dslot, &b, writes);
	if (!err && S_ISDIR(attr.mode))
		err = put_dir(dslot, &b);
	err = err ?: put_copy(&b, view, UHSFS_TLV_DEVICE);
	err = err ?: put_copy(&b, view, UHSFS_TLV_XATTRS);
	err = err ?: put_copy(&b, view, UHSFS_TLV_XATTR_ROOT);
	err = err ?: put_content(dslot, &b, writes);
	if (err)
		return err;
	((struct uhsfs_slot *)image)->blocks =
		cpu_to_le64(image_blocks(dslot->inode));
	uhsfs_slot_finish(&b);
	return 0;
}
