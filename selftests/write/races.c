/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * Operations that race.  First with one inode: processes link and unlink names of their own while
 * others fsync it, so that each result is known.  Then with a few names for all, where anything may
 * happen, but nothing that no order of the operations explains.  In the end each inode has as many
 * names as it says, here and in the next mount.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>
#include <sys/mman.h>

#define BLOCK 4096
#define PROCESSES 4
#define NAMES 24

enum counter { LINKS, UNLINKS, SYNCS, FAILED, COUNTERS };

static struct guest_disk *disk;
static long *counters;		/* of all processes */
static double seconds = 5;	/* for each race */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void count(enum counter which)
{
	__atomic_add_fetch(&counters[which], 1, __ATOMIC_RELAXED);
}

/* The end of a process. */
TAP_PRINTF(1, 2) __attribute__((noreturn)) static void wrong(const char *format, ...)
{
	char text[512];
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	tap_diag("%s (%s)", text, strerror(error));
	fflush(stdout);
	count(FAILED);
	_exit(1);
}

static bool run(int processes, void (*work)(int process, double end))
{
	uint64_t seed = guest_random();
	double end = now() + seconds;
	bool right = true;
	int status;

	memset(counters, 0, COUNTERS * sizeof(*counters));
	for (int i = 0; i < processes; i++) {
		if (fork())
			continue;
		guest_random_state = seed + i;
		work(i, end);
		_exit(0);
	}
	for (int i = 0; i < processes; i++) {
		wait(&status);
		right &= status == 0;
		if (status && !WIFEXITED(status))
			tap_diag("a process died with signal %d", WTERMSIG(status));
	}
	tap_diag("%s: %ld links, %ld unlinks, %ld syncs", disk->name, counters[LINKS], counters[UNLINKS], counters[SYNCS]);
	return right;
}

/* ---- names and inodes of a tree ------------------------------------------------------------ */

struct found {
	struct stat st;
	char *path;
};

static struct tree {
	struct found *found;
	size_t count, room;
} trees[2];

static void add_found(struct tree *tree, const char *path)
{
	if (tree->count == tree->room) {
		tree->room = tree->room ? 2 * tree->room : 256;
		tree->found = realloc(tree->found, tree->room * sizeof(*tree->found));
	}
	tree->found[tree->count].path = strdup(path);
	if (lstat(path, &tree->found[tree->count++].st))
		tap_bail("%s: %s", path, strerror(errno));
}

static void walk(struct tree *tree, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	char *below;

	if (!dir)
		tap_bail("%s: %s", path, strerror(errno));
	while ((e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (asprintf(&below, "%s/%s", path, e->d_name) < 0)
			exit(1);
		add_found(tree, below);
		if (S_ISDIR(tree->found[tree->count - 1].st.st_mode))
			walk(tree, below);
		free(below);
	}
	closedir(dir);
}

static int by_inode(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->st.st_ino != y->st.st_ino)
		return x->st.st_ino < y->st.st_ino ? -1 : 1;
	return strcmp(x->path, y->path);
}

static void read_tree(struct tree *tree)
{
	while (tree->count)
		free(tree->found[--tree->count].path);
	add_found(tree, disk->mnt);
	walk(tree, disk->mnt);
	qsort(tree->found, tree->count, sizeof(*tree->found), by_inode);
}

/* Directories below one. */
static unsigned int subdirs(const struct tree *tree, const char *path)
{
	unsigned int n = 0;

	for (size_t i = 0; i < tree->count; i++) {
		const char *slash = strrchr(tree->found[i].path, '/');

		n += S_ISDIR(tree->found[i].st.st_mode) && (size_t)(slash - tree->found[i].path) == strlen(path) &&
		     !strncmp(tree->found[i].path, path, strlen(path));
	}
	return n;
}

/* Each inode has as many names as it says. */
static bool links_right(const struct tree *tree)
{
	bool right = true;
	size_t next;

	for (size_t i = 0; i < tree->count; i = next) {
		const struct found *f = &tree->found[i];
		unsigned int names;

		for (next = i + 1; next < tree->count && tree->found[next].st.st_ino == f->st.st_ino;)
			next++;
		names = S_ISDIR(f->st.st_mode) ? 2 + subdirs(tree, f->path) : next - i;
		if (f->st.st_nlink == names && (!S_ISDIR(f->st.st_mode) || next == i + 1))
			continue;
		tap_diag("%s: inode %lu has %lu links, but %u names", f->path, (long)f->st.st_ino, (long)f->st.st_nlink, names);
		right = false;
	}
	return right;
}

static bool trees_equal(void)
{
	if (trees[0].count != trees[1].count) {
		tap_diag("%zu names, not %zu", trees[1].count, trees[0].count);
		return false;
	}
	for (size_t i = 0; i < trees[0].count; i++) {
		const struct found *a = &trees[0].found[i], *b = &trees[1].found[i];

		if (!strcmp(a->path, b->path) && a->st.st_ino == b->st.st_ino && a->st.st_mode == b->st.st_mode &&
		    a->st.st_nlink == b->st.st_nlink && (S_ISDIR(a->st.st_mode) || a->st.st_size == b->st.st_size))
			continue;
		tap_diag("inode %lu, %s, size %lld; was inode %lu, %s, size %lld", (long)b->st.st_ino, b->path,
			 (long long)b->st.st_size, (long)a->st.st_ino, a->path, (long long)a->st.st_size);
		return false;
	}
	return true;
}

static void check_tree(void)
{
	read_tree(&trees[0]);
	tap_ok(links_right(&trees[0]), "each inode has as many names as it says");
	tap_ok(write_clean(disk), "it unmounts, and fsck finds nothing");
	write_mount(disk, 0);
	read_tree(&trees[1]);
	tap_ok(links_right(&trees[1]) && trees_equal(), "the next mount has the same names and inodes");
}

static void go_to(const char *dir)
{
	if (chdir(dir))
		tap_bail("%s: %s", dir, strerror(errno));
}

/* ---- one inode -------------------------------------------------------------------------------- */

/* Link and unlink names that only this process knows. */
static void link_own(int process, double end)
{
	bool there[NAMES] = {};
	char name[64];

	while (now() < end) {
		int i = guest_below(NAMES);

		sprintf(name, "dir%d/p%d-%s%d", i % 2, process, i % 3 ? "" : "a name that is longer than others ", i);
		if (there[i] ? unlink(name) : link("one", name))
			wrong("%s of %s failed", there[i] ? "unlink" : "link", name);
		there[i] = !there[i];
		count(there[i] ? LINKS : UNLINKS);
		if (!guest_below(200))
			usleep(guest_below(3000));
	}
}

static void sync_one(double end)
{
	int fd = open("one", O_RDWR), dir = open("dir0", O_RDONLY);

	if (fd < 0 || dir < 0)
		wrong("open failed");
	while (now() < end) {
		int what = guest_below(16);

		if (what == 0 && pwrite(fd, "x", 1, guest_below(10 * BLOCK)) != 1)
			wrong("write failed");
		if (what == 1 && fchmod(fd, 0600 + guest_below(64)))
			wrong("chmod failed");
		if (what == 2 ? fsync(dir) : what == 3 ? syncfs(fd) : what % 2 ? fsync(fd) : fdatasync(fd))
			wrong("sync %d failed", what);
		count(SYNCS);
	}
}

static void work_one(int process, double end)
{
	if (process % 2)
		sync_one(end);
	else
		link_own(process, end);
}

static void test_one(void)
{
	write_make(disk, 0);
	write_mount(disk, 0);
	go_to(disk->mnt);
	close(open("one", O_RDWR | O_CREAT, 0644));
	if (mkdir("dir0", 0755) || mkdir("dir1", 0755))
		tap_bail("mkdir: %s", strerror(errno));
	tap_ok(run(2, work_one), "one process links and unlinks an inode, another one syncs it");
	tap_ok(counters[LINKS] > 20 && counters[SYNCS] > 20, "they did so often");
	/* Names by process: those of the first run would be in the way. */
	guest_run("rm -f dir0/* dir1/*");
	tap_ok(run(4, work_one), "two processes link and unlink an inode, two others sync it");
	tap_ok(counters[LINKS] > 20 && counters[SYNCS] > 20, "they did so often");
	go_to("/");
	check_tree();
}

/* ---- a few names ------------------------------------------------------------------------------ */

/* errno of what may fail because of what others do. */
static void may_fail(int ret, const char *what, const char *name, const int *errors)
{
	if (!ret)
		return;
	for (; *errors; errors++)
		if (errno == *errors)
			return;
	wrong("%s of %s failed", what, name);
}

#define MAY_FAIL(call, what, name, ...) may_fail(call, what, name, (const int[]){ __VA_ARGS__, 0 })

/* In the top folder and in directories that come and go. */
static const char *a_name(char *name)
{
	static const char *const dirs[] = { "", "", "d0/", "d1/", "d0/d0/" };

	sprintf(name, "%s%c%d", dirs[guest_below(5)], "ffffd"[guest_below(5)], (int)guest_below(3));
	return name;
}

static void sync_some(const char *name)
{
	int fd = open(name, O_RDONLY | O_NONBLOCK), ret;

	if (fd < 0)
		return;
	ret = guest_below(20) ? fsync(fd) : syncfs(fd);
	if (ret)
		wrong("sync of %s failed", name);
	close(fd);
	count(SYNCS);
}

static void make_file(const char *name)
{
	static const char data[2 * BLOCK] = "data";
	size_t size = guest_below(3) ? guest_below(sizeof(data)) : 0;
	int fd = open(name, O_RDWR | O_CREAT | (guest_below(2) ? O_EXCL : 0), 0644);

	MAY_FAIL(fd < 0, "create", name, EEXIST, ENOENT, EISDIR, ENOTDIR);
	if (fd < 0)
		return;
	if (pwrite(fd, data, size, guest_below(BLOCK)) != (ssize_t)size)
		wrong("write to %s failed", name);
	if (!guest_below(3) && ftruncate(fd, guest_below(BLOCK)))
		wrong("truncate of %s failed", name);
	if (!guest_below(2) && fsync(fd))
		wrong("fsync of %s failed", name);
	/* Perhaps without a name by now. */
	if (close(fd))
		wrong("close of %s failed", name);
}

static void one_of_all(void)
{
	char a[64], b[64];

	a_name(a);
	switch (guest_below(12)) {
	case 0:
	case 1:
	case 2:
		make_file(a);
		break;
	case 3:
	case 4:
		a_name(b);
		if (!link(a, b))
			count(LINKS);
		else
			MAY_FAIL(-1, "link", b, EEXIST, ENOENT, EPERM, ENOTDIR);
		break;
	case 5:
	case 6:
	case 7:
		if (!unlink(a))
			count(UNLINKS);
		else
			MAY_FAIL(-1, "unlink", a, ENOENT, EISDIR, ENOTDIR);
		break;
	case 8:
		MAY_FAIL(mkdir(a, 0755), "mkdir", a, EEXIST, ENOENT, ENOTDIR);
		break;
	case 9:
		MAY_FAIL(rmdir(a), "rmdir", a, ENOENT, ENOTEMPTY, ENOTDIR);
		break;
	case 10:
		MAY_FAIL(chmod(a, 0644 + guest_below(64)), "chmod", a, ENOENT, ENOTDIR);
		break;
	default:
		sync_some(guest_below(4) ? a : ".");
	}
}

static void work_all(int process, double end)
{
	(void)process;
	while (now() < end)
		one_of_all();
}

static void test_all(void)
{
	uint64_t before;

	write_make(disk, 0);
	write_mount(disk, 0);
	before = write_free(disk);
	go_to(disk->mnt);
	tap_ok(run(PROCESSES, work_all), "four processes use the same few names");
	tap_ok(counters[LINKS] > 20 && counters[UNLINKS] > 20 && counters[SYNCS] > 20, "they did so often");
	go_to("/");
	check_tree();
	guest_run("rm -rf %s/* && sync -f %s && sync -f %s", disk->mnt, disk->mnt, disk->mnt);
	tap_diag("%llu blocks free, %llu before", (unsigned long long)write_free(disk), (unsigned long long)before);
	tap_ok(write_free(disk) + 1024 >= before, "the space comes back, but for inodes");
	tap_ok(write_clean(disk), "and fsck finds nothing");
}

int main(void)
{
	tap_plan(28);
	guest_seed();
	if (getenv("UHSFS_SECONDS"))
		seconds = atof(getenv("UHSFS_SECONDS"));
	counters = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	umask(022);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		test_one();
		guest_unmount(disk);
		test_all();
	}
	return tap_finish();
}
