# SPDX-License-Identifier: GPL-2.0
"""Options, selection, and the parts of a run.

A suite (check, long, debug) picks tests.  Those on the host make one part per area; those in a
guest make one part per (kernel, options of the virtual machine), so that areas with equal needs
share a boot; the unit tests make one part.  In the suite debug every guest test runs on the debug
kernel, with ten times its timeout.  Parts run in threads, --jobs at a time. However the run ends,
each selected test is counted and the totals are the last line.
"""
from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import gtest
from .build import compile_test
from .discover import SUITES, discover
from .model import FAILED, Case, Interrupted, Part, Test
from .process import Children
from .report import Report
from .session import Session

LIB = Path(__file__).resolve().parent.parent
DEBUG_KERNEL, DEBUG_SLOWNESS = "debug", 10


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="selftests/run", description="Run the tests of uhsfs and count them.")
    parser.add_argument("tests", nargs="*", metavar="AREA[/TEST]", help="only these areas or tests")
    parser.add_argument("--suite", choices=SUITES, help="which tests (default: check; for AREA/TEST its own suite)")
    parser.add_argument("--kernel", metavar="V", help="of the guest tests only those on this kernel")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="run N parts at the same time (default: 1)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write every case as JSON")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: the report on stdout")
    parser.add_argument("--list", action="store_true", help="show the tests, run none")
    parser.add_argument("--top", type=Path, default=LIB.parent.parent, help="the tree to test (default: this one)")
    chosen = parser.parse_args(arguments)
    if chosen.jobs < 1:
        parser.error("--jobs must be at least 1")
    chosen.top = chosen.top.resolve()
    return chosen


def select(tests: list[Test], names: list[str], suite: str | None) -> tuple[list[tuple[Test, str]], list[str]]:
    """The tests to run, each with the suite it runs in, and the names that match nothing."""
    if not names:
        return [(test, suite or "check") for test in tests if (suite or "check") in test.suites], []
    picked: dict[int, tuple[Test, str]] = {}
    unknown = []
    for name in names:
        area, _, file = name.rstrip("/").partition("/")
        own = [test for test in tests if test.area == area and file in ("", test.name, test.path.name)]
        if not own:
            unknown.append(name)
        for test in own:
            wanted = suite or ("check" if "check" in test.suites or not file else test.suites[0])
            if wanted in test.suites:
                picked[id(test)] = (test, wanted)
    return [picked[id(test)] for test in tests if id(test) in picked], unknown


def make_parts(selected: list[tuple[Test, str]], kernel: str | None) -> list[Part]:
    """Group tests: the host and unit parts first, they are quick; then the boots."""
    host: dict[str, Part] = {}
    guest: dict[tuple, Part] = {}
    for test, suite in selected:
        slow = DEBUG_SLOWNESS if suite == "debug" else 1
        if test.kind == "gtest":
            part = host.setdefault("\0unit", Part("unit", "unit", slow=slow))
            part.tests.append(test)
        elif test.where == "host":
            name = f"{test.area} (scripts)" if test.area == "unit" else test.area
            host.setdefault(test.area, Part(name, "host", slow=slow)).tests.append(test)
        else:
            for version in (DEBUG_KERNEL,) if suite == "debug" else test.kernels:
                if kernel in (None, version):
                    key = (version, test.vm, slow)
                    guest.setdefault(key, Part("", "vm", kernel=version, vm=test.vm, slow=slow)).tests.append(test)
    for part in guest.values():
        areas = ", ".join(dict.fromkeys(test.area for test in part.tests))
        part.name = " ".join(["vm", part.kernel, *([shlex.join(part.vm)] if part.vm else [])]) + f": {areas}"
    return [*host.values(), *guest.values()]


def show_list(selected: list[tuple[Test, str]], output: str) -> int:
    rows = [{"test": test.title, "kind": test.kind, "suite": suite, "where": test.where,
             "kernels": list(test.kernels) if test.where == "guest" else [], "vm": shlex.join(test.vm),
             "timeout": test.timeout, "plan": test.plan if test.kind != "gtest" else None,
             "problem": test.problem.split("\n")[0]} for test, suite in selected]
    if output == "json":
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        where = f"guest {','.join(row['kernels'])} {row['vm']}".strip() if row["where"] == "guest" else "host"
        plan = "" if row["plan"] is None else f"  plan {row['plan']}"
        problem = f"  PROBLEM: {row['problem']}" if row["problem"] else ""
        print(f"{row['test']}  {row['suite']}  {where}{plan}{problem}")
    return 0


class Run:
    """One run of some parts."""

    def __init__(self, chosen: argparse.Namespace, parts: list[Part]) -> None:
        self.chosen, self.parts = chosen, parts
        self.children = Children()
        self.report = Report(chosen.output == "json")

    def on_signal(self, _number: int, _frame) -> None:
        self.children.stop()

    def compile(self) -> None:
        """Compile every C test once, before any part begins."""
        tests = {id(test): test for part in self.parts for test in part.tests if test.kind == "c" and not test.problem}
        if not tests:
            return
        start = time.monotonic()
        self.report.say(f"== compile: {len(tests)} C tests")
        for test in tests.values():
            self.report.progress(f"cc {test.title}")
            try:
                compile_test(self.children, self.chosen.top, LIB, test)
            except Interrupted:
                return
        self.report.say(f"== compile: done ({time.monotonic() - start:.1f} s)")

    def run_part(self, part: Part) -> None:
        """Fill part.cases, whatever happens."""
        start = time.monotonic()
        try:
            if not self.children.stopped:
                self.report.part_begins(part)
            part.cases = self.unit(part) if part.kind == "unit" else self.session(part)
        except Interrupted:
            part.cases = [case for test in part.tests for case in part.fail_planned(test, "not run: interrupted")]
        except Exception:  # the runner's own mistake must not hide tests
            why = f"the runner failed:\n{traceback.format_exc()}"
            part.cases = [case for test in part.tests for case in part.fail_planned(test, why)]
        part.seconds = time.monotonic() - start
        self.report.part_ends(part)

    def session(self, part: Part) -> list[Case]:
        if self.children.stopped:
            raise Interrupted
        return Session(self.children, self.chosen.top, LIB, part, self.report.progress).run()

    def unit(self, part: Part) -> list[Case]:
        """List the cases of all binaries, then run each, so that an interrupted run counts every case."""
        env = gtest.environment(self.chosen.top)
        plans = {id(test): gtest.list_cases(self.children, test, env) for test in part.tests if not test.problem}
        cases = []
        for test in part.tests:
            if test.problem:
                cases += part.fail_planned(test, test.problem)
                continue
            self.report.progress(test.title)
            names = plans[id(test)]
            try:
                cases += gtest.run_binary(self.children, self.chosen.top, part, test, names, env)
            except Interrupted:
                cases += [Case(name, test.title, part.name, FAILED, 0.0, "not run: interrupted") for name in names]
        return cases

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        self.compile()
        with ThreadPoolExecutor(self.chosen.jobs) as pool:
            list(pool.map(self.run_part, (part for part in self.parts if part.tests)))
        return self.report.finish(self.parts, self.chosen.report)


def main(arguments: list[str]) -> int:
    chosen = options(arguments)
    tests = discover(chosen.top)
    selected, unknown = select(tests, chosen.tests, chosen.suite)
    if chosen.list:
        for name in unknown:
            print(f"no such area or test: {name}", file=sys.stderr)
        return show_list(selected, chosen.output) or bool(unknown)
    parts = make_parts(selected, chosen.kernel)
    if unknown:
        lost = Part("selection", "none")
        lost.cases = [Case(name, "selection", "selection", FAILED, 0.0, "no such area or test") for name in unknown]
        parts.append(lost)
    return Run(chosen, parts).run()
