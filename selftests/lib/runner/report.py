# SPDX-License-Identifier: GPL-2.0
"""Everything the runner says, and its exit status.

Progress comes as one line per part; at the end come all failures, all skipped tests, a table of the
parts, and the totals as the last line: `N passed, N failed, N skipped`.  With -o json standard
output carries one JSON document and nothing else, and the text goes to standard error.  Output of
tests is shown without control characters and in bounded pieces.
"""
from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

from .model import FAILED, PASSED, SKIPPED, Case, Part

HEAD_LINES, TAIL_LINES = 20, 40
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
COLOURS = {PASSED: "32", FAILED: "31", SKIPPED: "33"}


def plain(text: str) -> str:
    """Without bytes that could steer a terminal."""
    return CONTROL.sub("?", text)


def bounded(message: str) -> list[str]:
    """The lines of a message, the middle left out if there are many."""
    lines = [plain(line) for line in message.rstrip("\n").split("\n")]
    cut = len(lines) - HEAD_LINES - TAIL_LINES
    if cut <= 0:
        return lines
    return [*lines[:HEAD_LINES], f"... {cut} lines left out ...", *lines[-TAIL_LINES:]]


class Report:
    """Collects parts and says what happened."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.stream = sys.stderr if as_json else sys.stdout
        self.terminal = self.stream.isatty()
        self.colour = self.terminal and not os.environ.get("NO_COLOR")
        self.lock = threading.Lock()
        self.parts: list[Part] = []
        self.start = time.monotonic()

    def paint(self, text: str, status: str) -> str:
        return f"\033[{COLOURS[status]}m{text}\033[0m" if self.colour else text

    def say(self, text: str = "") -> None:
        """One line; what comes from a test must be plain() already."""
        with self.lock:
            clear = "\r\033[K" if self.terminal else ""
            print(f"{clear}{text}", file=self.stream, flush=True)

    def progress(self, title: str) -> None:
        """What runs now; only for those who watch."""
        if self.terminal:
            with self.lock:
                print(f"\r\033[K   {title}", end="", file=self.stream, flush=True)

    def part_begins(self, part: Part) -> None:
        count = len(part.tests)
        self.say(f"== {part.name}: {count} {'file' if count == 1 else 'files'}")

    def part_ends(self, part: Part) -> None:
        counts = part.counts()
        status = FAILED if counts[FAILED] else PASSED
        text = f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped"
        self.say(f"== {part.name}: {self.paint(text, status)} ({part.seconds:.1f} s)")

    def finish(self, parts: list[Part], path: Path | None) -> int:
        """Print the end; returns the exit status."""
        cases = [case for part in parts for case in part.cases]
        self.failures([case for case in cases if case.status == FAILED])
        self.skips([case for case in cases if case.status == SKIPPED])
        self.table(parts)
        totals = {status: sum(case.status == status for case in cases) for status in (PASSED, FAILED, SKIPPED)}
        document = self.document(parts, cases, totals)
        broken = False
        if path:
            try:
                path.write_text(document)
            except OSError as error:
                self.say(f"cannot write the report {path}: {error.strerror}")
                broken = True
        if totals[PASSED] + totals[FAILED] == 0:
            self.say("nothing ran")
        if self.as_json:
            sys.stdout.write(document)
            sys.stdout.flush()
        self.say(f"{totals[PASSED]} passed, {totals[FAILED]} failed, {totals[SKIPPED]} skipped")
        return 1 if broken or totals[FAILED] or totals[PASSED] == 0 else 0

    def failures(self, cases: list[Case]) -> None:
        for case in cases:
            where = "" if case.test == case.part else f" [{case.part}]"
            self.say()
            self.say(f"{self.paint('FAILED', FAILED)} {plain(f'{case.test}: {case.name}{where}')}")
            for line in bounded(case.message) if case.message else ["no diagnostics"]:
                self.say(f"    {line}")

    def skips(self, cases: list[Case]) -> None:
        if cases:
            self.say()
            self.say("skipped:")
        for case in cases:
            self.say("    " + plain(f"{case.test}: {case.name}: {case.message} [{case.part}]".replace("\n", " ")))

    def table(self, parts: list[Part]) -> None:
        self.say()
        self.say("  seconds  passed  failed  skipped  part")
        for part in parts:
            counts = part.counts()
            self.say(f"{part.seconds:9.1f}{counts[PASSED]:8}{counts[FAILED]:8}{counts[SKIPPED]:9}  {part.name}")
        self.say(f"{time.monotonic() - self.start:9.1f}  all")

    def document(self, parts: list[Part], cases: list[Case], totals: dict[str, int]) -> str:
        content = totals | {
            "seconds": round(time.monotonic() - self.start, 3),
            "parts": [{"name": part.name, "seconds": round(part.seconds, 3)}
                      | {status: part.counts()[status] for status in (PASSED, FAILED, SKIPPED)} for part in parts],
            "cases": [{"name": case.name, "test": case.test, "part": case.part, "status": case.status,
                       "seconds": case.seconds, "message": case.message} for case in cases],
        }
        return json.dumps(content, indent=2) + "\n"
