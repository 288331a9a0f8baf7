// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Extended attributes: see xattr.h for the idea.  First streams, then blocks.
 */
#include "xattr.h"

#include "bytes.h"
#include "le.h"
#include "record.h"

#define OBJECT	"xattr block"
#define HEAD	((u32)sizeof(struct uhsfs_xattr))

static_assert(sizeof(struct uhsfs_xattr) == 8);
static_assert(sizeof(struct uhsfs_xattr_block) == UHSFS_BLOCK_SIZE);
static_assert(UHSFS_XATTR_INDEX_MAX * UHSFS_XATTR_PAYLOAD == UHSFS_XATTR_BYTES_MAX);

/* ---- streams ---------------------------------------------------------------- */

static bool is_acl(u8 space)
{
	return space == UHSFS_XATTR_ACL_ACCESS || space == UHSFS_XATTR_ACL_DEFAULT;
}

bool uhsfs_xattr_name_ok(u8 space, const u8 *name, size_t len)
{
	if (space < UHSFS_XATTR_USER || space >= UHSFS_XATTR_SPACES)
		return false;
	if (is_acl(space))
		return !len;
	return len >= 1 && len <= U8_MAX && !memchr(name, '\0', len);
}

/*
 * The entry at an offset, if it is complete with its padding; *size is what it takes.
 * Bytes are read one field at a time, as a stream may have any alignment.
 */
static bool entry_at(const u8 *stream, u32 len, u32 at, struct uhsfs_xattr_item *item, u32 *size)
{
	const u8 *entry;
	u32 left;

	if (at >= len || len - at < HEAD)
		return false;
	left = len - at;
	entry = stream + at;	/* an empty stream may be NULL */
	item->space = entry[offsetof(struct uhsfs_xattr, space)];
	item->name_len = entry[offsetof(struct uhsfs_xattr, name_len)];
	item->value_len = uhsfs_get_le32(entry + offsetof(struct uhsfs_xattr, value_len));
	if (item->value_len > UHSFS_XATTR_SIZE_MAX)
		return false;
	*size = uhsfs_xattr_size(item->name_len, item->value_len);
	if (*size > left)
		return false;
	item->name = entry + HEAD;
	item->value = item->name + item->name_len;
	return true;
}

/* Order of streams: by space, then name bytes, then name length. */
static int compare(const struct uhsfs_xattr_item *a, u8 space, const u8 *name, u8 name_len)
{
	int order;

	if (a->space != space)
		return a->space < space ? -1 : 1;
	order = memcmp(a->name, name, min_t(u8, a->name_len, name_len));
	if (order)
		return order;
	return (int)a->name_len - (int)name_len;
}

static int entry_check(const u8 *stream, u32 len, u32 at, const char *object, u64 id,
		       struct uhsfs_xattr_item *item, struct uhsfs_fault *fault)
{
	const u8 *entry = stream + at;
	u32 left = len - at, size = 0, end;

	if (left < HEAD)
		return uhsfs_bad(fault, object, id, "xattr.length", left, HEAD,
				 UHSFS_RULE_AT_LEAST);
	if (!entry_at(stream, len, at, item, &size)) {
		if (item->value_len > UHSFS_XATTR_SIZE_MAX)
			return uhsfs_bad(fault, object, id, "xattr.value_len", item->value_len,
					 UHSFS_XATTR_SIZE_MAX, UHSFS_RULE_AT_MOST);
		return uhsfs_bad(fault, object, id, "xattr.length", left, size,
				 UHSFS_RULE_AT_LEAST);
	}
	if (item->space < UHSFS_XATTR_USER || item->space >= UHSFS_XATTR_SPACES)
		return uhsfs_bad(fault, object, id, "xattr.space", item->space,
				 UHSFS_XATTR_SPACES - 1, UHSFS_RULE_KNOWN);
	if (!uhsfs_xattr_name_ok(item->space, item->name, item->name_len))
		return uhsfs_bad(fault, object, id, "xattr.name", at, item->name_len,
				 "must be a legal name");
	if (uhsfs_get_le16(entry + offsetof(struct uhsfs_xattr, reserved)))
		return uhsfs_bad(fault, object, id, "xattr.reserved", at, 0, UHSFS_RULE_ZERO);
	end = HEAD + item->name_len + item->value_len;
	if (!uhsfs_is_zero(entry + end, size - end))
		return uhsfs_bad(fault, object, id, "xattr.padding", at, 0, UHSFS_RULE_ZERO);
	return 0;
}

int uhsfs_xattr_check(const void *stream, u32 len, const char *object, u64 id,
		      struct uhsfs_fault *fault)
{
	struct uhsfs_xattr_item item, before = {};
	u32 at = 0;
	int err;

	if (len > UHSFS_XATTR_BYTES_MAX)
		return uhsfs_bad(fault, object, id, "xattr.bytes", len, UHSFS_XATTR_BYTES_MAX,
				 UHSFS_RULE_AT_MOST);
	while (at < len) {
		err = entry_check(stream, len, at, object, id, &item, fault);
		if (err)
			return err;
		if (at && compare(&before, item.space, item.name, item.name_len) >= 0)
			return uhsfs_bad(fault, object, id, "xattr.name", at, item.name_len,
					 UHSFS_RULE_ORDER);
		before = item;
		at += uhsfs_xattr_size(item.name_len, item.value_len);
	}
	return 0;
}

bool uhsfs_xattr_next(const void *stream, u32 len, u32 *at, struct uhsfs_xattr_item *item)
{
	u32 size;

	if (!entry_at(stream, len, *at, item, &size))
		return false;
	*at += size;
	return true;
}

/*
 * Whether an attribute exists.  *at: its place, or where it belongs; *size: the bytes
 * it takes there.
 */
static bool locate(const void *stream, u32 len, u8 space, const u8 *name, u8 name_len,
		   struct uhsfs_xattr_item *item, u32 *at, u32 *size)
{
	int order;

	*at = 0;
	while (entry_at(stream, len, *at, item, size)) {
		order = compare(item, space, name, name_len);
		if (!order)
			return true;
		if (order > 0)
			break;
		*at += *size;
	}
	*size = 0;
	return false;
}

int uhsfs_xattr_find(const void *stream, u32 len, u8 space, const u8 *name, u8 name_len,
		     struct uhsfs_xattr_item *item)
{
	u32 at, size;

	if (!locate(stream, len, space, name, name_len, item, &at, &size))
		return -ENODATA;
	return 0;
}

static void entry_write(u8 *entry, u32 size, const struct uhsfs_xattr_item *item)
{
	memset(entry, 0, size);
	entry[offsetof(struct uhsfs_xattr, space)] = item->space;
	entry[offsetof(struct uhsfs_xattr, name_len)] = item->name_len;
	uhsfs_put_le32(entry + offsetof(struct uhsfs_xattr, value_len), item->value_len);
	if (item->name_len)
		memcpy(entry + HEAD, item->name, item->name_len);
	if (item->value_len)
		memcpy(entry + HEAD + item->name_len, item->value, item->value_len);
}

int uhsfs_xattr_set(void *stream, u32 *len, u32 capacity, const struct uhsfs_xattr_item *item,
		    u32 flags)
{
	u8 *bytes = stream;
	struct uhsfs_xattr_item old;
	u32 at, old_size, size, limit;
	bool exists;

	if (!uhsfs_xattr_name_ok(item->space, item->name, item->name_len))
		return -EINVAL;
	if (item->value_len > UHSFS_XATTR_SIZE_MAX)
		return -E2BIG;
	exists = locate(stream, *len, item->space, item->name, item->name_len, &old, &at,
			&old_size);
	if (exists && (flags & UHSFS_XATTR_CREATE))
		return -EEXIST;
	if (!exists && (flags & UHSFS_XATTR_REPLACE))
		return -ENODATA;
	size = uhsfs_xattr_size(item->name_len, item->value_len);
	limit = min_t(u32, capacity, UHSFS_XATTR_BYTES_MAX);
	if (*len > limit || size > limit - (*len - old_size))
		return -ENOSPC;

	memmove(bytes + at + size, bytes + at + old_size, *len - at - old_size);
	entry_write(bytes + at, size, item);
	if (size < old_size)
		memset(bytes + *len - (old_size - size), 0, old_size - size);
	*len += size - old_size;
	return 0;
}

int uhsfs_xattr_remove(void *stream, u32 *len, u8 space, const u8 *name, u8 name_len)
{
	u8 *bytes = stream;
	struct uhsfs_xattr_item item;
	u32 at, size;

	if (!locate(stream, *len, space, name, name_len, &item, &at, &size))
		return -ENODATA;
	memmove(bytes + at, bytes + at + size, *len - at - size);
	*len -= size;
	memset(bytes + *len, 0, size);
	return 0;
}

/* ---- blocks --------------------------------------------------------------------- */

void uhsfs_xattr_root_encode(struct uhsfs_xattr_root *root, u64 block, u32 bytes)
{
	memset(root, 0, sizeof(*root));
	root->block = cpu_to_le64(block);
	root->bytes = cpu_to_le32(bytes);
	root->depth = cpu_to_le16(uhsfs_xattr_data_blocks(bytes) > 1 ? 2 : 1);
}

int uhsfs_xattr_root_decode(const void *value, size_t len, const struct uhsfs_geometry *geo,
			    u64 ino, struct uhsfs_xattr_place *place, struct uhsfs_fault *fault)
{
	static const char object[] = "xattr root";
	struct uhsfs_xattr_root root;
	u16 depth;

	if (len != sizeof(root))
		return uhsfs_bad(fault, object, ino, "length", len, sizeof(root), UHSFS_RULE_EQUAL);
	memcpy(&root, value, sizeof(root));
	place->block = le64_to_cpu(root.block);
	place->bytes = le32_to_cpu(root.bytes);
	place->depth = le16_to_cpu(root.depth);

	if (!uhsfs_space_ok(geo, place->block, 1))
		return uhsfs_bad(fault, object, ino, "block", place->block, geo->blocks,
				 UHSFS_RULE_SPACE);
	if (!place->bytes)
		return uhsfs_bad(fault, object, ino, "bytes", 0, 1, UHSFS_RULE_AT_LEAST);
	if (place->bytes > UHSFS_XATTR_BYTES_MAX)
		return uhsfs_bad(fault, object, ino, "bytes", place->bytes, UHSFS_XATTR_BYTES_MAX,
				 UHSFS_RULE_AT_MOST);
	depth = uhsfs_xattr_data_blocks(place->bytes) > 1 ? 2 : 1;
	if (place->depth != depth)
		return uhsfs_bad(fault, object, ino, "depth", place->depth, depth,
				 UHSFS_RULE_EQUAL);
	if (!uhsfs_is_zero(root.reserved, sizeof(root.reserved)))
		return uhsfs_bad(fault, object, ino, "reserved", uhsfs_get_le16(root.reserved), 0,
				 UHSFS_RULE_ZERO);
	return 0;
}

/* Bytes of the stream in data block i. */
static u32 part_of(u32 bytes, u32 i)
{
	return min_t(u32, bytes - i * UHSFS_XATTR_PAYLOAD, UHSFS_XATTR_PAYLOAD);
}

static struct uhsfs_record_id record_id(const struct uhsfs_geometry *geo,
					const struct uhsfs_xattr_owner *owner, u64 block)
{
	return (struct uhsfs_record_id) {
		.object = OBJECT,
		.magic = UHSFS_TAG_XATTR,
		.fsid = geo->fsid,
		.block = block,
		.owner_ino = owner->ino,
		.owner_gen = owner->gen,
	};
}

void uhsfs_xattr_build(struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
		       const struct uhsfs_xattr_owner *owner, u64 block, u64 seq,
		       const void *stream, u32 bytes, u32 i)
{
	const struct uhsfs_record_id id = record_id(geo, owner, block);
	u32 used;

	uhsfs_assert(i < uhsfs_xattr_data_blocks(bytes));
	used = part_of(bytes, i);
	memset(b, 0, sizeof(*b));
	uhsfs_record_init(&b->h, &id, seq);
	b->used = cpu_to_le32(used);
	b->position = cpu_to_le32(i);
	memcpy(b->bytes, (const u8 *)stream + i * UHSFS_XATTR_PAYLOAD, used);
	uhsfs_record_seal(b, sizeof(*b));
}

void uhsfs_xattr_build_index(struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			     const struct uhsfs_xattr_owner *owner, u64 block, u64 seq,
			     const u64 *data, u32 count)
{
	const struct uhsfs_record_id id = record_id(geo, owner, block);

	uhsfs_assert(count >= 2 && count <= UHSFS_XATTR_INDEX_MAX);
	count = min_t(u32, count, UHSFS_XATTR_INDEX_MAX);
	memset(b, 0, sizeof(*b));
	uhsfs_record_init(&b->h, &id, seq);
	b->level = cpu_to_le16(1);
	b->count = cpu_to_le16((u16)count);
	for (u32 i = 0; i < count; i++)
		b->index[i] = cpu_to_le64(data[i]);
	uhsfs_record_seal(b, sizeof(*b));
}

/* The record and what is left of the head; blocks have no siblings, hence no flags. */
static int head_check(const struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
		      const struct uhsfs_xattr_owner *owner, u64 block, u16 level, u16 count,
		      u32 used, u32 position, struct uhsfs_fault *fault)
{
	const struct uhsfs_record_id id = record_id(geo, owner, block);
	int err;

	err = uhsfs_record_check(b, sizeof(*b), &id, fault);
	if (err)
		return err;
	if (b->h.flags)
		return uhsfs_bad(fault, OBJECT, block, "flags", le32_to_cpu(b->h.flags), 0,
				 UHSFS_RULE_ZERO);
	if (le16_to_cpu(b->level) != level)
		return uhsfs_bad(fault, OBJECT, block, "level", le16_to_cpu(b->level), level,
				 UHSFS_RULE_EQUAL);
	if (le16_to_cpu(b->count) != count)
		return uhsfs_bad(fault, OBJECT, block, "count", le16_to_cpu(b->count), count,
				 UHSFS_RULE_EQUAL);
	if (le32_to_cpu(b->used) != used)
		return uhsfs_bad(fault, OBJECT, block, "used", le32_to_cpu(b->used), used,
				 UHSFS_RULE_EQUAL);
	if (le32_to_cpu(b->position) != position)
		return uhsfs_bad(fault, OBJECT, block, "position", le32_to_cpu(b->position),
				 position, UHSFS_RULE_EQUAL);
	if (b->reserved)
		return uhsfs_bad(fault, OBJECT, block, "reserved", le32_to_cpu(b->reserved), 0,
				 UHSFS_RULE_ZERO);
	return 0;
}

int uhsfs_xattr_index_check(const struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			    const struct uhsfs_xattr_owner *owner, u64 block, u32 bytes,
			    struct uhsfs_fault *fault)
{
	u32 count = min_t(u32, uhsfs_xattr_data_blocks(bytes), UHSFS_XATTR_INDEX_MAX);
	int err;

	err = head_check(b, geo, owner, block, 1, (u16)count, 0, 0, fault);
	if (err)
		return err;
	for (u32 i = 0; i < count; i++) {
		u64 data = le64_to_cpu(b->index[i]);

		if (!uhsfs_space_ok(geo, data, 1))
			return uhsfs_bad(fault, OBJECT, block, "index", data, geo->blocks,
					 UHSFS_RULE_SPACE);
		if (data == block)
			return uhsfs_bad(fault, OBJECT, block, "index", data, i,
					 "must not be the index itself");
		for (u32 j = 0; j < i; j++)
			if (b->index[j] == b->index[i])
				return uhsfs_bad(fault, OBJECT, block, "index", data, j,
						 "must not occur twice");
	}
	if (!uhsfs_is_zero(&b->index[count], (UHSFS_XATTR_INDEX_MAX - count) * sizeof(u64)))
		return uhsfs_bad(fault, OBJECT, block, "rest", count, 0, UHSFS_RULE_ZERO);
	return 0;
}

u64 uhsfs_xattr_index_get(const struct uhsfs_xattr_block *b, u32 i)
{
	uhsfs_assert(i < UHSFS_XATTR_INDEX_MAX);
	return le64_to_cpu(b->index[i]);
}

int uhsfs_xattr_data_check(const struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			   const struct uhsfs_xattr_owner *owner, u64 block, u32 bytes, u32 i,
			   struct uhsfs_fault *fault)
{
	u32 used;
	int err;

	uhsfs_assert(i < uhsfs_xattr_data_blocks(bytes));
	used = part_of(bytes, i);
	err = head_check(b, geo, owner, block, 0, 0, used, i, fault);
	if (err)
		return err;
	if (!uhsfs_is_zero(b->bytes + used, UHSFS_XATTR_PAYLOAD - used))
		return uhsfs_bad(fault, OBJECT, block, "rest", used, 0, UHSFS_RULE_ZERO);
	return 0;
}

void uhsfs_xattr_collect(void *stream, u32 bytes, u32 i, const struct uhsfs_xattr_block *b)
{
	uhsfs_assert(i < uhsfs_xattr_data_blocks(bytes));
	memcpy((u8 *)stream + i * UHSFS_XATTR_PAYLOAD, b->bytes, part_of(bytes, i));
}
