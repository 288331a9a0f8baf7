/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * A stable sort of array indexes, for passes over millions of records that stay where
 * they are: merge sort without recursion, with scratch space from the caller.
 */
#ifndef UHSFS_SORT_H
#define UHSFS_SORT_H

#include "uhsfs_platform.h"

UHSFS_BEGIN_DECLS

/*
 * Bring order[0 .. n) into ascending order; equal elements keep their order.  scratch
 * has room for n more.  compare() returns negative, 0 or positive as element a stands
 * before, with or after element b.  At most n * log2(n) comparisons, about n where it is sorted.
 */
void uhsfs_sort(u32 *order, u32 *scratch, u32 n,
		int (*compare)(const void *context, u32 a, u32 b), const void *context);

UHSFS_END_DECLS

#endif /* UHSFS_SORT_H */
