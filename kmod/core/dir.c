// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Directories: see dir.h for the idea.  In this order: hashing, the root and the
 * policy, blocks, checks, find-or-insert, building chains, readdir.
 */
#include "dir.h"

#include "bytes.h"
#include "record.h"
#include "siphash.h"

#define OBJECT	"bucket"

static_assert(sizeof(struct uhsfs_bucket) == UHSFS_BLOCK_SIZE);
static_assert(sizeof(struct uhsfs_entry) == 24);
static_assert(offsetof(struct uhsfs_bucket, entries) % sizeof(u64) == 0);

/* ---- cookies and bucket numbers ----------------------------------------- */

u64 uhsfs_dir_hash(const struct uhsfs_geometry *geo, const u8 *name, u8 len)
{
	u64 hash = uhsfs_siphash(geo->hash_key, name, len) >> (64 - UHSFS_COOKIE_HASH_BITS);

	return hash ? hash : 1;
}

/* Bit t: DT value t is that of a file type: fifo, chr, dir, blk, reg, lnk, sock. */
#define DT_KNOWN	(1U << 1 | 1U << 2 | 1U << 4 | 1U << 6 | 1U << 8 | 1U << 10 | 1U << 12)

static bool type_ok(u8 type)
{
	return type < 16 && (DT_KNOWN >> type & 1);
}

/* The last `bits` bits of value, 0 to 32, in reverse order. */
static u32 reverse(u32 value, u32 bits)
{
	if (!bits)
		return 0;
	value = (value & 0x55555555) << 1 | (value >> 1 & 0x55555555);
	value = (value & 0x33333333) << 2 | (value >> 2 & 0x33333333);
	value = (value & 0x0f0f0f0f) << 4 | (value >> 4 & 0x0f0f0f0f);
	value = (value & 0x00ff00ff) << 8 | (value >> 8 & 0x00ff00ff);
	value = value << 16 | value >> 16;
	return value >> (32 - bits);
}

/* floor(log2 buckets), 0 to 31 */
static u32 level_of(u32 buckets)
{
	uhsfs_assert(buckets >= 1);
	return 31 - (u32)__builtin_clz(buckets | 1);
}

u32 uhsfs_dir_bucket(u64 hash, u32 buckets)
{
	u32 bits = level_of(buckets) + 1;
	u32 bucket = reverse((u32)(hash >> (UHSFS_COOKIE_HASH_BITS - bits)), bits);

	/* The last of the leading bits became the first of the number. */
	return bucket < buckets ? bucket : bucket & ((1U << (bits - 1)) - 1);
}

void uhsfs_dir_range(u32 bucket, u32 buckets, u64 *first, u64 *last)
{
	u32 bits = level_of(buckets);
	u32 half = 1U << bits;

	if ((bucket & (half - 1)) + half < buckets)
		bits++;		/* it is split already, or came from a split */
	*first = (u64)reverse(bucket, bits) << (UHSFS_COOKIE_BITS - bits);
	*last = *first + (1ULL << (UHSFS_COOKIE_BITS - bits)) - 1;
}

u32 uhsfs_dir_split_from(u32 buckets)
{
	return buckets - (1U << level_of(buckets));
}

/* ---- the root and the policy --------------------------------------------- */

void uhsfs_dir_info_init(struct uhsfs_dir_info *info)
{
	memset(info, 0, sizeof(*info));
	info->buckets = 1;
}

void uhsfs_dir_root_encode(struct uhsfs_dir_root *root, const struct uhsfs_dir_info *info)
{
	root->buckets = cpu_to_le32(info->buckets);
	root->overflow = cpu_to_le32(info->overflow);
	root->entries = cpu_to_le64(info->entries);
	root->subdirs = cpu_to_le32(info->subdirs);
	root->reserved = 0;
}

int uhsfs_dir_root_decode(const void *value, size_t len, u64 ino, struct uhsfs_dir_info *info,
			  struct uhsfs_fault *fault)
{
	static const char object[] = "directory root";
	struct uhsfs_dir_root root;

	if (len != sizeof(root))
		return uhsfs_bad(fault, object, ino, "length", len, sizeof(root), UHSFS_RULE_EQUAL);
	memcpy(&root, value, sizeof(root));
	info->buckets = le32_to_cpu(root.buckets);
	info->overflow = le32_to_cpu(root.overflow);
	info->entries = le64_to_cpu(root.entries);
	info->subdirs = le32_to_cpu(root.subdirs);

	if (info->buckets < 1)
		return uhsfs_bad(fault, object, ino, "buckets", 0, 1, UHSFS_RULE_AT_LEAST);
	if (info->buckets > UHSFS_DIR_MAX_BUCKETS)
		return uhsfs_bad(fault, object, ino, "buckets", info->buckets,
				 UHSFS_DIR_MAX_BUCKETS, UHSFS_RULE_AT_MOST);
	/* st_nlink is subdirs + 2. */
	if (info->subdirs > UHSFS_LINK_MAX - 2)
		return uhsfs_bad(fault, object, ino, "subdirs", info->subdirs,
				 UHSFS_LINK_MAX - 2, UHSFS_RULE_AT_MOST);
	if (info->subdirs > info->entries)
		return uhsfs_bad(fault, object, ino, "subdirs", info->subdirs, info->entries,
				 UHSFS_RULE_AT_MOST);
	if (root.reserved)
		return uhsfs_bad(fault, object, ino, "reserved", le32_to_cpu(root.reserved), 0,
				 UHSFS_RULE_ZERO);
	return 0;
}

#define GROW_BYTES	(UHSFS_BUCKET_PAYLOAD / 4 * 3)	/* per bucket: more makes it grow */
#define SHRINK_BYTES	(UHSFS_BUCKET_PAYLOAD / 8)	/* less is worth a new index */
#define BUILD_BYTES	(UHSFS_BUCKET_PAYLOAD / 2)	/* of a new index */
#define SHRINK_BUCKETS	8	/* 32 KiB are not worth a new index */
#define ENTRY_BYTES	48	/* of an entry if there is none to look at: 24 letters */

static u32 entry_estimate(u64 chain_bytes, u32 chain_entries)
{
	u64 size = chain_entries ? div_u64(chain_bytes, chain_entries) : ENTRY_BYTES;

	return (u32)min_t(u64, max_t(u64, size, UHSFS_DIRENT_MIN), UHSFS_DIRENT_MAX);
}

bool uhsfs_dir_should_grow(const struct uhsfs_dir_info *info, u64 chain_bytes, u32 chain_entries)
{
	u32 size = entry_estimate(chain_bytes, chain_entries);

	return info->buckets < UHSFS_DIR_MAX_BUCKETS && chain_bytes > GROW_BYTES &&
	       info->entries > div_u64((u64)info->buckets * GROW_BYTES, size);
}

bool uhsfs_dir_should_shrink(const struct uhsfs_dir_info *info, u64 chain_bytes,
			     u32 chain_entries)
{
	u32 size = entry_estimate(chain_bytes, chain_entries);

	return info->buckets > SHRINK_BUCKETS &&
	       info->entries < div_u64((u64)info->buckets * SHRINK_BYTES, size);
}

u32 uhsfs_dir_buckets_for(u64 bytes)
{
	u64 buckets = div_u64(bytes, BUILD_BYTES) + 1;

	return (u32)min_t(u64, buckets, UHSFS_DIR_MAX_BUCKETS);
}

/* ---- blocks ---------------------------------------------------------------- */

/* Bytes in use: aligned and within the block, whatever it says. */
static u32 used_of(const struct uhsfs_bucket *b)
{
	u32 used = round_down((u32)le16_to_cpu(b->used), sizeof(u64));

	return min_t(u32, used, UHSFS_BUCKET_PAYLOAD);
}

static u32 count_of(const struct uhsfs_bucket *b)
{
	return le16_to_cpu(b->count);
}

static void set_used(struct uhsfs_bucket *b, u32 used, u32 count)
{
	b->used = cpu_to_le16((u16)used);
	b->count = cpu_to_le16((u16)count);
}

void uhsfs_bucket_init(struct uhsfs_bucket *b, const struct uhsfs_geometry *geo, u64 dir_ino,
		       u32 dir_gen, u32 bucket, u32 position)
{
	const struct uhsfs_record_id id = {
		.object = OBJECT,
		.magic = UHSFS_TAG_BUCKET,
		.fsid = geo->fsid,
		.owner_ino = dir_ino,
		.owner_gen = dir_gen,
	};

	memset(b, 0, sizeof(*b));
	uhsfs_record_init(&b->h, &id, 0);
	b->bucket = cpu_to_le32(bucket);
	b->position = cpu_to_le32(position);
}

void uhsfs_bucket_seal(struct uhsfs_bucket *b, u64 block, u64 seq)
{
	b->h.block = cpu_to_le64(block);
	b->h.seq = cpu_to_le64(seq);
	uhsfs_record_seal(b, sizeof(*b));
}

u64 uhsfs_bucket_next(const struct uhsfs_bucket *b, struct uhsfs_bucket_at *at)
{
	u32 next = le32_to_cpu(b->next);

	if (!next || next > at->overflow || at->position >= at->overflow)
		return 0;
	at->position++;
	at->block = 0;
	return UHSFS_DIR_OVERFLOW + next - 1;
}

bool uhsfs_bucket_get(const struct uhsfs_bucket *b, u32 offset, struct uhsfs_dirent *e)
{
	const struct uhsfs_entry *disk;
	u32 used = used_of(b);

	if (offset % sizeof(u64) || offset >= used || used - offset < sizeof(*disk))
		return false;
	disk = (const struct uhsfs_entry *)(b->entries + offset);
	if (uhsfs_dirent_size(disk->len) > used - offset)
		return false;
	e->cookie = le64_to_cpu(disk->cookie);
	e->ino = le64_to_cpu(disk->ino);
	e->gen = le32_to_cpu(disk->gen);
	e->type = disk->type;
	e->len = disk->len;
	e->name = disk->name;
	return true;
}

static bool same_name(const struct uhsfs_dirent *e, u64 hash, const u8 *name, u8 len)
{
	return uhsfs_cookie_hash(e->cookie) == hash && e->len == len && !memcmp(e->name, name, len);
}

int uhsfs_bucket_find(const struct uhsfs_bucket *b, u32 from, u64 hash, const u8 *name, u8 len)
{
	struct uhsfs_dirent e;

	for (u32 at = from; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len))
		if (same_name(&e, hash, name, len))
			return (int)at;
	return -ENOENT;
}

int uhsfs_bucket_find_exact(const struct uhsfs_bucket *b, u64 hash, const u8 *name, u8 len,
			    u64 ino, u32 gen)
{
	struct uhsfs_dirent e;

	for (u32 at = 0; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len))
		if (e.ino == ino && e.gen == gen && same_name(&e, hash, name, len))
			return (int)at;
	return -ENOENT;
}

int uhsfs_bucket_insert(struct uhsfs_bucket *b, const struct uhsfs_dirent *e)
{
	u32 used = used_of(b), size = uhsfs_dirent_size(e->len);
	struct uhsfs_entry *disk;

	if (size > UHSFS_BUCKET_PAYLOAD - used)
		return -ENOSPC;
	disk = (struct uhsfs_entry *)(b->entries + used);
	memset(disk, 0, size);
	disk->cookie = cpu_to_le64(e->cookie);
	disk->ino = cpu_to_le64(e->ino);
	disk->gen = cpu_to_le32(e->gen);
	disk->type = e->type;
	disk->len = e->len;
	memcpy(disk->name, e->name, e->len);
	set_used(b, used + size, count_of(b) + 1);
	return (int)used;
}

int uhsfs_bucket_remove(struct uhsfs_bucket *b, u32 offset)
{
	struct uhsfs_dirent e;
	u32 used = used_of(b), size;

	if (!uhsfs_bucket_get(b, offset, &e))
		return -ENOENT;
	size = uhsfs_dirent_size(e.len);
	memmove(b->entries + offset, b->entries + offset + size, used - offset - size);
	memset(b->entries + used - size, 0, size);
	set_used(b, used - size, count_of(b) - 1);
	return 0;
}

int uhsfs_bucket_retarget(struct uhsfs_bucket *b, u32 offset, u64 ino, u32 gen, u8 type)
{
	struct uhsfs_entry *disk;
	struct uhsfs_dirent e;
	int at;

	if (!uhsfs_bucket_get(b, offset, &e))
		return -ENOENT;
	at = uhsfs_bucket_find_exact(b, uhsfs_cookie_hash(e.cookie), e.name, e.len, ino, gen);
	if (at >= 0 && (u32)at != offset)
		return -EEXIST;
	disk = (struct uhsfs_entry *)(b->entries + offset);
	disk->ino = cpu_to_le64(ino);
	disk->gen = cpu_to_le32(gen);
	disk->type = type;
	return 0;
}

u32 uhsfs_bucket_trim(struct uhsfs_bucket *b, u64 first, u64 last)
{
	struct uhsfs_dirent e;
	u32 removed = 0, at = 0;

	while (uhsfs_bucket_get(b, at, &e)) {
		if (e.cookie >= first && e.cookie <= last) {
			at += uhsfs_dirent_size(e.len);
			continue;
		}
		uhsfs_bucket_remove(b, at);
		removed++;
	}
	return removed;
}

int uhsfs_bucket_link(struct uhsfs_bucket *tail, struct uhsfs_bucket *fresh,
		      struct uhsfs_dir_info *info)
{
	if (tail->next)
		return -EINVAL;
	if (info->overflow == U32_MAX)
		return -ENOSPC;
	memset(fresh, 0, sizeof(*fresh));
	fresh->h = tail->h;
	fresh->bucket = tail->bucket;
	fresh->position = cpu_to_le32(le32_to_cpu(tail->position) + 1);
	info->overflow++;
	tail->next = cpu_to_le32(info->overflow);
	return 0;
}

/* ---- checks ---------------------------------------------------------------- */

static int entry_check(const struct uhsfs_bucket *b, const struct uhsfs_geometry *geo, u64 id,
		       u32 offset, u32 used, struct uhsfs_fault *fault)
{
	const struct uhsfs_entry *disk = (const struct uhsfs_entry *)(b->entries + offset);
	const u64 inodes = UHSFS_MAX_CHUNKS * geo->slots_per_chunk;
	u64 cookie, ino, hash;
	u32 size;

	if (used - offset < sizeof(*disk))
		return uhsfs_bad(fault, OBJECT, id, "used", used, offset + sizeof(*disk),
				 UHSFS_RULE_AT_LEAST);
	size = uhsfs_dirent_size(disk->len);
	if (size > used - offset)
		return uhsfs_bad(fault, OBJECT, id, "entry.len", disk->len,
				 used - offset - sizeof(*disk), UHSFS_RULE_AT_MOST);
	if (!uhsfs_name_legal(disk->name, disk->len))
		return uhsfs_bad(fault, OBJECT, id, "entry.name", offset, disk->len,
				 "must be a legal name");
	ino = le64_to_cpu(disk->ino);
	if (!ino)
		return uhsfs_bad(fault, OBJECT, id, "entry.ino", 0, 1, UHSFS_RULE_AT_LEAST);
	if (ino >= inodes)
		return uhsfs_bad(fault, OBJECT, id, "entry.ino", ino, inodes - 1,
				 UHSFS_RULE_AT_MOST);
	if (!type_ok(disk->type))
		return uhsfs_bad(fault, OBJECT, id, "entry.type", disk->type, DT_KNOWN,
				 UHSFS_RULE_KNOWN);
	if (!uhsfs_is_zero(disk->reserved, sizeof(disk->reserved)))
		return uhsfs_bad(fault, OBJECT, id, "entry.reserved", offset, 0, UHSFS_RULE_ZERO);
	if (!uhsfs_is_zero(disk->name + disk->len, size - sizeof(*disk) - disk->len))
		return uhsfs_bad(fault, OBJECT, id, "entry.padding", offset, 0, UHSFS_RULE_ZERO);

	cookie = le64_to_cpu(disk->cookie);
	hash = uhsfs_dir_hash(geo, disk->name, disk->len);
	if (uhsfs_cookie_hash(cookie) != hash)
		return uhsfs_bad(fault, OBJECT, id, "entry.cookie", cookie,
				 uhsfs_cookie_make(hash, uhsfs_cookie_tie(cookie)),
				 UHSFS_RULE_EQUAL);
	if (cookie == UHSFS_COOKIE_END)
		return uhsfs_bad(fault, OBJECT, id, "entry.cookie", cookie, UHSFS_COOKIE_END - 1,
				 UHSFS_RULE_AT_MOST);
	return 0;
}

/* Compare the entry at an offset with those before it. */
static int twin_check(const struct uhsfs_bucket *b, u64 id, u32 offset,
		      const struct uhsfs_dirent *e, struct uhsfs_fault *fault)
{
	u64 hash = uhsfs_cookie_hash(e->cookie);
	struct uhsfs_dirent o;

	for (u32 at = 0; at < offset && uhsfs_bucket_get(b, at, &o);
	     at += uhsfs_dirent_size(o.len)) {
		if (o.cookie == e->cookie)
			return uhsfs_bad(fault, OBJECT, id, "entry.cookie", e->cookie, at,
					 "must not occur twice");
		if (o.ino == e->ino && o.gen == e->gen && same_name(&o, hash, e->name, e->len))
			return uhsfs_bad(fault, OBJECT, id, "entry.ino", e->ino, at,
					 "must not occur twice with one name");
	}
	return 0;
}

/*
 * No cookie and no {name, ino, gen} twice.  Either takes equal hashes, so that only
 * entries whose hash meets an earlier one in a small table are compared.
 */
static int unique_check(const struct uhsfs_bucket *b, u64 id, struct uhsfs_fault *fault)
{
	u64 seen[16] = {};
	struct uhsfs_dirent e;
	int err;

	for (u32 at = 0; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len)) {
		u64 hash = uhsfs_cookie_hash(e.cookie);
		u64 *word = &seen[hash / 64 % ARRAY_SIZE(seen)];
		u64 bit = BIT_ULL(hash % 64);

		if (*word & bit) {
			err = twin_check(b, id, at, &e, fault);
			if (err)
				return err;
		}
		*word |= bit;
	}
	return 0;
}

static int place_check(const struct uhsfs_bucket *b, const struct uhsfs_bucket_at *at,
		       struct uhsfs_fault *fault)
{
	if (le32_to_cpu(b->bucket) != at->bucket)
		return uhsfs_bad(fault, OBJECT, at->block, "bucket", le32_to_cpu(b->bucket),
				 at->bucket, UHSFS_RULE_EQUAL);
	if (le32_to_cpu(b->position) != at->position)
		return uhsfs_bad(fault, OBJECT, at->block, "position", le32_to_cpu(b->position),
				 at->position, UHSFS_RULE_EQUAL);
	if (at->position > at->overflow)
		return uhsfs_bad(fault, OBJECT, at->block, "position", at->position, at->overflow,
				 UHSFS_RULE_AT_MOST);
	if (le32_to_cpu(b->next) > at->overflow)
		return uhsfs_bad(fault, OBJECT, at->block, "next", le32_to_cpu(b->next),
				 at->overflow, UHSFS_RULE_AT_MOST);
	if (b->next && at->position >= at->overflow)
		return uhsfs_bad(fault, OBJECT, at->block, "next", le32_to_cpu(b->next), 0,
				 "must be 0: the chain has all overflow blocks there are");
	return 0;
}

/* prev_image belongs to snapshots. */
static int image_check(const struct uhsfs_bucket *b, const struct uhsfs_geometry *geo,
		       const struct uhsfs_bucket_at *at, struct uhsfs_fault *fault)
{
	if (b->prev_image && !(geo->ro_compat & UHSFS_RO_COMPAT_SNAPSHOTS))
		return uhsfs_bad(fault, OBJECT, at->block, "prev_image",
				 le64_to_cpu(b->prev_image), 0, UHSFS_RULE_ZERO);
	return 0;
}

int uhsfs_bucket_check(const struct uhsfs_bucket *b, const struct uhsfs_geometry *geo,
		       const struct uhsfs_bucket_at *at, struct uhsfs_fault *fault)
{
	const struct uhsfs_record_id id = {
		.object = OBJECT,
		.magic = UHSFS_TAG_BUCKET,
		.fsid = geo->fsid,
		.block = at->block,
		.owner_ino = at->dir_ino,
		.owner_gen = at->dir_gen,
	};
	u32 used = le16_to_cpu(b->used), count = 0, offset = 0;
	const struct uhsfs_entry *e;
	int err;

	err = uhsfs_record_check(b, sizeof(*b), &id, fault);
	if (!err)
		err = place_check(b, at, fault);
	if (!err)
		err = image_check(b, geo, at, fault);
	if (err)
		return err;
	if (used > UHSFS_BUCKET_PAYLOAD)
		return uhsfs_bad(fault, OBJECT, at->block, "used", used, UHSFS_BUCKET_PAYLOAD,
				 UHSFS_RULE_AT_MOST);
	while (offset < used) {
		err = entry_check(b, geo, at->block, offset, used, fault);
		if (err)
			return err;
		e = (const struct uhsfs_entry *)(b->entries + offset);
		offset += uhsfs_dirent_size(e->len);
		count++;
	}
	if (count_of(b) != count)
		return uhsfs_bad(fault, OBJECT, at->block, "count", count_of(b), count,
				 UHSFS_RULE_EQUAL);
	if (!uhsfs_is_zero(b->entries + used, UHSFS_BUCKET_PAYLOAD - used))
		return uhsfs_bad(fault, OBJECT, at->block, "rest", used, 0, UHSFS_RULE_ZERO);
	return unique_check(b, at->block, fault);
}

/* ---- find-or-insert -------------------------------------------------------- */

void uhsfs_dir_probe_init(struct uhsfs_dir_probe *probe, const struct uhsfs_geometry *geo,
			  const u8 *name, u8 len, u64 ino, u32 gen)
{
	u32 last = UHSFS_COOKIE_TIES - 1;

	memset(probe, 0, sizeof(*probe));
	probe->hash = uhsfs_dir_hash(geo, name, len);
	probe->name = name;
	probe->len = len;
	probe->ino = ino;
	probe->gen = gen;
	/* The very last cookie is the end of the directory. */
	if (uhsfs_cookie_make(probe->hash, last) == UHSFS_COOKIE_END)
		probe->ties[last / 64] |= BIT_ULL(last % 64);
}

void uhsfs_dir_probe_block(struct uhsfs_dir_probe *probe, const struct uhsfs_bucket *b)
{
	struct uhsfs_dirent e;

	for (u32 at = 0; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len)) {
		u32 tie = uhsfs_cookie_tie(e.cookie);

		if (uhsfs_cookie_hash(e.cookie) != probe->hash)
			continue;
		probe->ties[tie / 64] |= BIT_ULL(tie % 64);
		if (e.ino != probe->ino || e.gen != probe->gen ||
		    !same_name(&e, probe->hash, probe->name, probe->len))
			continue;
		if (!probe->copies++) {
			probe->cookie = e.cookie;
			probe->position = le32_to_cpu(b->position);
			probe->offset = at;
		}
	}
	if (!probe->room && uhsfs_dirent_size(probe->len) <= UHSFS_BUCKET_PAYLOAD - used_of(b)) {
		probe->room = true;
		probe->room_position = le32_to_cpu(b->position);
	}
}

int uhsfs_dir_probe_cookie(const struct uhsfs_dir_probe *probe, u64 *cookie)
{
	for (u32 tie = 0; tie < UHSFS_COOKIE_TIES; tie++) {
		if (probe->ties[tie / 64] >> (tie % 64) & 1)
			continue;
		*cookie = uhsfs_cookie_make(probe->hash, tie);
		return 0;
	}
	return -ENOSPC;
}

int uhsfs_dir_insert(struct uhsfs_bucket *const *chain, u32 n, const struct uhsfs_geometry *geo,
		     struct uhsfs_dirent *e, u32 *position)
{
	struct uhsfs_dir_probe probe;
	u32 room = n;
	int err;

	uhsfs_dir_probe_init(&probe, geo, e->name, e->len, e->ino, e->gen);
	for (u32 i = 0; i < n; i++) {
		uhsfs_dir_probe_block(&probe, chain[i]);
		if (probe.copies) {
			e->cookie = probe.cookie;
			*position = i;
			return 0;
		}
		if (probe.room && room == n)
			room = i;
	}
	err = uhsfs_dir_probe_cookie(&probe, &e->cookie);
	if (err)
		return err;
	if (room == n)
		return -EAGAIN;
	err = uhsfs_bucket_insert(chain[room], e);
	if (err < 0)
		return err;
	*position = room;
	return 1;
}

/* ---- building chains -------------------------------------------------------- */

void uhsfs_dir_writer_init(struct uhsfs_dir_writer *w, struct uhsfs_bucket *const *blocks, u32 max,
			   const struct uhsfs_geometry *geo, u64 dir_ino, u32 dir_gen, u32 bucket,
			   struct uhsfs_dir_info *info)
{
	uhsfs_assert(!blocks || max >= 1);
	w->blocks = blocks;
	w->max = max;
	w->count = 1;
	w->used = 0;
	w->info = info;
	if (blocks)
		uhsfs_bucket_init(blocks[0], geo, dir_ino, dir_gen, bucket, 0);
}

int uhsfs_dir_writer_add(struct uhsfs_dir_writer *w, const struct uhsfs_dirent *e)
{
	u32 size = uhsfs_dirent_size(e->len);
	int err;

	if (size > UHSFS_BUCKET_PAYLOAD - w->used) {
		if (w->blocks) {
			if (w->count >= w->max)
				return -ENOSPC;
			err = uhsfs_bucket_link(w->blocks[w->count - 1], w->blocks[w->count],
						w->info);
			if (err)
				return err;
		}
		w->count++;
		w->used = 0;
	}
	if (w->blocks) {
		err = uhsfs_bucket_insert(w->blocks[w->count - 1], e);
		if (err < 0)
			return err;
	}
	w->used += size;
	return 0;
}

int uhsfs_dir_writer_take(struct uhsfs_dir_writer *w, const struct uhsfs_bucket *b, u64 first,
			  u64 last)
{
	struct uhsfs_dirent e;
	int err;

	for (u32 at = 0; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len)) {
		if (e.cookie < first || e.cookie > last)
			continue;
		err = uhsfs_dir_writer_add(w, &e);
		if (err)
			return err;
	}
	return 0;
}

int uhsfs_dir_split(u32 buckets, const struct uhsfs_bucket *const *chain, u32 n,
		    struct uhsfs_dir_writer *old, struct uhsfs_dir_writer *fresh)
{
	u64 old_first, old_last, first, last;
	int err;

	uhsfs_dir_range(uhsfs_dir_split_from(buckets), buckets + 1, &old_first, &old_last);
	uhsfs_dir_range(buckets, buckets + 1, &first, &last);
	for (u32 i = 0; i < n; i++) {
		err = uhsfs_dir_writer_take(fresh, chain[i], first, last);
		if (!err && old)
			err = uhsfs_dir_writer_take(old, chain[i], old_first, old_last);
		if (err)
			return err;
	}
	return 0;
}

/* ---- readdir ----------------------------------------------------------------- */

static bool ref_less(const struct uhsfs_dir_ref *a, const struct uhsfs_dir_ref *b)
{
	if (a->cookie != b->cookie)
		return a->cookie < b->cookie;
	if (a->position != b->position)
		return a->position < b->position;
	return a->offset < b->offset;
}

static void ref_swap(struct uhsfs_dir_ref *a, struct uhsfs_dir_ref *b)
{
	struct uhsfs_dir_ref t = *a;

	*a = *b;
	*b = t;
}

/* heap[0 ... count - 1] is a heap with the largest first, but for heap[at], too small. */
static void sift_down(struct uhsfs_dir_ref *heap, u32 count, u32 at)
{
	for (;;) {
		u32 child = 2 * at + 1;

		if (child >= count)
			return;
		if (child + 1 < count && ref_less(&heap[child], &heap[child + 1]))
			child++;
		if (!ref_less(&heap[at], &heap[child]))
			return;
		ref_swap(&heap[at], &heap[child]);
		at = child;
	}
}

/* The same, but for heap[at], too large. */
static void sift_up(struct uhsfs_dir_ref *heap, u32 at)
{
	while (at) {
		u32 parent = (at - 1) / 2;

		if (!ref_less(&heap[parent], &heap[at]))
			return;
		ref_swap(&heap[parent], &heap[at]);
		at = parent;
	}
}

void uhsfs_dir_scan_init(struct uhsfs_dir_scan *scan, u32 buckets, u64 pos,
			 struct uhsfs_dir_ref *refs, u32 capacity)
{
	u64 first;

	uhsfs_assert(capacity >= 1);
	pos = min_t(u64, pos, UHSFS_COOKIE_END);
	memset(scan, 0, sizeof(*scan));
	scan->refs = refs;
	scan->capacity = capacity;
	scan->from.cookie = pos;
	scan->bucket = uhsfs_dir_bucket(uhsfs_cookie_hash(pos), buckets);
	uhsfs_dir_range(scan->bucket, buckets, &first, &scan->last);
}

void uhsfs_dir_scan_block(struct uhsfs_dir_scan *scan, const struct uhsfs_bucket *b)
{
	struct uhsfs_dirent e;

	for (u32 at = 0; uhsfs_bucket_get(b, at, &e); at += uhsfs_dirent_size(e.len)) {
		const struct uhsfs_dir_ref ref = {
			.cookie = e.cookie,
			.position = le32_to_cpu(b->position),
			.offset = at,
		};

		if (ref_less(&ref, &scan->from) || ref.cookie > scan->last)
			continue;
		if (scan->count < scan->capacity) {
			scan->refs[scan->count] = ref;
			sift_up(scan->refs, scan->count);
			scan->count++;
			continue;
		}
		scan->more = true;
		if (ref_less(&ref, &scan->refs[0])) {
			scan->refs[0] = ref;
			sift_down(scan->refs, scan->count, 0);
		}
	}
}

void uhsfs_dir_scan_sort(struct uhsfs_dir_scan *scan)
{
	for (u32 left = scan->count; left > 1; left--) {
		ref_swap(&scan->refs[0], &scan->refs[left - 1]);
		sift_down(scan->refs, left - 1, 0);
	}
}

bool uhsfs_dir_scan_more(struct uhsfs_dir_scan *scan)
{
	if (!scan->more)
		return false;
	/* Sorted, and full: the last one is the largest that was offered to the caller. */
	scan->from = scan->refs[scan->count - 1];
	scan->from.offset++;
	scan->count = 0;
	scan->more = false;
	return true;
}

u64 uhsfs_dir_scan_after(const struct uhsfs_dir_scan *scan)
{
	return scan->last == UHSFS_COOKIE_END ? UHSFS_COOKIE_END : scan->last + 1;
}
