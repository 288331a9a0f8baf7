/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recovery between recover.c, which reads and decides, and replay.c, which writes.
 */
#ifndef UHSFS_RECOVERY_H
#define UHSFS_RECOVERY_H

#include "uhsfs.h"

#include "core/recover.h"

struct uhsfs_recovery_run {
	struct uhsfs_recovery core;
	struct super_block *sb;
	struct uhsfs_overlay *overlay;	/* being built */
	u32 slot_room;
	u32 intent_room;
	u8 *types;			/* DT_... of each slot */
	u8 *states;			/* UHSFS_SLOT_... of each slot as read */
	bool *valid;			/* of each slot: its block was read */
	struct xarray torn;		/* first inodes of slot blocks with a torn copy */
	struct uhsfs_rec_intent *intents;
	u32 inserted;			/* entries that directories lacked */
};

/* A name that its slot has no longer. */
static inline bool uhsfs_name_gone(const struct uhsfs_rec_name *name)
{
	return name->fate == UHSFS_REC_LOST || name->fate == UHSFS_REC_DROPPED;
}

/* Read the slots of marked chunks and decide; then apply(). */
int uhsfs_run_recovery(struct super_block *sb, int (*apply)(struct uhsfs_recovery_run *r));

#endif /* UHSFS_RECOVERY_H */
