// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Extents and sorted lists of them.
 *
 * Every change is a rewrite of a window of the list: the extents it touches and one
 * neighbour on each side become a short sequence, merged where possible, that takes
 * the window's place.  Its length is known before the first byte is written, so that a
 * change that does not fit leaves no trace.
 */
#include "extent.h"

void uhsfs_extent_limits_init(struct uhsfs_extent_limits *limits, const struct uhsfs_geometry *geo,
			 bool dir)
{
	limits->geo = geo;
	limits->max = dir ? UHSFS_DIR_MAX_LOGICAL : UHSFS_FILE_MAX_BLOCKS;
	limits->scale = dir ? geo->homes : 1;
}

void uhsfs_extent_decode(const struct uhsfs_extent *raw, struct uhsfs_ext *ext)
{
	u64 physical = le64_to_cpu(raw->physical);

	ext->logical = le64_to_cpu(raw->logical) & UHSFS_EXTENT_MASK;
	ext->physical = physical & UHSFS_EXTENT_MASK;
	ext->len = le32_to_cpu(raw->len);
	ext->birth = le32_to_cpu(raw->birth);
	ext->flags = (physical & UHSFS_EXTENT_UNWRITTEN ? UHSFS_EXT_UNWRITTEN : 0) |
		     (physical & UHSFS_EXTENT_SHARED ? UHSFS_EXT_SHARED : 0);
}

void uhsfs_extent_encode(const struct uhsfs_ext *ext, struct uhsfs_extent *raw)
{
	u64 physical = ext->physical & UHSFS_EXTENT_MASK;

	if (ext->flags & UHSFS_EXT_UNWRITTEN)
		physical |= UHSFS_EXTENT_UNWRITTEN;
	if (ext->flags & UHSFS_EXT_SHARED)
		physical |= UHSFS_EXTENT_SHARED;
	raw->logical = cpu_to_le64(ext->logical & UHSFS_EXTENT_MASK);
	raw->physical = cpu_to_le64(physical);
	raw->len = cpu_to_le32(ext->len);
	raw->birth = cpu_to_le32(ext->birth);
}

int uhsfs_extent_check(const struct uhsfs_extent *raw, const struct uhsfs_extent_limits *limits,
		       const char *object, u64 id, struct uhsfs_fault *fault)
{
	const u64 known = UHSFS_EXTENT_MASK | UHSFS_EXTENT_UNWRITTEN | UHSFS_EXTENT_SHARED;
	struct uhsfs_ext ext;

	uhsfs_extent_decode(raw, &ext);
	if (le64_to_cpu(raw->logical) & ~UHSFS_EXTENT_MASK)
		return uhsfs_bad(fault, object, id, "extent.logical", le64_to_cpu(raw->logical),
				 UHSFS_EXTENT_MASK, "must have no flags");
	if (le64_to_cpu(raw->physical) & ~known)
		return uhsfs_bad(fault, object, id, "extent.physical", le64_to_cpu(raw->physical),
				 known, "must have known flags only");
	if (!ext.len)
		return uhsfs_bad(fault, object, id, "extent.len", 0, 1, UHSFS_RULE_AT_LEAST);
	if (uhsfs_ext_end(&ext) > limits->max)
		return uhsfs_bad(fault, object, id, "extent.logical + len", uhsfs_ext_end(&ext),
				 limits->max, UHSFS_RULE_AT_MOST);
	if (!uhsfs_space_ok(limits->geo, ext.physical, (u64)ext.len * limits->scale))
		return uhsfs_bad(fault, object, id, "extent.physical", ext.physical,
				 limits->geo->blocks, UHSFS_RULE_SPACE);
	return 0;
}

int uhsfs_extent_array_check(const struct uhsfs_extent *raw, u32 count,
			     const struct uhsfs_extent_limits *limits, const char *object, u64 id,
			     struct uhsfs_fault *fault)
{
	u64 end = 0;

	for (u32 i = 0; i < count; i++) {
		int err = uhsfs_extent_check(&raw[i], limits, object, id, fault);
		u64 logical = le64_to_cpu(raw[i].logical);

		if (err)
			return err;
		if (logical < end)
			return uhsfs_bad(fault, object, id, "extent.logical", logical, end,
					 "must not overlap the extent before");
		end = logical + le32_to_cpu(raw[i].len);
	}
	return 0;
}

int uhsfs_extents_check(const struct uhsfs_geometry *geo, const void *value, u32 bytes, bool dir,
			u64 ino, struct uhsfs_fault *fault)
{
	static const char object[] = "slot";
	struct uhsfs_extent_limits limits;

	if (!bytes || bytes % sizeof(struct uhsfs_extent))
		return uhsfs_bad(fault, object, ino, "extents", bytes, sizeof(struct uhsfs_extent),
				 "must be a multiple of an extent's size, and not empty");
	uhsfs_extent_limits_init(&limits, geo, dir);
	return uhsfs_extent_array_check(value, bytes / sizeof(struct uhsfs_extent), &limits, object,
					ino, fault);
}

/* ---- looking ------------------------------------------------------------- */

static struct uhsfs_ext get(const struct uhsfs_extent_list *list, u32 i)
{
	struct uhsfs_ext ext;

	uhsfs_extent_decode(&list->extent[i], &ext);
	return ext;
}

u32 uhsfs_list_find(const struct uhsfs_extent_list *list, u64 logical)
{
	u32 low = 0, high = list->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;
		struct uhsfs_ext ext = get(list, middle);

		if (uhsfs_ext_end(&ext) > logical)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool uhsfs_list_lookup(const struct uhsfs_extent_list *list, u64 logical, struct uhsfs_ext *ext,
		       u64 *len)
{
	u32 i = uhsfs_list_find(list, logical);

	if (i == list->count) {
		*len = logical < UHSFS_LOGICAL_END ? UHSFS_LOGICAL_END - logical : 0;
		return false;
	}
	*ext = get(list, i);
	if (ext->logical > logical) {
		*len = ext->logical - logical;
		return false;
	}
	*len = uhsfs_ext_end(ext) - logical;
	return true;
}

bool uhsfs_extents_lookup(const void *value, u32 bytes, u64 logical, struct uhsfs_ext *ext,
			  u64 *len)
{
	const struct uhsfs_extent_list list = {
		.extent = (struct uhsfs_extent *)value,
		.count = bytes / (u32)sizeof(struct uhsfs_extent),
	};

	return uhsfs_list_lookup(&list, logical, ext, len);
}

/* ---- pieces of extents ----------------------------------------------------- */

/* The part of ext within [from, to), which must not be empty. */
static struct uhsfs_ext part(const struct uhsfs_ext *ext, u64 from, u64 to, u32 scale)
{
	struct uhsfs_ext piece = *ext;

	if (piece.logical < from) {
		piece.physical += (from - piece.logical) * scale;
		piece.len -= (u32)(from - piece.logical);
		piece.logical = from;
	}
	if (uhsfs_ext_end(&piece) > to)
		piece.len = (u32)(to - piece.logical);
	return piece;
}

/* Append b to a, if b continues it and no snapshot has only one of them. */
static bool merge(const struct uhsfs_extent_list *list, struct uhsfs_ext *a,
		  const struct uhsfs_ext *b)
{
	if (a->flags != b->flags || uhsfs_ext_end(a) != b->logical ||
	    a->physical + (u64)a->len * list->scale != b->physical ||
	    b->len > UHSFS_EXTENT_MAX_LEN - a->len)
		return false;
	if (a->birth != b->birth && min_t(u32, a->birth, b->birth) <= list->snapshot)
		return false;
	a->len += b->len;
	a->birth = max_t(u32, a->birth, b->birth);
	return true;
}

/* Room for `now` extents where `before` stood from i on; the list's end is zeroed. */
static void resize(struct uhsfs_extent_list *list, u32 i, u32 before, u32 now)
{
	u32 count = list->count - before + now;

	memmove(&list->extent[i + now], &list->extent[i + before],
		(list->count - i - before) * sizeof(*list->extent));
	if (count < list->count)
		memset(&list->extent[count], 0, (list->count - count) * sizeof(*list->extent));
	list->count = count;
}

int uhsfs_list_report(const struct uhsfs_extent_list *list, u64 logical, u64 len,
		      const struct uhsfs_freed *freed)
{
	u64 end = logical + len;

	if (!freed)
		return 0;
	for (u32 i = uhsfs_list_find(list, logical); i < list->count; i++) {
		struct uhsfs_ext ext = get(list, i);
		int err;

		if (ext.logical >= end)
			break;
		ext = part(&ext, logical, end, list->scale);
		err = freed->range(freed->ctx, ext.physical, (u64)ext.len * list->scale);
		if (err)
			return err;
	}
	return 0;
}

/* ---- replace, insert, punch ------------------------------------------------ */

/* A window's new content: neighbour, left rest, new, right rest, neighbour. */
struct window {
	struct uhsfs_ext piece[5];
	u32 count;
	const struct uhsfs_extent_list *list;
};

static void put(struct window *w, const struct uhsfs_ext *ext)
{
	if (w->count && merge(w->list, &w->piece[w->count - 1], ext))
		return;
	w->piece[w->count++] = *ext;
}

/* [from, end) becomes ext, or a hole if that is NULL. */
static int set_range(struct uhsfs_extent_list *list, u64 from, u64 end, const struct uhsfs_ext *ext,
		     const struct uhsfs_freed *freed)
{
	struct window w = { .list = list };
	u32 first = uhsfs_list_find(list, from), last = first;
	struct uhsfs_ext old;
	int err;

	while (last < list->count && le64_to_cpu(list->extent[last].logical) < end)
		last++;
	if (first == last && !ext)
		return 0;
	if (first) {
		old = get(list, first - 1);
		put(&w, &old);
	}
	if (first < last) {
		old = get(list, first);
		if (old.logical < from) {
			old = part(&old, 0, from, list->scale);
			put(&w, &old);
		}
	}
	if (ext)
		put(&w, ext);
	if (first < last) {
		old = get(list, last - 1);
		if (uhsfs_ext_end(&old) > end) {
			old = part(&old, end, UHSFS_LOGICAL_END, list->scale);
			put(&w, &old);
		}
	}
	if (last < list->count) {
		old = get(list, last);
		put(&w, &old);
	}
	first -= !!first;
	last += last < list->count;
	if (list->count - (last - first) + w.count > list->capacity)
		return -ENOSPC;
	err = uhsfs_list_report(list, from, end - from, freed);
	if (err)
		return err;
	resize(list, first, last - first, w.count);
	for (u32 i = 0; i < w.count; i++)
		uhsfs_extent_encode(&w.piece[i], &list->extent[first + i]);
	return 0;
}

int uhsfs_list_insert(struct uhsfs_extent_list *list, const struct uhsfs_ext *ext)
{
	struct uhsfs_ext old;
	u64 len;

	if (!uhsfs_logical_ok(ext->logical, ext->len))
		return -EINVAL;
	if (uhsfs_list_lookup(list, ext->logical, &old, &len) || len < ext->len)
		return -EEXIST;
	return set_range(list, ext->logical, uhsfs_ext_end(ext), ext, NULL);
}

int uhsfs_list_replace(struct uhsfs_extent_list *list, const struct uhsfs_ext *ext,
		       const struct uhsfs_freed *freed)
{
	if (!uhsfs_logical_ok(ext->logical, ext->len))
		return -EINVAL;
	return set_range(list, ext->logical, uhsfs_ext_end(ext), ext, freed);
}

int uhsfs_list_punch(struct uhsfs_extent_list *list, u64 logical, u64 len,
		     const struct uhsfs_freed *freed)
{
	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	return set_range(list, logical, logical + len, NULL, freed);
}

int uhsfs_list_truncate(struct uhsfs_extent_list *list, u64 logical,
			const struct uhsfs_freed *freed)
{
	if (logical >= UHSFS_LOGICAL_END)
		return 0;
	return set_range(list, logical, UHSFS_LOGICAL_END, NULL, freed);
}

/* ---- convert ---------------------------------------------------------------- */

/*
 * The window is read and rewritten in one pass.  Its output is at most two extents
 * ahead of its input (the parts before and in the range), which wait in `queue`.
 */
struct rewrite {
	struct uhsfs_extent_list *list;
	struct uhsfs_ext last;		/* may still grow by merging */
	struct uhsfs_ext queue[4];
	u32 queued;
	u32 out;			/* extents that left `last` */
	u32 write;			/* index of the next one to write */
	u32 read;			/* indices below may be overwritten */
	bool have_last;
	bool dry;			/* count only */
};

static void rewrite_flush(struct rewrite *rw)
{
	u32 done = 0;

	while (done < rw->queued && rw->write < rw->read)
		uhsfs_extent_encode(&rw->queue[done++], &rw->list->extent[rw->write++]);
	rw->queued -= done;
	memmove(rw->queue, &rw->queue[done], rw->queued * sizeof(rw->queue[0]));
}

static void rewrite_out(struct rewrite *rw)
{
	rw->out++;
	if (rw->dry)
		return;
	rw->queue[rw->queued++] = rw->last;
	rewrite_flush(rw);
}

static void rewrite_put(struct rewrite *rw, const struct uhsfs_ext *ext)
{
	if (rw->have_last) {
		if (merge(rw->list, &rw->last, ext))
			return;
		rewrite_out(rw);
	}
	rw->last = *ext;
	rw->have_last = true;
}

static void convert_one(struct rewrite *rw, const struct uhsfs_ext *ext, u64 from, u64 end)
{
	u32 scale = rw->list->scale;
	struct uhsfs_ext piece;

	if (!(ext->flags & UHSFS_EXT_UNWRITTEN) || ext->logical >= end ||
	    uhsfs_ext_end(ext) <= from) {
		rewrite_put(rw, ext);
		return;
	}
	if (ext->logical < from) {
		piece = part(ext, 0, from, scale);
		rewrite_put(rw, &piece);
	}
	piece = part(ext, from, end, scale);
	piece.flags &= ~UHSFS_EXT_UNWRITTEN;
	rewrite_put(rw, &piece);
	if (uhsfs_ext_end(ext) > end) {
		piece = part(ext, end, UHSFS_LOGICAL_END, scale);
		rewrite_put(rw, &piece);
	}
}

/* Convert the window [first, last), writing nothing if dry; extents it becomes. */
static u32 convert_window(struct uhsfs_extent_list *list, u32 first, u32 last, u64 from, u64 end,
			  bool dry)
{
	struct rewrite rw = { .list = list, .write = first, .dry = dry };

	for (u32 i = first; i < last; i++) {
		struct uhsfs_ext ext = get(list, i);

		rw.read = i + 1;
		convert_one(&rw, &ext, from, end);
	}
	rw.read = U32_MAX;
	if (rw.have_last)
		rewrite_out(&rw);
	return rw.out;
}

int uhsfs_list_convert(struct uhsfs_extent_list *list, u64 logical, u64 len)
{
	u32 first, last, now;
	u64 end = logical + len;

	if (!uhsfs_logical_ok(logical, len))
		return -EINVAL;
	first = uhsfs_list_find(list, logical);
	last = first;
	while (last < list->count && le64_to_cpu(list->extent[last].logical) < end)
		last++;
	if (first == last)
		return 0;
	first -= !!first;
	last += last < list->count;
	now = convert_window(list, first, last, logical, end, true);
	if (list->count - (last - first) + now > list->capacity)
		return -ENOSPC;
	/* A window that grows needs its room first; one that shrinks leaves it afterwards. */
	if (now > last - first)
		resize(list, last, 0, now - (last - first));
	convert_window(list, first, last, logical, end, false);
	if (now < last - first)
		resize(list, first + now, last - first - now, 0);
	return 0;
}

/* ---- collapse and insert range ---------------------------------------------- */

int uhsfs_list_cut(struct uhsfs_extent_list *list, u64 logical)
{
	u32 i = uhsfs_list_find(list, logical);
	struct uhsfs_ext ext, left, right;

	if (i == list->count)
		return 0;
	ext = get(list, i);
	if (ext.logical >= logical)
		return 0;
	if (list->count == list->capacity)
		return -ENOSPC;
	left = part(&ext, 0, logical, list->scale);
	right = part(&ext, logical, UHSFS_LOGICAL_END, list->scale);
	resize(list, i, 1, 2);
	uhsfs_extent_encode(&left, &list->extent[i]);
	uhsfs_extent_encode(&right, &list->extent[i + 1]);
	return 0;
}

void uhsfs_list_move_up(struct uhsfs_extent_list *list, u64 logical, u64 len)
{
	for (u32 i = uhsfs_list_find(list, logical); i < list->count; i++)
		list->extent[i].logical =
			cpu_to_le64(le64_to_cpu(list->extent[i].logical) + len);
}

void uhsfs_list_move_down(struct uhsfs_extent_list *list, u64 logical, u64 len)
{
	for (u32 i = uhsfs_list_find(list, logical); i < list->count; i++)
		list->extent[i].logical =
			cpu_to_le64(le64_to_cpu(list->extent[i].logical) - len);
}

int uhsfs_list_collapse(struct uhsfs_extent_list *list, u64 logical, u64 len,
			const struct uhsfs_freed *freed)
{
	int err = uhsfs_list_punch(list, logical, len, freed);

	if (!err)
		uhsfs_list_move_down(list, logical + len, len);
	return err;
}

int uhsfs_list_insert_range(struct uhsfs_extent_list *list, u64 logical, u64 len, u64 max)
{
	struct uhsfs_ext last;
	int err;

	if (!uhsfs_logical_ok(logical, len) || max > UHSFS_LOGICAL_END)
		return -EINVAL;
	if (!list->count)
		return 0;
	last = get(list, list->count - 1);
	if (uhsfs_ext_end(&last) <= logical)
		return 0;
	if (uhsfs_ext_end(&last) > max || len > max - uhsfs_ext_end(&last))
		return -EFBIG;
	err = uhsfs_list_cut(list, logical);
	if (!err)
		uhsfs_list_move_up(list, logical, len);
	return err;
}
