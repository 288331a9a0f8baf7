// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Extent trees: the operations of lists, leaf by leaf.
 *
 * An operation on a range first walks the nodes under it: that reads and checks them
 * and counts what has to be copied.  Then it takes its spares, tells of what is freed,
 * and at last, when nothing can fail any more, applies the list's operation to the part
 * of the range that each leaf covers.  A leaf without room for it is split and tried
 * again.
 */
#include "etree.h"

static_assert(offsetof(struct uhsfs_etree, tree) == 0);
static_assert(UHSFS_EXTENT_LEAF_MAX * sizeof(struct uhsfs_extent) == UHSFS_TREE_PAYLOAD);
static_assert(UHSFS_TREE_NODE_MAX * sizeof(struct uhsfs_tree_ref) == UHSFS_TREE_PAYLOAD);

static const struct uhsfs_etree *etree_of(const struct uhsfs_tree *tree)
{
	return (const struct uhsfs_etree *)tree;
}

/* A leaf as a list; changes of its count go back by leaf_done(). */
static struct uhsfs_extent_list leaf_list(const struct uhsfs_tree *tree,
					  const struct uhsfs_tree_node *leaf)
{
	struct uhsfs_extent_list list = {
		.extent = (struct uhsfs_extent *)leaf->extent,
		.count = le16_to_cpu(leaf->count),
		.capacity = UHSFS_EXTENT_LEAF_MAX,
		.scale = etree_of(tree)->limits.scale,
		.snapshot = tree->geo->snapshot,
	};

	return list;
}

static int check_leaf(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 block,
		      u64 low, u64 high, struct uhsfs_fault *fault)
{
	(void)low;	/* the tree compares the outer keys */
	(void)high;
	return uhsfs_extent_array_check(node->extent, le16_to_cpu(node->count),
					&etree_of(tree)->limits, tree->type->object, block, fault);
}

static void leaf_keys(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 *first,
		      u64 *last)
{
	struct uhsfs_ext ext;

	(void)tree;
	uhsfs_extent_decode(&node->extent[0], &ext);
	*first = ext.logical;
	uhsfs_extent_decode(&node->extent[le16_to_cpu(node->count) - 1], &ext);
	*last = uhsfs_ext_end(&ext) - 1;
}

const struct uhsfs_tree_type uhsfs_etree_type = {
	.object = "extent tree node",
	.magic = UHSFS_TAG_EXTENT,
	.entry_size = sizeof(struct uhsfs_extent),
	.check_leaf = check_leaf,
	.leaf_keys = leaf_keys,
};

void uhsfs_etree_init(struct uhsfs_etree *etree, const struct uhsfs_geometry *geo,
		      const struct uhsfs_tree_ops *ops, void *ctx, u64 ino, u32 gen, bool dir,
		      const struct uhsfs_extent_root *root)
{
	memset(etree, 0, sizeof(*etree));
	etree->tree.type = &uhsfs_etree_type;
	etree->tree.ops = ops;
	etree->tree.ctx = ctx;
	etree->tree.geo = geo;
	etree->tree.owner_ino = ino;
	etree->tree.owner_gen = gen;
	if (root) {
		etree->tree.root = le64_to_cpu(root->block);
		etree->tree.depth = le32_to_cpu(root->depth);
		etree->tree.count = le64_to_cpu(root->count);
	}
	uhsfs_extent_limits_init(&etree->limits, geo, dir);
}

void uhsfs_etree_put_root(const struct uhsfs_etree *etree, struct uhsfs_extent_root *root)
{
	root->block = cpu_to_le64(etree->tree.root);
	root->depth = cpu_to_le32(etree->tree.depth);
	root->reserved = 0;
	root->count = cpu_to_le64(etree->tree.count);
}

/* ---- looking ------------------------------------------------------------------ */

int uhsfs_etree_next(struct uhsfs_etree *etree, u64 logical, struct uhsfs_ext *ext)
{
	struct uhsfs_tree_path path;

	for (;;) {
		struct uhsfs_extent_list list;
		int err = uhsfs_tree_descend(&etree->tree, logical, &path);
		u32 i;

		if (err)
			return err == -ENOENT ? 0 : err;
		list = leaf_list(&etree->tree, uhsfs_tree_leaf(&path));
		i = uhsfs_list_find(&list, logical);
		if (i < list.count) {
			uhsfs_extent_decode(&list.extent[i], ext);
			return 1;
		}
		/* The next leaf has one: no leaf is empty. */
		if (path.high == U64_MAX)
			return 0;
		logical = path.high + 1;
	}
}

int uhsfs_etree_lookup(struct uhsfs_etree *etree, u64 logical, struct uhsfs_ext *ext, u64 *len)
{
	int found = uhsfs_etree_next(etree, logical, ext);

	if (found < 0)
		return found;
	if (!found) {
		*len = logical < UHSFS_LOGICAL_END ? UHSFS_LOGICAL_END - logical : 0;
		return 0;
	}
	if (ext->logical > logical) {
		*len = ext->logical - logical;
		return 0;
	}
	*len = uhsfs_ext_end(ext) - logical;
	return 1;
}

/* ---- first half: what can fail ---------------------------------------------------- */

enum change { SET, PUNCH, CONVERT, CUT, ANY };

struct survey {
	enum change change;
	u64 from, end;
	bool shift;	/* everything after the range moves */
	u64 home;	/* block of the leaf that holds `from` */
	u32 stale;	/* nodes that would be copied */
	u32 splits;	/* leaves that may grow beyond their room */
	const struct uhsfs_freed *freed;
};

/* Extents that the change may add to a leaf. */
static u32 growth(const struct uhsfs_extent_list *list, const struct survey *s)
{
	struct uhsfs_ext first, last;
	u64 len;
	bool cut_first = uhsfs_list_lookup(list, s->from, &first, &len) && first.logical < s->from;
	bool cut_last = uhsfs_list_lookup(list, s->end, &last, &len) && last.logical < s->end;
	bool cut_same = cut_first && cut_last && first.logical == last.logical;

	switch (s->change) {
	case SET:
		return 1 + cut_same;
	case PUNCH:
		return cut_same;
	case CONVERT:
		return cut_first + cut_last;
	case CUT:
		return cut_first;
	case ANY:
		break;
	}
	return 2;
}

static int survey_node(struct uhsfs_tree *tree, void *ctx, u64 block,
		       const struct uhsfs_tree_node *node)
{
	struct survey *s = ctx;
	bool stale = !tree->ops->fresh(tree->ctx, block), home = block == s->home, inside;
	struct uhsfs_extent_list list;
	u64 first, last;

	if (node->level) {
		s->stale += stale;
		return 0;
	}
	leaf_keys(tree, node, &first, &last);
	inside = first >= s->from && last < s->end;
	/* Such a leaf goes away, without a copy, unless it gets the new extent. */
	if (inside && (s->change == PUNCH || (s->change == SET && !home)))
		return 0;
	s->stale += stale;
	list = leaf_list(tree, node);
	if (!inside && (home || !s->shift) && list.count + growth(&list, s) > list.capacity)
		s->splits++;
	return 0;
}

static int report_node(struct uhsfs_tree *tree, void *ctx, u64 block,
		       const struct uhsfs_tree_node *node)
{
	struct survey *s = ctx;
	struct uhsfs_extent_list list;

	(void)block;
	if (node->level)
		return 0;
	list = leaf_list(tree, node);
	return uhsfs_list_report(&list, s->from, s->end - s->from, s->freed);
}

/*
 * Read all nodes that the operation may touch and count the blocks that it may need.  A
 * shift may touch the leaf before the first one too, when that goes away.
 */
static int survey_range(struct uhsfs_tree *tree, struct survey *s, u32 *need)
{
	struct uhsfs_tree_walk walk = { .from = s->from, .visit = survey_node, .ctx = s };
	struct uhsfs_tree_path path;
	int err = uhsfs_tree_descend(tree, s->from, &path);

	*need = s->change == SET;
	if (err)
		return err == -ENOENT ? 0 : err;
	s->home = path.at[0].block;
	if (s->shift)
		uhsfs_tree_before(tree, &path, &walk.from);
	walk.to = s->shift ? U64_MAX : s->end - 1;
	err = uhsfs_tree_visit(tree, &walk);
	if (err)
		return err;
	*need = s->stale + s->splits * (tree->depth + 2);
	return s->splits ? uhsfs_tree_may_grow(tree) : 0;
}

int uhsfs_etree_need(struct uhsfs_etree *etree, u64 logical, u64 len, u32 *need)
{
	struct survey s = { .change = ANY, .from = logical, .end = logical + len };
	int err;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	err = survey_range(&etree->tree, &s, need);
	if (!err && !etree->tree.depth)
		*need = 1;
	return err;
}

/*
 * Everything of an operation that can fail.  *kept: spares to leave at the end of the
 * operation.
 */
static int prepare(struct uhsfs_etree *etree, struct survey *s, u32 *kept)
{
	const struct uhsfs_tree_walk walk = {
		.from = s->from, .to = s->end - 1, .visit = report_node, .ctx = s
	};
	u32 need;
	int err;

	*kept = etree->tree.spares;
	err = survey_range(&etree->tree, s, &need);
	if (err)
		return err;
	err = uhsfs_tree_reserve(&etree->tree, need);
	if (err)
		return err;
	if (s->freed)
		err = uhsfs_tree_visit(&etree->tree, &walk);
	if (err)
		uhsfs_tree_release(&etree->tree, *kept);
	return err;
}

/* The end of an operation: spares that it did not need go back. */
static void finish(struct uhsfs_etree *etree, u32 kept)
{
	uhsfs_tree_release(&etree->tree, min_t(u32, kept, etree->tree.spares));
}

/* ---- second half: what cannot fail -------------------------------------------------- */

/* What is to be done in the leaf that holds `from`; ext: for SET. */
struct edit {
	enum change change;
	u64 from, end;
	const struct uhsfs_ext *ext;
};

static int edit_list(struct uhsfs_extent_list *list, const struct edit *edit, u64 end)
{
	struct uhsfs_ext piece;

	switch (edit->change) {
	case SET:
		piece = *edit->ext;
		piece.physical += (edit->from - piece.logical) * list->scale;
		piece.logical = edit->from;
		piece.len = (u32)(end - edit->from);
		return uhsfs_list_replace(list, &piece, NULL);
	case PUNCH:
		return uhsfs_list_punch(list, edit->from, end - edit->from, NULL);
	case CONVERT:
		return uhsfs_list_convert(list, edit->from, end - edit->from);
	case CUT:
		return uhsfs_list_cut(list, edit->from);
	case ANY:
		break;
	}
	return -EINVAL;
}

/* In the middle, or near the end of a leaf that grows there. */
static void split_leaf(struct uhsfs_etree *etree, struct uhsfs_tree_path *path, u64 from)
{
	const struct uhsfs_tree_node *leaf = uhsfs_tree_leaf(path);
	u32 count = le16_to_cpu(leaf->count), index = count / 2;
	u64 first, last;

	leaf_keys(&etree->tree, leaf, &first, &last);
	if (from > last)
		index = count - 1;
	uhsfs_tree_split(&etree->tree, path, index, index * (u32)sizeof(leaf->extent[0]),
			 le64_to_cpu(leaf->extent[index].logical));
}

/* True if the change does nothing in this leaf, which then is not copied. */
static bool edit_idle(const struct uhsfs_extent_list *list, const struct edit *edit, u64 end)
{
	struct uhsfs_ext ext;
	u64 len;

	if (edit->change == SET)
		return false;
	if (uhsfs_list_lookup(list, edit->from, &ext, &len))
		return edit->change == CUT && ext.logical == edit->from;
	return edit->change == CUT || len >= end - edit->from;
}

/* Do the edit's first step, in one leaf; returns where the next one begins. */
static u64 edit_leaf(struct uhsfs_etree *etree, const struct edit *edit)
{
	struct uhsfs_tree *tree = &etree->tree;
	struct uhsfs_extent_list list;
	struct uhsfs_tree_path path;
	u64 end = edit->end, first, last;
	u32 before;

	uhsfs_tree_again(tree, edit->from, &path);
	if (path.high < end)
		end = path.high + 1;
	list = leaf_list(tree, uhsfs_tree_leaf(&path));
	if (edit_idle(&list, edit, end))
		return end;
	leaf_keys(tree, uhsfs_tree_leaf(&path), &first, &last);
	before = list.count;
	if (edit->change == PUNCH && first >= edit->from && last < end) {
		uhsfs_tree_drop(tree, &path);
		tree->count -= before;
		return end;
	}
	uhsfs_tree_touch(tree, &path, 0, edit->from);
	list = leaf_list(tree, uhsfs_tree_leaf(&path));
	if (edit_list(&list, edit, end)) {
		split_leaf(etree, &path, edit->from);
		return edit->from;
	}
	uhsfs_tree_leaf(&path)->count = cpu_to_le16((u16)list.count);
	tree->count += list.count;
	tree->count -= before;
	uhsfs_tree_balance(tree, &path);
	return end;
}

static void edit_range(struct uhsfs_etree *etree, enum change change, u64 from, u64 end,
		       const struct uhsfs_ext *ext)
{
	struct edit edit = { .change = change, .from = from, .end = end, .ext = ext };

	while (edit.from < end && etree->tree.depth)
		edit.from = edit_leaf(etree, &edit);
}

/* Map a range whose leaves, but for the first one, hold nothing in it. */
static void map_range(struct uhsfs_etree *etree, const struct uhsfs_ext *ext)
{
	struct uhsfs_tree_node *leaf;

	if (etree->tree.depth) {
		edit_range(etree, SET, ext->logical, uhsfs_ext_end(ext), ext);
		return;
	}
	leaf = uhsfs_tree_append(&etree->tree, 0);
	uhsfs_extent_encode(ext, &leaf->extent[0]);
	leaf->count = cpu_to_le16(1);
	etree->tree.count = 1;
}

/* Where the leaf that holds `logical` ends, at most `end`. */
static u64 leaf_end(struct uhsfs_etree *etree, u64 logical, u64 end)
{
	struct uhsfs_tree_path path;

	if (!etree->tree.depth)
		return end;
	uhsfs_tree_again(&etree->tree, logical, &path);
	return path.high < end ? path.high + 1 : end;
}

/* ---- operations ------------------------------------------------------------------- */

static int check_new(const struct uhsfs_etree *etree, const struct uhsfs_ext *ext)
{
	const struct uhsfs_extent_limits *limits = &etree->limits;

	if (!uhsfs_logical_ok(ext->logical, ext->len) ||
	    !uhsfs_space_ok(limits->geo, ext->physical, (u64)ext->len * limits->scale))
		return -EINVAL;
	return uhsfs_ext_end(ext) > limits->max ? -EFBIG : 0;
}

/* 1 if something is mapped in [from, end), 0 if not, or an error. */
static int mapped(struct uhsfs_etree *etree, u64 from, u64 end)
{
	struct uhsfs_ext ext;
	int found = uhsfs_etree_next(etree, from, &ext);

	return found > 0 ? ext.logical < end : found;
}

int uhsfs_etree_insert(struct uhsfs_etree *etree, const struct uhsfs_ext *ext)
{
	int err = check_new(etree, ext);

	if (!err)
		err = mapped(etree, ext->logical, uhsfs_ext_end(ext));
	if (err)
		return err > 0 ? -EEXIST : err;
	return uhsfs_etree_replace(etree, ext, NULL);
}

/*
 * Everything after the first leaf is punched before the first leaf is changed, so that
 * the new extent stands in one piece if it can and the first leaf is never empty.
 */
int uhsfs_etree_replace(struct uhsfs_etree *etree, const struct uhsfs_ext *ext,
			const struct uhsfs_freed *freed)
{
	struct survey s = { .change = SET, .from = ext->logical, .freed = freed };
	u32 kept;
	int err = check_new(etree, ext);

	if (err)
		return err;
	s.end = uhsfs_ext_end(ext);
	err = prepare(etree, &s, &kept);
	if (err)
		return err;
	edit_range(etree, PUNCH, leaf_end(etree, s.from, s.end), s.end, NULL);
	map_range(etree, ext);
	finish(etree, kept);
	return 0;
}

int uhsfs_etree_punch(struct uhsfs_etree *etree, u64 logical, u64 len,
		      const struct uhsfs_freed *freed)
{
	struct survey s = { .change = PUNCH, .from = logical, .end = logical + len,
			    .freed = freed };
	u32 kept;
	int err;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	err = mapped(etree, logical, s.end);
	if (err <= 0)
		return err;
	err = prepare(etree, &s, &kept);
	if (err)
		return err;
	edit_range(etree, PUNCH, logical, s.end, NULL);
	finish(etree, kept);
	return 0;
}

int uhsfs_etree_truncate(struct uhsfs_etree *etree, u64 logical, const struct uhsfs_freed *freed)
{
	if (logical >= UHSFS_LOGICAL_END)
		return 0;
	return uhsfs_etree_punch(etree, logical, UHSFS_LOGICAL_END - logical, freed);
}

int uhsfs_etree_convert(struct uhsfs_etree *etree, u64 logical, u64 len)
{
	struct survey s = { .change = CONVERT, .from = logical, .end = logical + len };
	u32 kept;
	int err;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	err = mapped(etree, logical, s.end);
	if (err <= 0)
		return err;
	err = prepare(etree, &s, &kept);
	if (err)
		return err;
	edit_range(etree, CONVERT, logical, s.end, NULL);
	finish(etree, kept);
	return 0;
}

static void move_leaf(const struct uhsfs_tree *tree, struct uhsfs_tree_node *leaf,
		      const struct uhsfs_tree_shift *shift)
{
	struct uhsfs_extent_list list = leaf_list(tree, leaf);

	if (shift->up)
		uhsfs_list_move_up(&list, shift->from, shift->len);
	else
		uhsfs_list_move_down(&list, shift->from + shift->len, shift->len);
}

int uhsfs_etree_collapse(struct uhsfs_etree *etree, u64 logical, u64 len,
			 const struct uhsfs_freed *freed)
{
	const struct uhsfs_tree_shift shift = { .from = logical, .len = len, .move = move_leaf };
	struct survey s = { .change = PUNCH, .from = logical, .end = logical + len, .shift = true,
			    .freed = freed };
	u32 kept;
	int err;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	err = mapped(etree, logical, UHSFS_LOGICAL_END);
	if (err <= 0)
		return err;
	err = prepare(etree, &s, &kept);
	if (err)
		return err;
	edit_range(etree, PUNCH, logical, s.end, NULL);
	uhsfs_tree_move(&etree->tree, &shift);
	finish(etree, kept);
	return 0;
}

/* End of the last extent, 0 if there is none. */
static int last_end(struct uhsfs_etree *etree, u64 *end)
{
	struct uhsfs_tree_path path;
	u64 first, last;
	int err = uhsfs_tree_descend(&etree->tree, U64_MAX, &path);

	*end = 0;
	if (err)
		return err == -ENOENT ? 0 : err;
	leaf_keys(&etree->tree, uhsfs_tree_leaf(&path), &first, &last);
	*end = last + 1;
	return 0;
}

int uhsfs_etree_insert_range(struct uhsfs_etree *etree, u64 logical, u64 len)
{
	const struct uhsfs_tree_shift shift = {
		.from = logical, .len = len, .up = true, .move = move_leaf
	};
	struct survey s = { .change = CUT, .from = logical, .end = logical, .shift = true };
	u64 end;
	u32 kept;
	int err;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	err = last_end(etree, &end);
	if (err || end <= logical)
		return err;
	if (end > etree->limits.max || len > etree->limits.max - end)
		return -EFBIG;
	err = prepare(etree, &s, &kept);
	if (err)
		return err;
	edit_range(etree, CUT, logical, logical + 1, NULL);
	uhsfs_tree_move(&etree->tree, &shift);
	finish(etree, kept);
	return 0;
}

/* ---- whole trees ------------------------------------------------------------------- */

int uhsfs_etree_load(struct uhsfs_etree *etree, const struct uhsfs_extent *extent, u64 count)
{
	struct uhsfs_tree *tree = &etree->tree;
	u32 kept = tree->spares;
	u64 nodes;
	int err;

	if (!count || tree->depth || count > U32_MAX)
		return -EINVAL;
	err = uhsfs_extent_array_check(extent, (u32)count, &etree->limits, "extent list",
				       tree->owner_ino, &tree->fault);
	if (err)
		return err;
	nodes = uhsfs_tree_nodes(DIV_ROUND_UP(count, UHSFS_EXTENT_LEAF_MAX));
	err = uhsfs_tree_reserve(tree, (u32)nodes);
	if (err)
		return err;
	for (u64 i = 0; i < count;) {
		u32 n = (u32)min_t(u64, count - i, UHSFS_EXTENT_LEAF_MAX);
		struct uhsfs_tree_node *leaf =
			uhsfs_tree_append(tree, le64_to_cpu(extent[i].logical));

		memcpy(leaf->extent, &extent[i], n * sizeof(*extent));
		leaf->count = cpu_to_le16((u16)n);
		i += n;
	}
	tree->count = count;
	finish(etree, kept);
	return 0;
}

struct check {
	const struct uhsfs_etree_visitor *visitor;
	u64 count;
};

static int check_node(struct uhsfs_tree *tree, void *ctx, u64 block,
		      const struct uhsfs_tree_node *node)
{
	struct check *check = ctx;
	const struct uhsfs_etree_visitor *v = check->visitor;
	int err = v->node ? v->node(v->ctx, block) : 0;

	(void)tree;
	if (err || node->level)
		return err;
	for (u32 i = 0; i < le16_to_cpu(node->count); i++) {
		struct uhsfs_ext ext;

		uhsfs_extent_decode(&node->extent[i], &ext);
		check->count++;
		err = v->extent ? v->extent(v->ctx, &ext) : 0;
		if (err)
			return err;
	}
	return 0;
}

static int check_damaged(void *ctx, u64 block, int err, const struct uhsfs_fault *fault)
{
	const struct uhsfs_etree_visitor *v = ((struct check *)ctx)->visitor;

	return v->damaged ? v->damaged(v->ctx, block, err, fault) : err;
}

int uhsfs_etree_check(struct uhsfs_etree *etree, const struct uhsfs_etree_visitor *visitor,
		      u64 *count)
{
	struct check check = { .visitor = visitor };
	const struct uhsfs_tree_walk walk = {
		.to = U64_MAX, .visit = check_node, .damaged = check_damaged, .ctx = &check
	};
	int err = uhsfs_tree_visit(&etree->tree, &walk);

	*count = check.count;
	return err;
}
