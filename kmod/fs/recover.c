// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery for a read-only mount: steps 1 to 6 of the core (recover.h) over the slots of
 * marked chunks, kept in memory as an overlay.  The device is not written to.
 *
 * It happens in fill_super, before anyone sees the filesystem: inodes that are read here
 * know nothing of the overlay, and are dropped with their last reference.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "recovery.h"

/* ---- arrays that grow ----------------------------------------------------- */

static int grow(void **array, u32 count, u32 *room, size_t size)
{
	u32 wanted = *room ? 2 * *room : 256;
	void *larger;

	if (count < *room)
		return 0;
	if (wanted > UHSFS_REC_MAX || wanted > INT_MAX / size)
		return -E2BIG;
	larger = kvmalloc_array(wanted, size, GFP_KERNEL | __GFP_NOWARN);
	if (!larger)
		return -ENOMEM;
	if (count)
		memcpy(larger, *array, count * size);
	kvfree(*array);
	*array = larger;
	*room = wanted;
	return 0;
}

static void free_recovery(struct uhsfs_recovery_run *r)
{
	kvfree(r->core.slots);
	kvfree(r->core.names);
	kvfree(r->core.slot_order);
	kvfree(r->core.name_order);
	kvfree(r->core.scratch);
	kvfree(r->intents);
	kvfree(r->types);
	kvfree(r->states);
	kvfree(r->valid);
	xa_destroy(&r->torn);
	uhsfs_overlay_free(r->overlay);
	kfree(r);
}

/* ---- step 1: what slots say ----------------------------------------------- */

static int add_slot(struct uhsfs_recovery_run *r, const struct uhsfs_rec_slot *slot, u8 type,
		    bool valid)
{
	struct uhsfs_recovery *core = &r->core;
	u32 room = r->slot_room;
	int err;

	if (slot->ino == UHSFS_INO_INVALID)
		return 0;
	err = grow((void **)&core->slots, core->slot_count, &room, sizeof(*core->slots));
	if (err)
		return err;
	room = r->slot_room;
	err = grow((void **)&r->types, core->slot_count, &room, sizeof(*r->types));
	if (err)
		return err;
	room = r->slot_room;
	err = grow((void **)&r->states, core->slot_count, &room, sizeof(*r->states));
	if (err)
		return err;
	room = r->slot_room;
	err = grow((void **)&r->valid, core->slot_count, &room, sizeof(*r->valid));
	if (err)
		return err;
	r->slot_room = room;
	r->states[core->slot_count] = slot->state;
	r->valid[core->slot_count] = valid;
	core->slots[core->slot_count] = *slot;
	core->slots[core->slot_count].first_name = core->name_count;
	r->types[core->slot_count++] = type;
	return 0;
}

/* A name of the newest slot. */
static int add_name(void *ctx, const struct uhsfs_claim *claim)
{
	struct uhsfs_recovery_run *r = ctx;
	struct uhsfs_recovery *core = &r->core;
	struct uhsfs_rec_name *name;
	int err;

	err = grow((void **)&core->names, core->name_count, &core->name_room,
		   sizeof(*core->names));
	if (err)
		return err;
	name = &core->names[core->name_count];
	*name = (struct uhsfs_rec_name) {
		.parent_ino = claim->parent_ino,
		.parent_gen = claim->parent_gen,
		.name_seq = claim->name_seq,
		.name = uhsfs_overlay_keep(r->overlay, claim->name, claim->len),
		.len = claim->len,
		.owner = core->slot_count - 1,
	};
	if (!name->name)
		return -ENOMEM;
	core->name_count++;
	core->slots[core->slot_count - 1].names++;
	return 0;
}

/* Told of a part of a names tree that cannot be used: the others count. */
static int names_damaged(void *ctx, u64 block, int err, const struct uhsfs_fault *fault)
{
	struct uhsfs_recovery_run *r = ctx;
	struct uhsfs_rec_slot *slot = &r->core.slots[r->core.slot_count - 1];

	if (err == -ENOMEM || err == -EINTR)
		return err;
	if (err == -EUCLEAN)
		uhsfs_fault(r->sb, slot->ino, fault);
	slot->partial = true;
	return 0;
}

static int add_names(struct uhsfs_recovery_run *r, const struct uhsfs_slot_view *view)
{
	const struct uhsfs_names_visitor visitor = {
		.name = add_name,
		.damaged = names_damaged,
		.ctx = r,
	};
	struct uhsfs_nodes nodes;
	struct uhsfs_names names;
	struct uhsfs_claim claim;
	u64 count;
	int err = 0;

	if (view->value[UHSFS_TLV_NAME]) {
		uhsfs_name_decode(view->value[UHSFS_TLV_NAME], &claim);
		err = add_name(r, &claim);
	}
	if (err || !view->value[UHSFS_TLV_NAMES])
		return err;
	uhsfs_nodes_init(&nodes, r->sb);
	uhsfs_names_init(&names, uhsfs_geo(r->sb), &uhsfs_node_ops, &nodes, view->attr.ino,
			 view->attr.generation, view->value[UHSFS_TLV_NAMES]);
	err = uhsfs_names_walk(&names, &visitor, &count);
	uhsfs_nodes_release(&nodes);
	if (!err && count != names.tree.count)
		r->core.slots[r->core.slot_count - 1].partial = true;
	return err;
}

static int add_intent(struct uhsfs_recovery_run *r, const struct uhsfs_slot_view *view)
{
	const struct uhsfs_intent *raw = view->value[UHSFS_TLV_INTENT];
	struct uhsfs_rec_intent *intent;
	int err;

	if (!raw)
		return 0;
	err = grow((void **)&r->intents, r->core.intent_count, &r->intent_room,
		   sizeof(*r->intents));
	if (err)
		return err;
	intent = &r->intents[r->core.intent_count];
	*intent = (struct uhsfs_rec_intent) {
		.peer_ino = le64_to_cpu(raw->peer_ino),
		.peer_gen = le32_to_cpu(raw->peer_gen),
		.parent_ino = le64_to_cpu(raw->parent_ino),
		.parent_gen = le32_to_cpu(raw->parent_gen),
		.name_seq = le64_to_cpu(raw->name_seq),
		.name = uhsfs_overlay_keep(r->overlay, raw->name, raw->len),
		.len = raw->len,
		.op = raw->op,
		.holder = r->core.slot_count - 1,
	};
	if (!intent->name)
		return -ENOMEM;
	r->core.intent_count++;
	return 0;
}

static int add_view(struct uhsfs_recovery_run *r, const struct uhsfs_slot_view *view)
{
	const struct uhsfs_attr *attr = &view->attr;
	const struct uhsfs_rec_slot slot = {
		.ino = attr->ino,
		.generation = attr->generation,
		.name_seq_max = attr->name_seq_max,
		.state = attr->state,
		.is_dir = attr->state == UHSFS_SLOT_INODE && uhsfs_is_dir(attr->mode),
	};
	int err;

	err = add_slot(r, &slot, uhsfs_mode_dtype(attr->mode), true);
	if (err || attr->state != UHSFS_SLOT_INODE || attr->ino == UHSFS_INO_INVALID)
		return err;
	err = add_names(r, view);
	return err ?: add_intent(r, view);
}

/* The slots of one chunk, block by block. */
struct chunk_scan {
	struct uhsfs_home_scan scan;
	struct uhsfs_slot_home home;
	struct uhsfs_recovery_run *r;
	u64 number;
	struct uhsfs_chunk_info chunk;
};

static int prepare_slots(struct uhsfs_home_scan *base, u32 index)
{
	struct chunk_scan *scan = container_of(base, struct chunk_scan, scan);
	const struct uhsfs_geometry *geo = uhsfs_geo(scan->r->sb);

	uhsfs_slot_home_init(scan->r->sb, &scan->home,
			     scan->number * geo->slots_per_chunk + index * geo->slots_per_block,
			     &scan->chunk);
	return 0;
}

/* A block without a valid copy. */
static int take_lost_block(struct chunk_scan *scan, u32 index, int err,
			   const struct uhsfs_fault *fault)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(scan->r->sb);
	/* What was written since the last checkpoint and cannot be read knew something too. */
	bool lost = scan->chunk.written >> index & 1 || err != -ENODATA;

	if (err == -ENOMEM)
		return err;
	if (lost && (err == -EUCLEAN || err == -ENODATA))
		uhsfs_fault(scan->r->sb, 0, fault);
	else if (lost)
		uhsfs_err(scan->r->sb, "slots from inode %llu: cannot read block %llu (error %d)",
			  scan->home.first_ino, scan->home.home.block, err);
	err = 0;
	for (u32 i = 0; !err && i < geo->slots_per_block; i++) {
		const struct uhsfs_rec_slot slot = {
			.ino = scan->home.first_ino + i,
			.state = lost ? UHSFS_REC_UNREADABLE : UHSFS_SLOT_FREE,
			.generation = lost ? 0 : scan->chunk.gen_base,
		};

		err = add_slot(scan->r, &slot, DT_UNKNOWN, false);
	}
	return err;
}

static int take_slots(struct uhsfs_home_scan *base, u32 index, const void *image, int err,
		      const struct uhsfs_fault *fault)
{
	struct chunk_scan *scan = container_of(base, struct chunk_scan, scan);
	const struct uhsfs_geometry *geo = uhsfs_geo(scan->r->sb);

	if (err)
		return take_lost_block(scan, index, err, fault);
	if (base->torn)
		err = xa_err(xa_store(&scan->r->torn, scan->home.first_ino, xa_mk_value(1),
				      GFP_NOFS));
	for (u32 i = 0; !err && i < geo->slots_per_block; i++) {
		const struct uhsfs_header *head = image + i * geo->slot_size;
		const struct uhsfs_slot_id id = {
			.ino = scan->home.first_ino + i,
			.block = le64_to_cpu(head->block),
			.nonce = scan->chunk.nonce,
		};
		struct uhsfs_slot_view view;

		/* The block was checked. */
		err = uhsfs_slot_parse(geo, head, &id, &view, NULL);
		if (!err)
			err = add_view(scan->r, &view);
	}
	return err;
}

static int read_chunk(struct uhsfs_recovery_run *r, u64 number)
{
	struct chunk_scan *scan = kzalloc(sizeof(*scan), GFP_KERNEL);
	int err;

	if (!scan)
		return -ENOMEM;
	scan->scan.home = &scan->home.home;
	scan->scan.prepare = prepare_slots;
	scan->scan.each = take_slots;
	scan->r = r;
	scan->number = number;
	err = uhsfs_chunk_get(r->sb, number, &scan->chunk);
	if (!err)
		err = uhsfs_scan_homes(r->sb, scan->chunk.block, UHSFS_CHUNK_BLOCKS, &scan->scan);
	else if (err == -ENOENT || err == -EUCLEAN || err == -EIO)
		err = 0;	/* never made, or reported; then its slots are unreadable */
	kfree(scan);
	return err;
}

static int read_marked(struct uhsfs_recovery_run *r)
{
	u64 chunk = 0;
	int err = 0;

	while (!err && uhsfs_next_marked(uhsfs_sb(r->sb), &chunk)) {
		err = read_chunk(r, chunk);
		chunk++;
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	return err;
}

/* ---- what the core asks and tells ----------------------------------------- */

static int outside(void *context, u64 ino, struct uhsfs_rec_outside *out)
{
	struct uhsfs_recovery_run *r = context;
	const struct uhsfs_geometry *geo = uhsfs_geo(r->sb);
	struct uhsfs_chunk_info chunk;
	struct uhsfs_slot_view view;
	struct folio *folio;
	int err;

	*out = (struct uhsfs_rec_outside) { .state = UHSFS_REC_UNREADABLE };
	if (ino == UHSFS_INO_INVALID)
		return 0;
	err = uhsfs_chunk_get(r->sb, uhsfs_ino_chunk(geo, ino), &chunk);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = uhsfs_slot_get(r->sb, ino, &view, &folio);
	if (err == -ENOENT && !(chunk.in_use >> uhsfs_ino_index(geo, ino) & 1)) {
		out->state = UHSFS_SLOT_FREE;
		out->generation = chunk.gen_base;
	}
	if (err)
		return err == -ENOMEM ? err : 0;
	out->state = view.attr.state;
	out->generation = view.attr.generation;
	out->name_seq_max = view.attr.name_seq_max;
	out->is_dir = uhsfs_is_dir(view.attr.mode);
	uhsfs_slot_done(r->sb, folio);
	return 0;
}

static void event(void *context, const struct uhsfs_rec_event *event)
{
	struct uhsfs_recovery_run *r = context;

	if (event->what >= UHSFS_REC_DAMAGE)
		uhsfs_corrupt(r->sb, event->ino, event->name ? "name" : "state", event->against,
			      event->other_seq, uhsfs_rec_what_text(event->what));
}

static int run(struct uhsfs_recovery_run *r)
{
	struct uhsfs_recovery *core = &r->core;
	u32 room = core->name_count + core->intent_count;
	u32 most = max3(core->slot_count, room, core->intent_count) + 1;
	struct uhsfs_rec_name *names;

	/* Finished intents add names. */
	if (room >= INT_MAX / sizeof(*names))
		return -E2BIG;
	names = kvmalloc_array(room + 1, sizeof(*names), GFP_KERNEL | __GFP_NOWARN);
	if (!names)
		return -ENOMEM;
	if (core->name_count)
		memcpy(names, core->names, core->name_count * sizeof(*names));
	kvfree(core->names);
	core->names = names;
	core->name_room = room;
	core->intents = r->intents;
	core->slot_order = kvmalloc_array(most, sizeof(u32), GFP_KERNEL);
	core->name_order = kvmalloc_array(most, sizeof(u32), GFP_KERNEL);
	core->scratch = kvmalloc_array(most, sizeof(u32), GFP_KERNEL);
	if (!core->slot_order || !core->name_order || !core->scratch)
		return -ENOMEM;
	core->outside = outside;
	core->event = event;
	core->context = r;
	return uhsfs_recover(core);
}

/* ---- the overlay ---------------------------------------------------------- */

static struct uhsfs_claim claim_of(const struct uhsfs_rec_name *name)
{
	return (struct uhsfs_claim) {
		.parent_ino = name->parent_ino,
		.parent_gen = name->parent_gen,
		.name_seq = name->name_seq,
		.name = name->name,
		.len = name->len,
	};
}

static int overlay_slot(struct uhsfs_recovery_run *r, const struct uhsfs_rec_slot *slot)
{
	const struct uhsfs_rec_name *names = r->core.names + slot->first_name;
	struct uhsfs_overlay_slot *out;
	u32 lost = 0;
	int err;

	for (u32 i = 0; i < slot->names; i++)
		lost += uhsfs_name_gone(&names[i]);
	out = kvzalloc(struct_size(out, lost, lost), GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	out->freed = slot->changed & UHSFS_REC_FREED;
	out->made = !out->freed && slot->changed & UHSFS_REC_MADE;
	out->generation = slot->generation;
	for (u32 i = 0; i < slot->names; i++)
		if (uhsfs_name_gone(&names[i]))
			out->lost[out->lost_count++] = claim_of(&names[i]);
	out->nlink = -(s32)lost;
	if (slot->gained != UHSFS_REC_NONE && !uhsfs_name_gone(&r->core.names[slot->gained])) {
		out->gained = claim_of(&r->core.names[slot->gained]);
		out->nlink++;
	}
	err = xa_err(xa_store(&r->overlay->slots, slot->ino, out, GFP_KERNEL));
	if (err)
		kvfree(out);
	return err;
}

/* A name that must stand in its directory: keep it unless it does. */
static int overlay_name(struct uhsfs_recovery_run *r, struct inode *dir,
			const struct uhsfs_rec_name *name)
{
	const struct uhsfs_rec_slot *owner = &r->core.slots[name->owner];
	u8 type = owner->changed & UHSFS_REC_MADE ? DT_CHR : r->types[name->owner];
	struct uhsfs_overlay_name out = {
		.dir = dir->i_ino,
		.entry = {
			.ino = owner->ino,
			.gen = owner->generation,
			.type = type,
			.name = name->name,
			.len = name->len,
		},
	};
	struct uhsfs_dir_probe probe;
	int err;

	uhsfs_dir_probe_init(&probe, uhsfs_geo(r->sb), name->name, name->len, owner->ino,
			     owner->generation);
	err = uhsfs_dir_probe(dir, &probe);
	if (err == -EUCLEAN || err == -EIO)
		return 0;	/* reported; this part of the directory cannot be read anyway */
	if (err || probe.copies)
		return err;
	err = uhsfs_dir_probe_cookie(&probe, &out.entry.cookie);
	if (err) {
		uhsfs_err(r->sb, "inode %llu: its name has no place in directory %lu: %u others have its hash",
			  owner->ino, dir->i_ino, UHSFS_COOKIE_TIES);
		return 0;
	}
	memcpy(out.ties, probe.ties, sizeof(out.ties));
	return uhsfs_overlay_add(r->overlay, &out);
}

/* Names of one directory stand together in the order of insertion. */
static int overlay_names(struct uhsfs_recovery_run *r)
{
	struct inode *dir = NULL;
	u64 ino = UHSFS_INO_INVALID;
	int err = 0;

	for (u32 i = 0; !err && i < r->core.insert_count; i++) {
		const struct uhsfs_rec_name *name = &r->core.names[r->core.name_order[i]];

		if (name->parent_ino != ino) {
			if (dir)
				iput(dir);
			ino = name->parent_ino;
			dir = uhsfs_iget(r->sb, ino);
			if (IS_ERR(dir)) {
				err = PTR_ERR(dir) == -ENOMEM ? -ENOMEM : 0;
				dir = NULL;
			} else if (!S_ISDIR(dir->i_mode)) {
				iput(dir);
				dir = NULL;
			}
		}
		if (dir && !err)
			err = overlay_name(r, dir, name);
		if (fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	if (dir)
		iput(dir);
	return err;
}

static int build_overlay(struct uhsfs_recovery_run *r)
{
	int err = 0;

	for (u32 i = 0; !err && i < r->core.slot_count; i++)
		if (r->core.slots[i].changed)
			err = overlay_slot(r, &r->core.slots[i]);
	if (!err)
		err = overlay_names(r);
	if (!err)
		uhsfs_overlay_sort(r->sb, r->overlay);
	r->inserted = r->overlay->count;
	return err;
}

static int keep_overlay(struct uhsfs_recovery_run *r)
{
	int err = build_overlay(r);

	if (!err) {
		uhsfs_sb(r->sb)->overlay = r->overlay;
		r->overlay = NULL;
	}
	return err;
}

int uhsfs_run_recovery(struct super_block *sb, int (*apply)(struct uhsfs_recovery_run *r))
{
	struct uhsfs_recovery_run *r = kzalloc(sizeof(*r), GFP_KERNEL);
	const u64 *events;
	int err;

	if (!r)
		return -ENOMEM;
	r->sb = sb;
	xa_init(&r->torn);
	r->overlay = uhsfs_overlay_alloc();
	err = r->overlay ? read_marked(r) : -ENOMEM;
	if (!err)
		err = run(r);
	if (!err)
		err = apply(r);
	events = r->core.events;
	if (err == -EINTR)
		uhsfs_notice(sb, "recovery was interrupted");
	else if (err)
		uhsfs_notice(sb, "recovery failed (error %d): ro,norecovery shows what is there",
			     err);
	else
		uhsfs_notice(sb, "recovered %s: %u slots read, %llu names lost, %llu dropped, %llu intents "
			     "finished, %llu slots freed, %u entries inserted",
			     sb_rdonly(sb) ? "in memory, nothing is written" : "on the device",
			     r->core.slot_count, events[UHSFS_REC_NAME_LOST],
			     events[UHSFS_REC_NAME_DROPPED], events[UHSFS_REC_INTENT_FINISHED],
			     events[UHSFS_REC_SLOT_FREED], r->inserted);
	free_recovery(r);
	return err;
}

int uhsfs_recover_in_memory(struct super_block *sb)
{
	return uhsfs_run_recovery(sb, keep_overlay);
}
