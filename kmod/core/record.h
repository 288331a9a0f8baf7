/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The header that every metadata record starts with (struct uhsfs_header), and the
 * choice between the two copies of a shadow home.
 */
#ifndef UHSFS_RECORD_H
#define UHSFS_RECORD_H

#include "fault.h"
#include "geometry.h"

UHSFS_BEGIN_DECLS

/* What a record must say of itself. */
struct uhsfs_record_id {
	const char *object; /* for messages: "bucket" */
	u32 magic;
	u64 fsid;
	u64 block; /* where it was read from */
	u64 owner_ino;
	u32 owner_gen;
};

#define UHSFS_SEQ_COUNTER_BITS 32

static inline u32 uhsfs_seq_epoch(u64 seq)
{
	return (u32)(seq >> UHSFS_SEQ_COUNTER_BITS);
}

static inline u64 uhsfs_seq_make(u32 epoch, u32 counter)
{
	return (u64)epoch << UHSFS_SEQ_COUNTER_BITS | counter;
}

/* Fill in the header of a record; the checksum comes last, by uhsfs_record_seal(). */
void uhsfs_record_init(struct uhsfs_header *h, const struct uhsfs_record_id *id, u64 seq);

/* Set the checksum of a record of len bytes. */
void uhsfs_record_seal(void *record, size_t len);

/* Point a sealed image of len bytes at another block (the other copy of its home). */
void uhsfs_record_move(void *record, size_t len, u64 block);

/*
 * Check magic, checksum, filesystem, address, owner and flags.  -EUCLEAN with the
 * fault; never reads past len, which is at least the header's.
 */
int uhsfs_record_check(const void *record, size_t len, const struct uhsfs_record_id *id,
		       struct uhsfs_fault *fault);

/* One copy of a home, as read. */
struct uhsfs_copy {
	bool valid;
	u64 seq;
};

/*
 * Which copy of a home counts: 0 or 1 (0 if both are the same image), or -EUCLEAN if
 * none is valid.  *suspicious is set when its sibling is invalid: a torn write if the
 * home may have been in flight, else rot of what may have been the newer image, which
 * the caller must not accept silently.
 */
int uhsfs_home_choose(const struct uhsfs_copy *a, const struct uhsfs_copy *b, bool *suspicious);

/*
 * True if two copies of a record of len bytes say the same: all but checksum and address.
 * Copies with one seq must (the first write of a home writes both); a slot block is
 * compared slot by slot.
 */
bool uhsfs_record_same(const void *a, const void *b, size_t len);

/* The copy that the next write of a home goes to, given its newest valid copy (durable). */
static inline int uhsfs_home_next(int chosen)
{
	return 1 - chosen;
}

UHSFS_END_DECLS

#endif /* UHSFS_RECORD_H */
