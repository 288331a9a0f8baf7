// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Recovery, step 6: what is to be written, and in which order.
 *
 * Names go into directories with ancestors first.  The depth of a directory is that of
 * its parent plus one; one whose parent is not in the array, or whose name does not
 * count, starts at 1.  Each directory has one parent, so following parents either ends
 * or runs into a cycle, whose members get depth 1.  Every directory is walked over a
 * fixed number of times, so all depths take linear time.
 */
#include "recover.h"

#include "sort.h"

#define DEPTH_WALKING	U32_MAX

/* The slot of the directory that directory s is in, or UHSFS_REC_NONE. */
static u32 parent_of(const struct uhsfs_recovery *r, u32 s)
{
	u32 name = r->slots[s].up;

	return name == UHSFS_REC_NONE ? UHSFS_REC_NONE : r->names[name].parent;
}

/* A directory's own name; where damage gives it several, the newest. */
static void find_ups(struct uhsfs_recovery *r)
{
	u32 i;

	for (i = 0; i < r->name_count; i++) {
		u32 index = r->name_order[i];
		const struct uhsfs_rec_name *name = &r->names[index];
		struct uhsfs_rec_slot *owner = &r->slots[name->owner];
		u32 other = owner->up;

		if (name->fate != UHSFS_REC_KEPT || !owner->is_dir)
			continue;
		if (other == UHSFS_REC_NONE || name->name_seq > r->names[other].name_seq) {
			owner->up = index;
			index = other;
			other = owner->up;
		}
		if (index != UHSFS_REC_NONE)
			uhsfs_rec_name_event(r, UHSFS_REC_DIR_NAMES, index, 0,
					     r->names[other].name_seq);
	}
}

/* Directory s, met twice on one walk, lies on a cycle: give its members their depth. */
static void end_cycle(struct uhsfs_recovery *r, u32 s)
{
	u32 at = s;

	do {
		r->slots[at].depth = 1;
		uhsfs_rec_slot_event(r, UHSFS_REC_DIR_CYCLE, r->slots[at].ino,
				     r->slots[parent_of(r, at)].ino);
		at = parent_of(r, at);
	} while (at != s);
}

static void find_depth(struct uhsfs_recovery *r, u32 s)
{
	u32 walked = 0;
	u32 at, depth;

	for (at = s; at != UHSFS_REC_NONE && !r->slots[at].depth; at = parent_of(r, at))
		r->slots[at].depth = DEPTH_WALKING;
	if (at != UHSFS_REC_NONE && r->slots[at].depth == DEPTH_WALKING)
		end_cycle(r, at);
	depth = at == UHSFS_REC_NONE ? 0 : r->slots[at].depth;
	for (at = s; at != UHSFS_REC_NONE && r->slots[at].depth == DEPTH_WALKING;
	     at = parent_of(r, at))
		walked++;
	for (at = s; walked; at = parent_of(r, at))
		r->slots[at].depth = depth + walked--;
}

static u32 name_depth(const struct uhsfs_recovery *r, u32 name)
{
	u32 parent = r->names[name].parent;

	return parent == UHSFS_REC_NONE ? 0 : r->slots[parent].depth;
}

static int compare_depths(const void *context, u32 a, u32 b)
{
	u32 x = name_depth(context, a);
	u32 y = name_depth(context, b);

	return x < y ? -1 : x > y;
}

void uhsfs_rec_order(struct uhsfs_recovery *r)
{
	u32 count = 0;
	u32 i;

	find_ups(r);
	for (i = 0; i < r->slot_count; i++) {
		const struct uhsfs_rec_slot *slot = &r->slots[r->slot_order[i]];

		if (slot->state == UHSFS_SLOT_INODE && slot->is_dir)
			find_depth(r, r->slot_order[i]);
	}
	for (i = 0; i < r->name_count; i++) {
		if (r->names[r->name_order[i]].fate == UHSFS_REC_KEPT)
			r->name_order[count++] = r->name_order[i];
	}
	r->insert_count = count;
	uhsfs_sort(r->name_order, r->scratch, count, compare_depths, r);
}

u32 uhsfs_recover_next_slot(const struct uhsfs_recovery *r, enum uhsfs_recover_write stage,
			    u32 *cursor)
{
	while (*cursor < r->slot_count) {
		u32 s = r->slot_order[(*cursor)++];
		u8 changed = r->slots[s].changed;
		enum uhsfs_recover_write in = changed & UHSFS_REC_GAINED ? UHSFS_RECOVER_PEERS :
									   UHSFS_RECOVER_SLOTS;

		if (changed && in == stage)
			return s;
	}
	return UHSFS_REC_NONE;
}

bool uhsfs_recover_next_chunk(const struct uhsfs_recovery *r, const struct uhsfs_geometry *geo,
			      u32 *cursor, u64 *chunk, u8 *changed)
{
	if (*cursor >= r->slot_count)
		return false;
	*chunk = uhsfs_ino_chunk(geo, r->slots[r->slot_order[*cursor]].ino);
	*changed = 0;
	while (*cursor < r->slot_count) {
		const struct uhsfs_rec_slot *slot = &r->slots[r->slot_order[*cursor]];

		if (uhsfs_ino_chunk(geo, slot->ino) != *chunk)
			break;
		*changed |= slot->changed;
		++*cursor;
	}
	return true;
}

const char *uhsfs_rec_what_text(enum uhsfs_rec_what what)
{
	static const char *const texts[] = {
		[UHSFS_REC_NOTHING] = "nothing",
		[UHSFS_REC_INTENT_FINISHED] = "gains the name of an unfinished operation",
		[UHSFS_REC_INTENT_DONE] = "held the intent of a finished operation",
		[UHSFS_REC_NAME_LOST] = "loses the name to a newer claim",
		[UHSFS_REC_NAME_DROPPED] = "loses the name: its directory is gone",
		[UHSFS_REC_SLOT_FREED] = "has no name and is freed",
		[UHSFS_REC_INTENT_UNKNOWN] = "holds the intent of an unknown operation",
		[UHSFS_REC_INTENT_SELF] = "holds an intent aimed at itself",
		[UHSFS_REC_INTENT_UNREADABLE] = "holds an intent whose peer cannot be read",
		[UHSFS_REC_INTENT_PEER] = "holds an intent whose peer does not fit the operation",
		[UHSFS_REC_INTENT_UNMARKED] = "holds an unfinished intent whose peer is not marked",
		[UHSFS_REC_INTENT_CHAIN] = "holds one of several unfinished intents in a chain",
		[UHSFS_REC_INTENT_TWICE] = "holds one of several unfinished intents for one peer",
		[UHSFS_REC_SEQ_BEYOND] = "has a claim newer than the newest it ever had",
		[UHSFS_REC_SEQ_TWICE] = "claims the name as another inode does, equally new",
		[UHSFS_REC_NAME_TWICE] = "claims the name twice",
		[UHSFS_REC_PARENT_UNREADABLE] = "keeps the name in a directory that cannot be read",
		[UHSFS_REC_PARENT_NOT_DIR] = "keeps the name in what is not a directory",
		[UHSFS_REC_PARENT_ROOT] = "keeps the name in an unusable root",
		[UHSFS_REC_ROOT_NAMED] = "is the root and claims a name",
		[UHSFS_REC_ROOT_BAD] = "is the root, but not a directory in use",
		[UHSFS_REC_DIR_NAMES] = "is a directory with another, newer name",
		[UHSFS_REC_DIR_CYCLE] = "is a directory that lies within itself",
		[UHSFS_REC_NAMELESS_KEPT] = "has no name, but is kept because of damage",
	};

	static_assert(ARRAY_SIZE(texts) == UHSFS_REC_WHATS);
	return (unsigned int)what < ARRAY_SIZE(texts) ? texts[what] : "unknown";
}

const char *uhsfs_recover_write_text(enum uhsfs_recover_write stage)
{
	static const char *const texts[] = {
		[UHSFS_RECOVER_MAPS] = "intent and suspect maps",
		[UHSFS_RECOVER_PEERS] = "slots that gain a name",
		[UHSFS_RECOVER_SLOTS] = "other slots",
		[UHSFS_RECOVER_NEW_BUCKETS] = "new buckets",
		[UHSFS_RECOVER_DIRECTORIES] = "slots of directories",
		[UHSFS_RECOVER_OLD_BUCKETS] = "old buckets",
		[UHSFS_RECOVER_SPACE] = "bitmaps, chunk descriptors and quota",
		[UHSFS_RECOVER_SUPER] = "superblock",
	};

	static_assert(ARRAY_SIZE(texts) == UHSFS_RECOVER_WRITES);
	return (unsigned int)stage < ARRAY_SIZE(texts) ? texts[stage] : "unknown";
}
