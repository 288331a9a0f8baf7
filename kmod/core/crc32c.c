// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CRC-32C over the fastest implementation at hand: the kernel's crc32c(), or
 * ISA-L's crc32_iscsi() in user space. Both choose by the processor at run
 * time, both compute the bare remainder (no inversions), and both take lengths
 * narrower than size_t.
 */
#include "crc32c.h"

#ifdef __KERNEL__

#include <linux/crc32c.h>

static u32 crc32c_update(u32 crc, const u8 *data, unsigned int len)
{
	return crc32c(crc, data, len);
}

#else

#include <isa-l/crc.h>

static u32 crc32c_update(u32 crc, const u8 *data, unsigned int len)
{
	/* It takes a pointer to non-const, but only reads. */
	return crc32_iscsi((u8 *)data, (int)len, crc);
}

#endif

#define CRC32C_STEP	(1U << 30)

u32 uhsfs_crc32c(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;

	crc = ~crc;
	while (len > CRC32C_STEP) {
		crc = crc32c_update(crc, p, CRC32C_STEP);
		p += CRC32C_STEP;
		len -= CRC32C_STEP;
	}
	if (len)
		crc = crc32c_update(crc, p, (unsigned int)len);
	return ~crc;
}
