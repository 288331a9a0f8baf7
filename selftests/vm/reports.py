# SPDX-License-Identifier: GPL-2.0
"""What in a kernel log is a fault: lines as kernels print them, and lines that only look alike."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "vm"))

from vmlib import reports  # noqa: E402

FAULTS = """
------------[ cut here ]------------
WARNING: CPU: 1 PID: 84 at fs/inode.c:304 drop_nlink+0x41/0x50
BUG: kernel NULL pointer dereference, address: 0000000000000000
BUG: unable to handle page fault for address: ffffc90000400000
kernel BUG at fs/uhsfs/alloc.c:42!
Oops: 0002 [#1] PREEMPT SMP NOPTI
general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] PREEMPT SMP
Kernel panic - not syncing: Fatal exception
BUG: sleeping function called from invalid context at mm/slab.h:421
BUG: scheduling while atomic: insmod/77/0x00000002
WARNING: possible circular locking dependency detected
WARNING: possible recursive locking detected
WARNING: possible irq lock inversion dependency detected
WARNING: inconsistent lock state
WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected
WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected
WARNING: SOFTIRQ-READ-safe -> SOFTIRQ-READ-unsafe lock order detected
WARNING: bad unlock balance detected!
WARNING: dd/123 still has locks held!
WARNING: lock held when returning to user space!
WARNING: suspicious RCU usage
WARNING: Nested lock was not taken
INFO: trying to register non-static key.
BUG: KASAN: use-after-free in fault_useafterfree+0x41/0x60 [uhsfs_fault]
BUG kmalloc-64 (Tainted: G    B      O      ): Redzone overwritten
BUG uhsfs_inode (Not tainted): Objects remaining in uhsfs_inode on __kmem_cache_shutdown()
UBSAN: shift-out-of-bounds in kmod/core/map.c:10:5
BUG: KCSAN: data-race in uhsfs_read / uhsfs_write
unreferenced object 0xffff888003a5f900 (size 128):
refcount_t: underflow; use-after-free.
list_add corruption. prev->next should be next (ffff88), but was 0000.
VFS: Busy inodes after unmount of nvme0n1. Self-destruct in 5 seconds.  Have a nice day...
kobject (00000000c5ae5d3c): tried to init an initialized object, something is seriously wrong.
sysfs: cannot create duplicate filename '/fs/uhsfs/nvme0n1'
BUG: Dentry 00000000c9e1ce0e{i=1,n=/} still in use (1) [unmount of uhsfs nvme0n1]
INFO: task insmod:77 blocked for more than 30 seconds.
INFO: task insmod:77 blocked when the command had ended
watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [insmod:77]
rcu: INFO: rcu_preempt self-detected stall on CPU
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... } 26 jiffies s: 45 root: 0x2/.
BUG: Bad page state in process dd  pfn:03a5f
vm-init: only some of 2 devices /dev/nvme*n1 appeared
""".strip().splitlines()

HARMLESS = """
Linux version 6.1.0-57-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0)
Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on, data leaks possible via Spectre v2 BHB attacks!
tsc: Unable to calibrate against PIT
mtrr: your CPUs had inconsistent fixed MTRR settings
uhsfs: loading out-of-tree module taints kernel.
uhsfs: module verification failed: signature and/or required key missing - tainting kernel
uhsfs: nvme0n1: cannot mount: debug build of version 0.1.0
traps: prog[123] general protection fault ip:401136 sp:7ffd error:0 in prog[401000+1000]
traps: prog[124] trap divide error ip:401136 sp:7ffd error:0 in prog[401000+1000]
prog[125]: segfault at 0 ip 0000000000401136 sp 00007ffd error 6 in prog[401000+1000]
Out of memory: Killed process 99 (stress) total-vm:123kB
nvme nvme0: 2/0/0 default/read/poll queues
Starting systemd-udevd version 252.39-1~deb12u2
DEBUG: a line of a program
sysrq: Power Off
""".strip().splitlines()


class Scan(unittest.TestCase):
    def test_faults(self):
        """every kind of report is found, with and without a time stamp"""
        for line in FAULTS:
            for shown in (line, f"[    3.141593] {line}", f"[   12.000001][   T77] {line}"):
                with self.subTest(line=shown):
                    self.assertEqual(reports.scan(shown), [shown])

    def test_harmless(self):
        """lines that only look like reports are none"""
        for line in HARMLESS:
            for shown in (line, f"[    3.141593] {line}"):
                with self.subTest(line=shown):
                    self.assertEqual(reports.scan(shown), [])

    def test_excerpts(self):
        """an excerpt has what stands around the fault; two that touch are one"""
        lines = [f"line {n}" for n in range(200)]
        lines[50] = lines[60] = lines[150] = "BUG: x"
        first, second = reports.scan("\n".join(lines))
        self.assertEqual(first.splitlines(), lines[48:100])
        self.assertEqual(second.splitlines(), lines[148:190])

    def test_taint(self):
        """a warning whose text was lost shows in the taint flags; a module from outside is no fault"""
        self.assertEqual(reports.taint_words(1 << 9 | 1 << 12), ["warning"])
        self.assertEqual(reports.taint_words(1 << 12 | 1 << 13), [])


if __name__ == "__main__":
    unittest.main()
