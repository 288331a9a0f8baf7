# SPDX-License-Identifier: GPL-2.0
"""Compile C tests into build/selftests/AREA/NAME.

Each is one source file; a comment `build: ...` in it adds arguments (libraries, further sources
relative to the top of the tree).  They are compiled anew each time: that costs a tenth of a second
and never leaves a stale binary.  A compile failure becomes the test's problem, with the compiler's
own words.
"""
from __future__ import annotations

import os
import shlex
from pathlib import Path

from .model import Test
from .process import Children, run

FLAGS = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
COMPILE_SECONDS = 300


def compile_test(children: Children, top: Path, lib: Path, test: Test) -> None:
    """Set test.program, or test.problem."""
    target = top / "build" / "selftests" / test.area / test.name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{test.name}.{os.getpid()}")
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS, "-I", str(lib), "-I", str(top / "kmod" / "uapi"),
               "-o", str(fresh), str(test.path), *test.build]
    done = run(children, command, COMPILE_SECONDS, cwd=top)
    if done.status != 0:
        fresh.unlink(missing_ok=True)
        output = "\n".join(text for _, text in done.lines)
        test.problem = f"does not compile ({done.reason}): {shlex.join(command)}\n{done.errors}{output}"
        return
    fresh.replace(target)
    test.program = target
