/* SPDX-License-Identifier: GPL-2.0 */
/* Blocks that are promised at write and chosen at writeback; O_TMPFILE; long symlinks; options. */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define BLOCK 4096

static struct guest_disk *disk;
static char data[64 * BLOCK], got[64 * BLOCK];

/* Column of /sys/block/NAME/stat: 6 sectors written, 11 discards, 13 sectors discarded. */
static long disk_stat(int column)
{
	char path[128], text[512] = "";
	char *at = text;
	int fd;
	long v = 0;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", disk->name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		tap_bail("%s: %s", path, strerror(errno));
	close(fd);
	for (int i = 0; i <= column; i++)
		v = strtol(at, &at, 10);
	return v;
}

static long blocks_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : st.st_blocks / 8;
}

static int extents_of(int fd)
{
	struct fiemap map = { .fm_length = ~0ULL };

	return ioctl(fd, FS_IOC_FIEMAP, &map) ? -1 : (int)map.fm_mapped_extents;
}

static void test_delayed(void)
{
	uint64_t free_before;
	long written;
	int fd;

	guest_run("sync -f .");
	free_before = write_free(disk);
	written = disk_stat(6);
	fd = open("short-lived", O_RDWR | O_CREAT, 0644);
	for (int i = 0; i < 16; i++)
		if (write(fd, data, sizeof(data)) != sizeof(data))
			tap_bail("short-lived: %s", strerror(errno));
	tap_eq(blocks_of(fd), 1024, "stat counts what is promised");
	tap_ok(write_free(disk) <= free_before - 1024, "and so does statfs");
	unlink("short-lived");
	close(fd);
	tap_ok(write_free(disk) == free_before, "a file that is removed at once gives it back");
	guest_run("sync -f .");
	tap_ok(disk_stat(6) - written < 1024, "and its data was never written");

	fd = open("shuffled", O_RDWR | O_CREAT, 0644);
	for (int i = 0; i < 64; i++)
		if (pwrite(fd, data, BLOCK, (i * 37 % 64) * BLOCK) != BLOCK)
			tap_bail("shuffled: %s", strerror(errno));
	fsync(fd);
	tap_eq(extents_of(fd), 1, "blocks written in any order stand in one piece");
	close(fd);
}

/* What does not get its data gets no block. */
static void test_fault(void)
{
	char *map = mmap(NULL, 16 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t free_before;
	int fd = open("fault", O_RDWR | O_CREAT, 0644);
	ssize_t n;

	memset(map, 'f', 16 * BLOCK);
	munmap(map + 4 * BLOCK, 12 * BLOCK);
	free_before = write_free(disk);
	n = pwrite(fd, map, 16 * BLOCK, 0);
	tap_ok(n >= 0 && n <= 4 * BLOCK, "a write that faults is short");
	tap_eq(blocks_of(fd), (n + BLOCK - 1) / BLOCK, "and has the blocks of what was written");
	tap_eq(pwrite(fd, map + 4 * BLOCK, 8 * BLOCK, 32 * BLOCK), -1, "one that faults at once fails");
	tap_eq(blocks_of(fd), (n + BLOCK - 1) / BLOCK, "and has none");
	tap_eq((long)(free_before - write_free(disk)), (n + BLOCK - 1) / BLOCK, "and none is lost");
	close(fd);
	munmap(map, 4 * BLOCK);
}

/* On a full disk every write that was accepted reaches it. */
static void test_full(void)
{
	size_t size = 0, at;
	bool right = true;
	ssize_t n;
	int fd;

	write_make(disk, 4096);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	fd = open("full", O_RDWR | O_CREAT, 0644);
	while ((n = write(fd, data, BLOCK + 77)) > 0)
		size += n;
	tap_ok(n < 0 && errno == ENOSPC, "the disk is full");
	tap_ok(!fsync(fd), "and fsync has room for all of it");
	guest_drop_caches();
	for (at = 0; right && at < size; at += n) {
		n = pread(fd, got, BLOCK + 77, at);
		right = n > 0 && !memcmp(got, data, n);
	}
	tap_ok(right && at == size, "and it is there");
	unlink("full");
	close(fd);
	fd = open("again", O_RDWR | O_CREAT, 0644);
	for (at = 0; at + BLOCK < size - size / 16; at += n) {
		n = write(fd, data, BLOCK);
		if (n <= 0)
			break;
	}
	tap_ok(at + BLOCK >= size - size / 16 && !fsync(fd), "removed, it leaves room at once for another");
	close(fd);
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

static void test_tmpfile(void)
{
	char path[64];
	struct stat st;
	uint64_t free_before;
	int fd;

	guest_run("sync -f .");
	free_before = write_free(disk);
	fd = open(".", O_TMPFILE | O_RDWR, 0640);
	tap_ok(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data) && !fsync(fd), "a file without a name is written and synced");
	guest_run("sync -f .");
	guest_drop_caches();
	tap_ok(pread(fd, got, sizeof(got), 0) == sizeof(got) && !memcmp(got, data, sizeof(got)) && !fstat(fd, &st) && !st.st_nlink &&
	       st.st_mode == (S_IFREG | 0640), "and read after a checkpoint");
	close(fd);
	guest_run("sync -f .");
	tap_ok(write_free(disk) + 1 >= free_before, "and closed: its space comes back");

	fd = open(".", O_TMPFILE | O_WRONLY, 0600);
	sprintf(path, "/proc/self/fd/%d", fd);
	tap_ok(write(fd, data, 2 * BLOCK) == 2 * BLOCK && !linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) && !fsync(fd) &&
	       !stat("named", &st) && st.st_nlink == 1, "another gets a name");
	close(fd);
	fd = open("named", O_RDONLY);
	guest_drop_caches();
	tap_ok(pread(fd, got, sizeof(got), 0) == 2 * BLOCK && !memcmp(got, data, 2 * BLOCK), "and is a file like others");
	close(fd);
	fd = open(".", O_TMPFILE | O_EXCL | O_WRONLY, 0600);
	sprintf(path, "/proc/self/fd/%d", fd);
	tap_ok(linkat(AT_FDCWD, path, AT_FDCWD, "never", AT_SYMLINK_FOLLOW) == -1 && errno == ENOENT, "with O_EXCL it never gets one");
	close(fd);
	for (int i = 0; i < 200; i++)
		close(open(".", O_TMPFILE | O_RDWR, 0600));
	tap_ok(!access("named", F_OK), "two hundred come and go");
}

static void test_symlinks(void)
{
	static const int lengths[] = { 1, 59, 400, 500, 600, 700, 900, 1000, 2000, 4000, 4095 };
	char target[4097], name[32];
	int wrong = 0;

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		memset(target, 'a' + i, lengths[i]);
		target[lengths[i]] = '\0';
		sprintf(name, "symlink%u", i);
		wrong += symlink(target, name) != 0;
	}
	tap_eq(wrong, 0, "symlinks of 1 to 4095 bytes are made");
	for (int again = 0; again < 2; again++) {
		for (unsigned int i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
			struct stat st;
			ssize_t n;

			sprintf(name, "symlink%u", i);
			n = readlink(name, target, sizeof(target));
			wrong += n != lengths[i] || target[0] != 'a' + (char)i || target[n - 1] != 'a' + (char)i ||
				 lstat(name, &st) || st.st_size != n;
		}
		guest_run("sync -f .");
		guest_drop_caches();
	}
	tap_eq(wrong, 0, "and read, from memory and from the device");
	guest_run("mkdir dir && echo found >dir/file && ln -s $(printf './%%.0s' $(seq 1500))dir/file long && [ $(cat long) = found ]");
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(*lengths); i += 2) {
		sprintf(name, "symlink%u", i);
		wrong += unlink(name) != 0;
	}
	tap_eq(wrong, 0, "and removed");
}

static bool mounts_with(const char *options)
{
	return !mount(disk->path, disk->mnt, "uhsfs", 0, options) && !umount(disk->mnt);
}

static void test_options(void)
{
	long discards;
	long written;

	tap_ok(!mounts_with("checkpoint=0") && !mounts_with("checkpoint=301") && !mounts_with("checkpoint=x"), "checkpoint= has limits");
	tap_ok(mounts_with("checkpoint=300") && mounts_with("nodiscard"), "which are allowed");
	guest_run("mount -t uhsfs -o checkpoint=1 %s %s && grep -q 'uhsfs rw.*checkpoint=1' /proc/mounts", disk->path, disk->mnt);
	guest_run("sync -f %s && touch %s/one", disk->mnt, disk->mnt);
	written = disk_stat(6);
	usleep(200000);
	long soon = disk_stat(6) - written;
	for (int i = 0; i < 100 && disk_stat(6) == written; i++)
		usleep(100000);
	tap_ok(!soon && disk_stat(6) > written, "a checkpoint comes by itself");
	guest_run("mount -o remount,checkpoint=200 %s && grep -q checkpoint=200 /proc/mounts", disk->mnt);
	discards = disk_stat(11);
	guest_run("cd %s && head -c 8M /dev/zero >large && sync -f . && rm large && sync -f .", disk->mnt);
	tap_eq(disk_stat(11), discards, "without the option nothing is discarded");
	guest_run("mount -o remount,discard %s && grep -q ,discard /proc/mounts", disk->mnt);
	guest_run("cd %s && head -c 8M /dev/zero >large && sync -f . && rm large && sync -f .", disk->mnt);
	tap_ok(disk_stat(11) > discards && disk_stat(13) >= 16384, "with it what is freed is");
	uint64_t before = write_free(disk);
	guest_run("cd %s && head -c 8M /dev/zero >large && sync -f . && rm large && sync -f .", disk->mnt);
	tap_eq((long)(before - write_free(disk)), 0, "and is free then");
	guest_run("umount %s && mount -t uhsfs -o ro %s %s && ! touch %s/two 2>/dev/null && mount -o remount,rw %s && touch %s/two && "
		  "mount -o remount,ro %s && [ -e %s/two ] && mount -o remount,rw %s && rm %s/two", disk->mnt, disk->path, disk->mnt,
		  disk->mnt, disk->mnt, disk->mnt, disk->mnt, disk->mnt, disk->mnt, disk->mnt);
	disk->mounted = true;
	tap_ok(write_clean(disk), "after remounts from reading to writing and back, fsck finds nothing");
}

static void test_disk(void)
{
	write_make(disk, 0);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	test_delayed();
	test_fault();
	test_tmpfile();
	test_symlinks();
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
	test_options();
	test_full();
}

int main(void)
{
	tap_plan(66);
	umask(0);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = 'a' + i % 23 + i / BLOCK;
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
