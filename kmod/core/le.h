/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Little-endian loads and stores at any alignment, for packed records and for
 * bytes that come from outside. memcpy() of a constant size is one instruction
 * wherever the machine allows it, and unlike <asm/unaligned.h> it has the same
 * name in every kernel.
 */
#ifndef UHSFS_LE_H
#define UHSFS_LE_H

#include "uhsfs_platform.h"

static inline u16 uhsfs_get_le16(const void *from)
{
	__le16 value;

	memcpy(&value, from, sizeof(value));
	return le16_to_cpu(value);
}

static inline u32 uhsfs_get_le32(const void *from)
{
	__le32 value;

	memcpy(&value, from, sizeof(value));
	return le32_to_cpu(value);
}

static inline u64 uhsfs_get_le64(const void *from)
{
	__le64 value;

	memcpy(&value, from, sizeof(value));
	return le64_to_cpu(value);
}

static inline void uhsfs_put_le16(void *to, u16 value)
{
	__le16 le = cpu_to_le16(value);

	memcpy(to, &le, sizeof(le));
}

static inline void uhsfs_put_le32(void *to, u32 value)
{
	__le32 le = cpu_to_le32(value);

	memcpy(to, &le, sizeof(le));
}

static inline void uhsfs_put_le64(void *to, u64 value)
{
	__le64 le = cpu_to_le64(value);

	memcpy(to, &le, sizeof(le));
}

#endif /* UHSFS_LE_H */
