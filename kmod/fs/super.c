// SPDX-License-Identifier: GPL-2.0
/*
 * Module entry and the filesystem type.
 *
 * This version has no on-disk format yet, so every mount is refused, with a message
 * in the kernel log and, for callers of fsopen(2), in the context's own log.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/module.h>

#include "core/crc32c.h"
#include "core/siphash.h"
#include "uhsfs.h"

static int uhsfs_get_tree(struct fs_context *fc)
{
	return invalf(fc, "uhsfs: %s: version " UHSFS_VERSION
		      " cannot mount filesystems yet: it only registers the type",
		      fc->source ?: "no source");
}

static const struct fs_context_operations uhsfs_context_ops = {
	.get_tree = uhsfs_get_tree,
};

static int uhsfs_init_fs_context(struct fs_context *fc)
{
	fc->ops = &uhsfs_context_ops;
	return 0;
}

static struct file_system_type uhsfs_type = {
	.owner = THIS_MODULE,
	.name = "uhsfs",
	.init_fs_context = uhsfs_init_fs_context,
	.kill_sb = kill_block_super,
	.fs_flags = FS_REQUIRES_DEV,
};
MODULE_ALIAS_FS("uhsfs");

/*
 * Checksums and hashes come from the kernel.  On another result than the published one
 * every record would be damaged or unreadable elsewhere, so the module refuses to load.
 */
static int __init uhsfs_check_primitives(void)
{
	u8 bytes[16];
	u32 crc;
	u64 hash;

	crc = uhsfs_crc32c(0, "123456789", 9);
	if (crc != 0xe3069283) {
		pr_err("crc32c of the check string is %#x, expected 0xe3069283\n", crc);
		return -EIO;
	}
	for (u8 i = 0; i < sizeof(bytes); i++)
		bytes[i] = i;
	hash = uhsfs_siphash(bytes, bytes, 15);
	if (hash != 0xa129ca6149be45e5ULL) {
		pr_err("siphash of the check string is %#llx, expected 0xa129ca6149be45e5\n", hash);
		return -EIO;
	}
	return 0;
}

static int __init uhsfs_init(void)
{
	int err;

	err = uhsfs_check_primitives();
	if (err)
		return err;
	err = uhsfs_sysfs_init();
	if (err)
		return err;
	err = register_filesystem(&uhsfs_type);
	if (err) {
		uhsfs_sysfs_exit();
		return err;
	}
	pr_info("version " UHSFS_VERSION " loaded\n");
	return 0;
}

static void __exit uhsfs_exit(void)
{
	unregister_filesystem(&uhsfs_type);
	uhsfs_sysfs_exit();
}

module_init(uhsfs_init);
module_exit(uhsfs_exit);
MODULE_DESCRIPTION("Journal-less filesystem for NVMe");
MODULE_VERSION(UHSFS_VERSION);
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: crc32c");
