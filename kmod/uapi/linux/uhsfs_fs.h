/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * uhsfs on disk.  The one description of the format, shared by the kernel, the
 * tools and BPF programs.
 */
#ifndef _UAPI_LINUX_UHSFS_FS_H
#define _UAPI_LINUX_UHSFS_FS_H

/* First bytes of a superblock; also the basis of statfs's f_type. */
#define UHSFS_SB_MAGIC		"UHSFSSB1"

/* Bytes of a filesystem block; a kernel with another page size cannot mount. */
#define UHSFS_BLOCK_SIZE	4096
#define UHSFS_BLOCK_SHIFT	12

#endif /* _UAPI_LINUX_UHSFS_FS_H */
