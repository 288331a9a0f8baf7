/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C tests of this area share: disks as in the area mount, mounted to be written to.
 *
 *	#define _GNU_SOURCE
 *	#include "lib/guest.h"
 *	write_start();				the module is loaded; guest_source is a tmpfs
 *	write_make(&guest_disks[0], 16384);	an empty filesystem of so many blocks, 0: all
 *	write_mount(&guest_disks[0], 0);
 */
#ifndef WRITE_GUEST_H
#define WRITE_GUEST_H

#include "../../mount/lib/guest.h"

#include <sys/statfs.h>

static inline void write_start(void)
{
	guest_run("for m in $(modinfo -F depends \"$UHSFS_MODULE\" | tr , ' '); do modprobe $m || exit 1; done; "
		  "insmod \"$UHSFS_MODULE\" write=1");
	guest_start();
}

static inline void write_make(struct guest_disk *disk, unsigned int blocks)
{
	if (blocks)
		guest_run("mkfs.uhsfs -q -f %s %s %u", disk->mkfs, disk->path, blocks);
	else
		guest_run("mkfs.uhsfs -q -f %s %s", disk->mkfs, disk->path);
}

static inline void write_mount(struct guest_disk *disk, unsigned long flags)
{
	if (mount(disk->path, disk->mnt, "uhsfs", flags, ""))
		tap_bail("mount %s: %s", disk->path, strerror(errno));
	disk->mounted = true;
}

/* Unmount; is all well then? */
static inline bool write_clean(struct guest_disk *disk)
{
	if (disk->mounted && umount(disk->mnt)) {
		tap_diag("umount %s: %s", disk->mnt, strerror(errno));
		return false;
	}
	disk->mounted = false;
	/* Not even a note about something to repair. */
	return !guest_try("fsck.uhsfs -n -v %s >$TMPDIR/fsck 2>&1 || { head -n 30 $TMPDIR/fsck | sed 's/^/# /'; false; }",
			  disk->path);
}

static inline uint64_t write_free(const struct guest_disk *disk)
{
	struct statfs statfs_now;

	if (statfs(disk->mnt, &statfs_now))
		tap_bail("statfs %s: %s", disk->mnt, strerror(errno));
	return statfs_now.f_bfree;
}

#endif /* WRITE_GUEST_H */
