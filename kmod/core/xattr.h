/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Extended attributes.
 *
 * All attributes of an inode are one stream of entries (struct uhsfs_xattr), each
 * padded to 8 bytes, in ascending order of space, then name: one set of attributes has
 * one image.  A short stream stands in the slot.  A longer one is cut into blocks of
 * UHSFS_XATTR_PAYLOAD bytes: one block (depth 1), or an index block and up to
 * UHSFS_XATTR_INDEX_MAX blocks (depth 2).
 *
 *	slot: root {block, bytes, depth 2} -> index: [0] [1] [2]
 *	                                              |   |   |
 *	stream:  |---- 4032 bytes ----|---- 4032 bytes ----|-- rest --|
 *
 * Changes are made on the whole stream in a buffer; blocks are built anew from it,
 * copy-on-write, and durable before the slot that has their root (R2): that, and the
 * allocation of blocks, is the caller's business.
 *
 * A stream that comes from disk must be checked once with uhsfs_xattr_check(); the
 * other functions stay within their buffer for any bytes.
 */
#ifndef UHSFS_XATTR_H
#define UHSFS_XATTR_H

#include "fault.h"
#include "geometry.h"

UHSFS_BEGIN_DECLS

/* ---- streams ---------------------------------------------------------------- */

/* An attribute in memory.  name and value point into the stream it was read from. */
struct uhsfs_xattr_item {
	u8 space;		/* UHSFS_XATTR_... */
	u8 name_len;		/* 0 for the two ACLs */
	u32 value_len;
	const u8 *name;		/* without the space's prefix ("user.") */
	const u8 *value;
};

/* Bytes that an attribute takes in a stream. */
static inline u32 uhsfs_xattr_size(u8 name_len, u32 value_len)
{
	return (u32)round_up(sizeof(struct uhsfs_xattr) + name_len + value_len, sizeof(u64));
}

/* True for a known space and a name that it allows: none for ACLs, else no NUL in it. */
bool uhsfs_xattr_name_ok(u8 space, const u8 *name, size_t len);

/*
 * Check every byte of a stream of len bytes, at any alignment: entries complete, legal,
 * in ascending order (hence unique), padding zero.  object and id are for the fault.
 */
int uhsfs_xattr_check(const void *stream, u32 len, const char *object, u64 id,
		      struct uhsfs_fault *fault);

/*
 * The attribute at offset *at, which moves to the next one; start with 0.  False
 * behind the last one.
 */
bool uhsfs_xattr_next(const void *stream, u32 len, u32 *at, struct uhsfs_xattr_item *item);

/* 0 and the attribute, or -ENODATA. */
int uhsfs_xattr_find(const void *stream, u32 len, u8 space, const u8 *name, u8 name_len,
		     struct uhsfs_xattr_item *item);

#define UHSFS_XATTR_CREATE	1	/* must not exist, as XATTR_CREATE of setxattr(2) */
#define UHSFS_XATTR_REPLACE	2	/* must exist, as XATTR_REPLACE */

/*
 * Set an attribute in a stream of *len <= capacity bytes in a buffer of capacity bytes;
 * name and value of the item lie outside the buffer.  Bytes that the stream gives up
 * are zeroed.  On an error nothing is changed:
 * -EINVAL	space or name is not legal
 * -E2BIG	the value is longer than UHSFS_XATTR_SIZE_MAX
 * -EEXIST	flags have CREATE and it exists
 * -ENODATA	flags have REPLACE and it does not exist
 * -ENOSPC	the stream would exceed capacity or UHSFS_XATTR_BYTES_MAX
 */
int uhsfs_xattr_set(void *stream, u32 *len, u32 capacity, const struct uhsfs_xattr_item *item,
		    u32 flags);

/* Remove an attribute, or -ENODATA.  Bytes that the stream gives up are zeroed. */
int uhsfs_xattr_remove(void *stream, u32 *len, u8 space, const u8 *name, u8 name_len);

/* ---- blocks --------------------------------------------------------------------- */

/* Blocks with a stream's bytes: 0 for an empty one. */
static inline u32 uhsfs_xattr_data_blocks(u32 bytes)
{
	return DIV_ROUND_UP(bytes, UHSFS_XATTR_PAYLOAD);
}

/* All blocks a stream takes, the index included. */
static inline u32 uhsfs_xattr_blocks(u32 bytes)
{
	u32 data = uhsfs_xattr_data_blocks(bytes);

	return data > 1 ? data + 1 : data;
}

struct uhsfs_xattr_place {
	u64 block;		/* data block (depth 1) or index (depth 2) */
	u32 bytes;		/* of the stream, 1 to UHSFS_XATTR_BYTES_MAX */
	u16 depth;
};

/* Where the blocks belong: what their headers say. */
struct uhsfs_xattr_owner {
	u64 ino;
	u32 gen;
};

void uhsfs_xattr_root_encode(struct uhsfs_xattr_root *root, u64 block, u32 bytes);

/* Decode and check the value of a TLV of len bytes at any alignment, in slot ino. */
int uhsfs_xattr_root_decode(const void *value, size_t len, const struct uhsfs_geometry *geo,
			    u64 ino, struct uhsfs_xattr_place *place, struct uhsfs_fault *fault);

/*
 * Build data block i < uhsfs_xattr_data_blocks(bytes) of a stream, sealed, to be
 * written to `block`.
 */
void uhsfs_xattr_build(struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
		       const struct uhsfs_xattr_owner *owner, u64 block, u64 seq,
		       const void *stream, u32 bytes, u32 i);

/* Build the index of count data blocks, 2 to UHSFS_XATTR_INDEX_MAX, in stream order. */
void uhsfs_xattr_build_index(struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			     const struct uhsfs_xattr_owner *owner, u64 block, u64 seq,
			     const u64 *data, u32 count);

/* Check the index of a stream of that many bytes, as read from `block`. */
int uhsfs_xattr_index_check(const struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			    const struct uhsfs_xattr_owner *owner, u64 block, u32 bytes,
			    struct uhsfs_fault *fault);

/* Address of data block i, of a checked index. */
u64 uhsfs_xattr_index_get(const struct uhsfs_xattr_block *b, u32 i);

/* Check data block i of a stream of that many bytes, as read from `block`. */
int uhsfs_xattr_data_check(const struct uhsfs_xattr_block *b, const struct uhsfs_geometry *geo,
			   const struct uhsfs_xattr_owner *owner, u64 block, u32 bytes, u32 i,
			   struct uhsfs_fault *fault);

/*
 * Copy checked data block i to its place in a stream buffer of `bytes` bytes.  When all
 * blocks are there, uhsfs_xattr_check() decides about the stream.
 */
void uhsfs_xattr_collect(void *stream, u32 bytes, u32 i, const struct uhsfs_xattr_block *b);

UHSFS_END_DECLS

#endif /* UHSFS_XATTR_H */
