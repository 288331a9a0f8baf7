// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/fs/uhsfs: what this module is and can do.
 *
 *	version		the module's version
 *	features/NAME	"supported" for each feature of this module; what it cannot
 *			do has no file
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
