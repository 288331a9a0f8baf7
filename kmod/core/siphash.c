// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * SipHash-2-4 over the implementation at hand: the kernel's siphash(), or libsodium's
 * crypto_shorthash() in user space.  Both give the values of the paper; they differ in
 * how they take the key (two native words, sixteen bytes) and give the result (a
 * native word, eight bytes).
 */
#include "siphash.h"

#ifdef __KERNEL__

#include <linux/siphash.h>

#include "le.h"

u64 uhsfs_siphash(const u8 key[UHSFS_SIPHASH_KEY], const void *data, size_t len)
{
	const siphash_key_t words = {
		.key = { uhsfs_get_le64(key), uhsfs_get_le64(key + sizeof(u64)) },
	};

	return siphash(data, len, &words);
}

#else

#include <sodium/crypto_shorthash_siphash24.h>

#include "le.h"

static_assert(crypto_shorthash_siphash24_KEYBYTES == UHSFS_SIPHASH_KEY);
static_assert(crypto_shorthash_siphash24_BYTES == sizeof(u64));

u64 uhsfs_siphash(const u8 key[UHSFS_SIPHASH_KEY], const void *data, size_t len)
{
	static const u8 nothing[1];
	u8 out[sizeof(u64)];

	/* It does arithmetic on the pointer even if len is 0. */
	crypto_shorthash_siphash24(out, data ? data : nothing, len, key);
	return uhsfs_get_le64(out);
}

#endif

u64 uhsfs_siphash2(const u8 key[UHSFS_SIPHASH_KEY], const void *prefix, size_t prefix_len,
		   const void *name, size_t name_len)
{
	u8 message[UHSFS_SIPHASH_PREFIX + UHSFS_SIPHASH_NAME];

	uhsfs_assert(prefix_len <= UHSFS_SIPHASH_PREFIX && name_len <= UHSFS_SIPHASH_NAME);
	prefix_len = min_t(size_t, prefix_len, UHSFS_SIPHASH_PREFIX);
	name_len = min_t(size_t, name_len, UHSFS_SIPHASH_NAME);
	if (prefix_len)
		memcpy(message, prefix, prefix_len);
	if (name_len)
		memcpy(message + prefix_len, name, name_len);
	return uhsfs_siphash(key, message, prefix_len + name_len);
}
