/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules of ordering that a test switches off, one at a time, to see that it notices.  Only
 * modules that are built with UHSFS_BREAK_RULES can do that (tools/build-modules --breakable);
 * in all others these are constants.
 */
#ifndef UHSFS_RULES_H
#define UHSFS_RULES_H

#include <linux/types.h>

#ifdef UHSFS_BREAK_RULES
/* Is this the rule in the module parameter break_rule? */
bool uhsfs_breaks(const char *rule);
#else
static inline bool uhsfs_breaks(const char *rule)
{
	return false;
}
#endif

#endif /* UHSFS_RULES_H */
