/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * CRC-32C (Castagnoli), the checksum of every on-disk structure.
 */
#ifndef UHSFS_CRC32C_H
#define UHSFS_CRC32C_H

#include "uhsfs_platform.h"

UHSFS_BEGIN_DECLS

/*
 * The standard CRC-32C of RFC 3720, initial and final inversion included:
 * "123456789" gives 0xe3069283. Start with crc = 0; the result of one call is
 * the crc of the next, so that
 *
 *	uhsfs_crc32c(uhsfs_crc32c(0, a, n), b, m)
 *
 * is the checksum of a followed by b.
 */
u32 uhsfs_crc32c(u32 crc, const void *data, size_t len);

UHSFS_END_DECLS

#endif /* UHSFS_CRC32C_H */
