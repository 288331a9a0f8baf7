# SPDX-License-Identifier: GPL-2.0
"""Run a list of TAP tests in one go: one boot of a virtual machine, or one area on the host.

Both ways start lib/guest-run with a list of tests; the guest only adds tools/vm/run in front of
it.  guest-run frames each test's output with lines that begin with a random token, so that whatever
a test prints stays inside its frame.  What lies outside, and how the virtual machine ended, is
judged here.
"""
from __future__ import annotations

import os
import re
import secrets
import tempfile
from pathlib import Path
from typing import Callable

from .model import FAILED, Case, Part, Test
from .process import Children, Done, run
from .tap import Output, judge

VM_TIMEOUT, VM_REPORT, VM_DIED = 124, 99, 125
BOOT_SECONDS = 180          # allowed for booting and powering off
TEST_OVERHEAD = 20          # allowed per test for starting and clearing up
REPORT_LINES = 200


class Session:
    """One call of guest-run for one part."""

    def __init__(self, children: Children, top: Path, lib: Path, part: Part, progress: Callable[[str], None]) -> None:
        self.children, self.top, self.lib, self.part, self.progress = children, top, lib, part, progress
        self.token = secrets.token_hex(12)
        self.tests = [test for test in part.tests if not test.problem]
        self.marker = re.compile(rf"^@{self.token} (?:begin (\d+)|end (\d+) (\S+(?: \d+)?) ([0-9.]+))$")

    def run(self) -> list[Case]:
        cases = []
        for test in self.part.tests:
            if test.problem:
                cases += self.part.fail_planned(test, test.problem)
        if not self.tests:
            return cases
        folder = self.top / "build" / "selftests"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix="list-", suffix=".txt") as listing:
            for test in self.tests:
                listing.write(f"{test.timeout * self.part.slow}\t{test.program}\n")
            listing.flush()
            done = self.start(listing.name)
        self.save(done)
        return cases + self.judge(done)

    def start(self, listing: str) -> Done:
        limit = sum(test.timeout * self.part.slow + TEST_OVERHEAD for test in self.tests)
        command = [str(self.lib / "guest-run"), self.token, listing]
        env = os.environ | {"PATH": f"{self.top}/build/bin:{os.environ.get('PATH', '')}"}
        if self.part.kind == "vm":
            limit += BOOT_SECONDS
            runner = os.environ.get("UHSFS_VM_RUN") or str(self.top / "tools" / "vm" / "run")
            command = [runner, "--kernel", self.part.kernel, "--timeout", str(limit), *self.part.vm, "--quiet", "--",
                       *command]
            limit += 60
        return run(self.children, command, limit, cwd=self.top, env=env, on_line=self.on_line)

    def on_line(self, text: str) -> None:
        if text.startswith("@") and (found := self.marker.match(text)) and found[1]:
            self.progress(self.tests[int(found[1])].title)

    def save(self, done: Done) -> None:
        """Keep what the session printed, for those who look for a cause."""
        folder = self.top / "build" / "selftests" / "log"
        folder.mkdir(exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9.=,-]+", "-", self.part.name).strip("-")[:100]
        for suffix, text in (("out", "".join(f"{text}\n" for _, text in done.lines)), ("err", done.errors)):
            fresh = folder / f".{name}.{self.token}"
            fresh.write_text(text)
            fresh.replace(folder / f"{name}.{suffix}")

    def split(self, done: Done) -> list[Output]:
        """The output of each test, by the markers."""
        outputs = [Output() for _ in self.tests]
        current = None
        for when, text in done.lines:
            found = self.marker.match(text) if text.startswith("@") else None
            if not found:
                if current:
                    current.lines.append((when, text))
            elif found[1]:
                current = outputs[int(found[1])]
                current.begun, current.started = True, when
            else:
                ended = outputs[int(found[2])]
                ended.status, ended.seconds = found[3], float(found[4])
                current = None
        return outputs

    def judge(self, done: Done) -> list[Case]:
        what = self.ending(done)
        tail = "\n".join(done.errors.splitlines()[-REPORT_LINES:])
        cases = []
        outputs = self.split(done)
        for test, output in zip(self.tests, outputs):
            if output.status is None:
                output.reason = f"{what}\n{tail}" if not output.begun else what
                output.trusted = self.is_report(done)
            cases += judge(test, self.part, output)
        complete = all(output.status is not None for output in outputs)
        if self.is_report(done):
            cases.append(self.extra("kernel log", f"{what}\n{tail}"))
        elif done.status != 0 and (complete or not any(case.status == FAILED for case in cases)):
            name = "virtual machine" if self.part.kind == "vm" else "guest-run"
            cases.append(self.extra(name, f"{what}\n{tail}"))
        return cases

    def extra(self, name: str, message: str) -> Case:
        return Case(name, self.part.name, self.part.name, FAILED, 0.0, message)

    def is_report(self, done: Done) -> bool:
        return self.part.kind == "vm" and done.status == VM_REPORT and not done.interrupted

    def ending(self, done: Done) -> str:
        """How the session ended, in words."""
        if done.interrupted or done.expired or self.part.kind != "vm":
            return f"the session ended early: {done.reason}"
        known = {VM_TIMEOUT: "the virtual machine ran out of time", VM_REPORT: "the kernel log has a report",
                 VM_DIED: "the virtual machine died or never started"}
        return f"{known.get(done.status, 'the virtual machine ended early')} ({done.reason})"
