/* SPDX-License-Identifier: GPL-2.0 */
/* Sizes of files that are cut before they were written, and lists of extents that are loaded again. */
#define _GNU_SOURCE
#include "lib/guest.h"

#define BLOCK 4096
#define PIECES 100

static struct guest_disk *disk;
static char data[BLOCK];

static void mount_again(void)
{
	if (chdir("/"))
		tap_bail("no /");
	guest_unmount(disk);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
}

static off_t size_of(const char *name)
{
	struct stat st;

	return stat(name, &st) ? -1 : st.st_size;
}

static void test_disk(void)
{
	int fd, wrong = 0;

	write_make(disk, 0);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	fd = open("cut", O_RDWR | O_CREAT, 0644);
	tap_ok(pwrite(fd, data, BLOCK, 540237) == BLOCK && !ftruncate(fd, 334) && !fsync(fd) && !close(fd),
	       "a file is cut in a hole before it was written");
	fd = open("cut more", O_RDWR | O_CREAT, 0644);
	tap_ok(pwrite(fd, data, BLOCK, 0) == BLOCK && pwrite(fd, data, BLOCK, 100 * BLOCK) == BLOCK &&
	       !ftruncate(fd, 50 * BLOCK + 7) && !fsync(fd) && !close(fd), "another, with data before the hole");
	fd = open("pieces", O_RDWR | O_CREAT, 0644);
	for (int i = 0; i < PIECES; i++)
		wrong += pwrite(fd, data, BLOCK, 2 * i * BLOCK) != BLOCK;
	tap_ok(!wrong && !fsync(fd) && !close(fd), "a file of many extents is made");
	mount_again();
	tap_eq(size_of("cut"), 334, "the first has its size after a mount");
	tap_eq(size_of("cut more"), 50 * BLOCK + 7, "and the second");
	fd = open("pieces", O_RDWR);
	for (int i = 0; i < PIECES; i += 3)
		wrong += pwrite(fd, data, 1, (2 * i + 1) * BLOCK) != 1;
	tap_ok(!wrong && !fsync(fd) && !close(fd), "the third goes on");
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	tap_plan(14);
	memset(data, 'd', sizeof(data));
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
