# SPDX-License-Identifier: GPL-2.0
"""Find the tests of a tree.

Every folder of selftests/ except lib is an area.  Its *.sh and *.c files are TAP tests; what they
need comes from the area's `settings` file, and a header comment `settings: key=value ...` in a test
overrides it.  How many cases a test promises must be readable before it runs, as a literal: `plan
N` in a script, `tap_plan(N)` in C.  The area `unit` also owns the GoogleTest binaries in
build/bin/tests.  A mistake in any of this becomes the test's `problem`, which is counted as failed:
a test that cannot be understood must not vanish.
"""
from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from .model import Test

SUITES = ("check", "long", "debug")
DEFAULTS = {"where": "guest", "kernels": "6.1", "vm": "", "timeout": "120", "suite": "check"}
HEADER_LINES = 40
PLAN = {"sh": re.compile(r"^[ \t]*plan[ \t]+(\d+)\b", re.M), "c": re.compile(r"\btap_plan\(\s*(\d+)\s*\)")}
UNIT_SOURCES = (".cc", ".cpp", ".cxx")


def read_settings(path: Path) -> dict[str, str]:
    """The key=value lines of an area's settings file."""
    settings = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"{path.name}:{number}: not key=value: {line}")
        settings[key.strip()] = value.strip()
    return settings


def header(source: str, kind: str, key: str) -> str:
    """The text of a header comment `# key: text` (`/* key: text */` in C)."""
    pattern = rf"^#\s*{key}:(.*)$" if kind == "sh" else rf"^\s*/\*\s*{key}:(.*?)\*/"
    top = "\n".join(source.splitlines()[:HEADER_LINES])
    return " ".join(match.strip() for match in re.findall(pattern, top, re.M))


def apply_settings(test: Test, settings: dict[str, str]) -> None:
    """Check `settings` and store them in `test`."""
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"unknown setting '{unknown[0]}' (known: {', '.join(DEFAULTS)})")
    merged = DEFAULTS | settings
    if merged["where"] not in ("host", "guest"):
        raise ValueError(f"where={merged['where']}: must be host or guest")
    if not merged["timeout"].isdigit() or int(merged["timeout"]) == 0:
        raise ValueError(f"timeout={merged['timeout']}: must be a number of seconds")
    suites = tuple(merged["suite"].split())
    wrong = [suite for suite in suites if suite not in SUITES]
    if wrong or not suites:
        raise ValueError(f"suite={merged['suite']}: must be of {', '.join(SUITES)}")
    if not merged["kernels"].split():
        raise ValueError("kernels= is empty")
    test.where, test.timeout, test.suites = merged["where"], int(merged["timeout"]), suites
    test.kernels, test.vm = tuple(dict.fromkeys(merged["kernels"].split())), tuple(shlex.split(merged["vm"]))


def read_plan(test: Test, source: str) -> None:
    literals = set(PLAN[test.kind].findall(source))
    file = f"selftests/{test.area}/{test.path.name}"
    if not literals:
        raise ValueError(f"no plan in {file}")
    if len(literals) > 1:
        raise ValueError(f"several plans in {file}: {', '.join(sorted(literals, key=int))}")
    plan = int(literals.pop())
    if plan == 0:
        raise ValueError(f"a plan of 0 tests in {file}")
    test.plan = plan


def tap_test(area: str, path: Path, settings: dict[str, str], problem: str) -> Test:
    kind = path.suffix[1:]
    test = Test(area, path.stem, kind, path, problem=problem)
    test.program = path if kind == "sh" else None
    source = path.read_text(errors="replace")
    try:
        read_plan(test, source)
        test.build = tuple(shlex.split(header(source, kind, "build")))
        own = {}
        for word in shlex.split(header(source, kind, "settings")):
            key, equals, value = word.partition("=")
            if not equals:
                raise ValueError(f"settings comment: not key=value: {word}")
            own[key] = value
        apply_settings(test, settings | own)
    except ValueError as error:
        test.problem = test.problem or str(error)
    return test


def unit_tests(top: Path, folder: Path, settings: dict[str, str], problem: str) -> list[Test]:
    """The GoogleTest binaries; sources without a binary are a problem of their own."""
    binaries = top / "build" / "bin" / "tests"
    found = [path for path in sorted(binaries.glob("*")) if path.is_file() and os.access(path, os.X_OK)]
    tests = [Test("unit", path.name, "gtest", path, where="host", program=path) for path in found]
    if not tests and folder.is_dir() and any(path.suffix in UNIT_SOURCES for path in folder.rglob("*")):
        problem = problem or "the unit tests are not built: nothing in build/bin/tests"
        tests = [Test("unit", "all", "gtest", folder, where="host")]
    for test in tests:
        test.problem = problem
        try:
            apply_settings(test, settings | {"where": "host"})
        except ValueError as error:
            test.problem = test.problem or str(error)
    return tests


def discover(top: Path) -> list[Test]:
    """All tests below `top`, in the order of their names."""
    tests = []
    root = top / "selftests"
    folders = {path.name: path for path in root.iterdir() if path.is_dir()} if root.is_dir() else {}
    folders.setdefault("unit", root / "unit")
    for area, folder in sorted(folders.items()):
        if area == "lib" or area.startswith((".", "_")):
            continue
        settings, problem = {}, ""
        if (folder / "settings").is_file():
            try:
                settings = read_settings(folder / "settings")
            except ValueError as error:
                problem = str(error)
        sources = sorted([*folder.glob("*.sh"), *folder.glob("*.c")])
        tests += [tap_test(area, path, settings, problem) for path in sources]
        if area == "unit":
            tests += unit_tests(top, folder, settings, problem)
    mark_twins(tests)
    return tests


def mark_twins(tests: list[Test]) -> None:
    """a.sh and a.c would have one name; neither may hide the other."""
    names: dict[str, Test] = {}
    for test in tests:
        twin = names.setdefault(test.title, test)
        if twin is not test:
            test.problem = test.problem or f"{test.path.name} has the same name as {twin.path.name}"
