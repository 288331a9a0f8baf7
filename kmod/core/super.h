/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The superblock in memory, and which copy of it counts.
 *
 * The two copies are written alternately: the one with the lower seq is overwritten,
 * so that the other survives a torn write.
 */
#ifndef UHSFS_SUPER_H
#define UHSFS_SUPER_H

#include "fault.h"
#include "geometry.h"

UHSFS_BEGIN_DECLS

struct uhsfs_segment_info {
	u64 first_chunk;
	u64 chunks;
	u64 table; /* first block of each region */
	u64 intent[2];
	u64 suspect;
};

struct uhsfs_super_info {
	struct uhsfs_geometry geo;
	u8 uuid[UHSFS_UUID_LEN];
	char label[UHSFS_LABEL_LEN + 1]; /* NUL-terminated here */
	char writer[32 + 1];
	u32 version;
	u64 seq;
	u64 compat, ro_compat, incompat;
	u8 atomic, errors, state;
	u64 groups_used;
	u64 chunks_used;
	u64 reserve_blocks;
	u32 epoch;
	u64 free_blocks;
	u64 used_slots;
	s64 made_ns, mounted_ns, checked_ns;
	u64 mounts;
	u32 segments;
	struct uhsfs_segment_info segment[UHSFS_MAX_SEGMENTS];
};

/* True if a block starts as a uhsfs superblock does, sound or not (to recognise one). */
bool uhsfs_super_recognise(const void *block);

/*
 * Check one copy, read from `block`, and decode it.  -EUCLEAN with the fault.
 * Feature bits are not judged here: ask uhsfs_super_access() before using anything
 * else of info.  Of another format version, or with unknown incompatible features, only
 * version, features, uuid and label are meant as they are decoded.
 */
int uhsfs_super_decode(const struct uhsfs_super *raw, u64 block, struct uhsfs_super_info *info,
		       struct uhsfs_fault *fault);

/* The sealed image of info for `block`. */
void uhsfs_super_encode(const struct uhsfs_super_info *info, u64 block, struct uhsfs_super *raw);

/*
 * Which copy counts, 0 or 1, given the decoded ones (NULL: damaged); the other one is
 * overwritten next.  -EUCLEAN if there is none.  That both are of one filesystem is for
 * the caller to see.
 */
int uhsfs_super_choose(const struct uhsfs_super_info *a, const struct uhsfs_super_info *b);

enum uhsfs_access {
	UHSFS_ACCESS_NONE, /* unknown incompatible features or another format version */
	UHSFS_ACCESS_READ, /* unknown read-only compatible features */
	UHSFS_ACCESS_WRITE,
};

/* What this code may do with the filesystem; *unknown gets the bits that forbid more. */
enum uhsfs_access uhsfs_super_access(const struct uhsfs_super_info *info, u64 *unknown);

/* The segment that a chunk number falls into, or NULL. */
const struct uhsfs_segment_info *uhsfs_super_segment(const struct uhsfs_super_info *info,
						     u64 chunk);

/* Chunk numbers that have a place in the table. */
u64 uhsfs_super_chunks(const struct uhsfs_super_info *info);

UHSFS_END_DECLS

#endif /* UHSFS_SUPER_H */
