// SPDX-License-Identifier: GPL-2.0
/*
 * Mounting and unmounting.
 *
 * Order of a mount: options; the device (what others wrote to it through its own cache
 * is written out, and a flush makes sure that what is read now cannot be undone by a
 * power cut); superblock; maps; recovery in memory; root.  This version mounts read-only.
 */
#include <linux/blkdev.h>
#include <linux/fs_context.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/statfs.h>

#include "rw.h"

/*
 * Writing is being built: it lacks attributes, fallocate and more.  For its tests only;
 * what is written may be lost.
 */
static bool write;
module_param(write, bool, 0444);
MODULE_PARM_DESC(write, "allow mounts that write (incomplete: for tests only)");

/* ---- superblock ------------------------------------------------------------------------ */

struct super_copies {
	struct uhsfs_super_info info[2];
	struct uhsfs_fault fault[2];
	int err[2];
	bool recognised;
};

/* Read a superblock copy, past all caches. */
static void read_copy(struct super_block *sb, struct super_copies *copies, int which, u64 block)
{
	struct page *page = alloc_page(GFP_KERNEL);

	copies->err[which] = page ? 0 : -ENOMEM;
	if (page && block >= bdev_nr_bytes(sb->s_bdev) >> UHSFS_BLOCK_SHIFT)
		copies->err[which] = -EIO;
	if (!copies->err[which])
		copies->err[which] = uhsfs_read_pages(sb, block, &page, 1);
	if (!copies->err[which]) {
		copies->recognised |= uhsfs_super_recognise(page_address(page));
		copies->err[which] = uhsfs_super_decode(page_address(page), block,
							&copies->info[which],
							&copies->fault[which]);
	}
	if (page)
		__free_page(page);
}

/* Copy 1 stands where copy 0 says, or, if that is damaged, in one of two places. */
static void read_copies(struct super_block *sb, struct super_copies *copies)
{
	const struct uhsfs_super_info *first = &copies->info[0];

	read_copy(sb, copies, 0, UHSFS_SB_BLOCK);
	if (!copies->err[0] && first->version == UHSFS_FORMAT_VERSION) {
		read_copy(sb, copies, 1, uhsfs_super_block(&first->geo, 1));
		return;
	}
	read_copy(sb, copies, 1, UHSFS_SB_COPY);
	if (copies->err[1])
		read_copy(sb, copies, 1, UHSFS_SB_COPY_SMALL);
}

/* May this module use the filesystem at all, and how? */
static int check_access(struct fs_context *fc, struct super_block *sb,
			const struct uhsfs_super_info *super)
{
	const char *source = fc->source ?: sb->s_id;
	u64 device_blocks = bdev_nr_bytes(sb->s_bdev) >> UHSFS_BLOCK_SHIFT;
	u64 unknown;

	switch (uhsfs_super_access(super, &unknown)) {
	case UHSFS_ACCESS_NONE:
		if (super->version != UHSFS_FORMAT_VERSION)
			return invalf(fc, "uhsfs: %s: format version %u, module " UHSFS_VERSION
				      " knows version %u: use the module of the tools that made it",
				      source, super->version, UHSFS_FORMAT_VERSION);
		return invalf(fc, "uhsfs: %s: features %#llx are unknown to module "
			      UHSFS_VERSION ": use a newer one; it was made by %*pE",
			      source, unknown, (int)strlen(super->writer), super->writer);
	case UHSFS_ACCESS_READ:
		if (!(fc->sb_flags & SB_RDONLY)) {
			errorf(fc, "uhsfs: %s: features %#llx are unknown to module "
			       UHSFS_VERSION ", which may only read: mount with -o ro",
			       source, unknown);
			return -EROFS;
		}
		break;
	case UHSFS_ACCESS_WRITE:
		break;
	}
	if (super->geo.blocks > device_blocks)
		return invalf(fc, "uhsfs: %s: the filesystem has %llu blocks, the device only "
			      "%llu: it was made smaller, or the image was cut off",
			      source, super->geo.blocks, device_blocks);
	return 0;
}

static int super_failed(struct fs_context *fc, struct super_block *sb,
			const struct super_copies *copies)
{
	if (copies->err[0] == -ENOMEM || copies->err[1] == -ENOMEM)
		return -ENOMEM;
	if (!copies->recognised && copies->err[0] != -EIO) {
		if (!(fc->sb_flags & SB_SILENT))
			errorf(fc, "uhsfs: %s: no uhsfs filesystem here", fc->source);
		return -EINVAL;
	}
	for (int i = 0; i < 2; i++) {
		const struct uhsfs_fault *fault = &copies->fault[i];

		if (copies->err[i] == -EUCLEAN)
			errorf(fc, "uhsfs: %s: %s %llu: %s is %#llx: %s (%#llx)", fc->source,
			       fault->object, fault->id, fault->field, fault->value, fault->rule,
			       fault->limit);
		else if (copies->err[i])
			errorf(fc, "uhsfs: %s: superblock copy %d cannot be read (error %d)",
			       fc->source, i, copies->err[i]);
	}
	if (!copies->err[0] && !copies->err[1])
		errorf(fc, "uhsfs: %s: the two superblocks are of different filesystems (%#llx, %#llx)",
		       fc->source, copies->info[0].geo.fsid, copies->info[1].geo.fsid);
	return copies->err[0] == -EIO && copies->err[1] == -EIO ? -EIO : -EUCLEAN;
}

static int load_super(struct fs_context *fc, struct super_block *sb)
{
	struct super_copies *copies = kvzalloc(sizeof(*copies), GFP_KERNEL);
	int chosen, err;

	if (!copies)
		return -ENOMEM;
	read_copies(sb, copies);
	chosen = uhsfs_super_choose(copies->err[0] ? NULL : &copies->info[0],
				    copies->err[1] ? NULL : &copies->info[1]);
	if (!copies->err[0] && !copies->err[1] &&
	    copies->info[0].geo.fsid != copies->info[1].geo.fsid)
		chosen = -EUCLEAN;
	if (chosen < 0) {
		err = super_failed(fc, sb, copies);
	} else {
		uhsfs_sb(sb)->super = copies->info[chosen];
		uhsfs_sb(sb)->super_copy = chosen;
		err = check_access(fc, sb, &copies->info[chosen]);
		if (!err && copies->err[1 - chosen])
			uhsfs_notice(sb, "superblock copy %d is bad, the other one counts: run fsck.uhsfs",
				     1 - chosen);
		if (!err && copies->info[chosen].state & UHSFS_STATE_ERROR)
			uhsfs_notice(sb, "damage was found here before: run fsck.uhsfs");
	}
	kvfree(copies);
	return err;
}

/* ---- operations -------------------------------------------------------------------------- */

static void put_internal(struct uhsfs_sb_info *sbi)
{
	iput(sbi->slots);
	iput(sbi->tables);
	iput(sbi->meta);
}

/* The VFS changed times. */
static void dirty_inode(struct inode *inode, int flags)
{
	if (!uhsfs_sb(inode->i_sb)->rw)
		return;
	if (flags & I_DIRTY_DATASYNC)
		uhsfs_touch(inode);
	else if (flags & I_DIRTY_SYNC)
		uhsfs_touch_times(inode);
}

static void put_super(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);

	if (sbi->rw)
		uhsfs_rw_stop(sb);
	uhsfs_sysfs_remove(sb);
	put_internal(sbi);
}

static int statfs(struct dentry *dentry, struct kstatfs *buf)
{
	const struct uhsfs_super_info *super = &uhsfs_sb(dentry->d_sb)->super;
	const struct uhsfs_geometry *geo = &super->geo;
	const struct uhsfs_rw *rw = uhsfs_rw(dentry->d_sb);
	u64 free = rw ? READ_ONCE(rw->free_blocks) : super->free_blocks;
	u64 reserved = rw ? READ_ONCE(rw->reserved) : 0;
	u64 used = rw ? READ_ONCE(rw->used_slots) : super->used_slots;
	u64 slots = uhsfs_super_chunks(super) * geo->slots_per_chunk;
	u64 made = super->chunks_used * geo->slots_per_chunk;
	u64 possible;

	free -= min(free, reserved);
	possible = div_u64(free, uhsfs_chunk_blocks(geo)) * geo->slots_per_chunk;

	buf->f_type = UHSFS_SUPER_MAGIC;
	buf->f_bsize = UHSFS_BLOCK_SIZE;
	buf->f_blocks = geo->blocks;
	buf->f_bfree = free;
	buf->f_bavail = free > super->reserve_blocks ? free - super->reserve_blocks : 0;
	/* Inodes take the same space as data: as many as could be made of what is free. */
	buf->f_files = min(slots, made + possible);
	buf->f_ffree = buf->f_files > used ? buf->f_files - used : 0;
	buf->f_namelen = UHSFS_NAME_LEN;
	buf->f_fsid = u64_to_fsid(geo->fsid);
	return 0;
}

static const struct super_operations uhsfs_super_operations = {
	.alloc_inode = uhsfs_alloc_inode,
	.free_inode = uhsfs_free_inode,
	.evict_inode = uhsfs_evict_inode,
	.dirty_inode = dirty_inode,
	.sync_fs = uhsfs_sync_fs,
	.freeze_fs = uhsfs_freeze,
	.put_super = put_super,
	.statfs = statfs,
	.show_options = uhsfs_show_options,
};

/* ---- mount -------------------------------------------------------------------------------- */

static void free_sb_info(struct uhsfs_sb_info *sbi)
{
	if (!sbi)
		return;
	uhsfs_overlay_free(sbi->overlay);
	uhsfs_free_maps(sbi);
	kvfree(sbi);
}

static struct uhsfs_sb_info *alloc_sb_info(struct super_block *sb, struct uhsfs_options *options)
{
	struct uhsfs_sb_info *sbi = kvzalloc(sizeof(*sbi), GFP_KERNEL);

	if (!sbi)
		return NULL;
	sbi->sb = sb;
	sbi->options = *options;
	if (!options->has_checkpoint)
		sbi->options.checkpoint = UHSFS_CHECKPOINT_SECONDS;
	init_rwsem(&sbi->slots_sem);
	xa_init(&sbi->marked);
	xa_init(&sbi->suspect);
	ratelimit_state_init(&sbi->messages, 5 * HZ, 10);
	return sbi;
}

static void set_up_super(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);

	sb->s_magic = UHSFS_SUPER_MAGIC;
	sb->s_op = &uhsfs_super_operations;
	sb->s_xattr = uhsfs_xattr_handlers;
	sb->s_export_op = &uhsfs_export_operations;
	sb->s_flags |= SB_POSIXACL;
	sb->s_maxbytes = MAX_LFS_FILESIZE;
	sb->s_time_gran = 1;
	sb->s_time_min = div_s64(S64_MIN, NSEC_PER_SEC);
	sb->s_time_max = div_s64(S64_MAX, NSEC_PER_SEC);
	super_set_uuid(sb, sbi->super.uuid, sizeof(sbi->super.uuid));
	/* An image must not be able to stop the machine: panic is only for who mounts it. */
	if (!sbi->options.has_errors)
		sbi->options.errors = sbi->super.errors == UHSFS_ERRORS_CONTINUE ?
				      UHSFS_ERRORS_CONTINUE : UHSFS_ERRORS_REMOUNT_RO;
}

/* Which slots may have changed since the last checkpoint, and what follows from that. */
static int recover(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	int err;

	if (sbi->options.norecovery) {
		sbi->blind = true;
		sbi->crashed = true;
		uhsfs_notice(sb, "norecovery: recent changes may be missing or contradictory");
		return 0;
	}
	err = uhsfs_load_maps(sb);
	sbi->crashed = sbi->unclean || sbi->suspect_all || !xa_empty(&sbi->suspect);
	/* A mount that writes recovers on the device, once it may write. */
	if (!err && sbi->unclean && sb_rdonly(sb))
		err = uhsfs_recover_in_memory(sb);
	return err;
}

static int set_up_root(struct super_block *sb)
{
	struct inode *root = uhsfs_iget(sb, UHSFS_INO_ROOT);

	if (IS_ERR(root)) {
		uhsfs_err(sb, "the root directory cannot be read (error %ld)", PTR_ERR(root));
		return PTR_ERR(root) == -ENOENT ? -EUCLEAN : PTR_ERR(root);
	}
	sb->s_root = d_make_root(root);
	return sb->s_root ? 0 : -ENOMEM;
}

/* What is read from now on must not be undone by a power cut, nor stand in another cache. */
static int flush_device(struct fs_context *fc, struct super_block *sb)
{
	int err = sync_blockdev(sb->s_bdev);

	if (!err)
		err = blkdev_issue_flush(sb->s_bdev);
	if (err && (uhsfs_sb(sb)->options.norecovery || bdev_read_only(sb->s_bdev))) {
		uhsfs_notice(sb, "cannot flush the device (error %d), reading all the same", err);
		return 0;
	}
	if (err)
		errorf(fc, "uhsfs: %s: cannot flush the device (error %d)", fc->source, err);
	return err;
}

/* May and can this mount write? */
static int start_writing(struct fs_context *fc, struct super_block *sb)
{
	const struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	const char *source = fc->source ?: sb->s_id;

	if (sbi->blind) {
		errorf(fc, "uhsfs: %s: norecovery is for reading only: use -o ro,norecovery",
		       source);
		return -EROFS;
	}
	if (sbi->super.atomic == UHSFS_ATOMIC_DEVICE &&
	    bdev_logical_block_size(sb->s_bdev) != UHSFS_BLOCK_SIZE) {
		errorf(fc, "uhsfs: %s: made for a device with atomic writes, but its blocks have %u bytes: use -o ro",
		       source, bdev_logical_block_size(sb->s_bdev));
		return -EROFS;
	}
	return uhsfs_rw_start(sb);
}

static int fill_super(struct super_block *sb, struct fs_context *fc)
{
	struct uhsfs_sb_info *sbi = alloc_sb_info(sb, fc->fs_private);
	int err;

	if (!sbi)
		return -ENOMEM;
	/* Freed by kill_sb from here on. */
	sb->s_fs_info = sbi;
	if (!sb_set_blocksize(sb, UHSFS_BLOCK_SIZE))
		return invalf(fc, "uhsfs: %s: the device's blocks have %u bytes, the most is %u",
			      fc->source, bdev_logical_block_size(sb->s_bdev), UHSFS_BLOCK_SIZE);
	err = flush_device(fc, sb);
	if (err)
		return err;
	err = load_super(fc, sb);
	if (err)
		return err;
	set_up_super(sb);
	sbi->slots = uhsfs_internal_inode(sb);
	sbi->tables = uhsfs_internal_inode(sb);
	sbi->meta = uhsfs_internal_inode(sb);
	err = sbi->slots && sbi->tables && sbi->meta ? 0 : -ENOMEM;
	if (!err)
		err = recover(sb);
	if (!err && !sb_rdonly(sb))
		err = start_writing(fc, sb);
	if (!err)
		err = set_up_root(sb);
	if (!err)
		err = uhsfs_sysfs_add(sb);
	/* put_super() is called only with a root. */
	if (err && !sb->s_root) {
		if (sbi->rw)
			uhsfs_rw_stop(sb);
		put_internal(sbi);
	}
	return err;
}

static int may_write(struct fs_context *fc, const char *source)
{
	if (write)
		return 0;
	errorf(fc, "uhsfs: %s: version " UHSFS_VERSION " cannot write yet: use -o ro",
	       source ?: "no source");
	return -EROFS;
}

static int get_tree(struct fs_context *fc)
{
	int err = fc->sb_flags & SB_RDONLY ? 0 : may_write(fc, fc->source);

	return err ?: get_tree_bdev(fc, fill_super);
}

/* From reading to writing, or back. */
static int change_access(struct fs_context *fc, struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	bool readonly = fc->sb_flags & SB_RDONLY;
	int err;

	if (sbi->rw)
		return uhsfs_rw_remount(sb, readonly);
	if (readonly)
		return 0;
	err = may_write(fc, sb->s_id);
	if (err)
		return err;
	/* Inodes in memory are as recovery in memory made them. */
	if (sbi->overlay) {
		errorf(fc, "uhsfs: %s: was recovered in memory: unmount, and mount to write",
		       sb->s_id);
		return -EROFS;
	}
	err = check_access(fc, sb, &sbi->super);
	return err ?: start_writing(fc, sb);
}

static int reconfigure(struct fs_context *fc)
{
	const struct uhsfs_options *options = fc->fs_private;
	struct uhsfs_sb_info *sbi = uhsfs_sb(fc->root->d_sb);
	int err;

	if (fc->sb_flags_mask & SB_RDONLY) {
		err = change_access(fc, fc->root->d_sb);
		if (err)
			return err;
	}
	if (options->norecovery && !sbi->options.norecovery)
		return invalf(fc, "uhsfs: %s: norecovery cannot be set by a remount: unmount first",
			      fc->root->d_sb->s_id);
	if (options->has_errors) {
		WRITE_ONCE(sbi->options.errors, options->errors);
		sbi->options.has_errors = true;
	}
	if (options->has_checkpoint)
		WRITE_ONCE(sbi->options.checkpoint, options->checkpoint);
	if (options->has_discard)
		WRITE_ONCE(sbi->options.discard, options->discard);
	return 0;
}

static void free_fs_context(struct fs_context *fc)
{
	kfree(fc->fs_private);
}

static const struct fs_context_operations context_operations = {
	.parse_param = uhsfs_parse_param,
	.get_tree = get_tree,
	.reconfigure = reconfigure,
	.free = free_fs_context,
};

static int init_fs_context(struct fs_context *fc)
{
	fc->fs_private = kzalloc(sizeof(struct uhsfs_options), GFP_KERNEL);
	if (!fc->fs_private)
		return -ENOMEM;
	fc->ops = &context_operations;
	return 0;
}

static void kill_sb(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);

	kill_block_super(sb);
	free_sb_info(sbi);
}

struct file_system_type uhsfs_type = {
	.owner = THIS_MODULE,
	.name = "uhsfs",
	.init_fs_context = init_fs_context,
	.parameters = uhsfs_parameters,
	.kill_sb = kill_sb,
	.fs_flags = FS_REQUIRES_DEV | FS_ALLOW_IDMAP,
};
