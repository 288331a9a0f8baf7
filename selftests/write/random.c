/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * Operations by chance on uhsfs and on tmpfs side by side, in four processes: the same results and
 * errors, and in the end the same trees, in memory, from the device, and in the next mount.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#define PROCESSES 4
#define BLOCK 4096
#define SIZE_MAX_HERE (8 << 20)
#define BUFFER (1 << 20)
#define DIRS 64
#define HELD 8
#define BIG 4000

static int roots[2];		/* tmpfs, uhsfs */
static int process, step, steps = 800;
static char *buffer, *got[2];	/* BUFFER bytes each, aligned */

static struct {
	char *path[DIRS];
	int count;
} dirs;

static struct held {
	int fd[2];
} held[HELD];

/* ---- comparing results ------------------------------------------------------------------ */

#define HISTORY 12
static char history[HISTORY][320];
static int history_count;

TAP_PRINTF(1, 2) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(history[history_count++ % HISTORY], sizeof(history[0]), format, arguments);
	va_end(arguments);
}

TAP_PRINTF(1, 2) __attribute__((noreturn)) static void differ(const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	tap_diag("process %d, step %d: %s", process, step, text);
	for (int i = history_count > HISTORY ? history_count - HISTORY : 0; i < history_count; i++)
		tap_diag("  %s", history[i % HISTORY]);
	fflush(stdout);
	_exit(1);
}

static long agree(const char *what, const long *result, const int *error)
{
	if (result[0] != result[1] || error[0] != error[1])
		differ("%s: %ld (%s), not %ld (%s)", what, result[1], error[1] ? strerror(error[1]) : "no error", result[0],
		       error[0] ? strerror(error[0]) : "no error");
	errno = error[0];
	return result[0];
}

/* The same on both sides: `side` is 0 or 1, `root` its root. */
#define both(what, expression) \
	({ \
		long both_result[2]; \
		int both_error[2]; \
		for (int side = 0; side < 2; side++) { \
			int root = roots[side]; \
			(void)root; \
			errno = 0; \
			both_result[side] = (expression); \
			both_error[side] = both_result[side] < 0 ? errno : 0; \
		} \
		agree(what, both_result, both_error); \
	})

static void compare_stat(const char *path, const struct stat st[2])
{
	bool dir = S_ISDIR(st[0].st_mode);

	if (st[0].st_mode != st[1].st_mode || st[0].st_nlink != st[1].st_nlink || st[0].st_uid != st[1].st_uid ||
	    st[0].st_gid != st[1].st_gid || st[0].st_rdev != st[1].st_rdev || (!dir && st[0].st_size != st[1].st_size))
		differ("%.200s: mode %o links %lu owner %u:%u rdev %lx size %lld, not mode %o links %lu owner %u:%u rdev %lx size %lld",
		       path, st[1].st_mode, (long)st[1].st_nlink, st[1].st_uid, st[1].st_gid, (long)st[1].st_rdev,
		       (long long)st[1].st_size, st[0].st_mode, (long)st[0].st_nlink, st[0].st_uid, st[0].st_gid,
		       (long)st[0].st_rdev, (long long)st[0].st_size);
}

static void compare_range(const char *path, const int fd[2], off_t at, size_t len)
{
	long n = both("pread", pread(fd[side], got[side], len, at));

	for (long i = 0; i < n; i++) {
		if (got[0][i] == got[1][i])
			continue;
		differ("%.200s: byte %lld is %02x, not %02x (read %zu at %lld, size %lld)", path, (long long)(at + i),
		       (unsigned char)got[1][i], (unsigned char)got[0][i], len, (long long)at,
		       (long long)lseek(fd[0], 0, SEEK_END));
	}
}

/* ---- whole trees ------------------------------------------------------------------------- */

struct pair {
	ino_t ino[2];
};

static struct {
	struct pair *pair;
	size_t count, room;
} inodes;

static int compare_pairs(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct pair));
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t read_names(int fd, char ***names)
{
	DIR *dir = fdopendir(fd);
	size_t count = 0, room = 0;
	struct dirent *e;

	*names = NULL;
	while ((e = readdir(dir))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (count == room) {
			room = room ? 2 * room : 64;
			*names = realloc(*names, room * sizeof(char *));
		}
		(*names)[count++] = strdup(e->d_name);
	}
	closedir(dir);
	qsort(*names, count, sizeof(char *), compare_text);
	return count;
}

static void compare_content(const char *path, const int fd[2], off_t size)
{
	for (off_t at = 0; at < size; at += BUFFER)
		compare_range(path, fd, at, BUFFER);
}

static void compare_object(const int at[2], const char *name, const char *path, int depth);

static void compare_dir(const int fd[2], const char *path, int depth)
{
	int again[2] = { openat(fd[0], ".", O_RDONLY | O_DIRECTORY), openat(fd[1], ".", O_RDONLY | O_DIRECTORY) };
	char **names[2];
	size_t count[2];

	for (int side = 0; side < 2; side++)
		count[side] = read_names(again[side], &names[side]);
	for (size_t i = 0; i < count[0] || i < count[1]; i++) {
		const char *a = i < count[0] ? names[0][i] : "(none)", *b = i < count[1] ? names[1][i] : "(none)";

		if (strcmp(a, b))
			differ("%.200s: name %zu of %zu is %.100s, not %.100s of %zu", path, i, count[1], b, a, count[0]);
	}
	for (size_t i = 0; i < count[0]; i++) {
		char *below;

		if (asprintf(&below, "%s/%s", path, names[0][i]) < 0)
			exit(1);
		compare_object(fd, names[0][i], below, depth + 1);
		free(below);
		free(names[0][i]);
		free(names[1][i]);
	}
	free(names[0]);
	free(names[1]);
}

static void compare_object(const int at[2], const char *name, const char *path, int depth)
{
	struct stat st[2];
	int fd[2];

	if (both("lstat of what readdir gave", fstatat(at[side], name, &st[side], AT_SYMLINK_NOFOLLOW)))
		differ("%.200s cannot be looked up", path);
	compare_stat(path, st);
	if (inodes.count == inodes.room) {
		inodes.room = inodes.room ? 2 * inodes.room : 1024;
		inodes.pair = realloc(inodes.pair, inodes.room * sizeof(struct pair));
	}
	inodes.pair[inodes.count++] = (struct pair){ { st[0].st_ino, st[1].st_ino } };
	if (S_ISLNK(st[0].st_mode)) {
		long n = both("readlink", readlinkat(at[side], name, got[side], BUFFER));

		if (n > 0 && memcmp(got[0], got[1], n))
			differ("%.200s: another target", path);
	}
	if (!S_ISREG(st[0].st_mode) && !S_ISDIR(st[0].st_mode))
		return;
	for (int side = 0; side < 2; side++) {
		fd[side] = openat(at[side], name, O_RDONLY | O_NOFOLLOW);
		if (fd[side] < 0)
			differ("%.200s cannot be opened (%d): %s", path, side, strerror(errno));
	}
	if (S_ISREG(st[0].st_mode))
		compare_content(path, fd, st[0].st_size);
	else
		compare_dir(fd, path, depth);
	close(fd[0]);
	close(fd[1]);
}

/* In a child, because it ends at the first difference. */
static bool trees_agree(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		compare_dir(roots, ".", 0);
		/* One inode there is one inode here. */
		for (int side = 0; side < 2; side++) {
			qsort(inodes.pair, inodes.count, sizeof(struct pair), compare_pairs);
			for (size_t i = 1; i < inodes.count; i++)
				if (inodes.pair[i].ino[0] == inodes.pair[i - 1].ino[0] &&
				    inodes.pair[i].ino[1] != inodes.pair[i - 1].ino[1])
					differ("inodes %lu and %lu are one", (long)inodes.pair[i].ino[1],
					       (long)inodes.pair[i - 1].ino[1]);
			for (size_t i = 0; i < inodes.count; i++)
				inodes.pair[i] = (struct pair){ { inodes.pair[i].ino[1], inodes.pair[i].ino[0] } };
		}
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* ---- places by chance --------------------------------------------------------------------- */

static char path_one[PATH_MAX], path_two[PATH_MAX];

/* A directory that is there, and a name that may be. */
static char *a_path(char *path)
{
	const char *dir = dirs.path[guest_below(dirs.count)];
	int n = sprintf(path, "%s/", dir), kind = guest_below(100), length;

	if (!strcmp(dir, "shared"))
		n += sprintf(path + n, "%d-", process);
	if (kind < 75) {
		sprintf(path + n, "%c%d", 'a' + (int)guest_below(6), (int)guest_below(4));
		return path;
	}
	length = kind < 97 ? 20 + guest_below(12) * 21 : kind < 99 ? 255 : 256;
	if (kind < 97 && length > 253)
		length = 253;
	memset(path + n, 'l', length);
	path[n + length] = '\0';
	return path;
}

static off_t a_size(void)
{
	switch (guest_below(8)) {
	case 0:
		return 0;
	case 1:
		return guest_below(64);
	case 2:
	case 3:
		return guest_below(2 * BLOCK);
	case 4:
		return guest_below(20) * BLOCK + guest_below(3) - (guest_below(2) ? 1 : 0);
	case 5:
	case 6:
		return guest_below(200000);
	default:
		return guest_below(SIZE_MAX_HERE);
	}
}

static off_t a_place(off_t size)
{
	switch (guest_below(5)) {
	case 0:
		return size;
	case 1:
		return guest_below(size + 1);
	case 2:
		return guest_below(size / BLOCK + 1) * BLOCK;
	case 3:
		return size + guest_below(3 * BLOCK);
	default:
		return a_size();
	}
}

static size_t a_length(void)
{
	return 1 + guest_below(guest_below(4) ? 3 * BLOCK : guest_below(4) ? 100000 : BUFFER / 2);
}

static const char *some_bytes(void)
{
	return buffer + guest_below(BUFFER / 2);
}

/* ---- operations on open files ----------------------------------------------------------------- */

static bool open_both(const char *path, int flags, int fd[2])
{
	long result[2];
	int error[2];

	for (int side = 0; side < 2; side++) {
		errno = 0;
		fd[side] = openat(roots[side], path, flags | O_NOFOLLOW | O_NONBLOCK, 0666);
		result[side] = fd[side] < 0 ? -1 : 0;
		error[side] = fd[side] < 0 ? errno : 0;
	}
	return !agree("open", result, error);
}

static void write_some(const int fd[2])
{
	struct stat st;
	const char *bytes = some_bytes();
	size_t len = a_length();
	off_t at;

	fstat(fd[0], &st);
	at = a_place(st.st_size);
	if (at < 0)
		at = 0;
	say("pwrite %zu at %lld, size was %lld", len, (long long)at, (long long)st.st_size);
	both("pwrite", pwrite(fd[side], bytes, len, at));
}

static void truncate_some(const int fd[2])
{
	struct stat st;
	off_t size;

	fstat(fd[0], &st);
	size = guest_below(3) ? a_size() : (off_t)guest_below(st.st_size + 1);
	if (size < 0)
		size = 0;
	say("ftruncate %lld, size was %lld", (long long)size, (long long)st.st_size);
	both("ftruncate", ftruncate(fd[side], size));
}

static void mmap_some(const int fd[2])
{
	const char *bytes = some_bytes();
	struct stat st;
	off_t at, start;
	size_t len;

	fstat(fd[0], &st);
	if (!st.st_size)
		return;
	at = guest_below(st.st_size);
	len = a_length();
	if ((off_t)len > st.st_size - at)
		len = st.st_size - at;
	start = at / BLOCK * BLOCK;
	say("mmap write %zu at %lld, size %lld", len, (long long)at, (long long)st.st_size);
	for (int side = 0; side < 2; side++) {
		char *map = mmap(NULL, at - start + len, PROT_READ | PROT_WRITE, MAP_SHARED, fd[side], start);

		if (map == MAP_FAILED)
			differ("mmap (%d): %s", side, strerror(errno));
		memcpy(map + (at - start), bytes, len);
		if (step % 3 == 0 && msync(map, at - start + len, MS_SYNC))
			differ("msync (%d): %s", side, strerror(errno));
		munmap(map, at - start + len);
	}
}

static void read_some(const int fd[2])
{
	struct stat st[2];

	fstat(fd[0], &st[0]);
	fstat(fd[1], &st[1]);
	compare_stat("an open file", st);
	compare_range("an open file", fd, a_place(st[0].st_size), a_length());
}

static void change_open(const int fd[2])
{
	switch (guest_below(10)) {
	case 0:
	case 1:
	case 2:
		write_some(fd);
		break;
	case 3:
	case 4:
		truncate_some(fd);
		break;
	case 5:
	case 6:
		mmap_some(fd);
		break;
	case 7:
		say("fsync");
		both("fsync", guest_below(2) ? fsync(fd[side]) : fdatasync(fd[side]));
		break;
	default:
		read_some(fd);
	}
}

static void hold(const int fd[2])
{
	struct held *h = &held[guest_below(HELD)];

	if (h->fd[0]) {
		read_some(h->fd);
		close(h->fd[0]);
		close(h->fd[1]);
	}
	h->fd[0] = fd[0];
	h->fd[1] = fd[1];
}

static void use_file(void)
{
	static const int ways[] = { O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL, O_RDWR | O_CREAT | O_TRUNC,
				    O_RDWR | O_APPEND, O_RDWR | O_SYNC | O_CREAT, O_RDWR | O_DSYNC };
	int flags = ways[guest_below(7)], fd[2], times = 1 + guest_below(3);
	struct stat st;

	a_path(path_one);
	say("open %.220s flags %x", path_one, flags);
	if (!open_both(path_one, flags, fd))
		return;
	if (fstat(fd[0], &st) || !S_ISREG(st.st_mode)) {
		close(fd[0]);
		close(fd[1]);
		return;
	}
	while (times--)
		change_open(fd);
	if (guest_below(4)) {
		close(fd[0]);
		close(fd[1]);
	} else {
		hold(fd);
	}
}

/* Nobody can map such a file: small ones stay in their slots. */
static void write_only(void)
{
	static const int ways[] = { O_CREAT, O_CREAT | O_TRUNC, O_APPEND, O_CREAT | O_DSYNC };
	int flags = O_WRONLY | ways[guest_below(4)], fd[2], times = 1 + guest_below(4);
	struct stat st;

	a_path(path_one);
	say("open %.220s to write, flags %x", path_one, flags);
	if (!open_both(path_one, flags, fd))
		return;
	while (times-- && !fstat(fd[0], &st) && S_ISREG(st.st_mode)) {
		size_t len = 1 + guest_below(300);
		off_t at = guest_below(500);
		const char *bytes = some_bytes();

		say("small write %zu at %lld, size was %lld", len, (long long)at, (long long)st.st_size);
		if (guest_below(4))
			both("small write", pwrite(fd[side], bytes, len, at));
		else
			both("small truncate", ftruncate(fd[side], at));
		if (!guest_below(4))
			both("fsync", fsync(fd[side]));
	}
	close(fd[0]);
	close(fd[1]);
}

/* A file that has no name, and perhaps gets one. */
static void use_tmpfile(void)
{
	int flags = O_TMPFILE | O_RDWR | (guest_below(4) ? 0 : O_EXCL), fd[2], times = guest_below(3);
	const char *dir = dirs.path[guest_below(dirs.count)];
	char proc[2][64];

	say("tmpfile in %.220s, flags %x", dir, flags);
	if (!open_both(dir, flags, fd))
		return;
	while (times--)
		change_open(fd);
	if (guest_below(2)) {
		for (int side = 0; side < 2; side++)
			sprintf(proc[side], "/proc/self/fd/%d", fd[side]);
		a_path(path_two);
		say("link it to %.220s", path_two);
		both("link of a tmpfile", linkat(AT_FDCWD, proc[side], root, path_two, AT_SYMLINK_FOLLOW));
		change_open(fd);
	}
	hold(fd);
}

/* tmpfs has no direct writes on older kernels; the results are the same. */
static void write_direct(void)
{
	off_t at = guest_below(200) * BLOCK;
	size_t len = (1 + guest_below(20)) * BLOCK;
	char *bytes = buffer + guest_below(64) * BLOCK;
	int fd[2];

	a_path(path_one);
	say("direct write %zu at %lld of %.220s", len, (long long)at, path_one);
	fd[0] = openat(roots[0], path_one, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
	if (fd[0] < 0)
		return;
	fd[1] = openat(roots[1], path_one, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_DIRECT);
	if (fd[1] >= 0)
		both("direct write", pwrite(fd[side], bytes, len, at));
	else if (errno != EINVAL)
		differ("open with O_DIRECT: %s", strerror(errno));
	close(fd[0]);
	close(fd[1]);
}

static void use_held(void)
{
	struct held *h = &held[guest_below(HELD)];

	if (h->fd[0])
		change_open(h->fd);
}

/* ---- operations on names ------------------------------------------------------------------------ */

static void make_dir(void)
{
	a_path(path_one);
	say("mkdir %.220s", path_one);
	if (strlen(path_one) < 2000 && !both("mkdir", mkdirat(root, path_one, 0777)) && dirs.count < DIRS)
		dirs.path[dirs.count++] = strdup(path_one);
}

/* Mostly one of those that are there, which may have something in them. */
static void remove_dir(void)
{
	int i = 2 + guest_below(dirs.count);

	if (i < dirs.count && guest_below(4))
		strcpy(path_one, dirs.path[i]);
	else
		a_path(path_one);
	say("rmdir %.220s", path_one);
	if (both("rmdir", unlinkat(root, path_one, AT_REMOVEDIR)))
		return;
	for (i = 0; i < dirs.count; i++) {
		if (strcmp(dirs.path[i], path_one))
			continue;
		free(dirs.path[i]);
		dirs.path[i] = dirs.path[--dirs.count];
		break;
	}
}

static void remove_file(void)
{
	a_path(path_one);
	say("unlink %.220s", path_one);
	both("unlink", unlinkat(root, path_one, 0));
}

static void make_link(void)
{
	a_path(path_one);
	a_path(path_two);
	say("link %.100s to %.100s", path_one, path_two);
	both("link", linkat(root, path_one, root, path_two, 0));
}

static void make_symlink(void)
{
	static char target[BLOCK + 2];

	memset(target, 't', sizeof(target));
	target[guest_below(guest_below(3) ? 300 : BLOCK + 2)] = '\0';
	a_path(path_one);
	say("symlink %.200s of %zu", path_one, strlen(target));
	both("symlink", symlinkat(target, root, path_one));
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return !strncmp(path, dir, len) && (!path[len] || path[len] == '/');
}

/* The directories that are known, after a rename. */
static void move_dirs(const char *from, const char *to, bool exchange)
{
	for (int i = 0; i < dirs.count; i++) {
		char *path = dirs.path[i], *moved = NULL;

		if (is_below(path, from)) {
			if (asprintf(&moved, "%s%s", to, path + strlen(from)) < 0)
				exit(1);
		} else if (exchange && is_below(path, to)) {
			if (asprintf(&moved, "%s%s", from, path + strlen(to)) < 0)
				exit(1);
		} else if (!exchange && !strcmp(path, to)) {
			dirs.path[i--] = dirs.path[--dirs.count];
			free(path);
		}
		if (!moved)
			continue;
		free(path);
		dirs.path[i] = moved;
	}
}

static void rename_it(void)
{
	static const int ways[] = { 0, 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT };
	int flags = ways[guest_below(7)], i = 2 + guest_below(dirs.count);
	size_t longest = 0;
	struct stat st;

	a_path(path_one);
	a_path(path_two);
	if (i < dirs.count && !guest_below(3))
		strcpy(path_one, dirs.path[i]);
	for (i = 0; i < dirs.count; i++)
		longest = strlen(dirs.path[i]) > longest ? strlen(dirs.path[i]) : longest;
	if (longest + strlen(path_two) > 2000)
		return;
	say("rename %.140s to %.140s, flags %x", path_one, path_two, flags);
	if (both("rename", renameat2(root, path_one, root, path_two, flags)) || !strcmp(path_one, path_two))
		return;
	if (!fstatat(roots[0], path_two, &st, AT_SYMLINK_NOFOLLOW) &&
	    (S_ISDIR(st.st_mode) || (flags & RENAME_EXCHANGE)))
		move_dirs(path_one, path_two, flags & RENAME_EXCHANGE);
}

static void make_node(void)
{
	static const mode_t modes[] = { S_IFIFO | 0644, S_IFSOCK | 0755, S_IFCHR | 0600, S_IFBLK | 0660, S_IFREG | 0640 };
	mode_t mode = modes[guest_below(5)];
	dev_t dev = makedev(guest_below(4096), guest_below(1 << 20));

	a_path(path_one);
	say("mknod %.220s %o", path_one, mode);
	both("mknod", mknodat(root, path_one, mode, dev));
}

static void change_attributes(void)
{
	struct timespec times[2] = { { guest_below(1U << 31), guest_below(1000000000) },
				     { guest_below(1ULL << 32), guest_below(1000000000) } };
	mode_t mode = guest_below(010000);
	uid_t uid = guest_below(3) ? guest_below(70000) : (uid_t)-1, gid = guest_below(70000);
	struct stat st[2];

	a_path(path_one);
	say("attributes of %.220s", path_one);
	both("chown", fchownat(root, path_one, uid, gid, AT_SYMLINK_NOFOLLOW));
	if (fstatat(roots[0], path_one, &st[0], AT_SYMLINK_NOFOLLOW) || S_ISLNK(st[0].st_mode))
		return;
	both("chmod", fchmodat(root, path_one, mode, 0));
	if (both("utimes", utimensat(root, path_one, times, AT_SYMLINK_NOFOLLOW)))
		return;
	both("stat", fstatat(root, path_one, &st[side], AT_SYMLINK_NOFOLLOW));
	compare_stat(path_one, st);
	if (memcmp(&st[0].st_mtim, &st[1].st_mtim, sizeof(st[0].st_mtim)) ||
	    memcmp(&st[0].st_atim, &st[1].st_atim, sizeof(st[0].st_atim)))
		differ("%.200s: other times", path_one);
}

static void truncate_path(void)
{
	off_t size = a_size();

	if (size < 0)
		size = 0;
	a_path(path_one);
	if (fstatat(roots[0], path_one, &(struct stat){}, AT_SYMLINK_NOFOLLOW))
		return;
	for (int side = 0; side < 2; side++) {
		int n = snprintf(got[side], BUFFER, "/proc/self/fd/%d/%s", roots[side], path_one);

		(void)n;
	}
	say("truncate %.200s to %lld", path_one, (long long)size);
	both("truncate", truncate(got[side], size));
}

/* Thousands of names come and go in one directory. */
static void big_dir(void)
{
	bool grow = step / (steps / 4) % 2 == 0;

	say("big: %s", grow ? "grow" : "shrink");
	for (int i = 0; i < 150; i++) {
		char name[64];
		int n = guest_below(BIG);
		bool add = grow ? guest_below(8) : !guest_below(8);

		sprintf(name, "p%d/big/%s%d", process, n % 5 ? "g" : "a much longer name than the others ", n);
		say("big: %s %s", add ? "mknod" : "unlink", name);
		if (add)
			both("mknod", mknodat(root, name, S_IFREG | 0600, 0));
		else
			both("unlink", unlinkat(root, name, 0));
	}
}

static void deep_dir(void)
{
	static char path[4096];
	int n = sprintf(path, "p%d", process), depth = 1 + guest_below(60);
	bool make = guest_below(2);

	for (int i = 0; i < depth; i++) {
		n += sprintf(path + n, "/deep");
		if (make)
			both("mkdir", mkdirat(root, path, 0755));
	}
	say("deep %d", depth);
	while (!make && n > 2 && !both("rmdir", unlinkat(root, path, AT_REMOVEDIR))) {
		n -= 5;
		path[n] = '\0';
	}
}

static void look(void)
{
	struct stat st[2];
	int fd[2];

	a_path(path_one);
	say("stat %.220s", path_one);
	if (!both("stat", fstatat(root, path_one, &st[side], AT_SYMLINK_NOFOLLOW)))
		compare_stat(path_one, st);
	if (guest_below(10))
		return;
	fd[0] = openat(roots[0], dirs.path[0], O_RDONLY);
	fd[1] = openat(roots[1], dirs.path[0], O_RDONLY);
	if (guest_below(2))
		both("fsync of a directory", fsync(fd[side]));
	close(fd[0]);
	close(fd[1]);
}

static void shake(void)
{
	if (step % 311 == 0)
		both("syncfs", syncfs(roots[side]));
	if (process == 0 && step % 401 == 0)
		guest_drop_caches();
}

static void run_process(void)
{
	static void (*const operations[])(void) = {
		use_file, use_file, use_file, use_file, use_file, use_file, use_held, use_held, use_held, write_direct,
		write_only, write_only, use_tmpfile, rename_it, rename_it,
		make_dir, make_dir, remove_dir, remove_file, remove_file, remove_file, make_link, make_link, make_symlink,
		make_node, change_attributes, truncate_path, look, look,
	};
	char name[32];

	sprintf(name, "p%d", process);
	both("mkdir", mkdirat(root, name, 0777));
	dirs.path[dirs.count++] = strdup(name);
	dirs.path[dirs.count++] = "shared";
	sprintf(name, "p%d/big", process);
	both("mkdir", mkdirat(root, name, 0777));
	for (step = 1; step <= steps; step++) {
		if (step % 50 == 0)
			big_dir();
		if (step % 70 == 0)
			deep_dir();
		operations[guest_below(sizeof(operations) / sizeof(operations[0]))]();
		shake();
	}
	for (int i = 0; i < HELD; i++)
		if (held[i].fd[0])
			compare_content("a file that was kept open", held[i].fd, lseek(held[i].fd[0], 0, SEEK_END));
	_exit(0);
}

/* ---- */

static void open_roots(struct guest_disk *disk)
{
	roots[0] = open(guest_source, O_RDONLY | O_DIRECTORY);
	roots[1] = open(disk->mnt, O_RDONLY | O_DIRECTORY);
	if (roots[0] < 0 || roots[1] < 0)
		tap_bail("no root: %s", strerror(errno));
}

static void close_roots(void)
{
	close(roots[0]);
	close(roots[1]);
}

static bool run_all(void)
{
	uint64_t seed = guest_random();
	bool right = true;
	int status;

	for (process = 0; process < PROCESSES; process++) {
		if (fork())
			continue;
		guest_random_state = seed + process;
		run_process();
	}
	for (int i = 0; i < PROCESSES; i++) {
		wait(&status);
		right &= status == 0;
		if (status && !WIFEXITED(status))
			tap_diag("a process died with signal %d", WTERMSIG(status));
	}
	return right;
}

static void test_disk(struct guest_disk *disk)
{
	guest_run("umount %s && mount -t tmpfs -o noatime none %s", guest_source, guest_source);
	write_make(disk, 0);
	write_mount(disk, MS_NOATIME);
	open_roots(disk);
	both("mkdir", mkdirat(root, "shared", 0777));
	tap_ok(run_all(), "four processes see the same results as on tmpfs");
	tap_ok(trees_agree(), "the trees are the same");
	tap_ok(!syncfs(roots[1]), "it can be synced");
	guest_drop_caches();
	tap_ok(trees_agree(), "they are the same from the device");
	close_roots();
	tap_ok(write_clean(disk), "it unmounts, and fsck finds nothing");
	write_mount(disk, MS_RDONLY);
	open_roots(disk);
	tap_ok(trees_agree(), "they are the same in a mount that reads");
	close_roots();
	guest_unmount(disk);
	write_mount(disk, MS_NOATIME);
	open_roots(disk);
	tap_ok(run_all(), "four processes go on in the next mount");
	close_roots();
	tap_ok(write_clean(disk), "it unmounts, and fsck finds nothing");
}

int main(void)
{
	tap_plan(16);
	if (getenv("UHSFS_STEPS"))
		steps = atoi(getenv("UHSFS_STEPS"));
	umask(022);
	guest_seed();
	buffer = aligned_alloc(BLOCK, 2 * BUFFER);
	got[0] = aligned_alloc(BLOCK, BUFFER);
	got[1] = aligned_alloc(BLOCK, BUFFER);
	for (int i = 0; i < BUFFER / 8 * 2; i++)
		((uint64_t *)buffer)[i] = guest_random();
	write_start();
	for (int i = 0; i < 2; i++)
		test_disk(&guest_disks[i]);
	return tap_finish();
}
