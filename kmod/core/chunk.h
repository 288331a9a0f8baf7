/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Inode chunks: where a slot stands, chunk descriptors, nonces.
 *
 * ino -> chunk number -> descriptor in the table (its place follows from the number)
 * -> first block of the chunk -> home of the slot block -> record in it.
 */
#ifndef UHSFS_CHUNK_H
#define UHSFS_CHUNK_H

#include "map.h"
#include "record.h"
#include "super.h"

UHSFS_BEGIN_DECLS

struct uhsfs_chunk_info {
	u64 block; /* first block; 0: never made */
	u64 nonce;
	u64 in_use; /* bit per slot */
	u32 incarnation;
	u32 gen_base;
	u32 birth;   /* epoch */
	u16 written; /* bit per slot home */
};

/* Where something about a chunk stands: first block of a home, and the place in it. */
struct uhsfs_place {
	u64 home;
	u32 index; /* descriptor or bit within the block */
	u64 first; /* chunk that index 0 of the block belongs to */
};

/* False if the chunk number lies outside all segments. */
bool uhsfs_chunk_table_place(const struct uhsfs_super_info *info, u64 chunk,
			     struct uhsfs_place *place);

/* Which of the three maps: 0 and 1 the intent maps, 2 the suspect map. */
#define UHSFS_MAP_WHICH_SUSPECT 2
bool uhsfs_chunk_map_place(const struct uhsfs_super_info *info, u64 chunk, unsigned int which,
			   struct uhsfs_place *place);

/*
 * Check what a map block of chunks says against where it stands, after uhsfs_map_check()
 * and the choice of its copy: that is bits and epochs that no torn write explains.
 * - The block whose first chunk is `first` exists: -EINVAL if not.
 * - No bit is set past the last chunk of the segment.
 * - Epoch e is in intent map e & 1.  Epoch 0, in either: never used.
 * - No epoch is newer than that of the superblock's seq, and a live one (newer than E) is
 *   E + 1 or E + 2: the map that is open and the one before.
 */
int uhsfs_chunk_map_check(const struct uhsfs_map_block *map, const struct uhsfs_super_info *info,
			  unsigned int which, u64 first, struct uhsfs_fault *fault);

/*
 * True if nothing of the chunk was ever used: it was born after the checkpoint (epoch: E)
 * and no intent map marks it (marked: by a live one).
 */
static inline bool uhsfs_chunk_void(const struct uhsfs_chunk_info *chunk, u32 epoch, bool marked)
{
	return chunk->block && chunk->birth > epoch && !marked;
}

/* First block of the home that holds slot `ino`, given the chunk's first block. */
u64 uhsfs_slot_home(const struct uhsfs_geometry *geo, u64 chunk_block, u64 ino);

/* Byte offset of slot `ino` within its block. */
u32 uhsfs_slot_offset(const struct uhsfs_geometry *geo, u64 ino);

/* Ties slots to one incarnation of a chunk; never 0. */
u64 uhsfs_chunk_nonce(const struct uhsfs_geometry *geo, u64 chunk, u32 incarnation);

/* The bits of in_use that stand for slots (all 64 at a slot size of 1 KiB). */
u64 uhsfs_chunk_slot_mask(const struct uhsfs_geometry *geo);

/* An empty table block for the home copy at `block` whose first descriptor is of chunk `first`. */
void uhsfs_table_init(struct uhsfs_table_block *table, const struct uhsfs_geometry *geo, u64 block,
		      u64 first, u64 seq);

/* Check the block and every descriptor in it; descriptors from chunk `limit` on must be empty. */
int uhsfs_table_check(const struct uhsfs_table_block *table, const struct uhsfs_geometry *geo,
		      u64 block, u64 first, u64 limit, struct uhsfs_fault *fault);

void uhsfs_chunk_decode(const struct uhsfs_chunk *raw, struct uhsfs_chunk_info *chunk);
void uhsfs_chunk_encode(const struct uhsfs_chunk_info *chunk, struct uhsfs_chunk *raw);

UHSFS_END_DECLS

#endif /* UHSFS_CHUNK_H */
