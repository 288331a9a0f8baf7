/* SPDX-License-Identifier: GPL-2.0 */
/* Reads that are submitted and waited for: by the kernel's AIO and by io_uring, without libraries. */
#ifndef MOUNT_ASYNC_H
#define MOUNT_ASYNC_H

#include "tap.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ASYNC_DEPTH 8

static struct {
	aio_context_t aio;
	int ring;
	struct io_uring_sqe *sqes;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_cqe *cqes;
} async;

static inline void async_start(void)
{
	struct io_uring_params p = {};
	char *sq, *cq;

	if (syscall(SYS_io_setup, ASYNC_DEPTH, &async.aio))
		tap_bail("io_setup: %s", strerror(errno));
	async.ring = syscall(SYS_io_uring_setup, ASYNC_DEPTH, &p);
	if (async.ring < 0)
		tap_bail("io_uring_setup: %s", strerror(errno));
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned int), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, async.ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, async.ring, IORING_OFF_CQ_RING);
	async.sqes = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, async.ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || async.sqes == MAP_FAILED)
		tap_bail("mmap of a ring: %s", strerror(errno));
	async.sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	async.sq_mask = (unsigned int *)(sq + p.sq_off.ring_mask);
	async.sq_array = (unsigned int *)(sq + p.sq_off.array);
	async.cq_head = (unsigned int *)(cq + p.cq_off.head);
	async.cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	async.cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	async.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

/* Two halves, both under way at once; the end of the file may lie in either. */
struct async_halves {
	size_t len[2];
	ssize_t result[2];
};

static inline struct async_halves async_split(size_t len)
{
	size_t first = len / 2 / 4096 * 4096;

	return (struct async_halves){ .len = { first, len - first } };
}

static inline ssize_t async_join(const struct async_halves *h)
{
	for (int i = 0; i < 2; i++) {
		if (h->result[i] < 0) {
			errno = -h->result[i];
			return -1;
		}
	}
	return h->result[0] + h->result[1];
}

static inline ssize_t async_aio_read(int fd, char *to, size_t len, uint64_t at)
{
	struct async_halves h = async_split(len);
	struct iocb cb[2], *list[2] = { &cb[0], &cb[1] };
	struct io_event events[2];

	for (int i = 0; i < 2; i++)
		cb[i] = (struct iocb){
			.aio_data = i,
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = fd,
			.aio_buf = (uintptr_t)(to + (i ? h.len[0] : 0)),
			.aio_nbytes = h.len[i],
			.aio_offset = at + (i ? h.len[0] : 0),
		};
	if (syscall(SYS_io_submit, async.aio, 2, list) != 2 ||
	    syscall(SYS_io_getevents, async.aio, 2, 2, events, NULL) != 2)
		return -1;
	for (int i = 0; i < 2; i++)
		h.result[events[i].data] = events[i].res;
	return async_join(&h);
}

/* One half of it; a short read of a buffered file is no end of file, as POSIX has it. */
static inline void async_uring_submit(int fd, char *to, size_t len, uint64_t at, uint64_t data)
{
	unsigned int tail = *async.sq_tail, index = tail & *async.sq_mask;

	async.sqes[index] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.fd = fd,
		.addr = (uintptr_t)to,
		.len = len,
		.off = at,
		.user_data = data,
	};
	async.sq_array[index] = index;
	__atomic_store_n(async.sq_tail, tail + 1, __ATOMIC_RELEASE);
}

static inline ssize_t async_uring_read(int fd, char *to, size_t len, uint64_t at)
{
	struct async_halves h = async_split(len);

	for (int i = 0; i < 2; i++)
		async_uring_submit(fd, to + (i ? h.len[0] : 0), h.len[i], at + (i ? h.len[0] : 0), i);
	if (syscall(SYS_io_uring_enter, async.ring, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0) != 2)
		return -1;
	for (int i = 0; i < 2; i++) {
		unsigned int head = *async.cq_head;
		const struct io_uring_cqe *cqe = &async.cqes[head & *async.cq_mask];

		while (__atomic_load_n(async.cq_tail, __ATOMIC_ACQUIRE) == head)
			;
		h.result[cqe->user_data] = cqe->res;
		__atomic_store_n(async.cq_head, head + 1, __ATOMIC_RELEASE);
	}
	return async_join(&h);
}

#endif /* MOUNT_ASYNC_H */
