/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * A directory of 100,000 names: readdir gives each once, whatever the buffer; positions of readdir
 * can be kept and returned to; lookup finds every name and no other; many do all that at once.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>
#include <sys/syscall.h>

#define MOST 100000

struct entry {
	uint64_t ino;
	uint64_t next;		/* position of the entry behind it */
	int number;
	unsigned char type;
};

static struct entry order[MOST + 2];	/* as readdir gives them */
static uint64_t ino_of[MOST];
static int names = MOST;

/* Some names are short, some long, and most like one another. */
static int name_of(int number, char *name)
{
	int len = sprintf(name, "%x-", number);
	int more = number % 997 == 0 ? 254 - len : number % 61;

	memset(name + len, 'a' + number % 23, more);
	name[len + more] = '\0';
	return len + more;
}

/* -1: no name of ours. */
static int number_of(const char *name)
{
	char expected[NAME_MAX + 1], *end;
	long number = strtol(name, &end, 16);

	if (*end != '-' || number < 0 || number >= names)
		return -1;
	name_of(number, expected);
	return strcmp(name, expected) ? -1 : number;
}

/* Ten names each are one inode. */
static int twin_of(int number)
{
	return number / 10 * 10;
}

static mode_t mode_of(int number)
{
	return number / 10 % 10 == 3 ? S_IFIFO : number / 10 % 10 == 4 ? S_IFCHR : S_IFREG;
}

static void make_names(void)
{
	int fd = open(guest_source, O_RDONLY | O_DIRECTORY);
	char name[NAME_MAX + 1], twin[NAME_MAX + 1];

	for (int i = 0; i < names; i++) {
		int failed;

		name_of(i, name);
		if (twin_of(i) != i) {
			name_of(twin_of(i), twin);
			failed = linkat(fd, twin, fd, name, 0);
		} else {
			failed = mknodat(fd, name, mode_of(i) | 0644, 0x0103);
		}
		if (failed)
			tap_bail("%s: %s", name, strerror(errno));
	}
	close(fd);
}

/* ---- reading ------------------------------------------------------------------------- */

/* Read on from where the directory is; the number of entries, or -1. */
static int read_all(int fd, size_t room, struct entry *entries, int limit)
{
	static char buffer[1 << 20];
	int count = 0;
	long n;

	while ((n = syscall(SYS_getdents64, fd, buffer, room)) > 0) {
		for (long at = 0; at < n; count++) {
			struct dirent64 *d = (struct dirent64 *)(buffer + at);

			if (count < limit)
				entries[count] = (struct entry) {
					.ino = d->d_ino,
					.next = d->d_off,
					.number = d->d_name[0] == '.' ? -2 : number_of(d->d_name),
					.type = d->d_type,
				};
			at += d->d_reclen;
		}
	}
	return n < 0 ? -1 : count;
}

/* Is each name there once, with the type it has?  Says what is not. */
static bool is_complete(const struct entry *entries, int count)
{
	static unsigned char seen[MOST];
	int dots = 0, wrong = 0;

	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < count && i < names + 2; i++) {
		int number = entries[i].number;

		if (number == -2)
			dots++;
		else if (number < 0)
			wrong++;
		else if (seen[number]++)
			tap_diag("number %d came again, at %d", number, i);
		else if (entries[i].type != IFTODT(mode_of(number)))
			tap_diag("number %d has type %d", number, entries[i].type);
		else
			continue;
		wrong += number >= 0;
	}
	for (int i = 0; i < names; i++)
		if (!seen[i] && wrong++ < 10)
			tap_diag("number %d never came", i);
	if (count != names + 2 || dots != 2 || wrong)
		tap_diag("%d entries, %d of them . and .., %d wrong", count, dots, wrong);
	return count == names + 2 && dots == 2 && !wrong;
}

static bool test_readdir(int fd, size_t room)
{
	static struct entry entries[MOST + 2];

	lseek(fd, 0, SEEK_SET);
	return is_complete(entries, read_all(fd, room, entries, names + 2));
}

static bool test_seek(int fd)
{
	struct entry e[4];
	int wrong = 0;

	for (int i = 0; i < 2000; i++) {
		int at = guest_below(names + 1);
		char buffer[1024];
		struct dirent64 *d = (struct dirent64 *)buffer;

		if (lseek(fd, order[at].next, SEEK_SET) != (off_t)order[at].next ||
		    syscall(SYS_getdents64, fd, buffer, sizeof(buffer)) <= 0)
			wrong++;
		else if (d->d_ino != order[at + 1].ino || (uint64_t)d->d_off != order[at + 1].next ||
			 (d->d_name[0] != '.' && number_of(d->d_name) != order[at + 1].number))
			wrong++;
	}
	/* The end stays the end. */
	lseek(fd, order[names + 1].next, SEEK_SET);
	wrong += read_all(fd, 4096, e, 4) != 0;
	if (wrong)
		tap_diag("%d of 2001 wrong", wrong);
	return !wrong;
}

/* Positions at which no entry stands: what follows is what stands behind them. */
static bool test_odd_positions(int fd)
{
	int wrong = 0;

	for (int i = 0; i < 500; i++) {
		uint64_t pos = guest_random() >> 1;
		char buffer[1024];
		struct dirent64 *d = (struct dirent64 *)buffer;
		int at = 2, end = names + 2;
		long n;

		/* The first entry that stands at pos or behind it; entry i stands at order[i - 1].next. */
		while (at < end) {
			int middle = (at + end) / 2;

			if (order[middle - 1].next < pos)
				at = middle + 1;
			else
				end = middle;
		}
		if (lseek(fd, pos, SEEK_SET) != (off_t)pos)
			wrong++;
		n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
		if (at == names + 2 ? n != 0 : n <= 0 || number_of(d->d_name) != order[at].number)
			wrong++;
	}
	if (wrong)
		tap_diag("%d wrong", wrong);
	return !wrong;
}

/* With the C library: telldir, seekdir, rewinddir. */
static bool test_library(int fd)
{
	DIR *dir = fdopendir(dup(fd));
	struct dirent *d;
	long where[50];
	ino_t ino[50];
	int count = 0, wrong = 0;

	rewinddir(dir);
	for (int i = 0; (d = readdir(dir)); i++) {
		if (i % (names / 50) || count == 50)
			continue;
		where[count] = telldir(dir);
		d = readdir(dir);
		i++;
		if (d)
			ino[count++] = d->d_ino;
	}
	for (int i = 0; i < 500; i++) {
		int k = guest_below(count);

		seekdir(dir, where[k]);
		d = readdir(dir);
		wrong += !d || d->d_ino != ino[k];
	}
	rewinddir(dir);
	d = readdir(dir);
	wrong += !d || strcmp(d->d_name, ".");
	closedir(dir);
	return count == 50 && !wrong;
}

/* ---- looking up ---------------------------------------------------------------------- */

static bool lookup_is_right(int fd, int number)
{
	char name[NAME_MAX + 1];
	struct stat st;

	name_of(number, name);
	if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == ino_of[number])
		return true;
	tap_diag("%.40s: inode %lu, not %lu: %s", name, st.st_ino, ino_of[number], strerror(errno));
	return false;
}

static bool absent_is_absent(int fd, int number)
{
	char name[NAME_MAX + 1];
	struct stat st;
	int len = name_of(number, name);

	/* Longer, shorter or changed by one. */
	if (number % 3 == 0 && len < NAME_MAX)
		strcpy(name + len, "b");
	else if (number % 3 == 1)
		name[len - 1] = '\0';
	else
		name[len - 1] ^= 1;
	if (number_of(name) >= 0)
		return true;
	if (fstatat(fd, name, &st, 0) && errno == ENOENT)
		return true;
	tap_diag("%.40s is there: %s", name, strerror(errno));
	return false;
}

/* Every step-th name. */
static bool test_lookups(int fd, int step)
{
	int wrong = 0;

	for (int i = 0; i < names && wrong < 10; i += step)
		wrong += !lookup_is_right(fd, i);
	return !wrong;
}

static bool test_absent(int fd)
{
	char name[NAME_MAX + 2];
	struct stat st;
	int wrong = 0;

	for (int i = 0; i < names && wrong < 10; i += 7)
		wrong += !absent_is_absent(fd, i);
	memset(name, 'x', NAME_MAX + 1);
	name[NAME_MAX + 1] = '\0';
	wrong += !fstatat(fd, name, &st, 0) || errno != ENAMETOOLONG;
	return !wrong;
}

/* Two read the directory, two look names up, all at once and with nothing cached. */
static bool test_together(const struct guest_disk *disk)
{
	int wrong = 0;

	fflush(stdout);
	guest_drop_caches();
	for (int who = 0; who < 4; who++) {
		if (fork())
			continue;
		int fd = open(disk->mnt, O_RDONLY | O_DIRECTORY);

		guest_random_state += who;
		wrong = who < 2 && !test_readdir(fd, who ? 32768 : 3000);
		for (int i = 0; who >= 2 && i < 5000 && !wrong; i++)
			wrong = i % 5 ? !lookup_is_right(fd, guest_below(names)) : !absent_is_absent(fd, guest_below(names));
		fflush(stdout);
		_exit(wrong);
	}
	for (int who = 0; who < 4; who++) {
		int status = -1;

		wait(&status);
		wrong += status != 0;
	}
	return !wrong;
}

static void test_disk(struct guest_disk *disk)
{
	int fd, count;

	guest_make(disk);
	guest_mount(disk, "");
	fd = open(disk->mnt, O_RDONLY | O_DIRECTORY);
	count = read_all(fd, 32768, order, names + 2);
	if (!tap_ok(fd >= 0 && is_complete(order, count), "readdir gives every name once"))
		tap_bail("nothing to compare with");
	for (int i = 0; i < names + 2; i++)
		if (order[i].number >= 0)
			ino_of[order[i].number] = order[i].ino;
	tap_ok(test_readdir(fd, 290), "so it does with a buffer for one entry or a few");
	tap_ok(test_seek(fd), "a position that was kept is where it was");
	tap_ok(test_odd_positions(fd), "a position without an entry is before those behind it");
	tap_ok(test_library(fd), "telldir, seekdir, rewinddir");
	tap_ok(test_lookups(fd, disk == &guest_disks[0] ? 1 : 9), "lookup finds names: all of the first disk's, some of the second's");
	tap_ok(test_absent(fd), "lookup finds no other name");
	tap_ok(test_together(disk), "readers and lookups at once, nothing cached");
	tap_eq(guest_corruptions(disk), 0, "no damage was reported");
	close(fd);
	guest_unmount(disk);
}

int main(void)
{
	tap_plan(18);
	guest_seed();
	guest_start();
	/* The debug kernel takes thirty times as long. */
	if (!access("/sys/kernel/debug/kmemleak", F_OK))
		names = MOST / 20;
	make_names();
	for (int i = 0; i < 2; i++) {
		tap_diag("blocks of %u bytes", guest_disks[i].block);
		test_disk(&guest_disks[i]);
	}
	return tap_finish();
}
