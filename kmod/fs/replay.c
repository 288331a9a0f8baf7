// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery on the device: steps 6 to 8 for a mount that writes.
 *
 * What the core decided becomes changes in memory, as operations make them, and a
 * checkpoint writes them.  Until its superblock nothing retires the marks of the epochs
 * that are recovered, so that a cut anywhere leaves the same work to the next mount: what
 * is written are images with fewer names, FREE slots and entries in directories, and
 * before all that the chunks become suspect.
 *
 * It happens before the root is there; nobody else uses the filesystem.
 */
#include "recovery.h"
#include "rw.h"

#include "core/xattr.h"

/* ---- space (step 7) ------------------------------------------------------- */

static int use_node(void *ctx, u64 block)
{
	return uhsfs_use_blocks(ctx, block, 1);
}

static int use_trees(struct inode *inode)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	struct super_block *sb = inode->i_sb;
	const struct uhsfs_etree_visitor extent_nodes = { .node = use_node, .ctx = sb };
	const struct uhsfs_names_visitor name_nodes = { .node = use_node, .ctx = sb };
	struct uhsfs_nodes nodes;
	struct uhsfs_etree extents;
	struct uhsfs_names names;
	u64 count;
	int err = 0;

	uhsfs_nodes_init(&nodes, sb);
	if (view->value[UHSFS_TLV_EXTENT_ROOT]) {
		uhsfs_etree_init(&extents, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, inode->i_ino,
				 inode->i_generation, S_ISDIR(inode->i_mode),
				 view->value[UHSFS_TLV_EXTENT_ROOT]);
		err = uhsfs_etree_check(&extents, &extent_nodes, &count);
		if (err)
			uhsfs_tree_failed(sb, inode->i_ino, err, &extents.tree);
	}
	if (!err && view->value[UHSFS_TLV_NAMES]) {
		uhsfs_names_init(&names, uhsfs_geo(sb), &uhsfs_node_ops, &nodes, inode->i_ino,
				 inode->i_generation, view->value[UHSFS_TLV_NAMES]);
		err = uhsfs_names_walk(&names, &name_nodes, &count);
		if (err)
			uhsfs_tree_failed(sb, inode->i_ino, err, &names.tree);
	}
	uhsfs_nodes_release(&nodes);
	return err;
}

static int use_xattrs(struct inode *inode)
{
	const struct uhsfs_slot_view *view = &uhsfs_i(inode)->view;
	struct super_block *sb = inode->i_sb;
	struct uhsfs_xattr_place place;
	struct folio *index;
	int err;

	if (!view->value[UHSFS_TLV_XATTR_ROOT])
		return 0;
	err = uhsfs_xattr_root_decode(view->value[UHSFS_TLV_XATTR_ROOT],
				      view->len[UHSFS_TLV_XATTR_ROOT], uhsfs_geo(sb), inode->i_ino,
				      &place, NULL);
	if (!err)
		err = uhsfs_use_blocks(sb, place.block, 1);
	if (err || place.depth == 1)
		return err;
	index = uhsfs_read_block(sb, place.block);
	if (IS_ERR(index))
		return PTR_ERR(index);
	for (u32 i = 0; !err && i < uhsfs_xattr_data_blocks(place.bytes); i++) {
		u64 block = uhsfs_xattr_index_get(folio_address(index), i);

		err = uhsfs_space_ok(uhsfs_geo(sb), block, 1) ? uhsfs_use_blocks(sb, block, 1) :
								-EUCLEAN;
	}
	folio_put(index);
	return err;
}

/* All blocks of an inode.  What cannot be read is damage, and then nothing is written. */
static int use_inode(struct inode *inode)
{
	struct uhsfs_inode_info *info = uhsfs_i(inode);
	struct super_block *sb = inode->i_sb;
	int err = uhsfs_load_extents(inode);

	mutex_lock(&uhsfs_rw(sb)->lock);
	for (u32 i = 0; !err && i < info->list.count; i++) {
		struct uhsfs_ext ext;

		uhsfs_extent_decode(&info->list.extent[i], &ext);
		err = uhsfs_use_blocks(sb, ext.physical, (u64)ext.len * info->list.scale);
	}
	err = err ?: use_trees(inode);
	err = err ?: use_xattrs(inode);
	mutex_unlock(&uhsfs_rw(sb)->lock);
	return err;
}

static int use_slots(struct uhsfs_recovery_run *r, const u8 *was)
{
	struct super_block *sb = r->sb;
	int err = 0;

	for (u32 i = 0; !err && i < r->core.slot_count; i++) {
		const struct uhsfs_rec_slot *slot = &r->core.slots[i];
		struct inode *inode;

		if (was[i] == UHSFS_SLOT_INODE) {
			inode = uhsfs_iget(sb, slot->ino);
			if (IS_ERR(inode))
				return PTR_ERR(inode);
			err = use_inode(inode);
			/* What becomes of an orphan is decided later; this is no last reference. */
			if (!inode->i_nlink)
				set_nlink(inode, 1);
			iput(inode);
		}
		cond_resched();
	}
	return err;
}

/* ---- chunks --------------------------------------------------------------- */

static int find_chunks(struct uhsfs_recovery_run *r)
{
	struct super_block *sb = r->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	u64 chunk = 0, end = 0;
	int err;

	while (uhsfs_next_marked(uhsfs_sb(sb), &chunk)) {
		struct uhsfs_chunk_info info;

		if (!uhsfs_chunk_on_device(sb, chunk, &info))
			end = max(end, chunk + 1);
		chunk++;
	}
	mutex_lock(&rw->lock);
	err = uhsfs_chunks_found(sb, end);
	mutex_unlock(&rw->lock);
	return err;
}

/* In-use and written bits follow what was read. */
static int find_slots(struct uhsfs_recovery_run *r, const u8 *was)
{
	struct uhsfs_rw *rw = uhsfs_rw(r->sb);
	int err = 0;

	mutex_lock(&rw->lock);
	for (u32 i = 0; !err && i < r->core.slot_count; i++) {
		const struct uhsfs_rec_slot *slot = &r->core.slots[i];

		if (r->valid[i])
			err = uhsfs_slot_found(r->sb, slot->ino, was[i] == UHSFS_SLOT_INODE);
	}
	mutex_unlock(&rw->lock);
	return err;
}

/*
 * Torn copies of slot blocks: tolerated as long as the chunk is marked, which it will not
 * be any more, they are replaced by the image that counts.
 */
static int rewrite_block(struct super_block *sb, u64 first_ino, struct uhsfs_writes *writes)
{
	const struct uhsfs_geometry *geo = uhsfs_geo(sb);
	const struct uhsfs_header *head;
	struct uhsfs_chunk_info chunk;
	struct folio *folio;
	struct page *page;
	u64 home, seq;
	u8 next;
	int err;

	err = uhsfs_chunk_get(sb, uhsfs_ino_chunk(geo, first_ino), &chunk);
	if (err)
		return err;
	folio = uhsfs_slot_block(sb, first_ino, &chunk);
	if (IS_ERR(folio))
		return PTR_ERR(folio);
	page = uhsfs_image_page();
	home = uhsfs_slot_home(geo, chunk.block, first_ino);
	head = folio_address(folio);
	next = uhsfs_next_copy(sb, le64_to_cpu(head->block) - home);
	mutex_lock(&uhsfs_rw(sb)->lock);
	seq = uhsfs_next_op(sb);
	mutex_unlock(&uhsfs_rw(sb)->lock);
	down_write(&uhsfs_sb(sb)->slots_sem);
	uhsfs_slot_block_seal(geo, folio_address(folio), home + next, seq);
	memcpy(page_address(page), folio_address(folio), UHSFS_BLOCK_SIZE);
	up_write(&uhsfs_sb(sb)->slots_sem);
	uhsfs_write_block(writes, page, home + next, 0);
	folio_put(folio);
	return 0;
}

static int rewrite_torn(struct uhsfs_recovery_run *r)
{
	struct uhsfs_writes writes;
	unsigned long first_ino;
	int err = 0, wait;
	void *entry;

	uhsfs_writes_start(&writes, r->sb);
	xa_for_each(&r->torn, first_ino, entry) {
		err = rewrite_block(r->sb, first_ino, &writes);
		if (err)
			break;
	}
	wait = uhsfs_writes_wait(&writes);
	return err ?: wait;
}

/* ---- slots ---------------------------------------------------------------- */

/* Names that the slot loses leave the inode's list; the order of operations has no say. */
static int lose_names(struct uhsfs_recovery_run *r, const struct uhsfs_rec_slot *slot,
		      struct inode *inode)
{
	struct uhsfs_rw *rw = uhsfs_rw(r->sb);
	struct uhsfs_dslot *dslot;
	int err = uhsfs_load_names(inode);

	if (err)
		return err;
	mutex_lock(&rw->lock);
	dslot = uhsfs_dslot_get(inode);
	for (u32 i = 0; !IS_ERR(dslot) && i < slot->names; i++) {
		const struct uhsfs_rec_name *name = &r->core.names[slot->first_name + i];
		const struct uhsfs_claim claim = {
			.parent_ino = name->parent_ino,
			.parent_gen = name->parent_gen,
			.name = name->name,
			.len = name->len,
		};
		struct uhsfs_own_name *own = uhsfs_own_name(dslot, &claim);

		if (own && uhsfs_name_gone(name))
			uhsfs_remove_own(dslot, own);
	}
	if (IS_ERR(dslot)) {
		err = PTR_ERR(dslot);
	} else {
		dslot->order.names = S_ISDIR(inode->i_mode) ? !!dslot->name_count :
							      dslot->name_count;
		err = uhsfs_touch_locked(r->sb, dslot, uhsfs_next_op(r->sb));
		if (!S_ISDIR(inode->i_mode))
			set_nlink(inode, dslot->name_count);
	}
	mutex_unlock(&rw->lock);
	return err;
}

static int change_slot(struct uhsfs_recovery_run *r, const struct uhsfs_rec_slot *slot)
{
	struct inode *inode = uhsfs_iget(r->sb, slot->ino);
	int err;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	err = lose_names(r, slot, inode);
	/* The last reference makes it FREE. */
	if (!err && slot->changed & UHSFS_REC_FREED)
		clear_nlink(inode);
	iput(inode);
	return err;
}

static int change_slots(struct uhsfs_recovery_run *r)
{
	int err = 0;

	for (u32 i = 0; !err && i < r->core.slot_count; i++)
		if (r->core.slots[i].changed)
			err = change_slot(r, &r->core.slots[i]);
	return err;
}

/* ---- directories (step 6) ------------------------------------------------- */

static int insert_name(struct uhsfs_recovery_run *r, const struct uhsfs_rec_name *name)
{
	const struct uhsfs_rec_slot *owner = &r->core.slots[name->owner];
	const struct qstr qstr = QSTR_INIT(name->name, name->len);
	struct inode *dir = uhsfs_iget(r->sb, name->parent_ino);
	struct uhsfs_dir_probe probe;
	int err;

	if (IS_ERR(dir))
		return PTR_ERR(dir);
	if (!S_ISDIR(dir->i_mode)) {
		iput(dir);
		return -EUCLEAN;
	}
	uhsfs_dir_probe_init(&probe, uhsfs_geo(r->sb), name->name, name->len, owner->ino,
			     owner->generation);
	err = uhsfs_dir_probe(dir, &probe);
	if (!err && !probe.copies) {
		err = uhsfs_dir_insert_entry(dir, &qstr, owner->ino, owner->generation,
					     r->types[name->owner]);
		err = err ?: uhsfs_touch(dir);
		r->inserted++;
	}
	iput(dir);
	return err;
}

static int insert_names(struct uhsfs_recovery_run *r)
{
	int err = 0;

	for (u32 i = 0; !err && i < r->core.insert_count; i++) {
		err = insert_name(r, &r->core.names[r->core.name_order[i]]);
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	return err;
}

/* ---- all ------------------------------------------------------------------ */

static int apply(struct uhsfs_recovery_run *r)
{
	struct super_block *sb = r->sb;
	struct uhsfs_rw *rw = uhsfs_rw(sb);
	int err;

	/* Those that were finished go with the next image of their slots. */
	if (r->core.events[UHSFS_REC_INTENT_FINISHED]) {
		uhsfs_notice(sb, "%llu exchanges or whiteouts are half done, which this version finishes only for reading: use -o ro",
			     r->core.events[UHSFS_REC_INTENT_FINISHED]);
		return -EOPNOTSUPP;
	}
	mutex_lock(&rw->lock);
	err = uhsfs_adopt_marks(sb);
	mutex_unlock(&rw->lock);
	err = err ?: find_chunks(r);
	err = err ?: find_slots(r, r->states);
	err = err ?: use_slots(r, r->states);
	err = err ?: uhsfs_write_suspects(sb);
	err = err ?: rewrite_torn(r);
	err = err ?: change_slots(r);
	err = err ?: insert_names(r);
	return err ?: uhsfs_checkpoint(sb);
}

int uhsfs_recover_and_write(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	struct uhsfs_rw *rw = sbi->rw;
	int err = uhsfs_run_recovery(sb, apply);

	if (err)
		return err;
	mutex_lock(&rw->lock);
	rw->recovering = false;
	rw->map_epoch = rw->epoch;
	uhsfs_free_marks(sb);
	sbi->unclean = false;
	mutex_unlock(&rw->lock);
	return 0;
}
