/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * SipHash-2-4 with a 128-bit key and a 64-bit result: cookies of directory entries,
 * keys of names trees, nonces of chunks.  Its values are part of the on-disk format.
 */
#ifndef UHSFS_SIPHASH_H
#define UHSFS_SIPHASH_H

#include "uhsfs_platform.h"

UHSFS_BEGIN_DECLS

#define UHSFS_SIPHASH_KEY	16	/* bytes */
#define UHSFS_SIPHASH_PREFIX	16	/* longest prefix of uhsfs_siphash2() */
#define UHSFS_SIPHASH_NAME	255	/* longest name of uhsfs_siphash2() */

/*
 * The hash of len bytes, as the SipHash paper defines it: the key is two 64-bit words
 * in little-endian order, and so is the paper's output.
 */
u64 uhsfs_siphash(const u8 key[UHSFS_SIPHASH_KEY], const void *data, size_t len);

/*
 * The hash of prefix followed by name, without a separator: callers use prefixes of
 * one fixed length per kind of key.  prefix_len <= UHSFS_SIPHASH_PREFIX and
 * name_len <= UHSFS_SIPHASH_NAME; longer ones are cut off.  Takes about 300 bytes of
 * stack and allocates nothing.
 */
u64 uhsfs_siphash2(const u8 key[UHSFS_SIPHASH_KEY], const void *prefix, size_t prefix_len,
		   const void *name, size_t name_len);

UHSFS_END_DECLS

#endif /* UHSFS_SIPHASH_H */
