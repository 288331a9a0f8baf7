/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Names of an inode: checking one (struct uhsfs_name), and the tree (NAME) of those
 * beyond the first, which stands in the slot.
 *
 * A leaf holds records of struct uhsfs_name, each padded with zeros to 8 bytes, ordered
 * by key, then parent inode, parent generation and name.  The key is the SipHash of
 * parent inode (8 bytes), parent generation (4 bytes) and name under the filesystem's
 * hash key.  Names of one key never stand in two leaves; that they do not fit one leaf
 * (-ENOSPC) takes fourteen equal 64-bit keys.
 *
 * Each operation happens as a whole or not at all and touches one leaf (replace: two).
 */
#ifndef UHSFS_NAMES_H
#define UHSFS_NAMES_H

#include "bytes.h"
#include "cowtree.h"

UHSFS_BEGIN_DECLS

/*
 * Check a name that stands in `room` bytes (of which it may leave some): length, reserved
 * bytes, parent, legal name.  ino, the inode that has the name, is for the fault.
 */
int uhsfs_name_check(const struct uhsfs_name *name, u32 room, u64 ino, struct uhsfs_fault *fault);

/* Bytes of a name's record in a leaf. */
static inline u32 uhsfs_name_size(u32 len)
{
	return round_up((u32)sizeof(struct uhsfs_name) + len, 8U);
}

/* A name in memory. */
struct uhsfs_claim {
	u64 parent_ino;
	u32 parent_gen;
	u32 len;
	u64 name_seq;
	const u8 *name;
};

/* The claim that a checked record makes; its name points into the record. */
void uhsfs_name_decode(const struct uhsfs_name *raw, struct uhsfs_claim *claim);

/* Write the record of a legal claim, sizeof(*raw) + len bytes, without padding. */
void uhsfs_name_encode(const struct uhsfs_claim *claim, struct uhsfs_name *raw);

struct uhsfs_names {
	struct uhsfs_tree tree;
};

extern const struct uhsfs_tree_type uhsfs_names_type;

/* A tree from its root in the slot, or empty (root NULL). */
void uhsfs_names_init(struct uhsfs_names *names, const struct uhsfs_geometry *geo,
		      const struct uhsfs_tree_ops *ops, void *ctx, u64 ino, u32 gen,
		      const struct uhsfs_names_root *root);

/* The slot's record of a tree that is not empty. */
void uhsfs_names_put_root(const struct uhsfs_names *names, struct uhsfs_names_root *root);

/* Key of a claim; order of claims in a tree (<0, 0: same parent and name, >0). */
u64 uhsfs_names_key(const struct uhsfs_geometry *geo, const struct uhsfs_claim *claim);
int uhsfs_names_compare(const struct uhsfs_geometry *geo, const struct uhsfs_claim *a,
			const struct uhsfs_claim *b);

/* Look for parent and name: 1 and *name_seq, 0 if it is not there, or an error. */
int uhsfs_names_find(struct uhsfs_names *names, const struct uhsfs_claim *claim, u64 *name_seq);

/* -EEXIST, -EINVAL (not legal), -EMLINK, -ENOSPC. */
int uhsfs_names_insert(struct uhsfs_names *names, const struct uhsfs_claim *claim);

/* -ENOENT.  name_seq does not matter. */
int uhsfs_names_remove(struct uhsfs_names *names, const struct uhsfs_claim *claim);

/*
 * `old` becomes `new`: another name_seq, name or parent.  -ENOENT if old is not there,
 * -EEXIST if new is another name that is.
 */
int uhsfs_names_replace(struct uhsfs_names *names, const struct uhsfs_claim *old,
			const struct uhsfs_claim *new_claim);

/* Fill an empty tree with n legal claims in order of uhsfs_names_compare(), else -EINVAL. */
int uhsfs_names_load(struct uhsfs_names *names, const struct uhsfs_claim *claims, u64 n);

/*
 * Visit (and so check) the whole tree: node() gets each node's block once, parents
 * first, name() each name once, in order; either may be NULL and may end the walk with
 * an error.  damaged(): see struct uhsfs_tree_walk.  *count: names seen; compare it with
 * tree.count.
 */
struct uhsfs_names_visitor {
	int (*node)(void *ctx, u64 block);
	int (*name)(void *ctx, const struct uhsfs_claim *claim);
	int (*damaged)(void *ctx, u64 block, int err, const struct uhsfs_fault *fault);
	void *ctx;
};

int uhsfs_names_walk(struct uhsfs_names *names, const struct uhsfs_names_visitor *visitor,
		     u64 *count);

UHSFS_END_DECLS

#endif /* UHSFS_NAMES_H */
