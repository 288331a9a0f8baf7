// SPDX-License-Identifier: GPL-2.0
/*
 * What recovery made of a filesystem that is mounted read-only: changed slots, and names
 * that directories have besides their index.  Nothing of it is on the device.
 *
 * An overlay is built before the filesystem is visible (recover.c), then constant and
 * read without locks.
 */
#include <linux/slab.h>
#include <linux/sort.h>

#include "uhsfs.h"

/* Names one behind the other; the first pool of the list is being filled. */
struct uhsfs_name_pool {
	struct uhsfs_name_pool *next;
	u32 used;
	u8 bytes[65536 - 16];
};

struct uhsfs_overlay *uhsfs_overlay_alloc(void)
{
	struct uhsfs_overlay *overlay = kzalloc(sizeof(*overlay), GFP_KERNEL);

	if (overlay)
		xa_init(&overlay->slots);
	return overlay;
}

void uhsfs_overlay_free(struct uhsfs_overlay *overlay)
{
	struct uhsfs_overlay_slot *slot;
	unsigned long ino;

	if (!overlay)
		return;
	xa_for_each(&overlay->slots, ino, slot)
		kvfree(slot);
	xa_destroy(&overlay->slots);
	kvfree(overlay->names);
	while (overlay->pool) {
		struct uhsfs_name_pool *pool = overlay->pool;

		overlay->pool = pool->next;
		kvfree(pool);
	}
	kfree(overlay);
}

const u8 *uhsfs_overlay_keep(struct uhsfs_overlay *overlay, const u8 *name, u8 len)
{
	struct uhsfs_name_pool *pool = overlay->pool;
	u8 *copy;

	if (!pool || sizeof(pool->bytes) - pool->used < len) {
		pool = kvmalloc(sizeof(*pool), GFP_KERNEL);
		if (!pool)
			return NULL;
		pool->next = overlay->pool;
		pool->used = 0;
		overlay->pool = pool;
	}
	copy = pool->bytes + pool->used;
	memcpy(copy, name, len);
	pool->used += len;
	return copy;
}

int uhsfs_overlay_add(struct uhsfs_overlay *overlay, const struct uhsfs_overlay_name *name)
{
	if (overlay->count == overlay->room) {
		u32 room = overlay->room ? 2 * overlay->room : 64;
		struct uhsfs_overlay_name *names;

		if (room > INT_MAX / sizeof(*names))
			return -E2BIG;
		names = kvmalloc_array(room, sizeof(*names), GFP_KERNEL | __GFP_NOWARN);
		if (!names)
			return -ENOMEM;
		if (overlay->count)
			memcpy(names, overlay->names, overlay->count * sizeof(*names));
		kvfree(overlay->names);
		overlay->names = names;
		overlay->room = room;
	}
	overlay->names[overlay->count++] = *name;
	return 0;
}

static int compare(u64 dir, u64 cookie, const struct uhsfs_overlay_name *name)
{
	if (dir != name->dir)
		return dir < name->dir ? -1 : 1;
	if (cookie != name->entry.cookie)
		return cookie < name->entry.cookie ? -1 : 1;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct uhsfs_overlay_name *name = a;

	return compare(name->dir, name->entry.cookie, b);
}

/*
 * Two names of one hash that the index both lacks drew the same cookie: give the second
 * one the next that is free.  False if there is none.
 */
static bool move_on(struct uhsfs_overlay_name *name, u64 after)
{
	u64 hash = uhsfs_cookie_hash(name->entry.cookie);

	for (u32 tie = uhsfs_cookie_tie(after) + 1; tie < UHSFS_COOKIE_TIES; tie++) {
		if (name->ties[tie / 64] >> (tie % 64) & 1)
			continue;
		name->entry.cookie = uhsfs_cookie_make(hash, tie);
		return true;
	}
	return false;
}

void uhsfs_overlay_sort(struct super_block *sb, struct uhsfs_overlay *overlay)
{
	u32 kept = 0;

	sort(overlay->names, overlay->count, sizeof(*overlay->names), compare_names, NULL);
	for (u32 i = 0; i < overlay->count; i++) {
		struct uhsfs_overlay_name *name = &overlay->names[i];
		const struct uhsfs_overlay_name *last = kept ? &overlay->names[kept - 1] : NULL;

		if (last && compare(name->dir, name->entry.cookie, last) <= 0 &&
		    !move_on(name, last->entry.cookie)) {
			uhsfs_err(sb, "inode %llu: its name has no place in directory %llu: %u others have its hash",
				  name->entry.ino, name->dir, UHSFS_COOKIE_TIES);
			continue;
		}
		overlay->names[kept++] = *name;
	}
	overlay->count = kept;
}

const struct uhsfs_overlay_slot *uhsfs_overlay_slot(struct super_block *sb, u64 ino)
{
	struct uhsfs_overlay *overlay = uhsfs_sb(sb)->overlay;

	return overlay ? xa_load(&overlay->slots, ino) : NULL;
}

bool uhsfs_same_name(const struct uhsfs_claim *a, const struct uhsfs_claim *b)
{
	return a->parent_ino == b->parent_ino && a->parent_gen == b->parent_gen &&
	       a->len == b->len && !memcmp(a->name, b->name, a->len);
}

bool uhsfs_overlay_lost(const struct uhsfs_overlay_slot *slot, const struct uhsfs_claim *claim)
{
	for (u32 i = 0; i < slot->lost_count; i++)
		if (uhsfs_same_name(&slot->lost[i], claim))
			return true;
	return false;
}

const struct uhsfs_dirent *uhsfs_overlay_next(struct super_block *sb, u64 dir, u64 from)
{
	const struct uhsfs_overlay *overlay = uhsfs_sb(sb)->overlay;
	u32 low = 0, high = overlay ? overlay->count : 0;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (compare(dir, from, &overlay->names[middle]) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!overlay || low == overlay->count || overlay->names[low].dir != dir)
		return NULL;
	return &overlay->names[low].entry;
}
