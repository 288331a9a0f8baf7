/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names: random operations in a small namespace, on uhsfs and on a tmpfs, with the same outcome; and
 * many processes at once.  UHSFS_SEED=N repeats a run.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>
#include <sys/sysmacros.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

static struct guest_disk *disk;
static char model[PATH_MAX];	/* a tmpfs */
static unsigned long seed;

static unsigned int pick(unsigned int n)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return (seed >> 33) % n;
}

/* ---- one operation, below a folder ---------------------------------------- */

struct operation {
	unsigned int kind, flags, number;
	char from[128], to[128];
};

static const char *const kinds[] = {
	"create", "mkdir", "link", "unlink", "rmdir", "rename", "symlink", "append", "mknod",
};

/* A name in one of the directories that there may be. */
static void pick_name(char *name)
{
	static const char *const dirs[] = { "", "p/", "q/", "p/d/", "q/d/", "a/" };
	static const char *const names[] = { "a", "b", "c", "d", "p", "q", "a-rather-long-name-that-takes-room-in-the-slot-and-in-the-bucket" };

	sprintf(name, "%s%s", dirs[pick(6)], names[pick(7)]);
}

static void pick_operation(struct operation *op)
{
	/* Renames most of all. */
	static const unsigned char weights[] = { 0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 6, 7, 8 };
	static const unsigned int flags[] = { 0, 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_EXCHANGE, RENAME_WHITEOUT };

	op->kind = weights[pick(sizeof(weights))];
	op->flags = flags[pick(8)];
	op->number = pick(1000);
	pick_name(op->from);
	pick_name(op->to);
}

static int carry_out(const struct operation *op)
{
	char text[600];
	int fd, ret;

	switch (op->kind) {
	case 0:
		fd = open(op->from, O_WRONLY | O_CREAT | O_EXCL, 0644);
		if (fd < 0)
			return errno;
		memset(text, 'a' + op->number % 26, sizeof(text));
		ret = write(fd, text, op->number % sizeof(text)) < 0;
		close(fd);
		break;
	case 1:
		ret = mkdir(op->from, 0755);
		break;
	case 2:
		ret = linkat(AT_FDCWD, op->from, AT_FDCWD, op->to, 0);
		break;
	case 3:
		ret = unlink(op->from);
		break;
	case 4:
		ret = rmdir(op->from);
		break;
	case 5:
		ret = renameat2(AT_FDCWD, op->from, AT_FDCWD, op->to, op->flags);
		break;
	case 6:
		sprintf(text, "%u", op->number);
		ret = symlink(text, op->from);
		break;
	case 7:
		fd = open(op->from, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			return errno;
		ret = write(fd, "appended", 8) < 0;
		close(fd);
		break;
	default:
		ret = mknod(op->from, S_IFIFO | 0600, 0);
	}
	return ret ? errno : 0;
}

/* ---- what there is -------------------------------------------------------- */

/* Every name with what it is: kind, links, size, content. */
static void list_into(int out, const char *from)
{
	struct dirent **entries = NULL;
	int n = scandir(from, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		char path[PATH_MAX], text[1024] = "";
		struct stat st;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", from, name);
		if (!strcmp(name, ".") || !strcmp(name, "..") || lstat(path, &st)) {
			if (strcmp(name, ".") && strcmp(name, ".."))
				dprintf(out, "%s: %s\n", path, strerror(errno));
			continue;
		}
		if (S_ISLNK(st.st_mode) && readlink(path, text, sizeof(text) - 1) < 0)
			strcpy(text, "unreadable");
		if (S_ISREG(st.st_mode)) {
			fd = open(path, O_RDONLY);
			if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
				strcpy(text, "unreadable");
			close(fd);
		}
		dprintf(out, "%s %o links %lu size %lld dev %x %s\n", path, st.st_mode, (unsigned long)st.st_nlink,
			S_ISDIR(st.st_mode) ? 0LL : (long long)st.st_size, (unsigned int)st.st_rdev, text);
		if (S_ISDIR(st.st_mode))
			list_into(out, path);
	}
	while (n > 0)
		free(entries[--n]);
	free(entries);
}

static void list(const char *folder, const char *file)
{
	char path[PATH_MAX];
	int out, cwd = open(".", O_RDONLY | O_DIRECTORY);

	snprintf(path, sizeof(path), "%s/%s", getenv("TMPDIR") ?: "/tmp", file);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (out < 0 || chdir(folder))
		tap_bail("%s: %s", path, strerror(errno));
	list_into(out, ".");
	close(out);
	if (fchdir(cwd))
		tap_bail("no way back");
	close(cwd);
}

static bool same_lists(void)
{
	return !guest_try("cd ${TMPDIR:-/tmp} && { cmp -s list-1 list-2 || { diff list-1 list-2 | head -n 20 | sed 's/^/# /'; false; }; }");
}

static bool same_trees(void)
{
	list(disk->mnt, "list-1");
	list(model, "list-2");
	return same_lists();
}

/* ---- one process: as a tmpfs ---------------------------------------------- */

static void remount(void)
{
	if (umount(disk->mnt))
		tap_bail("umount: %s", strerror(errno));
	write_mount(disk, 0);
}

/* Something of it becomes durable now and then. */
static void sync_something(void)
{
	char name[128];
	int fd;

	switch (pick(4)) {
	case 0:
		guest_run("sync -f %s", disk->mnt);
		break;
	case 1:
		if (chdir("/"))
			tap_bail("no /");
		guest_drop_caches();
		break;
	default:
		if (chdir(disk->mnt))
			tap_bail("%s: %s", disk->mnt, strerror(errno));
		pick_name(name);
		fd = open(pick(2) ? name : ".", O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
		if (fd >= 0)
			fsync(fd);
		close(fd);
		if (chdir("/"))
			tap_bail("no /");
	}
}

static bool agree(const struct operation *op, int i)
{
	int got, wanted;

	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	got = carry_out(op);
	if (chdir(model))
		tap_bail("%s: %s", model, strerror(errno));
	wanted = carry_out(op);
	if (chdir("/"))
		tap_bail("no /");
	if (got == wanted)
		return true;
	tap_diag("operation %d, %s %s %s flags %u: %s, a tmpfs says %s", i, kinds[op->kind], op->from, op->to, op->flags,
		 strerror(got), strerror(wanted));
	return false;
}

static void test_random(void)
{
	bool right = true, same = true;
	int i;

	write_make(disk, 0);
	write_mount(disk, 0);
	for (i = 0; right && same && i < 4000; i++) {
		struct operation op;

		pick_operation(&op);
		right = agree(&op, i);
		if (pick(25) == 0)
			sync_something();
		if (i % 250 == 249)
			same = same_trees();
		if (i % 1000 == 999)
			remount();
	}
	tap_ok(right, "4000 operations have the outcome that they have on a tmpfs");
	tap_ok(same && same_trees(), "and the same trees come of them");
	remount();
	tap_ok(same_trees(), "which are there after the next mount");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

/* ---- many processes ------------------------------------------------------- */

static void storm(unsigned int number)
{
	seed += 1000003 * (number + 1);
	if (chdir(disk->mnt))
		_exit(1);
	alarm(120);
	for (int i = 0; i < 1200; i++) {
		struct operation op;
		int err;

		pick_operation(&op);
		err = carry_out(&op);
		/* Anything may meet anything, but nothing is damaged, and no memory or space is short. */
		if (err == EIO || err == EUCLEAN || err == ENOSPC || err == ENOMEM || err == EROFS) {
			tap_diag("%s %s %s flags %u: %s", kinds[op.kind], op.from, op.to, op.flags, strerror(err));
			_exit(2);
		}
		if (pick(40) == 0) {
			int fd = open(pick(2) ? "." : op.to, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);

			if (fd >= 0 && fsync(fd) && errno != EINVAL)
				_exit(3);
			close(fd);
		}
	}
	_exit(0);
}

static void test_storm(void)
{
	int status, wrong = 0;

	write_make(disk, 0);
	write_mount(disk, 0);
	for (unsigned int p = 0; p < 8; p++)
		if (!fork())
			storm(p);
	while (wait(&status) > 0)
		wrong += status != 0;
	tap_eq(wrong, 0, "eight processes at once get no error that there should not be");
	list(disk->mnt, "list-1");
	remount();
	list(disk->mnt, "list-2");
	tap_ok(same_lists(), "after the next mount there is what there was");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

/* ---- what names cost ------------------------------------------------------ */

static long commits(void)
{
	static const char *const rules[] = { "r4", "r6", "r8" };
	long sum = 0;

	for (int i = 0; i < 3; i++) {
		char path[128], text[32] = "";
		int fd;

		snprintf(path, sizeof(path), "/sys/fs/uhsfs/%s/commits_%s", disk->name, rules[i]);
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
			tap_bail("%s: %s", path, strerror(errno));
		close(fd);
		sum += strtol(text, NULL, 10);
	}
	return sum;
}

/* Files are made, written and renamed as editors and mail do; some over others. */
static void test_costs(void)
{
	int wrong = 0;
	long before;

	write_make(disk, 0);
	write_mount(disk, 0);
	if (chdir(disk->mnt))
		tap_bail("%s: %s", disk->mnt, strerror(errno));
	before = commits();
	for (int i = 0; i < 4000; i++) {
		char name[32];
		int fd = open("tmp", O_WRONLY | O_CREAT | O_EXCL, 0644);

		sprintf(name, "name%d", i % 3 ? i : i / 2);
		wrong += fd < 0 || write(fd, name, sizeof(name)) != sizeof(name) || close(fd) || rename("tmp", name);
	}
	tap_eq(wrong, 0, "4000 files are made and get their names by rename");
	tap_diag("%ld commits inside of these operations", commits() - before);
	tap_ok(commits() - before < 40, "and almost none commits anything");
	before = commits();
	wrong = mkdir("from", 0755) || mkdir("to", 0755) || mkdir("from/dir", 0755) || rename("from/dir", "to/dir");
	wrong += commits() != before + 1;
	wrong += renameat2(AT_FDCWD, "to", AT_FDCWD, "name4", RENAME_EXCHANGE) != 0;
	wrong += commits() != before + 2;
	tap_eq(wrong, 0, "a directory that moves, and an exchange, commit at once, and are counted");
	if (chdir("/"))
		tap_bail("no /");
	tap_ok(write_clean(disk), "fsck finds nothing");
}

int main(void)
{
	const char *given = getenv("UHSFS_SEED");

	tap_plan(22);
	umask(0);
	seed = given ? strtoul(given, NULL, 0) : (unsigned long)time(NULL) * 1000003;
	tap_diag("seed %lu", seed);
	write_start();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		snprintf(model, sizeof(model), "%s/model%d", guest_source, i);
		guest_run("mkdir %s", model);
		test_random();
		test_storm();
		test_costs();
	}
	return tap_finish();
}
