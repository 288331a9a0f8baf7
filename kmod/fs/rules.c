// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameter break_rule; see rules.h.
 */
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "rules.h"

static char break_rule[8];
module_param_string(break_rule, break_rule, sizeof(break_rule), 0600);

bool uhsfs_breaks(const char *rule)
{
	return !strcmp(break_rule, rule);
}
