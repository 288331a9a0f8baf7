/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C tests of this area share: disks with an image of a folder, mounted, and all of it
 * undone at the end.
 *
 *	#define _GNU_SOURCE
 *	#include "lib/guest.h"
 *	guest_start();			the module is loaded; $TMPDIR/source is a tmpfs
 *	guest_make(&guest_disks[0]);	mkfs.uhsfs -d $TMPDIR/source
 *	guest_mount(&guest_disks[0], "");
 */
#ifndef MOUNT_GUEST_H
#define MOUNT_GUEST_H

#include "tap.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

struct guest_disk {
	const char *name;	/* in /dev and /sys/fs/uhsfs */
	unsigned int block;	/* bytes of a logical block */
	const char *mkfs;	/* options */
	char path[64];		/* of the device */
	char mnt[PATH_MAX];
	bool mounted;
};

static struct guest_disk guest_disks[2] = {
	{ .name = "nvme0n1", .block = 4096, .mkfs = "--slot-size 1024" },
	{ .name = "nvme1n1", .block = 512, .mkfs = "--slot-size 4096" },
};
static char guest_source[PATH_MAX - 256];

/* Run a shell command; its status. */
TAP_PRINTF(1, 2) static inline int guest_try(const char *format, ...)
{
	char command[3 * PATH_MAX];
	va_list arguments;
	int status;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* The same, and nothing goes on if it fails. */
#define guest_run(...) \
	do { \
		if (guest_try(__VA_ARGS__)) \
			tap_bail("a command failed (%s:%d): %s", __FILE__, __LINE__, #__VA_ARGS__); \
	} while (0)

static inline void guest_unmount(struct guest_disk *disk)
{
	if (disk->mounted && umount(disk->mnt)) {
		tap_diag("umount %s: %s", disk->mnt, strerror(errno));
		umount2(disk->mnt, MNT_DETACH);
	}
	disk->mounted = false;
}

static inline void guest_end(void *unused)
{
	(void)unused;
	/* A test that ended early has files open; the next one must have the disks. */
	close_range(3, ~0U, 0);
	if (chdir("/"))
		tap_diag("no /");
	for (int i = 0; i < 2; i++)
		guest_unmount(&guest_disks[i]);
	umount2(guest_source, MNT_DETACH);
	if (guest_try("rmmod uhsfs"))
		tap_diag("uhsfs is still in use");
}

static inline void guest_start(void)
{
	const char *tmp = getenv("TMPDIR") ?: "/tmp";

	tap_defer(guest_end, NULL);
	guest_run("modprobe nvme; for m in $(modinfo -F depends \"$UHSFS_MODULE\" | tr , ' '); do"
		  " modprobe $m || exit 1; done; "
		  "test -d /sys/module/uhsfs || insmod \"$UHSFS_MODULE\"");
	snprintf(guest_source, sizeof(guest_source), "%s/source", tmp);
	guest_run("mkdir %s && mount -t tmpfs -o noatime none %s", guest_source, guest_source);
	for (int i = 0; i < 2; i++) {
		struct guest_disk *disk = &guest_disks[i];

		snprintf(disk->path, sizeof(disk->path), "/dev/%s", disk->name);
		snprintf(disk->mnt, sizeof(disk->mnt), "%s/%s", tmp, disk->name);
		for (int tries = 0; access(disk->path, F_OK); tries++) {
			if (tries == 300)
				tap_bail("no %s", disk->path);
			usleep(100000);
		}
		if (mkdir(disk->mnt, 0755))
			tap_bail("%s: %s", disk->mnt, strerror(errno));
	}
}

static inline void guest_make(struct guest_disk *disk)
{
	guest_run("mkfs.uhsfs -q -f %s -d %s %s", disk->mkfs, guest_source, disk->path);
}

static inline void guest_mount(struct guest_disk *disk, const char *options)
{
	if (mount(disk->path, disk->mnt, "uhsfs", MS_RDONLY, options))
		tap_bail("mount %s: %s", disk->path, strerror(errno));
	disk->mounted = true;
}

static inline void guest_drop_caches(void)
{
	guest_run("echo 3 >/proc/sys/vm/drop_caches");
}

/* A file of one line of text; "" if there is none. */
static inline const char *guest_line(const char *path)
{
	static char line[256];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);

	if (fd >= 0)
		close(fd);
	line[n < 0 ? 0 : n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* Damage reported since the mount. */
static inline long guest_corruptions(const struct guest_disk *disk)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/fs/uhsfs/%s/corruptions", disk->name);
	return atol(guest_line(path));
}

/* Numbers by chance that follow from a seed (xorshift64*). */
static uint64_t guest_random_state = 1;

static inline uint64_t guest_random(void)
{
	guest_random_state ^= guest_random_state >> 12;
	guest_random_state ^= guest_random_state << 25;
	guest_random_state ^= guest_random_state >> 27;
	return guest_random_state * 0x2545f4914f6cdd1dULL;
}

static inline uint64_t guest_below(uint64_t limit)
{
	return guest_random() % limit;
}

/* From UHSFS_SEED or the clock; printed, so that a failure can be had again. */
static inline void guest_seed(void)
{
	struct timespec now;
	const char *text = getenv("UHSFS_SEED");

	clock_gettime(CLOCK_REALTIME, &now);
	guest_random_state = text ? strtoull(text, NULL, 0) : (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	guest_random_state |= !guest_random_state;
	tap_diag("UHSFS_SEED=%llu", (unsigned long long)guest_random_state);
}

#endif /* MOUNT_GUEST_H */
