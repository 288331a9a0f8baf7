/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Full filesystems: ENOSPC and nothing else, what is there can be changed and removed, and space
 * comes back.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <signal.h>
#include <sys/mman.h>

#define BLOCK 4096
#define BLOCKS 8192		/* of the filesystem */
#define ALL_BACK 64		/* blocks that may stay in use: of the root, of chunks */

static struct guest_disk *disk;
static char data[64 * BLOCK];

/* Returns the errno that ended it. */
static int fill_file(const char *name, size_t piece, uint64_t *bytes)
{
	int fd = openat(AT_FDCWD, name, O_RDWR | O_CREAT, 0644), err;
	ssize_t n;

	*bytes = 0;
	if (fd < 0)
		return errno;
	while ((n = write(fd, data, piece)) > 0)
		*bytes += n;
	err = errno;
	if (fsync(fd))
		err = 1000 + errno;
	close(fd);
	return err;
}

/* Make until it fails; the number. */
static int make_many(const char *format, int (*make)(const char *name), int *err)
{
	char name[64];
	int i;

	for (i = 0; i < 1000000; i++) {
		sprintf(name, format, i);
		if (make(name))
			break;
	}
	*err = errno;
	return i;
}

static bool remove_many(const char *format, int count, int from, int by)
{
	char name[64];

	for (int i = from; i < count; i += by) {
		sprintf(name, format, i);
		if (remove(name)) {
			tap_diag("%s: %s", name, strerror(errno));
			return false;
		}
	}
	return true;
}

static int make_dir(const char *name)
{
	return mkdir(name, 0755);
}

static int make_empty(const char *name)
{
	return mknod(name, S_IFREG | 0644, 0);
}

static int make_small(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644), err;

	if (fd < 0)
		return -1;
	err = write(fd, data, BLOCK) == BLOCK ? 0 : -1;
	close(fd);
	return err;
}

static bool is_back(uint64_t before)
{
	uint64_t now;

	guest_run("sync -f %s", disk->mnt);
	now = write_free(disk);
	if (now + ALL_BACK < before)
		tap_diag("%llu blocks were free, and now %llu are", (unsigned long long)before, (unsigned long long)now);
	return now + ALL_BACK >= before;
}

/* Blocks of so many inodes, which stay inodes. */
static uint64_t chunk_blocks(int count)
{
	return disk->block == 512 ? 2 * count : count / 4;
}

static bool has_data(const char *name, uint64_t bytes)
{
	static char got[sizeof(data)];
	int fd = open(name, O_RDONLY);
	uint64_t at = 0;
	ssize_t n;

	while ((n = read(fd, got, sizeof(got))) > 0) {
		if (memcmp(got, data, n))
			break;
		at += n;
	}
	close(fd);
	if (at != bytes)
		tap_diag("%s: %llu bytes are right, not %llu", name, (unsigned long long)at, (unsigned long long)bytes);
	return at == bytes;
}

static void start_again(void)
{
	write_make(disk, BLOCKS);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
}

static void end_it(void)
{
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

/* One file takes all, is overwritten, cut, and another takes the rest. */
static void test_file(void)
{
	uint64_t before, bytes, more;
	int fd, err;

	start_again();
	before = write_free(disk);
	tap_eq(fill_file("file", sizeof(data), &bytes), ENOSPC, "a file grows until ENOSPC");
	tap_ok(bytes / BLOCK > before * 8 / 10, "it has most of the space");
	fd = open("file", O_RDWR);
	memset(data, 0x77, sizeof(data));
	err = 0;
	for (uint64_t at = 0; at < bytes; at += sizeof(data)) {
		size_t n = bytes - at < sizeof(data) ? bytes - at : sizeof(data);

		err |= pwrite(fd, data, n, at) != (ssize_t)n;
	}
	tap_ok(!err && !fsync(fd), "all of it can be overwritten");
	guest_drop_caches();
	tap_ok(has_data("file", bytes), "and has the new data");
	tap_ok(!ftruncate(fd, bytes / 2) && !fsync(fd), "it can be cut");
	tap_ok(has_data("file", bytes / 2), "and the rest is there");
	close(fd);
	tap_eq(fill_file("other", 10000, &more), ENOSPC, "another takes what that gave back");
	tap_ok(more > bytes / 2 - (1 << 20), "and that is what was cut");
	tap_ok(!unlink("file") && !unlink("other"), "both can be removed");
	tap_ok(is_back(before), "the space comes back");
	end_it();
}

/* Without a sync between: what is given up but not durable is committed first. */
static void test_pending(void)
{
	uint64_t before, bytes, more;

	start_again();
	before = write_free(disk);
	fill_file("file", sizeof(data), &bytes);
	tap_ok(!truncate("file", 0), "a full filesystem: a file is cut to nothing");
	fill_file("other", sizeof(data), &more);
	tap_ok(more + (4 << 20) > bytes, "the next write has its space at once");
	tap_ok(!unlink("other"), "and so it is with a file that is removed");
	fill_file("third", sizeof(data), &more);
	tap_ok(more + (4 << 20) > bytes, "the next write has its space at once");
	tap_ok(!unlink("file") && !unlink("third") && is_back(before), "the space comes back");
	end_it();
}

static void test_dirs(void)
{
	uint64_t before;
	int count, err;

	start_again();
	before = write_free(disk);
	count = make_many("dir%d", make_dir, &err);
	tap_diag("%d directories on %s", count, disk->name);
	tap_eq(err, ENOSPC, "directories are made until ENOSPC");
	tap_ok(count > 1000, "and are many");
	guest_drop_caches();
	tap_ok(!chdir("dir0") && !chdir(".."), "they can be used");
	tap_ok(remove_many("dir%d", count, 0, 1), "and removed");
	tap_ok(is_back(before - chunk_blocks(count)), "the space comes back, but for inodes");
	count = make_many("dir%d", make_dir, &err);
	tap_ok(err == ENOSPC && count > 1000, "and can be used again");
	tap_ok(!syncfs(open(".", O_RDONLY)), "a full one is synced");
	close_range(3, ~0U, 0);
	end_it();
}

static void test_names(void)
{
	uint64_t before;
	int count, err;

	start_again();
	before = write_free(disk);
	if (mkdir("names", 0755) || chdir("names"))
		tap_bail("names: %s", strerror(errno));
	count = make_many("an empty file with a name that is long %d", make_empty, &err);
	tap_eq(err, ENOSPC, "empty files are made until ENOSPC");
	tap_diag("%d empty files on %s", count, disk->name);
	tap_ok(count > 3000, "and are many");
	tap_ok(remove_many("an empty file with a name that is long %d", count, 0, 1), "they are removed");
	tap_ok(!chdir("..") && !rmdir("names"), "and their directory");
	tap_ok(is_back(before - chunk_blocks(count)), "the space comes back, but for inodes");
	end_it();
}

/* Small files, every second one removed, then one file of single blocks: its tree needs blocks too. */
static void test_pieces(void)
{
	uint64_t left;
	int count, err, fd, pieces = 0;
	char *map;

	start_again();
	count = make_many("small%d", make_small, &err);
	tap_ok(err == ENOSPC && count > 1000, "small files are made until ENOSPC");
	tap_ok(remove_many("small%d", count, 0, 2), "every second one is removed");
	guest_run("sync -f %s", disk->mnt);
	fd = open("pieces", O_RDWR | O_CREAT, 0644);
	for (off_t at = 0; pwrite(fd, data, BLOCK, 2 * at) == BLOCK; at += BLOCK)
		pieces++;
	tap_eq(errno, ENOSPC, "a file of single blocks grows until ENOSPC");
	tap_ok(!fsync(fd), "it can be synced");
	left = write_free(disk);
	map = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!fork()) {
		map[BLOCK] = 1;		/* a hole; SIGBUS */
		_exit(0);
	}
	wait(&err);
	tap_ok(WIFSIGNALED(err) && WTERMSIG(err) == SIGBUS, "a hole that is mapped is not written to");
	munmap(map, 2 * BLOCK);
	tap_ok(!ftruncate(fd, 0) && !fsync(fd), "it is cut");
	tap_ok(write_free(disk) >= left + pieces, "and its blocks are free");
	close(fd);
	end_it();
}

static void test_disk(void)
{
	memset(data, 0x55, sizeof(data));
	test_file();
	test_pending();
	test_dirs();
	test_names();
	test_pieces();
}

int main(void)
{
	tap_plan(78);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
