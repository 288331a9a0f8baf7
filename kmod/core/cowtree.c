// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The copy-on-write B+tree: checking, ways, copies, splits, merges, walks.
 */
#include "cowtree.h"

#include "bytes.h"

#define MERGE_BELOW	(UHSFS_TREE_PAYLOAD / 4)	/* a node this small looks for a sibling */
#define MERGE_UP_TO	(UHSFS_TREE_PAYLOAD / 4 * 3)	/* and takes it if both fill no more */

static_assert(sizeof(struct uhsfs_tree_node) == UHSFS_BLOCK_SIZE);
static_assert(offsetof(struct uhsfs_tree_node, bytes) == UHSFS_TREE_HEADER);

static u32 level_of(const struct uhsfs_tree_node *node)
{
	return le16_to_cpu(node->level);
}

static u32 count_of(const struct uhsfs_tree_node *node)
{
	return le16_to_cpu(node->count);
}

static void set_count(struct uhsfs_tree_node *node, u32 count)
{
	node->count = cpu_to_le16((u16)count);
}

static u64 key_of(const struct uhsfs_tree_node *node, u32 i)
{
	return le64_to_cpu(node->ref[i].key);
}

static u64 block_of(const struct uhsfs_tree_node *node, u32 i)
{
	return le64_to_cpu(node->ref[i].block);
}

static void set_ref(struct uhsfs_tree_node *node, u32 i, u64 key, u64 block)
{
	node->ref[i].key = cpu_to_le64(key);
	node->ref[i].block = cpu_to_le64(block);
}

u32 uhsfs_tree_bytes(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node)
{
	if (level_of(node))
		return count_of(node) * (u32)sizeof(struct uhsfs_tree_ref);
	if (tree->type->entry_size)
		return count_of(node) * tree->type->entry_size;
	return le16_to_cpu(node->used);
}

static bool is_fresh(const struct uhsfs_tree *tree, u64 block)
{
	return tree->ops->fresh(tree->ctx, block);
}

/* ---- checking ---------------------------------------------------------------- */

static int bad(struct uhsfs_tree *tree, u64 block, const char *field, u64 value, u64 limit,
	       const char *rule)
{
	return uhsfs_bad(&tree->fault, tree->type->object, block, field, value, limit, rule);
}

/* The fields that everything else relies on. */
static int check_shape(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 block,
		       u32 level)
{
	u32 most = UHSFS_TREE_NODE_MAX, used = le16_to_cpu(node->used);
	bool counted = !level && !tree->type->entry_size;

	if (level_of(node) != level)
		return bad(tree, block, "level", level_of(node), level, UHSFS_RULE_EQUAL);
	if (!count_of(node))
		return bad(tree, block, "count", 0, 1, UHSFS_RULE_AT_LEAST);
	if (!level && tree->type->entry_size)
		most = UHSFS_TREE_PAYLOAD / tree->type->entry_size;
	if (count_of(node) > most)
		return bad(tree, block, "count", count_of(node), most, UHSFS_RULE_AT_MOST);
	if (used > (counted ? UHSFS_TREE_PAYLOAD : 0))
		return bad(tree, block, "used", used, counted ? UHSFS_TREE_PAYLOAD : 0,
			   UHSFS_RULE_AT_MOST);
	return 0;
}

/* Everything a node says by itself. */
static int check_content(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 block,
			 u64 low, u64 high)
{
	u32 bytes = uhsfs_tree_bytes(tree, node);

	if (node->h.flags)
		return bad(tree, block, "flags", le32_to_cpu(node->h.flags), 0, UHSFS_RULE_ZERO);
	if (node->reserved0 || node->reserved1)
		return bad(tree, block, "reserved", le64_to_cpu(node->reserved1), 0,
			   UHSFS_RULE_ZERO);
	if (!uhsfs_is_zero(node->bytes + bytes, UHSFS_TREE_PAYLOAD - bytes))
		return bad(tree, block, "bytes after the last entry", 1, 0, UHSFS_RULE_ZERO);
	if (!level_of(node))
		return tree->type->check_leaf(tree, node, block, low, high, &tree->fault);
	for (u32 i = 0; i < count_of(node); i++) {
		if (i && key_of(node, i) <= key_of(node, i - 1))
			return bad(tree, block, "ref.key", key_of(node, i), key_of(node, i - 1),
				   UHSFS_RULE_ORDER);
		if (!uhsfs_space_ok(tree->geo, block_of(node, i), 1))
			return bad(tree, block, "ref.block", block_of(node, i), tree->geo->blocks,
				   UHSFS_RULE_SPACE);
	}
	return 0;
}

/* Keys within the range that the parent gives; what makes cycles impossible. */
static int check_range(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 block,
		       u64 low, u64 high)
{
	u64 first, last;

	if (level_of(node)) {
		first = key_of(node, 0);
		last = key_of(node, count_of(node) - 1);
	} else {
		tree->type->leaf_keys(tree, node, &first, &last);
	}
	if (first < low)
		return bad(tree, block, "first key", first, low, UHSFS_RULE_AT_LEAST);
	if (last > high)
		return bad(tree, block, "last key", last, high, UHSFS_RULE_AT_MOST);
	return 0;
}

/*
 * Whose node it is, without its checksum: of a fresh one, which has none yet, and of one
 * that passed before, perhaps for another inode: a hostile image may point to it twice.
 */
static int check_identity(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node,
			  const struct uhsfs_record_id *id)
{
	if (le32_to_cpu(node->h.magic) != id->magic)
		return bad(tree, id->block, "magic", le32_to_cpu(node->h.magic), id->magic,
			   UHSFS_RULE_EQUAL);
	if (le64_to_cpu(node->h.block) != id->block)
		return bad(tree, id->block, "block", le64_to_cpu(node->h.block), id->block,
			   UHSFS_RULE_EQUAL);
	if (le64_to_cpu(node->h.owner_ino) != id->owner_ino)
		return bad(tree, id->block, "owner_ino", le64_to_cpu(node->h.owner_ino),
			   id->owner_ino, UHSFS_RULE_EQUAL);
	if (le32_to_cpu(node->h.owner_gen) != id->owner_gen)
		return bad(tree, id->block, "owner_gen", le32_to_cpu(node->h.owner_gen),
			   id->owner_gen, UHSFS_RULE_EQUAL);
	return 0;
}

int uhsfs_tree_check_node(struct uhsfs_tree *tree, const struct uhsfs_tree_node *node,
			  const struct uhsfs_tree_at *at, bool passed)
{
	const struct uhsfs_record_id id = {
		.object = tree->type->object,
		.magic = tree->type->magic,
		.fsid = tree->geo->fsid,
		.block = at->block,
		.owner_ino = tree->owner_ino,
		.owner_gen = tree->owner_gen,
	};
	int err;

	if (passed)
		err = check_identity(tree, node, &id);
	else
		err = uhsfs_record_check(node, UHSFS_BLOCK_SIZE, &id, &tree->fault);
	if (!err)
		err = check_shape(tree, node, at->block, at->level);
	if (!err && !passed)
		err = check_content(tree, node, at->block, at->low, at->high);
	if (!err)
		err = check_range(tree, node, at->block, at->low, at->high);
	return err;
}

static int read_node(struct uhsfs_tree *tree, u64 block, u32 level, u64 low, u64 high,
		     struct uhsfs_tree_node **node)
{
	const struct uhsfs_tree_at at = {
		.block = block, .level = level, .low = low, .high = high
	};
	int known;

	if (!uhsfs_space_ok(tree->geo, block, 1))
		return bad(tree, block, "block", block, tree->geo->blocks, UHSFS_RULE_SPACE);
	known = tree->ops->read(tree->ctx, block, node);
	if (known < 0)
		return known;
	return uhsfs_tree_check_node(tree, *node, &at,
				     known == UHSFS_TREE_CHECKED || is_fresh(tree, block));
}

static int check_root(struct uhsfs_tree *tree)
{
	if (tree->depth > UHSFS_TREE_MAX_DEPTH)
		return bad(tree, tree->root, "depth", tree->depth, UHSFS_TREE_MAX_DEPTH,
			   UHSFS_RULE_AT_MOST);
	return 0;
}

/* ---- spares ------------------------------------------------------------------- */

/* An unused spare's payload says which is the next one. */
struct spare_link {
	u64 block;
	struct uhsfs_tree_node *node;
};

int uhsfs_tree_reserve(struct uhsfs_tree *tree, u32 n)
{
	u32 before = tree->spares;

	while (tree->spares < n) {
		struct spare_link link = { tree->spare_block, tree->spare };
		struct uhsfs_tree_node *node;
		u64 block;
		int err = tree->ops->alloc(tree->ctx, &block, &node);

		if (err) {
			uhsfs_tree_release(tree, before);
			return err;
		}
		memcpy(node->bytes, &link, sizeof(link));
		tree->spare_block = block;
		tree->spare = node;
		tree->spares++;
	}
	return 0;
}

static u64 take(struct uhsfs_tree *tree, u32 level, struct uhsfs_tree_node **node)
{
	const struct uhsfs_record_id id = {
		.magic = tree->type->magic,
		.fsid = tree->geo->fsid,
		.block = tree->spare_block,
		.owner_ino = tree->owner_ino,
		.owner_gen = tree->owner_gen,
	};
	struct spare_link link;

	uhsfs_assert(tree->spares);
	*node = tree->spare;
	memcpy(&link, tree->spare->bytes, sizeof(link));
	tree->spare_block = link.block;
	tree->spare = link.node;
	tree->spares--;
	memset(*node, 0, sizeof(**node));
	uhsfs_record_init(&(*node)->h, &id, 0);
	(*node)->level = cpu_to_le16((u16)level);
	return id.block;
}

void uhsfs_tree_release(struct uhsfs_tree *tree, u32 n)
{
	struct uhsfs_tree_node *node;

	while (tree->spares > n)
		tree->ops->free(tree->ctx, take(tree, 0, &node));
}

void uhsfs_tree_seal(struct uhsfs_tree_node *node, u64 seq)
{
	node->h.seq = cpu_to_le64(seq);
	uhsfs_record_seal(node, UHSFS_BLOCK_SIZE);
}

/* ---- ways ---------------------------------------------------------------------- */

/* The last entry with a key that is not larger, or the first one. */
static u32 find_ref(const struct uhsfs_tree_node *node, u64 key)
{
	u32 low = 1, high = count_of(node);

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (key_of(node, middle) > key)
			high = middle;
		else
			low = middle + 1;
	}
	return low - 1;
}

/* Range of child i of a node whose own range is [*low, *high]. */
static void child_range(const struct uhsfs_tree_node *node, u32 i, u64 *low, u64 *high)
{
	*low = key_of(node, i);
	if (i + 1 < count_of(node))
		*high = key_of(node, i + 1) - 1;
}

int uhsfs_tree_descend(struct uhsfs_tree *tree, u64 key, struct uhsfs_tree_path *path)
{
	u64 block = tree->root;
	u32 level = tree->depth;
	int err = check_root(tree);

	if (err)
		return err;
	if (!level)
		return -ENOENT;
	path->low = 0;
	path->high = U64_MAX;
	while (level--) {
		struct uhsfs_tree_node *node;

		err = read_node(tree, block, level, path->low, path->high, &node);
		if (err)
			return err;
		path->at[level].block = block;
		path->at[level].node = node;
		path->at[level].index = 0;
		if (level) {
			u32 i = find_ref(node, key);

			path->at[level].index = i;
			child_range(node, i, &path->low, &path->high);
			block = block_of(node, i);
		}
	}
	return 0;
}

void uhsfs_tree_again(struct uhsfs_tree *tree, u64 key, struct uhsfs_tree_path *path)
{
	int err = uhsfs_tree_descend(tree, key, path);

	uhsfs_assert(!err);
	(void)err;
}

bool uhsfs_tree_before(const struct uhsfs_tree *tree, const struct uhsfs_tree_path *path, u64 *key)
{
	for (u32 level = 1; level < tree->depth; level++) {
		u32 index = path->at[level].index;

		if (index) {
			*key = key_of(path->at[level].node, index) - 1;
			return true;
		}
	}
	return false;
}

u32 uhsfs_tree_stale(const struct uhsfs_tree *tree, const struct uhsfs_tree_path *path)
{
	u32 stale = 0;

	for (u32 level = 0; level < tree->depth; level++)
		stale += !is_fresh(tree, path->at[level].block);
	return stale;
}

int uhsfs_tree_may_grow(struct uhsfs_tree *tree)
{
	struct uhsfs_tree_node *root;
	int err;

	if (tree->depth < UHSFS_TREE_MAX_DEPTH)
		return 0;
	err = read_node(tree, tree->root, tree->depth - 1, 0, U64_MAX, &root);
	if (err)
		return err;
	return count_of(root) > UHSFS_TREE_NODE_MAX - 4 ? -ENOSPC : 0;
}

/* ---- changes -------------------------------------------------------------------- */

static void copy_node(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level)
{
	const struct uhsfs_tree_node *old = path->at[level].node;
	struct uhsfs_tree_node *node;
	u64 block = take(tree, level, &node);

	node->count = old->count;
	node->used = old->used;
	memcpy(node->bytes, old->bytes, UHSFS_TREE_PAYLOAD);
	tree->ops->free(tree->ctx, path->at[level].block);
	path->at[level].block = block;
	path->at[level].node = node;
	if (level + 1 == tree->depth)
		tree->root = block;
	else
		path->at[level + 1].node->ref[path->at[level + 1].index].block =
			cpu_to_le64(block);
}

void uhsfs_tree_touch(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level, u64 key)
{
	for (u32 l = tree->depth; l-- > level;) {
		struct uhsfs_tree_node *node;

		if (!is_fresh(tree, path->at[l].block))
			copy_node(tree, path, l);
		node = path->at[l].node;
		if (l && key_of(node, path->at[l].index) > key)
			node->ref[path->at[l].index].key = cpu_to_le64(key);
	}
}

static void put_ref(struct uhsfs_tree_node *node, u32 i, u64 key, u64 block)
{
	memmove(&node->ref[i + 1], &node->ref[i], (count_of(node) - i) * sizeof(node->ref[0]));
	set_ref(node, i, key, block);
	set_count(node, count_of(node) + 1);
}

static void remove_ref(struct uhsfs_tree_node *node, u32 i)
{
	u32 count = count_of(node) - 1;

	memmove(&node->ref[i], &node->ref[i + 1], (count - i) * sizeof(node->ref[0]));
	memset(&node->ref[count], 0, sizeof(node->ref[0]));
	set_count(node, count);
}

/* Move payload from `offset` on, `count` entries, to the empty node `to`. */
static void move_tail(struct uhsfs_tree *tree, struct uhsfs_tree_node *from,
		      struct uhsfs_tree_node *to, u32 offset, u32 count)
{
	u32 bytes = uhsfs_tree_bytes(tree, from) - offset;

	memcpy(to->bytes, from->bytes + offset, bytes);
	memset(from->bytes + offset, 0, bytes);
	set_count(to, count);
	set_count(from, count_of(from) - count);
	if (from->used) {
		to->used = cpu_to_le16((u16)bytes);
		from->used = cpu_to_le16((u16)offset);
	}
}

/* A new root over the old one and its new sibling. */
static void grow_root(struct uhsfs_tree *tree, u64 key, u64 block)
{
	struct uhsfs_tree_node *root;
	u64 root_block = take(tree, tree->depth, &root);

	uhsfs_assert(tree->depth < UHSFS_TREE_MAX_DEPTH);
	set_ref(root, 0, 0, tree->root);
	set_ref(root, 1, key, block);
	set_count(root, 2);
	tree->root = root_block;
	tree->depth++;
}

/*
 * Add a child after the one the way goes through at `level`, splitting full nodes and
 * the root.  A node that grows at its end is split there: what is written in order
 * leaves full nodes behind.
 */
static void add_child(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level, u64 key,
		      u64 block)
{
	for (; level < tree->depth; level++) {
		struct uhsfs_tree_node *node = path->at[level].node, *right;
		u32 count = count_of(node), i = path->at[level].index + 1, keep;
		u64 right_block;

		if (count < UHSFS_TREE_NODE_MAX) {
			put_ref(node, i, key, block);
			return;
		}
		keep = i == count ? count : count / 2;
		right_block = take(tree, level, &right);
		move_tail(tree, node, right, keep * (u32)sizeof(node->ref[0]), count - keep);
		if (i <= keep && keep < count)
			put_ref(node, i, key, block);
		else
			put_ref(right, i - keep, key, block);
		key = key_of(right, 0);
		block = right_block;
	}
	grow_root(tree, key, block);
}

struct uhsfs_tree_node *uhsfs_tree_split(struct uhsfs_tree *tree, struct uhsfs_tree_path *path,
					 u32 index, u32 offset, u64 key)
{
	struct uhsfs_tree_node *leaf = uhsfs_tree_leaf(path), *right;
	u64 block = take(tree, 0, &right);

	move_tail(tree, leaf, right, offset, count_of(leaf) - index);
	add_child(tree, path, 1, key, block);
	return right;
}

/* While the root has one child, that child is the root. */
static void collapse_root(struct uhsfs_tree *tree)
{
	struct uhsfs_tree_node *root;

	while (tree->depth > 1) {
		u32 level = tree->depth - 1;
		u64 block = tree->root;

		if (read_node(tree, block, level, 0, U64_MAX, &root) || count_of(root) > 1)
			return;
		tree->root = block_of(root, 0);
		tree->depth--;
		tree->ops->free(tree->ctx, block);
	}
}

/*
 * Put the sibling at `index` of the parent and the node of the way into the latter,
 * which is fresh; so merging allocates nothing.
 */
static bool merge_with(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level, u32 index)
{
	struct uhsfs_tree_node *node = path->at[level].node, *parent = path->at[level + 1].node;
	u32 own = path->at[level + 1].index, bytes = uhsfs_tree_bytes(tree, node), more;
	struct uhsfs_tree_node *sibling;
	u64 low, high = U64_MAX;

	child_range(parent, index, &low, &high);
	/* It may be damaged: that is for those to find out who need it. */
	if (read_node(tree, block_of(parent, index), level, low, high, &sibling))
		return false;
	more = uhsfs_tree_bytes(tree, sibling);
	if (bytes + more > MERGE_UP_TO)
		return false;
	if (index < own) {
		memmove(node->bytes + more, node->bytes, bytes);
		memcpy(node->bytes, sibling->bytes, more);
	} else {
		memcpy(node->bytes + bytes, sibling->bytes, more);
	}
	set_count(node, count_of(node) + count_of(sibling));
	if (node->used)
		node->used = cpu_to_le16((u16)(bytes + more));
	tree->ops->free(tree->ctx, block_of(parent, index));
	if (index < own) {
		parent->ref[index].block = cpu_to_le64(path->at[level].block);
		remove_ref(parent, own);
		path->at[level + 1].index = index;
	} else {
		remove_ref(parent, index);
	}
	return true;
}

static void balance(struct uhsfs_tree *tree, struct uhsfs_tree_path *path, u32 level)
{
	for (; level + 1 < tree->depth; level++) {
		u32 index = path->at[level + 1].index;

		if (uhsfs_tree_bytes(tree, path->at[level].node) > MERGE_BELOW)
			break;
		if (index && merge_with(tree, path, level, index - 1))
			continue;
		if (index + 1 < count_of(path->at[level + 1].node) &&
		    merge_with(tree, path, level, index + 1))
			continue;
		break;
	}
	collapse_root(tree);
}

void uhsfs_tree_balance(struct uhsfs_tree *tree, struct uhsfs_tree_path *path)
{
	balance(tree, path, 0);
}

void uhsfs_tree_drop(struct uhsfs_tree *tree, struct uhsfs_tree_path *path)
{
	u32 level = 0;

	uhsfs_tree_touch(tree, path, 1, U64_MAX);
	for (;;) {
		struct uhsfs_tree_node *parent;

		tree->ops->free(tree->ctx, path->at[level].block);
		if (++level == tree->depth) {
			tree->root = 0;
			tree->depth = 0;
			return;
		}
		parent = path->at[level].node;
		remove_ref(parent, path->at[level].index);
		if (count_of(parent))
			break;
	}
	balance(tree, path, level);
}

struct uhsfs_tree_node *uhsfs_tree_append(struct uhsfs_tree *tree, u64 key)
{
	struct uhsfs_tree_path path;
	struct uhsfs_tree_node *leaf;
	u64 block;

	if (!tree->depth) {
		tree->root = take(tree, 0, &leaf);
		tree->depth = 1;
		return leaf;
	}
	uhsfs_tree_again(tree, U64_MAX, &path);
	uhsfs_tree_touch(tree, &path, 1, key);
	block = take(tree, 0, &leaf);
	add_child(tree, &path, 1, key, block);
	return leaf;
}

u64 uhsfs_tree_nodes(u64 leaves)
{
	u64 nodes = leaves;

	while (leaves > 1) {
		leaves = DIV_ROUND_UP(leaves, UHSFS_TREE_NODE_MAX);
		nodes += leaves;
	}
	return nodes;
}

/* ---- recursion over parts of the tree ---------------------------------------------- */

static int walk_node(struct uhsfs_tree *tree, const struct uhsfs_tree_walk *walk, u64 block,
		     u32 level, u64 low, u64 high)
{
	struct uhsfs_tree_node *node;
	int err = read_node(tree, block, level, low, high, &node);
	u32 first;

	if (err)
		return walk->damaged ? walk->damaged(walk->ctx, block, err, &tree->fault) : err;
	err = walk->visit(tree, walk->ctx, block, node);
	if (err || !level)
		return err;
	first = find_ref(node, walk->from);
	for (u32 i = first; i < count_of(node); i++) {
		u64 child_low, child_high = high;

		/* The first one even if it begins later: there a key in the gap would go. */
		child_range(node, i, &child_low, &child_high);
		if (i > first && child_low > walk->to)
			break;
		err = walk_node(tree, walk, block_of(node, i), level - 1, child_low, child_high);
		if (err)
			return err;
	}
	return 0;
}

int uhsfs_tree_visit(struct uhsfs_tree *tree, const struct uhsfs_tree_walk *walk)
{
	int err = check_root(tree);

	if (err || !tree->depth)
		return err;
	return walk_node(tree, walk, tree->root, tree->depth - 1, 0, U64_MAX);
}

/* Free the node if *ctx says so. */
static int visit_free(struct uhsfs_tree *tree, void *ctx, u64 block,
		      const struct uhsfs_tree_node *node)
{
	const bool *really = ctx;

	(void)node;
	if (*really)
		tree->ops->free(tree->ctx, block);
	return 0;
}

int uhsfs_tree_destroy(struct uhsfs_tree *tree)
{
	bool really = false;
	const struct uhsfs_tree_walk walk = {
		.to = U64_MAX, .visit = visit_free, .ctx = &really
	};
	int err = uhsfs_tree_visit(tree, &walk);

	if (err)
		return err;
	really = true;
	err = uhsfs_tree_visit(tree, &walk);
	uhsfs_assert(!err);
	tree->root = 0;
	tree->depth = 0;
	tree->count = 0;
	return err;
}

static u64 shifted(const struct uhsfs_tree_shift *shift, u64 key)
{
	if (key <= shift->from)
		return key;
	if (shift->up)
		return key + shift->len;
	return key - shift->from > shift->len ? key - shift->len : shift->from;
}

/* Copy and move a subtree with keys >= from; returns its block. */
static u64 shift_node(struct uhsfs_tree *tree, const struct uhsfs_tree_shift *shift, u64 block,
		      u32 level)
{
	struct uhsfs_tree_node *node;
	int err = tree->ops->read(tree->ctx, block, &node);

	uhsfs_assert(err >= 0);
	(void)err;
	if (!is_fresh(tree, block)) {
		struct uhsfs_tree_node *old = node;
		u64 copy = take(tree, level, &node);

		node->count = old->count;
		node->used = old->used;
		memcpy(node->bytes, old->bytes, UHSFS_TREE_PAYLOAD);
		tree->ops->free(tree->ctx, block);
		block = copy;
	}
	if (!level) {
		shift->move(tree, node, shift);
		return block;
	}
	for (u32 i = find_ref(node, shift->from); i < count_of(node); i++)
		set_ref(node, i, shifted(shift, key_of(node, i)),
			shift_node(tree, shift, block_of(node, i), level - 1));
	return block;
}

void uhsfs_tree_move(struct uhsfs_tree *tree, const struct uhsfs_tree_shift *shift)
{
	if (tree->depth)
		tree->root = shift_node(tree, shift, tree->root, tree->depth - 1);
}
