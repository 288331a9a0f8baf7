/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Internal interface of kmod/fs: what its files offer one another.
 */
#ifndef UHSFS_H
#define UHSFS_H

#include "compat/compat.h"

/* sysfs.c: /sys/fs/uhsfs */
int uhsfs_sysfs_init(void);
void uhsfs_sysfs_exit(void);

#endif /* UHSFS_H */
