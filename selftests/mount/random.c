/* SPDX-License-Identifier: GPL-2.0 */
/* settings: timeout=300 */
/*
 * Files read in every way there is, at places by chance, against the source: pread, readv, mmap,
 * direct, splice, sendfile, copy_file_range, io_uring, POSIX AIO of the kernel; and where data and
 * holes are: SEEK_DATA, SEEK_HOLE, FIEMAP, whose addresses are read from the device.
 */
#define _GNU_SOURCE
#include "lib/guest.h"
#include "lib/async.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define BLOCK 4096
#define ROOM (1 << 20)
#define ROUNDS 500

struct shape {
	const char *name;
	uint64_t size;
	uint64_t period;	/* of blocks, */
	uint64_t data;		/* so many of which have data, */
	uint64_t first;		/* from this block on */
	uint64_t end;		/* to this, not included; 0: the end */
};

static const struct shape shapes[] = {
	{ "inline", 300, 1, 1, 0, 0 },
	{ "inline or not", 2000, 1, 1, 0, 0 },
	{ "a block and a byte", BLOCK + 1, 1, 1, 0, 0 },
	{ "some blocks", 77777, 1, 1, 0, 0 },
	{ "more than a unit", (5 << 20) + 1234, 1, 1, 0, 0 },
	{ "every second block", 100 * 2 * BLOCK, 2, 1, 0, 0 },
	{ "a deep tree", 12000ULL * 2 * BLOCK - 5, 2, 1, 0, 0 },
	{ "by sevens", 2000 * BLOCK, 7, 3, 2, 0 },
	{ "hole first", 300 * BLOCK, 1, 1, 250, 0 },
	{ "hole last", 300 * BLOCK + 7, 1, 1, 0, 20 },
	{ "nothing but hole", 300 * BLOCK + 7, 1, 0, 0, 0 },
	{ "huge", (1ULL << 62) + 5, 1, 1, (1ULL << 50) - 3, 0 },
	{ "largest", INT64_MAX, 1, 1, (INT64_MAX / BLOCK) - 3, 0 },
};

#define FILES (int)(sizeof(shapes) / sizeof(shapes[0]))

static struct open_file {
	int source, fd, direct;
	uint64_t size;
} files[FILES];

static char *expected, *got;	/* ROOM bytes each, and aligned */
static struct guest_disk *disk;
static int device;

static void make_files(void)
{
	static uint64_t block[BLOCK / 8];

	for (int i = 0; i < FILES; i++) {
		const struct shape *s = &shapes[i];
		uint64_t end = s->end ?: (s->size + BLOCK - 1) / BLOCK;
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", guest_source, s->name);
		files[i].size = s->size;
		files[i].source = open(path, O_RDWR | O_CREAT, 0644);
		if (files[i].source < 0 || ftruncate(files[i].source, s->size))
			tap_bail("%s: %s", path, strerror(errno));
		for (uint64_t b = s->first; b < end; b++) {
			size_t len = s->size - b * BLOCK < BLOCK ? s->size - b * BLOCK : BLOCK;

			if (b % s->period >= s->data)
				continue;
			for (int k = 0; k < BLOCK / 8; k++)
				block[k] = guest_random();
			if (pwrite(files[i].source, block, len, b * BLOCK) != (ssize_t)len)
				tap_bail("%s: %s", path, strerror(errno));
		}
	}
}

static void open_files(void)
{
	for (int i = 0; i < FILES; i++) {
		char path[PATH_MAX + 64];

		snprintf(path, sizeof(path), "%s/%s", disk->mnt, shapes[i].name);
		files[i].fd = open(path, O_RDONLY);
		files[i].direct = open(path, O_RDONLY | O_DIRECT);
		if (files[i].fd < 0 || files[i].direct < 0)
			tap_bail("%s: %s", path, strerror(errno));
	}
	device = open(disk->path, O_RDONLY | O_DIRECT);
	if (device < 0)
		tap_bail("%s: %s", disk->path, strerror(errno));
}

static void close_files(void)
{
	for (int i = 0; i < FILES; i++) {
		close(files[i].fd);
		close(files[i].direct);
	}
	close(device);
}

/* ---- comparing ------------------------------------------------------------------------ */

struct place {
	struct open_file *file;
	uint64_t at;
	size_t len;		/* at most ROOM / 2 */
	ssize_t there;		/* so many of them before the end */
};

/* A place by chance: near an end, near a border of blocks, anywhere. */
static struct place a_place(unsigned int align)
{
	struct place p = { .file = &files[guest_below(FILES)] };
	uint64_t size = p.file->size, span = size < ROOM ? size : ROOM;

	switch (guest_below(4)) {
	case 0:
		p.at = size - guest_below(span + 1);
		break;
	case 1:
		p.at = guest_below(span + 100);
		break;
	case 2:
		p.at = guest_below(size / BLOCK + 1) * BLOCK + guest_below(3) - 1;
		break;
	default:
		p.at = guest_below(size + 1);
	}
	p.len = 1 + guest_below(guest_below(3) ? 10000 : ROOM / 2 - align);
	if (align > 1) {
		p.at = p.at / align * align;
		p.len = (p.len + align - 1) / align * align;
	}
	if (p.at > INT64_MAX - ROOM)
		p.at = (INT64_MAX - ROOM) / align * align;
	p.there = pread(p.file->source, expected, p.len, p.at);
	if (p.there < 0)
		tap_bail("the source cannot be read: %s", strerror(errno));
	return p;
}

/* Is what came in `got` what had to come? */
static bool is_right(const struct place *p, ssize_t n)
{
	int err = errno;

	if (n == p->there && !memcmp(expected, got, n))
		return true;
	tap_diag("%s, %zu bytes at %llu: %zd bytes, not %zd%s%s", shapes[p->file - files].name, p->len,
		 (unsigned long long)p->at, n, p->there, n < 0 ? ": " : "", n < 0 ? strerror(err) : "");
	for (ssize_t i = 0; i < n && i < p->there; i++) {
		if (got[i] != expected[i]) {
			tap_diag("byte %zd is %02x, not %02x", i, (unsigned char)got[i], (unsigned char)expected[i]);
			break;
		}
	}
	return false;
}

/* One way to read; returns bytes, or -1. */
static bool try_all(ssize_t (*way)(const struct place *p), unsigned int align)
{
	int wrong = 0;

	for (int i = 0; i < ROUNDS && wrong < 5; i++) {
		struct place p = a_place(align);

		if (i % 100 == 0)
			guest_drop_caches();
		memset(got, 0xee, p.len);
		wrong += !is_right(&p, way(&p));
	}
	return !wrong;
}

/* ---- ways ------------------------------------------------------------------------------ */

static ssize_t by_pread(const struct place *p)
{
	return pread(p->file->fd, got, p->len, p->at);
}

static ssize_t by_readv(const struct place *p)
{
	size_t one = guest_below(p->len), two = guest_below(p->len - one);
	struct iovec iov[3] = {
		{ got, one }, { got + one, two }, { got + one + two, p->len - one - two },
	};

	return preadv(p->file->fd, iov, 3, p->at);
}

/* Without waiting if it is in memory; a short or refused read goes on with waiting. */
static ssize_t by_nowait(const struct place *p)
{
	struct iovec iov = { got, p->len };
	ssize_t n = preadv2(p->file->fd, &iov, 1, p->at, RWF_NOWAIT), more;

	if (n < 0 && errno != EAGAIN)
		return n;
	n = n < 0 ? 0 : n;
	more = pread(p->file->fd, got + n, p->len - n, p->at + n);
	return more < 0 ? more : n + more;
}

static ssize_t by_mmap(const struct place *p)
{
	uint64_t start = p->at / BLOCK * BLOCK;
	size_t len = p->at - start + p->len;
	char *map;

	if (!p->there)
		return 0;
	map = mmap(NULL, len, PROT_READ, guest_below(2) ? MAP_SHARED : MAP_PRIVATE, p->file->fd, start);
	if (map == MAP_FAILED)
		return -1;
	if (guest_below(2))
		madvise(map, len, MADV_RANDOM);
	memcpy(got, map + (p->at - start), p->there);
	/* Behind the end of the file there are zeros up to the end of the page. */
	for (uint64_t end = p->at - start + p->there; p->there < (ssize_t)p->len && end < len && end % BLOCK; end++)
		if (map[end])
			tap_diag("byte %llu behind the end is %02x", (unsigned long long)end, got[p->there] = map[end]);
	munmap(map, len);
	return p->there;
}

static ssize_t by_direct(const struct place *p)
{
	return pread(p->file->direct, got, p->len, p->at);
}

static ssize_t by_splice(const struct place *p)
{
	loff_t at = p->at;
	ssize_t total = 0, n, m;
	int pipe_fd[2];

	if (pipe(pipe_fd))
		return -1;
	while ((n = splice(p->file->fd, &at, pipe_fd[1], NULL, p->len - total, 0)) > 0)
		for (; n > 0; n -= m, total += m) {
			m = read(pipe_fd[0], got + total, n);
			if (m <= 0)
				break;
		}
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	return n < 0 ? n : total;
}

/* Into a file in memory, from which it is read. */
static ssize_t by_copy(const struct place *p, bool sendfiles)
{
	int memory = memfd_create("copy", 0);
	loff_t at = p->at;
	ssize_t n = 0, total = 0;

	while (total < (ssize_t)p->len) {
		n = sendfiles ? sendfile(memory, p->file->fd, &at, p->len - total) :
				copy_file_range(p->file->fd, &at, memory, NULL, p->len - total, 0);
		if (n <= 0)
			break;
		total += n;
	}
	/* Between filesystems of different types the kernel may leave copying to the caller. */
	if (n < 0 && errno == EXDEV && !sendfiles && !total) {
		close(memory);
		return by_pread(p);
	}
	if (n >= 0)
		n = pread(memory, got, p->len, 0);
	close(memory);
	return n;
}

static ssize_t by_sendfile(const struct place *p)
{
	return by_copy(p, true);
}

static ssize_t by_copy_file_range(const struct place *p)
{
	return by_copy(p, false);
}

static ssize_t by_aio(const struct place *p)
{
	return async_aio_read(p->file->direct, got, p->len, p->at);
}

static ssize_t by_uring(const struct place *p)
{
	return async_uring_read(p->file->fd, got, p->len, p->at);
}

static ssize_t by_uring_direct(const struct place *p)
{
	return async_uring_read(p->file->direct, got, p->len, p->at);
}

/* All of the smaller files from begin to end, in steps by chance, with readahead. */
static bool read_in_sequence(void)
{
	guest_drop_caches();
	for (int i = 0; i < FILES; i++) {
		uint64_t at = 0;

		while (files[i].size <= 32 << 20 && at < files[i].size) {
			size_t len = 1 + guest_below(300000);
			struct place p = { &files[i], at, len, pread(files[i].source, expected, len, at) };

			lseek(files[i].fd, at, SEEK_SET);
			if (!is_right(&p, read(files[i].fd, got, len)))
				return false;
			at += p.there;
		}
	}
	return true;
}

/* ---- what must be refused ------------------------------------------------------------------ */

/* Places, lengths and memory that are not multiples of the device's block. */
static bool direct_refused(void)
{
	int wrong = 0, align = disk->block;
	int fd = files[4].direct;

	for (int i = 0; i < 300; i++) {
		int off = 1 + guest_below(align - 1);

		wrong += pread(fd, got, align, off) != -1 || errno != EINVAL;
		wrong += pread(fd, got, off, align) != -1 || errno != EINVAL;
		wrong += pread(fd, got + 1, align, align) != -1 || errno != EINVAL;
	}
	return !wrong;
}

static sigjmp_buf after_fault;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* A page that is mapped but behind the end of the file. */
static bool fault_behind_end(void)
{
	struct sigaction action = { .sa_handler = on_fault }, old;
	volatile char *map = mmap(NULL, 4 * BLOCK, PROT_READ, MAP_SHARED, files[2].fd, 0);
	bool faulted = true;

	sigaction(SIGBUS, &action, &old);
	if (!sigsetjmp(after_fault, 1)) {
		(void)map[2 * BLOCK];
		faulted = false;
	}
	sigaction(SIGBUS, &old, NULL);
	munmap((void *)map, 4 * BLOCK);
	return faulted;
}

static int open_for_writing(void)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", disk->mnt, shapes[0].name);
	return open(path, O_RDWR) < 0 ? errno : 0;
}

/* ---- where data is --------------------------------------------------------------------------- */

/* What fits into a slot has no holes; and tmpfs is wrong about the last block there can be. */
static bool has_map(int i)
{
	return files[i].size > BLOCK && files[i].size < INT64_MAX;
}

static bool seeks_agree(void)
{
	int wrong = 0;

	for (int i = 0; i < 2000 && wrong < 5; i++) {
		int k = guest_below(FILES), whence = guest_below(2) ? SEEK_DATA : SEEK_HOLE;
		uint64_t at = i % 10 ? guest_below(files[k].size + 100) : files[k].size - 1 + guest_below(3);
		off_t a, b;
		int a_errno, b_errno;

		if (!has_map(k))
			continue;
		if (at > INT64_MAX)
			at = INT64_MAX;
		errno = 0;
		a = lseek(files[k].source, at, whence);
		a_errno = errno;
		errno = 0;
		b = lseek(files[k].fd, at, whence);
		b_errno = errno;
		if (a == b && a_errno == b_errno)
			continue;
		wrong++;
		tap_diag("%s: %s from %llu: %lld (%s), not %lld (%s)", shapes[k].name,
			 whence == SEEK_DATA ? "SEEK_DATA" : "SEEK_HOLE", (unsigned long long)at, (long long)b,
			 strerror(b_errno), (long long)a, strerror(a_errno));
	}
	return !wrong;
}

/* One extent: does the device have the file's data there? */
static bool device_has(int i, const struct fiemap_extent *e)
{
	uint64_t skip = guest_below(e->fe_length / BLOCK) * BLOCK;
	ssize_t there = pread(files[i].source, expected, BLOCK, e->fe_logical + skip);

	return pread(device, got, BLOCK, e->fe_physical + skip) == BLOCK && !memcmp(expected, got, there);
}

struct fiemap_walk {
	int file, extents;
	uint64_t at;		/* all before this has been seen */
	bool last;
};

/* A hole before the extent, data in it, in the source too; blocks that can be read. */
static bool extent_is_right(struct fiemap_walk *walk, const struct fiemap_extent *e)
{
	int source = files[walk->file].source;
	uint64_t size = files[walk->file].size, end = e->fe_logical + e->fe_length;

	walk->last = e->fe_flags & FIEMAP_EXTENT_LAST;
	if (e->fe_flags & FIEMAP_EXTENT_DATA_INLINE) {
		walk->at = size;
		return size <= BLOCK && e->fe_logical == 0;
	}
	if (e->fe_flags & ~FIEMAP_EXTENT_LAST || e->fe_logical < walk->at || e->fe_logical % BLOCK || e->fe_physical % BLOCK ||
	    !e->fe_length || e->fe_length % BLOCK)
		return false;
	/* An extent of the source may be several here, so that there is a hole only if there is a gap. */
	if (has_map(walk->file)) {
		if (e->fe_logical > walk->at && lseek(source, walk->at, SEEK_DATA) != (off_t)e->fe_logical)
			return false;
		if (lseek(source, e->fe_logical, SEEK_HOLE) < (off_t)(end < size ? end : size))
			return false;
	}
	walk->at = end;
	return guest_below(20) || device_has(walk->file, e);
}

static bool fiemap_is_right(int i)
{
	enum { AT_ONCE = 200 };
	static char space[sizeof(struct fiemap) + AT_ONCE * sizeof(struct fiemap_extent)];
	struct fiemap *map = (struct fiemap *)space;
	struct fiemap_walk walk = { .file = i };
	uint64_t from = 0;

	do {
		memset(space, 0, sizeof(space));
		map->fm_start = from;
		map->fm_length = FIEMAP_MAX_OFFSET - from;
		map->fm_extent_count = 1 + guest_below(AT_ONCE);
		if (ioctl(files[i].fd, FS_IOC_FIEMAP, map)) {
			tap_diag("%s: FIEMAP: %s", shapes[i].name, strerror(errno));
			return false;
		}
		for (unsigned int k = 0; k < map->fm_mapped_extents; k++, walk.extents++) {
			const struct fiemap_extent *e = &map->fm_extents[k];

			if (!extent_is_right(&walk, e)) {
				tap_diag("%s: extent %d: logical %llu, physical %llu, length %llu, flags %x", shapes[i].name,
					 walk.extents, e->fe_logical, e->fe_physical, e->fe_length, e->fe_flags);
				return false;
			}
			from = e->fe_logical + e->fe_length;
		}
	} while (map->fm_mapped_extents && !walk.last);
	/* Nothing but hole behind the last one. */
	if (walk.last == !walk.extents || (walk.at < files[i].size && lseek(files[i].source, walk.at, SEEK_DATA) != -1)) {
		tap_diag("%s: the last of %d extents ends at %llu", shapes[i].name, walk.extents, (unsigned long long)walk.at);
		return false;
	}
	return true;
}

static bool fiemaps_agree(void)
{
	bool right = true;

	for (int i = 0; i < FILES; i++)
		right &= fiemap_is_right(i);
	return right;
}

static void test_disk(void)
{
	guest_make(disk);
	guest_mount(disk, "");
	open_files();
	tap_ok(try_all(by_pread, 1), "pread");
	tap_ok(try_all(by_readv, 1), "preadv into three buffers");
	tap_ok(try_all(by_nowait, 1), "preadv2 with RWF_NOWAIT");
	tap_ok(try_all(by_mmap, 1), "mmap, with zeros behind the end");
	tap_ok(try_all(by_direct, disk->block), "direct");
	tap_ok(try_all(by_splice, 1), "splice into a pipe");
	tap_ok(try_all(by_sendfile, 1), "sendfile");
	tap_ok(try_all(by_copy_file_range, 1), "copy_file_range");
	tap_ok(try_all(by_aio, disk->block), "asynchronous and direct");
	tap_ok(try_all(by_uring, 1), "io_uring");
	tap_ok(try_all(by_uring_direct, disk->block), "io_uring and direct");
	tap_ok(read_in_sequence(), "read from begin to end");
	tap_ok(direct_refused(), "direct: what is not aligned to the device's blocks is refused");
	tap_ok(fault_behind_end(), "mmap: a page behind the end faults");
	tap_eq(open_for_writing(), EROFS, "opening for writing is refused");
	tap_ok(seeks_agree(), "SEEK_DATA and SEEK_HOLE");
	tap_ok(fiemaps_agree(), "FIEMAP, and the device has the data there");
	tap_eq(guest_corruptions(disk), 0, "no damage was reported");
	close_files();
	guest_unmount(disk);
}

int main(void)
{
	tap_plan(36);
	guest_seed();
	guest_start();
	if (posix_memalign((void **)&expected, BLOCK, ROOM) || posix_memalign((void **)&got, BLOCK, ROOM))
		tap_bail("no memory");
	async_start();
	make_files();
	for (int i = 0; i < 2; i++) {
		disk = &guest_disks[i];
		tap_diag("blocks of %u bytes", disk->block);
		test_disk();
	}
	return tap_finish();
}
