/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * uhsfs on disk: the one description of the format, shared by the kernel, the
 * tools and BPF programs.  Drawings and worked examples are in
 * Documentation/filesystems/uhsfs.rst; the rules that order writes (R0-R8, N1, N2)
 * are named here where a field exists because of one.
 *
 * All integers are little-endian.  A "block" is 4096 bytes and a block number counts
 * them from the start of the device.  Every structure is naturally aligned: there is
 * no implicit padding, reserved fields are written as zero and refused otherwise.
 *
 * HOMES.  Everything that is overwritten in place has a home: one block where a
 * 4096-byte write is atomic (atomic = device), else two adjacent blocks (atomic =
 * shadow), of which the valid one with the higher seq counts.  The first write of a
 * shadow home writes both copies with one seq, in one request; later writes alternate,
 * beginning with copy 1.  So a copy that is invalid is always a torn write or rot, never
 * what stood there before.  "Home i of a region" is block region + i * H, H = 1 or 2.
 *
 *  block 0       1           2 ... 2+2H-1      ...                   32767
 *  +-----------+------------+----------------+----------------------+------------+
 *  | untouched | superblock | bitmap homes   | data, chunks, trees, | superblock |
 *  |           | copy 0     | of group 0     | tables, maps         | copy 1     |
 *  +-----------+------------+----------------+----------------------+------------+
 *  group g > 0 has its bitmap homes at the same offsets 2 ... 2+2H-1; its other
 *  blocks are free.  In a filesystem of less than a group copy 1 is block 1023, so
 *  that it can be found without knowing the size.
 */
#ifndef _UAPI_LINUX_UHSFS_FS_H
#define _UAPI_LINUX_UHSFS_FS_H

#include <linux/types.h>

/* ---- sizes ------------------------------------------------------------- */

#define UHSFS_BLOCK_SIZE	4096	/* a kernel with another page size cannot mount */
#define UHSFS_BLOCK_SHIFT	12

#define UHSFS_GROUP_BLOCKS	32768	/* 128 MiB */
#define UHSFS_MAP_BITS		16384	/* bits in a bitmap or intent map block */
#define UHSFS_GROUP_MAPS	2	/* bitmap homes of a group */
#define UHSFS_BITMAP_OFFSET	2	/* of the first of them, in blocks from the group's start */
#define UHSFS_MIN_BLOCKS	1024	/* smallest filesystem: 4 MiB */
#define UHSFS_MAX_BLOCKS	(1ULL << 48)	/* 1 EiB */
#define UHSFS_MIN_LAST_GROUP	64	/* a shorter last group is left unused */

#define UHSFS_CHUNK_BLOCKS	16	/* slot homes of an inode chunk */
#define UHSFS_SLOT_SIZE_MIN	1024
#define UHSFS_SLOT_SIZE_MAX	4096
#define UHSFS_MAX_CHUNKS	(1ULL << 40)

#define UHSFS_NAME_LEN		255
#define UHSFS_SYMLINK_MAX	4095
#define UHSFS_LINK_MAX		0x7fffffffU
#define UHSFS_LABEL_LEN		64
#define UHSFS_UUID_LEN		16

#define UHSFS_INO_INVALID	0ULL
#define UHSFS_INO_ROOT		1ULL

/* Erase unit of the large zone, in blocks. */
#define UHSFS_ERASE_UNIT_DEFAULT	512	/* 2 MiB */
#define UHSFS_ERASE_UNIT_MIN		16
#define UHSFS_ERASE_UNIT_MAX		16384

/* ---- record header ------------------------------------------------------ */

/* Four letters read as a little-endian integer. */
#define UHSFS_TAG(a, b, c, d) \
	((__u32)(a) | (__u32)(b) << 8 | (__u32)(c) << 16 | (__u32)(d) << 24)

#define UHSFS_TAG_SLOT		UHSFS_TAG('S', 'L', 'O', 'T')	/* inode slot */
#define UHSFS_TAG_BUCKET	UHSFS_TAG('B', 'U', 'C', 'K')	/* directory bucket */
#define UHSFS_TAG_EXTENT	UHSFS_TAG('E', 'X', 'T', 'N')	/* extent tree node */
#define UHSFS_TAG_NAMES		UHSFS_TAG('N', 'A', 'M', 'E')	/* names tree node */
#define UHSFS_TAG_XATTR		UHSFS_TAG('X', 'A', 'T', 'R')	/* extended attributes */
#define UHSFS_TAG_BITMAP	UHSFS_TAG('B', 'M', 'A', 'P')	/* free space */
#define UHSFS_TAG_CHUNKS	UHSFS_TAG('C', 'H', 'N', 'K')	/* chunk descriptors */
#define UHSFS_TAG_INTENT	UHSFS_TAG('I', 'N', 'T', 'M')	/* write-intent map */
#define UHSFS_TAG_SUSPECT	UHSFS_TAG('S', 'U', 'S', 'P')	/* suspect map */
#define UHSFS_TAG_QUOTA		UHSFS_TAG('Q', 'U', 'O', 'T')	/* quota limits and usage */

/*
 * Head of every metadata record.
 *
 * seq orders images of one home: epoch << 32 | counter.  crc covers the whole record
 * (a slot: its slot_size bytes; anything else: the block) with crc itself as zero.
 */
struct uhsfs_header {
	__le32	magic;		/* UHSFS_TAG_... */
	__le32	crc;		/* CRC-32C */
	__le64	fsid;		/* of the superblock: an older filesystem's record is garbage */
	__le64	block;		/* the block this record was written to */
	__le64	owner_ino;	/* inode it belongs to; 0: the filesystem */
	__le32	owner_gen;	/* generation of that inode */
	__le32	flags;		/* none defined */
	__le64	seq;
};

/* ---- superblock --------------------------------------------------------- */

/* First eight bytes, without a terminator. */
#define UHSFS_SB_MAGIC		"UHSFSSB1"
#define UHSFS_SUPER_MAGIC	0x55485346	/* f_type of statfs(2) */
#define UHSFS_SB_BLOCK		1	/* copy 0 */
#define UHSFS_SB_COPY_SMALL	1023	/* copy 1 of a filesystem of less than a group */
#define UHSFS_SB_COPY		32767	/* copy 1 of any other: the end of group 0 */

/* Changes with every incompatible step while EXPERIMENTAL is set. */
#define UHSFS_FORMAT_VERSION	1

/*
 * A kernel that does not know a bit may mount (COMPAT), may mount read-only (RO_COMPAT)
 * or must not mount at all (INCOMPAT).
 */
#define UHSFS_COMPAT_SUPPORTED		0ULL

#define UHSFS_RO_COMPAT_QUOTA		(1ULL << 0)	/* reserved */
#define UHSFS_RO_COMPAT_REFLINK		(1ULL << 1)	/* reserved: shared extents */
#define UHSFS_RO_COMPAT_SNAPSHOTS	(1ULL << 2)	/* reserved: prev_image, dead lists */
#define UHSFS_RO_COMPAT_SUPPORTED	0ULL

/* A new field, TLV type or inode flag needs a bit here, or older code calls it damage. */
#define UHSFS_INCOMPAT_EXPERIMENTAL	(1ULL << 0)	/* the format may still change */
#define UHSFS_INCOMPAT_PM		(1ULL << 1)	/* reserved: UHSFS_TLV_PM */
#define UHSFS_INCOMPAT_SUPPORTED	UHSFS_INCOMPAT_EXPERIMENTAL

#define UHSFS_ATOMIC_DEVICE	1	/* 4096-byte writes are atomic: one copy per home */
#define UHSFS_ATOMIC_SHADOW	2	/* two copies per home */

/*
 * A run of chunk numbers and where what belongs to them stands.  mkfs makes the
 * first; growing adds more.  Each of the four regions is contiguous, in homes:
 * DIV_ROUND_UP(chunks, UHSFS_TABLE_CHUNKS) for the table and
 * DIV_ROUND_UP(chunks, UHSFS_MAP_BITS) for each map.
 */
struct uhsfs_segment {
	__le64	first_chunk;
	__le64	chunks;
	__le64	table;		/* first block of the chunk descriptors */
	__le64	intent[2];	/* of the write-intent maps; epoch e uses map e & 1 */
	__le64	suspect;	/* of the suspect map */
	__le64	reserved[2];
};

#define UHSFS_MAX_SEGMENTS	48

/* A tree root reserved for later use; block 0: none. */
struct uhsfs_root {
	__le64	block;
	__le32	depth;
	__le32	reserved;
};

struct uhsfs_super {
	__u8	magic[8];	/* UHSFS_SB_MAGIC */
	__le32	crc;		/* CRC-32C of the block with this field as zero */
	__le32	version;	/* UHSFS_FORMAT_VERSION */
	__u8	uuid[UHSFS_UUID_LEN];
	__le64	fsid;		/* random: ties every record to this mkfs */
	__le64	block;		/* where this copy stands */
	__le64	seq;		/* the higher copy counts */
	__le64	compat;
	__le64	ro_compat;
	__le64	incompat;

	__le32	block_size;	/* 4096 */
	__le32	slot_size;	/* 1024, 2048 or 4096 */
	__le32	erase_unit;	/* blocks */
	__u8	atomic;		/* UHSFS_ATOMIC_... */
	__u8	errors;		/* UHSFS_ERRORS_..., default for the mount option */
	__u8	state;		/* UHSFS_STATE_... */
	__u8	reserved0;

	__le64	blocks;		/* size of the filesystem */
	__le64	groups_used;	/* groups from here on were never used: their bitmaps are garbage */
	__le64	chunks_used;	/* chunks from here on had no descriptor at the last checkpoint */
	__le64	reserve_blocks;	/* kept for copy-on-write and frees on a full disk */

	/*
	 * E: the newest epoch that is checkpointed.  The epoch of seq above is at least that
	 * of any record on the device: a mount draws its epochs from above it and raises it
	 * before it writes anything else.
	 */
	__le32	epoch;
	__le32	segments;	/* entries of segment[] in use */
	__le64	free_blocks;	/* as of E */
	__le64	used_slots;	/* as of E */

	__u8	hash_key[16];	/* SipHash key of directory cookies and names trees */
	__u8	nonce_key[16];	/* SipHash key of chunk nonces */

	__le64	made_ns;	/* time of mkfs */
	__le64	mounted_ns;	/* time of the newest read-write mount */
	__le64	checked_ns;	/* time of the newest complete check */
	__le64	mounts;		/* read-write mounts since mkfs */

	struct uhsfs_root refcount_root;	/* reserved, RO_COMPAT_REFLINK */
	struct uhsfs_root snapshot_root;	/* reserved, RO_COMPAT_SNAPSHOTS */
	struct uhsfs_root quota_root[3];	/* reserved: user, group, project */

	__u8	label[UHSFS_LABEL_LEN];	/* UTF-8, zero-padded */
	__u8	writer[32];		/* program and version that made it, zero-padded */
	__u8	reserved1[632];

	struct uhsfs_segment segment[UHSFS_MAX_SEGMENTS];
};

#define UHSFS_EPOCH_MAX		0xfffffff0U	/* at one a second, 136 years */

#define UHSFS_ERRORS_REMOUNT_RO	0
#define UHSFS_ERRORS_CONTINUE	1
#define UHSFS_ERRORS_PANIC	2

#define UHSFS_STATE_ERROR	0x01	/* damage was found; a check is due */

/* ---- chunk descriptors --------------------------------------------------- */

/*
 * A chunk holds 16 slot homes.  ino = chunk * slots per chunk + index.  The
 * descriptor is durable before the chunk's first slot.  in_use has a bit per slot
 * and is brought up to date by checkpoints; it follows the slots (R3).
 */
struct uhsfs_chunk {
	__le64	block;		/* first block; 0: this chunk was never made */
	__le64	nonce;		/* keyed hash of chunk and incarnation, in each of its slots */
	__le64	in_use;
	__le32	incarnation;	/* how often this number was given space */
	__le32	gen_base;	/* random generation that new slots start from */
	__le32	birth;		/* epoch that made it; newer than E and unmarked: unused */
	__le16	written;	/* bit per slot home that was ever written; others read as FREE */
	__le16	reserved0;
	__le64	reserved[3];
};

#define UHSFS_TABLE_CHUNKS	63	/* descriptors in a table block */

struct uhsfs_table_block {
	struct uhsfs_header h;
	__le64	first_chunk;	/* number of chunk[0] */
	__le64	reserved;
	struct uhsfs_chunk chunk[UHSFS_TABLE_CHUNKS];
};

/* ---- bitmaps and maps ---------------------------------------------------- */

/*
 * One shape for free space, write intents and suspects.
 *
 * BMAP: bit set = block in use; index = 2 * group + half.  Bits past the end of the
 * device are set.  INTM: bit set = some slot of this chunk may have changed in epoch
 * `epoch`; an epoch that is not newer than the superblock's means all clear (R0).
 * SUSP: bit set = entries that point into this chunk need confirmation.
 * index of an INTM or SUSP block = the first chunk it covers.
 */
struct uhsfs_map_block {
	struct uhsfs_header h;
	__le64	index;
	__le32	epoch;		/* INTM and SUSP; BMAP: zero */
	__le32	set;		/* bits set */
	__u8	zone;		/* BMAP: UHSFS_ZONE_... in half 0, which counts; else 0 */
	__u8	reserved[1983];
	__u8	bits[UHSFS_MAP_BITS / 8];
};

#define UHSFS_ZONE_UNASSIGNED	0
#define UHSFS_ZONE_SMALL	1	/* single blocks, files packed densely */
#define UHSFS_ZONE_LARGE	2	/* whole erase units */

/* ---- extents -------------------------------------------------------------- */

/* Flags in the upper 12 bits of the two 52-bit block numbers. */
#define UHSFS_EXTENT_BITS	52
#define UHSFS_EXTENT_MASK	((1ULL << UHSFS_EXTENT_BITS) - 1)
#define UHSFS_EXTENT_UNWRITTEN	(1ULL << 52)	/* of physical: reads as zeros */
#define UHSFS_EXTENT_SHARED	(1ULL << 53)	/* of physical; reserved for reflink */
#define UHSFS_EXTENT_MAX_LEN	0xffffffffU

/*
 * len file blocks from logical on stand at physical.  In a directory of a shadow
 * filesystem a logical block is a bucket with two copies, so that the extent covers
 * 2 * len device blocks.
 */
struct uhsfs_extent {
	__le64	logical;	/* bits 52-63: flags, none defined */
	__le64	physical;	/* bits 52-63: UHSFS_EXTENT_... */
	__le32	len;
	__le32	birth;		/* epoch of allocation, the newest one if extents were merged */
};

#define UHSFS_TREE_HEADER	64
#define UHSFS_EXTENT_LEAF_MAX	168
#define UHSFS_TREE_NODE_MAX	252
#define UHSFS_TREE_MAX_DEPTH	8	/* nodes from root to leaf */

/* Entry of an inner node: everything with a key >= key, up to the next entry's. */
struct uhsfs_tree_ref {
	__le64	key;
	__le64	block;
};

/* Nodes of both trees are copy-on-write and durable before the slot that roots them (R2). */
struct uhsfs_tree_node {
	struct uhsfs_header h;
	__le16	level;		/* 0 = leaf */
	__le16	count;		/* entries */
	__le16	used;		/* names leaf: bytes in use after this header; else 0 */
	__le16	reserved0;
	__le64	reserved1;
	union {
		struct uhsfs_extent extent[UHSFS_EXTENT_LEAF_MAX];	/* EXTN leaf, by logical */
		struct uhsfs_tree_ref ref[UHSFS_TREE_NODE_MAX];		/* inner node, by key */
		__u8	bytes[UHSFS_BLOCK_SIZE - UHSFS_TREE_HEADER];	/* NAME leaf */
	};
};

/* ---- slots ---------------------------------------------------------------- */

#define UHSFS_SLOT_HEADER	168

#define UHSFS_SLOT_FREE		1
#define UHSFS_SLOT_INODE	2

/*
 * An inode.  slot_size bytes: this header, then type-length-value records up to
 * body_len, then zeros.  A FREE slot keeps generation and name_seq_max and has no body.
 */
struct uhsfs_slot {
	struct uhsfs_header h;	/* owner: this inode and its generation */
	__le64	block_seq;	/* one for all slots of a copy, valid only as a whole */
	__le64	nonce;		/* of the chunk */
	__le64	name_seq_max;	/* the newest name_seq this slot ever had */
	__le64	size;		/* bytes; a directory: 0 */
	__le64	blocks;		/* device blocks that belong to it, trees and homes included */
	__le64	atime;		/* signed nanoseconds since 1970, as all times */
	__le64	mtime;
	__le64	ctime;
	__le64	btime;
	__le16	mode;		/* type and permissions as in stat(2) */
	__u8	state;		/* UHSFS_SLOT_... */
	__u8	reserved0;
	__le32	nlink;		/* names it has, exact; the root directory has none */
	__le32	uid;
	__le32	gid;
	__le32	projid;
	__le32	flags;		/* UHSFS_INODE_... */
	__le64	version;	/* change counter (statx, NFS) */
	__le64	prev_image;	/* reserved for snapshots */
	__le16	body_len;	/* bytes of TLV records after this header */
	__u8	reserved1[6];
};

#define UHSFS_INODE_SYNC	0x00000001
#define UHSFS_INODE_IMMUTABLE	0x00000002
#define UHSFS_INODE_APPEND	0x00000004
#define UHSFS_INODE_NODUMP	0x00000008
#define UHSFS_INODE_NOATIME	0x00000010
#define UHSFS_INODE_DIRSYNC	0x00000020
#define UHSFS_INODE_PROJINHERIT	0x00000040
#define UHSFS_INODE_FLAGS	0x0000007f

/*
 * A TLV record: this head, len bytes of value, zeros up to a multiple of 8.  Types
 * stand in ascending order, each at most once, so that one state has one image.
 */
struct uhsfs_tlv {
	__le16	type;
	__le16	len;		/* bytes of the value, without head and padding */
	__le32	reserved;
};

#define UHSFS_TLV_NAME		1	/* struct uhsfs_name: the first name */
#define UHSFS_TLV_INTENT	2	/* struct uhsfs_intent: half an operation (R8) */
#define UHSFS_TLV_NAMES		3	/* struct uhsfs_names_root: all further names */
#define UHSFS_TLV_DIR		4	/* struct uhsfs_dir_root */
#define UHSFS_TLV_DEVICE	5	/* struct uhsfs_device */
#define UHSFS_TLV_XATTRS	6	/* xattr entries, see struct uhsfs_xattr */
#define UHSFS_TLV_XATTR_ROOT	7	/* struct uhsfs_xattr_root, instead of XATTRS */
#define UHSFS_TLV_INLINE	8	/* file data, or the target of a symlink */
#define UHSFS_TLV_EXTENTS	9	/* struct uhsfs_extent[], by logical, instead of INLINE */
#define UHSFS_TLV_EXTENT_ROOT	10	/* struct uhsfs_extent_root, instead of EXTENTS */
#define UHSFS_TLV_TYPES		11
#define UHSFS_TLV_PM		11	/* reserved, INCOMPAT_PM: root of the inode's PM log */

/* A name this inode has.  In a slot and in leaves of names trees (padded to 8). */
struct uhsfs_name {
	__le64	parent_ino;
	__le32	parent_gen;
	__u8	len;		/* 1 to UHSFS_NAME_LEN */
	__u8	reserved[3];
	__le64	name_seq;	/* of two claims to a name the higher one holds */
	__u8	name[];		/* no '/', no NUL, not "." or ".." */
};

/* Names tree: key = SipHash of parent and name, see kmod/core/names.h. */
struct uhsfs_names_root {
	__le64	block;
	__le32	count;		/* names in the tree */
	__le16	depth;		/* nodes from root to leaf */
	__u8	reserved[2];
};

#define UHSFS_INTENT_EXCHANGE	1
#define UHSFS_INTENT_WHITEOUT	2

/*
 * What recovery finishes if only this slot of a two-slot operation is durable:
 * inode `peer` is to have the name `parent/name` with name_seq.
 */
struct uhsfs_intent {
	__le64	peer_ino;
	__le32	peer_gen;
	__u8	op;		/* UHSFS_INTENT_... */
	__u8	len;		/* of name */
	__u8	reserved[2];
	__le64	parent_ino;
	__le32	parent_gen;
	__le32	reserved1;
	__le64	name_seq;
	__u8	name[];
};

struct uhsfs_device {
	__le32	major;
	__le32	minor;
};

struct uhsfs_extent_root {
	__le64	block;
	__le32	depth;		/* nodes from root to leaf */
	__le32	reserved;
	__le64	count;		/* extents in the tree */
};

/* ---- extended attributes --------------------------------------------------- */

#define UHSFS_XATTR_USER	1
#define UHSFS_XATTR_TRUSTED	2
#define UHSFS_XATTR_SECURITY	3
#define UHSFS_XATTR_ACL_ACCESS	4	/* no name; the value as in system.posix_acl_access */
#define UHSFS_XATTR_ACL_DEFAULT	5
#define UHSFS_XATTR_SPACES	6

#define UHSFS_XATTR_SIZE_MAX	65536	/* bytes of one value */
#define UHSFS_XATTR_BYTES_MAX	(504 * 4032)	/* bytes of all entries of an inode */

/*
 * One attribute; entries follow one another, padded to 8, ordered by space, then
 * name bytes, then name length.
 */
struct uhsfs_xattr {
	__u8	space;		/* UHSFS_XATTR_... */
	__u8	name_len;	/* 0 for the two ACLs, else 1 to 255 */
	__le16	reserved;
	__le32	value_len;
	__u8	bytes[];	/* name, then value */
};

/*
 * Entries that do not fit the slot: one stream of bytes cut into copy-on-write
 * blocks.  depth 1: block holds the stream; depth 2: block is an index of them.
 */
struct uhsfs_xattr_root {
	__le64	block;
	__le32	bytes;		/* length of the stream */
	__le16	depth;
	__u8	reserved[2];
};

#define UHSFS_XATTR_PAYLOAD	4032
#define UHSFS_XATTR_INDEX_MAX	504

struct uhsfs_xattr_block {
	struct uhsfs_header h;
	__le16	level;		/* 0: bytes, 1: index */
	__le16	count;		/* index: entries; else 0 */
	__le32	used;		/* level 0: bytes; else 0 */
	__le32	position;	/* level 0: number of this part of the stream; else 0 */
	__le32	reserved;
	union {
		__u8	bytes[UHSFS_XATTR_PAYLOAD];
		__le64	index[UHSFS_XATTR_INDEX_MAX];
	};
};

/* ---- directories ------------------------------------------------------------ */

/*
 * A directory is an index of buckets, found through its extents: logical block b is
 * bucket b.  Linear hashing on the leading bits of the cookie: see kmod/core/dir.h.
 * Overflow blocks of buckets are logical blocks from UHSFS_DIR_OVERFLOW on.
 */
#define UHSFS_DIR_OVERFLOW	(1ULL << 32)
#define UHSFS_DIR_MAX_BUCKETS	(1U << 31)

struct uhsfs_dir_root {
	__le32	buckets;	/* >= 1 */
	__le32	overflow;	/* overflow blocks ever given out; logical blocks below count */
	__le64	entries;	/* a hint, recounted at first use after recovery */
	__le32	subdirs;	/* likewise */
	__le32	reserved;
};

/*
 * Cookie: bits 62-7 = leading 56 bits of the name's SipHash (never all zero), bits
 * 6-0 = tie-breaker chosen at insertion, so that cookies of a directory are unique.
 * It is the readdir position.  0, 1 and 2 are end or ".", "..", and the first entry;
 * 2^63 - 1 is the position behind the last one, so that no entry has it.
 */
#define UHSFS_COOKIE_TIE_BITS	7
#define UHSFS_COOKIE_TIES	(1U << UHSFS_COOKIE_TIE_BITS)
#define UHSFS_COOKIE_HASH_BITS	56
#define UHSFS_COOKIE_DOT	0ULL
#define UHSFS_COOKIE_DOTDOT	1ULL
#define UHSFS_COOKIE_FIRST	2ULL

/* Entries follow one another, padded to 8; a hint until the slot confirms it. */
struct uhsfs_entry {
	__le64	cookie;
	__le64	ino;
	__le32	gen;
	__u8	type;		/* DT_... of readdir(3) */
	__u8	len;		/* of name */
	__u8	reserved[2];
	__u8	name[];
};

#define UHSFS_BUCKET_PAYLOAD	4024

struct uhsfs_bucket {
	struct uhsfs_header h;	/* owner: the directory */
	__le32	bucket;		/* number of the bucket, in overflow blocks too */
	__le32	next;		/* overflow block: logical UHSFS_DIR_OVERFLOW + next - 1; 0: none */
	__le16	count;		/* entries */
	__le16	used;		/* bytes of them */
	__le32	position;	/* 0 in the bucket itself, n in its nth overflow block */
	__le64	prev_image;	/* reserved for snapshots */
	__u8	entries[UHSFS_BUCKET_PAYLOAD];
};

/* ---- quota (reserved, RO_COMPAT_QUOTA; how blocks are found is not fixed yet) - */

struct uhsfs_quota {
	__le32	id;
	__le32	flags;
	__le64	used_blocks;
	__le64	used_inodes;
	__le64	soft_blocks;
	__le64	hard_blocks;
	__le64	soft_inodes;
	__le64	hard_inodes;
	__le64	block_grace;	/* when it runs out, seconds since 1970; 0: not running */
	__le64	inode_grace;
	__le64	reserved;
};

#define UHSFS_QUOTA_PER_BLOCK	50

struct uhsfs_quota_block {
	struct uhsfs_header h;
	__le16	kind;		/* 0 user, 1 group, 2 project */
	__le16	count;
	__le32	reserved;
	struct uhsfs_quota quota[UHSFS_QUOTA_PER_BLOCK];
	__u8	reserved1[40];
};

#endif /* _UAPI_LINUX_UHSFS_FS_H */
