/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Directories: an index from names to inodes in hashed buckets.
 *
 * HASHING.  The cookie of an entry begins with 56 bits of its name's SipHash.  With N
 * buckets and L = floor(log2 N), a name's bucket is its leading L + 1 hash bits, read
 * backwards as a number; if there is no such bucket yet (number >= N), its leading L
 * bits.  Reading backwards makes this linear hashing: bucket N appears by splitting
 * bucket N - 2^L.  Taking leading bits makes every bucket one contiguous range of
 * cookies, which growing only ever divides:
 *
 *	N = 1   |-------------------- 0 --------------------|   cookies, ascending
 *	N = 2   |-------- 0 ---------|--------- 1 ----------|
 *	N = 3   |--- 0 ----|--- 2 ---|--------- 1 ----------|
 *	N = 4   |--- 0 ----|--- 2 ---|---- 1 ----|--- 3 ----|
 *
 * so that readdir, which walks cookies in ascending order and takes the cookie as its
 * position, neither misses nor repeats an entry while the directory grows.
 *
 * CHAINS.  A bucket is block `bucket` of the directory at position 0 and, if that is
 * full, overflow blocks at positions 1, 2, ...  Entries whose cookie is outside the
 * bucket's range are what a split left behind: they are ignored and dropped at the
 * next opportunity.  Entries move only into newly allocated blocks.
 *
 * HINTS.  An entry says nothing until the slot it points to confirms it: a name may
 * have several entries, and a crash may leave entries that no slot confirms, or the
 * same entry in two blocks of a chain.  Hence lookup goes on past unconfirmed
 * entries, and insertion is find-or-insert over the whole chain.
 *
 * Functions on blocks are safe on any 4096 bytes, but mean something only for blocks
 * that uhsfs_bucket_check() accepted.  Callers hold the directory's lock.
 */
#ifndef UHSFS_DIR_H
#define UHSFS_DIR_H

#include "fault.h"
#include "geometry.h"

UHSFS_BEGIN_DECLS

/* ---- cookies and bucket numbers ----------------------------------------- */

#define UHSFS_COOKIE_BITS	(UHSFS_COOKIE_HASH_BITS + UHSFS_COOKIE_TIE_BITS)

/* The readdir position behind all entries; the largest loff_t, never an entry's cookie. */
#define UHSFS_COOKIE_END	((1ULL << UHSFS_COOKIE_BITS) - 1)

static inline u64 uhsfs_cookie_make(u64 hash, u32 tie)
{
	return hash << UHSFS_COOKIE_TIE_BITS | tie;
}

static inline u64 uhsfs_cookie_hash(u64 cookie)
{
	return cookie >> UHSFS_COOKIE_TIE_BITS;
}

static inline u32 uhsfs_cookie_tie(u64 cookie)
{
	return (u32)(cookie & (UHSFS_COOKIE_TIES - 1));
}

/* Hash of a name as it stands in cookies: 56 bits, never 0. */
u64 uhsfs_dir_hash(const struct uhsfs_geometry *geo, const u8 *name, u8 len);

/* The bucket of a hash.  buckets: N, at least 1. */
u32 uhsfs_dir_bucket(u64 hash, u32 buckets);

/*
 * First and last cookie of a bucket < buckets.  The ranges of all buckets tile
 * [0, UHSFS_COOKIE_END].
 */
void uhsfs_dir_range(u32 bucket, u32 buckets, u64 *first, u64 *last);

/* The bucket whose entries are divided when bucket number `buckets` is added. */
u32 uhsfs_dir_split_from(u32 buckets);

/* ---- the root in the directory's slot ----------------------------------- */

struct uhsfs_dir_info {
	u32 buckets;		/* N */
	u32 overflow;		/* overflow blocks ever given out */
	u64 entries;		/* hint */
	u32 subdirs;		/* hint, at most UHSFS_LINK_MAX - 2 and entries */
};

/* A directory without entries: one bucket. */
void uhsfs_dir_info_init(struct uhsfs_dir_info *info);

void uhsfs_dir_root_encode(struct uhsfs_dir_root *root, const struct uhsfs_dir_info *info);

/* Decode and check the value of a TLV of len bytes at any alignment, in slot ino. */
int uhsfs_dir_root_decode(const void *value, size_t len, u64 ino, struct uhsfs_dir_info *info,
			  struct uhsfs_fault *fault);

/*
 * Policy, and its only place.  Asked once per insertion or removal with the chain that
 * it changed (bytes and number of its entries), which stands for all when the size of
 * an entry is estimated.  So there are never more splits than insertions, whatever the
 * hint says.
 *
 * A directory grows by one bucket when its buckets would be more than 75 % full on
 * average and the chain at hand is too.  Late in a round of splits the buckets still
 * to be split hold up to twice as much as the others; at 75 % up to one entry in
 * twelve then stands in an overflow block, over a whole round one in thirty.
 * A lower limit could save only these second reads, and would pay for them with more
 * half-empty blocks in the cache.
 *
 * It is built anew when less than an eighth is in use, with as many buckets as make
 * it half full, so that neither limit is near.
 */
bool uhsfs_dir_should_grow(const struct uhsfs_dir_info *info, u64 chain_bytes, u32 chain_entries);
bool uhsfs_dir_should_shrink(const struct uhsfs_dir_info *info, u64 chain_bytes,
			     u32 chain_entries);

/* Number of buckets for a new index of that many bytes of entries. */
u32 uhsfs_dir_buckets_for(u64 bytes);

/* ---- bucket blocks ------------------------------------------------------- */

/* An entry in memory.  name points into the block it was read from. */
struct uhsfs_dirent {
	u64 cookie;
	u64 ino;
	u32 gen;
	u8 type;		/* DT_... */
	u8 len;
	const u8 *name;
};

/* Bytes that an entry takes in a block. */
static inline u32 uhsfs_dirent_size(u8 len)
{
	return (u32)round_up(sizeof(struct uhsfs_entry) + len, sizeof(u64));
}

#define UHSFS_DIRENT_MIN	32	/* uhsfs_dirent_size(1) */
#define UHSFS_DIRENT_MAX	280	/* uhsfs_dirent_size(255) */
#define UHSFS_BUCKET_ENTRIES	(UHSFS_BUCKET_PAYLOAD / UHSFS_DIRENT_MIN)

/* Which block of which directory. */
struct uhsfs_bucket_at {
	u64 block;		/* device block it was read from */
	u64 dir_ino;
	u32 dir_gen;
	u32 bucket;
	u32 position;		/* in the chain */
	u32 overflow;		/* uhsfs_dir_info.overflow */
};

/* An empty block; block and seq are set by uhsfs_bucket_seal(). */
void uhsfs_bucket_init(struct uhsfs_bucket *b, const struct uhsfs_geometry *geo, u64 dir_ino,
		       u32 dir_gen, u32 bucket, u32 position);

/* Make it ready to be written to `block`. */
void uhsfs_bucket_seal(struct uhsfs_bucket *b, u64 block, u64 seq);

/*
 * Check every byte of a block that was read: the record, its place in the chain, that
 * entries are packed, legal and unique, that cookies belong to their names, and that
 * the rest is zero.  Entries outside the bucket's range are not a fault.
 */
int uhsfs_bucket_check(const struct uhsfs_bucket *b, const struct uhsfs_geometry *geo,
		       const struct uhsfs_bucket_at *at, struct uhsfs_fault *fault);

/*
 * The logical block that follows a checked block in its chain, or 0 at its end.  *at
 * moves on: the caller fills in the device block and checks with it.  As positions
 * rise and are at most `overflow`, a walk ends whatever stands on disk.
 */
u64 uhsfs_bucket_next(const struct uhsfs_bucket *b, struct uhsfs_bucket_at *at);

/*
 * The entry at an offset: 0, then the last offset plus uhsfs_dirent_size().  False
 * behind the last one.
 */
bool uhsfs_bucket_get(const struct uhsfs_bucket *b, u32 offset, struct uhsfs_dirent *e);

/* The first entry of that name at offset `from` or later: its offset, or -ENOENT. */
int uhsfs_bucket_find(const struct uhsfs_bucket *b, u32 from, u64 hash, const u8 *name, u8 len);

/* The entry of that name that points to that inode: its offset, or -ENOENT. */
int uhsfs_bucket_find_exact(const struct uhsfs_bucket *b, u64 hash, const u8 *name, u8 len,
			    u64 ino, u32 gen);

/* Append an entry: its offset, or -ENOSPC.  The caller made sure of its cookie. */
int uhsfs_bucket_insert(struct uhsfs_bucket *b, const struct uhsfs_dirent *e);

/* Remove the entry at an offset; later ones move up.  -ENOENT if there is none. */
int uhsfs_bucket_remove(struct uhsfs_bucket *b, u32 offset);

/*
 * Point the entry at an offset to another inode (rename over a name: it keeps its
 * cookie, so that readdir sees the name exactly once).  -EEXIST if the block already
 * has that entry; the caller looks into the chain's other blocks.
 */
int uhsfs_bucket_retarget(struct uhsfs_bucket *b, u32 offset, u64 ino, u32 gen, u8 type);

/* Remove all entries with cookies outside [first, last]; returns how many. */
u32 uhsfs_bucket_trim(struct uhsfs_bucket *b, u64 first, u64 last);

/*
 * Make `fresh` the overflow block behind `tail`, the last of its chain, and take its
 * number from *info.  The logical block of `fresh` is then what uhsfs_bucket_next()
 * says of tail.  -ENOSPC when all numbers are used up, -EINVAL if tail is not last.
 */
int uhsfs_bucket_link(struct uhsfs_bucket *tail, struct uhsfs_bucket *fresh,
		      struct uhsfs_dir_info *info);

/* ---- find-or-insert over a chain ----------------------------------------- */

/*
 * What insertion of {name, ino, gen} has to know of a chain, gathered block by block
 * from position 0.
 */
struct uhsfs_dir_probe {
	u64 hash;
	u64 ino;
	u32 gen;
	const u8 *name;
	u8 len;
	bool room;		/* some block has room for the entry: */
	u32 room_position;	/* the first such block */
	u32 copies;		/* times the very entry was found; more than 1 only after a crash */
	u64 cookie;		/* first copy: its cookie, position and offset */
	u32 position;
	u32 offset;
	u64 ties[UHSFS_COOKIE_TIES / 64];	/* tie-breakers in use */
};

void uhsfs_dir_probe_init(struct uhsfs_dir_probe *probe, const struct uhsfs_geometry *geo,
			  const u8 *name, u8 len, u64 ino, u32 gen);
void uhsfs_dir_probe_block(struct uhsfs_dir_probe *probe, const struct uhsfs_bucket *b);

/* The cookie for a new entry, with the lowest free tie-breaker, or -ENOSPC. */
int uhsfs_dir_probe_cookie(const struct uhsfs_dir_probe *probe, u64 *cookie);

/*
 * The same over a chain of n blocks in memory, and the insertion.  e->cookie is set to
 * the entry's.  1: inserted; 0: it was there; -EAGAIN: no block has room (link another
 * one and try again); -ENOSPC: all tie-breakers of this hash are in use.  *position is
 * that of the block that has it.
 */
int uhsfs_dir_insert(struct uhsfs_bucket *const *chain, u32 n, const struct uhsfs_geometry *geo,
		     struct uhsfs_dirent *e, u32 *position);

/* ---- building chains: splitting and shrinking ---------------------------- */

/*
 * Packs a stream of entries into a new chain.  With blocks == NULL it only counts the
 * blocks that the stream would take.
 */
struct uhsfs_dir_writer {
	struct uhsfs_bucket *const *blocks;	/* caller's, newly allocated */
	u32 max;		/* number of blocks[] */
	u32 count;		/* blocks in use, at least 1 */
	u32 used;		/* bytes in the last one */
	struct uhsfs_dir_info *info;	/* where overflow blocks get their numbers */
};

/*
 * Start the chain of a bucket; max >= 1 unless counting.  Overflow numbers are drawn
 * from *info as they are needed.
 */
void uhsfs_dir_writer_init(struct uhsfs_dir_writer *w, struct uhsfs_bucket *const *blocks, u32 max,
			   const struct uhsfs_geometry *geo, u64 dir_ino, u32 dir_gen, u32 bucket,
			   struct uhsfs_dir_info *info);

/* Add one entry, cookie as it is.  -ENOSPC if blocks or overflow numbers are used up. */
int uhsfs_dir_writer_add(struct uhsfs_dir_writer *w, const struct uhsfs_dirent *e);

/*
 * Add all entries of a block with cookies in [first, last].  A new index of fewer
 * buckets is built by walking the old buckets in cookie order, each block with its own
 * old range, into the writer of the new bucket that contains this range.
 */
int uhsfs_dir_writer_take(struct uhsfs_dir_writer *w, const struct uhsfs_bucket *b, u64 first,
			  u64 last);

/*
 * Add bucket number `buckets`: divide the n blocks of the chain of
 * uhsfs_dir_split_from(buckets) between `fresh`, the new bucket's writer, and `old`.
 * Neither takes more than n blocks.  Entries outside both ranges are dropped.
 *
 * Order on disk: all that stands in new blocks (what `fresh` wrote, and `old` if it is
 * not NULL), flush, the directory's slot (N + 1, extents, overflow count), flush, what
 * is overwritten in place.  With old == NULL that is the old chain: the caller trims
 * each of its blocks and no entry moves.
 */
int uhsfs_dir_split(u32 buckets, const struct uhsfs_bucket *const *chain, u32 n,
		    struct uhsfs_dir_writer *old, struct uhsfs_dir_writer *fresh);

/* ---- readdir --------------------------------------------------------------- */

/* Where an entry stands.  Order: cookie, position, offset. */
struct uhsfs_dir_ref {
	u64 cookie;
	u32 position;
	u32 offset;
};

/*
 * The next entries of one bucket in ascending order, as many as the caller's array
 * takes; nothing is allocated and chains may have any length:
 *
 *	while (pos < UHSFS_COOKIE_END) {
 *		uhsfs_dir_scan_init(&scan, N, pos, refs, capacity);
 *		do {
 *			for each block b of the chain of scan.bucket
 *				uhsfs_dir_scan_block(&scan, b);
 *			uhsfs_dir_scan_sort(&scan);
 *			for each r of refs[0 ... scan.count - 1]
 *				emit the entry at {r.position, r.offset} if it is
 *				confirmed and r.cookie has not been emitted just now;
 *				buffer full: position = r.cookie, stop
 *		} while (uhsfs_dir_scan_more(&scan));
 *		pos = uhsfs_dir_scan_after(&scan);
 *	}
 *
 * Cookies of a chain are unique except for what a crash left, which is why equal ones
 * are all offered and at most one is to be emitted.  The lock is held from
 * uhsfs_dir_scan_init() until uhsfs_dir_scan_more() says no.
 */
struct uhsfs_dir_scan {
	struct uhsfs_dir_ref *refs;
	u32 capacity;		/* of refs, at least 1 */
	u32 count;
	u32 bucket;		/* whose chain to offer */
	u64 last;		/* last cookie of its range */
	struct uhsfs_dir_ref from;	/* first entry wanted */
	bool more;		/* the array was too small */
};

/* pos: cookie to start from; those below UHSFS_COOKIE_FIRST too. */
void uhsfs_dir_scan_init(struct uhsfs_dir_scan *scan, u32 buckets, u64 pos,
			 struct uhsfs_dir_ref *refs, u32 capacity);
void uhsfs_dir_scan_block(struct uhsfs_dir_scan *scan, const struct uhsfs_bucket *b);
void uhsfs_dir_scan_sort(struct uhsfs_dir_scan *scan);

/* True if the bucket has further entries: offer its blocks again. */
bool uhsfs_dir_scan_more(struct uhsfs_dir_scan *scan);

/* First cookie behind the bucket, or UHSFS_COOKIE_END. */
u64 uhsfs_dir_scan_after(const struct uhsfs_dir_scan *scan);

UHSFS_END_DECLS

#endif /* UHSFS_DIR_H */
