# SPDX-License-Identifier: GPL-2.0
"""The rules of counting: the output of one TAP test becomes cases.

What a test promised (its plan, a literal in its source) is compared with what came.  Each promised
number yields exactly one case: the result that came, or a failure that says why none came.
Whatever breaks the protocol yields a failure on top: a number above the plan, twice or out of
order, a missing or different plan line, `Bail out!`, a bad exit status without a failed case to
explain it.  `# SKIP` needs a reason, `# TODO` is a failure.  Nothing is ever counted as passed but
a plain `ok` line with the number that was due.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from .model import FAILED, PASSED, SKIPPED, Case, Part, Test

KSFT_SKIP = "4"
STUCK = "stuck"             # it left a process that hangs in the kernel: see guest-run
RESULT = re.compile(r"^(ok|not ok)(?:[ \t]+(\d+))?(?=\s|$)(?:[ \t]+-(?=\s|$))?[ \t]*(.*)$")
PLAN_LINE = re.compile(r"^1\.\.(\d+)\s*(?:#\s*(.*))?$")
BAIL = re.compile(r"^Bail out!\s*(.*)$")
DIRECTIVE = re.compile(r"(?:^|\s)#\s*(skip|todo)\w*\b[:\s]*(.*)$", re.I)
SKIP_ALL = re.compile(r"^(?:1\.\.0\s*)?#\s*skip\b[:\s]*(.*)$", re.I)
TAIL_LINES = 40


@dataclass
class Output:
    """What one test file left behind.

    `status` is None if it never ended; `reason` then says what cut it off.  `trusted` says whether results that came
    before that still count.
    """
    begun: bool = False
    status: str | None = None       # "0", "3", "signal 11", "timeout" or STUCK
    seconds: float = 0.0
    started: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)
    reason: str = ""
    trusted: bool = True

    def tail(self) -> str:
        return "\n".join(text for _, text in self.lines[-TAIL_LINES:])


@dataclass
class Result:
    """One `ok` or `not ok` line with the lines that follow it."""
    number: int | None
    passed: bool
    name: str
    directive: str
    reason: str
    seconds: float
    notes: list[str] = field(default_factory=list)


@dataclass
class Parsed:
    results: list[Result] = field(default_factory=list)
    plans: list[int] = field(default_factory=list)
    bail: str | None = None
    skip_reason: str = ""


def parse(output: Output) -> Parsed:
    """Split the output into results, plan lines and notes; judge nothing."""
    parsed = Parsed()
    last = output.started
    for when, text in output.lines:
        if found := RESULT.match(text):
            word, number, name = found.groups()
            directive, reason = "", ""
            if mark := DIRECTIVE.search(name):
                directive, reason, name = mark[1].lower(), mark[2].strip(), name[:mark.start()]
            parsed.results.append(Result(int(number) if number else None, word == "ok", name.strip(), directive, reason,
                                         when - last))
            last = when
            continue
        if found := PLAN_LINE.match(text):
            parsed.plans.append(int(found[1]))
        elif found := BAIL.match(text):
            parsed.bail = found[1] or "no reason given"
        if found := SKIP_ALL.match(text):
            parsed.skip_reason = found[1].strip()
        if parsed.results:
            parsed.results[-1].notes.append(text)
    return parsed


def status_text(status: str | None, test: Test, slow: int = 1) -> str:
    if status is None:
        return "the test did not end"
    if status == "timeout":
        return f"timed out after {test.timeout * slow} s"
    if status == STUCK:
        return "left a process that hangs in the kernel"
    return f"killed by {status}" if status.startswith("signal") else f"exit status {status}"


def judge_result(result: Result) -> tuple[str, str]:
    """Status and message of one result whose number is in order."""
    notes = "\n".join(result.notes)
    if result.directive == "todo":
        return FAILED, f"marked TODO: {result.reason}\n{notes}"
    if not result.passed:
        return FAILED, notes
    if result.directive == "skip":
        return (SKIPPED, result.reason) if result.reason else (FAILED, f"skipped without a reason\n{notes}")
    return PASSED, ""


def judge(test: Test, part: Part, output: Output) -> list[Case]:
    """The cases of one test file."""
    if not output.begun:
        return part.fail_planned(test, f"not reached: {output.reason}")
    if output.status is None and not output.trusted:
        return part.fail_planned(test, f"did not end: {output.reason}\n{output.tail()}")

    parsed = parse(output)
    cases: list[Case] = []

    def add(name: str, status: str, message: str = "", seconds: float = 0.0) -> None:
        cases.append(Case(name, test.title, part.name, status, round(seconds, 3), message.rstrip("\n")))

    if output.status == KSFT_SKIP and not parsed.results:
        status, message = SKIPPED, parsed.skip_reason
        if not message:
            status, message = FAILED, f"exit status 4 (skip) without a reason\n{output.tail()}"
        for number in range(1, test.plan + 1):
            add(f"{number}", status, message)
        return cases

    seen: set[int] = set()
    for result in parsed.results:
        last = max(seen, default=0)
        number = last + 1 if result.number is None else result.number
        name = f"{number} {result.name}".strip()
        notes = "\n".join(result.notes)
        if not 1 <= number <= test.plan:
            add(name, FAILED, f"test number {number} is outside the plan of {test.plan}\n{notes}", result.seconds)
        elif number in seen:
            add(name, FAILED, f"test number {number} came twice\n{notes}", result.seconds)
        elif number < last:
            seen.add(number)
            add(name, FAILED, f"test number {number} came after {last}: out of order\n{notes}", result.seconds)
        else:
            seen.add(number)
            add(name, *judge_result(result), result.seconds)

    why = status_text(output.status, test, part.slow)
    if parsed.bail is not None:
        why = f"Bail out! {parsed.bail}; {why}"
    if output.reason:
        why += f"; {output.reason}"
    missing = [number for number in range(1, test.plan + 1) if number not in seen]
    for number in missing:
        add(f"{number}", FAILED, f"no result: {why}\n{output.tail()}")

    if parsed.results and not parsed.plans:
        add("plan", FAILED, f"no plan line in the output; the source plans {test.plan}")
    elif len(parsed.plans) > 1:
        add("plan", FAILED, f"several plan lines in the output: {', '.join(f'1..{n}' for n in parsed.plans)}")
    elif parsed.plans and parsed.plans[0] != test.plan:
        add("plan", FAILED, f"the output plans 1..{parsed.plans[0]}, the source {test.plan}")
    if output.status == STUCK:
        add("left processes", FAILED, f"{why}\n{output.tail()}")
    failed = any(case.status == FAILED for case in cases)
    if not failed and (output.status != "0" or parsed.bail is not None):
        add("exit status", FAILED, f"{why}\n{output.tail()}", 0.0)
    return cases
