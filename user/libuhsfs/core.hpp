/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The core (kmod/core), all of it that knows the format.
 */
#pragma once

#include "chunk.h"
#include "dir.h"
#include "etree.h"
#include "extent.h"
#include "fault.h"
#include "map.h"
#include "names.h"
#include "siphash.h"
#include "slot.h"
#include "super.h"
#include "xattr.h"
