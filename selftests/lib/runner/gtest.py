# SPDX-License-Identifier: GPL-2.0
"""Run one GoogleTest binary and count each of its cases.

The binary first lists its cases: that is its plan.  Then it runs and writes results as JSON.  If it
crashes there is no JSON; what its output says of finished cases still counts, and every listed case
without a result is a failure.
"""
from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .model import FAILED, PASSED, SKIPPED, Case, Part, Test
from .process import Children, run
from .tap import TAIL_LINES

LIST_SECONDS = 60
LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] (\S+?)(?:, where .*?)?(?: \((\d+) ms\))?$")
DISABLED = re.compile(r"(?:^|[./])DISABLED_")
WORDS = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}


@dataclass
class Outcome:
    status: str
    seconds: float = 0.0
    message: str = ""


def environment(top: Path) -> dict[str, str]:
    """The environment of a binary: one GTEST_FILTER or GTEST_BREAK_ON_FAILURE of the user would change what counts."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}
    return own | {"PATH": f"{top}/build/bin:{os.environ.get('PATH', '')}"}


def parse_list(lines: list[str]) -> list[str]:
    """The cases in the output of --gtest_list_tests."""
    cases, suite = [], ""
    for line in lines:
        text = line.split("#")[0].rstrip()
        if text.startswith(" ") and suite:
            cases.append(suite + text.strip())
        elif re.fullmatch(r"\S+\.", text):
            suite = text
    return cases


def parse_output(lines: list[str]) -> dict[str, Outcome]:
    """What the running text says: results, and between RUN and result the messages."""
    found: dict[str, Outcome] = {}
    running, notes = "", []
    for line in lines:
        match = LINE.match(line)
        if not match:
            notes.append(line)
        elif match[1] == "RUN":
            running, notes = match[2], []
        elif match[2] == running:
            message = skip_reason(notes) if match[1] == "SKIPPED" else "\n".join(notes)
            found[running] = Outcome(WORDS[match[1]], int(match[3] or 0) / 1000, message)
            running, notes = "", []
    return found


def parse_json(path: Path, texts: dict[str, Outcome]) -> dict[str, Outcome]:
    """The JSON report; it has no reasons for skipping, so those come from the text."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    found = {}
    for suite in report.get("testsuites", []):
        for case in suite.get("testsuite", []):
            name = f"{suite['name']}.{case['name']}"
            seconds = float(case.get("time", "0").rstrip("s") or 0)
            failures = [failure.get("failure", "") for failure in case.get("failures", [])]
            if failures:
                found[name] = Outcome(FAILED, seconds, "\n".join(failures))
            elif case.get("status") == "NOTRUN":
                found[name] = missing(name, "not run")
            elif case.get("result") == "SKIPPED":
                found[name] = Outcome(SKIPPED, seconds, texts[name].message if name in texts else "")
            elif case.get("result") == "COMPLETED":
                found[name] = Outcome(PASSED, seconds)
    return found


def skip_reason(lines: list[str]) -> str:
    """The message of GTEST_SKIP(): what follows its `file:line: Skipped` line."""
    start = next((i for i, line in enumerate(lines) if line.rstrip().endswith(": Skipped")), -1)
    return " ".join(line.strip() for line in lines[start + 1:] if line.strip())


def missing(name: str, why: str) -> Outcome:
    """A case without a result: skipped if it is disabled, else failed."""
    if DISABLED.search(name):
        return Outcome(SKIPPED, 0.0, "disabled in the source")
    return Outcome(FAILED, 0.0, why)


def list_cases(children: Children, test: Test, env: dict[str, str]) -> list[str]:
    """The plan of a binary; sets its problem if it cannot tell."""
    done = run(children, [str(test.program), "--gtest_list_tests"], LIST_SECONDS, env=env)
    output = "\n".join(text for _, text in done.lines[-TAIL_LINES:])
    names = parse_list([text for _, text in done.lines]) if done.status == 0 else []
    if not names:
        test.problem = f"cannot list its cases ({done.reason})\n{output}\n{done.errors}"
    return names


def run_binary(children: Children, top: Path, part: Part, test: Test, names: list[str],
               env: dict[str, str]) -> list[Case]:
    """Run the binary and count every case in `names`, and any other it reports."""
    with tempfile.TemporaryDirectory(prefix="uhsfs-unit-") as folder:
        report = Path(folder) / "report.json"
        command = [str(test.program), f"--gtest_output=json:{report}", "--gtest_color=no"]
        done = run(children, command, test.timeout * part.slow, cwd=top, env=env | {"TMPDIR": folder})
        lines = [text for _, text in done.lines]
        texts = parse_output(lines)
        found = parse_json(report, texts) or texts
    tail = "\n".join([*lines[-TAIL_LINES:], *done.errors.splitlines()[-TAIL_LINES:]])
    cases = []
    for name in dict.fromkeys([*names, *found]):
        outcome = found.get(name) or missing(name, f"no result: {done.reason}\n{tail}")
        if outcome.status == SKIPPED and not outcome.message:
            outcome = Outcome(FAILED, outcome.seconds, "skipped without a reason")
        message = outcome.message if outcome.status != PASSED else ""
        cases.append(Case(name, test.title, part.name, outcome.status, outcome.seconds, message))
    if done.status != 0 and not any(case.status == FAILED for case in cases):
        cases.append(Case("exit status", test.title, part.name, FAILED, 0.0, f"{done.reason}\n{tail}"))
    return cases
