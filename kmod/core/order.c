// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Order: the rules about names, each as a function that tells what it makes wait.
 *
 * Why pending changes suffice: a claim, a departure or a victim whose slot is durable
 * beyond it has been waited for by whoever had to (that is what being durable took), and
 * can make nobody wait any more.  So each rule looks at changes on both sides of it, and
 * retired ones are rightly not found.
 *
 * The model in selftests/model compares every answer with the rules as they are written
 * down, in all states of all short sequences of operations.
 */
#include "order.h"

void uhsfs_order_init(struct uhsfs_order *order, struct list_head *names, u32 bits)
{
	order->names = names;
	order->bits = bits;
	for (u32 i = 0; i < 1U << bits; i++)
		INIT_LIST_HEAD(&names[i]);
}

void uhsfs_order_slot_init(struct uhsfs_order_slot *slot)
{
	INIT_LIST_HEAD(&slot->changes);
	INIT_LIST_HEAD(&slot->entries);
}

/* ---- names ------------------------------------------------------------------- */

static bool has_name(const struct uhsfs_order_change *change)
{
	return change->kind != UHSFS_ORDER_PEER;
}

static bool claims(const struct uhsfs_order_change *change)
{
	return change->kind == UHSFS_ORDER_CLAIM || change->kind == UHSFS_ORDER_INTENT;
}

static bool departs(const struct uhsfs_order_change *change)
{
	return has_name(change) && !claims(change);
}

static bool same_name(const struct uhsfs_order_change *a, const struct uhsfs_order_change *b)
{
	return a->parent == b->parent && a->len == b->len && !memcmp(a->name, b->name, a->len);
}

/* The list that has all changes of a name, and others. */
static struct list_head *list_of(const struct uhsfs_order *order,
				 const struct uhsfs_order_change *change)
{
	u64 hash = (u64)(uintptr_t)change->parent >> 4;

	for (u32 i = 0; i < change->len; i++)
		hash = (hash ^ change->name[i]) * 0x9e3779b97f4a7c15ULL;
	return &order->names[hash >> (64 - order->bits)];
}

/* The claim that a departure gives up, if it is not durable. */
static struct uhsfs_order_change *claim_given_up(const struct uhsfs_order_change *departure)
{
	struct uhsfs_order_change *own;

	list_for_each_entry(own, &departure->slot->changes, of_slot) {
		if (own->kind == UHSFS_ORDER_CLAIM && own->op == departure->was &&
		    same_name(own, departure))
			return own;
	}
	return NULL;
}

/* ---- changes ------------------------------------------------------------------- */

void uhsfs_order_add(struct uhsfs_order *order, struct uhsfs_order_change *change)
{
	struct uhsfs_order_slot *slot = change->slot;
	struct uhsfs_order_change *claim;

	change->in_force = claims(change);
	list_add_tail(&change->of_slot, &slot->changes);
	if (has_name(change)) {
		list_add_tail(&change->of_name, list_of(order, change));
		list_add_tail(&change->of_parent, &change->parent->entries);
	}
	if (change->kind == UHSFS_ORDER_CLAIM)
		slot->names++;
	if (departs(change)) {
		slot->names--;
		claim = claim_given_up(change);
		if (claim)
			claim->in_force = false;
	}
	slot->changed = change->op;
}

static void take_out(struct uhsfs_order_change *change)
{
	list_del(&change->of_slot);
	if (has_name(change)) {
		list_del(&change->of_name);
		list_del(&change->of_parent);
	}
}

void uhsfs_order_undo(struct uhsfs_order *order, struct uhsfs_order_change *change, u64 changed)
{
	struct uhsfs_order_slot *slot = change->slot;
	struct uhsfs_order_change *claim;

	(void)order;
	if (change->kind == UHSFS_ORDER_CLAIM)
		slot->names--;
	if (departs(change)) {
		slot->names++;
		claim = claim_given_up(change);
		if (claim)
			claim->in_force = true;
	}
	take_out(change);
	slot->changed = changed;
}

void uhsfs_order_durable(struct uhsfs_order_slot *slot, u64 op,
			 void (*retire)(void *ctx, struct uhsfs_order_change *change), void *ctx)
{
	struct uhsfs_order_change *change, *next;

	if (op > slot->durable)
		slot->durable = op;
	list_for_each_entry_safe(change, next, &slot->changes, of_slot) {
		if (change->op > op)
			break;
		take_out(change);
		if (retire)
			retire(ctx, change);
	}
}

/* ---- rules --------------------------------------------------------------------- */

static int tell(const struct uhsfs_order_visitor *visitor, const struct uhsfs_order_slot *slot,
		struct uhsfs_order_slot *on, u64 op)
{
	if (on->durable >= op || (on == slot && op <= slot->changed))
		return 0;
	return visitor->wait(visitor->ctx, on, op);
}

/* R4(a): whoever left a name claimed here before that, and still has one. */
static int rule_claim(const struct uhsfs_order *order, const struct uhsfs_order_change *claim,
		      const struct uhsfs_order_visitor *visitor)
{
	const struct list_head *list = list_of(order, claim);
	struct uhsfs_order_change *left;
	int ret;

	if (!claim->in_force)
		return 0;
	list_for_each_entry(left, list, of_name) {
		if (!departs(left) || left->slot == claim->slot || left->op > claim->op ||
		    !same_name(left, claim) || !left->slot->names)
			continue;
		/* (b) orders who was replaced, R8 the two halves of an exchange. */
		if (left->kind == UHSFS_ORDER_REPLACED ||
		    (left->kind == UHSFS_ORDER_EXCHANGE && left->op == claim->op))
			continue;
		ret = tell(visitor, claim->slot, left->slot, left->op);
		if (ret)
			return ret;
	}
	return 0;
}

/* Departures from a directory up to an operation. */
static int rule_departures(struct uhsfs_order_slot *slot, struct uhsfs_order_slot *dir, u64 op,
			   const struct uhsfs_order_visitor *visitor)
{
	struct uhsfs_order_change *left;
	int ret;

	list_for_each_entry(left, &dir->entries, of_parent) {
		if (!departs(left) || left->op > op || left->slot == dir)
			continue;
		ret = tell(visitor, slot, left->slot, left->op);
		if (ret)
			return ret;
	}
	return 0;
}

/* How slot m lost a name to another one after operation op, if it did. */
static struct uhsfs_order_change *replaced_again(const struct uhsfs_order_change *at,
						 const struct uhsfs_order_slot *m, u64 op)
{
	struct uhsfs_order_change *change;

	list_for_each_entry(change, &m->changes, of_slot) {
		if (change->kind == UHSFS_ORDER_REPLACED && change->op > op &&
		    same_name(change, at))
			return change;
	}
	return NULL;
}

/* R4(b): the victim waits for who took the name; if that is dead, for the next taker. */
static int rule_victim(struct uhsfs_order_change *victim,
		       const struct uhsfs_order_visitor *visitor)
{
	struct uhsfs_order_change *at = victim;

	while (at && !at->other->names)
		at = replaced_again(victim, at->other, at->op);
	return at ? tell(visitor, victim->slot, at->other, at->op) : 0;
}

/*
 * N2: who gives up a name waits for whom it replaced there, and, if the durable image
 * claims it, for everyone who left the name before that claim.  A claim that is durable is
 * not among the changes any more; then whom it replaced is one of those.
 */
static int rule_giving_up(const struct uhsfs_order *order, const struct uhsfs_order_change *own,
			  const struct uhsfs_order_visitor *visitor)
{
	const struct list_head *list = list_of(order, own);
	const struct uhsfs_order_change *claim = claim_given_up(own);
	bool on_disk = own->was <= own->slot->durable;
	struct uhsfs_order_change *left;
	int ret;

	if (claim && claim->other) {
		ret = tell(visitor, own->slot, claim->other, own->was);
		if (ret)
			return ret;
	}
	if (!on_disk)
		return 0;
	list_for_each_entry(left, list, of_name) {
		if (left->op > own->was)
			break;
		if (!departs(left) || left->slot == own->slot || !same_name(left, own))
			continue;
		ret = tell(visitor, own->slot, left->slot, left->op);
		if (ret)
			return ret;
	}
	return 0;
}

/* All rules that a change of the slot brings in. */
static int rules_of_change(const struct uhsfs_order *order, struct uhsfs_order_change *change,
			   const struct uhsfs_order_visitor *visitor)
{
	struct uhsfs_order_slot *slot = change->slot;
	int ret = 0;

	if (change->kind == UHSFS_ORDER_PEER)
		return tell(visitor, slot, change->other, change->op);
	if (!claims(change)) {
		if (change->kind == UHSFS_ORDER_REPLACED)
			ret = rule_victim(change, visitor);
		return ret ? ret : rule_giving_up(order, change, visitor);
	}
	ret = rule_claim(order, change, visitor);
	if (ret || change->kind == UHSFS_ORDER_INTENT)
		return ret;
	/* N1: the parent exists durably before a name in it does. */
	if (change->in_force && change->parent->born)
		ret = tell(visitor, slot, change->parent, change->parent->born);
	/* R5: a directory is replaced only after all that left it. */
	if (!ret && change->other && slot->dir)
		ret = rule_departures(slot, change->other, change->op, visitor);
	return ret;
}

int uhsfs_order_waits(const struct uhsfs_order *order, struct uhsfs_order_slot *slot,
		      const struct uhsfs_order_visitor *visitor)
{
	struct uhsfs_order_change *change;
	int ret;

	list_for_each_entry(change, &slot->changes, of_slot) {
		ret = rules_of_change(order, change, visitor);
		if (ret)
			return ret;
	}
	/* R5: a directory without a name goes last. */
	if (slot->dir && !slot->names && slot->changed > slot->durable)
		return rule_departures(slot, slot, slot->changed, visitor);
	return 0;
}

/* ---- who waits for a slot --------------------------------------------------------- */

static int is_it(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	(void)op;
	return on == ctx;
}

static bool waits_for(const struct uhsfs_order *order, struct uhsfs_order_slot *slot,
		      struct uhsfs_order_slot *on)
{
	const struct uhsfs_order_visitor visitor = { .wait = is_it, .ctx = on };

	return slot != on && uhsfs_order_waits(order, slot, &visitor);
}

/*
 * Does anyone wait for the slot because of this change of its?  Names that are made again and
 * again have long lists, so only those are asked who can: for a claim the one that it
 * replaced, which stays until this one is durable, and for a departure those that came to
 * the name with it or later.
 */
static bool waited_at(const struct uhsfs_order *order, struct uhsfs_order_slot *slot,
		      const struct uhsfs_order_change *own)
{
	const struct list_head *list = list_of(order, own);
	struct uhsfs_order_change *change;

	if (!departs(own))
		return own->kind == UHSFS_ORDER_CLAIM && own->other && slot->names &&
		       own->other->durable < own->op;
	list_for_each_entry_reverse(change, list, of_name) {
		if (change->op < own->op)
			break;
		if (same_name(change, own) && waits_for(order, change->slot, slot))
			return true;
	}
	/* R5: the directory that it left, and who replaced that. */
	if (waits_for(order, own->parent, slot))
		return true;
	list_for_each_entry(change, &own->parent->changes, of_slot) {
		if (change->kind == UHSFS_ORDER_REPLACED && waits_for(order, change->other, slot))
			return true;
	}
	return false;
}

bool uhsfs_order_waited(const struct uhsfs_order *order, struct uhsfs_order_slot *slot)
{
	struct uhsfs_order_change *change;

	list_for_each_entry(change, &slot->changes, of_slot) {
		if (has_name(change) && waited_at(order, slot, change))
			return true;
		/* R8: the peer. */
		if (change->kind == UHSFS_ORDER_INTENT && waits_for(order, change->other, slot))
			return true;
	}
	/* N1: names in a directory that was never durable. */
	list_for_each_entry(change, &slot->entries, of_parent) {
		if (waits_for(order, change->slot, slot))
			return true;
	}
	return false;
}

struct before {
	const struct uhsfs_order_visitor *visitor;
	u64 op;
};

static int tell_before(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	const struct before *before = ctx;

	return op < before->op ? before->visitor->wait(before->visitor->ctx, on, op) : 0;
}

int uhsfs_order_first(const struct uhsfs_order *order, struct uhsfs_order_slot *slot, u64 op,
		      const struct uhsfs_order_visitor *visitor)
{
	struct before before = { .visitor = visitor, .op = op };
	const struct uhsfs_order_visitor filter = { .wait = tell_before, .ctx = &before };

	return uhsfs_order_waited(order, slot) ? uhsfs_order_waits(order, slot, &filter) : 0;
}

int uhsfs_order_entries(struct uhsfs_order_slot *dir, const struct uhsfs_order_visitor *visitor)
{
	struct uhsfs_order_change *change;
	int ret = 0;

	list_for_each_entry(change, &dir->entries, of_parent) {
		ret = tell(visitor, dir, change->slot, change->op);
		if (ret)
			break;
	}
	return ret;
}
