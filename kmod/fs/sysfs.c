// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/fs/uhsfs: what this module is and can do.
 *
 *	version		the module's version
 *	features/NAME	"supported" for each feature of this module; what it cannot
 *			do has no file
 *	DEVICE/		a mounted filesystem
 *
 * Documented in Documentation/ABI/testing/sysfs-fs-uhsfs.
 */
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/sysfs.h>

#include "uhsfs.h"

static struct kobject *uhsfs_root;
static struct kobject *uhsfs_features;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", UHSFS_VERSION);
}

static struct kobj_attribute version_attr = __ATTR_RO(version);

static ssize_t feature_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "supported\n");
}

static struct kobj_attribute crc32c_attr = __ATTR(crc32c, 0444, feature_show, NULL);
static struct kobj_attribute siphash_attr = __ATTR(siphash, 0444, feature_show, NULL);

static const struct attribute *uhsfs_feature_attrs[] = {
	&crc32c_attr.attr,
	&siphash_attr.attr,
	NULL,
};

/* ---- a mounted filesystem --------------------------------------------------- */

static struct uhsfs_sb_info *sbi_of(struct kobject *kobj)
{
	return container_of(kobj, struct uhsfs_sb_info, kobj);
}

static ssize_t corruptions_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lld\n", atomic64_read(&sbi_of(kobj)->corruptions));
}

static ssize_t recovery_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct uhsfs_sb_info *sbi = sbi_of(kobj);

	if (sbi->blind)
		return sysfs_emit(buf, "skipped\n");
	return sysfs_emit(buf, "%s\n", sbi->overlay ? "in-memory" : "clean");
}

static ssize_t epoch_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", sbi_of(kobj)->super.epoch);
}

#define COMMITS(rule) \
static ssize_t commits_##rule##_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf) \
{ \
	return sysfs_emit(buf, "%lld\n", atomic64_read(&sbi_of(kobj)->commits_##rule)); \
} \
static struct kobj_attribute commits_##rule##_attr = __ATTR_RO(commits_##rule)

COMMITS(r4);
COMMITS(r6);
COMMITS(r8);

static struct kobj_attribute corruptions_attr = __ATTR_RO(corruptions);
static struct kobj_attribute recovery_attr = __ATTR_RO(recovery);
static struct kobj_attribute epoch_attr = __ATTR_RO(epoch);

static struct attribute *volume_attrs[] = {
	&corruptions_attr.attr,
	&recovery_attr.attr,
	&epoch_attr.attr,
	&commits_r4_attr.attr,
	&commits_r6_attr.attr,
	&commits_r8_attr.attr,
	NULL,
};
ATTRIBUTE_GROUPS(volume);

static void volume_release(struct kobject *kobj)
{
	complete(&sbi_of(kobj)->kobj_gone);
}

static const struct kobj_type volume_type = {
	.default_groups = volume_groups,
	.sysfs_ops = &kobj_sysfs_ops,
	.release = volume_release,
};

int uhsfs_sysfs_add(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);
	int err;

	init_completion(&sbi->kobj_gone);
	err = kobject_init_and_add(&sbi->kobj, &volume_type, uhsfs_root, "%s", sb->s_id);
	if (err)
		uhsfs_err(sb, "cannot make /sys/fs/uhsfs/%s (error %d)", sb->s_id, err);
	return err;
}

/* Waits for readers; to be called also if adding failed. */
void uhsfs_sysfs_remove(struct super_block *sb)
{
	struct uhsfs_sb_info *sbi = uhsfs_sb(sb);

	if (!sbi->kobj.state_initialized)
		return;
	kobject_put(&sbi->kobj);
	wait_for_completion(&sbi->kobj_gone);
}

/* ---- the module ----------------------------------------------------------------- */

int __init uhsfs_sysfs_init(void)
{
	int err;

	uhsfs_root = kobject_create_and_add("uhsfs", fs_kobj);
	if (!uhsfs_root)
		return -ENOMEM;
	err = sysfs_create_file(uhsfs_root, &version_attr.attr);
	if (err)
		goto out_root;
	uhsfs_features = kobject_create_and_add("features", uhsfs_root);
	if (!uhsfs_features) {
		err = -ENOMEM;
		goto out_root;
	}
	err = sysfs_create_files(uhsfs_features, uhsfs_feature_attrs);
	if (err)
		goto out_features;
	return 0;

out_features:
	kobject_put(uhsfs_features);
out_root:
	kobject_put(uhsfs_root);
	return err;
}

void uhsfs_sysfs_exit(void)
{
	kobject_put(uhsfs_features);
	kobject_put(uhsfs_root);
}
