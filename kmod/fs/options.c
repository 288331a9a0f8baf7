// SPDX-License-Identifier: GPL-2.0
/*
 * Mount options: what may be said, and how it is shown in /proc/mounts.  Documented in
 * Documentation/filesystems/mounting.rst.
 */
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/seq_file.h>

#include "uhsfs.h"

enum {
	OPT_CHECKPOINT,
	OPT_DISCARD,
	OPT_ERRORS,
	OPT_NORECOVERY,
};

static const struct constant_table errors_table[] = {
	{ "continue", UHSFS_ERRORS_CONTINUE },
	{ "remount-ro", UHSFS_ERRORS_REMOUNT_RO },
	{ "panic", UHSFS_ERRORS_PANIC },
	{}
};

const struct fs_parameter_spec uhsfs_parameters[] = {
	fsparam_u32("checkpoint", OPT_CHECKPOINT),
	fsparam_flag_no("discard", OPT_DISCARD),
	fsparam_enum("errors", OPT_ERRORS, errors_table),
	fsparam_flag("norecovery", OPT_NORECOVERY),
	{}
};

int uhsfs_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	struct uhsfs_options *options = fc->fs_private;
	struct fs_parse_result result;
	int option = fs_parse(fc, uhsfs_parameters, param, &result);

	switch (option) {
	case OPT_CHECKPOINT:
		if (!result.uint_32 || result.uint_32 > UHSFS_CHECKPOINT_MAX)
			return invalf(fc, "uhsfs: checkpoint=%u: must be 1 to %u seconds",
				      result.uint_32, UHSFS_CHECKPOINT_MAX);
		options->checkpoint = result.uint_32;
		options->has_checkpoint = true;
		return 0;
	case OPT_DISCARD:
		options->discard = !result.negated;
		options->has_discard = true;
		return 0;
	case OPT_ERRORS:
		options->errors = result.uint_32;
		options->has_errors = true;
		return 0;
	case OPT_NORECOVERY:
		options->norecovery = true;
		return 0;
	default:
		return option;
	}
}

int uhsfs_show_options(struct seq_file *seq, struct dentry *root)
{
	const struct uhsfs_sb_info *sbi = uhsfs_sb(root->d_sb);

	for (int i = 0; errors_table[i].name; i++)
		if (errors_table[i].value == sbi->options.errors)
			seq_printf(seq, ",errors=%s", errors_table[i].name);
	if (sbi->options.checkpoint != UHSFS_CHECKPOINT_SECONDS)
		seq_printf(seq, ",checkpoint=%u", sbi->options.checkpoint);
	if (sbi->options.discard)
		seq_puts(seq, ",discard");
	if (sbi->options.norecovery)
		seq_puts(seq, ",norecovery");
	return 0;
}
