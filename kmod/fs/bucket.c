// SPDX-License-Identifier: GPL-2.0
/*
 * Changing directories: entries, overflow blocks, splits, and writing buckets.
 *
 * Changes happen in the folios of the directory's mapping, which are kept from then on
 * (info->buckets) until they are written.  Callers hold i_rwsem exclusively; info->lock
 * is taken for the changes themselves, because commits copy buckets without i_rwsem.
 *
 * What the slot says of the directory (buckets, overflow blocks, extents) is published
 * when the buckets it did not have before are on the device; what is overwritten in
 * place comes after that.
 */
#include <linux/slab.h>

#include "rw.h"

/* ---- dirty buckets -------------------------------------------------------- */

static int keep_bucket(struct inode *dir, u64 logical, struct folio *folio, bool fresh)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_rw *rw = uhsfs_rw(dir->i_sb);
	int err;

	lockdep_assert_held_write(&info->lock);
	if (xa_load(&info->buckets, logical)) {
		/* Its image is out of date as soon as the caller goes on. */
		xa_clear_mark(&info->buckets, logical, XA_MARK_1);
		return 0;
	}
	err = xa_err(xa_store(&info->buckets, logical, folio, GFP_NOFS));
	if (err)
		return err;
	folio_get(folio);
	if (fresh)
		xa_set_mark(&info->buckets, logical, XA_MARK_0);
	mutex_lock(&rw->lock);
	if (!xa_load(&rw->dirty_dirs, dir->i_ino)) {
		err = xa_err(xa_store(&rw->dirty_dirs, dir->i_ino, dir, GFP_NOFS));
		if (!err)
			ihold(dir);
	}
	mutex_unlock(&rw->lock);
	return err;
}

/* The directory is gone. */
void uhsfs_drop_buckets(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct folio *folio;
	unsigned long logical;

	xa_for_each(&info->buckets, logical, folio)
		folio_put(folio);
	xa_destroy(&info->buckets);
}

/* ---- blocks --------------------------------------------------------------- */

/* A home for a logical block; one that a change which failed left is used. */
static int map_block(struct inode *dir, u64 logical, bool *taken)
{
	struct super_block *sb = dir->i_sb;
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u32 homes = uhsfs_geo(sb)->homes;
	struct uhsfs_ext ext;
	u64 len;
	u32 got;
	int err;

	*taken = false;
	if (uhsfs_list_lookup(&info->list, logical, &ext, &len))
		return 0;
	err = uhsfs_list_room(dir, 2);
	if (err)
		return err;
	ext = (struct uhsfs_ext) { .logical = logical, .len = 1 };
	mutex_lock(&rw->lock);
	err = uhsfs_alloc(sb, rw->goal, 1, homes, uhsfs_sb(sb)->super.reserve_blocks,
			  &ext.physical, &got);
	ext.birth = rw->epoch;
	if (!err) {
		err = uhsfs_list_insert(&info->list, &ext);
		if (err)
			uhsfs_free_now(sb, ext.physical, homes);
	}
	mutex_unlock(&rw->lock);
	if (err)
		return err;
	*taken = true;
	dir->i_blocks += homes << (UHSFS_BLOCK_SHIFT - SECTOR_SHIFT);
	return 0;
}

/* Map a new block and put an image into its folio, with a reference. */
static struct folio *add_block(struct inode *dir, u64 logical, const struct uhsfs_bucket *image)
{
	struct folio *folio;
	bool taken;
	int err;

	err = map_block(dir, logical, &taken);
	if (err)
		return ERR_PTR(err);
	folio = uhsfs_lock_folio(dir->i_mapping, logical);
	if (!folio)
		return ERR_PTR(-ENOMEM);
	memcpy(folio_address(folio), image, sizeof(*image));
	folio_mark_uptodate(folio);
	folio_unlock(folio);
	err = keep_bucket(dir, logical, folio, true);
	if (err) {
		folio_put(folio);
		return ERR_PTR(err);
	}
	return folio;
}

int uhsfs_dir_create(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_bucket *image = kmalloc(sizeof(*image), GFP_NOFS);
	struct folio *folio;
	int err = 0;

	if (!image)
		return -ENOMEM;
	uhsfs_dir_info_init(&info->dir);
	uhsfs_bucket_init(image, uhsfs_geo(dir->i_sb), dir->i_ino, dir->i_generation, 0, 0);
	down_write(&info->lock);
	folio = add_block(dir, 0, image);
	up_write(&info->lock);
	if (IS_ERR(folio))
		err = PTR_ERR(folio);
	else
		folio_put(folio);
	i_size_write(dir, UHSFS_BLOCK_SIZE);
	info->list_loaded = true;
	kfree(image);
	return err;
}

/* ---- overflow blocks and splits ------------------------------------------- */

/* One more block at the end of a chain. */
static int lengthen(struct inode *dir, u32 bucket)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_bucket *image = kmalloc(sizeof(*image), GFP_NOFS);
	struct uhsfs_dir_info after = info->dir;
	struct uhsfs_chain chain;
	struct folio *tail = NULL, *folio;
	u64 logical = bucket, tail_logical = bucket;
	u32 position = 0;
	int more;

	if (!image)
		return -ENOMEM;
	uhsfs_chain_start(&chain, dir, bucket);
	while (logical = chain.logical, (more = uhsfs_chain_next(&chain)) > 0) {
		if (tail)
			folio_put(tail);
		tail = chain.folio;
		folio_get(tail);
		tail_logical = logical;
		position = chain.position;
	}
	uhsfs_chain_end(&chain);
	if (more < 0)
		goto out;
	uhsfs_bucket_init(image, uhsfs_geo(dir->i_sb), dir->i_ino, dir->i_generation, bucket,
			  position + 1);
	down_write(&info->lock);
	more = keep_bucket(dir, tail_logical, tail, false);
	folio = more ? ERR_PTR(more) :
		       add_block(dir, UHSFS_DIR_OVERFLOW + after.overflow, image);
	if (IS_ERR(folio)) {
		more = PTR_ERR(folio);
	} else {
		more = uhsfs_bucket_link(folio_address(tail), folio_address(folio), &after);
		info->dir = after;
		folio_put(folio);
	}
	up_write(&info->lock);
out:
	if (tail)
		folio_put(tail);
	kfree(image);
	return more;
}

#define SPLIT_MAX 16

struct split {
	u32 count;			/* blocks of the old chain */
	struct folio *folio[SPLIT_MAX];
	u64 logical[SPLIT_MAX];
	const struct uhsfs_bucket *old[SPLIT_MAX];
	struct uhsfs_bucket *fresh[SPLIT_MAX];
};

static void free_split(struct split *split)
{
	for (u32 i = 0; i < SPLIT_MAX; i++) {
		if (split->folio[i])
			folio_put(split->folio[i]);
		kfree(split->fresh[i]);
	}
	kfree(split);
}

static int load_split(struct inode *dir, u32 from, struct split *split)
{
	struct uhsfs_chain chain;
	u64 logical;
	int more;

	uhsfs_chain_start(&chain, dir, from);
	while (logical = chain.logical, (more = uhsfs_chain_next(&chain)) > 0) {
		u32 i = split->count;

		if (i == SPLIT_MAX) {
			more = -E2BIG;
			break;
		}
		split->folio[i] = chain.folio;
		folio_get(chain.folio);
		split->logical[i] = logical;
		split->old[i] = chain.bucket;
		split->fresh[i] = kzalloc(sizeof(*split->fresh[i]), GFP_NOFS);
		split->count++;
		if (!split->fresh[i]) {
			more = -ENOMEM;
			break;
		}
	}
	uhsfs_chain_end(&chain);
	return more;
}

/* Put the new bucket's blocks into the directory and take its entries out of the old ones. */
static int carry_out(struct inode *dir, struct split *split, u32 fresh,
		     const struct uhsfs_dir_info *after)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	u32 from = uhsfs_dir_split_from(info->dir.buckets);
	u64 first, last;
	int err = 0;

	for (u32 i = 0; !err && i < split->count; i++)
		err = keep_bucket(dir, split->logical[i], split->folio[i], false);
	for (u32 i = 0; !err && i < fresh; i++) {
		u64 logical = i ? UHSFS_DIR_OVERFLOW + info->dir.overflow + i - 1 :
				  info->dir.buckets;
		struct folio *folio = add_block(dir, logical, split->fresh[i]);

		if (IS_ERR(folio))
			err = PTR_ERR(folio);
		else
			folio_put(folio);
	}
	/* Blocks that were added stay mapped for the next attempt. */
	if (err)
		return err;
	info->dir.buckets = after->buckets;
	info->dir.overflow = after->overflow;
	uhsfs_dir_range(from, info->dir.buckets, &first, &last);
	for (u32 i = 0; i < split->count; i++)
		uhsfs_bucket_trim(folio_address(split->folio[i]), first, last);
	i_size_write(dir, (loff_t)info->dir.buckets << UHSFS_BLOCK_SHIFT);
	return 0;
}

/* Divide a bucket.  Nothing is lost if it cannot be done: the chain is longer then. */
static void split_bucket(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_dir_info after = info->dir;
	u32 from = uhsfs_dir_split_from(info->dir.buckets);
	struct split *split = kzalloc(sizeof(*split), GFP_NOFS);
	struct uhsfs_dir_writer writer;
	int err;

	if (!split)
		return;
	err = load_split(dir, from, split);
	if (!err) {
		uhsfs_dir_writer_init(&writer, split->fresh, split->count, uhsfs_geo(dir->i_sb),
				      dir->i_ino, dir->i_generation, info->dir.buckets, &after);
		err = uhsfs_dir_split(info->dir.buckets, split->old, split->count, NULL, &writer);
	}
	if (!err) {
		after.buckets = info->dir.buckets + 1;
		down_write(&info->lock);
		carry_out(dir, split, writer.count, &after);
		up_write(&info->lock);
	}
	free_split(split);
}

/* ---- entries -------------------------------------------------------------- */

/* Bytes and entries of a chain, for the policy. */
static int measure(struct inode *dir, u32 bucket, u64 *bytes, u32 *entries)
{
	struct uhsfs_chain chain;
	int more;

	*bytes = 0;
	*entries = 0;
	uhsfs_chain_start(&chain, dir, bucket);
	while ((more = uhsfs_chain_next(&chain)) > 0) {
		*bytes += le16_to_cpu(chain.bucket->used);
		*entries += le16_to_cpu(chain.bucket->count);
	}
	uhsfs_chain_end(&chain);
	return more;
}

static int put_entry(struct inode *dir, const struct uhsfs_dir_probe *probe,
		     struct uhsfs_dirent *e)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	u32 bucket = uhsfs_dir_bucket(probe->hash, info->dir.buckets);
	struct uhsfs_chain chain;
	u64 logical;
	int err;

	uhsfs_chain_start(&chain, dir, bucket);
	do {
		logical = chain.logical;
		err = uhsfs_chain_next(&chain);
	} while (err > 0 && chain.position != probe->room_position);
	if (err > 0) {
		down_write(&info->lock);
		err = keep_bucket(dir, logical, chain.folio, false);
		if (!err)
			err = uhsfs_bucket_insert(folio_address(chain.folio), e);
		if (err >= 0) {
			info->dir.entries++;
			if (e->type == DT_DIR)
				info->dir.subdirs++;
			err = 0;
		}
		up_write(&info->lock);
	}
	uhsfs_chain_end(&chain);
	return err;
}

int uhsfs_dir_insert_entry(struct inode *dir, const struct qstr *name, u64 ino, u32 gen, u8 type)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_dirent e = {
		.ino = ino,
		.gen = gen,
		.type = type,
		.name = name->name,
		.len = name->len,
	};
	struct uhsfs_dir_probe probe;
	u32 bucket, entries;
	u64 bytes;
	int err;

	err = uhsfs_load_extents(dir);
	if (err)
		return err;
	for (;;) {
		uhsfs_dir_probe_init(&probe, uhsfs_geo(dir->i_sb), name->name, name->len, ino, gen);
		err = uhsfs_dir_probe(dir, &probe);
		if (err || probe.copies)
			return err;
		if (probe.room)
			break;
		err = lengthen(dir, uhsfs_dir_bucket(probe.hash, info->dir.buckets));
		if (err)
			return err;
	}
	err = uhsfs_dir_probe_cookie(&probe, &e.cookie);
	if (!err)
		err = put_entry(dir, &probe, &e);
	if (err)
		return err;
	bucket = uhsfs_dir_bucket(probe.hash, info->dir.buckets);
	if (!measure(dir, bucket, &bytes, &entries) &&
	    uhsfs_dir_should_grow(&info->dir, bytes, entries))
		split_bucket(dir);
	return 0;
}

void uhsfs_dir_remove_entry(struct inode *dir, const struct qstr *name, u64 ino, u32 gen)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	u64 hash = uhsfs_dir_hash(uhsfs_geo(dir->i_sb), name->name, name->len);
	struct uhsfs_chain chain;
	u64 logical;

	/* What is left behind no slot confirms. */
	if (uhsfs_load_extents(dir))
		return;
	uhsfs_chain_start(&chain, dir, uhsfs_dir_bucket(hash, info->dir.buckets));
	while (logical = chain.logical, uhsfs_chain_next(&chain) > 0) {
		struct uhsfs_dirent e;
		int at = uhsfs_bucket_find_exact(chain.bucket, hash, name->name, name->len, ino,
						 gen);

		if (at < 0)
			continue;
		down_write(&info->lock);
		if (keep_bucket(dir, logical, chain.folio, false)) {
			up_write(&info->lock);
			break;
		}
		while ((at = uhsfs_bucket_find_exact(chain.bucket, hash, name->name, name->len, ino,
						     gen)) >= 0) {
			uhsfs_bucket_get(chain.bucket, at, &e);
			if (e.type == DT_DIR && info->dir.subdirs)
				info->dir.subdirs--;
			uhsfs_bucket_remove(folio_address(chain.folio), at);
			if (info->dir.entries)
				info->dir.entries--;
		}
		up_write(&info->lock);
	}
	uhsfs_chain_end(&chain);
}

/* ---- writing -------------------------------------------------------------- */

static void seal_bucket(struct page *page, u64 block, void *ctx)
{
	uhsfs_bucket_seal(page_address(page), block, *(u64 *)ctx);
}

struct image {
	struct list_head list;
	struct page *page;
	u64 home;
	u64 seq;
	u8 next;
};

/* A copy of one bucket as it is now; the folio remembers which of its copies that will be. */
static struct image *copy_bucket(struct inode *dir, u64 logical, struct folio *folio, bool fresh)
{
	struct super_block *sb = dir->i_sb;
	struct uhsfs_bucket *bucket = folio_address(folio);
	struct uhsfs_ext ext;
	struct image *image;
	u64 len;

	if (uhsfs_extent_lookup(dir, logical, &ext, &len) <= 0)
		return ERR_PTR(-EUCLEAN);
	image = kzalloc(sizeof(*image), GFP_NOFS | __GFP_NOFAIL);
	image->page = uhsfs_image_page();
	image->home = ext.physical + (logical - ext.logical) * uhsfs_geo(sb)->homes;
	image->next = fresh ? 2 : uhsfs_next_copy(sb, le64_to_cpu(bucket->h.block) - image->home);
	bucket->h.block = cpu_to_le64(image->home + (image->next == 2 ? 0 : image->next));
	mutex_lock(&uhsfs_rw(sb)->lock);
	image->seq = uhsfs_next_op(sb);
	mutex_unlock(&uhsfs_rw(sb)->lock);
	memcpy(page_address(image->page), bucket, UHSFS_BLOCK_SIZE);
	return image;
}

/* Write the images, or drop them. */
void uhsfs_write_images(struct list_head *images, struct uhsfs_writes *writes)
{
	struct image *image, *next;

	list_for_each_entry_safe(image, next, images, list) {
		if (writes)
			uhsfs_write_home(writes, image->page, image->home, image->next, 0,
					 seal_bucket, &image->seq);
		else
			__free_page(image->page);
		list_del(&image->list);
		kfree(image);
	}
}

/* What the slot may say once the new buckets are on the device. */
static void prepare_publishing(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct uhsfs_extent *copy;

	if (!info->list_loaded)
		return;
	if (info->pub && info->pub_count == info->list.count &&
	    !memcmp(info->pub, info->list.extent, info->pub_count * sizeof(*info->pub)) &&
	    info->published.buckets == info->dir.buckets &&
	    info->published.overflow == info->dir.overflow)
		return;
	copy = kvmalloc_array(info->list.count + 1, sizeof(*copy), GFP_NOFS | __GFP_NOFAIL);
	memcpy(copy, info->list.extent, info->list.count * sizeof(*copy));
	kvfree(info->pubbing);
	info->pubbing = copy;
	info->pubbing_count = info->list.count;
	info->publishing = info->dir;
}

/* Images of all dirty buckets; uhsfs_publish() when the fresh ones are durable. */
int uhsfs_snapshot_buckets(struct inode *dir, struct uhsfs_bucket_images *images)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct folio *folio;
	unsigned long logical;
	int err = 0;

	down_write(&info->lock);
	prepare_publishing(dir);
	xa_for_each(&info->buckets, logical, folio) {
		bool fresh = xa_get_mark(&info->buckets, logical, XA_MARK_0);
		struct image *image;

		image = copy_bucket(dir, logical, folio, fresh);
		if (IS_ERR(image)) {
			err = PTR_ERR(image);
			break;
		}
		list_add_tail(&image->list, fresh ? &images->fresh : &images->old);
		xa_clear_mark(&info->buckets, logical, XA_MARK_0);
		xa_set_mark(&info->buckets, logical, XA_MARK_1);
	}
	up_write(&info->lock);
	return err;
}

/* Buckets of a directory that the device does not know, with its slot. */
int uhsfs_write_new_buckets(struct inode *dir, struct uhsfs_writes *writes)
{
	struct uhsfs_bucket_images images;
	int err;

	INIT_LIST_HEAD(&images.fresh);
	INIT_LIST_HEAD(&images.old);
	err = uhsfs_snapshot_buckets(dir, &images);
	uhsfs_write_images(&images.fresh, err ? NULL : writes);
	/* None was there before, but a round that failed may have written some. */
	uhsfs_write_images(&images.old, err ? NULL : writes);
	return err;
}

bool uhsfs_publish(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	bool news;

	down_write(&info->lock);
	news = info->pubbing;
	if (news) {
		kvfree(info->pub);
		info->pub = info->pubbing;
		info->pub_count = info->pubbing_count;
		info->published = info->publishing;
		info->pub_changed = true;
		info->pubbing = NULL;
	}
	up_write(&info->lock);
	return news;
}

/* They are durable: those that did not change since need not be kept.  True if none is left. */
bool uhsfs_buckets_durable(struct inode *dir)
{
	struct uhsfs_inode_info *info = uhsfs_i(dir);
	struct folio *folio;
	unsigned long logical;
	bool none;

	down_write(&info->lock);
	xa_for_each_marked(&info->buckets, logical, folio, XA_MARK_1) {
		xa_erase(&info->buckets, logical);
		folio_put(folio);
	}
	none = xa_empty(&info->buckets);
	up_write(&info->lock);
	return none;
}
