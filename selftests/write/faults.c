/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=420 */
/*
 * A device that fails while four processes write: whatever fsync and the like promised is there when the
 * device is well again and mounted anew, what could not be done was reported, nothing hangs, and fsck finds
 * nothing after recovery.  The device is a device-mapper one whose table is exchanged.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <signal.h>
#include <sys/mman.h>

#define BLOCKS 16384		/* of the filesystem */
#define SECTORS (BLOCKS * 8L)
#define PROCESSES 4
#define FILES 4000		/* of a process; one in five is a directory */
#define SIZE_MAX_HERE 60000
#define PATIENCE 25		/* seconds until something counts as hanging */

/* What is known of a name. */
enum state {
	NEVER,		/* was not made: is not there */
	MAYBE,		/* may be there; its data is right as far as it goes, or zero */
	BROKEN,		/* the same, and something failed: nothing more will be promised */
	THERE,		/* promised */
	LEAVING,	/* was promised, may be gone by now */
	GONE,		/* promised to be gone */
};

/* Shared by all processes. */
static struct shared {
	bool stop;
	bool cut;		/* the device does what it says no longer: a promise is worth nothing */
	bool lenient;		/* any error may come */
	long promises;
	long errors;
	long unexpected;
	int next[PROCESSES];
	unsigned char state[PROCESSES][FILES];
	int origin[PROCESSES][FILES];	/* whose data it has */
} *shared;

static struct guest_disk *disk;
static char device[64];		/* below the mapped one */
static int process;
static pid_t pids[PROCESSES];
static double seconds = 1;

/* ---- the device ------------------------------------------------------------------------------- */

static const char *table(char *text, const char *kind)
{
	if (!strcmp(kind, "linear"))
		sprintf(text, "0 %ld linear %s 0", SECTORS, device);
	else if (!strcmp(kind, "error"))
		sprintf(text, "0 %ld error", SECTORS);
	else if (!strcmp(kind, "region"))
		sprintf(text, "0 8000 linear %s 0\n8000 52000 error\n60000 %ld linear %s 60000", device, SECTORS - 60000, device);
	else
		sprintf(text, "0 %ld flakey %s 0 0 3600 1 %s", SECTORS, device, kind);
	return text;
}

static void make_device(void)
{
	char text[300];

	snprintf(device, sizeof(device), "/dev/%s", disk->name);
	guest_run("dmsetup create uhsfs-test --table '%s'", table(text, "linear"));
	strcpy(disk->path, "/dev/mapper/uhsfs-test");
}

static void remove_device(void *unused)
{
	(void)unused;
	if (!device[0])
		return;
	guest_try("dmsetup remove --retry uhsfs-test");
	strcpy(disk->path, device);
	device[0] = '\0';
}

static void swap(const char *kind)
{
	char text[300];

	guest_run("printf '%s' | dmsetup load uhsfs-test && dmsetup suspend --nolockfs uhsfs-test"
		  " && dmsetup resume uhsfs-test", table(text, kind));
}

/* ---- what a process does ----------------------------------------------------------------------- */

static void count(long *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

/* Did it fail?  The errors of a device that fails are all that may come. */
static bool failed(bool failure, const char *what, int number)
{
	if (!failure)
		return false;
	count(&shared->errors);
	if (errno != EIO && errno != EROFS && !shared->lenient) {
		count(&shared->unexpected);
		if (shared->unexpected < 5)
			tap_diag("process %d: %s of %d: %s", process, what, number, strerror(errno));
	}
	usleep(1000);
	return true;
}

static void promise(int number, enum state state)
{
	if (__atomic_load_n(&shared->cut, __ATOMIC_SEQ_CST))
		return;
	shared->state[process][number] = state;
	count(&shared->promises);
}

static bool is_dir(int number)
{
	return number % 5 == 4;
}

static const char *name_of(char *name, int number)
{
	sprintf(name, "%s%d", is_dir(number) ? "d" : number % 3 ? "f" : "a file with a name that is longer ", number);
	return name;
}

static size_t content(int p, int number, char *data)
{
	static const int sizes[] = { 0, 100, 500, 4096, 9000, SIZE_MAX_HERE };
	size_t size = sizes[number % 6];

	for (uint64_t i = 0; i * 8 < size; i++)
		((uint64_t *)data)[i] = (uint64_t)(p + 1) << 56 | (uint64_t)(number + 1) << 24 | i;
	return size;
}

static bool sync_dir(void)
{
	int fd = open(".", O_RDONLY);
	bool failure = failed(fd < 0, "open", -1) || failed(fsync(fd), "fsync of the directory", -1);

	if (fd >= 0)
		close(fd);
	return !failure;
}

static void make_dir(int number)
{
	char name[64];

	if (failed(mkdir(name_of(name, number), 0755), "mkdir", number))
		shared->state[process][number] = BROKEN;
	else if (guest_below(2) && sync_dir())
		promise(number, THERE);
}

/* True if it is promised. */
static bool write_mapped(int fd, int number, const char *data, size_t size)
{
	bool failure = failed(ftruncate(fd, size), "ftruncate", number);
	char *map;

	if (failure)
		return false;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (failed(map == MAP_FAILED, "mmap", number))
		return false;
	memcpy(map, data, size);
	failure = failed(msync(map, size, MS_SYNC), "msync", number);
	munmap(map, size);
	return !failure;
}

static void make_file(int number)
{
	char name[64], data[SIZE_MAX_HERE + 8];
	size_t size = content(process, number, data);
	int how = guest_below(6), fd;
	bool kept = false;

	shared->origin[process][number] = number;
	fd = open(name_of(name, number), O_RDWR | O_CREAT | O_EXCL | (how == 0 ? O_SYNC : 0), 0644);
	if (failed(fd < 0, "create", number)) {
		shared->state[process][number] = BROKEN;
		return;
	}
	if (how == 1 && size)
		kept = write_mapped(fd, number, data, size);
	else if (failed(write(fd, data, size) != (ssize_t)size, "write", number))
		shared->state[process][number] = BROKEN;
	else if (how == 0 && size)
		kept = true;
	else if (how == 2 || how == 3)
		kept = !failed(how == 2 ? fsync(fd) : fdatasync(fd), "fsync", number);
	else if (how == 4)
		return (void)close(fd);
	if (kept)
		promise(number, THERE);
	else
		shared->state[process][number] = BROKEN;
	close(fd);
}

static void make_link(int number, int old)
{
	char name[64], other[64];
	int fd;

	if (shared->state[process][old] != THERE || is_dir(old))
		return make_file(number);
	shared->origin[process][number] = shared->origin[process][old];
	shared->state[process][number] = BROKEN;
	if (failed(link(name_of(other, old), name_of(name, number)), "link", number))
		return;
	fd = open(name, O_RDONLY);
	if (!failed(fd < 0, "open", number) && !failed(fsync(fd), "fsync", number))
		promise(number, THERE);
	if (fd >= 0)
		close(fd);
}

static void remove_one(int number)
{
	unsigned char *state = &shared->state[process][number];
	char name[64];

	if (*state != THERE && *state != MAYBE)
		return;
	*state = *state == THERE ? LEAVING : BROKEN;
	name_of(name, number);
	if (!failed(is_dir(number) ? rmdir(name) : unlink(name), "remove", number) && guest_below(2) && sync_dir())
		promise(number, GONE);
}

static void sync_all(int fd)
{
	bool failure = failed(syncfs(fd), "syncfs", -1);

	for (int i = 0; i < shared->next[process]; i++) {
		if (shared->state[process][i] != MAYBE)
			continue;
		if (failure)
			shared->state[process][i] = BROKEN;
		else
			promise(i, THERE);
	}
}

static void work(int root)
{
	int *next = &shared->next[process];

	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED) && *next < FILES) {
		int number = *next, what = guest_below(10);

		if (what == 9 && !guest_below(4)) {
			sync_all(root);
		} else if (what >= 7 && number) {
			remove_one(guest_below(number));
		} else {
			/* Whatever becomes of it: this name may be there from now on. */
			shared->state[process][number] = MAYBE;
			++*next;
			if (is_dir(number))
				make_dir(number);
			else if (what == 0 && number)
				make_link(number, guest_below(number));
			else
				make_file(number);
		}
	}
}

/* ---- all of them -------------------------------------------------------------------------------- */

static void start_one(int i)
{
	uint64_t seed = guest_random();
	char own[PATH_MAX + 8];

	snprintf(own, sizeof(own), "%s/p%d", disk->mnt, i);
	process = i;
	/* Of one that was killed. */
	for (int number = 0; number < shared->next[i]; number++)
		if (shared->state[i][number] == MAYBE)
			shared->state[i][number] = BROKEN;
	pids[i] = fork();
	if (pids[i])
		return;
	guest_random_state = seed;
	if (chdir(own))
		_exit(1);
	work(open(".", O_RDONLY));
	fflush(stdout);
	_exit(0);
}

static void start(bool lenient)
{
	memset(shared, 0, sizeof(*shared));
	shared->lenient = lenient;
	write_make(disk, BLOCKS);
	write_mount(disk, MS_NOATIME);
	for (int i = 0; i < PROCESSES; i++)
		guest_run("mkdir %s/p%d", disk->mnt, i);
	guest_run("sync -f %s", disk->mnt);
	for (int i = 0; i < PROCESSES; i++)
		start_one(i);
}

/* Do they end when they are told to? */
static bool stop(void)
{
	bool right = true;
	int status;

	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < PROCESSES; i++) {
		int tries = 0;
		pid_t pid;

		while (!(pid = waitpid(pids[i], &status, WNOHANG)) && tries++ < PATIENCE * 10)
			usleep(100000);
		if (!pid) {
			tap_diag("process %d hangs", i);
			guest_try("sed 's/^/# /' /proc/%d/stack; kill -9 %d", pids[i], pids[i]);
			right = false;
		} else if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)) {
			/* A page that cannot be had is SIGBUS. */
			tap_diag("process %d ended with %#x", i, status);
			right = false;
		}
	}
	tap_diag("%ld promises, %ld errors", shared->promises, shared->errors);
	return right && !shared->unexpected;
}

/* ---- what is there -------------------------------------------------------------------------------- */

static const char *const state_names[] = { "never made", "perhaps", "perhaps, broken", "there", "leaving", "gone" };

/* NULL, or what is wrong. */
static const char *check_name(int p, int number, const char *path)
{
	enum state state = shared->state[p][number];
	char want[SIZE_MAX_HERE + 8], got[SIZE_MAX_HERE + 8];
	bool exact = state == THERE || state == LEAVING;
	struct stat st;
	size_t size;
	ssize_t n;
	int fd;

	if (lstat(path, &st)) {
		if (errno != ENOENT)
			return strerror(errno);
		return state == THERE ? "is not there" : NULL;
	}
	if (state == NEVER || state == GONE)
		return "is there";
	if (is_dir(number))
		return S_ISDIR(st.st_mode) ? NULL : "is no directory";
	size = content(p, shared->origin[p][number], want);
	fd = open(path, O_RDONLY);
	n = read(fd, got, sizeof(got));
	close(fd);
	if (n < 0)
		return strerror(errno);
	if ((size_t)n > size || (exact && (size_t)n != size))
		return "has another size";
	for (ssize_t i = 0; i < n; i++)
		if (got[i] != want[i] && (exact || got[i]))
			return "has other data";
	return NULL;
}

static bool all_kept(void)
{
	char path[PATH_MAX + 100], name[64];
	const char *wrong;
	int bad = 0, there = 0;

	for (int p = 0; p < PROCESSES; p++) {
		for (int i = 0; i < shared->next[p]; i++) {
			snprintf(path, sizeof(path), "%s/p%d/%s", disk->mnt, p, name_of(name, i));
			wrong = check_name(p, i, path);
			there += shared->state[p][i] == THERE;
			if (wrong && bad++ < 8)
				tap_diag("p%d/%s (%s) %s", p, name, state_names[shared->state[p][i]], wrong);
		}
	}
	tap_diag("%d of those that were made must be there", there);
	return !bad;
}

/* ---- scenarios -------------------------------------------------------------------------------------- */

static void check_after(void)
{
	write_mount(disk, MS_NOATIME);
	tap_ok(all_kept(), "the next mount has all that was promised");
	tap_ok(!guest_try("cd %s && mkdir after && echo text >after/file && sync -f . && rm -r p0", disk->mnt), "and can be written to");
	tap_ok(write_clean(disk), "it unmounts, and fsck finds nothing");
}

static void test_fault(const char *kind, bool heal)
{
	bool lost = !strcmp(kind, "drop_writes");

	start(false);
	usleep(seconds * 1e6);
	if (lost) {
		shared->lenient = true;
		__atomic_store_n(&shared->cut, true, __ATOMIC_SEQ_CST);
	}
	swap(kind);
	usleep(seconds * 1e6);
	if (heal) {
		swap("linear");
		usleep(seconds * 1e6);
	}
	tap_diag("%s, %s%s", disk->name, kind, heal ? ", then well again" : "");
	tap_ok(stop(), "all processes end, and see no error that is not the device's");
	tap_ok(shared->promises > 20 && (lost || shared->errors), "there were promises, and errors were reported");
	tap_ok(!umount(disk->mnt), "it can be unmounted");
	disk->mounted = false;
	if (!heal)
		swap("linear");
	check_after();
}

/* No fault: processes are killed. */
static void test_killed(void)
{
	bool right = true;
	int status;

	start(false);
	for (int i = 0; i < 60; i++) {
		int which = guest_below(PROCESSES);

		usleep(guest_below(60000));
		kill(pids[which], SIGKILL);
		right &= waitpid(pids[which], &status, 0) == pids[which];
		start_one(which);
	}
	tap_ok(right && stop(), "processes can be killed while they write");
	tap_ok(all_kept(), "what was promised is there");
	guest_unmount(disk);
	check_after();
}

/* Reading fails, and then not. */
static void test_reads(void)
{
	int fd;
	char byte;

	start(false);
	usleep(seconds * 1e6);
	tap_ok(stop(), "four processes write");
	guest_run("sync -f %s", disk->mnt);
	fd = open(disk->mnt, O_RDONLY);
	if (syncfs(fd))
		tap_bail("syncfs: %s", strerror(errno));
	close(fd);
	swap("error");
	guest_drop_caches();
	tap_ok(guest_try("find %s -type f -exec cat {} + >/dev/null 2>&1", disk->mnt), "a device that cannot be read: errors");
	swap("linear");
	tap_ok(all_kept(), "when it can be read again, all is there");
	tap_eq(atol(guest_line("/sys/fs/uhsfs/dm-0/corruptions")), 0, "nothing is called damaged");
	fd = openat(AT_FDCWD, disk->mnt, O_RDONLY);
	tap_ok(fd >= 0 && read(fd, &byte, 1) < 0 && errno == EISDIR, "the root is what it was");
	close(fd);
	guest_unmount(disk);
	swap("error");
	tap_ok(mount(disk->path, disk->mnt, "uhsfs", 0, "") && errno == EIO, "a mount of a device that fails is EIO");
	swap("linear");
	check_after();
}

static void test_disk(void)
{
	make_device();
	test_fault("error", false);
	test_fault("error", true);
	test_fault("error_writes", false);
	test_fault("error_writes", true);
	test_fault("drop_writes", false);
	test_fault("region", false);
	test_killed();
	test_reads();
	remove_device(NULL);
}

int main(void)
{
	tap_plan(100);
	guest_seed();
	if (getenv("UHSFS_SECONDS"))
		seconds = atof(getenv("UHSFS_SECONDS"));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	umask(022);
	guest_run("modprobe -a dm-mod dm-flakey");
	/* After the unmounting. */
	tap_defer(remove_device, NULL);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_disk();
	}
	return tap_finish();
}
