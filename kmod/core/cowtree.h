/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The copy-on-write B+tree under extent trees (etree.h) and names trees (names.h).
 *
 * A node is a block (struct uhsfs_tree_node).  Leaves have level 0 and hold the tree's
 * entries; an inner node holds (key, block) pairs: a child's keys are at least its key
 * and less than the next one's.  No node is empty; an empty tree has no node (depth 0).
 *
 * COPY-ON-WRITE.  A node that stands in a durable image is never changed: it is copied
 * to a new block, and so is its parent, up to the root, whose new address becomes
 * durable with the slot (R2, R3).  Nodes made since then are "fresh" and changed in
 * place, so that many changes before one commit copy a node once.
 *
 * ALL OR NOTHING.  An operation has two halves.  The first reads and checks all nodes
 * it is going to need and takes all blocks it may need ("spares"); it can fail and
 * changes nothing.  The second cannot fail.  Therefore a caller can also take spares
 * beforehand (uhsfs_tree_reserve()), and then the operation does not allocate at all.
 *
 * HOSTILE IMAGES.  A child's level is its parent's less one and its keys lie in the
 * range that the parent gives it.  Ranges of siblings are disjoint and no node is
 * empty, so that no block can be reached twice: there are no cycles and no walk visits
 * more nodes than the device has blocks.
 *
 * Balance: a node that falls to a quarter is merged with a sibling if the two fill at
 * most three quarters.  Borrowing is left out: a small node whose siblings are both
 * large costs little, and fewer nodes are written.
 */
#ifndef UHSFS_COWTREE_H
#define UHSFS_COWTREE_H

#include "record.h"

UHSFS_BEGIN_DECLS

#define UHSFS_TREE_PAYLOAD	(UHSFS_BLOCK_SIZE - UHSFS_TREE_HEADER)

/* read() may return this instead of 0: this node passed the check since it was read. */
#define UHSFS_TREE_CHECKED	1

struct uhsfs_tree_ops {
	/*
	 * A node by its block, which is uhsfs_space_ok().  It stays where it is until
	 * the operation ends, a fresh one until the transaction ends; reading it again
	 * within that time gives the same node.  Only fresh nodes are written to.
	 * 0, UHSFS_TREE_CHECKED or an error.
	 */
	int (*read)(void *ctx, u64 block, struct uhsfs_tree_node **node);
	/* A new block and its node, which is fresh from now on. */
	int (*alloc)(void *ctx, u64 *block, struct uhsfs_tree_node **node);
	/*
	 * A node is not needed any more: a fresh one at once, any other when the slot is
	 * durable (R3).  It stays readable until the operation ends.
	 */
	void (*free)(void *ctx, u64 block);
	/* True if the block came from alloc() since the last commit. */
	bool (*fresh)(void *ctx, u64 block);
};

struct uhsfs_tree;

/* What differs between the two trees. */
struct uhsfs_tree_type {
	const char *object;	/* for faults */
	u32 magic;
	u32 entry_size;		/* bytes of a leaf's entry; 0: varies, node->used counts */
	/*
	 * Check the entries of a leaf whose count (and used) fit; keys must lie in
	 * [low, high].  Bytes after the entries are checked by the tree.
	 */
	int (*check_leaf)(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node,
			  u64 block, u64 low, u64 high, struct uhsfs_fault *fault);
	/* Keys of a checked leaf's first and last entry. */
	void (*leaf_keys)(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node,
			  u64 *first, u64 *last);
};

/* A tree in use.  The caller serialises. */
struct uhsfs_tree {
	const struct uhsfs_tree_type *type;
	const struct uhsfs_tree_ops *ops;
	void *ctx;			/* of ops */
	const struct uhsfs_geometry *geo;
	u64 owner_ino;
	u32 owner_gen;

	u32 depth;			/* nodes from root to leaf; 0: empty */
	u64 root;			/* block */
	u64 count;			/* entries */

	u32 spares;			/* blocks taken and not used yet: a list through them */
	u64 spare_block;
	struct uhsfs_tree_node *spare;

	struct uhsfs_fault fault;	/* set when an operation returns -EUCLEAN */
};

/* The way from the root to a leaf, by level. */
struct uhsfs_tree_path {
	u64 low, high;			/* keys of the leaf's range, both included */
	struct {
		u64 block;
		struct uhsfs_tree_node *node;
		u32 index;		/* inner nodes: the entry the way goes through */
	} at[UHSFS_TREE_MAX_DEPTH];
};

/*
 * ---- for callers of both trees ----
 */

/* Take spares until there are n.  On failure those taken here are given back. */
int uhsfs_tree_reserve(struct uhsfs_tree *tree, u32 n);

/* Give back spares until there are n left; 0 ends a transaction. */
void uhsfs_tree_release(struct uhsfs_tree *tree, u32 n);

/*
 * Spares that are enough for one change of one place in a tree of this depth: a copy
 * of the way to two neighbouring leaves and two splits up to a new root.
 */
static inline u32 uhsfs_tree_worst(u32 depth)
{
	return 4 * (depth + 2);
}

/* Complete a node's image before it is written. */
void uhsfs_tree_seal(struct uhsfs_tree_node *node, u64 seq);

/*
 * Visit each node that may hold keys of [from, to], parents first, in order of keys.
 * visit() gets checked nodes; its error ends the walk.  damaged(), if not NULL, is
 * told of a node that cannot be read or is damaged (fault filled in for -EUCLEAN); if
 * it returns 0, the walk goes on after that node, else it returns what damaged() did.
 */
struct uhsfs_tree_walk {
	u64 from, to;
	int (*visit)(struct uhsfs_tree *tree, void *ctx, u64 block,
		     const struct uhsfs_tree_node *node);
	int (*damaged)(void *ctx, u64 block, int err, const struct uhsfs_fault *fault);
	void *ctx;
};

int uhsfs_tree_visit(struct uhsfs_tree *tree, const struct uhsfs_tree_walk *walk);

/* Where a node hangs: what its parent, or the slot, says of it. */
struct uhsfs_tree_at {
	u64 block;
	u32 level;			/* depth - 1 of a root, 0 of a leaf */
	u64 low, high;			/* keys of its range, both included; a root: 0, U64_MAX */
};

/*
 * Check a node as read from at->block: its record with the tree's owner, level, entries
 * and their range.  passed: it did since it was read, perhaps at another place, so that
 * checksum and entries are left out.  All operations do this with the nodes they read; for
 * those who read nodes in another way.  -EUCLEAN sets tree->fault.
 */
int uhsfs_tree_check_node(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node,
			  const struct uhsfs_tree_at *at, bool passed);

/* Give back every node; the tree is empty then. */
int uhsfs_tree_destroy(struct uhsfs_tree *tree);

/*
 * ---- for the two trees: first half, may fail ----
 */

/* Follow `key` to its leaf, checking each node.  -ENOENT: the tree is empty. */
int uhsfs_tree_descend(struct uhsfs_tree *tree, u64 key, struct uhsfs_tree_path *path);

/* A key of the leaf before the one the way leads to; false if that is the first. */
bool uhsfs_tree_before(const struct uhsfs_tree *tree, const struct uhsfs_tree_path *path, u64 *key);

/* Nodes on the way that a change of the leaf copies. */
u32 uhsfs_tree_stale(const struct uhsfs_tree *tree, const struct uhsfs_tree_path *path);

/* -ENOSPC if splits could make the tree too deep. */
int uhsfs_tree_may_grow(struct uhsfs_tree *tree);

/*
 * ---- second half: spares are there and nodes were read before, cannot fail ----
 */

static inline struct uhsfs_tree_node *uhsfs_tree_leaf(const struct uhsfs_tree_path *path)
{
	return path->at[0].node;
}

/* Bytes of the node's payload that are in use. */
u32 uhsfs_tree_bytes(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node);

/* Descend where that succeeded earlier in the operation. */
void uhsfs_tree_again(struct uhsfs_tree *tree, u64 key, struct uhsfs_tree_path *path);

/* Make the nodes of the way writable down to `level`, for entries from `key` on. */
void uhsfs_tree_touch(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level, u64 key);

/*
 * Move the touched leaf's entries from `index` on, which begin at byte `offset`, to a
 * new leaf for keys >= key, which is returned.  If one of the two is left empty, the
 * caller fills it at once.  Otherwise the path is used up: descend again.
 */
struct uhsfs_tree_node *uhsfs_tree_split(struct uhsfs_tree *tree, struct uhsfs_tree_path *path,
					 u32 index, u32 offset, u64 key);

/* Remove the leaf from the tree.  The path is used up. */
void uhsfs_tree_drop(struct uhsfs_tree *tree, struct uhsfs_tree_path *path);

/* Merge the touched leaf and nodes above it if they became small.  The path is used up. */
void uhsfs_tree_balance(struct uhsfs_tree *tree, struct uhsfs_tree_path *path);

/*
 * A new last leaf, empty, for keys >= key, greater than all in the tree; the caller
 * fills it at once.  For loading a sorted sequence.
 */
struct uhsfs_tree_node *uhsfs_tree_append(struct uhsfs_tree *tree, u64 key);

/* Nodes of a tree made by appending n leaves. */
u64 uhsfs_tree_nodes(u64 leaves);

/*
 * Move all entries with keys >= from by calling move() on each leaf that has some, and
 * keys of inner nodes with it.  up: by len up.  Else by len down; [from, from + len) is
 * empty then.
 */
struct uhsfs_tree_shift {
	u64 from, len;
	bool up;
	void (*move)(const struct uhsfs_tree *tree, struct uhsfs_tree_node *leaf,
		     const struct uhsfs_tree_shift *shift);
};

void uhsfs_tree_move(struct uhsfs_tree *tree, const struct uhsfs_tree_shift *shift);

UHSFS_END_DECLS

#endif /* UHSFS_COWTREE_H */
