/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Extents (struct uhsfs_extent) and sorted lists of them: the mapping of a small file,
 * as it stands in a slot, and the leaves of extent trees.
 *
 * A list is an array in the on-disk form, ordered by logical block, without overlap.
 * Neighbours that could be one extent are allowed; changes merge what they touch.  Each
 * change happens as a whole or not at all: -ENOSPC if the result would not fit the
 * array, before anything is changed.
 *
 * MERGING.  Two extents are one if the second continues the first, in the file and on the
 * device, with the same flags, and if no snapshot tells their births apart.  Let S be the
 * epoch of the newest snapshot, 0 while there is none: blocks born <= S belong to it, and
 * whoever frees them keeps them for it.  So births merge if they are equal, or if both are
 * > S; the larger one stays.  A file that is appended to epoch after epoch has one extent
 * and not one an epoch.  What must hold: S is raised before anything is allocated in a newer
 * epoch.  Then a birth is never raised across a snapshot, neither an older one (births of
 * two sides of it are not both > S) nor a later one (all births are <= S by then).
 *
 * All positions and lengths are in logical blocks.  One logical block is `scale` device
 * blocks (struct uhsfs_extent_limits).
 */
#ifndef UHSFS_EXTENT_H
#define UHSFS_EXTENT_H

#include "fault.h"
#include "geometry.h"

UHSFS_BEGIN_DECLS

#define UHSFS_EXT_UNWRITTEN	0x1	/* reads as zeros */
#define UHSFS_EXT_SHARED	0x2	/* reserved for reflink */

/* Logical blocks that the format can number. */
#define UHSFS_LOGICAL_END	(1ULL << UHSFS_EXTENT_BITS)
/* Logical blocks of a file: sizes are signed 64-bit byte counts. */
#define UHSFS_FILE_MAX_BLOCKS	(1ULL << (63 - UHSFS_BLOCK_SHIFT))
/* Logical blocks of a directory: buckets and overflow blocks. */
#define UHSFS_DIR_MAX_LOGICAL	(UHSFS_DIR_OVERFLOW + (1ULL << 32))

/* An extent in memory. */
struct uhsfs_ext {
	u64 logical;
	u64 physical;
	u32 len;	/* logical blocks, at least 1 */
	u32 birth;	/* epoch of its allocation; after merging, the newest of them */
	u32 flags;	/* UHSFS_EXT_... */
};

/* What extents of one inode may cover. */
struct uhsfs_extent_limits {
	const struct uhsfs_geometry *geo;
	u64 max;	/* logical blocks, at most 2^52 */
	u32 scale;	/* device blocks of a logical block */
};

struct uhsfs_extent_list {
	struct uhsfs_extent *extent;
	u32 count;
	u32 capacity;
	u32 scale;	/* as in the limits */
	u32 snapshot;	/* as in the geometry */
};

/*
 * Who is told of device blocks that a change gives up; NULL: nobody.  An error stops the
 * operation, which returns it with nothing changed.  Ranges told count only if the
 * operation succeeds.
 */
struct uhsfs_freed {
	int (*range)(void *ctx, u64 block, u64 len);
	void *ctx;
};

void uhsfs_extent_limits_init(struct uhsfs_extent_limits *limits, const struct uhsfs_geometry *geo,
			 bool dir);

static inline u64 uhsfs_ext_end(const struct uhsfs_ext *ext)
{
	return ext->logical + ext->len;
}

/* Between disk and memory.  Decoding checks nothing; encoding drops nothing of a legal one. */
void uhsfs_extent_decode(const struct uhsfs_extent *raw, struct uhsfs_ext *ext);
void uhsfs_extent_encode(const struct uhsfs_ext *ext, struct uhsfs_extent *raw);

/* Check one on-disk extent: known flags, within limits, on uhsfs_space_ok().  id: for the fault. */
int uhsfs_extent_check(const struct uhsfs_extent *raw, const struct uhsfs_extent_limits *limits,
		       const char *object, u64 id, struct uhsfs_fault *fault);

/* Check `count` extents: each by itself, order, no overlap. */
int uhsfs_extent_array_check(const struct uhsfs_extent *raw, u32 count,
			     const struct uhsfs_extent_limits *limits, const char *object, u64 id,
			     struct uhsfs_fault *fault);

/* Check the value of an EXTENTS record of `bytes` bytes of inode `ino`. */
int uhsfs_extents_check(const struct uhsfs_geometry *geo, const void *value, u32 bytes, bool dir,
			u64 ino, struct uhsfs_fault *fault);

/* True if [logical, logical + len) is not empty and below 2^52. */
static inline bool uhsfs_logical_ok(u64 logical, u64 len)
{
	return len && logical < UHSFS_LOGICAL_END && len <= UHSFS_LOGICAL_END - logical;
}

/* Index of the first extent that ends after `logical`, or count. */
u32 uhsfs_list_find(const struct uhsfs_extent_list *list, u64 logical);

/*
 * What `logical` maps to.  True: *ext is the whole extent that contains it, *len its
 * blocks from there on.  False: a hole of *len blocks, up to the next extent or 2^52.
 */
bool uhsfs_list_lookup(const struct uhsfs_extent_list *list, u64 logical, struct uhsfs_ext *ext,
		       u64 *len);

/* The same in the EXTENTS record of a checked slot, `bytes` long: nothing is written to. */
bool uhsfs_extents_lookup(const void *value, u32 bytes, u64 logical, struct uhsfs_ext *ext,
			  u64 *len);

/*
 * Map a hole.  Merges with neighbours that continue it.  -EEXIST if part of the range is
 * mapped, -EINVAL if the range is none, -ENOSPC.
 */
int uhsfs_list_insert(struct uhsfs_extent_list *list, const struct uhsfs_ext *ext);

/* Map a range whatever it was before; what it was mapped to is freed. */
int uhsfs_list_replace(struct uhsfs_extent_list *list, const struct uhsfs_ext *ext,
		       const struct uhsfs_freed *freed);

/* Make [logical, logical + len) a hole.  Needs one more extent if inside of one. */
int uhsfs_list_punch(struct uhsfs_extent_list *list, u64 logical, u64 len,
		     const struct uhsfs_freed *freed);

/* Punch everything from `logical` on.  Never -ENOSPC. */
int uhsfs_list_truncate(struct uhsfs_extent_list *list, u64 logical,
			const struct uhsfs_freed *freed);

/* Unwritten blocks of the range become written; holes stay.  Needs up to two more. */
int uhsfs_list_convert(struct uhsfs_extent_list *list, u64 logical, u64 len);

/* Punch [logical, logical + len) and move what follows down by len. */
int uhsfs_list_collapse(struct uhsfs_extent_list *list, u64 logical, u64 len,
			const struct uhsfs_freed *freed);

/*
 * Move everything from `logical` on up by len.  -EFBIG if the last extent would end
 * beyond `max`.  Needs one more extent if inside of one.
 */
int uhsfs_list_insert_range(struct uhsfs_extent_list *list, u64 logical, u64 len, u64 max);

/* Parts of the two above for trees: cut the extent around `logical`; move without a check. */
int uhsfs_list_cut(struct uhsfs_extent_list *list, u64 logical);
void uhsfs_list_move_up(struct uhsfs_extent_list *list, u64 logical, u64 len);
void uhsfs_list_move_down(struct uhsfs_extent_list *list, u64 logical, u64 len);

/* Tell freed of the device blocks under [logical, logical + len). */
int uhsfs_list_report(const struct uhsfs_extent_list *list, u64 logical, u64 len,
		      const struct uhsfs_freed *freed);

UHSFS_END_DECLS

#endif /* UHSFS_EXTENT_H */
