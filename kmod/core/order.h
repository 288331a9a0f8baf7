/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Order: which slots must be durable before the image of a slot may be written.
 *
 * These are the rules R4, R5, N1, N2 and R8 of Documentation/design/ordering.rst about
 * names, decided from the changes of names that are not durable yet.  Nothing here does
 * I/O, allocates or locks: the caller serialises, brings the memory, and keeps a slot and
 * a change where they are until they are retired.
 *
 * OPERATIONS have ascending numbers (name_seq).  An image of a slot contains all
 * operations up to `changed`; only the newest image is ever written, so what is on the
 * device is the image of operation `durable`.
 *
 * CHANGES.  An operation leaves a change for each name that a slot gains or loses.  A
 * change is retired when an image of its slot that contains it is durable, so that what
 * is considered is bounded by what is dirty.  Changes are found from their slot, from
 * the name (all changes of one name, whoever's) and from the directory.
 *
 * "Waits for (X, n)": the image may be written only when X.durable >= n.
 */
#ifndef UHSFS_ORDER_H
#define UHSFS_ORDER_H

#include "uhsfs_platform.h"

UHSFS_BEGIN_DECLS

/* A slot that is changed, or that changes refer to.  Zero, then uhsfs_order_slot_init(). */
struct uhsfs_order_slot {
	u64 born;	/* operation that made this generation; 0: it was durable before */
	u64 changed;	/* newest operation in its image in memory */
	u64 durable;	/* newest operation in its durable image */
	u32 names;	/* it has now; the root counts one */
	bool dir;
	struct list_head changes;	/* its own, by operation */
	struct list_head entries;	/* a directory: changes of names in it, by operation */
};

enum uhsfs_order_kind {
	UHSFS_ORDER_CLAIM,	/* gains a name */
	UHSFS_ORDER_INTENT,	/* claims a name for the peer of its intent (R8) */
	UHSFS_ORDER_UNLINK,	/* loses a name, which then nobody has */
	UHSFS_ORDER_MOVE,	/* leaves a name for another one */
	UHSFS_ORDER_REPLACED,	/* loses a name to `other`, which takes it by rename (R4b) */
	UHSFS_ORDER_EXCHANGE,	/* leaves a name that its peer takes in the same operation */
	UHSFS_ORDER_PEER,	/* is the second half of an operation that `other` holds (R8) */
};

struct uhsfs_order_change {
	enum uhsfs_order_kind kind;
	u64 op;		/* the operation */
	u64 was;	/* what loses or leaves: the operation that claimed it, 0: before all */
	bool in_force;	/* CLAIM: the slot still has this name by this claim */
	struct uhsfs_order_slot *slot;	/* whose change it is */
	struct uhsfs_order_slot *other;	/* see kinds; CLAIM: whom it replaced, or NULL */

	/* The name; the bytes are the caller's.  Not for PEER. */
	struct uhsfs_order_slot *parent;
	const u8 *name;
	u8 len;

	struct list_head of_slot;
	struct list_head of_name;	/* in the caller's table */
	struct list_head of_parent;
};

/* All changes that are not durable, by name. */
struct uhsfs_order {
	struct list_head *names;	/* 1 << bits lists */
	u32 bits;
};

void uhsfs_order_init(struct uhsfs_order *order, struct list_head *names, u32 bits);
void uhsfs_order_slot_init(struct uhsfs_order_slot *slot);

/*
 * Record a change that is filled in but for the lists; operations come in order.  It
 * counts slot->names, ends the claim that it gives up, and raises slot->changed.
 */
void uhsfs_order_add(struct uhsfs_order *order, struct uhsfs_order_change *change);

/*
 * Take back the newest changes of an operation that did not happen, newest first.
 * changed: what slot->changed was before.
 */
void uhsfs_order_undo(struct uhsfs_order *order, struct uhsfs_order_change *change, u64 changed);

/* A change of the image that is none of names. */
static inline void uhsfs_order_touch(struct uhsfs_order_slot *slot, u64 op)
{
	slot->changed = op;
}

/*
 * The image of operation `op` is durable.  Changes that it contains are taken out and
 * handed to retire(), which may free them.
 */
void uhsfs_order_durable(struct uhsfs_order_slot *slot, u64 op,
			 void (*retire)(void *ctx, struct uhsfs_order_change *change), void *ctx);

/*
 * What the newest image of a slot waits for: wait() is told of each (on, op) that is not
 * satisfied, perhaps several times of the same, and may end it with something else than
 * 0, which is returned.
 */
struct uhsfs_order_visitor {
	int (*wait)(void *ctx, struct uhsfs_order_slot *on, u64 op);
	void *ctx;
};

int uhsfs_order_waits(const struct uhsfs_order *order, struct uhsfs_order_slot *slot,
		      const struct uhsfs_order_visitor *visitor);

/* True if the newest image of some slot waits for this one. */
bool uhsfs_order_waited(const struct uhsfs_order *order, struct uhsfs_order_slot *slot);

/*
 * R4(c), asked about a slot that operation `op` changed, once all its changes are
 * recorded.  What it tells must be committed before the operation: take the changes
 * back, commit, and begin again.  Nothing told: go on.
 */
int uhsfs_order_first(const struct uhsfs_order *order, struct uhsfs_order_slot *slot, u64 op,
		      const struct uhsfs_order_visitor *visitor);

/* R7, fsync of a directory: the slots whose entries in it changed. */
int uhsfs_order_entries(struct uhsfs_order_slot *dir, const struct uhsfs_order_visitor *visitor);

UHSFS_END_DECLS

#endif /* UHSFS_ORDER_H */
