// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Record headers: filling in, sealing, checking; homes: choosing a copy.
 */
#include "record.h"

#include "crc32c.h"
#include "ondisk.h"

#define CRC_OFFSET offsetof(struct uhsfs_header, crc)

static u32 record_crc(const void *record, size_t len)
{
	static const u8 zero[4];
	const u8 *bytes = record;
	u32 crc;

	crc = uhsfs_crc32c(0, bytes, CRC_OFFSET);
	crc = uhsfs_crc32c(crc, zero, sizeof(zero));
	bytes += CRC_OFFSET + sizeof(zero);
	return uhsfs_crc32c(crc, bytes, len - CRC_OFFSET - sizeof(zero));
}

void uhsfs_record_init(struct uhsfs_header *h, const struct uhsfs_record_id *id, u64 seq)
{
	h->magic = cpu_to_le32(id->magic);
	h->crc = 0;
	h->fsid = cpu_to_le64(id->fsid);
	h->block = cpu_to_le64(id->block);
	h->owner_ino = cpu_to_le64(id->owner_ino);
	h->owner_gen = cpu_to_le32(id->owner_gen);
	h->flags = 0;
	h->seq = cpu_to_le64(seq);
}

void uhsfs_record_seal(void *record, size_t len)
{
	struct uhsfs_header *h = record;

	h->crc = cpu_to_le32(record_crc(record, len));
}

void uhsfs_record_move(void *record, size_t len, u64 block)
{
	struct uhsfs_header *h = record;

	h->block = cpu_to_le64(block);
	uhsfs_record_seal(record, len);
}

int uhsfs_record_check(const void *record, size_t len, const struct uhsfs_record_id *id,
		       struct uhsfs_fault *fault)
{
	const struct uhsfs_header *h = record;
	u32 crc;

	if (le32_to_cpu(h->magic) != id->magic)
		return uhsfs_bad(fault, id->object, id->block, "magic", le32_to_cpu(h->magic),
				 id->magic, UHSFS_RULE_EQUAL);
	crc = record_crc(record, len);
	if (le32_to_cpu(h->crc) != crc)
		return uhsfs_bad(fault, id->object, id->block, "crc", le32_to_cpu(h->crc), crc,
				 UHSFS_RULE_EQUAL);
	if (le64_to_cpu(h->fsid) != id->fsid)
		return uhsfs_bad(fault, id->object, id->block, "fsid", le64_to_cpu(h->fsid),
				 id->fsid, UHSFS_RULE_EQUAL);
	if (le64_to_cpu(h->block) != id->block)
		return uhsfs_bad(fault, id->object, id->block, "block", le64_to_cpu(h->block),
				 id->block, UHSFS_RULE_EQUAL);
	if (le64_to_cpu(h->owner_ino) != id->owner_ino)
		return uhsfs_bad(fault, id->object, id->block, "owner_ino",
				 le64_to_cpu(h->owner_ino), id->owner_ino, UHSFS_RULE_EQUAL);
	if (le32_to_cpu(h->owner_gen) != id->owner_gen)
		return uhsfs_bad(fault, id->object, id->block, "owner_gen",
				 le32_to_cpu(h->owner_gen), id->owner_gen, UHSFS_RULE_EQUAL);
	if (h->flags)
		return uhsfs_bad(fault, id->object, id->block, "flags", le32_to_cpu(h->flags), 0,
				 UHSFS_RULE_ZERO);
	return 0;
}

bool uhsfs_record_same(const void *a, const void *b, size_t len)
{
	const struct uhsfs_header *x = a, *y = b;

	return x->magic == y->magic && x->fsid == y->fsid &&
	       !memcmp(&x->owner_ino, &y->owner_ino,
		       len - offsetof(struct uhsfs_header, owner_ino));
}

int uhsfs_home_choose(const struct uhsfs_copy *a, const struct uhsfs_copy *b, bool *suspicious)
{
	*suspicious = a->valid != b->valid;
	if (!a->valid && !b->valid)
		return -EUCLEAN;
	if (a->valid && b->valid)
		return b->seq > a->seq;
	return b->valid;
}
