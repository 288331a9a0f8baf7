# SPDX-License-Identifier: GPL-2.0
"""Boots: what shares one, what is handed to the virtual machine, and how its death is counted."""
import os
import pathlib
import signal
import subprocess
import time

from fixture import RUN_SECONDS, TreeTest

GOOD = "echo 1..2; echo ok 1 a; echo ok 2 b"
CRASH = "echo 1..3; echo ok 1 a; echo CRASH; sleep 60"


class Boots(TreeTest):
    def guest(self, mode, *names_and_bodies):
        """Guest tests of one area; a plan of 2 for GOOD, 3 for others."""
        self.tree.settings("g", f"vm={f'--fake {mode}' if mode else ''}", "timeout=5")
        for name, body in names_and_bodies:
            self.tree.script(f"g/{name}", 2 if body == GOOD else 3, body)
        return self.tree.run()

    def test_good(self):
        """a guest test passes in a virtual machine"""
        self.assert_counts(self.guest("", ("a", GOOD)), 2, 0, 0)
        self.assertEqual(len(self.tree.boots()), 1)

    def test_arguments(self):
        """kernel, timeout and options reach the virtual machine"""
        self.tree.settings("g", "vm=--nvme 1G,lba=4096 --mem 1G", "kernels=6.12", "timeout=7")
        self.tree.script("g/a", 2, GOOD)
        self.assert_counts(self.tree.run(), 2, 0, 0)
        words = self.tree.boots()[0].split()
        self.assertEqual(words[:3], ["--kernel", "6.12", "--timeout"])
        self.assertGreaterEqual(int(words[3]), 7)
        self.assertEqual(words[4:], ["--nvme", "1G,lba=4096", "--mem", "1G", "--quiet"])

    def test_shared(self):
        """areas with the same needs share one boot"""
        for area in ("g", "h"):
            self.tree.settings(area, "vm=--mem 1G")
            self.tree.script(f"{area}/a", 2, GOOD)
            self.tree.script(f"{area}/b", 2, GOOD)
        self.assert_counts(self.tree.run(), 8, 0, 0)
        self.assertEqual(len(self.tree.boots()), 1)

    def test_not_shared(self):
        """a test with other options gets a boot of its own"""
        self.tree.script("g/a", 2, GOOD)
        self.tree.script("g/b", 2, GOOD, '# settings: vm="--mem 2G"')
        self.assert_counts(self.tree.run(), 4, 0, 0)
        self.assertEqual(len(self.tree.boots()), 2)

    def test_kernels(self):
        """one boot per kernel, each counted"""
        self.tree.settings("g", "kernels=6.1 6.12")
        self.tree.script("g/a", 2, 'echo 1..2; echo ok 1; echo not ok 2; echo "# $KERNEL_VERSION"; exit 1')
        outcome = self.tree.run()
        self.assert_counts(outcome, 2, 2, 0)
        self.assertEqual({case["message"] for case in outcome.cases("failed")}, {"# 6.1", "# 6.12"})

    def test_restrict_kernel(self):
        """--kernel leaves out the boots on others"""
        self.tree.settings("g", "kernels=6.1 6.12")
        self.tree.script("g/a", 2, GOOD)
        self.assert_counts(self.tree.run("--kernel", "6.12"), 2, 0, 0)
        self.assertEqual([boot.split()[1] for boot in self.tree.boots()], ["6.12"])

    def test_never(self):
        """a virtual machine that never starts fails every planned test"""
        outcome = self.guest("never", ("a", GOOD), ("b", GOOD))
        self.assert_counts(outcome, 0, 4, 0, says="qemu: cannot boot")

    def test_no_runner(self):
        """a missing tools/vm/run fails every planned test"""
        self.tree.script("g/a", 2, GOOD)
        self.assert_counts(self.tree.run(UHSFS_VM_RUN=""), 0, 2, 0, says="not reached")

    def test_dies(self):
        """a virtual machine that dies fails the test it died in and all behind it, as planned"""
        outcome = self.guest("die", ("a", GOOD), ("b", CRASH), ("c", GOOD))
        self.assert_counts(outcome, 2, 5, 0, says="died")
        self.assertIn("not reached", outcome.messages())

    def test_late(self):
        """a virtual machine that runs out of time counts in the same way"""
        outcome = self.guest("late", ("a", GOOD), ("b", CRASH), ("c", GOOD))
        self.assert_counts(outcome, 2, 5, 0, says="ran out of time")

    def test_dies_at_the_end(self):
        """a virtual machine that dies after the last test is one failure"""
        self.assert_counts(self.guest("poweroff", ("a", GOOD)), 2, 1, 0, says="virtual machine: ")

    def test_report(self):
        """a report in the kernel log is one failure more, and is shown"""
        outcome = self.guest("report", ("a", GOOD), ("b", GOOD))
        self.assert_counts(outcome, 4, 1, 0, says="kernel log: ")
        self.assertIn("fs/uhsfs/alloc.c:42", outcome.stdout)

    def test_panic(self):
        """a report that ends the machine leaves results as they came and fails the rest"""
        outcome = self.guest("panic", ("a", GOOD), ("b", CRASH), ("c", GOOD))
        self.assert_counts(outcome, 3, 5, 0, says="kernel log: ")

    def test_stuck(self):
        """a process that SIGKILL does not end fails the test that left it, and the next one runs"""
        body = "echo 1..3; setsid sleep 12 & echo ok 1; echo ok 2; echo ok 3"
        outcome = self.guest("immortal", ("a", body), ("b", GOOD))
        self.assert_counts(outcome, 5, 1, 0, says="left processes: left a process that hangs in the kernel")
        self.assertIn("(sleep) does not die", outcome.messages())

    def test_plan_problem(self):
        """a boot in which nothing can run is not made"""
        self.tree.script("g/a", None, GOOD)
        self.assert_counts(self.tree.run(), 0, 1, 0, says="no plan")
        self.assertEqual(self.tree.boots(), [])

    def test_host_is_not_booted(self):
        """a host test in a guest area runs without a boot"""
        self.tree.script("g/a", 2, GOOD, "# settings: where=host")
        self.assert_counts(self.tree.run(), 2, 0, 0)
        self.assertEqual(self.tree.boots(), [])

    def test_suite_debug(self):
        """the suite debug runs its tests on the debug kernel, with more time"""
        self.tree.settings("g", "suite=check debug", "timeout=30", "kernels=6.1 6.12")
        self.tree.script("g/a", 2, GOOD)
        self.tree.script("g/b", 2, GOOD, "# settings: suite=check")
        self.assert_counts(self.tree.run("--suite", "debug"), 2, 0, 0)
        (boot,) = self.tree.boots()
        self.assertEqual(boot.split()[1], "debug")
        self.assertGreaterEqual(int(boot.split()[3]), 300)

    def test_jobs(self):
        """--jobs 2 lets two boots overlap"""
        for name, other in (("a", "b"), ("b", "a")):
            top = self.tree.top
            wait = f"for i in $(seq 100); do [ -e {top}/{other} ] && break; sleep 0.1; done"
            body = f"touch {top}/{name}; {wait}; echo 1..1; [ -e {top}/{other} ] && echo ok 1"
            self.tree.script(f"g/{name}", 1, body, f'# settings: vm="--mem {name}"')
        self.assert_counts(self.tree.run("--jobs", "2"), 2, 0, 0)


class Interruption(TreeTest):
    def wait(self, happened):
        deadline = time.monotonic() + RUN_SECONDS
        while not happened():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def interrupt(self, number, ready):
        """Start the runner, signal it once the file `ready` is there; returns its last line and status."""
        with subprocess.Popen(self.tree.command(), env=self.tree.environment(), stdout=subprocess.PIPE,
                              text=True) as child:
            self.wait(ready.exists)
            child.send_signal(number)
            output = child.communicate(timeout=RUN_SECONDS)[0]
        return output.splitlines()[-1], child.returncode

    def test_boot(self):
        """SIGTERM ends the virtual machine and counts the unfinished as failed"""
        self.tree.settings("g", "vm=--fake hang")
        self.tree.script("g/a", 2, GOOD)
        self.tree.script("h/a", 2, GOOD)
        ready = pathlib.Path(f"{self.tree.vm_log}.pid")
        self.assertEqual(self.interrupt(signal.SIGTERM, ready), ("0 passed, 4 failed, 0 skipped", 1))
        self.assertRaises(ProcessLookupError, os.kill, int(ready.read_text()), 0)

    def test_host(self):
        """Ctrl-C ends a host test with all its processes and counts the unfinished as failed"""
        self.tree.settings("a", "where=host")
        pid = self.tree.top / "pid"
        self.tree.script("a/1", 2, GOOD)
        self.tree.script("a/2", 3, f"echo 1..3; echo ok 1; sleep 300 & echo $! >{pid}.new; mv {pid}.new {pid}; wait")
        self.tree.script("a/3", 2, GOOD)
        self.assertEqual(self.interrupt(signal.SIGINT, pid), ("2 passed, 5 failed, 0 skipped", 1))
        self.assertRaises(ProcessLookupError, os.kill, int(pid.read_text()), 0)

    def test_hangup(self):
        """a terminal that closes ends the run as Ctrl-C does"""
        self.tree.settings("a", "where=host")
        pid = self.tree.top / "pid"
        self.tree.script("a/1", 3, f"echo 1..3; echo ok 1; sleep 300 & echo $! >{pid}.new; mv {pid}.new {pid}; wait")
        self.assertEqual(self.interrupt(signal.SIGHUP, pid), ("0 passed, 3 failed, 0 skipped", 1))
        self.assertRaises(ProcessLookupError, os.kill, int(pid.read_text()), 0)

    def test_killed(self):
        """when the runner itself is killed, its tests end with all their processes"""
        self.tree.settings("a", "where=host")
        pid = self.tree.top / "pid"
        self.tree.script("a/1", 1, f"echo 1..1; setsid sleep 300 & echo $! >{pid}.new; mv {pid}.new {pid}; wait")
        with subprocess.Popen(self.tree.command(), env=self.tree.environment(), stdout=subprocess.DEVNULL) as child:
            self.wait(pid.exists)
            child.kill()
        self.wait(lambda: not pathlib.Path("/proc", pid.read_text().strip()).exists())
