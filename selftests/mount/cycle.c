/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * Mounting and unmounting, hundreds of times, and mounts that must fail: each error is the right one,
 * and nothing stays behind, be it memory, an inode or a folder in sysfs.
 */
#define _GNU_SOURCE
#include "lib/guest.h"

#include <dirent.h>

#define CYCLES 200

static char loop_file[PATH_MAX], loop[64], empty[PATH_MAX];

static bool in_sysfs(const struct guest_disk *disk)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/fs/uhsfs/%s/epoch", disk->name);
	return !access(path, R_OK);
}

/* Something of everything, so that a mount fills caches. */
static void make_tree(void)
{
	guest_run("cd %s && mkdir -p a/b && echo text >a/inline && head -c 3000000 /dev/urandom >a/b/data && "
		  "ln -s a/inline link && mkfifo fifo", guest_source);
	for (int i = 1; i <= 300; i++) {
		char path[PATH_MAX + 64], other[PATH_MAX + 64];

		snprintf(path, sizeof(path), "%s/a/%d", guest_source, i);
		snprintf(other, sizeof(other), "%s/a/b/%d", guest_source, i);
		if (mknod(path, S_IFREG | 0644, 0) || link(path, other))
			tap_bail("%s: %s", path, strerror(errno));
	}
}

static bool use(const struct guest_disk *disk)
{
	char path[PATH_MAX + 64], buffer[4096];
	int fd, bad = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/link", disk->mnt);
	fd = open(path, O_RDONLY);
	bad += read(fd, buffer, sizeof(buffer)) != 5 || memcmp(buffer, "text\n", 5);
	close(fd);
	snprintf(path, sizeof(path), "%s/a/b/data", disk->mnt);
	fd = open(path, O_RDONLY);
	bad += pread(fd, buffer, sizeof(buffer), guest_below(3000000 - sizeof(buffer))) != sizeof(buffer);
	close(fd);
	snprintf(path, sizeof(path), "%s/a/b", disk->mnt);
	dir = opendir(path);
	for (int i = 0; dir && i < 100; i++)
		bad += !readdir(dir);
	if (dir)
		closedir(dir);
	snprintf(path, sizeof(path), "%s/a/b/%d", disk->mnt, 1 + (int)guest_below(300));
	bad += access(path, F_OK) != 0;
	return dir && !bad;
}

/* Wrong ones are counted and said. */
static int cycle(int count)
{
	static const char *const options[] = {
		"", "errors=continue", "errors=remount-ro", "norecovery", "errors=panic,norecovery",
	};
	int wrong = 0;

	for (int i = 0; i < count && wrong < 5; i++) {
		struct guest_disk *disk = &guest_disks[i % 2];

		if (mount(disk->path, disk->mnt, "uhsfs", MS_RDONLY, options[i % 5])) {
			tap_diag("mount %d: %s", i, strerror(errno));
			wrong++;
			continue;
		}
		wrong += !in_sysfs(disk) || (i % 7 && !use(disk));
		if (umount(disk->mnt)) {
			tap_diag("umount %d: %s", i, strerror(errno));
			umount2(disk->mnt, MNT_DETACH);
			wrong++;
		}
		wrong += in_sysfs(disk);
	}
	return wrong;
}

/* ---- mounts that fail ------------------------------------------------------------------ */

/* errno of a mount, which is undone if there was none. */
static int mount_error(const char *device, unsigned long flags, const char *options)
{
	const char *mnt = guest_disks[0].mnt;

	if (mount(device, mnt, "uhsfs", flags, options))
		return errno;
	umount(mnt);
	return 0;
}

static int failures(int count)
{
	const char *good = guest_disks[0].path;
	const struct {
		const char *device;
		unsigned long flags;
		const char *options;
		int expected;
	} tries[] = {
		{ empty, MS_RDONLY, "", ENOTBLK },
		{ "/dev/nvme2n1", MS_RDONLY, "", EINVAL },		/* zeros */
		{ loop, MS_RDONLY, "", EINVAL },			/* too small */
		{ good, 0, "", EROFS },
		{ good, MS_RDONLY, "errors=perhaps", EINVAL },
		{ good, MS_RDONLY, "errors", EINVAL },
		{ good, MS_RDONLY, "norecovery=1", EINVAL },
		{ good, MS_RDONLY, "errors=continue,nonsense", EINVAL },
		{ "/dev/null", MS_RDONLY, "", ENOTBLK },
		{ "/nowhere", MS_RDONLY, "", ENOENT },
	};
	int wrong = 0;

	for (int i = 0; i < count && wrong < 5; i++) {
		int at = i % (int)(sizeof(tries) / sizeof(tries[0]));
		int err = mount_error(tries[at].device, tries[at].flags, tries[at].options);

		if (err == tries[at].expected)
			continue;
		wrong++;
		tap_diag("%s with '%s': %s, not %s", tries[at].device, tries[at].options, strerror(err),
			 strerror(tries[at].expected));
	}
	return wrong;
}

/* An image on a loop device that is smaller than the filesystem. */
static void make_small(void)
{
	const char *tmp = getenv("TMPDIR") ?: "/tmp";
	FILE *pipe;

	snprintf(empty, sizeof(empty), "%s/file", tmp);
	snprintf(loop_file, sizeof(loop_file), "%s/small", tmp);
	guest_run(": >%s; modprobe -q loop; mkfs.uhsfs -q %s 4096 && truncate -s 12M %s", empty, loop_file, loop_file);
	guest_run("head -c 1M /dev/zero >/dev/nvme2n1");
	snprintf(loop, sizeof(loop), "losetup -f --show %.40s", loop_file);
	pipe = popen(loop, "r");
	if (!pipe || !fgets(loop, sizeof(loop), pipe) || pclose(pipe))
		tap_bail("no loop device");
	loop[strcspn(loop, "\n")] = '\0';
}

static void undo_small(void *unused)
{
	(void)unused;
	if (loop[0] == '/' && guest_try("losetup -d %s", loop))
		tap_diag("%s stays", loop);
}

/* ---- what stays behind ------------------------------------------------------------------- */

static long slab_number(const char *cache, const char *what)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/%s", cache, what);
	return access(path, R_OK) ? -1 : atol(guest_line(path));
}

/* Objects in use in a slab cache, or -1.  The slab that a CPU has at hand may count as full. */
static long slab_objects(const char *cache)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		tap_diag("%s: %s", path, strerror(errno));
	close(fd);
	return slab_number(cache, "objects");
}

struct memory {
	struct {
		char name[64];
		long objects;
	} cache[400];
	int caches;
	long pages;		/* neither free nor a slab's nor cached */
};

static long vmstat(const char *key)
{
	FILE *file = fopen("/proc/vmstat", "r");
	char line[256];
	long value = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			value = atol(line + strlen(key));
	if (file)
		fclose(file);
	return value;
}

/* Free pages that a CPU keeps for its next need. */
static long pages_kept_by_cpus(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	char line[256];
	long pages = 0, count;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &count) == 1)
			pages += count;
	if (file)
		fclose(file);
	return pages;
}

static long unaccounted_pages(void)
{
	static const char *const known[] = {
		"nr_free_pages", "nr_zone_inactive_anon", "nr_zone_active_anon", "nr_zone_inactive_file",
		"nr_zone_active_file", "nr_zone_unevictable", "nr_page_table_pages",
	};
	long pages = sysconf(_SC_PHYS_PAGES);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		pages -= vmstat(known[i]);
	pages -= pages_kept_by_cpus();
	return pages - (vmstat("nr_slab_reclaimable") + vmstat("nr_slab_unreclaimable"));
}

/* All kmalloc caches, and those of filesystems. */
static void measure(struct memory *m)
{
	DIR *dir = opendir("/sys/kernel/slab");
	struct dirent *d;

	guest_drop_caches();
	guest_drop_caches();
	/* Counters of CPUs are added up. */
	guest_run("cat /proc/sys/vm/stat_refresh");
	m->caches = 0;
	while (dir && (d = readdir(dir)) && m->caches < 400) {
		if (strncmp(d->d_name, "kmalloc", 7) && strncmp(d->d_name, "uhsfs", 5) && strncmp(d->d_name, "dentry", 6))
			continue;
		snprintf(m->cache[m->caches].name, sizeof(m->cache[0].name), "%.60s", d->d_name);
		m->cache[m->caches++].objects = slab_objects(d->d_name);
	}
	if (dir)
		closedir(dir);
	m->pages = unaccounted_pages();
}

/*
 * Did anything grow by one with every second cycle?  Caches of small objects, of which a CPU may have
 * more at hand than that, tell little; those are kmemleak's, on the debug kernel.
 */
static bool grew(const struct memory *before, const struct memory *after, int cycles)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	bool found = false;

	for (int i = 0; i < after->caches; i++) {
		long grown = after->cache[i].objects;

		for (int k = 0; k < before->caches; k++)
			if (!strcmp(before->cache[k].name, after->cache[i].name))
				grown -= before->cache[k].objects;
		if (grown < cycles / 2 + cpus * slab_number(after->cache[i].name, "objs_per_slab"))
			continue;
		found = true;
		tap_diag("%s has %ld objects more", after->cache[i].name, grown);
	}
	tap_diag("%ld pages more", after->pages - before->pages);
	return found || after->pages - before->pages >= cycles / 2;
}

static bool have_slab_counts(void)
{
	return slab_objects("uhsfs_inode") >= 0 && slab_objects("kmalloc-1k") > 0;
}

int main(void)
{
	static struct memory before, after;

	tap_plan(11);
	guest_seed();
	guest_start();
	tap_defer(undo_small, NULL);
	make_tree();
	make_small();
	for (int i = 0; i < 2; i++)
		guest_make(&guest_disks[i]);

	tap_ok(have_slab_counts(), "objects can be counted");
	tap_eq(cycle(20), 0, "mount, use and unmount");
	tap_eq(failures(20), 0, "mounts that must fail, do, with the right error");
	measure(&before);
	tap_eq(cycle(CYCLES), 0, "200 times");
	measure(&after);
	tap_ok(!grew(&before, &after, CYCLES), "and no memory is gone");
	tap_eq(slab_objects("uhsfs_inode"), 0, "no inode is left");
	measure(&before);
	tap_eq(failures(CYCLES), 0, "200 mounts that must fail, do");
	measure(&after);
	tap_ok(!grew(&before, &after, CYCLES), "and no memory is gone by that");
	tap_eq(slab_objects("uhsfs_inode"), 0, "and no inode left");
	guest_unmount(&guest_disks[0]);
	tap_ok(!guest_try("rmmod uhsfs"), "the module can be unloaded");
	tap_ok(access("/sys/kernel/slab/uhsfs_inode", F_OK), "and its cache is gone");
	guest_run("insmod \"$UHSFS_MODULE\"");
	return tap_finish();
}
