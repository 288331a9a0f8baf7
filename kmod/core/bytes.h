/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Small checks of bytes that come from outside.
 */
#ifndef UHSFS_BYTES_H
#define UHSFS_BYTES_H

#include "uhsfs_platform.h"

#include <linux/uhsfs_fs.h>

/* Reserved and padding bytes must be zero, so that no flipped bit goes unseen. */
static inline bool uhsfs_is_zero(const void *bytes, size_t len)
{
	const u8 *p = (const u8 *)bytes;

	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

/* True for what may name a file: 1 to 255 bytes, no '/', no NUL, not "." or "..". */
static inline bool uhsfs_name_legal(const u8 *name, size_t len)
{
	if (!len || len > UHSFS_NAME_LEN)
		return false;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return false;
	return !memchr(name, '/', len) && !memchr(name, '\0', len);
}

#endif /* UHSFS_BYTES_H */
