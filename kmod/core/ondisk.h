/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The layout of every on-disk structure, size by size and offset by offset, checked by
 * whatever compiler includes this: C11 (the core, in kernel and user space), C++20 (a
 * unit test) and BPF (bpf/trace/ondisk.bpf.c).  A change here is a change of the format.
 */
#ifndef UHSFS_ONDISK_H
#define UHSFS_ONDISK_H

#include <linux/uhsfs_fs.h>

#ifdef __cplusplus
#define UHSFS_LAYOUT_ASSERT(expr)	static_assert(expr, #expr)
#else
#define UHSFS_LAYOUT_ASSERT(expr)	_Static_assert(expr, #expr)
#endif

#define UHSFS_SIZE(type, bytes)		UHSFS_LAYOUT_ASSERT(sizeof(struct type) == (bytes))
#define UHSFS_OFFSET(type, field, bytes) \
	UHSFS_LAYOUT_ASSERT(__builtin_offsetof(struct type, field) == (bytes))

UHSFS_SIZE(uhsfs_header, 48);
UHSFS_OFFSET(uhsfs_header, magic, 0);
UHSFS_OFFSET(uhsfs_header, crc, 4);
UHSFS_OFFSET(uhsfs_header, fsid, 8);
UHSFS_OFFSET(uhsfs_header, block, 16);
UHSFS_OFFSET(uhsfs_header, owner_ino, 24);
UHSFS_OFFSET(uhsfs_header, owner_gen, 32);
UHSFS_OFFSET(uhsfs_header, flags, 36);
UHSFS_OFFSET(uhsfs_header, seq, 40);

UHSFS_SIZE(uhsfs_segment, 64);
UHSFS_OFFSET(uhsfs_segment, first_chunk, 0);
UHSFS_OFFSET(uhsfs_segment, chunks, 8);
UHSFS_OFFSET(uhsfs_segment, table, 16);
UHSFS_OFFSET(uhsfs_segment, intent, 24);
UHSFS_OFFSET(uhsfs_segment, suspect, 40);
UHSFS_OFFSET(uhsfs_segment, reserved, 48);

UHSFS_SIZE(uhsfs_root, 16);
UHSFS_OFFSET(uhsfs_root, block, 0);
UHSFS_OFFSET(uhsfs_root, depth, 8);
UHSFS_OFFSET(uhsfs_root, reserved, 12);

UHSFS_SIZE(uhsfs_super, 4096);
UHSFS_OFFSET(uhsfs_super, magic, 0);
UHSFS_OFFSET(uhsfs_super, crc, 8);
UHSFS_OFFSET(uhsfs_super, version, 12);
UHSFS_OFFSET(uhsfs_super, uuid, 16);
UHSFS_OFFSET(uhsfs_super, fsid, 32);
UHSFS_OFFSET(uhsfs_super, block, 40);
UHSFS_OFFSET(uhsfs_super, seq, 48);
UHSFS_OFFSET(uhsfs_super, compat, 56);
UHSFS_OFFSET(uhsfs_super, ro_compat, 64);
UHSFS_OFFSET(uhsfs_super, incompat, 72);
UHSFS_OFFSET(uhsfs_super, block_size, 80);
UHSFS_OFFSET(uhsfs_super, slot_size, 84);
UHSFS_OFFSET(uhsfs_super, erase_unit, 88);
UHSFS_OFFSET(uhsfs_super, atomic, 92);
UHSFS_OFFSET(uhsfs_super, errors, 93);
UHSFS_OFFSET(uhsfs_super, state, 94);
UHSFS_OFFSET(uhsfs_super, reserved0, 95);
UHSFS_OFFSET(uhsfs_super, blocks, 96);
UHSFS_OFFSET(uhsfs_super, groups_used, 104);
UHSFS_OFFSET(uhsfs_super, chunks_used, 112);
UHSFS_OFFSET(uhsfs_super, reserve_blocks, 120);
UHSFS_OFFSET(uhsfs_super, epoch, 128);
UHSFS_OFFSET(uhsfs_super, segments, 132);
UHSFS_OFFSET(uhsfs_super, free_blocks, 136);
UHSFS_OFFSET(uhsfs_super, used_slots, 144);
UHSFS_OFFSET(uhsfs_super, hash_key, 152);
UHSFS_OFFSET(uhsfs_super, nonce_key, 168);
UHSFS_OFFSET(uhsfs_super, made_ns, 184);
UHSFS_OFFSET(uhsfs_super, mounted_ns, 192);
UHSFS_OFFSET(uhsfs_super, checked_ns, 200);
UHSFS_OFFSET(uhsfs_super, mounts, 208);
UHSFS_OFFSET(uhsfs_super, refcount_root, 216);
UHSFS_OFFSET(uhsfs_super, snapshot_root, 232);
UHSFS_OFFSET(uhsfs_super, quota_root, 248);
UHSFS_OFFSET(uhsfs_super, label, 296);
UHSFS_OFFSET(uhsfs_super, writer, 360);
UHSFS_OFFSET(uhsfs_super, reserved1, 392);
UHSFS_OFFSET(uhsfs_super, segment, 1024);

UHSFS_SIZE(uhsfs_chunk, 64);
UHSFS_OFFSET(uhsfs_chunk, block, 0);
UHSFS_OFFSET(uhsfs_chunk, nonce, 8);
UHSFS_OFFSET(uhsfs_chunk, in_use, 16);
UHSFS_OFFSET(uhsfs_chunk, incarnation, 24);
UHSFS_OFFSET(uhsfs_chunk, gen_base, 28);
UHSFS_OFFSET(uhsfs_chunk, birth, 32);
UHSFS_OFFSET(uhsfs_chunk, written, 36);
UHSFS_OFFSET(uhsfs_chunk, reserved0, 38);
UHSFS_OFFSET(uhsfs_chunk, reserved, 40);

UHSFS_SIZE(uhsfs_table_block, 4096);
UHSFS_OFFSET(uhsfs_table_block, h, 0);
UHSFS_OFFSET(uhsfs_table_block, first_chunk, 48);
UHSFS_OFFSET(uhsfs_table_block, reserved, 56);
UHSFS_OFFSET(uhsfs_table_block, chunk, 64);

UHSFS_SIZE(uhsfs_map_block, 4096);
UHSFS_OFFSET(uhsfs_map_block, h, 0);
UHSFS_OFFSET(uhsfs_map_block, index, 48);
UHSFS_OFFSET(uhsfs_map_block, epoch, 56);
UHSFS_OFFSET(uhsfs_map_block, set, 60);
UHSFS_OFFSET(uhsfs_map_block, zone, 64);
UHSFS_OFFSET(uhsfs_map_block, reserved, 65);
UHSFS_OFFSET(uhsfs_map_block, bits, 2048);

UHSFS_SIZE(uhsfs_extent, 24);
UHSFS_OFFSET(uhsfs_extent, logical, 0);
UHSFS_OFFSET(uhsfs_extent, physical, 8);
UHSFS_OFFSET(uhsfs_extent, len, 16);
UHSFS_OFFSET(uhsfs_extent, birth, 20);

UHSFS_SIZE(uhsfs_tree_ref, 16);
UHSFS_OFFSET(uhsfs_tree_ref, key, 0);
UHSFS_OFFSET(uhsfs_tree_ref, block, 8);

UHSFS_SIZE(uhsfs_tree_node, 4096);
UHSFS_OFFSET(uhsfs_tree_node, h, 0);
UHSFS_OFFSET(uhsfs_tree_node, level, 48);
UHSFS_OFFSET(uhsfs_tree_node, count, 50);
UHSFS_OFFSET(uhsfs_tree_node, used, 52);
UHSFS_OFFSET(uhsfs_tree_node, reserved0, 54);
UHSFS_OFFSET(uhsfs_tree_node, reserved1, 56);
UHSFS_OFFSET(uhsfs_tree_node, extent, 64);
UHSFS_OFFSET(uhsfs_tree_node, ref, 64);
UHSFS_OFFSET(uhsfs_tree_node, bytes, 64);

UHSFS_SIZE(uhsfs_slot, 168);
UHSFS_OFFSET(uhsfs_slot, h, 0);
UHSFS_OFFSET(uhsfs_slot, block_seq, 48);
UHSFS_OFFSET(uhsfs_slot, nonce, 56);
UHSFS_OFFSET(uhsfs_slot, name_seq_max, 64);
UHSFS_OFFSET(uhsfs_slot, size, 72);
UHSFS_OFFSET(uhsfs_slot, blocks, 80);
UHSFS_OFFSET(uhsfs_slot, atime, 88);
UHSFS_OFFSET(uhsfs_slot, mtime, 96);
UHSFS_OFFSET(uhsfs_slot, ctime, 104);
UHSFS_OFFSET(uhsfs_slot, btime, 112);
UHSFS_OFFSET(uhsfs_slot, mode, 120);
UHSFS_OFFSET(uhsfs_slot, state, 122);
UHSFS_OFFSET(uhsfs_slot, reserved0, 123);
UHSFS_OFFSET(uhsfs_slot, nlink, 124);
UHSFS_OFFSET(uhsfs_slot, uid, 128);
UHSFS_OFFSET(uhsfs_slot, gid, 132);
UHSFS_OFFSET(uhsfs_slot, projid, 136);
UHSFS_OFFSET(uhsfs_slot, flags, 140);
UHSFS_OFFSET(uhsfs_slot, version, 144);
UHSFS_OFFSET(uhsfs_slot, prev_image, 152);
UHSFS_OFFSET(uhsfs_slot, body_len, 160);
UHSFS_OFFSET(uhsfs_slot, reserved1, 162);

UHSFS_SIZE(uhsfs_tlv, 8);
UHSFS_OFFSET(uhsfs_tlv, type, 0);
UHSFS_OFFSET(uhsfs_tlv, len, 2);
UHSFS_OFFSET(uhsfs_tlv, reserved, 4);

UHSFS_SIZE(uhsfs_name, 24);
UHSFS_OFFSET(uhsfs_name, parent_ino, 0);
UHSFS_OFFSET(uhsfs_name, parent_gen, 8);
UHSFS_OFFSET(uhsfs_name, len, 12);
UHSFS_OFFSET(uhsfs_name, reserved, 13);
UHSFS_OFFSET(uhsfs_name, name_seq, 16);
UHSFS_OFFSET(uhsfs_name, name, 24);

UHSFS_SIZE(uhsfs_names_root, 16);
UHSFS_OFFSET(uhsfs_names_root, block, 0);
UHSFS_OFFSET(uhsfs_names_root, count, 8);
UHSFS_OFFSET(uhsfs_names_root, depth, 12);
UHSFS_OFFSET(uhsfs_names_root, reserved, 14);

UHSFS_SIZE(uhsfs_intent, 40);
UHSFS_OFFSET(uhsfs_intent, peer_ino, 0);
UHSFS_OFFSET(uhsfs_intent, peer_gen, 8);
UHSFS_OFFSET(uhsfs_intent, op, 12);
UHSFS_OFFSET(uhsfs_intent, len, 13);
UHSFS_OFFSET(uhsfs_intent, reserved, 14);
UHSFS_OFFSET(uhsfs_intent, parent_ino, 16);
UHSFS_OFFSET(uhsfs_intent, parent_gen, 24);
UHSFS_OFFSET(uhsfs_intent, reserved1, 28);
UHSFS_OFFSET(uhsfs_intent, name_seq, 32);
UHSFS_OFFSET(uhsfs_intent, name, 40);

UHSFS_SIZE(uhsfs_device, 8);
UHSFS_OFFSET(uhsfs_device, major, 0);
UHSFS_OFFSET(uhsfs_device, minor, 4);

UHSFS_SIZE(uhsfs_extent_root, 24);
UHSFS_OFFSET(uhsfs_extent_root, block, 0);
UHSFS_OFFSET(uhsfs_extent_root, depth, 8);
UHSFS_OFFSET(uhsfs_extent_root, reserved, 12);
UHSFS_OFFSET(uhsfs_extent_root, count, 16);

UHSFS_SIZE(uhsfs_xattr, 8);
UHSFS_OFFSET(uhsfs_xattr, space, 0);
UHSFS_OFFSET(uhsfs_xattr, name_len, 1);
UHSFS_OFFSET(uhsfs_xattr, reserved, 2);
UHSFS_OFFSET(uhsfs_xattr, value_len, 4);
UHSFS_OFFSET(uhsfs_xattr, bytes, 8);

UHSFS_SIZE(uhsfs_xattr_root, 16);
UHSFS_OFFSET(uhsfs_xattr_root, block, 0);
UHSFS_OFFSET(uhsfs_xattr_root, bytes, 8);
UHSFS_OFFSET(uhsfs_xattr_root, depth, 12);
UHSFS_OFFSET(uhsfs_xattr_root, reserved, 14);

UHSFS_SIZE(uhsfs_xattr_block, 4096);
UHSFS_OFFSET(uhsfs_xattr_block, h, 0);
UHSFS_OFFSET(uhsfs_xattr_block, level, 48);
UHSFS_OFFSET(uhsfs_xattr_block, count, 50);
UHSFS_OFFSET(uhsfs_xattr_block, used, 52);
UHSFS_OFFSET(uhsfs_xattr_block, position, 56);
UHSFS_OFFSET(uhsfs_xattr_block, reserved, 60);
UHSFS_OFFSET(uhsfs_xattr_block, bytes, 64);
UHSFS_OFFSET(uhsfs_xattr_block, index, 64);

UHSFS_SIZE(uhsfs_dir_root, 24);
UHSFS_OFFSET(uhsfs_dir_root, buckets, 0);
UHSFS_OFFSET(uhsfs_dir_root, overflow, 4);
UHSFS_OFFSET(uhsfs_dir_root, entries, 8);
UHSFS_OFFSET(uhsfs_dir_root, subdirs, 16);
UHSFS_OFFSET(uhsfs_dir_root, reserved, 20);

UHSFS_SIZE(uhsfs_entry, 24);
UHSFS_OFFSET(uhsfs_entry, cookie, 0);
UHSFS_OFFSET(uhsfs_entry, ino, 8);
UHSFS_OFFSET(uhsfs_entry, gen, 16);
UHSFS_OFFSET(uhsfs_entry, type, 20);
UHSFS_OFFSET(uhsfs_entry, len, 21);
UHSFS_OFFSET(uhsfs_entry, reserved, 22);
UHSFS_OFFSET(uhsfs_entry, name, 24);

UHSFS_SIZE(uhsfs_bucket, 4096);
UHSFS_OFFSET(uhsfs_bucket, h, 0);
UHSFS_OFFSET(uhsfs_bucket, bucket, 48);
UHSFS_OFFSET(uhsfs_bucket, next, 52);
UHSFS_OFFSET(uhsfs_bucket, count, 56);
UHSFS_OFFSET(uhsfs_bucket, used, 58);
UHSFS_OFFSET(uhsfs_bucket, position, 60);
UHSFS_OFFSET(uhsfs_bucket, prev_image, 64);
UHSFS_OFFSET(uhsfs_bucket, entries, 72);

UHSFS_SIZE(uhsfs_quota, 80);
UHSFS_OFFSET(uhsfs_quota, id, 0);
UHSFS_OFFSET(uhsfs_quota, flags, 4);
UHSFS_OFFSET(uhsfs_quota, used_blocks, 8);
UHSFS_OFFSET(uhsfs_quota, used_inodes, 16);
UHSFS_OFFSET(uhsfs_quota, soft_blocks, 24);
UHSFS_OFFSET(uhsfs_quota, hard_blocks, 32);
UHSFS_OFFSET(uhsfs_quota, soft_inodes, 40);
UHSFS_OFFSET(uhsfs_quota, hard_inodes, 48);
UHSFS_OFFSET(uhsfs_quota, block_grace, 56);
UHSFS_OFFSET(uhsfs_quota, inode_grace, 64);
UHSFS_OFFSET(uhsfs_quota, reserved, 72);

UHSFS_SIZE(uhsfs_quota_block, 4096);
UHSFS_OFFSET(uhsfs_quota_block, h, 0);
UHSFS_OFFSET(uhsfs_quota_block, kind, 48);
UHSFS_OFFSET(uhsfs_quota_block, count, 50);
UHSFS_OFFSET(uhsfs_quota_block, reserved, 52);
UHSFS_OFFSET(uhsfs_quota_block, quota, 56);
UHSFS_OFFSET(uhsfs_quota_block, reserved1, 4056);

UHSFS_LAYOUT_ASSERT(sizeof(struct uhsfs_slot) == UHSFS_SLOT_HEADER);
UHSFS_LAYOUT_ASSERT(sizeof(struct uhsfs_super) == UHSFS_BLOCK_SIZE);
UHSFS_LAYOUT_ASSERT(UHSFS_MAP_BITS * UHSFS_GROUP_MAPS == UHSFS_GROUP_BLOCKS);

#endif /* UHSFS_ONDISK_H */
