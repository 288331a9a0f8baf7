// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Names: checks, and the names tree.
 *
 * Records of a leaf differ in size, so that a leaf is first indexed (where each record
 * begins) and then searched by halves; keys are computed as they are compared.
 */
#include "names.h"

#include "le.h"
#include "siphash.h"

#define RECORD_MIN	32	/* uhsfs_name_size(1) */
#define LEAF_MAX	(UHSFS_TREE_PAYLOAD / RECORD_MIN)

static_assert(sizeof(struct uhsfs_name) == 24);

int uhsfs_name_check(const struct uhsfs_name *name, u32 room, u64 ino, struct uhsfs_fault *fault)
{
	static const char object[] = "name";

	if (room < sizeof(*name))
		return uhsfs_bad(fault, object, ino, "size", room, sizeof(*name),
				 UHSFS_RULE_AT_LEAST);
	if (name->len > room - sizeof(*name))
		return uhsfs_bad(fault, object, ino, "len", name->len, room - sizeof(*name),
				 UHSFS_RULE_AT_MOST);
	if (!uhsfs_is_zero(name->reserved, sizeof(name->reserved)))
		return uhsfs_bad(fault, object, ino, "reserved", 1, 0, UHSFS_RULE_ZERO);
	if (!name->parent_ino)
		return uhsfs_bad(fault, object, ino, "parent_ino", 0, 1, UHSFS_RULE_AT_LEAST);
	if (!uhsfs_name_legal(name->name, name->len))
		return uhsfs_bad(fault, object, ino, "name", name->len, UHSFS_NAME_LEN,
				 "must be a legal file name");
	return 0;
}

void uhsfs_name_decode(const struct uhsfs_name *raw, struct uhsfs_claim *claim)
{
	claim->parent_ino = le64_to_cpu(raw->parent_ino);
	claim->parent_gen = le32_to_cpu(raw->parent_gen);
	claim->len = raw->len;
	claim->name_seq = le64_to_cpu(raw->name_seq);
	claim->name = raw->name;
}

void uhsfs_name_encode(const struct uhsfs_claim *claim, struct uhsfs_name *raw)
{
	raw->parent_ino = cpu_to_le64(claim->parent_ino);
	raw->parent_gen = cpu_to_le32(claim->parent_gen);
	raw->len = (u8)claim->len;
	memset(raw->reserved, 0, sizeof(raw->reserved));
	raw->name_seq = cpu_to_le64(claim->name_seq);
	memcpy(raw->name, claim->name, claim->len);
}

/* ---- order ------------------------------------------------------------------------ */

u64 uhsfs_names_key(const struct uhsfs_geometry *geo, const struct uhsfs_claim *claim)
{
	u8 prefix[12];

	uhsfs_put_le64(prefix, claim->parent_ino);
	uhsfs_put_le32(prefix + 8, claim->parent_gen);
	return uhsfs_siphash2(geo->hash_key, prefix, sizeof(prefix), claim->name, claim->len);
}

static int order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

/* Order of claims with known keys. */
static int compare(u64 a_key, const struct uhsfs_claim *a, u64 b_key, const struct uhsfs_claim *b)
{
	int result = order(a_key, b_key);

	if (!result)
		result = order(a->parent_ino, b->parent_ino);
	if (!result)
		result = order(a->parent_gen, b->parent_gen);
	if (!result)
		result = memcmp(a->name, b->name, min_t(u32, a->len, b->len));
	if (!result)
		result = order(a->len, b->len);
	return result;
}

int uhsfs_names_compare(const struct uhsfs_geometry *geo, const struct uhsfs_claim *a,
			const struct uhsfs_claim *b)
{
	return compare(uhsfs_names_key(geo, a), a, uhsfs_names_key(geo, b), b);
}

/* ---- leaves ------------------------------------------------------------------------- */

static const struct uhsfs_name *record_at(const struct uhsfs_tree_node *leaf, u32 offset)
{
	return (const struct uhsfs_name *)(leaf->bytes + offset);
}

static int bad_leaf(const struct uhsfs_tree *tree, u64 block, const char *field, u64 value,
		    u64 limit, const char *rule, struct uhsfs_fault *fault)
{
	return uhsfs_bad(fault, tree->type->object, block, field, value, limit, rule);
}

static int check_leaf(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 block,
		      u64 low, u64 high, struct uhsfs_fault *fault)
{
	u32 used = le16_to_cpu(node->used), at = 0, count = le16_to_cpu(node->count);
	struct uhsfs_claim claim, before;
	u64 key = 0, key_before;

	if (used % 8)
		return bad_leaf(tree, block, "used", used, 8, "must be a multiple of limit", fault);
	for (u32 i = 0; i < count; i++) {
		const struct uhsfs_name *raw = record_at(node, at);
		u32 size;
		int err = uhsfs_name_check(raw, used - at, tree->owner_ino, fault);

		if (err)
			return err;
		/* used - at is a multiple of 8, so that the padding fits if the name does. */
		size = uhsfs_name_size(raw->len);
		if (!uhsfs_is_zero(raw->name + raw->len, size - sizeof(*raw) - raw->len))
			return bad_leaf(tree, block, "padding of a name", 1, 0, UHSFS_RULE_ZERO,
					fault);
		uhsfs_name_decode(raw, &claim);
		key_before = key;
		key = uhsfs_names_key(tree->geo, &claim);
		if (i && compare(key_before, &before, key, &claim) >= 0)
			return bad_leaf(tree, block, "key of a name", key, key_before,
					UHSFS_RULE_ORDER, fault);
		if (key < low || key > high)
			return bad_leaf(tree, block, "key of a name", key, key < low ? low : high,
					"must lie in the range the parent gives", fault);
		before = claim;
		at += size;
	}
	if (at != used)
		return bad_leaf(tree, block, "used", used, at, UHSFS_RULE_EQUAL, fault);
	return 0;
}

/* Where the records of a leaf begin; at[count] is the end. */
struct leaf_index {
	u32 count;
	u16 at[LEAF_MAX + 1];
};

static void index_leaf(const struct uhsfs_tree_node *leaf, struct leaf_index *index)
{
	u32 used = le16_to_cpu(leaf->used), at = 0;

	index->count = 0;
	while (at < used && index->count < LEAF_MAX) {
		index->at[index->count++] = (u16)at;
		at += uhsfs_name_size(record_at(leaf, at)->len);
	}
	index->at[index->count] = (u16)at;
}

/* Record i and its key. */
static u64 record_key(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *leaf, u32 offset,
		      struct uhsfs_claim *claim)
{
	uhsfs_name_decode(record_at(leaf, offset), claim);
	return uhsfs_names_key(tree->geo, claim);
}

static void leaf_keys(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *node, u64 *first,
		      u64 *last)
{
	u32 used = le16_to_cpu(node->used), at = 0, next = 0;
	struct uhsfs_claim claim;

	*first = record_key(tree, node, 0, &claim);
	while (next < used) {
		at = next;
		next += uhsfs_name_size(record_at(node, at)->len);
	}
	*last = record_key(tree, node, at, &claim);
}

const struct uhsfs_tree_type uhsfs_names_type = {
	.object = "names tree node",
	.magic = UHSFS_TAG_NAMES,
	.check_leaf = check_leaf,
	.leaf_keys = leaf_keys,
};

/* True if the claim's parent and name are there; *pos: where they are or belong. */
static bool locate(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *leaf,
		   const struct leaf_index *index, u64 key, const struct uhsfs_claim *claim,
		   u32 *pos)
{
	u32 low = 0, high = index->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;
		struct uhsfs_claim found;
		u64 found_key = record_key(tree, leaf, index->at[middle], &found);
		int result = compare(found_key, &found, key, claim);

		if (!result) {
			*pos = middle;
			return true;
		}
		if (result < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*pos = low;
	return false;
}

static void put_record(struct uhsfs_tree_node *leaf, u32 offset, const struct uhsfs_claim *claim)
{
	u32 used = le16_to_cpu(leaf->used), size = uhsfs_name_size(claim->len);
	u8 *at = leaf->bytes + offset;

	memmove(at + size, at, used - offset);
	memset(at, 0, size);
	uhsfs_name_encode(claim, (struct uhsfs_name *)at);
	leaf->used = cpu_to_le16((u16)(used + size));
	leaf->count = cpu_to_le16((u16)(le16_to_cpu(leaf->count) + 1));
}

static void remove_record(struct uhsfs_tree_node *leaf, u32 offset)
{
	u32 used = le16_to_cpu(leaf->used), size = uhsfs_name_size(record_at(leaf, offset)->len);
	u8 *at = leaf->bytes + offset;

	memmove(at, at + size, used - offset - size);
	memset(leaf->bytes + used - size, 0, size);
	leaf->used = cpu_to_le16((u16)(used - size));
	leaf->count = cpu_to_le16((u16)(le16_to_cpu(leaf->count) - 1));
}

/* ---- splitting a leaf ----------------------------------------------------------------- */

/*
 * A leaf and a new record at `pos` are cut into two: the first `cut` records of the
 * sequence that they make go left.
 */
struct cut {
	u32 cut;
	u64 key;	/* of the first record to the right */
};

/*
 * The cut between two different keys, with both halves fitting, that is nearest to the
 * middle; a leaf that grows at its end is cut there.
 */
static bool choose_cut(const struct uhsfs_tree *tree, const struct uhsfs_tree_node *leaf,
		       const struct leaf_index *index, u32 pos, u64 new_key, u32 new_size,
		       struct cut *best)
{
	u32 total = index->at[index->count] + new_size, left = 0, best_distance = U32_MAX;
	u64 key = 0, key_before;

	for (u32 i = 0, old = 0; i <= index->count; i++) {
		struct uhsfs_claim claim;
		u32 distance, size;

		key_before = key;
		if (i == pos) {
			key = new_key;
			size = new_size;
		} else {
			key = record_key(tree, leaf, index->at[old], &claim);
			size = (u32)(index->at[old + 1] - index->at[old]);
			old++;
		}
		distance = left * 2 > total ? left * 2 - total : total - left * 2;
		if (i && key != key_before && left <= UHSFS_TREE_PAYLOAD &&
		    total - left <= UHSFS_TREE_PAYLOAD && distance < best_distance) {
			best->cut = i;
			best->key = key;
			best_distance = distance;
		}
		left += size;
	}
	return best_distance != U32_MAX;
}

/* Split the touched leaf and put the claim into its half. */
static void split_and_put(struct uhsfs_tree *tree, struct uhsfs_tree_path *path,
			  const struct leaf_index *index, u32 pos, const struct cut *cut,
			  const struct uhsfs_claim *claim)
{
	struct uhsfs_tree_node *left = uhsfs_tree_leaf(path), *right;
	bool goes_right = cut->cut <= pos;
	u32 keep = goes_right ? cut->cut : cut->cut - 1;

	right = uhsfs_tree_split(tree, path, keep, index->at[keep], cut->key);
	if (goes_right)
		put_record(right, (u32)(index->at[pos] - index->at[keep]), claim);
	else
		put_record(left, index->at[pos], claim);
}

/* ---- operations ------------------------------------------------------------------------- */

void uhsfs_names_init(struct uhsfs_names *names, const struct uhsfs_geometry *geo,
		      const struct uhsfs_tree_ops *ops, void *ctx, u64 ino, u32 gen,
		      const struct uhsfs_names_root *root)
{
	memset(names, 0, sizeof(*names));
	names->tree.type = &uhsfs_names_type;
	names->tree.ops = ops;
	names->tree.ctx = ctx;
	names->tree.geo = geo;
	names->tree.owner_ino = ino;
	names->tree.owner_gen = gen;
	if (root) {
		names->tree.root = le64_to_cpu(root->block);
		names->tree.depth = le16_to_cpu(root->depth);
		names->tree.count = le32_to_cpu(root->count);
	}
}

void uhsfs_names_put_root(const struct uhsfs_names *names, struct uhsfs_names_root *root)
{
	memset(root, 0, sizeof(*root));
	root->block = cpu_to_le64(names->tree.root);
	root->depth = cpu_to_le16((u16)names->tree.depth);
	root->count = cpu_to_le32((u32)names->tree.count);
}

/* Where a claim is or belongs. */
struct place {
	struct uhsfs_tree_path path;
	u64 key;
	u32 pos;
};

/* 1: it is there; 0: not; -ENOENT: the tree is empty. */
static int find_place(struct uhsfs_names *names, const struct uhsfs_claim *claim,
		      struct place *place, struct leaf_index *index)
{
	int err;

	place->key = uhsfs_names_key(names->tree.geo, claim);
	err = uhsfs_tree_descend(&names->tree, place->key, &place->path);
	if (err)
		return err;
	index_leaf(uhsfs_tree_leaf(&place->path), index);
	return locate(&names->tree, uhsfs_tree_leaf(&place->path), index, place->key, claim,
		      &place->pos);
}

int uhsfs_names_find(struct uhsfs_names *names, const struct uhsfs_claim *claim, u64 *name_seq)
{
	struct leaf_index index;
	struct place place;
	int found = find_place(names, claim, &place, &index);

	if (found <= 0)
		return found == -ENOENT ? 0 : found;
	*name_seq = le64_to_cpu(record_at(uhsfs_tree_leaf(&place.path),
					  index.at[place.pos])->name_seq);
	return 1;
}

static bool claim_ok(const struct uhsfs_claim *claim)
{
	return claim->parent_ino && uhsfs_name_legal(claim->name, claim->len);
}

static int insert_first(struct uhsfs_tree *tree, const struct uhsfs_claim *claim)
{
	u32 kept = tree->spares;
	int err = uhsfs_tree_reserve(tree, 1);

	if (err)
		return err;
	put_record(uhsfs_tree_append(tree, 0), 0, claim);
	tree->count = 1;
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return 0;
}

int uhsfs_names_insert(struct uhsfs_names *names, const struct uhsfs_claim *claim)
{
	struct uhsfs_tree *tree = &names->tree;
	u32 kept = tree->spares, size, need;
	struct leaf_index index;
	struct place place;
	struct cut cut;
	bool full;
	int err;

	if (!claim_ok(claim))
		return -EINVAL;
	if (tree->count >= UHSFS_LINK_MAX)
		return -EMLINK;
	err = find_place(names, claim, &place, &index);
	if (err == -ENOENT)
		return insert_first(tree, claim);
	if (err)
		return err > 0 ? -EEXIST : err;
	size = uhsfs_name_size(claim->len);
	need = uhsfs_tree_stale(tree, &place.path);
	full = index.at[index.count] + size > UHSFS_TREE_PAYLOAD;
	if (full) {
		if (!choose_cut(tree, uhsfs_tree_leaf(&place.path), &index, place.pos, place.key,
				size, &cut))
			return -ENOSPC;
		need += tree->depth + 1;
		err = uhsfs_tree_may_grow(tree);
	}
	if (!err)
		err = uhsfs_tree_reserve(tree, need);
	if (err)
		return err;
	uhsfs_tree_touch(tree, &place.path, 0, place.key);
	if (full)
		split_and_put(tree, &place.path, &index, place.pos, &cut, claim);
	else
		put_record(uhsfs_tree_leaf(&place.path), index.at[place.pos], claim);
	tree->count++;
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return 0;
}

int uhsfs_names_remove(struct uhsfs_names *names, const struct uhsfs_claim *claim)
{
	struct uhsfs_tree *tree = &names->tree;
	u32 kept = tree->spares;
	struct leaf_index index;
	struct place place;
	int err = find_place(names, claim, &place, &index);

	if (err <= 0)
		return err ? err : -ENOENT;
	err = uhsfs_tree_reserve(tree, uhsfs_tree_stale(tree, &place.path));
	if (err)
		return err;
	if (index.count == 1) {
		uhsfs_tree_drop(tree, &place.path);
	} else {
		uhsfs_tree_touch(tree, &place.path, 0, place.key);
		remove_record(uhsfs_tree_leaf(&place.path), index.at[place.pos]);
		uhsfs_tree_balance(tree, &place.path);
	}
	tree->count--;
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return 0;
}

/* Only the name_seq changes. */
static int replace_seq(struct uhsfs_tree *tree, struct place *place, u32 offset, u64 name_seq)
{
	u32 kept = tree->spares;
	int err = uhsfs_tree_reserve(tree, uhsfs_tree_stale(tree, &place->path));

	if (err)
		return err;
	uhsfs_tree_touch(tree, &place->path, 0, place->key);
	((struct uhsfs_name *)(uhsfs_tree_leaf(&place->path)->bytes + offset))->name_seq =
		cpu_to_le64(name_seq);
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return 0;
}

int uhsfs_names_replace(struct uhsfs_names *names, const struct uhsfs_claim *old,
			const struct uhsfs_claim *new_claim)
{
	struct uhsfs_tree *tree = &names->tree;
	u32 kept = tree->spares;
	struct leaf_index index;
	struct place place;
	int err;

	if (!claim_ok(new_claim))
		return -EINVAL;
	err = find_place(names, old, &place, &index);
	if (err <= 0)
		return err ? err : -ENOENT;
	if (!uhsfs_names_compare(tree->geo, old, new_claim))
		return replace_seq(tree, &place, index.at[place.pos], new_claim->name_seq);
	/*
	 * With enough spares and all nodes read, the removal after the insertion cannot
	 * fail.  The copies of both ways, and the splits of the insertion.
	 */
	err = uhsfs_tree_reserve(tree, 3 * tree->depth + 1);
	if (err)
		return err;
	err = uhsfs_names_insert(names, new_claim);
	if (!err) {
		err = uhsfs_names_remove(names, old);
		uhsfs_assert(!err);
	}
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return err;
}

/* ---- whole trees -------------------------------------------------------------------------- */

/* The end of the leaf that begins with claim `start`: as much as fits, cut between keys. */
static u64 leaf_end(const struct uhsfs_geometry *geo, const struct uhsfs_claim *claims, u64 n,
		    u64 start)
{
	u64 key = 0, end = start;
	u32 bytes = 0;

	for (u64 i = start; i < n; i++) {
		u64 key_before = key;

		key = uhsfs_names_key(geo, &claims[i]);
		if (i > start && key != key_before)
			end = i;
		bytes += uhsfs_name_size(claims[i].len);
		if (bytes > UHSFS_TREE_PAYLOAD)
			return end;
	}
	return n;
}

int uhsfs_names_load(struct uhsfs_names *names, const struct uhsfs_claim *claims, u64 n)
{
	struct uhsfs_tree *tree = &names->tree;
	u32 kept = tree->spares;
	u64 leaves = 0, end;
	int err;

	if (!n || n > UHSFS_LINK_MAX || tree->depth)
		return -EINVAL;
	for (u64 i = 0; i < n; i++)
		if (!claim_ok(&claims[i]) ||
		    (i && uhsfs_names_compare(tree->geo, &claims[i - 1], &claims[i]) >= 0))
			return -EINVAL;
	for (u64 i = 0; i < n; i = end, leaves++) {
		end = leaf_end(tree->geo, claims, n, i);
		if (end == i)
			return -ENOSPC;
	}
	err = uhsfs_tree_reserve(tree, (u32)uhsfs_tree_nodes(leaves));
	if (err)
		return err;
	for (u64 i = 0; i < n;) {
		u64 key = uhsfs_names_key(tree->geo, &claims[i]);
		struct uhsfs_tree_node *leaf = uhsfs_tree_append(tree, key);

		for (end = leaf_end(tree->geo, claims, n, i); i < end; i++)
			put_record(leaf, le16_to_cpu(leaf->used), &claims[i]);
	}
	tree->count = n;
	uhsfs_tree_release(tree, min_t(u32, kept, tree->spares));
	return 0;
}

struct walk_names {
	const struct uhsfs_names_visitor *visitor;
	u64 count;
};

static int walk_node(struct uhsfs_tree *tree, void *ctx, u64 block,
		     const struct uhsfs_tree_node *node)
{
	struct walk_names *walk = ctx;
	const struct uhsfs_names_visitor *v = walk->visitor;
	u32 used = le16_to_cpu(node->used);
	int err = v->node ? v->node(v->ctx, block) : 0;

	(void)tree;
	for (u32 at = 0; !err && at < used;) {
		struct uhsfs_claim claim;

		uhsfs_name_decode(record_at(node, at), &claim);
		at += uhsfs_name_size(claim.len);
		walk->count++;
		err = v->name ? v->name(v->ctx, &claim) : 0;
	}
	return err;
}

static int walk_damaged(void *ctx, u64 block, int err, const struct uhsfs_fault *fault)
{
	const struct uhsfs_names_visitor *v = ((struct walk_names *)ctx)->visitor;

	return v->damaged ? v->damaged(v->ctx, block, err, fault) : err;
}

int uhsfs_names_walk(struct uhsfs_names *names, const struct uhsfs_names_visitor *visitor,
		     u64 *count)
{
	struct walk_names walk = { .visitor = visitor };
	const struct uhsfs_tree_walk tree_walk = {
		.to = U64_MAX, .visit = walk_node, .damaged = walk_damaged, .ctx = &walk
	};
	int err = uhsfs_tree_visit(&names->tree, &tree_walk);

	*count = walk.count;
	return err;
}
