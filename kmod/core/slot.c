// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Slots: checking, viewing, building.
 *
 * An image may be hostile: every length is compared with what is left before it is
 * used, and a value is looked at only after its record's bounds are known.
 */
#include "slot.h"

#include "bytes.h"
#include "dir.h"
#include "extent.h"
#include "le.h"
#include "names.h"
#include "xattr.h"

static const char object[] = "slot";

static struct uhsfs_record_id record_id(const struct uhsfs_geometry *geo, u64 ino, u32 generation,
					u64 block)
{
	return (struct uhsfs_record_id) {
		.object = object,
		.magic = UHSFS_TAG_SLOT,
		.fsid = geo->fsid,
		.block = block,
		.owner_ino = ino,
		.owner_gen = generation,
	};
}

static void decode(const struct uhsfs_slot *raw, struct uhsfs_attr *attr)
{
	attr->ino = le64_to_cpu(raw->h.owner_ino);
	attr->generation = le32_to_cpu(raw->h.owner_gen);
	attr->state = raw->state;
	attr->mode = le16_to_cpu(raw->mode);
	attr->nlink = le32_to_cpu(raw->nlink);
	attr->uid = le32_to_cpu(raw->uid);
	attr->gid = le32_to_cpu(raw->gid);
	attr->projid = le32_to_cpu(raw->projid);
	attr->flags = le32_to_cpu(raw->flags);
	attr->size = le64_to_cpu(raw->size);
	attr->blocks = le64_to_cpu(raw->blocks);
	attr->atime = (s64)le64_to_cpu(raw->atime);
	attr->mtime = (s64)le64_to_cpu(raw->mtime);
	attr->ctime = (s64)le64_to_cpu(raw->ctime);
	attr->btime = (s64)le64_to_cpu(raw->btime);
	attr->version = le64_to_cpu(raw->version);
	attr->name_seq_max = le64_to_cpu(raw->name_seq_max);
	attr->seq = le64_to_cpu(raw->h.seq);
	attr->nonce = le64_to_cpu(raw->nonce);
}

static bool mode_known(u16 mode)
{
	switch (mode & UHSFS_S_IFMT) {
	case UHSFS_S_IFSOCK:
	case UHSFS_S_IFLNK:
	case UHSFS_S_IFREG:
	case UHSFS_S_IFBLK:
	case UHSFS_S_IFDIR:
	case UHSFS_S_IFCHR:
	case UHSFS_S_IFIFO:
		return true;
	default:
		return false;
	}
}

/* A FREE slot has nothing but its header's identity. */
static int check_free(const struct uhsfs_geometry *geo, const struct uhsfs_slot *raw, u64 ino,
		      struct uhsfs_fault *fault)
{
	struct uhsfs_slot expected;

	memset(&expected, 0, sizeof(expected));
	expected.h = raw->h;
	expected.block_seq = raw->block_seq;
	expected.nonce = raw->nonce;
	expected.name_seq_max = raw->name_seq_max;
	expected.state = raw->state;
	if (memcmp(raw, &expected, sizeof(expected)) ||
	    !uhsfs_is_zero((const u8 *)raw + sizeof(*raw), geo->slot_size - sizeof(*raw)))
		return uhsfs_bad(fault, object, ino, "body", 1, 0,
				 "a free slot must have no content");
	return 0;
}

/* Fill in value[] and len[]: order, bounds and padding of the TLV records. */
static int index_body(const struct uhsfs_geometry *geo, struct uhsfs_slot_view *view, u64 ino,
		      struct uhsfs_fault *fault)
{
	const u8 *body = (const u8 *)view->raw + UHSFS_SLOT_HEADER;
	u32 capacity = geo->slot_size - UHSFS_SLOT_HEADER;
	u32 end = le16_to_cpu(view->raw->body_len), at = 0;
	u16 last = 0;

	if (end > capacity || end % 8)
		return uhsfs_bad(fault, object, ino, "body_len", end, capacity,
				 "must be a multiple of 8 that fits the slot");
	while (at < end) {
		const struct uhsfs_tlv *tlv = (const void *)(body + at);
		u16 type, len;

		type = le16_to_cpu(tlv->type);
		len = le16_to_cpu(tlv->len);
		if (type <= last || type >= UHSFS_TLV_TYPES)
			return uhsfs_bad(fault, object, ino, "tlv.type", type, last,
					 "types must be known and ascend");
		if (tlv->reserved)
			return uhsfs_bad(fault, object, ino, "tlv.reserved",
					 le32_to_cpu(tlv->reserved), 0, UHSFS_RULE_ZERO);
		if (!len || uhsfs_tlv_size(len) > end - at)
			return uhsfs_bad(fault, object, ino, "tlv.len", len, end - at,
					 "record must not be empty and must fit the body");
		view->value[type] = body + at + sizeof(*tlv);
		view->len[type] = len;
		if (!uhsfs_is_zero(body + at + sizeof(*tlv) + len, round_up(len, 8U) - len))
			return uhsfs_bad(fault, object, ino, "tlv padding", 1, 0, UHSFS_RULE_ZERO);
		last = type;
		at += uhsfs_tlv_size(len);
	}
	if (!uhsfs_is_zero(body + end, capacity - end))
		return uhsfs_bad(fault, object, ino, "bytes after the body", 1, 0, UHSFS_RULE_ZERO);
	return 0;
}

static int check_size(const struct uhsfs_slot_view *view, u16 type, size_t size, const char *field,
		      struct uhsfs_fault *fault)
{
	if (view->value[type] && view->len[type] != size)
		return uhsfs_bad(fault, object, view->attr.ino, field, view->len[type], size,
				 UHSFS_RULE_EQUAL);
	return 0;
}

/* A root of a tree: its block, depth and count. */
static int check_root(const struct uhsfs_geometry *geo, u64 ino, const char *field, u64 block,
		      u32 depth, u64 count, struct uhsfs_fault *fault)
{
	if (!uhsfs_space_ok(geo, block, 1))
		return uhsfs_bad(fault, object, ino, field, block, geo->blocks, UHSFS_RULE_SPACE);
	if (!depth || depth > UHSFS_TREE_MAX_DEPTH)
		return uhsfs_bad(fault, object, ino, field, depth, UHSFS_TREE_MAX_DEPTH,
				 "depth must be 1 to the largest");
	if (!count)
		return uhsfs_bad(fault, object, ino, field, 0, 1, "a tree must not be empty");
	return 0;
}

/* Claims: the name, further names, an intent. */
static int check_names(const struct uhsfs_geometry *geo, const struct uhsfs_slot_view *view,
		       struct uhsfs_fault *fault)
{
	const struct uhsfs_names_root *root = view->value[UHSFS_TLV_NAMES];
	const struct uhsfs_name *name = view->value[UHSFS_TLV_NAME];
	u64 ino = view->attr.ino, names = 0;
	int err;

	if (name) {
		err = uhsfs_name_check(name, view->len[UHSFS_TLV_NAME], ino, fault);
		if (err)
			return err;
		if (view->len[UHSFS_TLV_NAME] != sizeof(*name) + name->len)
			return uhsfs_bad(fault, object, ino, "name.len", name->len,
					 view->len[UHSFS_TLV_NAME] - sizeof(*name),
					 UHSFS_RULE_EQUAL);
		if (le64_to_cpu(name->name_seq) > view->attr.name_seq_max)
			return uhsfs_bad(fault, object, ino, "name_seq",
					 le64_to_cpu(name->name_seq), view->attr.name_seq_max,
					 UHSFS_RULE_AT_MOST);
		names = 1;
	}
	err = check_size(view, UHSFS_TLV_NAMES, sizeof(*root), "names root", fault);
	if (err)
		return err;
	if (root) {
		err = check_root(geo, ino, "names root", le64_to_cpu(root->block),
				 le16_to_cpu(root->depth), le32_to_cpu(root->count), fault);
		if (err)
			return err;
		if (!name || !uhsfs_is_zero(root->reserved, sizeof(root->reserved)))
			return uhsfs_bad(fault, object, ino, "names root", 1, 0,
					 "needs a first name and zeros in reserved fields");
		if (uhsfs_is_dir(view->attr.mode))
			return uhsfs_bad(fault, object, ino, "names root", le32_to_cpu(root->count),
					 0, "a directory has one name");
		names += le32_to_cpu(root->count);
	}
	if (ino == UHSFS_INO_ROOT && names)
		return uhsfs_bad(fault, object, ino, "names", names, 0,
				 "the root directory has no name");
	if (names > UHSFS_LINK_MAX)
		return uhsfs_bad(fault, object, ino, "names", names, UHSFS_LINK_MAX,
				 UHSFS_RULE_AT_MOST);
	if (view->attr.nlink != names)
		return uhsfs_bad(fault, object, ino, "nlink", view->attr.nlink, names,
				 UHSFS_RULE_EQUAL);
	return 0;
}

static int check_intent(const struct uhsfs_slot_view *view, struct uhsfs_fault *fault)
{
	const struct uhsfs_intent *intent = view->value[UHSFS_TLV_INTENT];
	u64 ino = view->attr.ino;
	u16 len = view->len[UHSFS_TLV_INTENT];

	if (!intent)
		return 0;
	if (len < sizeof(*intent) || len != sizeof(*intent) + intent->len)
		return uhsfs_bad(fault, object, ino, "intent.len", len, sizeof(*intent),
				 UHSFS_RULE_EQUAL);
	if (intent->op != UHSFS_INTENT_EXCHANGE && intent->op != UHSFS_INTENT_WHITEOUT)
		return uhsfs_bad(fault, object, ino, "intent.op", intent->op, UHSFS_INTENT_WHITEOUT,
				 UHSFS_RULE_KNOWN);
	if (!uhsfs_is_zero(intent->reserved, sizeof(intent->reserved)) || intent->reserved1)
		return uhsfs_bad(fault, object, ino, "intent.reserved", 1, 0, UHSFS_RULE_ZERO);
	if (!intent->peer_ino || !intent->parent_ino || !intent->name_seq)
		return uhsfs_bad(fault, object, ino, "intent", 0, 1,
				 "peer, parent and name_seq must be set");
	if (!uhsfs_name_legal(intent->name, intent->len))
		return uhsfs_bad(fault, object, ino, "intent.name", intent->len, UHSFS_NAME_LEN,
				 "must be a legal file name");
	return 0;
}

/* Which kinds of content a file of this type may, must and must not have. */
static int check_content_kind(const struct uhsfs_slot_view *view, struct uhsfs_fault *fault)
{
	const struct uhsfs_attr *attr = &view->attr;
	bool dir = uhsfs_is_dir(attr->mode), reg = uhsfs_is_reg(attr->mode),
	     lnk = uhsfs_is_lnk(attr->mode);
	u16 type = attr->mode & UHSFS_S_IFMT;
	bool dev = type == UHSFS_S_IFCHR || type == UHSFS_S_IFBLK;
	bool has_inline = view->value[UHSFS_TLV_INLINE];
	bool has_extents = view->value[UHSFS_TLV_EXTENTS],
	     has_tree = view->value[UHSFS_TLV_EXTENT_ROOT];
	int contents = has_inline + has_extents + has_tree;

	if (contents > 1)
		return uhsfs_bad(fault, object, attr->ino, "content", (u64)contents, 1,
				 "must be inline, extents or a tree");
	if (has_inline && !reg && !lnk)
		return uhsfs_bad(fault, object, attr->ino, "inline data", type, UHSFS_S_IFREG,
				 "belongs to files and symlinks");
	if ((has_extents || has_tree) && !reg && !lnk && !dir)
		return uhsfs_bad(fault, object, attr->ino, "extents", type, UHSFS_S_IFREG,
				 "belong to files, directories and symlinks");
	if (dir != !!view->value[UHSFS_TLV_DIR])
		return uhsfs_bad(fault, object, attr->ino, "directory root", dir, !dir,
				 "belongs to directories, each has one");
	if (dir && !contents)
		return uhsfs_bad(fault, object, attr->ino, "directory", 0, 1, "must have a bucket");
	if (dev != !!view->value[UHSFS_TLV_DEVICE])
		return uhsfs_bad(fault, object, attr->ino, "device", dev, !dev,
				 "belongs to device files, each has one");
	if (lnk && !contents)
		return uhsfs_bad(fault, object, attr->ino, "symlink", 0, 1, "must have a target");
	if (view->value[UHSFS_TLV_XATTRS] && view->value[UHSFS_TLV_XATTR_ROOT])
		return uhsfs_bad(fault, object, attr->ino, "xattrs", 2, 1,
				 "must be in the slot or in blocks");
	return 0;
}

static int check_content_size(const struct uhsfs_slot_view *view, struct uhsfs_fault *fault)
{
	const struct uhsfs_attr *attr = &view->attr;

	if (attr->size > (u64)S64_MAX)
		return uhsfs_bad(fault, object, attr->ino, "size", attr->size, S64_MAX,
				 UHSFS_RULE_AT_MOST);
	if (view->value[UHSFS_TLV_INLINE] && attr->size != view->len[UHSFS_TLV_INLINE])
		return uhsfs_bad(fault, object, attr->ino, "size", attr->size,
				 view->len[UHSFS_TLV_INLINE], "must equal the inline data's");
	if (uhsfs_is_lnk(attr->mode) && (!attr->size || attr->size > UHSFS_SYMLINK_MAX))
		return uhsfs_bad(fault, object, attr->ino, "size", attr->size, UHSFS_SYMLINK_MAX,
				 "a symlink's must be 1 to the longest target");
	if (!uhsfs_is_reg(attr->mode) && !uhsfs_is_lnk(attr->mode) && attr->size)
		return uhsfs_bad(fault, object, attr->ino, "size", attr->size, 0,
				 "must be zero but for files and symlinks");
	return 0;
}

/* Values of the content records. */
static int check_content(const struct uhsfs_geometry *geo, const struct uhsfs_slot_view *view,
			 struct uhsfs_fault *fault)
{
	const struct uhsfs_extent_root *tree = view->value[UHSFS_TLV_EXTENT_ROOT];
	struct uhsfs_dir_info root;
	struct uhsfs_xattr_place place;
	bool dir = uhsfs_is_dir(view->attr.mode);
	u64 ino = view->attr.ino;
	int err;

	err = check_content_kind(view, fault);
	if (!err)
		err = check_content_size(view, fault);
	if (!err)
		err = check_size(view, UHSFS_TLV_DEVICE, sizeof(struct uhsfs_device), "device",
				 fault);
	if (!err)
		err = check_size(view, UHSFS_TLV_EXTENT_ROOT, sizeof(*tree), "extent root", fault);
	if (!err && dir)
		err = uhsfs_dir_root_decode(view->value[UHSFS_TLV_DIR], view->len[UHSFS_TLV_DIR],
					    ino, &root, fault);
	if (!err && view->value[UHSFS_TLV_EXTENTS])
		err = uhsfs_extents_check(geo, view->value[UHSFS_TLV_EXTENTS],
					  view->len[UHSFS_TLV_EXTENTS], dir, ino, fault);
	if (!err && tree) {
		err = check_root(geo, ino, "extent root", le64_to_cpu(tree->block),
				 le32_to_cpu(tree->depth), le64_to_cpu(tree->count), fault);
		if (!err && tree->reserved)
			err = uhsfs_bad(fault, object, ino, "extent root.reserved", 1, 0,
					UHSFS_RULE_ZERO);
	}
	if (!err && view->value[UHSFS_TLV_XATTRS])
		err = uhsfs_xattr_check(view->value[UHSFS_TLV_XATTRS], view->len[UHSFS_TLV_XATTRS],
					object, ino, fault);
	if (!err && view->value[UHSFS_TLV_XATTR_ROOT])
		err = uhsfs_xattr_root_decode(view->value[UHSFS_TLV_XATTR_ROOT],
					      view->len[UHSFS_TLV_XATTR_ROOT], geo, ino, &place,
					      fault);
	return err;
}

static int check_inode(const struct uhsfs_geometry *geo, struct uhsfs_slot_view *view,
		       struct uhsfs_fault *fault)
{
	const struct uhsfs_slot *raw = view->raw;
	const struct uhsfs_attr *attr = &view->attr;
	int err;

	if (attr->ino == UHSFS_INO_INVALID)
		return uhsfs_bad(fault, object, attr->ino, "state", attr->state, UHSFS_SLOT_FREE,
				 "the invalid inode must be free");
	if (!mode_known(attr->mode))
		return uhsfs_bad(fault, object, attr->ino, "mode", attr->mode, UHSFS_S_IFMT,
				 UHSFS_RULE_KNOWN);
	if (attr->flags & ~UHSFS_INODE_FLAGS)
		return uhsfs_bad(fault, object, attr->ino, "flags", attr->flags, UHSFS_INODE_FLAGS,
				 UHSFS_RULE_KNOWN);
	if (attr->blocks > geo->blocks && !(geo->ro_compat & UHSFS_RO_COMPAT_REFLINK))
		return uhsfs_bad(fault, object, attr->ino, "blocks", attr->blocks, geo->blocks,
				 UHSFS_RULE_AT_MOST);
	if (raw->reserved0 || !uhsfs_is_zero(raw->reserved1, sizeof(raw->reserved1)) ||
	    (raw->prev_image && !(geo->ro_compat & UHSFS_RO_COMPAT_SNAPSHOTS)))
		return uhsfs_bad(fault, object, attr->ino, "reserved", 1, 0, UHSFS_RULE_ZERO);
	if (attr->ino == UHSFS_INO_ROOT && !uhsfs_is_dir(attr->mode))
		return uhsfs_bad(fault, object, attr->ino, "mode", attr->mode, UHSFS_S_IFDIR,
				 "the root must be a directory");
	err = index_body(geo, view, attr->ino, fault);
	if (!err)
		err = check_names(geo, view, fault);
	if (!err)
		err = check_intent(view, fault);
	if (!err)
		err = check_content(geo, view, fault);
	return err;
}

int uhsfs_slot_parse(const struct uhsfs_geometry *geo, const void *slot,
		     const struct uhsfs_slot_id *id, struct uhsfs_slot_view *view,
		     struct uhsfs_fault *fault)
{
	const struct uhsfs_slot *raw = slot;
	struct uhsfs_record_id record =
		record_id(geo, id->ino, le32_to_cpu(raw->h.owner_gen), id->block);
	int err;

	memset(view, 0, sizeof(*view));
	view->raw = raw;
	err = uhsfs_record_check(slot, geo->slot_size, &record, fault);
	if (err)
		return err;
	decode(raw, &view->attr);
	if (view->attr.nonce != id->nonce)
		return uhsfs_bad(fault, object, id->ino, "nonce", view->attr.nonce, id->nonce,
				 UHSFS_RULE_EQUAL);
	switch (raw->state) {
	case UHSFS_SLOT_FREE:
		return check_free(geo, raw, id->ino, fault);
	case UHSFS_SLOT_INODE:
		return check_inode(geo, view, fault);
	default:
		return uhsfs_bad(fault, object, id->ino, "state", raw->state, UHSFS_SLOT_INODE,
				 UHSFS_RULE_KNOWN);
	}
}

int uhsfs_slot_block_check(const struct uhsfs_geometry *geo, const void *image, u64 block,
			   u64 first_ino, u64 nonce, u64 *block_seq, struct uhsfs_fault *fault)
{
	const u8 *bytes = image;
	const struct uhsfs_slot *lead = image;

	*block_seq = le64_to_cpu(lead->block_seq);
	for (u32 i = 0; i < geo->slots_per_block; i++) {
		const struct uhsfs_slot *raw = (const void *)(bytes + (size_t)i * geo->slot_size);
		struct uhsfs_slot_id id = {.ino = first_ino + i, .block = block, .nonce = nonce};
		struct uhsfs_slot_view view;
		int err;

		err = uhsfs_slot_parse(geo, raw, &id, &view, fault);
		if (err)
			return err;
		if (raw->block_seq != lead->block_seq)
			return uhsfs_bad(fault, object, id.ino, "block_seq",
					 le64_to_cpu(raw->block_seq), *block_seq, UHSFS_RULE_EQUAL);
		if (view.attr.seq > *block_seq)
			return uhsfs_bad(fault, object, id.ino, "seq", view.attr.seq, *block_seq,
					 UHSFS_RULE_AT_MOST);
	}
	return 0;
}

/* ---- building ------------------------------------------------------------- */

void uhsfs_slot_begin(struct uhsfs_slot_builder *b, const struct uhsfs_geometry *geo, void *slot,
		      const struct uhsfs_attr *attr)
{
	struct uhsfs_record_id id = record_id(geo, attr->ino, attr->generation, 0);
	struct uhsfs_slot *raw = slot;

	memset(slot, 0, geo->slot_size);
	uhsfs_record_init(&raw->h, &id, attr->seq);
	raw->nonce = cpu_to_le64(attr->nonce);
	raw->name_seq_max = cpu_to_le64(attr->name_seq_max);
	raw->size = cpu_to_le64(attr->size);
	raw->blocks = cpu_to_le64(attr->blocks);
	raw->atime = cpu_to_le64((u64)attr->atime);
	raw->mtime = cpu_to_le64((u64)attr->mtime);
	raw->ctime = cpu_to_le64((u64)attr->ctime);
	raw->btime = cpu_to_le64((u64)attr->btime);
	raw->mode = cpu_to_le16(attr->mode);
	raw->state = attr->state;
	raw->nlink = cpu_to_le32(attr->nlink);
	raw->uid = cpu_to_le32(attr->uid);
	raw->gid = cpu_to_le32(attr->gid);
	raw->projid = cpu_to_le32(attr->projid);
	raw->flags = cpu_to_le32(attr->flags);
	raw->version = cpu_to_le64(attr->version);
	b->slot = slot;
	b->size = geo->slot_size;
	b->used = UHSFS_SLOT_HEADER;
	b->last = 0;
}

u32 uhsfs_slot_room(const struct uhsfs_slot_builder *b)
{
	u32 left = b->size - b->used;

	return left > sizeof(struct uhsfs_tlv) ? left - (u32)sizeof(struct uhsfs_tlv) : 0;
}

void *uhsfs_slot_reserve(struct uhsfs_slot_builder *b, u16 type, u32 len)
{
	struct uhsfs_tlv *tlv = (void *)(b->slot + b->used);

	uhsfs_assert(type > b->last && type < UHSFS_TLV_TYPES && len);
	if (len > uhsfs_slot_room(b))
		return NULL;
	tlv->type = cpu_to_le16(type);
	tlv->len = cpu_to_le16((u16)len);
	b->used += uhsfs_tlv_size(len);
	b->last = type;
	return tlv + 1;
}

int uhsfs_slot_put(struct uhsfs_slot_builder *b, u16 type, const void *value, u32 len)
{
	void *to = uhsfs_slot_reserve(b, type, len);

	if (!to)
		return -ENOSPC;
	memcpy(to, value, len);
	return 0;
}

void uhsfs_slot_finish(struct uhsfs_slot_builder *b)
{
	struct uhsfs_slot *raw = (void *)b->slot;

	raw->body_len = cpu_to_le16((u16)(b->used - UHSFS_SLOT_HEADER));
}

void uhsfs_slot_build_free(const struct uhsfs_geometry *geo, void *slot, u64 ino, u32 generation,
			   u64 name_seq_max, u64 nonce, u64 seq)
{
	struct uhsfs_attr attr;
	struct uhsfs_slot_builder b;

	memset(&attr, 0, sizeof(attr));
	attr.ino = ino;
	attr.generation = generation;
	attr.state = UHSFS_SLOT_FREE;
	attr.name_seq_max = name_seq_max;
	attr.nonce = nonce;
	attr.seq = seq;
	uhsfs_slot_begin(&b, geo, slot, &attr);
	uhsfs_slot_finish(&b);
}

void uhsfs_slot_block_seal(const struct uhsfs_geometry *geo, void *image, u64 block, u64 block_seq)
{
	u8 *bytes = image;

	for (u32 i = 0; i < geo->slots_per_block; i++) {
		struct uhsfs_slot *raw = (void *)(bytes + (size_t)i * geo->slot_size);

		raw->h.block = cpu_to_le64(block);
		raw->block_seq = cpu_to_le64(block_seq);
		uhsfs_record_seal(raw, geo->slot_size);
	}
}
