// SPDX-License-Identifier: GPL-2.0
/*
 * No program: proves that the on-disk format has the same layout for BPF, whose programs
 * will read it in traces and λ functions.
 */
#include "../../kmod/core/ondisk.h"
