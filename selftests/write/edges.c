/* SPDX-License-Identifier: GPL-2.0 */
/* Cases that once went wrong, or that chance does not find. */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <sys/mman.h>
#include <sys/xattr.h>

#define BLOCK 4096

static struct guest_disk *disk;
static char data[16 * BLOCK], got[16 * BLOCK];

static int file_of(const char *name, size_t size)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		tap_bail("%s: %s", name, strerror(errno));
	return fd;
}

/* Is the file as it was written up to `kept`, and then zero? */
static bool zero_behind(const char *name, int fd, size_t kept, size_t size)
{
	ssize_t n;

	fsync(fd);
	for (int again = 0; again < 2; again++) {
		n = pread(fd, got, sizeof(got), 0);
		if (n != (ssize_t)size) {
			tap_diag("%s: %zd bytes, not %zu", name, n, size);
			return false;
		}
		for (size_t i = 0; i < size; i++) {
			if (got[i] == (i < kept ? data[i] : i < size - 1 ? 0 : got[i]))
				continue;
			tap_diag("%s, %s: byte %zu is %02x", name, again ? "from the device" : "in memory", i, (unsigned char)got[i]);
			return false;
		}
		guest_drop_caches();
	}
	return true;
}

/* The last byte is new, what is between it and the old end is zero. */
static void test_tails(void)
{
	int fd = file_of("dirty", 4000);

	tap_ok(!ftruncate(fd, 100) && !ftruncate(fd, 4000) && zero_behind("dirty", fd, 100, 4000),
	       "what is cut off before it was written is zero when the file grows");
	close(fd);
	fd = file_of("written", 4000);
	fsync(fd);
	tap_ok(!ftruncate(fd, 100) && !ftruncate(fd, 4000) && zero_behind("written", fd, 100, 4000),
	       "and so is what was written");
	close(fd);
	fd = file_of("gap", 4000);
	tap_ok(!ftruncate(fd, 100) && !fsync(fd), "a file is cut before it was written");
	guest_drop_caches();
	tap_ok(pwrite(fd, "x", 1, 2999) == 1 && zero_behind("gap", fd, 100, 3000),
	       "and written behind its end after memory was needed: what is between is zero");
	close(fd);
	fd = file_of("gap2", 4000);
	fsync(fd);
	tap_ok(!ftruncate(fd, 100), "a file is cut after it was written");
	guest_drop_caches();
	tap_ok(pwrite(fd, "x", 1, 2999) == 1 && zero_behind("gap2", fd, 100, 3000), "what is between is zero");
	close(fd);
}

/* What is written to a mapped page behind the end is nothing that becomes the file's. */
static void test_mmap_tails(void)
{
	int fd = file_of("mapped", 100);
	char *map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	memset(map + 100, 'z', 1000);
	tap_ok(!ftruncate(fd, 2000) && zero_behind("mapped", fd, 100, 2000), "truncate makes zeros of what a map wrote behind the end");
	memset(map + 2000, 'z', 1000);
	msync(map, BLOCK, MS_SYNC);
	tap_ok(pwrite(fd, "x", 1, 3499) == 1 && zero_behind("mapped", fd, 100, 3500), "and so does a write behind it");
	munmap(map, BLOCK);
	close(fd);
}

static void test_inline(void)
{
	const char *names[] = { "in1", "in2", "in3", "in4" };
	int fd[4];

	/* Made by mkfs: in the slot. */
	for (int i = 0; i < 4; i++)
		fd[i] = open(names[i], O_RDWR);
	tap_ok(pwrite(fd[0], "y", 1, 5) == 1 && pread(fd[0], got, 300, 0) == 300 && got[5] == 'y' && got[4] == 'i' && got[299] == 'i',
	       "data in the slot is overwritten");
	tap_ok(pwrite(fd[1], "y", 1, 5000) == 1 && pread(fd[1], got, 6000, 0) == 5001 && got[299] == 'i' && !got[300] && got[5000] == 'y',
	       "or added to");
	tap_ok(!ftruncate(fd[2], 100) && !ftruncate(fd[2], 200) && pread(fd[2], got, 300, 0) == 200 && got[99] == 'i' && !got[100],
	       "or cut");
	char *map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd[3], 0);
	if (map != MAP_FAILED) {
		map[7] = 'm';
		msync(map, BLOCK, MS_SYNC);
		munmap(map, BLOCK);
	}
	tap_ok(map != MAP_FAILED && pread(fd[3], got, 300, 0) == 300 && got[7] == 'm' && got[6] == 'i', "or mapped and changed");
	for (int i = 0; i < 4; i++)
		fsync(fd[i]);
	guest_drop_caches();
	tap_ok(pread(fd[0], got, 300, 0) == 300 && got[5] == 'y' && got[299] == 'i' && pread(fd[3], got, 300, 0) == 300 && got[7] == 'm',
	       "all that is on the device");
	for (int i = 0; i < 4; i++)
		close(fd[i]);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? (mode_t)-1 : st.st_mode;
}

static void test_modes(void)
{
	umask(027);
	close(open("umask", O_RDWR | O_CREAT, 0666));
	mkdir("umask-dir", 0777);
	tap_eq(mode_of("umask"), S_IFREG | 0640, "the umask counts for files");
	tap_eq(mode_of("umask-dir"), S_IFDIR | 0750, "and for directories");
	umask(0);
	mkdir("sgid", 0755);
	if (chown("sgid", 0, 77) || chmod("sgid", 02775))
		tap_bail("sgid: %s", strerror(errno));
	mkdir("sgid/dir", 0755);
	close(open("sgid/file", O_RDWR | O_CREAT, 0644));
	struct stat st;
	stat("sgid/file", &st);
	tap_eq(st.st_gid, 77, "a set-group-ID directory gives its group");
	tap_eq(mode_of("sgid/dir"), S_IFDIR | 02755, "and the bit to directories");
	chmod("umask", 06755);
	chmod(".", 01777);
	chown("umask", 1000, 1000);
	chmod("umask", 06755);
	if (!fork()) {
		int fd = setresuid(1000, 1000, 1000) ? -1 : open("umask", O_WRONLY);

		_exit(fd < 0 || write(fd, "x", 1) != 1);
	}
	wait(NULL);
	tap_eq(mode_of("umask"), S_IFREG | 0755, "a write by somebody takes set-user-ID away");
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

static void test_times(void)
{
	struct stat before, after, dir_before, dir_after;
	int fd = file_of("times", 10);

	fstat(fd, &before);
	usleep(20000);
	if (pwrite(fd, "x", 1, 0) != 1)
		tap_bail("times: %s", strerror(errno));
	fstat(fd, &after);
	tap_ok(later(&after.st_mtim, &before.st_mtim) && later(&after.st_ctim, &before.st_ctim), "a write changes mtime and ctime");
	stat(".", &dir_before);
	usleep(20000);
	fchmod(fd, 0600);
	fstat(fd, &before);
	tap_ok(later(&before.st_ctim, &after.st_ctim) && !later(&before.st_mtim, &after.st_mtim), "chmod changes ctime");
	usleep(20000);
	if (link("times", "times-2"))
		tap_bail("link: %s", strerror(errno));
	stat(".", &dir_after);
	fstat(fd, &after);
	tap_ok(later(&dir_after.st_mtim, &dir_before.st_mtim) && later(&after.st_ctim, &before.st_ctim), "link changes both");
	usleep(20000);
	unlink("times-2");
	stat(".", &dir_before);
	fstat(fd, &before);
	tap_ok(later(&dir_before.st_mtim, &dir_after.st_mtim) && later(&before.st_ctim, &after.st_ctim), "and so does unlink");
	fsync(fd);
	syncfs(fd);
	close(fd);
	guest_drop_caches();
	stat("times", &after);
	tap_ok(!memcmp(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim)) &&
	       !memcmp(&after.st_ctim, &before.st_ctim, sizeof(after.st_ctim)), "times are on the device");
}

static void test_limits(void)
{
	char name[300];
	int fd = open("huge", O_RDWR | O_CREAT, 0644);
	off_t last = INT64_MAX / BLOCK * BLOCK - 1;

	tap_ok(pwrite(fd, "e", 1, last) == 1 && pread(fd, got, 1, last) == 1 && got[0] == 'e', "a byte 8 EiB from the begin");
	tap_ok(!fsync(fd) && !ftruncate(fd, 1ULL << 50) && pwrite(fd, "f", 1, 1ULL << 50) == 1 && !fsync(fd), "it is cut and grows");
	close(fd);
	memset(name, 'n', sizeof(name));
	name[256] = '\0';
	tap_ok(open(name, O_RDWR | O_CREAT, 0644) == -1 && errno == ENAMETOOLONG, "a name of 256 bytes is too long");
	name[255] = '\0';
	fd = open(name, O_RDWR | O_CREAT, 0644);
	tap_ok(fd >= 0 && !fsync(fd) && !close(fd) && !unlink(name), "one of 255 is not");
	tap_ok(rename("huge", "renamed") == -1 || !rename("renamed", "huge"), "rename does no harm");
	fd = open(".", O_TMPFILE | O_RDWR, 0600);
	tap_ok(fd >= 0, "nor does O_TMPFILE");
	close(fd);
	tap_eq(setxattr("huge", "user.x", "y", 1, 0) && errno != EOPNOTSUPP ? errno : 0, 0, "nor setxattr");
}

/* 2000 links, with a sync in the middle, each of which can be found. */
static void test_links(void)
{
	char name[64];
	int wrong = 0;
	struct stat st;

	close(file_of("linked", 10));
	mkdir("links", 0755);
	for (int i = 0; i < 2000; i++) {
		sprintf(name, "links/%d", i);
		wrong += link("linked", name) != 0;
		if (i == 1000)
			guest_run("sync -f .");
	}
	tap_ok(!wrong, "2000 links are made");
	guest_run("sync -f .");
	guest_drop_caches();
	stat("links/1999", &st);
	tap_eq(st.st_nlink, 2001, "and counted");
	for (int i = 0; i < 2000; i += 1 + i % 3) {
		sprintf(name, "links/%d", i);
		wrong += unlink(name) != 0;
	}
	tap_ok(!wrong, "some are removed");
	/* Attributes change between: the names stay. */
	chmod("linked", 0600);
	guest_run("sync -f .");
	chmod("linked", 0640);
	wrong += link("linked", "links/another") != 0;
	guest_run("sync -f .");
	wrong += unlink("linked") != 0;
	tap_ok(!wrong, "one more is made, the first is removed");
}

/* An open file without a name lives on through a checkpoint. */
static void test_unlinked(void)
{
	uint64_t before = write_free(disk);
	int fd = file_of("unlinked", sizeof(data));

	fsync(fd);
	unlink("unlinked");
	guest_run("sync -f .");
	guest_drop_caches();
	tap_ok(pread(fd, got, sizeof(got), 0) == sizeof(got) && !memcmp(got, data, sizeof(got)), "it can be read");
	tap_ok(pwrite(fd, data, sizeof(data), sizeof(data)) == sizeof(data) && !fsync(fd), "and written");
	guest_run("sync -f .");
	tap_ok(pread(fd, got, sizeof(got), sizeof(data)) == sizeof(got) && !memcmp(got, data, sizeof(got)), "and read again");
	close(fd);
	guest_run("sync -f .");
	tap_ok(write_free(disk) + 16 >= before, "its space comes back");
}

static void test_disk(void)
{
	guest_run("cd %s && for i in 1 2 3 4; do head -c 300 /dev/zero | tr '\\0' i >in$i; done", guest_source);
	guest_make(disk);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	test_tails();
	test_mmap_tails();
	test_inline();
	test_modes();
	test_times();
	test_limits();
	test_links();
	test_unlinked();
	close_range(3, ~0U, 0);
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	tap_plan(78);
	umask(0);
	memset(data, 'd', sizeof(data));
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
