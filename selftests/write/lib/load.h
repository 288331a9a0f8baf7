/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes that write, until they are told to stop: files that say by themselves what is in them,
 * made, synced, mapped, linked and removed.
 *
 *	load_start("dir");		four processes, each in a folder of its own in dir
 *	load_operations();		how many operations they have done
 *	load_stop();			did all go well?
 *	load_right("dir");		is what they left right?
 *
 * What fails makes a process end, unless load->tolerate() says that it may; then it goes on.
 */
#ifndef WRITE_LOAD_H
#define WRITE_LOAD_H

#include "guest.h"

#include <dirent.h>
#include <sys/mman.h>

#define LOAD_PROCESSES 4
#define LOAD_NAMES 40
#define LOAD_BLOCK 4096
#define LOAD_SIZE (16 * LOAD_BLOCK)

/* Shared by all processes. */
static struct load {
	bool stop;
	long operations;
	long failed;
} *load;

static pid_t load_pids[LOAD_PROCESSES];

/* An error that others cause, and not the filesystem. */
static bool (*load_tolerate)(int error);

static inline long load_operations(void)
{
	return __atomic_load_n(&load->operations, __ATOMIC_RELAXED);
}

/* True if the operation failed and that is all right; else, with a failure, the process ends. */
static inline bool load_failed(bool failed, const char *what)
{
	if (!failed)
		return false;
	if (load_tolerate && load_tolerate(errno))
		return true;
	tap_diag("%s: %s", what, strerror(errno));
	__atomic_add_fetch(&load->failed, 1, __ATOMIC_RELAXED);
	fflush(stdout);
	_exit(1);
}

/* A file's bytes are all the same: the number in its name. */
static inline void load_make(const char *name, int number)
{
	char data[LOAD_SIZE];
	size_t size = guest_below(3) ? guest_below(LOAD_SIZE) : guest_below(600);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

	if (load_failed(fd < 0, "open"))
		return;
	memset(data, 'A' + number, size);
	if (load_failed(write(fd, data, size) != (ssize_t)size, "write"))
		goto out;
	if (size && !guest_below(4)) {
		char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (load_failed(map == MAP_FAILED, "mmap"))
			goto out;
		map[guest_below(size)] = 'A' + number;
		munmap(map, size);
	}
	if (!guest_below(3))
		load_failed(fsync(fd), "fsync");
out:
	close(fd);
}

static inline void load_step(void)
{
	char name[32], other[32];
	int number = guest_below(LOAD_NAMES);

	sprintf(name, "f%d", number);
	sprintf(other, "f%d-%d", number, (int)guest_below(3));
	switch (guest_below(8)) {
	case 0:
	case 1:
		load_failed(unlink(name) && errno != ENOENT, "unlink");
		break;
	case 2:
		load_failed(link(name, other) && errno != ENOENT && errno != EEXIST, "link");
		break;
	case 3:
		load_failed(unlink(other) && errno != ENOENT, "unlink");
		break;
	case 4:
		load_failed(mkdir("dir", 0755) && errno != EEXIST, "mkdir");
		load_failed(rmdir("dir") && errno != ENOENT, "rmdir");
		break;
	default:
		load_make(name, number);
	}
	__atomic_add_fetch(&load->operations, 1, __ATOMIC_RELAXED);
}

static inline void load_start(const char *dir)
{
	uint64_t seed = guest_random();
	char own[PATH_MAX];

	if (!load)
		load = mmap(NULL, LOAD_BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(load, 0, sizeof(*load));
	for (int i = 0; i < LOAD_PROCESSES; i++) {
		snprintf(own, sizeof(own), "%s/load%d", dir, i);
		if (mkdir(own, 0755) && errno != EEXIST)
			tap_bail("%s: %s", own, strerror(errno));
		load_pids[i] = fork();
		if (load_pids[i])
			continue;
		guest_random_state = seed + i;
		load_failed(chdir(own), "chdir");
		while (!__atomic_load_n(&load->stop, __ATOMIC_RELAXED)) {
			load_step();
			usleep(guest_below(2000));
		}
		_exit(0);
	}
}

static inline bool load_stop(void)
{
	bool right = true;
	int status;

	if (!load)
		return true;
	__atomic_store_n(&load->stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < LOAD_PROCESSES; i++) {
		if (!load_pids[i])
			continue;
		waitpid(load_pids[i], &status, 0);
		load_pids[i] = 0;
		right &= status == 0;
		if (status && !WIFEXITED(status))
			tap_diag("a process died with signal %d", WTERMSIG(status));
	}
	tap_diag("%ld operations", load_operations());
	return right;
}

/* Do they go on? */
static inline bool load_goes_on(void)
{
	long before = load_operations();

	for (int tries = 0; tries < 200; tries++) {
		if (load_operations() > before + 20)
			return true;
		usleep(50000);
	}
	return false;
}

static inline bool load_file_right(const char *path, const char *name)
{
	char data[LOAD_SIZE + 1], want = 'A' + atoi(name + 1);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < n; i++) {
		if (data[i] == want)
			continue;
		tap_diag("%s: byte %zd of %zd is %02x, not %02x", path, i, n, (unsigned char)data[i], want);
		return false;
	}
	if (n < 0)
		tap_diag("%s: %s", path, strerror(errno));
	return n >= 0;
}

static inline bool load_right(const char *dir)
{
	char own[PATH_MAX], *path;
	bool right = true;

	for (int i = 0; i < LOAD_PROCESSES; i++) {
		struct dirent *e;
		DIR *d;

		snprintf(own, sizeof(own), "%s/load%d", dir, i);
		d = opendir(own);
		if (!d) {
			tap_diag("%s: %s", own, strerror(errno));
			return false;
		}
		while ((e = readdir(d))) {
			if (e->d_name[0] != 'f')
				continue;
			if (asprintf(&path, "%s/%s", own, e->d_name) < 0)
				exit(1);
			right &= load_file_right(path, e->d_name);
			free(path);
		}
		closedir(d);
	}
	return right;
}

#endif /* WRITE_LOAD_H */
