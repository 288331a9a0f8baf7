// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading the module.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/module.h>

#include "rw.h"

#include "core/crc32c.h"
#include "core/siphash.h"

struct workqueue_struct *uhsfs_wq, *uhsfs_io_wq;

static_assert(PAGE_SIZE == UHSFS_BLOCK_SIZE, "a block is a page");

/*
 * Checksums and hashes come from the kernel.  On another result than the published one
 * every record would be damaged or unreadable elsewhere, so the module refuses to load.
 */
static int __init check_primitives(void)
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

	err = check_primitives();
	if (err)
		return err;
	err = uhsfs_inode_cache_init();
	if (err)
		return err;
	uhsfs_wq = alloc_workqueue("uhsfs", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	/* A checkpoint waits for the ends of I/O: each has a rescuer. */
	uhsfs_io_wq = alloc_workqueue("uhsfs-io", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!uhsfs_wq || !uhsfs_io_wq) {
		err = -ENOMEM;
		goto out_wq;
	}
	err = uhsfs_sysfs_init();
	if (err)
		goto out_wq;
	err = register_filesystem(&uhsfs_type);
	if (err)
		goto out_sysfs;
	pr_info("version " UHSFS_VERSION " loaded\n");
	return 0;

out_sysfs:
	uhsfs_sysfs_exit();
out_wq:
	if (uhsfs_io_wq)
		destroy_workqueue(uhsfs_io_wq);
	if (uhsfs_wq)
		destroy_workqueue(uhsfs_wq);
	uhsfs_inode_cache_exit();
	return err;
}

static void __exit uhsfs_exit(void)
{
	unregister_filesystem(&uhsfs_type);
	uhsfs_sysfs_exit();
	destroy_workqueue(uhsfs_io_wq);
	destroy_workqueue(uhsfs_wq);
	uhsfs_inode_cache_exit();
}

module_init(uhsfs_init);
module_exit(uhsfs_exit);
MODULE_DESCRIPTION("Journal-less filesystem for NVMe");
MODULE_VERSION(UHSFS_VERSION);
MODULE_LICENSE("GPL");
MODULE_ALIAS_FS("uhsfs");
MODULE_SOFTDEP("pre: crc32c");
