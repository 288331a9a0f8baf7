// SPDX-License-Identifier: GPL-2.0
/*
 * What goes to the kernel log, and what damage leads to.
 *
 * Every line names the device.  Lines are limited per filesystem, so that a damaged
 * image cannot fill the log; what is left out is counted all the same.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/printk.h>

#include "rw.h"
#include "trace.h"

void uhsfs_err(struct super_block *sb, const char *format, ...)
{
	struct va_format text = { .fmt = format };
	va_list args;

	if (!__ratelimit(&uhsfs_sb(sb)->messages))
		return;
	va_start(args, format);
	text.va = &args;
	pr_err("%s: %pV\n", sb->s_id, &text);
	va_end(args);
}

void uhsfs_notice(struct super_block *sb, const char *format, ...)
{
	struct va_format text = { .fmt = format };
	va_list args;

	va_start(args, format);
	text.va = &args;
	pr_notice("%s: %pV\n", sb->s_id, &text);
	va_end(args);
}

/* Apply errors=.  A read-only mount has nothing to stop. */
static void react(struct super_block *sb)
{
	switch (READ_ONCE(uhsfs_sb(sb)->options.errors)) {
	case UHSFS_ERRORS_PANIC:
		panic(KBUILD_MODNAME ": %s: damaged, and errors=panic\n", sb->s_id);
	case UHSFS_ERRORS_REMOUNT_RO:
		if (sb_rdonly(sb))
			break;
		sb->s_flags |= SB_RDONLY;
		if (uhsfs_sb(sb)->rw) {
			WRITE_ONCE(uhsfs_sb(sb)->rw->failed, true);
			wake_up_all(&uhsfs_sb(sb)->rw->settled);
		}
		uhsfs_notice(sb, "read-only from now on, because of the damage");
		break;
	default:
		break;
	}
}

int uhsfs_fault(struct super_block *sb, u64 ino, const struct uhsfs_fault *fault)
{
	atomic64_inc(&uhsfs_sb(sb)->corruptions);
	trace_uhsfs_corruption(sb, ino, fault);
	if (ino)
		uhsfs_err(sb, "inode %llu: %s %llu: %s is %#llx: %s (%#llx)", ino, fault->object,
			  fault->id, fault->field, fault->value, fault->rule, fault->limit);
	else
		uhsfs_err(sb, "%s %llu: %s is %#llx: %s (%#llx)", fault->object, fault->id,
			  fault->field, fault->value, fault->rule, fault->limit);
	react(sb);
	return -EUCLEAN;
}

int uhsfs_corrupt(struct super_block *sb, u64 ino, const char *field, u64 value, u64 limit,
		  const char *rule)
{
	struct uhsfs_fault fault;

	uhsfs_bad(&fault, "slot", ino, field, value, limit, rule);
	return uhsfs_fault(sb, ino, &fault);
}
