/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File handles: a handle leads to its file after everything about it was forgotten, also in the next
 * mount; a folder reached by its handle has its path again; a handle of something that is gone, or
 * that was never given out, is stale.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>
#include <ftw.h>

#define MOST 2000

struct known {
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle;
	struct stat st;
	char path[400];		/* below the mount point */
};

static struct known known[MOST];
static int known_count;
static struct guest_disk *disk;

/* Folders in folders, some files of each kind, hard links; and names that are gone when all is made. */
static void make_tree(void)
{
	char path[PATH_MAX + 300], other[PATH_MAX + 300];
	int len = snprintf(path, sizeof(path), "%s", guest_source);

	for (int depth = 0; depth < 12; depth++) {
		len += sprintf(path + len, "/level %d", depth);
		if (mkdir(path, 0755))
			tap_bail("%s: %s", path, strerror(errno));
		for (int i = 0; i < 40; i++) {
			int failed;

			sprintf(path + len, "/%d", i);
			if (i % 10 < 6)
				failed = mknod(path, S_IFREG | 0600, 0);
			else if (i % 10 == 6)
				failed = mkdir(path, 0755);
			else if (i % 10 == 7)
				failed = symlink("target", path);
			else if (i % 10 == 8)
				failed = mknod(path, S_IFIFO | 0600, 0);
			else
				failed = mknod(path, S_IFCHR | 0600, 0x0103);
			if (failed)
				tap_bail("%s: %s", path, strerror(errno));
			if (i == 0) {
				snprintf(other, sizeof(other), "%s/link-%d", guest_source, depth);
				if (link(path, other))
					tap_bail("%s: %s", other, strerror(errno));
			}
			path[len] = '\0';
		}
	}
}

static int remember(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	struct known *k = &known[known_count];
	int mount_id;

	(void)kind;
	(void)where;
	if (known_count == MOST)
		return 1;
	known_count++;
	k->handle.h.handle_bytes = MAX_HANDLE_SZ;
	k->st = *st;
	snprintf(k->path, sizeof(k->path), "%s", path + strlen(disk->mnt));
	return name_to_handle_at(AT_FDCWD, path, &k->handle.h, &mount_id, 0);
}

static int open_mnt(void)
{
	int fd = open(disk->mnt, O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	return fd;
}

/* How many handles do not lead to their files? */
static int reopen_all(void)
{
	int mnt = open_mnt(), wrong = 0;

	for (int i = 0; i < known_count; i++) {
		int fd = open_by_handle_at(mnt, &known[i].handle.h, O_PATH);
		struct stat st = {};

		if (fd < 0 || fstat(fd, &st) || st.st_ino != known[i].st.st_ino || st.st_mode != known[i].st.st_mode ||
		    st.st_nlink != known[i].st.st_nlink || st.st_mtime != known[i].st.st_mtime) {
			if (wrong++ < 5)
				tap_diag("%s: %s, inode %lu, not %lu", known[i].path, fd < 0 ? strerror(errno) : "opened",
					 st.st_ino, known[i].st.st_ino);
		}
		if (fd >= 0)
			close(fd);
	}
	close(mnt);
	return wrong;
}

/* Folders, the deepest first: nothing above them is known when they are reached. */
static int reconnect_all(void)
{
	int mnt = open_mnt(), wrong = 0, folders = 0;

	for (int i = known_count - 1; i >= 0; i--) {
		char link[64], path[PATH_MAX] = "", expected[2 * PATH_MAX];
		int fd;

		if (!S_ISDIR(known[i].st.st_mode))
			continue;
		if (folders++ % 10 == 0)
			guest_drop_caches();
		fd = open_by_handle_at(mnt, &known[i].handle.h, O_RDONLY | O_DIRECTORY);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		snprintf(expected, sizeof(expected), "%s%s", disk->mnt, known[i].path);
		if (fd < 0 || readlink(link, path, sizeof(path) - 1) < 0 || strcmp(path, expected)) {
			if (wrong++ < 5)
				tap_diag("%s: got '%s': %s", expected, path, strerror(errno));
		}
		if (fd >= 0)
			close(fd);
	}
	close(mnt);
	return folders < 40 ? -1 : wrong;
}

/* The folder above, from a folder that was reached by its handle. */
static bool parent_is_right(void)
{
	int mnt = open_mnt(), at = -1, fd, up;
	struct stat st, expected;
	char path[2 * PATH_MAX];

	for (int i = 0; i < known_count; i++)
		if (S_ISDIR(known[i].st.st_mode) && strstr(known[i].path, "level 11"))
			at = i;
	snprintf(path, sizeof(path), "%s%s/..", disk->mnt, known[at].path);
	if (stat(path, &expected))
		return false;
	guest_drop_caches();
	fd = open_by_handle_at(mnt, &known[at].handle.h, O_RDONLY | O_DIRECTORY);
	up = openat(fd, "..", O_RDONLY | O_DIRECTORY);
	if (up < 0 || fstat(up, &st))
		return false;
	close(up);
	close(fd);
	close(mnt);
	return st.st_ino == expected.st_ino;
}

/* errno of opening a handle that has these 32-bit words changed. */
static int open_changed(int at, int word, uint32_t xor, int type, int bytes)
{
	int mnt = open_mnt(), fd, err;
	struct known copy = known[at];

	((uint32_t *)copy.handle.bytes)[word] ^= xor;
	copy.handle.h.handle_type ^= type;
	copy.handle.h.handle_bytes += bytes;
	fd = open_by_handle_at(mnt, &copy.handle.h, O_PATH);
	err = fd < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	close(mnt);
	return err;
}

/* Each handle with a number of its generation changed must be stale. */
static int open_other_generations(void)
{
	int wrong = 0;

	for (int i = 0; i < known_count; i++)
		wrong += open_changed(i, 2, 1U << (i % 32), 0, 0) != ESTALE;
	return wrong;
}

/* Is it the handle of something? */
static bool is_known(uint64_t ino, uint32_t generation)
{
	for (int i = 0; i < known_count; i++)
		if (known[i].st.st_ino == ino && ((uint32_t *)known[i].handle.bytes)[2] == generation)
			return true;
	return false;
}

/* Any bit of the inode number changed: another of ours, or stale. */
static int open_other_inodes(void)
{
	int wrong = 0;

	for (int i = 0; i < 2000; i++) {
		int at = guest_below(known_count), bit = guest_below(64);
		bool there = is_known(known[at].st.st_ino ^ (1ULL << bit), ((uint32_t *)known[at].handle.bytes)[2]);

		wrong += open_changed(at, bit / 32, 1U << bit % 32, 0, 0) != (there ? 0 : ESTALE);
	}
	return wrong;
}

static int short_buffer(void)
{
	struct file_handle h = { .handle_bytes = 0 };
	int mount_id;

	if (!name_to_handle_at(AT_FDCWD, disk->mnt, &h, &mount_id, 0) || errno != EOVERFLOW)
		return -1;
	return h.handle_bytes;
}

static void test_disk(void)
{
	struct known *root = &known[0];

	guest_make(disk);
	guest_mount(disk, "");
	known_count = 0;
	tap_eq(nftw(disk->mnt, remember, 20, FTW_PHYS), 0, "everything has a handle");
	tap_ok(known_count > 500 && root->handle.h.handle_bytes == 12, "handles have 12 bytes");
	tap_eq(short_buffer(), 12, "a buffer that is too small is told how much is wanted");
	tap_eq(reopen_all(), 0, "handles lead to their files");
	guest_drop_caches();
	tap_eq(reopen_all(), 0, "also when nothing is cached");
	tap_eq(reconnect_all(), 0, "a folder reached by its handle has its path");
	tap_ok(parent_is_right(), "and its parent");
	guest_unmount(disk);
	guest_mount(disk, "");
	tap_eq(reopen_all(), 0, "handles lead to their files in the next mount");
	tap_eq(open_other_generations(), 0, "another generation is stale");
	tap_eq(open_other_inodes(), 0, "the number of an inode that is not in use is stale");
	tap_eq(open_changed(0, 0, root->st.st_ino, 0, 0), ESTALE, "inode 0 is stale");
	tap_eq(open_changed(1, 0, 0, 1, 0), ESTALE, "another type is stale");
	tap_eq(open_changed(1, 0, 0, 0, -4), ESTALE, "a handle cut short is stale");
	tap_eq(guest_corruptions(disk), 0, "nothing of it was taken for damage");
	guest_unmount(disk);
}

int main(void)
{
	tap_plan(28);
	guest_seed();
	guest_start();
	make_tree();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		tap_diag("blocks of %u bytes", disk->block);
		test_disk();
	}
	return tap_finish();
}
