/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What is wrong with an on-disk structure, precisely: the object and its number, the
 * field, the value found, the limit and the rule it broke.  Checks return -EUCLEAN
 * and fill in a fault; the caller (kernel log, fsck) turns it into words.  All
 * strings are constants.
 */
#ifndef UHSFS_FAULT_H
#define UHSFS_FAULT_H

#include "uhsfs_platform.h"

struct uhsfs_fault {
	const char *object;	/* "slot", "bucket", ... */
	u64 id;			/* inode number, block number: what the object is numbered by */
	const char *field;
	u64 value;
	u64 limit;
	const char *rule;	/* such as "must equal limit", "must not exceed limit" */
};

/* Rules that many checks share. */
#define UHSFS_RULE_EQUAL	"must be equal"
#define UHSFS_RULE_AT_MOST	"must not be larger"
#define UHSFS_RULE_AT_LEAST	"must not be smaller"
#define UHSFS_RULE_ZERO		"must be zero"
#define UHSFS_RULE_KNOWN	"must be a known value"
#define UHSFS_RULE_ORDER	"must be in ascending order"
#define UHSFS_RULE_SPACE	"must be space within the device, without superblocks and bitmaps"

/* Record the fault, if anyone wants it (fault may be NULL), and return -EUCLEAN. */
static inline int uhsfs_bad(struct uhsfs_fault *fault, const char *object, u64 id,
			    const char *field, u64 value, u64 limit, const char *rule)
{
	if (fault) {
		fault->object = object;
		fault->id = id;
		fault->field = field;
		fault->value = value;
		fault->limit = limit;
		fault->rule = rule;
	}
	return -EUCLEAN;
}

#endif /* UHSFS_FAULT_H */
