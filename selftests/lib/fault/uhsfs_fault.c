// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the kernel report one chosen fault at load, so that the test runner can
 * prove that it notices.  For virtual machines only: "oops", "hang" (a processor
 * that spins) and "dstate" (a task that waits for ever) leave a kernel that must be
 * thrown away.
 *
 *	insmod uhsfs_fault.ko what=warn|bug|oops|sleep|lockdep|leak|useafterfree|hang|dstate
 *
 * "sleep", "lockdep", "leak" and "useafterfree" are reported by debug kernels only.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *what = "none";
module_param(what, charp, 0444);
MODULE_PARM_DESC(what, "the fault to make");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(atomic);

static void fault_warn(void)
{
	WARN(1, "a warning on request");
}

static void fault_bug(void)
{
	BUG();
}

static void fault_oops(void)
{
	int *volatile nowhere = NULL;

	*nowhere = 1;
}

static void fault_sleep(void)
{
	spin_lock(&atomic);
	msleep(1);
	spin_unlock(&atomic);
}

static void fault_lockdep(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void fault_leak(void)
{
	/* Several, because a stale copy of one pointer on a stack hides that one. */
	for (int i = 0; i < 16; i++) {
		char *volatile lost = kmalloc(120, GFP_KERNEL);

		if (lost)
			lost[0] = 1;
	}
}

static void fault_useafterfree(void)
{
	char *volatile gone = kmalloc(64, GFP_KERNEL);

	kfree(gone);
	if (gone)
		gone[3] = 1;
}

static void fault_hang(void)
{
	for (;;)
		cpu_relax();
}

static void fault_dstate(void)
{
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
	}
}

static const struct {
	const char *name;
	void (*make)(void);
} faults[] = {
	{ "warn", fault_warn },
	{ "bug", fault_bug },
	{ "oops", fault_oops },
	{ "sleep", fault_sleep },
	{ "lockdep", fault_lockdep },
	{ "leak", fault_leak },
	{ "useafterfree", fault_useafterfree },
	{ "hang", fault_hang },
	{ "dstate", fault_dstate },
};

static int __init uhsfs_fault_init(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		if (!strcmp(what, faults[i].name)) {
			faults[i].make();
			return 0;
		}
	}
	pr_err("what=%s: no such fault\n", what);
	return -EINVAL;
}

static void __exit uhsfs_fault_exit(void)
{
}

module_init(uhsfs_fault_init);
module_exit(uhsfs_fault_exit);
MODULE_DESCRIPTION("Kernel faults on request, for tests of the test runner");
MODULE_LICENSE("GPL");
