/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Slots: inode records and the blocks they stand in.
 *
 * A slot's image is read through a view (offsets of its TLV records, checked once) and
 * made by a builder (records in ascending order, so that one state has one image).
 * What one slot can prove by itself is checked here; what needs other blocks (trees,
 * ownership of blocks, names against directories) is fsck's and the owner's business.
 */
#ifndef UHSFS_SLOT_H
#define UHSFS_SLOT_H

#include "chunk.h"
#include "record.h"

UHSFS_BEGIN_DECLS

/* File type bits of mode, as in stat(2). */
#define UHSFS_S_IFMT   0170000
#define UHSFS_S_IFSOCK 0140000
#define UHSFS_S_IFLNK  0120000
#define UHSFS_S_IFREG  0100000
#define UHSFS_S_IFBLK  0060000
#define UHSFS_S_IFDIR  0040000
#define UHSFS_S_IFCHR  0020000
#define UHSFS_S_IFIFO  0010000

/* The header's values in memory. */
struct uhsfs_attr {
	u64 ino;
	u32 generation;
	u8 state; /* UHSFS_SLOT_... */
	u16 mode;
	u32 nlink;
	u32 uid, gid, projid;
	u32 flags;			/* UHSFS_INODE_... */
	u64 size;			/* bytes */
	u64 blocks;			/* device blocks */
	s64 atime, mtime, ctime, btime; /* nanoseconds since 1970 */
	u64 version;
	u64 name_seq_max;
	u64 seq;
	u64 nonce;
};

static inline bool uhsfs_is_dir(u16 mode)
{
	return (mode & UHSFS_S_IFMT) == UHSFS_S_IFDIR;
}

static inline bool uhsfs_is_reg(u16 mode)
{
	return (mode & UHSFS_S_IFMT) == UHSFS_S_IFREG;
}

static inline bool uhsfs_is_lnk(u16 mode)
{
	return (mode & UHSFS_S_IFMT) == UHSFS_S_IFLNK;
}

/* The DT_ value (readdir(3)) of a mode with a known file type, as it stands in entries. */
static inline u8 uhsfs_mode_dtype(u16 mode)
{
	return (u8)((mode & UHSFS_S_IFMT) >> 12);
}

/* A checked slot: points into the image, valid as long as that is. */
struct uhsfs_slot_view {
	const struct uhsfs_slot *raw;
	struct uhsfs_attr attr;
	/* By TLV type; value NULL: not there. */
	const void *value[UHSFS_TLV_TYPES];
	u16 len[UHSFS_TLV_TYPES];
};

/* What a slot must say of itself. */
struct uhsfs_slot_id {
	u64 ino;
	u64 block; /* the copy it was read from */
	u64 nonce; /* of its chunk */
};

/*
 * Check one slot of geo->slot_size bytes and fill in the view.  -EUCLEAN with the
 * fault; reads nothing past slot_size whatever the bytes are.
 */
int uhsfs_slot_parse(const struct uhsfs_geometry *geo, const void *slot,
		     const struct uhsfs_slot_id *id, struct uhsfs_slot_view *view,
		     struct uhsfs_fault *fault);

/*
 * Check a whole copy of a slot block, which is valid only as a whole: every slot by
 * itself and one block_seq for all.  first_ino: the inode of its first slot.  The
 * copy's seq for the choice between copies is its block_seq, in *block_seq.
 */
int uhsfs_slot_block_check(const struct uhsfs_geometry *geo, const void *image, u64 block,
			   u64 first_ino, u64 nonce, u64 *block_seq, struct uhsfs_fault *fault);

/* ---- building ------------------------------------------------------------- */

struct uhsfs_slot_builder {
	u8 *slot; /* slot_size bytes */
	u32 size;
	u32 used; /* bytes so far, header included */
	u16 last; /* newest type put */
};

/* Bytes that a TLV record with a value of len bytes takes. */
static inline u32 uhsfs_tlv_size(u32 len)
{
	return (u32)sizeof(struct uhsfs_tlv) + round_up(len, 8U);
}

/* Start an image in `slot` (zeroed here). */
void uhsfs_slot_begin(struct uhsfs_slot_builder *b, const struct uhsfs_geometry *geo, void *slot,
		      const struct uhsfs_attr *attr);

/* Bytes left for the value of one more record. */
u32 uhsfs_slot_room(const struct uhsfs_slot_builder *b);

/* Append a record; types must ascend.  -ENOSPC: it does not fit, nothing is changed. */
int uhsfs_slot_put(struct uhsfs_slot_builder *b, u16 type, const void *value, u32 len);

/* The same, but the caller fills in the len bytes that are returned (zeroed), or NULL. */
void *uhsfs_slot_reserve(struct uhsfs_slot_builder *b, u16 type, u32 len);

/* Complete the header.  The image is sealed with its block. */
void uhsfs_slot_finish(struct uhsfs_slot_builder *b);

/* A FREE slot. */
void uhsfs_slot_build_free(const struct uhsfs_geometry *geo, void *slot, u64 ino, u32 generation,
			   u64 name_seq_max, u64 nonce, u64 seq);

/*
 * Make an image of a whole slot block ready for writing to `block`: address, block_seq
 * and checksum of each of its slots.
 */
void uhsfs_slot_block_seal(const struct uhsfs_geometry *geo, void *image, u64 block, u64 block_seq);

UHSFS_END_DECLS

#endif /* UHSFS_SLOT_H */
