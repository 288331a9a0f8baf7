/* SPDX-License-Identifier: GPL-2.0 */
/* What operations cost: flushes and bytes that are written until fsync returns, median of many. */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <pthread.h>
#include <sys/mman.h>

#define BLOCK 4096
#define TIMES 41

/* An empty flush counts as a write, of no bytes. */
struct cost {
	long writes, bytes, flushes;
};

static struct guest_disk *disk;
static char data[BLOCK];

static struct cost cost_now(void)
{
	long v[17] = {};
	char path[128], text[512];
	int fd, n;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", disk->name);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	char *at = text;
	for (int i = 0; i < 17; i++)
		v[i] = strtol(at, &at, 10);
	return (struct cost){ .writes = v[4], .bytes = v[6] * 512, .flushes = v[15] };
}

static int compare(const void *a, const void *b)
{
	const long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool costs_at_most(const char *name, bool (*work)(int i), long writes, long kib, long flushes)
{
	long cost[3][TIMES], limit[3] = { writes, kib, flushes };
	bool right = true;

	for (int i = 0; i < TIMES; i++) {
		struct cost before = cost_now(), after;

		if (!work(i))
			tap_bail("%s: %s", name, strerror(errno));
		after = cost_now();
		cost[0][i] = after.writes - before.writes;
		cost[1][i] = (after.bytes - before.bytes) >> 10;
		cost[2][i] = after.flushes - before.flushes;
	}
	for (int k = 0; k < 3; k++) {
		qsort(cost[k], TIMES, sizeof(long), compare);
		right &= cost[k][TIMES / 2] <= limit[k];
	}
	tap_diag("%s on %s: median %ld writes, %ld KiB, %ld flushes; at most %ld, %ld, %ld", name, disk->name, cost[0][TIMES / 2],
		 cost[1][TIMES / 2], cost[2][TIMES / 2], cost[0][TIMES - 1], cost[1][TIMES - 1], cost[2][TIMES - 1]);
	return right;
}

static int file_number(const char *what, int i, int flags)
{
	char name[64];

	sprintf(name, "%s%d", what, i);
	return open(name, flags, 0644);
}

static bool create(int i)
{
	int fd = file_number("new", i, O_RDWR | O_CREAT | O_EXCL);

	return fd >= 0 && pwrite(fd, data, BLOCK, 0) == BLOCK && !fsync(fd) && !close(fd);
}

static bool small(int i)
{
	int fd = file_number("small", i, O_WRONLY | O_CREAT | O_EXCL);

	return fd >= 0 && pwrite(fd, data, 100, 0) == 100 && !fsync(fd) && !close(fd);
}

static bool append(int i)
{
	int fd = file_number("new", 0, O_RDWR);

	return fd >= 0 && pwrite(fd, data, BLOCK, (i + 1) * BLOCK) == BLOCK && !fsync(fd) && !close(fd);
}

static bool overwrite(int i)
{
	int fd = file_number("new", i, O_RDWR);

	return fd >= 0 && pwrite(fd, data, BLOCK, 0) == BLOCK && !fdatasync(fd) && !close(fd);
}

static bool again(int i)
{
	int fd = file_number("new", i, O_RDWR);

	return fd >= 0 && !fsync(fd) && !close(fd);
}

static bool no_fsync(int i)
{
	int fd = file_number("lazy", i, O_RDWR | O_CREAT | O_EXCL);

	return fd >= 0 && pwrite(fd, data, BLOCK, 0) == BLOCK && !close(fd);
}

/* Eight processes write files of their own and fsync them at once; flushes per hundred fsyncs. */
static long flushes_together(void)
{
	pthread_barrier_t *barrier = mmap(NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cost before = cost_now();
	pthread_barrierattr_t shared;
	bool right = true;
	int status;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &shared, 8);

	for (int p = 0; p < 8; p++) {
		if (fork())
			continue;
		for (int i = 0; i < 25; i++) {
			int fd = file_number("together", 100 * p + i, O_WRONLY | O_CREAT | O_EXCL);

			if (fd < 0 || write(fd, data, BLOCK) != BLOCK)
				_exit(1);
			pthread_barrier_wait(barrier);
			if (fsync(fd) || close(fd))
				_exit(1);
		}
		_exit(0);
	}
	while (wait(&status) > 0)
		right &= !status;
	if (!right)
		tap_bail("a process failed");
	return (cost_now().flushes - before.flushes) / 2;
}

static void test_disk(void)
{
	write_make(disk, 0);
	write_mount(disk, 0);
	if (chdir(disk->mnt) || mkdir("warm", 0755) || chdir("warm"))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	/* Names and inodes enough that chunks, groups and buckets are there. */
	for (int i = 0; i < 300; i++)
		close(file_number("before", i, O_RDWR | O_CREAT));
	guest_run("sync -f .");
	for (int i = 0; i < 5; i++)
		create(1000 + i);
	tap_ok(costs_at_most("create, 4 KiB, fsync", create, 4, 12, 1), "create, 4 KiB and fsync: 1 flush, 12 KiB");
	tap_ok(costs_at_most("create, 100 bytes, fsync", small, 3, 8, 1), "create, 100 bytes and fsync: 1 flush, 8 KiB");
	tap_ok(costs_at_most("append 4 KiB, fsync", append, 3, 12, 1), "append and fsync: 1 flush, 12 KiB");
	tap_ok(costs_at_most("overwrite 4 KiB, fdatasync", overwrite, 2, 4, 1), "overwrite and fdatasync: 1 flush, 4 KiB: the times can wait");
	guest_run("sync -f .");
	tap_ok(costs_at_most("fsync of what is durable", again, 1, 0, 1), "fsync of what is durable: 1 flush, nothing written");
	tap_ok(costs_at_most("create and 4 KiB", no_fsync, 0, 0, 0), "create and write without fsync: nothing");
	long percent = flushes_together();
	tap_diag("8 processes on %s: %ld flushes per 100 fsyncs", disk->name, percent);
	tap_ok(percent < 75, "fsyncs that come together share flushes");
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	tap_plan(16);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
