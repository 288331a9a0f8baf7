// SPDX-License-Identifier: GPL-2.0
/*
 * kmod/core/order.c for a caller without pointers: slots by number.
 */
#include "core/order.c"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS 64
#define CHANGES 256
#define BITS 3

struct shim {
	struct uhsfs_order order;
	struct list_head names[1 << BITS];
	struct uhsfs_order_slot slots[SLOTS];
	struct uhsfs_order_change changes[CHANGES];
	u8 bytes[CHANGES];
	u64 before[CHANGES];
	int count;
	/* Of a query. */
	long *out;
	int told;
	int room;
};

struct shim *shim_new(void)
{
	return calloc(1, sizeof(struct shim));
}

void shim_reset(struct shim *shim)
{
	uhsfs_order_init(&shim->order, shim->names, BITS);
	shim->count = 0;
}

void shim_slot(struct shim *shim, int slot, long born, int names, int dir)
{
	struct uhsfs_order_slot *s = &shim->slots[slot];

	memset(s, 0, sizeof(*s));
	uhsfs_order_slot_init(s);
	s->born = (u64)born;
	s->names = (u32)names;
	s->dir = dir;
}

void shim_change(struct shim *shim, int kind, long op, long was, int slot, int other, int parent,
		 int name)
{
	struct uhsfs_order_change *change;

	if (shim->count == CHANGES)
		abort();
	change = &shim->changes[shim->count];
	memset(change, 0, sizeof(*change));
	change->kind = (enum uhsfs_order_kind)kind;
	change->op = (u64)op;
	change->was = (u64)was;
	change->slot = &shim->slots[slot];
	change->other = other < 0 ? NULL : &shim->slots[other];
	change->parent = parent < 0 ? NULL : &shim->slots[parent];
	shim->bytes[shim->count] = (u8)name;
	change->name = &shim->bytes[shim->count];
	change->len = 1;
	shim->before[shim->count] = change->slot->changed;
	uhsfs_order_add(&shim->order, change);
	shim->count++;
}

/* Take back all changes from number `count` on. */
void shim_undo(struct shim *shim, int count)
{
	while (shim->count > count) {
		shim->count--;
		uhsfs_order_undo(&shim->order, &shim->changes[shim->count],
				 shim->before[shim->count]);
	}
}

int shim_count(const struct shim *shim)
{
	return shim->count;
}

void shim_touch(struct shim *shim, int slot, long op)
{
	uhsfs_order_touch(&shim->slots[slot], (u64)op);
}

void shim_durable(struct shim *shim, int slot, long op)
{
	uhsfs_order_durable(&shim->slots[slot], (u64)op, NULL, NULL);
}

static int wait(void *ctx, struct uhsfs_order_slot *on, u64 op)
{
	struct shim *shim = ctx;

	if (shim->told == shim->room)
		abort();
	shim->out[2 * shim->told] = on - shim->slots;
	shim->out[2 * shim->told + 1] = (long)op;
	shim->told++;
	return 0;
}

static int query(struct shim *shim, int slot, long op, int first, long *out, int room)
{
	const struct uhsfs_order_visitor visitor = { .wait = wait, .ctx = shim };

	shim->out = out;
	shim->told = 0;
	shim->room = room;
	if (first)
		uhsfs_order_first(&shim->order, &shim->slots[slot], (u64)op, &visitor);
	else
		uhsfs_order_waits(&shim->order, &shim->slots[slot], &visitor);
	return shim->told;
}

/* Pairs (slot, operation) in out; their number. */
int shim_waits(struct shim *shim, int slot, long *out, int room)
{
	return query(shim, slot, 0, 0, out, room);
}

int shim_first(struct shim *shim, int slot, long op, long *out, int room)
{
	return query(shim, slot, op, 1, out, room);
}
