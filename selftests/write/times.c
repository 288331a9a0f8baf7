/* SPDX-License-Identifier: GPL-2.0 */
/* Times of access, as the mount says; lazytime; and what they cost. */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>

#define BLOCK 4096

#ifndef MS_LAZYTIME
#define MS_LAZYTIME (1 << 25)
#endif

static struct guest_disk *disk;

static void mount_with(unsigned long flags)
{
	if (mount(disk->path, disk->mnt, "uhsfs", flags, "checkpoint=1") || chdir(disk->mnt))
		tap_bail("mount %s: %s", disk->path, strerror(errno));
	disk->mounted = true;
}

static void leave(void)
{
	if (chdir("/"))
		tap_bail("no /");
	guest_unmount(disk);
}

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

static void make(const char *name)
{
	static const char data[2 * BLOCK] = "data";
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, data, sizeof(data)) != sizeof(data) || fsync(fd))
		tap_bail("%s: %s", name, strerror(errno));
	close(fd);
	usleep(20000);
}

static int64_t atime_of(const char *name)
{
	struct stat st;

	if (lstat(name, &st))
		tap_bail("%s: %s", name, strerror(errno));
	return st.st_atim.tv_sec * 1000000000LL + st.st_atim.tv_nsec;
}

static void read_it(const char *name, int flags)
{
	char bytes[100];
	int fd;
	DIR *dir = opendir(name);

	if (dir) {
		while (readdir(dir))
			;
		closedir(dir);
	} else if (readlink(name, bytes, sizeof(bytes)) < 0) {
		fd = open(name, O_RDONLY | flags);
		if (fd < 0 || read(fd, bytes, sizeof(bytes)) <= 0)
			tap_bail("%s: %s", name, strerror(errno));
		close(fd);
	}
	usleep(20000);
}

/* Does reading change the time?  For something new, and for something that was read before. */
static void check_rule(const char *name, bool first, bool second, const char *what)
{
	int64_t before = atime_of(name), once, twice;

	read_it(name, 0);
	once = atime_of(name);
	read_it(name, 0);
	twice = atime_of(name);
	if (!tap_result((once > before) == first && (twice > once) == second, "%s: the first reading %s, the second %s", what,
			first ? "counts" : "does not count", second ? "does too" : "does not"))
		tap_diag("%s: %lld, then %lld, then %lld", name, (long long)before, (long long)once, (long long)twice);
}

static void test_rules(void)
{
	static const struct {
		const char *name;
		unsigned long flags;
		bool first, second, dir;
	} rules[] = {
		{ "strictatime", MS_STRICTATIME, true, true, true },
		{ "relatime", MS_RELATIME, true, false, true },
		{ "noatime", MS_NOATIME, false, false, false },
		{ "nodiratime", MS_STRICTATIME | MS_NODIRATIME, true, true, false },
	};
	int64_t seen[3];
	char what[64];

	for (int i = 0; i < 4; i++) {
		mount_with(rules[i].flags);
		make("file");
		guest_run("rm -rf dir link; mkdir dir; ln -s target link");
		usleep(20000);
		check_rule("file", rules[i].first, rules[i].second, rules[i].name);
		sprintf(what, "%s, of a symlink", rules[i].name);
		check_rule("link", rules[i].first, rules[i].second, what);
		sprintf(what, "%s, of a directory", rules[i].name);
		check_rule("dir", rules[i].dir && rules[i].first, rules[i].dir && rules[i].second, what);
		seen[0] = atime_of("file");
		seen[1] = atime_of("link");
		seen[2] = atime_of("dir");
		leave();
		mount_with(MS_NOATIME);
		tap_ok(atime_of("file") == seen[0] && atime_of("link") == seen[1] && atime_of("dir") == seen[2],
		       "the next mount has the same times");
		leave();
	}
	mount_with(MS_STRICTATIME);
	make("file");
	seen[0] = atime_of("file");
	read_it("file", O_NOATIME);
	tap_eq(atime_of("file"), seen[0], "O_NOATIME counts");
	leave();
}

/* Sectors that are written when a file was read and some time went by. */
static long cost_of_reading(void)
{
	long before;

	sync();
	sleep(2);
	before = sectors_written();
	for (int i = 0; i < 5; i++)
		read_it("file", 0);
	sleep(3);
	return sectors_written() - before;
}

static void test_lazy(void)
{
	int64_t seen;
	long before;
	int fd;

	mount_with(MS_STRICTATIME);
	make("file");
	tap_ok(cost_of_reading() > 0, "a time of access goes to the device with the next checkpoint");
	leave();
	mount_with(MS_STRICTATIME | MS_LAZYTIME);
	seen = atime_of("file");
	tap_eq(cost_of_reading(), 0, "with lazytime it does not");
	tap_ok(atime_of("file") > seen, "but it is new in memory");
	seen = atime_of("file");
	guest_drop_caches();
	tap_eq(atime_of("file"), seen, "and stays so when the inode is dropped");
	read_it("file", 0);
	seen = atime_of("file");
	before = sectors_written();
	fd = open("file", O_RDWR);
	tap_ok(!fdatasync(fd) && sectors_written() == before, "fdatasync leaves it where it is");
	tap_ok(!fsync(fd) && sectors_written() > before, "fsync writes it");
	close(fd);
	leave();
	mount_with(MS_NOATIME);
	tap_eq(atime_of("file"), seen, "the next mount has it");
	leave();
	mount_with(MS_STRICTATIME | MS_LAZYTIME);
	read_it("file", 0);
	seen = atime_of("file");
	leave();
	mount_with(MS_NOATIME);
	tap_eq(atime_of("file"), seen, "and so it is when the filesystem was unmounted without fsync");
	leave();
}

/* fdatasync when only times are new: nothing of the slot. */
static void test_fdatasync(void)
{
	static char data[BLOCK];
	long before;
	int fd;

	mount_with(MS_STRICTATIME);
	make("file");
	fd = open("file", O_RDWR);
	sync();
	if (pread(fd, data, BLOCK, 0) != BLOCK)
		tap_bail("file: %s", strerror(errno));
	before = sectors_written();
	tap_ok(!fdatasync(fd) && sectors_written() == before, "fdatasync of a file that was read: nothing is written");
	if (pwrite(fd, data, BLOCK, 0) != BLOCK)
		tap_bail("file: %s", strerror(errno));
	before = sectors_written();
	tap_ok(!fdatasync(fd) && sectors_written() - before == BLOCK / 512, "of one that was overwritten: its data");
	if (pwrite(fd, data, 1, 2 * BLOCK) != 1)
		tap_bail("file: %s", strerror(errno));
	before = sectors_written();
	tap_ok(!fdatasync(fd) && sectors_written() - before > BLOCK / 512, "of one that grew: data and slot");
	close(fd);
	leave();
}

static void test_disk(void)
{
	write_make(disk, 16384);
	test_rules();
	test_lazy();
	test_fdatasync();
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	tap_plan(58);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
