/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Extent trees (EXTN): the mapping of a file whose extents do not fit its slot.
 *
 * The operations are those of lists (extent.h) with the same meaning; leaves are lists.
 * Extents are merged within a leaf, and an extent that would cross the border between
 * two leaves stands there in two pieces, so that a tree may have a few more extents
 * than a list of the same mapping.
 *
 * Each operation happens as a whole or not at all.  -EUCLEAN sets tree.fault.  After a
 * success tree.root, .depth and .count go to the slot (struct uhsfs_extent_root); depth
 * 0: nothing is mapped.
 */
#ifndef UHSFS_ETREE_H
#define UHSFS_ETREE_H

#include "cowtree.h"
#include "extent.h"

UHSFS_BEGIN_DECLS

struct uhsfs_etree {
	struct uhsfs_tree tree;		/* first: converted back from */
	struct uhsfs_extent_limits limits;
};

extern const struct uhsfs_tree_type uhsfs_etree_type;

/* A tree from its root in the slot, or empty (root NULL).  dir: as of extent limits. */
void uhsfs_etree_init(struct uhsfs_etree *etree, const struct uhsfs_geometry *geo,
		      const struct uhsfs_tree_ops *ops, void *ctx, u64 ino, u32 gen, bool dir,
		      const struct uhsfs_extent_root *root);

/* The slot's record of a tree that is not empty. */
void uhsfs_etree_put_root(const struct uhsfs_etree *etree, struct uhsfs_extent_root *root);

/*
 * What `logical` maps to: 1 (extent in *ext, *len blocks of it left), 0 (hole of *len
 * blocks) or an error.  As uhsfs_list_lookup().
 */
int uhsfs_etree_lookup(struct uhsfs_etree *etree, u64 logical, struct uhsfs_ext *ext, u64 *len);

/* The first extent that ends after `logical`: 1, or 0 if there is none, or an error. */
int uhsfs_etree_next(struct uhsfs_etree *etree, u64 logical, struct uhsfs_ext *ext);

int uhsfs_etree_insert(struct uhsfs_etree *etree, const struct uhsfs_ext *ext);
int uhsfs_etree_replace(struct uhsfs_etree *etree, const struct uhsfs_ext *ext,
			const struct uhsfs_freed *freed);
int uhsfs_etree_punch(struct uhsfs_etree *etree, u64 logical, u64 len,
		      const struct uhsfs_freed *freed);
int uhsfs_etree_truncate(struct uhsfs_etree *etree, u64 logical, const struct uhsfs_freed *freed);
int uhsfs_etree_convert(struct uhsfs_etree *etree, u64 logical, u64 len);

/* These two copy everything from `logical` on. */
int uhsfs_etree_collapse(struct uhsfs_etree *etree, u64 logical, u64 len,
			 const struct uhsfs_freed *freed);
int uhsfs_etree_insert_range(struct uhsfs_etree *etree, u64 logical, u64 len);

/*
 * Blocks that insert, replace, punch or convert of [logical, logical + len) may take,
 * for uhsfs_tree_reserve(): exact but for splits.  Other changes in between may raise
 * it by uhsfs_tree_worst() each at most.
 */
int uhsfs_etree_need(struct uhsfs_etree *etree, u64 logical, u64 len, u32 *need);

/* Fill an empty tree with a list, which is checked first (-EUCLEAN, -EINVAL if empty). */
int uhsfs_etree_load(struct uhsfs_etree *etree, const struct uhsfs_extent *extent, u64 count);

/*
 * Check the whole tree.  node() is told of each node's block once, parents first,
 * extent() of each extent once, in order; either may be NULL and may end the check with
 * an error.  damaged(): see struct uhsfs_tree_walk.  At the end *count is the number of
 * extents; compare it with tree.count.
 */
struct uhsfs_etree_visitor {
	int (*node)(void *ctx, u64 block);
	int (*extent)(void *ctx, const struct uhsfs_ext *ext);
	int (*damaged)(void *ctx, u64 block, int err, const struct uhsfs_fault *fault);
	void *ctx;
};

int uhsfs_etree_check(struct uhsfs_etree *etree, const struct uhsfs_etree_visitor *visitor,
		      u64 *count);

UHSFS_END_DECLS

#endif /* UHSFS_ETREE_H */
