/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The one header that adapts the pure C core (kmod/core) to where it is
 * compiled: in the kernel it names the headers the core relies on, in user
 * space it provides the same names over libc.
 *
 * What the core may use is what stands here and nothing else: fixed-width and
 * little-endian types with their conversions, memcpy() and friends, bool, errno
 * values, and a few arithmetic helpers. It allocates nothing, sleeps nowhere
 * and prints nothing. Errors are returned as negative errno values; damaged
 * on-disk structures are -EUCLEAN in both worlds.
 */
#ifndef UHSFS_PLATFORM_H
#define UHSFS_PLATFORM_H

#ifdef __KERNEL__

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>

/*
 * uhsfs_assert(): an invariant of our own code, never a property of input.
 * A kernel without CONFIG_UHSFS_DEBUG checks that the condition compiles and
 * generates no code, so that no image and no program can reach a WARN.
 */
#ifdef CONFIG_UHSFS_DEBUG
#define uhsfs_assert(cond)	((void)WARN_ON_ONCE(!(cond)))
#else
#define uhsfs_assert(cond)	BUILD_BUG_ON_INVALID(cond)
#endif

#else /* !__KERNEL__ */

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/types.h>

/*
 * The kernel's own types rather than those of stdint.h: u64 is unsigned long
 * long on every architecture, as it is in the kernel, so that the core has one
 * set of conversions and formats.
 */
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s8 s8;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;

#define U8_MAX		((u8)~0U)
#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))

#define cpu_to_le16(x)	((__le16)htole16(x))
#define cpu_to_le32(x)	((__le32)htole32(x))
#define cpu_to_le64(x)	((__le64)htole64(x))
#define le16_to_cpu(x)	((u16)le16toh(x))
#define le32_to_cpu(x)	((u32)le32toh(x))
#define le64_to_cpu(x)	((u64)le64toh(x))

/* Set bits; the kernel has no libgcc for the compiler's own. */
static inline unsigned int hweight64(u64 word)
{
	return (unsigned int)__builtin_popcountll(word);
}

#define BIT_ULL(nr)	(1ULL << (nr))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

/* Doubly linked lists, as the kernel's list.h has them. */
struct list_head {
	struct list_head *next, *prev;
};

#define container_of(ptr, type, member)	((type *)((char *)(ptr) - offsetof(type, member)))

#define list_entry(ptr, type, member)	container_of(ptr, type, member)

#define list_for_each_entry(pos, head, member) \
	for (pos = list_entry((head)->next, __typeof__(*pos), member); \
	     &pos->member != (head); \
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

#define list_for_each_entry_reverse(pos, head, member) \
	for (pos = list_entry((head)->prev, __typeof__(*pos), member); \
	     &pos->member != (head); \
	     pos = list_entry(pos->member.prev, __typeof__(*pos), member))

#define list_for_each_entry_safe(pos, n, head, member) \
	for (pos = list_entry((head)->next, __typeof__(*pos), member), \
	     n = list_entry(pos->member.next, __typeof__(*pos), member); \
	     &pos->member != (head); \
	     pos = n, n = list_entry(n->member.next, __typeof__(*n), member))

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = NULL;
	entry->prev = NULL;
}

/* Powers of two only, as in the kernel; + 0 drops const from the type. */
#define uhsfs_round_mask(x, y)	((__typeof__((x) + 0))((y) - 1))
#define round_up(x, y)		((((x) - 1) | uhsfs_round_mask(x, y)) + 1)
#define round_down(x, y)	((x) & ~uhsfs_round_mask(x, y))

#define min_t(type, a, b)	\
({				\
	type min_a_ = (a);	\
	type min_b_ = (b);	\
	min_a_ < min_b_ ? min_a_ : min_b_; \
})

#define max_t(type, a, b)	\
({				\
	type max_a_ = (a);	\
	type max_b_ = (b);	\
	max_a_ > max_b_ ? max_a_ : max_b_; \
})

/* 64-bit division: a plain / does not link in a 32-bit kernel. */
static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

/* The message is optional in the kernel and in C++, but not in C11. */
#ifndef __cplusplus
#undef static_assert
#define static_assert(expr, ...) \
	uhsfs_static_assert(expr, ##__VA_ARGS__, #expr)
#define uhsfs_static_assert(expr, msg, ...) _Static_assert(expr, msg)
#endif

/* See the kernel's branch. Tools, tests and fuzzers stop here. */
#define uhsfs_assert(cond)	assert(cond)

#endif /* __KERNEL__ */

/* Headers of the core are included by C++ as they are. */
#ifdef __cplusplus
#define UHSFS_BEGIN_DECLS	extern "C" {
#define UHSFS_END_DECLS		}
#else
#define UHSFS_BEGIN_DECLS
#define UHSFS_END_DECLS
#endif

#endif /* UHSFS_PLATFORM_H */
