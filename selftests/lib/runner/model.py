# SPDX-License-Identifier: GPL-2.0
"""What is run and what is counted.

A Test is a file (script, C source or GoogleTest binary).  A Part is a set of tests that run
together: one boot of a virtual machine, one area on the host, or the unit tests.  A Case is one
counted result; only cases reach the totals.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Case:
    """One counted result.  `test` is AREA/NAME, or the part's name for what belongs to no test."""
    name: str
    test: str
    part: str
    status: str
    seconds: float = 0.0
    message: str = ""


@dataclass
class Test:
    """One test file.  `problem` says why it cannot be run at all: its planned cases then count as failed."""
    area: str
    name: str
    kind: str                       # "sh", "c" or "gtest"
    path: Path
    plan: int = 1
    where: str = "guest"
    kernels: tuple[str, ...] = ("6.1",)
    vm: tuple[str, ...] = ()
    timeout: int = 120
    suites: tuple[str, ...] = ("check",)
    build: tuple[str, ...] = ()     # extra compiler arguments
    program: Path | None = None     # what is executed
    problem: str = ""

    @property
    def title(self) -> str:
        return f"{self.area}/{self.name}"


@dataclass
class Part:
    """Tests that run together.  `kernel` is set for a boot; kind is "vm", "host" or "unit"."""
    name: str
    kind: str
    tests: list[Test] = field(default_factory=list)
    kernel: str = ""
    vm: tuple[str, ...] = ()
    slow: int = 1                   # factor on every timeout
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0

    def counts(self) -> Counter:
        return Counter(case.status for case in self.cases)

    def fail_planned(self, test: Test, message: str) -> list[Case]:
        """Every case that `test` promised, as failed."""
        names = [f"{n}" for n in range(1, test.plan + 1)] if test.kind != "gtest" else ["(all cases)"]
        return [Case(name, test.title, self.name, FAILED, 0.0, message) for name in names]


class Interrupted(Exception):
    """The user ended the run."""
