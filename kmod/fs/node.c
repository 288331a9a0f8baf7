// SPDX-License-Identifier: GPL-2.0
/*
 * Nodes of extent and names trees for the core (struct uhsfs_tree_ops).
 *
 * The nodes that an operation reads stay referenced until the caller releases them.  A
 * tree of a filesystem that is mounted read-only is never changed.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "uhsfs.h"

#define BATCH 15

/* A tree is walked with all its nodes in memory: what is more cannot be legitimate. */
#define NODES_MAX 65536

struct uhsfs_node_batch {
	struct uhsfs_node_batch *next;
	u32 count;
	struct folio *folio[BATCH];
};

void uhsfs_nodes_init(struct uhsfs_nodes *nodes, struct super_block *sb)
{
	*nodes = (struct uhsfs_nodes) { .sb = sb };
}

void uhsfs_nodes_release(struct uhsfs_nodes *nodes)
{
	while (nodes->batch) {
		struct uhsfs_node_batch *batch = nodes->batch;

		for (u32 i = 0; i < batch->count; i++)
			folio_put(batch->folio[i]);
		nodes->batch = batch->next;
		kfree(batch);
	}
}

/* Keep a folio until release; takes over the reference. */
static int keep(struct uhsfs_nodes *nodes, struct folio *folio)
{
	struct uhsfs_node_batch *batch = nodes->batch;

	if (!batch || batch->count == BATCH) {
		batch = kzalloc(sizeof(*batch), GFP_NOFS | __GFP_NOFAIL);
		batch->next = nodes->batch;
		nodes->batch = batch;
	}
	batch->folio[batch->count++] = folio;
	return 0;
}

static int read_node(void *ctx, u64 block, struct uhsfs_tree_node **node)
{
	struct uhsfs_nodes *nodes = ctx;
	struct folio *folio;
	int err;

	/* A change must not stop half way. */
	if (!uhsfs_sb(nodes->sb)->rw && fatal_signal_pending(current))
		return -EINTR;
	cond_resched();
	if (nodes->count++ == NODES_MAX) {
		uhsfs_err(nodes->sb, "tree node in block %llu: more than %u nodes in one walk",
			  block, NODES_MAX);
		return -E2BIG;
	}
	folio = uhsfs_read_block(nodes->sb, block);
	if (IS_ERR(folio)) {
		err = PTR_ERR(folio);
		if (err == -EIO)
			uhsfs_err(nodes->sb, "tree node: cannot read block %llu (error %d)", block,
				  err);
		return err;
	}
	err = keep(nodes, folio);
	if (err) {
		folio_put(folio);
		return err;
	}
	*node = folio_address(folio);
	return 0;
}

static int alloc_node(void *ctx, u64 *block, struct uhsfs_tree_node **node)
{
	return -EROFS;
}

static void free_node(void *ctx, u64 block)
{
}

static bool fresh_node(void *ctx, u64 block)
{
	return false;
}

const struct uhsfs_tree_ops uhsfs_node_ops = {
	.read = read_node,
	.alloc = alloc_node,
	.free = free_node,
	.fresh = fresh_node,
};

int uhsfs_tree_failed(struct super_block *sb, u64 ino, int err, const struct uhsfs_tree *tree)
{
	return err == -EUCLEAN ? uhsfs_fault(sb, ino, &tree->fault) : err;
}
