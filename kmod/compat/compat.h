/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows kernel versions.  Code elsewhere is written for the
 * newest supported kernel; what older ones lack or name differently is supplied
 * here.  The supported range comes from META through Kbuild.
 */
#ifndef UHSFS_COMPAT_H
#define UHSFS_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(UHSFS_KERNEL_MIN_MAJOR, UHSFS_KERNEL_MIN_MINOR, 0)
#error "uhsfs: this kernel is older than Kernel-Minimum in META"
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(UHSFS_KERNEL_MAX_MAJOR, UHSFS_KERNEL_MAX_MINOR + 1, 0)
#error "uhsfs: this kernel is newer than Kernel-Maximum in META"
#endif

#endif /* UHSFS_COMPAT_H */
