/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Recovery: what a mount makes of the slots that may have changed since the last
 * checkpoint.
 *
 * The caller reads every slot of the chunks marked in intent maps newer than the
 * superblock's epoch (step 1) and hands over what they say of themselves: state, names,
 * intents.  uhsfs_recover() decides in memory, without I/O and without allocation:
 *
 *  2. intents whose peer is older give the peer its name;
 *  3. of several claims to a name the one with the highest name_seq holds;
 *  4. names whose parent slot is validly FREE or of another generation are dropped;
 *  5. slots without a name are freed, and 4 and 5 repeat until nothing changes;
 *  6. what is to be inserted into directories, which slots change, which chunks become
 *     suspect.
 *
 * It changes nothing on disk: a check reports what a mount would do, a mount does it in
 * the order of enum uhsfs_recover_write.  Bitmaps, slot-in-use maps and checkpoint are
 * the caller's.  The result depends on the set of slots only, not on their order, and on
 * its own result recovery changes nothing.  A sort of millions of names takes seconds
 * without a pause: call it where that is allowed.
 *
 * DAMAGE.  Whatever the rules of the commit protocol make impossible is damage: it is
 * reported, and what is in doubt is kept as it stands, never dropped or freed.
 *
 *  parent unreadable            its names stay in their slots, not inserted
 *  parent is not a directory    the same
 *  root unusable                (FREE, not a directory, or another generation than the
 *                               name says) as an unreadable parent
 *  root claims names            they count for nothing and are left alone
 *  two inodes, one name_seq     both keep the name; the lower inode number's is inserted
 *  one inode, one name twice    the older claim goes, the inode keeps its name
 *  directory with two names     both stay; the newer one decides the order of insertion
 *  cycle of directories         (a directory in itself included) stays as it is
 *  intent that cannot be        (unknown operation, aimed at itself, peer unreadable, of
 *  finished                     another generation, not of the kind the operation needs,
 *                               or older though unmarked, against R0) it stays, and
 *                               neither of its two slots is freed
 *  unfinished intents in a      (the peer of one holds another) the same
 *  chain
 *  two unfinished intents for   the newer one is finished, for R8 has the older one done;
 *  one peer                     of the same name_seq, the lower inode number's
 *  names unreadable in part     the slot is not freed
 *  name_seq beyond the newest   the newest of its names counts
 *  one the slot had
 */
#ifndef UHSFS_RECOVER_H
#define UHSFS_RECOVER_H

#include "geometry.h"

UHSFS_BEGIN_DECLS

#define UHSFS_REC_NONE		U32_MAX		/* no such index */
#define UHSFS_REC_MAX		(1U << 30)	/* most slots, and most names */

/* State of a slot, beside UHSFS_SLOT_FREE and UHSFS_SLOT_INODE. */
#define UHSFS_REC_UNREADABLE	0

/* What becomes of a slot (uhsfs_rec_slot.changed). */
#define UHSFS_REC_GAINED	0x01	/* has the name `gained`: an intent was finished */
#define UHSFS_REC_MADE		0x02	/* with it: was FREE, becomes a whiteout */
#define UHSFS_REC_LESS_NAMES	0x04	/* names with fate LOST or DROPPED leave it */
#define UHSFS_REC_FREED		0x08	/* becomes FREE */
#define UHSFS_REC_INTENT_GONE	0x10	/* its intent leaves it */

/* What becomes of a name (uhsfs_rec_name.fate). */
#define UHSFS_REC_KEPT		0	/* stays; is to be found in its directory */
#define UHSFS_REC_HELD		1	/* stays because of damage; not inserted */
#define UHSFS_REC_LOST		2	/* leaves the slot: name `by` holds it */
#define UHSFS_REC_DROPPED	3	/* leaves the slot: its directory is gone */

/*
 * A slot that was read, FREE ones too; one never written in a new chunk counts as FREE
 * with name_seq_max 0.  Every ino stands in the array once.
 */
struct uhsfs_rec_slot {
	u64 ino;
	u64 name_seq_max;	/* in, out: the newest it ever had */
	u32 generation;		/* in; out with MADE */
	u8 state;		/* in; out with FREED and MADE */
	bool is_dir;
	bool partial;		/* in: some of its names could not be read */
	u8 changed;		/* out: UHSFS_REC_GAINED ... */
	u32 first_name;		/* in: its names are names[first_name .. first_name + names) */
	u32 names;		/* in */
	u32 gained;		/* out: the one name it gains, or UHSFS_REC_NONE */

	/* Recovery's own. */
	u32 live;		/* names that stay */
	u32 children;		/* where claims in this directory start in the order of names */
	u32 up;			/* a directory's own name */
	u32 depth;		/* of a directory, from 1 */
	bool holds;		/* an intent that could be finished */
	bool aimed;		/* it is the peer of one */
	bool pinned;		/* by an intent in doubt */
};

/* A claim to a name.  The bytes stay the caller's. */
struct uhsfs_rec_name {
	u64 parent_ino;
	u64 name_seq;
	const u8 *name;		/* at least one byte, no matter which */
	u32 parent_gen;
	u32 owner;		/* index of its slot */
	u32 by;			/* out, LOST: the name that holds it */
	u32 parent;		/* out: index of the parent's slot, or UHSFS_REC_NONE */
	u8 len;			/* of name */
	u8 fate;		/* out: UHSFS_REC_KEPT ... */
};

/* An intent: slot `holder` says that `peer` is to have this name. */
struct uhsfs_rec_intent {
	u64 peer_ino;
	u64 parent_ino;
	u64 name_seq;
	const u8 *name;
	u32 peer_gen;
	u32 parent_gen;
	u32 holder;		/* index of its slot; each slot has one intent at most */
	u8 op;			/* UHSFS_INTENT_... */
	u8 len;			/* of name */
};

/* A slot that is not in the array. */
struct uhsfs_rec_outside {
	u64 name_seq_max;
	u32 generation;
	u8 state;		/* UHSFS_SLOT_... or UHSFS_REC_UNREADABLE */
	bool is_dir;
};

/* What recovery finds and decides.  From UHSFS_REC_DAMAGE on it is damage. */
enum uhsfs_rec_what {
	UHSFS_REC_NOTHING,
	UHSFS_REC_INTENT_FINISHED,	/* ino gains name, as slot `against` says */
	UHSFS_REC_INTENT_DONE,		/* ino's intent was finished before, by `against` */
	UHSFS_REC_NAME_LOST,		/* ino loses name to `against` */
	UHSFS_REC_NAME_DROPPED,		/* ino loses name: the directory `against` is gone */
	UHSFS_REC_SLOT_FREED,		/* ino has no name */

	UHSFS_REC_DAMAGE,
	UHSFS_REC_INTENT_UNKNOWN = UHSFS_REC_DAMAGE,	/* operation other_seq */
	UHSFS_REC_INTENT_SELF,		/* ino's intent is aimed at itself */
	UHSFS_REC_INTENT_UNREADABLE,	/* its peer `against` cannot be read */
	UHSFS_REC_INTENT_PEER,		/* its peer cannot be what the operation needs */
	UHSFS_REC_INTENT_UNMARKED,	/* its peer is older, but not marked as in flight */
	UHSFS_REC_INTENT_CHAIN,		/* it and another unfinished intent share a slot */
	UHSFS_REC_INTENT_TWICE,		/* another unfinished intent has the same peer */
	UHSFS_REC_SEQ_BEYOND,		/* name_seq beyond other_seq, the slot's newest */
	UHSFS_REC_SEQ_TWICE,		/* name_seq of the same name in `against` */
	UHSFS_REC_NAME_TWICE,		/* ino claims name twice */
	UHSFS_REC_PARENT_UNREADABLE,	/* `against`; name kept */
	UHSFS_REC_PARENT_NOT_DIR,	/* `against`; name kept */
	UHSFS_REC_PARENT_ROOT,		/* `against` is the root, but not one to rely on */
	UHSFS_REC_ROOT_NAMED,		/* the root claims name */
	UHSFS_REC_ROOT_BAD,		/* the root is FREE or no directory */
	UHSFS_REC_DIR_NAMES,		/* directory ino has another name beside the newer one */
	UHSFS_REC_DIR_CYCLE,		/* directory ino lies within itself */
	UHSFS_REC_NAMELESS_KEPT,	/* ino has no name left, but is in doubt */
	UHSFS_REC_WHATS
};

struct uhsfs_rec_event {
	enum uhsfs_rec_what what;
	u64 ino;
	u64 against;		/* another inode, 0: none */
	u64 name_seq;		/* of ino's claim or intent */
	u64 other_seq;		/* of what stands against it */
	u64 parent_ino;		/* of the name */
	const u8 *name;		/* NULL: not about a name */
	u32 parent_gen;
	u8 len;
};

struct uhsfs_recovery {
	struct uhsfs_rec_slot *slots;
	struct uhsfs_rec_name *names;
	const struct uhsfs_rec_intent *intents;
	u32 slot_count;
	u32 name_count;		/* in, out: finished intents add names at the end */
	u32 name_room;		/* elements of names[], >= name_count + intent_count */
	u32 intent_count;

	u32 *slot_order;	/* slot_count elements; out: by ino */
	u32 *name_order;	/* name_room; out: insert_count names to insert */
	u32 *scratch;		/* the larger of both */

	/*
	 * Describe slot `ino`, which is not in the array; asked once per directory and
	 * intent.  A number beyond all chunks is unreadable.  Not 0: ends recovery.
	 */
	int (*outside)(void *context, u64 ino, struct uhsfs_rec_outside *slot);
	/* Take notice; may be NULL.  In an order that depends on the slots alone. */
	void (*event)(void *context, const struct uhsfs_rec_event *event);
	void *context;

	/* Out. */
	u32 insert_count;
	u32 root;		/* index of the root's slot, or UHSFS_REC_NONE */
	u64 events[UHSFS_REC_WHATS];	/* how often each */
	u64 damage;		/* all from UHSFS_REC_DAMAGE on */
};

/*
 * Steps 2 to 6, O(n log n).  Returns 0, also where damage was found; -EINVAL or -E2BIG:
 * the arrays contradict each other or are too large; any error of outside().  After an
 * error what the arrays say is no decision.
 *
 * Out: slots[].changed and what it names; names[].fate, .by and .parent;
 * name_order[0 .. insert_count): the names that must stand in their directories (insert
 * those that do not, by find-or-insert), a directory of the array before what is in it
 * (except within cycles), those of one directory together.
 */
int uhsfs_recover(struct uhsfs_recovery *r);

/*
 * The order in which a mount writes; everything of one kind is durable before the next
 * begins, and the superblock ends recovery.  Until then nothing but these writes may
 * happen, so that a cut anywhere leaves input with the same result.
 */
enum uhsfs_recover_write {
	UHSFS_RECOVER_MAPS,		/* intent bits of what is written below, suspect bits */
	UHSFS_RECOVER_PEERS,		/* slots that gain a name */
	UHSFS_RECOVER_SLOTS,		/* others: an intent goes after its peer is durable */
	UHSFS_RECOVER_NEW_BUCKETS,	/* blocks that directories did not have */
	UHSFS_RECOVER_DIRECTORIES,	/* slots of directories that have grown */
	UHSFS_RECOVER_OLD_BUCKETS,
	UHSFS_RECOVER_SPACE,		/* bitmaps, chunk descriptors, quota */
	UHSFS_RECOVER_SUPER,		/* {newest live epoch}, FUA */
	UHSFS_RECOVER_WRITES
};

/*
 * Indexes of the slots to write as PEERS or as SLOTS, by ino: start with *cursor = 0;
 * UHSFS_REC_NONE after the last.  A slot block is written once in each stage that has
 * one of its slots, the others as they stand on disk at that time (so a block with slots
 * of both stages is written twice).
 */
u32 uhsfs_recover_next_slot(const struct uhsfs_recovery *r, enum uhsfs_recover_write stage,
			    u32 *cursor);

/*
 * The chunks of all slots, by number: each becomes suspect.  *changed: what becomes of
 * its slots; not 0: its intent bit must be set.  False after the last.
 */
bool uhsfs_recover_next_chunk(const struct uhsfs_recovery *r, const struct uhsfs_geometry *geo,
			      u32 *cursor, u64 *chunk, u8 *changed);

/* A few words each; never NULL. */
const char *uhsfs_rec_what_text(enum uhsfs_rec_what what);
const char *uhsfs_recover_write_text(enum uhsfs_recover_write stage);

/* ---- between recover.c and recover_order.c -------------------------------- */

/* Count an event and pass it on.  name: an index or UHSFS_REC_NONE. */
void uhsfs_rec_name_event(struct uhsfs_recovery *r, enum uhsfs_rec_what what, u32 name,
			  u64 against, u64 other_seq);
void uhsfs_rec_slot_event(struct uhsfs_recovery *r, enum uhsfs_rec_what what, u64 ino,
			  u64 against);

/* Step 6: from names by (parent, name) with their fates to the order of insertion. */
void uhsfs_rec_order(struct uhsfs_recovery *r);

UHSFS_END_DECLS

#endif /* UHSFS_RECOVER_H */
