/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events (/sys/kernel/tracing/events/uhsfs).
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM uhsfs

#if !defined(UHSFS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define UHSFS_TRACE_H

#include <linux/tracepoint.h>

#include "uhsfs.h"

/* The name `name` was looked up: ino is what it leads to, 0 if there is none; or an error. */
TRACE_EVENT(uhsfs_lookup,
	TP_PROTO(const struct inode *dir, const struct qstr *name, u64 ino, int err),
	TP_ARGS(dir, name, ino, err),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, dir)
		__field(u64, ino)
		__field(int, err)
		__string(name, name->name)
	),
	TP_fast_assign(
		__entry->dev = dir->i_sb->s_dev;
		__entry->dir = dir->i_ino;
		__entry->ino = ino;
		__entry->err = err;
		uhsfs_assign_str(name, name->name);
	),
	TP_printk("dev %d:%d dir %llu name %s ino %llu err %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->dir, __get_str(name), __entry->ino, __entry->err)
);

/* The home of a slot block was read from the device. */
TRACE_EVENT(uhsfs_slot_read,
	TP_PROTO(const struct super_block *sb, u64 first_ino, u64 block, int err),
	TP_ARGS(sb, first_ino, block, err),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, first_ino)
		__field(u64, block)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->dev = sb->s_dev;
		__entry->first_ino = first_ino;
		__entry->block = block;
		__entry->err = err;
	),
	TP_printk("dev %d:%d ino %llu block %llu err %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->first_ino, __entry->block, __entry->err)
);

/* Damage was found: every report passes here, those that the log leaves out too. */
TRACE_EVENT(uhsfs_corruption,
	TP_PROTO(const struct super_block *sb, u64 ino, const struct uhsfs_fault *fault),
	TP_ARGS(sb, ino, fault),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, ino)
		__field(u64, id)
		__field(u64, value)
		__field(u64, limit)
		__string(object, fault->object)
		__string(field, fault->field)
		__string(rule, fault->rule)
	),
	TP_fast_assign(
		__entry->dev = sb->s_dev;
		__entry->ino = ino;
		__entry->id = fault->id;
		__entry->value = fault->value;
		__entry->limit = fault->limit;
		uhsfs_assign_str(object, fault->object);
		uhsfs_assign_str(field, fault->field);
		uhsfs_assign_str(rule, fault->rule);
	),
	TP_printk("dev %d:%d ino %llu: %s %llu: %s is %#llx: %s (%#llx)", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->ino, __get_str(object), __entry->id,
		  __get_str(field), __entry->value, __get_str(rule), __entry->limit)
);

#endif /* UHSFS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH fs
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
