/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * A filesystem that is frozen, or mounted read-only again, while four processes write: nothing is
 * written from then on, and what is on the device is a filesystem that needs no recovery.
 */
#define _GNU_SOURCE
#include "lib/load.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#define BLOCKS 16384		/* of the filesystem */
#define QUIET_SECONDS 3		/* longer than from checkpoint to checkpoint */

static struct guest_disk *disk;
static int root;		/* the mounted folder */

static long sectors_written(void)
{
	char path[64];
	long value[7];

	snprintf(path, sizeof(path), "/sys/block/%s/stat", disk->name);
	if (sscanf(guest_line(path), "%ld %ld %ld %ld %ld %ld %ld", &value[0], &value[1], &value[2], &value[3], &value[4],
		   &value[5], &value[6]) != 7)
		tap_bail("%s cannot be read", path);
	return value[6];
}

static void copy_device(const char *name)
{
	guest_run("dd if=%s of=$TMPDIR/%s bs=1M count=%d iflag=direct status=none", disk->path, name, BLOCKS / 256);
}

/* Is the copy a filesystem that needs nothing, but for so many open files without a name? */
static void check_copy(int orphans)
{
	tap_ok(!guest_try("fsck.uhsfs -n -v $TMPDIR/first >$TMPDIR/fsck 2>&1 || "
			  "{ head -n 30 $TMPDIR/fsck | sed 's/^/# /'; false; }"),
	       "fsck finds nothing in a copy of the device");
	guest_run("modprobe loop; dmesg -C; mkdir -p $TMPDIR/copy; mount -t uhsfs -o ro,loop $TMPDIR/first $TMPDIR/copy");
	if (orphans)
		tap_ok(!guest_try("dmesg | grep ' 0 names lost, 0 dropped, 0 intents finished, %d slots freed, 0 entries inserted'",
				  orphans), "the copy is mounted, and recovery frees what was open without a name");
	else
		tap_ok(guest_try("dmesg | grep recover | sed 's/^/# /' | grep ."), "the copy is mounted without recovery");
	tap_ok(!guest_try("test -e $TMPDIR/copy/before && test ! -e $TMPDIR/copy/open"), "and has what was there");
	guest_run("umount $TMPDIR/copy");
}

/* ---- frozen ----------------------------------------------------------------------------------- */

/* A file that is open and has no name. */
static int open_orphan(void)
{
	static char data[300 * LOAD_BLOCK];
	int fd = openat(root, "open", O_RDWR | O_CREAT, 0644);

	if (pwrite(fd, data, sizeof(data), 0) != sizeof(data) || unlinkat(root, "open", 0))
		tap_bail("an open file: %s", strerror(errno));
	return fd;
}

static void check_frozen(int orphans)
{
	int held = orphans ? open_orphan() : -1, dir = openat(root, ".", O_RDONLY), reader = openat(root, "before", O_RDONLY);
	long before, operations;
	char byte;

	usleep(500000);
	tap_ok(!ioctl(root, FIFREEZE, 0), "a filesystem that is written to can be frozen");
	usleep(200000);
	operations = load_operations();
	before = sectors_written();
	copy_device("first");
	/* What is allowed now, and must not write. */
	if (orphans)
		close(held);
	tap_ok(pread(reader, &byte, 1, 0) == 1 && !fsync(reader) && !fsync(dir) && !syncfs(dir),
	       "what is frozen can be read and synced");
	sync();
	guest_drop_caches();
	sleep(QUIET_SECONDS);
	tap_eq(sectors_written(), before, "nothing is written while it is frozen, whatever is closed and synced");
	tap_ok(load_operations() - operations <= LOAD_PROCESSES, "nobody gets on with writing");
	copy_device("second");
	tap_ok(!guest_try("cmp $TMPDIR/first $TMPDIR/second"), "the device stays as it was");
	check_copy(orphans);
	tap_ok(!ioctl(root, FITHAW, 0) && load_goes_on(), "after thawing all go on");
	close(dir);
	close(reader);
}

static void test_frozen(void)
{
	bool right = true;

	check_frozen(0);
	check_frozen(1);
	for (int i = 0; i < 20; i++) {
		right &= !ioctl(root, FIFREEZE, 0);
		usleep(guest_below(50000));
		right &= !ioctl(root, FITHAW, 0);
		usleep(guest_below(100000));
	}
	tap_ok(right && load_goes_on(), "it can be frozen and thawed many times");
}

/* ---- read-only --------------------------------------------------------------------------------- */

static bool read_only(int error)
{
	if (error != EROFS)
		return false;
	usleep(10000);
	return true;
}

/* As soon as no file is open to be written to. */
static bool remount_read_only(void)
{
	for (int tries = 0; tries < 20000; tries++) {
		if (!mount(NULL, disk->mnt, NULL, MS_REMOUNT | MS_RDONLY, NULL))
			return true;
		if (errno != EBUSY)
			break;
		usleep(500);
	}
	tap_diag("remount: %s", strerror(errno));
	return false;
}

static void test_read_only(void)
{
	bool right = true;
	long before;

	tap_ok(remount_read_only(), "a filesystem that is written to can be mounted read-only");
	before = sectors_written();
	copy_device("first");
	syncfs(root);
	sync();
	guest_drop_caches();
	sleep(QUIET_SECONDS);
	tap_eq(sectors_written(), before, "nothing is written then");
	check_copy(0);
	tap_ok(!mount(NULL, disk->mnt, NULL, MS_REMOUNT, NULL) && load_goes_on(), "mounted to be written to again, all go on");
	for (int i = 0; i < 10; i++) {
		right &= remount_read_only();
		right &= !mount(NULL, disk->mnt, NULL, MS_REMOUNT, NULL);
		usleep(guest_below(100000));
	}
	tap_ok(right && load_goes_on(), "that can be done many times");
}

/* A test that ends early must not leave it frozen. */
static void thaw(void *unused)
{
	(void)unused;
	ioctl(root, FITHAW, 0);
	load_stop();
}

static void test_disk(void)
{
	write_make(disk, BLOCKS);
	if (mount(disk->path, disk->mnt, "uhsfs", 0, "checkpoint=1"))
		tap_bail("mount %s: %s", disk->path, strerror(errno));
	disk->mounted = true;
	root = open(disk->mnt, O_RDONLY | O_DIRECTORY);
	guest_run("echo here >%s/before", disk->mnt);
	load_tolerate = NULL;
	load_start(disk->mnt);
	test_frozen();
	tap_ok(load_stop(), "no operation failed");
	load_tolerate = read_only;
	load_start(disk->mnt);
	test_read_only();
	tap_ok(load_stop(), "no operation failed, but as read-only");
	close(root);
	tap_ok(load_right(disk->mnt), "all files have their data");
	tap_ok(write_clean(disk), "it unmounts, and fsck finds nothing");
	write_mount(disk, 0);
	tap_ok(load_right(disk->mnt), "all files have their data in the next mount");
	guest_unmount(disk);
}

int main(void)
{
	tap_plan(62);
	guest_seed();
	write_start();
	tap_defer(thaw, NULL);
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
