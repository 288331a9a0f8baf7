# SPDX-License-Identifier: GPL-2.0
"""A small tree of tests in a temporary folder, and the real runner run on it.

Tree.script() writes a test that prints exactly what it is told, without tap.sh, so that every way
to break the protocol can be tried.  Tree.run() gives back exit status, output and the JSON report.
The virtual machine is the script fake-vm.
"""
import json
import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
RUNNER = HERE.parent / "run"
FAKE_VM = HERE / "fake-vm"
RUN_SECONDS = 120


class Outcome:
    """What one run of the runner gave."""

    def __init__(self, status, stdout, stderr, report):
        self.status, self.stdout, self.stderr, self.report = status, stdout, stderr, report
        self.last = stdout.splitlines()[-1] if stdout.splitlines() else ""

    @property
    def counts(self):
        return (self.report["passed"], self.report["failed"], self.report["skipped"])

    def cases(self, status=None):
        return [case for case in self.report["cases"] if status in (None, case["status"])]

    def messages(self, status="failed"):
        return "\n".join(f"{case['name']}: {case['message']}" for case in self.cases(status))


class Tree:
    """A temporary project."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="uhsfs-tree-")
        self.top = pathlib.Path(self.holder.name).resolve()
        self.vm_log = self.top / "vm.log"
        (self.top / "selftests").mkdir()

    def write(self, name, text, mode=0o644):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def settings(self, area, *lines):
        self.write(f"selftests/{area}/settings", "".join(f"{line}\n" for line in lines))

    def script(self, name, plan, body, header=""):
        """selftests/NAME.sh with the literal `plan PLAN` (none if None), whose output `body` makes."""
        planned = f"plan() {{ :; }}\nplan {plan}\n" if plan is not None else ""
        self.write(f"selftests/{name}.sh", f"#!/usr/bin/env bash\n{header}\n{planned}{body}\n", 0o755)

    def binary(self, name, body):
        """A false GoogleTest binary: $1 is --gtest_list_tests or --gtest_output=json:FILE."""
        self.write(f"build/bin/tests/{name}", f"#!/usr/bin/env bash\njson=${{1#--gtest_output=json:}}\n{body}\n", 0o755)

    def environment(self, **extra):
        return os.environ | {"UHSFS_VM_RUN": str(FAKE_VM), "FAKE_VM_LOG": str(self.vm_log)} | extra

    def command(self, *arguments):
        return [sys.executable, str(RUNNER), "--top", str(self.top), *arguments]

    def run(self, *arguments, **extra):
        path = self.top / "report.json"
        path.unlink(missing_ok=True)
        done = subprocess.run(self.command("--report", str(path), *arguments), env=self.environment(**extra), text=True,
                              capture_output=True, timeout=RUN_SECONDS, check=False)
        report = json.loads(path.read_text()) if path.exists() else None
        return Outcome(done.returncode, done.stdout, done.stderr, report)

    def call(self, *arguments):
        """Run without a report; gives back exit status and standard output."""
        done = subprocess.run(self.command(*arguments), env=self.environment(), text=True, capture_output=True,
                              timeout=RUN_SECONDS, check=False)
        return done.returncode, done.stdout

    def run_on_terminal(self):
        """Run with a terminal as standard output; gives back exit status and what it showed."""
        reader, writer = pty.openpty()
        environment = self.environment()
        environment.pop("NO_COLOR", None)
        with subprocess.Popen(self.command(), stdout=writer, env=environment) as child:
            os.close(writer)
            text = b""
            while True:
                try:
                    piece = os.read(reader, 65536)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
        os.close(reader)
        return child.returncode, text.decode()

    def boots(self):
        """The command lines of every boot, without the command run in it."""
        return self.vm_log.read_text().splitlines() if self.vm_log.exists() else []


class TreeTest(unittest.TestCase):
    """A test case with a tree and some comparisons."""

    def setUp(self):
        self.tree = Tree()
        self.addCleanup(self.tree.holder.cleanup)

    def run_script(self, plan, body, header=""):
        """Run one host test and return the outcome."""
        self.tree.settings("a", "where=host")
        self.tree.script("a/t", plan, body, header)
        return self.tree.run()

    def assert_counts(self, outcome, passed, failed, skipped, *, says=""):
        """Totals, last line, exit status, and a piece of text in what is said of failures."""
        told = outcome.stdout + outcome.stderr
        self.assertEqual(outcome.counts, (passed, failed, skipped), told)
        self.assertEqual(outcome.last, f"{passed} passed, {failed} failed, {skipped} skipped")
        self.assertEqual(outcome.status, 1 if failed or not passed else 0, told)
        self.assertIn(says, outcome.messages())
