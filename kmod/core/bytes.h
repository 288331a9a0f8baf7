/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Small helpers on bytes that come from outside.
 */
#ifndef UHSFS_BYTES_H
#define UHSFS_BYTES_H

#include "uhsfs_platform.h"

/* Reserved and padding bytes must be zero, so that no flipped bit goes unseen. */
static inline bool uhsfs_is_zero(const void *bytes, size_t len)
{
	const u8 *p = bytes;

	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

#endif /* UHSFS_BYTES_H */
