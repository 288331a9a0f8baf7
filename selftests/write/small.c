/* SPDX-License-Identifier: GPL-2.0 */
/* Files whose data is in their slots, and how they come and go there. */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <sys/mman.h>

#define BLOCK 4096
#define LARGE 8192

static struct guest_disk *disk;
static char model[LARGE], got[LARGE + 1];
static size_t model_size;

static long blocks_of(const char *name)
{
	struct stat st;

	return stat(name, &st) ? -1 : st.st_blocks;
}

/* Is the file what the model says, in memory and from the device? */
static bool same(const char *name)
{
	for (int again = 0; again < 2; again++) {
		int fd = open(name, O_RDONLY);
		ssize_t n = pread(fd, got, sizeof(got), 0);

		close(fd);
		if (n != (ssize_t)model_size || memcmp(got, model, model_size)) {
			tap_diag("%s, %s: %zd bytes, %zu wanted, or other ones", name, again ? "from the device" : "in memory", n, model_size);
			return false;
		}
		guest_run("sync -f %s", name);
		guest_drop_caches();
	}
	return true;
}

static void model_write(const char *bytes, size_t len, size_t at)
{
	if (at > model_size)
		memset(model + model_size, 0, at - model_size);
	memcpy(model + at, bytes, len);
	if (at + len > model_size)
		model_size = at + len;
}

static bool put(int fd, const char *bytes, size_t len, size_t at)
{
	if (pwrite(fd, bytes, len, at) != (ssize_t)len)
		return false;
	model_write(bytes, len, at);
	return true;
}

static int begin(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0)
		tap_bail("%s: %s", name, strerror(errno));
	model_size = 0;
	return fd;
}

static bool cut(int fd, size_t size)
{
	if (ftruncate(fd, size))
		return false;
	if (size > model_size)
		memset(model + model_size, 0, size - model_size);
	model_size = size;
	return true;
}

static void test_new(void)
{
	int fd = begin("new");

	tap_ok(put(fd, "hundred", 7, 93) && same("new"), "a new file with 100 bytes");
	tap_eq(blocks_of("new"), 0, "needs no block");
	tap_ok(put(fd, "middle", 6, 50) && same("new"), "its middle changes");
	tap_ok(put(fd, "far", 3, 300) && same("new"), "it grows behind a gap");
	tap_ok(cut(fd, 200) && cut(fd, 310) && same("new"), "it is cut and grows: zeros");
	tap_ok(!link("new", "new2") && put(fd, "linked", 6, 310) && same("new2"), "it gets a second name");
	tap_eq(blocks_of("new2"), 8, "and a block for that, but none for its data");
	tap_eq(lseek(fd, 0, SEEK_HOLE), (off_t)model_size, "it has no hole");
	close(fd);
	fd = open("new", O_RDONLY | O_DIRECT);
	void *aligned = NULL;
	if (posix_memalign(&aligned, BLOCK, BLOCK))
		tap_bail("no memory");
	tap_ok(pread(fd, aligned, BLOCK, 0) == (ssize_t)model_size && !memcmp(aligned, model, model_size), "a direct read finds it");
	free(aligned);
	close(fd);
}

static void test_growth(void)
{
	int fd = begin("growth");
	bool right = true;
	char piece[64];

	for (int i = 0; right && i < 100; i++) {
		memset(piece, 'a' + i % 26, sizeof(piece));
		right = put(fd, piece, sizeof(piece), i * sizeof(piece)) && (i % 7 || same("growth"));
	}
	tap_ok(right && same("growth"), "a file of 100 pieces, right at each step");
	tap_eq(blocks_of("growth"), 16, "has two blocks in the end");
	tap_ok(cut(fd, 0) && same("growth"), "it is made empty");
	tap_ok(put(fd, "small again", 11, 0) && same("growth"), "and small");
	tap_eq(blocks_of("growth"), 0, "and needs no block");
	memset(piece, 'z', sizeof(piece));
	tap_ok(put(fd, piece, 64, 4000) && put(fd, piece, 64, 8000) && same("growth"), "and large once more");
	close(fd);
	fd = open("growth", O_WRONLY | O_TRUNC);
	model_size = 0;
	tap_ok(put(fd, "x", 1, 0) && !fsync(fd) && same("growth"), "and emptied by open, and synced");
	close(fd);
}

/* Maps see what is written, and what they write is not lost. */
static void test_maps(void)
{
	int fd = begin("mapped");
	char *map, *write_map;
	int other;

	put(fd, "in the slot", 11, 0);
	other = open("mapped", O_RDONLY);
	map = mmap(NULL, BLOCK, PROT_READ, MAP_SHARED, other, 0);
	tap_ok(map != MAP_FAILED && !memcmp(map, "in the slot", 12), "a map shows it");
	put(fd, "IN THE SLOT, CHANGED", 20, 0);
	tap_ok(!memcmp(map, "IN THE SLOT, CHANGED", 21), "and changes with it");
	cut(fd, 6);
	tap_ok(!memcmp(map, "IN THE\0\0\0", 9), "and is zero where it was cut");
	close(other);
	other = open("mapped", O_RDWR);
	write_map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	put(fd, "four", 4, 2);
	memcpy(write_map, "by", 2);
	model_write("by", 2, 0);
	put(fd, "more", 4, 6);
	tap_ok(!memcmp(map, "byfourmore", 10) && !memcmp(write_map, "byfourmore", 10), "a map that writes, and write(2), agree");
	msync(write_map, BLOCK, MS_SYNC);
	munmap(write_map, BLOCK);
	munmap(map, BLOCK);
	close(other);
	close(fd);
	tap_ok(same("mapped"), "all of it is in the file");
}

static void test_room(void)
{
	char name[256];
	int fd;

	memset(name, 'n', 255);
	name[255] = '\0';
	fd = begin(name);
	/* Every size around the most that fits, with the longest name. */
	for (int i = 0; i < 40; i++) {
		char piece[25];

		memset(piece, 'A' + i % 26, sizeof(piece));
		if (!put(fd, piece, sizeof(piece), i * sizeof(piece)) || fsync(fd))
			tap_bail("%zu bytes: %s", model_size, strerror(errno));
	}
	tap_ok(same(name), "with the longest name there is less room, and nothing is lost");
	close(fd);
	fd = begin("many");
	for (int i = 0; i < 50; i++) {
		char file[32];

		sprintf(file, "many%d", i);
		close(open(file, O_WRONLY | O_CREAT, 0644));
		int each = open(file, O_WRONLY);
		if (write(each, file, strlen(file)) != (ssize_t)strlen(file))
			tap_bail("%s: %s", file, strerror(errno));
		close(each);
	}
	guest_run("sync -f .");
	guest_drop_caches();
	int wrong = 0;
	for (int i = 0; i < 50; i++) {
		char file[32];
		int each;

		sprintf(file, "many%d", i);
		each = open(file, O_RDONLY);
		wrong += read(each, got, 64) != (ssize_t)strlen(file) || memcmp(got, file, strlen(file));
		close(each);
	}
	tap_eq(wrong, 0, "fifty small files, four to a block, each its own");
	close(fd);
}

static void test_disk(void)
{
	write_make(disk, 0);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	test_new();
	test_growth();
	test_maps();
	test_room();
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	tap_plan(48);
	umask(0);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
