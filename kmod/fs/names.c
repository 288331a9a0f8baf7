// SPDX-License-Identifier: GPL-2.0
/*
 * Changes of names, in memory: what an operation does to the names of one, two or three
 * inodes, all under one operation number.
 *
 * An operation is a list of steps: first what is left, then what is claimed, then the two
 * halves of R8.  Recording them may show that something has to be durable first (R4c); then
 * they are taken back, that is committed, and the operation begins again.  The caller holds
 * i_rwsem of the directories and of inodes whose names change, and the gate, which is let
 * go of in the meantime.
 */
#include <linux/slab.h>

#include "rw.h"

#define FIRST_MAX 32

/* What R4(c) wants to be committed before an operation. */
struct first {
	u32 count;
	u64 ino[FIRST_MAX];
};

struct operation {
	struct list_head list;		/* rw->waiting */
	struct super_block *sb;
	const struct uhsfs_name_step *step;
	u32 count;
	struct uhsfs_name_change *change[UHSFS_NAME_STEPS];
	struct uhsfs_own_name *own[UHSFS_NAME_STEPS];	/* claimed (new) or left */
	struct uhsfs_dslot *dslot[UHSFS_NAME_STEPS];
	struct uhsfs_dslot *other[UHSFS_NAME_STEPS];
	struct uhsfs_dslot *parent[UHSFS_NAME_STEPS];
	u64 before[UHSFS_NAME_STEPS];			/* order.changed */
	struct uhsfs_own_intent *intent;
	struct first first;
};

static bool claims(const struct uhsfs_name_step *step)
{
	return step->kind == UHSFS_ORDER_CLAIM;
}

static bool leaves(const struct uhsfs_name_step *step)
{
	return step->kind != UHSFS_ORDER_CLAIM && step->kind != UHSFS_ORDER_INTENT &&
	       step->kind != UHSFS_ORDER_PEER;
}

/* ---- what comes first ----------------------------------------------------- */

static int add_first(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	struct first *first = ctx;

	if (first->count == FIRST_MAX)
		return 1;
	first->ino[first->count++] = container_of(on, struct uhsfs_dslot, order)->ino;
	return 0;
}

/* Its entries are in buckets already, so a checkpoint that begins now marks it. */
static int commit_first(struct operation *o)
{
	struct uhsfs_rw *rw = uhsfs_rw(o->sb);
	int err = 0;

	mutex_lock(&rw->lock);
	list_add_tail(&o->list, &rw->waiting);
	mutex_unlock(&rw->lock);
	up_read(&rw->gate);
	if (o->first.count)
		atomic64_inc(&uhsfs_sb(o->sb)->commits_r4);
	for (u32 i = 0; !err && i < o->first.count; i++)
		err = uhsfs_commit(o->sb, o->first.ino[i]);
	down_read(&rw->gate);
	mutex_lock(&rw->lock);
	list_del(&o->list);
	mutex_unlock(&rw->lock);
	return err;
}

int uhsfs_mark_waiting(struct super_block *sb)
{
	struct operation *o;
	int err = 0;

	list_for_each_entry(o, &uhsfs_rw(sb)->waiting, list) {
		for (u32 i = 0; !err && i < o->count; i++)
			err = uhsfs_mark(sb, o->step[i].inode->i_ino) ?:
			      uhsfs_mark(sb, o->step[i].dir->i_ino);
	}
	return err;
}

int uhsfs_announce(struct inode *inode)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	int err;

	mutex_lock(&rw->lock);
	err = uhsfs_mark(inode->i_sb, inode->i_ino);
	mutex_unlock(&rw->lock);
	return err;
}

/* ---- before --------------------------------------------------------------- */

static int alloc_operation(struct operation *o)
{
	for (u32 i = 0; i < o->count; i++) {
		o->change[i] = kzalloc(sizeof(*o->change[i]), GFP_NOFS);
		if (claims(&o->step[i]))
			o->own[i] = kzalloc(sizeof(*o->own[i]), GFP_NOFS);
		if (o->step[i].kind == UHSFS_ORDER_INTENT)
			o->intent = kzalloc(sizeof(*o->intent), GFP_NOFS);
		if (!o->change[i] || (claims(&o->step[i]) && !o->own[i]) ||
		    (o->step[i].kind == UHSFS_ORDER_INTENT && !o->intent))
			return -ENOMEM;
	}
	return 0;
}

/* What the operation does not use any more. */
static void free_operation(struct operation *o)
{
	for (u32 i = 0; i < o->count; i++) {
		kfree(o->change[i]);
		if (claims(&o->step[i]))
			kfree(o->own[i]);
	}
	kfree(o->intent);
}

static struct uhsfs_dslot *get_dslot(struct inode *inode, int *err)
{
	struct uhsfs_dslot *dslot = inode ? uhsfs_dslot_get(inode) : NULL;

	if (!IS_ERR(dslot))
		return dslot;
	*err = PTR_ERR(dslot);
	return NULL;
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

/* Everything that can fail, for one step. */
static int prepare_step(struct operation *o, u32 i)
{
	const struct uhsfs_name_step *step = &o->step[i];
	const struct uhsfs_claim claim = {
		.parent_ino = step->dir->i_ino,
		.parent_gen = step->dir->i_generation,
		.name = step->name->name,
		.len = step->name->len,
	};
	struct uhsfs_dslot *dslot;
	int err = 0;

	o->dslot[i] = dslot = get_dslot(step->inode, &err);
	o->other[i] = get_dslot(step->other, &err);
	o->parent[i] = get_dslot(step->dir, &err);
	if (err)
		return err;
	/* A commit may have dropped the dslot that had the names. */
	if (!step->born && !dslot->names_loaded)
		return -EAGAIN;
	if (leaves(step)) {
		o->own[i] = uhsfs_own_name(dslot, &claim);
		if (!o->own[i])
			return -ESTALE;
	} else if (claims(step)) {
		err = room_for_name(dslot);
	}
	/* R0: of every slot that the operation changes, victims too. */
	err = err ?: uhsfs_mark(o->sb, dslot->ino);
	return err ?: uhsfs_mark(o->sb, o->parent[i]->ino);
}

/* ---- recording ------------------------------------------------------------ */

static void add_step(struct operation *o, u32 i, u64 op)
{
	const struct uhsfs_name_step *step = &o->step[i];
	struct uhsfs_order_change *change = &o->change[i]->change;
	struct uhsfs_dslot *dslot = o->dslot[i];

	if (step->born && claims(step)) {
		dslot->order.born = op;
		dslot->order.durable = 0;
		dslot->order.names = 0;
		dslot->names_loaded = true;
	}
	o->before[i] = dslot->order.changed;
	memcpy(o->change[i]->name, step->name->name, step->name->len);
	*change = (struct uhsfs_order_change) {
		.kind = step->kind,
		.op = op,
		.was = leaves(step) ? o->own[i]->claim.name_seq : 0,
		.slot = &dslot->order,
		.other = o->other[i] ? &o->other[i]->order : NULL,
		.parent = step->kind == UHSFS_ORDER_PEER ? NULL : &o->parent[i]->order,
		.name = o->change[i]->name,
		.len = step->name->len,
	};
	uhsfs_order_add(&uhsfs_rw(o->sb)->order, change);
}

/* Record all steps; with R4(c) they are taken back, and o->first says why. */
static int record(struct operation *o, u64 op)
{
	const struct uhsfs_order_visitor visitor = { .wait = add_first, .ctx = &o->first };
	struct uhsfs_rw *rw = uhsfs_rw(o->sb);

	for (u32 i = 0; i < o->count; i++)
		add_step(o, i, op);
	o->first.count = 0;
	for (u32 i = 0; i < o->count; i++)
		uhsfs_order_first(&rw->order, &o->dslot[i]->order, op, &visitor);
	if (!o->first.count)
		return 0;
	for (u32 i = o->count; i--;)
		uhsfs_order_undo(&rw->order, &o->change[i]->change, o->before[i]);
	return -EAGAIN;
}

/* ---- afterwards ----------------------------------------------------------- */

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

static void add_own(struct operation *o, u32 i, u64 op)
{
	const struct uhsfs_name_step *step = &o->step[i];
	struct uhsfs_own_name *own = o->own[i];
	struct uhsfs_dslot *dslot = o->dslot[i];

	memcpy(own->bytes, step->name->name, step->name->len);
	own->claim = (struct uhsfs_claim) {
		.parent_ino = step->dir->i_ino,
		.parent_gen = step->dir->i_generation,
		.len = step->name->len,
		.name_seq = op,
		.name = own->bytes,
	};
	dslot->names[dslot->name_count++] = own;
	dslot->names_changed = true;
	o->own[i] = NULL;
}

static void set_intent(struct operation *o, u32 i, u64 op)
{
	const struct uhsfs_name_step *step = &o->step[i];
	struct uhsfs_own_intent *intent = o->intent;

	*intent = (struct uhsfs_own_intent) {
		.op = step->intent,
		.peer_ino = step->other->i_ino,
		.peer_gen = step->other->i_generation,
		.claim = {
			.parent_ino = step->dir->i_ino,
			.parent_gen = step->dir->i_generation,
			.len = step->name->len,
			.name_seq = op,
			.name = intent->bytes,
		},
	};
	memcpy(intent->bytes, step->name->name, step->name->len);
	kfree(o->dslot[i]->intent);
	o->dslot[i]->intent = intent;
	o->intent = NULL;
}

/* The peer is durable: the next image has no intent. */
int uhsfs_drop_intent(struct inode *inode)
{
	struct uhsfs_rw *rw = uhsfs_rw(inode->i_sb);
	struct uhsfs_dslot *dslot;

	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_find(inode->i_sb, inode->i_ino);
	if (dslot) {
		kfree(dslot->intent);
		dslot->intent = NULL;
	}
	mutex_unlock(&rw->lock);
	return uhsfs_touch(inode);
}

/*
 * Links of an inode are what its dslot says, also for the next one: a commit may drop this
 * one at any time.  What moves or is exchanged keeps its number.
 */
static void count_links(const struct operation *o, u32 i)
{
	const struct uhsfs_name_step *step = &o->step[i];

	if (step->kind == UHSFS_ORDER_UNLINK || step->kind == UHSFS_ORDER_REPLACED) {
		if (S_ISDIR(step->inode->i_mode))
			clear_nlink(step->inode);
		else
			drop_nlink(step->inode);
	} else if (claims(step) && !step->born && o->count == 1) {
		inc_nlink(step->inode);
	}
}

/* The operation has happened: names of inodes, and what refers to whom. */
static void settle(struct operation *o, u64 op)
{
	for (u32 i = 0; i < o->count; i++) {
		if (o->other[i])
			o->other[i]->refs++;
		if (o->change[i]->change.parent)
			o->parent[i]->refs++;
		o->change[i] = NULL;
		if (leaves(&o->step[i]))
			uhsfs_remove_own(o->dslot[i], o->own[i]);
		else if (claims(&o->step[i]))
			add_own(o, i, op);
		else if (o->step[i].kind == UHSFS_ORDER_INTENT)
			set_intent(o, i, op);
		count_links(o, i);
		o->dslot[i]->name_seq_max = op;
		uhsfs_touch_locked(o->sb, o->dslot[i], op);
		uhsfs_touch_locked(o->sb, o->parent[i], op);
	}
}

/* An inode without a name is not kept; who calls has a reference of his own. */
static u32 unpin(struct operation *o, struct inode **inodes)
{
	u32 count = 0;

	for (u32 i = 0; i < o->count; i++) {
		struct uhsfs_dslot *dslot = o->dslot[i];

		if (dslot->order.names || !dslot->pinned)
			continue;
		dslot->pinned = false;
		inodes[count++] = dslot->inode;
	}
	return count;
}

static int change_once(struct operation *o)
{
	struct uhsfs_rw *rw = uhsfs_rw(o->sb);
	struct inode *unpinned[UHSFS_NAME_STEPS];
	u32 count = 0;
	int err = 0;

	mutex_lock(&rw->lock);
	for (u32 i = 0; !err && i < o->count; i++)
		err = prepare_step(o, i);
	if (!err) {
		u64 op = uhsfs_next_op(o->sb);

		err = record(o, op);
		if (!err) {
			settle(o, op);
			count = unpin(o, unpinned);
		}
	}
	mutex_unlock(&rw->lock);
	while (count)
		iput(unpinned[--count]);
	return err;
}

static int load_names(const struct operation *o)
{
	int err = 0;

	for (u32 i = 0; !err && i < o->count; i++)
		if (!o->step[i].born)
			err = uhsfs_load_names(o->step[i].inode);
	return err;
}

/* More than any chain of commits that one operation can need. */
#define ATTEMPTS 1000

int uhsfs_change_names(struct super_block *sb, const struct uhsfs_name_step *steps, u32 count)
{
	struct operation *o = kzalloc(sizeof(*o), GFP_NOFS);
	int err = o ? 0 : -ENOMEM, attempts = 0;

	if (err)
		return err;
	o->sb = sb;
	o->step = steps;
	o->count = count;
	err = alloc_operation(o);
	while (!err) {
		err = load_names(o);
		if (err)
			break;
		o->first.count = 0;
		err = change_once(o);
		if (err != -EAGAIN)
			break;
		err = commit_first(o) || ++attempts == ATTEMPTS ? -EIO : 0;
	}
	free_operation(o);
	kfree(o);
	return err;
}
