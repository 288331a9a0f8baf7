// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Recovery, steps 2 to 5: from what slots claim to which claims hold.
 *
 * Slots are sorted by inode number, names by {parent, name, newest claim first}.  In the
 * order of names the claims to one name stand together, so step 3 is one pass; the names
 * of one directory stand together, so step 4 looks up each directory once.  Step 5 is a
 * queue: a freed slot drops the names in it, whose slots may be freed in turn.  A slot
 * enters the queue once and a name is dropped once, so it ends, and linearly, whatever
 * shape the directories have; a cycle never enters it.
 *
 * WHY THE RESULT IS FINAL.  Steps 3 to 5 only take claims away, by a rule that looks at
 * what is left: applying them to their own result takes nothing.  Step 2 decides on a
 * peer by the newest name_seq it ever had, which finishing raises to the intent's.  Of
 * the intents aimed at one peer only the newest can be unfinished (R8 finishes one
 * before the next begins), so only that one is acted on.  Where it cannot be finished,
 * nothing about its two slots is freed that could change this judgement next time.
 *
 * WHY A CUT BETWEEN THE WRITES DOES NO HARM.  Any subset of the slots that change may be
 * on disk: a claim is taken away in favour of one that stays or because of a directory
 * that is FREE or nameless, before and after the write alike.  Only an intent must not
 * go before its peer is durable.  Peers are therefore written first, and a chain (the
 * peer holds an unfinished intent itself), for which there is no such order, is damage.
 * One thing more is left to damage: where claims of directories lead in a circle, which
 * R6 excludes, a directory can lose its name to one below itself, so that both are
 * freed; a cut in between may leave one of them, which is then kept as a cycle.
 */
#include "recover.h"

#include "sort.h"

/* ---- events ---------------------------------------------------------------- */

static void report(struct uhsfs_recovery *r, const struct uhsfs_rec_event *event)
{
	r->events[event->what]++;
	if (event->what >= UHSFS_REC_DAMAGE)
		r->damage++;
	if (r->event)
		r->event(r->context, event);
}

void uhsfs_rec_slot_event(struct uhsfs_recovery *r, enum uhsfs_rec_what what, u64 ino, u64 against)
{
	const struct uhsfs_rec_event event = { .what = what, .ino = ino, .against = against };

	report(r, &event);
}

void uhsfs_rec_name_event(struct uhsfs_recovery *r, enum uhsfs_rec_what what, u32 name,
			  u64 against, u64 other_seq)
{
	const struct uhsfs_rec_name *n = &r->names[name];
	const struct uhsfs_rec_event event = {
		.what = what,
		.ino = r->slots[n->owner].ino,
		.against = against,
		.name_seq = n->name_seq,
		.other_seq = other_seq,
		.parent_ino = n->parent_ino,
		.parent_gen = n->parent_gen,
		.name = n->name,
		.len = n->len,
	};

	report(r, &event);
}

/* ino: of whom it is told, the peer for FINISHED, else the holder. */
static void intent_event(struct uhsfs_recovery *r, enum uhsfs_rec_what what,
			 const struct uhsfs_rec_intent *intent, u64 other_seq)
{
	u64 holder = r->slots[intent->holder].ino;
	bool gains = what == UHSFS_REC_INTENT_FINISHED;
	const struct uhsfs_rec_event event = {
		.what = what,
		.ino = gains ? intent->peer_ino : holder,
		.against = gains ? holder : intent->peer_ino,
		.name_seq = intent->name_seq,
		.other_seq = other_seq,
		.parent_ino = intent->parent_ino,
		.parent_gen = intent->parent_gen,
		.name = intent->name,
		.len = intent->len,
	};

	report(r, &event);
}

/* ---- orders and look-up ----------------------------------------------------- */

static int compare_u64(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

static int compare_slots(const void *context, u32 a, u32 b)
{
	const struct uhsfs_recovery *r = context;

	return compare_u64(r->slots[a].ino, r->slots[b].ino);
}

static int compare_key(const struct uhsfs_rec_name *a, const struct uhsfs_rec_name *b)
{
	int order = compare_u64(a->parent_ino, b->parent_ino);

	if (!order)
		order = compare_u64(a->parent_gen, b->parent_gen);
	if (!order)
		order = memcmp(a->name, b->name, min_t(u8, a->len, b->len));
	return order ? order : (int)a->len - (int)b->len;
}

/* By name, then newest claim first, then the lower inode number's, then as in the slot. */
static int compare_names(const void *context, u32 a, u32 b)
{
	const struct uhsfs_recovery *r = context;
	const struct uhsfs_rec_name *x = &r->names[a];
	const struct uhsfs_rec_name *y = &r->names[b];
	int order = compare_key(x, y);

	if (!order)
		order = compare_u64(y->name_seq, x->name_seq);
	if (!order)
		order = compare_u64(r->slots[x->owner].ino, r->slots[y->owner].ino);
	return order ? order : compare_u64(a, b);
}

/* By peer, then newest first. */
static int compare_intents(const void *context, u32 a, u32 b)
{
	const struct uhsfs_recovery *r = context;
	const struct uhsfs_rec_intent *x = &r->intents[a];
	const struct uhsfs_rec_intent *y = &r->intents[b];
	int order = compare_u64(x->peer_ino, y->peer_ino);

	if (!order)
		order = compare_u64(y->name_seq, x->name_seq);
	return order ? order : compare_u64(r->slots[x->holder].ino, r->slots[y->holder].ino);
}

static void sort_indexes(struct uhsfs_recovery *r, u32 *order, u32 count,
			 int (*compare)(const void *context, u32 a, u32 b))
{
	u32 i;

	for (i = 0; i < count; i++)
		order[i] = i;
	uhsfs_sort(order, r->scratch, count, compare, r);
}

/* Index of slot `ino`, or UHSFS_REC_NONE.  Needs slot_order. */
static u32 find_slot(const struct uhsfs_recovery *r, u64 ino)
{
	u32 low = 0;
	u32 high = r->slot_count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (r->slots[r->slot_order[middle]].ino < ino)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == r->slot_count || r->slots[r->slot_order[low]].ino != ino)
		return UHSFS_REC_NONE;
	return r->slot_order[low];
}

/* Slot `ino`, wherever it is.  *index: its place in the array or UHSFS_REC_NONE. */
static int describe_slot(struct uhsfs_recovery *r, u64 ino, u32 *index,
			 struct uhsfs_rec_outside *slot)
{
	*index = find_slot(r, ino);
	memset(slot, 0, sizeof(*slot));
	if (*index == UHSFS_REC_NONE)
		return r->outside(r->context, ino, slot);
	slot->name_seq_max = r->slots[*index].name_seq_max;
	slot->generation = r->slots[*index].generation;
	slot->state = r->slots[*index].state;
	slot->is_dir = r->slots[*index].is_dir;
	return 0;
}

/* ---- what the caller hands over ---------------------------------------------- */

/* Every name belongs to the slot that counts it, every slot with names is an inode. */
static int check_input(struct uhsfs_recovery *r)
{
	u64 names = 0;
	u32 i, j;

	if (r->slot_count > UHSFS_REC_MAX || r->name_room > UHSFS_REC_MAX)
		return -E2BIG;
	if ((u64)r->name_count + r->intent_count > r->name_room)
		return -EINVAL;
	for (i = 0; i < r->slot_count; i++) {
		const struct uhsfs_rec_slot *slot = &r->slots[i];

		if (slot->names && slot->state != UHSFS_SLOT_INODE)
			return -EINVAL;
		if ((u64)slot->first_name + slot->names > r->name_count)
			return -EINVAL;
		for (j = 0; j < slot->names; j++) {
			const struct uhsfs_rec_name *name = &r->names[slot->first_name + j];

			if (name->owner != i || !name->name || !name->len)
				return -EINVAL;
		}
		names += slot->names;
	}
	if (names != r->name_count)
		return -EINVAL;
	for (i = 0; i < r->intent_count; i++) {
		const struct uhsfs_rec_intent *intent = &r->intents[i];

		if (intent->holder >= r->slot_count || !intent->name || !intent->len)
			return -EINVAL;
		if (r->slots[intent->holder].state != UHSFS_SLOT_INODE)
			return -EINVAL;
	}
	return 0;
}

/* The outputs start clean; the newest name_seq of a slot is that of its names at least. */
static void prepare_slot(struct uhsfs_recovery *r, u32 s)
{
	struct uhsfs_rec_slot *slot = &r->slots[s];
	u64 newest = slot->name_seq_max;
	u32 i;

	slot->changed = 0;
	slot->gained = UHSFS_REC_NONE;
	slot->live = slot->names;
	slot->children = UHSFS_REC_NONE;
	slot->up = UHSFS_REC_NONE;
	slot->depth = 0;
	slot->holds = false;
	slot->aimed = false;
	slot->pinned = false;
	for (i = slot->first_name; i < slot->first_name + slot->names; i++) {
		struct uhsfs_rec_name *name = &r->names[i];

		name->fate = UHSFS_REC_KEPT;
		name->by = UHSFS_REC_NONE;
		name->parent = UHSFS_REC_NONE;
		if (name->name_seq > slot->name_seq_max)
			uhsfs_rec_name_event(r, UHSFS_REC_SEQ_BEYOND, i, 0, slot->name_seq_max);
		newest = max_t(u64, newest, name->name_seq);
		if (slot->ino == UHSFS_INO_ROOT) {
			name->fate = UHSFS_REC_HELD;
			uhsfs_rec_name_event(r, UHSFS_REC_ROOT_NAMED, i, 0, 0);
		}
	}
	slot->name_seq_max = newest;
}

static int prepare(struct uhsfs_recovery *r)
{
	u32 i;

	r->insert_count = 0;
	r->damage = 0;
	memset(r->events, 0, sizeof(r->events));
	sort_indexes(r, r->slot_order, r->slot_count, compare_slots);
	for (i = 1; i < r->slot_count; i++) {
		if (r->slots[r->slot_order[i - 1]].ino == r->slots[r->slot_order[i]].ino)
			return -EINVAL;
	}
	r->root = find_slot(r, UHSFS_INO_ROOT);
	for (i = 0; i < r->slot_count; i++)
		prepare_slot(r, r->slot_order[i]);
	return 0;
}

/* ---- step 2: intents ---------------------------------------------------------- */

/* What is to be done about the newest intent aimed at a peer. */
static enum uhsfs_rec_what judge_intent(const struct uhsfs_recovery *r,
					const struct uhsfs_rec_intent *intent, u32 peer,
					const struct uhsfs_rec_outside *slot)
{
	bool whiteout = intent->op == UHSFS_INTENT_WHITEOUT;

	if (!whiteout && intent->op != UHSFS_INTENT_EXCHANGE)
		return UHSFS_REC_INTENT_UNKNOWN;
	if (r->slots[intent->holder].ino == intent->peer_ino)
		return UHSFS_REC_INTENT_SELF;
	if (slot->state != UHSFS_SLOT_FREE && slot->state != UHSFS_SLOT_INODE)
		return UHSFS_REC_INTENT_UNREADABLE;
	if (slot->name_seq_max >= intent->name_seq)
		return UHSFS_REC_INTENT_DONE;
	if (peer == UHSFS_REC_NONE)
		return UHSFS_REC_INTENT_UNMARKED;
	if (intent->peer_ino == UHSFS_INO_ROOT)
		return UHSFS_REC_INTENT_PEER;
	if (whiteout)
		return slot->state == UHSFS_SLOT_FREE ? UHSFS_REC_INTENT_FINISHED :
							UHSFS_REC_INTENT_PEER;
	if (slot->state == UHSFS_SLOT_INODE && slot->generation == intent->peer_gen)
		return UHSFS_REC_INTENT_FINISHED;
	return UHSFS_REC_INTENT_PEER;
}

static void finish_intent(struct uhsfs_recovery *r, const struct uhsfs_rec_intent *intent, u32 peer)
{
	struct uhsfs_rec_slot *slot = &r->slots[peer];
	u32 name = r->name_count++;

	intent_event(r, UHSFS_REC_INTENT_FINISHED, intent, slot->name_seq_max);
	memset(&r->names[name], 0, sizeof(r->names[name]));
	r->names[name].parent_ino = intent->parent_ino;
	r->names[name].parent_gen = intent->parent_gen;
	r->names[name].name_seq = intent->name_seq;
	r->names[name].name = intent->name;
	r->names[name].len = intent->len;
	r->names[name].owner = peer;
	r->names[name].by = UHSFS_REC_NONE;
	r->names[name].parent = UHSFS_REC_NONE;
	slot->name_seq_max = intent->name_seq;
	slot->gained = name;
	slot->live++;
	slot->changed |= UHSFS_REC_GAINED;
	if (intent->op == UHSFS_INTENT_WHITEOUT) {
		slot->changed |= UHSFS_REC_MADE;
		slot->state = UHSFS_SLOT_INODE;
		slot->generation = intent->peer_gen;
		slot->is_dir = false;
	}
}

/* Carry out a judgement.  newest: name_seq that stands against the intent. */
static void settle_intent(struct uhsfs_recovery *r, enum uhsfs_rec_what what, bool keep,
			  const struct uhsfs_rec_intent *intent, u32 peer, u64 newest)
{
	if (what == UHSFS_REC_INTENT_FINISHED)
		finish_intent(r, intent, peer);
	else if (what == UHSFS_REC_INTENT_UNKNOWN)
		intent_event(r, what, intent, intent->op);
	else
		intent_event(r, what, intent, newest);
	if (!keep) {
		r->slots[intent->holder].changed |= UHSFS_REC_INTENT_GONE;
		return;
	}
	r->slots[intent->holder].pinned = true;
	if (peer != UHSFS_REC_NONE)
		r->slots[peer].pinned = true;
}

/* The intents order[0 .. count) are all that are aimed at one peer, the newest first. */
static int settle_peer(struct uhsfs_recovery *r, const u32 *order, u32 count)
{
	const struct uhsfs_rec_intent *first = &r->intents[order[0]];
	struct uhsfs_rec_outside slot;
	enum uhsfs_rec_what what;
	u32 peer, i;
	bool keep;
	int err;

	err = describe_slot(r, first->peer_ino, &peer, &slot);
	if (err)
		return err;
	what = judge_intent(r, first, peer, &slot);
	if (what == UHSFS_REC_INTENT_FINISHED &&
	    (r->slots[first->holder].aimed || r->slots[peer].holds))
		what = UHSFS_REC_INTENT_CHAIN;
	keep = what >= UHSFS_REC_DAMAGE;
	settle_intent(r, what, keep, first, peer, slot.name_seq_max);

	for (i = 1; i < count; i++) {
		const struct uhsfs_rec_intent *older = &r->intents[order[i]];

		what = judge_intent(r, older, peer, &slot);
		if (what == UHSFS_REC_INTENT_DONE)
			settle_intent(r, what, false, older, peer, slot.name_seq_max);
		else if (what == UHSFS_REC_INTENT_UNKNOWN || what == UHSFS_REC_INTENT_SELF)
			settle_intent(r, what, true, older, peer, slot.name_seq_max);
		else
			settle_intent(r, UHSFS_REC_INTENT_TWICE, keep, older, peer,
				      first->name_seq);
	}
	return 0;
}

/* Note at both slots that this intent would be finished, so that chains are seen. */
static int note_unfinished(struct uhsfs_recovery *r, u32 intent)
{
	const struct uhsfs_rec_intent *first = &r->intents[intent];
	struct uhsfs_rec_outside slot;
	u32 peer;
	int err;

	if (find_slot(r, first->peer_ino) == UHSFS_REC_NONE)
		return 0;
	err = describe_slot(r, first->peer_ino, &peer, &slot);
	if (!err && judge_intent(r, first, peer, &slot) == UHSFS_REC_INTENT_FINISHED) {
		r->slots[first->holder].holds = true;
		r->slots[peer].aimed = true;
	}
	return err;
}

static int finish_intents(struct uhsfs_recovery *r)
{
	u32 *order = r->name_order;
	u32 start, end;
	int err = 0;

	sort_indexes(r, order, r->intent_count, compare_intents);
	for (start = 0; !err && start < r->intent_count; start++) {
		if (!start || r->intents[order[start]].peer_ino !=
			      r->intents[order[start - 1]].peer_ino)
			err = note_unfinished(r, order[start]);
	}
	for (start = 0; !err && start < r->intent_count; start = end) {
		u64 peer_ino = r->intents[order[start]].peer_ino;

		for (end = start + 1; end < r->intent_count; end++) {
			if (r->intents[order[end]].peer_ino != peer_ino)
				break;
		}
		err = settle_peer(r, order + start, end - start);
	}
	return err;
}

/* ---- step 3: who holds a name -------------------------------------------------- */

static bool is_claim(const struct uhsfs_recovery *r, const struct uhsfs_rec_name *name)
{
	return name->fate <= UHSFS_REC_HELD && r->slots[name->owner].ino != UHSFS_INO_ROOT;
}

static void take_away(struct uhsfs_recovery *r, struct uhsfs_rec_name *name, u8 fate, u32 by)
{
	struct uhsfs_rec_slot *owner = &r->slots[name->owner];

	name->fate = fate;
	name->by = by;
	owner->live--;
	owner->changed |= UHSFS_REC_LESS_NAMES;
}

/* The claims order[0 .. count) are all to one name, the newest first. */
static void settle_name(struct uhsfs_recovery *r, const u32 *order, u32 count)
{
	u32 holder = UHSFS_REC_NONE;
	u32 last = UHSFS_REC_NONE;	/* newest claim, of the highest inode number so far */
	u32 i;

	for (i = 0; i < count; i++) {
		struct uhsfs_rec_name *name = &r->names[order[i]];
		const struct uhsfs_rec_name *first;
		u64 first_ino;

		if (!is_claim(r, name))
			continue;
		if (holder == UHSFS_REC_NONE) {
			holder = last = order[i];
			continue;
		}
		first = &r->names[holder];
		first_ino = r->slots[first->owner].ino;
		if (name->owner == first->owner) {
			if (r->slots[first->owner].gained != holder)
				uhsfs_rec_name_event(r, UHSFS_REC_NAME_TWICE, order[i], 0,
						     first->name_seq);
			take_away(r, name, UHSFS_REC_LOST, holder);
		} else if (name->name_seq < first->name_seq) {
			uhsfs_rec_name_event(r, UHSFS_REC_NAME_LOST, order[i], first_ino,
					     first->name_seq);
			take_away(r, name, UHSFS_REC_LOST, holder);
		} else if (name->owner == r->names[last].owner) {
			uhsfs_rec_name_event(r, UHSFS_REC_NAME_TWICE, order[i], 0, name->name_seq);
			take_away(r, name, UHSFS_REC_LOST, last);
		} else {
			uhsfs_rec_name_event(r, UHSFS_REC_SEQ_TWICE, order[i], first_ino,
					     first->name_seq);
			name->fate = UHSFS_REC_HELD;
			last = order[i];
		}
	}
}

static void settle_names(struct uhsfs_recovery *r)
{
	u32 start, end;

	sort_indexes(r, r->name_order, r->name_count, compare_names);
	for (start = 0; start < r->name_count; start = end) {
		const struct uhsfs_rec_name *first = &r->names[r->name_order[start]];

		for (end = start + 1; end < r->name_count; end++) {
			if (compare_key(first, &r->names[r->name_order[end]]))
				break;
		}
		settle_name(r, r->name_order + start, end - start);
	}
}

/* ---- step 4: names and their directories ---------------------------------------- */

/* What names in {slot, generation} come to; NOTHING: they stay. */
static enum uhsfs_rec_what judge_parent(u64 ino, u32 generation,
					const struct uhsfs_rec_outside *slot)
{
	bool inode = slot->state == UHSFS_SLOT_INODE;

	if (!inode && slot->state != UHSFS_SLOT_FREE)
		return UHSFS_REC_PARENT_UNREADABLE;
	if (inode && slot->is_dir && slot->generation == generation)
		return UHSFS_REC_NOTHING;
	if (ino == UHSFS_INO_ROOT)
		return UHSFS_REC_PARENT_ROOT;
	if (inode && slot->generation == generation)
		return UHSFS_REC_PARENT_NOT_DIR;
	return UHSFS_REC_NAME_DROPPED;
}

/* Names order[start .. end) are all that are in one {slot, generation}. */
static void judge_names(struct uhsfs_recovery *r, u32 start, u32 end, u32 parent,
			const struct uhsfs_rec_outside *slot)
{
	const struct uhsfs_rec_name *first = &r->names[r->name_order[start]];
	enum uhsfs_rec_what what = judge_parent(first->parent_ino, first->parent_gen, slot);
	u32 i;

	if (parent != UHSFS_REC_NONE && slot->generation == first->parent_gen)
		r->slots[parent].children = start;
	for (i = start; i < end; i++) {
		u32 index = r->name_order[i];
		struct uhsfs_rec_name *name = &r->names[index];

		name->parent = parent;
		if (what == UHSFS_REC_NOTHING || !is_claim(r, name))
			continue;
		uhsfs_rec_name_event(r, what, index, name->parent_ino, 0);
		if (what == UHSFS_REC_NAME_DROPPED)
			take_away(r, name, UHSFS_REC_DROPPED, UHSFS_REC_NONE);
		else
			name->fate = UHSFS_REC_HELD;
	}
}

static int judge_parents(struct uhsfs_recovery *r)
{
	struct uhsfs_rec_outside slot;
	u32 parent = UHSFS_REC_NONE;
	u32 start, end;
	u64 ino = 0;

	for (start = 0; start < r->name_count; start = end) {
		const struct uhsfs_rec_name *first = &r->names[r->name_order[start]];

		if (!start || first->parent_ino != ino) {
			int err;

			ino = first->parent_ino;
			err = describe_slot(r, ino, &parent, &slot);
			if (err)
				return err;
		}
		for (end = start + 1; end < r->name_count; end++) {
			const struct uhsfs_rec_name *name = &r->names[r->name_order[end]];

			if (name->parent_ino != ino || name->parent_gen != first->parent_gen)
				break;
		}
		judge_names(r, start, end, parent, &slot);
	}
	return 0;
}

/* ---- step 5: slots without a name ------------------------------------------------ */

/* True if the slot is freed now. */
static bool free_if_nameless(struct uhsfs_recovery *r, u32 s)
{
	struct uhsfs_rec_slot *slot = &r->slots[s];

	if (slot->state != UHSFS_SLOT_INODE || slot->live || slot->ino == UHSFS_INO_ROOT)
		return false;
	if (slot->pinned || slot->partial) {
		uhsfs_rec_slot_event(r, UHSFS_REC_NAMELESS_KEPT, slot->ino, 0);
		return false;
	}
	uhsfs_rec_slot_event(r, UHSFS_REC_SLOT_FREED, slot->ino, 0);
	slot->state = UHSFS_SLOT_FREE;
	slot->changed |= UHSFS_REC_FREED;
	return true;
}

/* Drop what is in a freed slot; slots that this frees join the queue.  Its new end. */
static u32 empty_slot(struct uhsfs_recovery *r, u32 s, u32 *queue, u32 end)
{
	const struct uhsfs_rec_slot *slot = &r->slots[s];
	u32 i;

	if (slot->children == UHSFS_REC_NONE)
		return end;
	for (i = slot->children; i < r->name_count; i++) {
		u32 index = r->name_order[i];
		struct uhsfs_rec_name *name = &r->names[index];

		if (name->parent_ino != slot->ino || name->parent_gen != slot->generation)
			break;
		if (!is_claim(r, name))
			continue;
		uhsfs_rec_name_event(r, UHSFS_REC_NAME_DROPPED, index, slot->ino, 0);
		take_away(r, name, UHSFS_REC_DROPPED, UHSFS_REC_NONE);
		if (free_if_nameless(r, name->owner))
			queue[end++] = name->owner;
	}
	return end;
}

static void free_nameless(struct uhsfs_recovery *r)
{
	u32 *queue = r->scratch;
	u32 end = 0;
	u32 i;

	for (i = 0; i < r->slot_count; i++) {
		if (free_if_nameless(r, r->slot_order[i]))
			queue[end++] = r->slot_order[i];
	}
	for (i = 0; i < end; i++)
		end = empty_slot(r, queue[i], queue, end);
}

/* ---- all ------------------------------------------------------------------------- */

int uhsfs_recover(struct uhsfs_recovery *r)
{
	int err = check_input(r);

	if (!err)
		err = prepare(r);
	if (!err)
		err = finish_intents(r);
	if (err)
		return err;
	if (r->root != UHSFS_REC_NONE) {
		const struct uhsfs_rec_slot *root = &r->slots[r->root];

		if (root->state == UHSFS_SLOT_FREE ||
		    (root->state == UHSFS_SLOT_INODE && !root->is_dir))
			uhsfs_rec_slot_event(r, UHSFS_REC_ROOT_BAD, root->ino, 0);
	}
	settle_names(r);
	err = judge_parents(r);
	if (err)
		return err;
	free_nameless(r);
	uhsfs_rec_order(r);
	return 0;
}
