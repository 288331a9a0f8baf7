// SPDX-License-Identifier: GPL-2.0
/*
 * Slots with changes that are not durable.
 *
 * A dslot exists while its slot's newest image is not durable, or while a change refers
 * to it.  It pins its inode, except one without a name, which may be evicted: the slot
 * is FREE from then on, and the dslot alone knows what to write.
 */
#include <linux/slab.h>

#include "rw.h"

struct uhsfs_dslot *uhsfs_dslot_find(struct super_block *sb, u64 ino)
{
	return xa_load(&uhsfs_rw(sb)->dslots, ino);
}

/* The dslot of an inode, made if there is none; rw->lock is held. */
struct uhsfs_dslot *uhsfs_dslot_get(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot = uhsfs_dslot_find(sb, inode->i_ino);
	int err;

	lockdep_assert_held(&rw->lock);
	if (dslot) {
		dslot->inode = inode;
		return dslot;
	}
	/* What was changed must be written. */
	dslot = kzalloc(sizeof(*dslot), GFP_NOFS | __GFP_NOFAIL);
	uhsfs_order_slot_init(&dslot->order);
	/* What was before is durable. */
	dslot->order.changed = uhsfs_seq_make(rw->epoch, rw->counter);
	dslot->order.durable = dslot->order.changed;
	dslot->data_op = dslot->order.changed;
	dslot->order.dir = S_ISDIR(inode->i_mode);
	dslot->order.names = S_ISDIR(inode->i_mode) ? inode->i_nlink > 0 : inode->i_nlink;
	dslot->ino = inode->i_ino;
	dslot->gen = inode->i_generation;
	dslot->nonce = uhsfs_i(inode)->view.attr.nonce;
	dslot->name_seq_max = uhsfs_i(inode)->view.attr.name_seq_max;
	dslot->inode = inode;
	INIT_LIST_HEAD(&dslot->list);
	INIT_LIST_HEAD(&dslot->given_up);
	INIT_LIST_HEAD(&dslot->batch);
	err = xa_err(xa_store(&rw->dslots, dslot->ino, dslot, GFP_NOFS | __GFP_NOFAIL));
	if (err) {
		kfree(dslot);
		return ERR_PTR(err);
	}
	return dslot;
}

static void free_dslot(struct uhsfs_dslot *dslot)
{
	for (u32 i = 0; i < dslot->name_count; i++)
		kfree(dslot->names[i]);
	kfree(dslot->names);
	kfree(dslot->intent);
	kfree(dslot);
}

/* Free a dslot that nobody needs. */
void uhsfs_dslot_maybe_free(struct super_block *sb, struct uhsfs_dslot *dslot)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);

	lockdep_assert_held(&rw->lock);
	/* An orphan is marked anew in each epoch. */
	if (dslot->inode && !dslot->order.names && !dslot->free)
		return;
	if (dslot->refs || dslot->dirty || dslot->wanted || dslot->writing ||
	    !list_empty(&dslot->order.entries) || !list_empty(&dslot->given_up))
		return;
	if (dslot->gone)
		list_del(&dslot->list);
	else
		xa_erase(&rw->dslots, dslot->ino);
	free_dslot(dslot);
}

/*
 * The slot is FREE on the device and may be taken again: the next generation has a dslot of
 * its own.  This one lives on as long as changes of others refer to it.
 */
static void detach(struct uhsfs_rw *rw, struct uhsfs_dslot *dslot)
{
	xa_erase(&rw->dslots, dslot->ino);
	dslot->gone = true;
	list_add_tail(&dslot->list, &rw->gone);
}

static int touch(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err;

	lockdep_assert_held(&rw->lock);
	err = uhsfs_mark(sb, dslot->ino);
	if (err)
		return err;
	uhsfs_order_touch(&dslot->order, op);
	if (!dslot->dirty) {
		dslot->dirty = true;
		list_add_tail(&dslot->list, &rw->dirty);
		rw->dirty_count++;
	}
	uhsfs_hurry(sb);
	if (!dslot->pinned && dslot->order.names && igrab(dslot->inode))
		dslot->pinned = true;
	return 0;
}

/* Operation op changed the slot. */
int uhsfs_touch_locked(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op)
{
	int err = touch(sb, dslot, op);

	if (!err)
		dslot->data_op = op;
	return err;
}

static int touch_inode(struct inode *inode,
		       int (*how)(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op))
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	struct uhsfs_dslot *dslot;
	int err;

	if (!rw)
		return -EROFS;
	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_get(inode);
	err = IS_ERR(dslot) ? PTR_ERR(dslot) :
			      how(inode->i_sb, dslot, uhsfs_next_op(inode->i_sb));
	mutex_unlock(&rw->lock);
	return err;
}

/* Attributes or extents of an inode changed. */
int uhsfs_touch(struct inode *inode)
{
	return touch_inode(inode, uhsfs_touch_locked);
}

int uhsfs_touch_times(struct inode *inode)
{
	return touch_inode(inode, touch);
}

bool uhsfs_is_dirty(struct inode *inode, bool data)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	struct uhsfs_dslot *dslot;
	bool dirty;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	dirty = dslot && dslot->dirty && (!data || dslot->order.durable < dslot->data_op);
	mutex_unlock(&rw->lock);
	return dirty;
}

static void retire(void *ctx, struct uhsfs_order_change *change)
{
	struct super_block *sb = ctx;
	struct uhsfs_order_slot *refer[] = { change->parent, change->other };

	for (int i = 0; i < ARRAY_SIZE(refer); i++) {
		struct uhsfs_dslot *dslot;

		if (!refer[i])
			continue;
		dslot = container_of(refer[i], struct uhsfs_dslot, order);
		dslot->refs--;
		if (refer[i] != change->slot)
			uhsfs_dslot_maybe_free(sb, dslot);
	}
	kfree(container_of(change, struct uhsfs_name_change, change));
}

/*
 * The image of operation op is durable: what it gave up is free.  A reference to the
 * inode is left to the caller on `unpin` (struct uhsfs_dslot is gone perhaps).
 */
void uhsfs_dslot_durable(struct super_block *sb, struct uhsfs_dslot *dslot, u64 op,
			 struct list_head *unpin)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_given_up *run, *next;

	lockdep_assert_held(&rw->lock);
	uhsfs_order_durable(&dslot->order, op, retire, sb);
	list_for_each_entry_safe(run, next, &dslot->given_up, list) {
		if (run->op > op)
			break;
		list_del(&run->list);
		uhsfs_free_run(sb, run);
	}
	if (dslot->order.changed > op)
		return;
	if (dslot->dirty) {
		dslot->dirty = false;
		list_del_init(&dslot->list);
		rw->dirty_count--;
	}
	if (dslot->free) {
		uhsfs_slot_release(sb, dslot->ino);
		detach(rw, dslot);
	}
	if (dslot->pinned) {
		struct uhsfs_inode_info *info = uhsfs_i(dslot->inode);

		dslot->pinned = false;
		list_add(&info->unpin, unpin);
	}
	uhsfs_dslot_maybe_free(sb, dslot);
}

static void drop_dslot(struct uhsfs_dslot *dslot)
{
	struct uhsfs_order_change *change, *next;
	struct uhsfs_given_up *run, *more;

	list_for_each_entry_safe(change, next, &dslot->order.changes, of_slot)
		kfree(container_of(change, struct uhsfs_name_change, change));
	list_for_each_entry_safe(run, more, &dslot->given_up, list)
		kfree(run);
	free_dslot(dslot);
}

/* Nothing is written any more: let go of everything. */
void uhsfs_drop_dslots(struct super_block *sb)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot, *more;
	struct inode *inode;
	unsigned long ino;

	WRITE_ONCE(rw->failed, true);
	xa_for_each(&rw->dirty_dirs, ino, inode) {
		xa_erase(&rw->dirty_dirs, ino);
		uhsfs_drop_buckets(inode);
		iput(inode);
	}
	xa_for_each(&rw->dslots, ino, dslot) {
		if (!dslot->pinned)
			continue;
		dslot->pinned = false;
		/* Keeps the dslot; eviction changes nothing once the filesystem has failed. */
		dslot->refs++;
		iput(dslot->inode);
	}
	mutex_lock(&rw->lock);
	xa_for_each(&rw->dslots, ino, dslot) {
		xa_erase(&rw->dslots, ino);
		drop_dslot(dslot);
	}
	list_for_each_entry_safe(dslot, more, &rw->gone, list) {
		list_del(&dslot->list);
		drop_dslot(dslot);
	}
	mutex_unlock(&rw->lock);
}

/* ---- names ---------------------------------------------------------------- */

struct loading {
	struct uhsfs_own_name **names;
	u32 count, room;
};

static int add_loaded(void *ctx, const struct uhsfs_claim *claim)
{
	struct loading *loading = ctx;
	struct uhsfs_own_name *name;

	if (loading->count == loading->room) {
		u32 room = loading->room ? 2 * loading->room : 2;
		struct uhsfs_own_name **names;

		names = krealloc(loading->names, room * sizeof(*names), GFP_NOFS);
		if (!names)
			return -ENOMEM;
		loading->names = names;
		loading->room = room;
	}
	name = kmalloc(sizeof(*name), GFP_NOFS);
	if (!name)
		return -ENOMEM;
	name->claim = *claim;
	memcpy(name->bytes, claim->name, claim->len);
	name->claim.name = name->bytes;
	loading->names[loading->count++] = name;
	return 0;
}

static int load_tree(struct inode *inode, const struct uhsfs_names_root *root,
		     struct loading *loading)
{
	const struct uhsfs_names_visitor visitor = { .name = add_loaded, .ctx = loading };
	struct uhsfs_nodes nodes;
	struct uhsfs_names names;
	u64 count;
	int err;

	uhsfs_nodes_init(&nodes, inode->i_sb);
	uhsfs_names_init(&names, uhsfs_geo(inode->i_sb), &uhsfs_node_ops, &nodes, inode->i_ino,
			 inode->i_generation, root);
	err = uhsfs_names_walk(&names, &visitor, &count);
	uhsfs_nodes_release(&nodes);
	return err ? uhsfs_tree_failed(inode->i_sb, inode->i_ino, err, &names.tree) : 0;
}

/* Bring the inode's names into its dslot.  The caller holds a lock that no name passes. */
int uhsfs_load_names(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	const struct uhsfs_names_root *root;
	struct loading loading = {};
	struct uhsfs_dslot *dslot;
	struct uhsfs_claim claim;
	int err = 0;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	if (dslot && dslot->names_loaded) {
		mutex_unlock(&rw->lock);
		return 0;
	}
	mutex_unlock(&rw->lock);
	down_read(&info->lock);
	root = info->view.value[UHSFS_TLV_NAMES];
	if (info->view.value[UHSFS_TLV_NAME]) {
		uhsfs_name_decode(info->view.value[UHSFS_TLV_NAME], &claim);
		err = add_loaded(&loading, &claim);
	}
	if (!err && root)
		err = load_tree(inode, root, &loading);
	mutex_lock(&rw->lock);
	dslot = err ? ERR_PTR(err) : uhsfs_dslot_get(inode);
	if (!IS_ERR(dslot)) {
		dslot->names = loading.names;
		dslot->name_count = loading.count;
		dslot->name_room = loading.room;
		dslot->names_loaded = true;
		if (root)
			dslot->names_root = *root;
	}
	mutex_unlock(&rw->lock);
	up_read(&info->lock);
	if (!IS_ERR(dslot))
		return 0;
	while (loading.count)
		kfree(loading.names[--loading.count]);
	kfree(loading.names);
	return PTR_ERR(dslot);
}

struct uhsfs_own_name *uhsfs_own_name(struct uhsfs_dslot *dslot, const struct uhsfs_claim *claim)
{
	for (u32 i = 0; i < dslot->name_count; i++)
		if (uhsfs_same_name(&dslot->names[i]->claim, claim))
			return dslot->names[i];
	return NULL;
}

/* Does an inode with changes have the name?  1, 0, or -ENODATA: ask its slot. */
int uhsfs_in_memory(struct super_block *sb, u64 ino, u32 gen, const struct uhsfs_claim *claim)
{
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	struct uhsfs_dslot *dslot;
	int ret = -ENODATA;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(sb, ino);
	if (dslot && (dslot->free || dslot->gen != gen))
		ret = 0;
	else if (dslot && dslot->names_loaded)
		ret = uhsfs_own_name(dslot, claim) != NULL;
	mutex_unlock(&rw->lock);
	return ret;
}
