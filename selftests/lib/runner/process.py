# SPDX-License-Identifier: GPL-2.0
"""Children of the runner: start them, read them, end them.

Each child leads its own session, so that ending it means one signal to one process group whose
number we know, and Ctrl-C on the terminal reaches only the runner.  After a stop (Ctrl-C, SIGTERM, SIGHUP)
no child starts; whoever waits for one sends it SIGTERM, after a time of grace SIGKILL, and returns
with `interrupted` set.  If the runner itself is killed, the kernel sends its children SIGTERM.
"""
from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from .model import Interrupted

GRACE_SECONDS = 30          # from SIGTERM to SIGKILL: more than guest-run takes to end a test that resists
END_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")
DRAIN_SECONDS = 0.3         # how long a silent pipe is held open after its child ended


@dataclass
class Done:
    """How a child ended.  `lines` are (time since start, text); a negative status is a signal."""
    status: int = 0
    lines: list[tuple[float, str]] = field(default_factory=list)
    errors: str = ""
    seconds: float = 0.0
    expired: bool = False       # ended because its time was over
    interrupted: bool = False

    @property
    def reason(self) -> str:
        if self.interrupted:
            return "interrupted"
        if self.expired:
            return "timed out"
        return status_words(self.status)


def status_words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class Children:
    """Starts children until it is stopped."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.stopped = False

    def start(self, command: list[str], **options) -> subprocess.Popen:
        with self.lock:
            if self.stopped:
                raise Interrupted
            return subprocess.Popen([*END_WITH_PARENT, *command], start_new_session=True, stdin=subprocess.DEVNULL, **options)

    def stop(self) -> None:
        """Nothing starts any more; whoever watches a child ends it."""
        with self.lock:
            self.stopped = True


def signal_group(child: subprocess.Popen, number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class LineReader:
    """Cuts what comes out of a pipe into lines and stamps them."""

    def __init__(self, start: float, on_line: Callable[[str], None] | None) -> None:
        self.start, self.on_line = start, on_line
        self.lines: list[tuple[float, str]] = []
        self.rest = b""

    def feed(self, data: bytes) -> None:
        *whole, self.rest = (self.rest + data).split(b"\n")
        for line in whole:
            self.take(line)

    def finish(self) -> None:
        if self.rest:
            self.take(self.rest)
            self.rest = b""

    def take(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self.lines.append((time.monotonic() - self.start, text))
        if self.on_line:
            self.on_line(text)


def run(children: Children, command: list[str], limit: float, *, cwd: Path | None = None,
        env: dict[str, str] | None = None, on_line: Callable[[str], None] | None = None) -> Done:
    """Run `command` to its end, but no longer than `limit` seconds."""
    start = time.monotonic()
    done = Done()
    with tempfile.TemporaryFile() as errors:
        try:
            child = children.start(command, stdout=subprocess.PIPE, stderr=errors, cwd=cwd, env=env)
        except OSError as error:
            return Done(status=127, errors=f"{command[0]}: {error.strerror}\n")
        try:
            reader = LineReader(start, on_line)
            watch(children, child, start + limit, reader, done)
        finally:
            if child.poll() is None:
                signal_group(child, signal.SIGKILL)
                child.wait()
            child.stdout.close()
        errors.seek(0)
        done.errors = errors.read().decode(errors="replace")
    done.status, done.lines, done.seconds = child.returncode, reader.lines, time.monotonic() - start
    return done


def watch(children: Children, child: subprocess.Popen, deadline: float, reader: LineReader, done: Done) -> None:
    """Read the child's output until it is gone; end it when its time is over or the run is stopped."""
    pipe = child.stdout.fileno()
    os.set_blocking(pipe, False)
    kill_at = None
    is_open = True
    quiet_since = None
    while True:
        ready = bool(select.select([pipe], [], [], 0.1)[0]) if is_open else False
        if ready:
            data = os.read(pipe, 65536)
            is_open = bool(data)
            reader.feed(data)
        elif not is_open:
            time.sleep(0.02)
        now = time.monotonic()
        if child.poll() is not None:
            quiet_since = now if ready or quiet_since is None else quiet_since
            if not is_open or now - quiet_since > DRAIN_SECONDS:
                break
            continue
        if kill_at is None and (children.stopped or now > deadline):
            done.interrupted, done.expired = children.stopped, not children.stopped
            signal_group(child, signal.SIGTERM)
            kill_at = now + GRACE_SECONDS
        elif kill_at is not None and now > kill_at:
            signal_group(child, signal.SIGKILL)
    # A stop may have ended the child before this loop saw it.
    done.interrupted = done.interrupted or (children.stopped and child.returncode != 0)
    reader.finish()
