// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Bottom-up merge sort: runs of 1, 2, 4, ... elements are merged from one array into
 * the other until one run is left.  Two runs that already follow each other are copied.
 */
#include "sort.h"

struct sort {
	int (*compare)(const void *context, u32 a, u32 b);
	const void *context;
};

static void merge(const struct sort *sort, const u32 *from, u32 *to, u32 start, u32 middle, u32 end)
{
	u32 left = start;
	u32 right = middle;
	u32 at;

	if (middle == end || sort->compare(sort->context, from[middle - 1], from[middle]) <= 0) {
		memcpy(to + start, from + start, (size_t)(end - start) * sizeof(*to));
		return;
	}
	for (at = start; at < end; at++) {
		bool take_left = right == end ||
				 (left < middle &&
				  sort->compare(sort->context, from[left], from[right]) <= 0);

		to[at] = take_left ? from[left++] : from[right++];
	}
}

void uhsfs_sort(u32 *order, u32 *scratch, u32 n, int (*compare)(const void *context, u32 a, u32 b),
		const void *context)
{
	const struct sort sort = { .compare = compare, .context = context };
	u32 *from = order;
	u32 *to = scratch;
	u64 width;

	for (width = 1; width < n; width *= 2) {
		u32 *swap = from;
		u64 start;

		for (start = 0; start < n; start += 2 * width)
			merge(&sort, from, to, (u32)start, (u32)min_t(u64, start + width, n),
			      (u32)min_t(u64, start + 2 * width, n));
		from = to;
		to = swap;
	}
	if (from != order)
		memcpy(order, from, (size_t)n * sizeof(*order));
}
