# SPDX-License-Identifier: GPL-2.0
"""Runs a machine to its end and says how it ended.

The guest speaks over pipes (see guest/pid1): control lines, the command's output and
its errors.  One loop passes output through, keeps the deadlines and notices QEMU's
exit; a machine is always gone when `run()` returns.

A crash by --kill-after is SIGKILL of QEMU: what the guest had handed to a disk is in
its file, what it had not is lost.  That is a kernel crash, not a power cut: the
emulated disk's volatile write cache is not dropped.
"""

from dataclasses import dataclass
from pathlib import Path
import os
import select
import subprocess
import time

from . import DIE_WITH_PARENT, VmError, initramfs, reports, share
from .machine import escape

BOOT_SECONDS = {"kvm": 60, "tcg": 240}
POWER_OFF_SECONDS = 20
LATE_SECONDS = 5  # for the guest to show what blocks when the command's time is over


@dataclass
class Outcome:
    """How a run ended.  status is the command's, None if it never reported one."""

    started: bool = False
    status: int | None = None
    timed_out: bool = False
    killed: bool = False
    taint: int = 0
    boot_seconds: float = 0.0
    seconds: float = 0.0
    log: str = ""
    qemu_message: str = ""

    def faults(self):
        found = reports.scan(self.log)
        words = reports.taint_words(self.taint)
        if words and not found:
            found = [f"the kernel is tainted ({', '.join(words)}) but its log shows no report"]
        return found

    def blocked(self):
        """What the guest said of blocked tasks when the time was over."""
        return self.log.partition("Show Blocked State")[2].strip()


class Guest:
    """QEMU with its pipes; use as a context manager."""

    def __init__(self, machine, folder, settings, command, interactive=False):
        self.folder = Path(folder)
        self.log_path = self.folder / "console.log"
        self.qemu = None
        self.read_fds = []
        self.share = share.choose(self.folder, machine.accel)
        settings = dict(settings, SHARE_TYPE=self.share.kind, SHARE_OPTIONS=self.share.options)
        initrd = self.folder / "initrd.cpio"
        initramfs.build(machine.kernel, settings, command, initrd)
        console = ["-chardev", f"file,id=console,path={escape(self.log_path)}"]
        if interactive:
            console = ["-chardev", f"stdio,id=console,mux=on,signal=off,logfile={escape(self.log_path)}"]
        try:
            self.start(machine, initrd, console, None if interactive else subprocess.DEVNULL)
        except BaseException:
            self.close()
            raise

    def start(self, machine, initrd, console, terminal):
        write_fds = []
        try:
            for _ in range(3):
                ends = os.pipe()
                self.read_fds.append(ends[0])
                write_fds.append(ends[1])
            argv = machine.argv(self.folder, self.share, initrd, write_fds, "chardev:console")
            self.share.start()
            with open(self.folder / "qemu.err", "wb") as errors:
                self.qemu = subprocess.Popen(
                    [*DIE_WITH_PARENT, *argv, *console],
                    stdin=terminal, stdout=terminal, stderr=errors, pass_fds=write_fds,
                )
        except OSError as error:
            raise VmError(f"QEMU cannot be started: {error.strerror}") from error
        finally:
            for fd in write_fds:
                os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.qemu:
            self.kill()
        self.share.stop()
        for fd in self.read_fds:
            os.close(fd)

    def kill(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait()

    def log(self):
        try:
            return self.log_path.read_text(errors="replace").replace("\r", "")
        except FileNotFoundError:
            return ""


def pass_on(data, sink):
    """Write to SINK; when nobody reads it any more the command goes on, and its status counts."""
    try:
        sink.write(data)
        sink.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sink.fileno())


class Watch:
    """The loop over one guest; see run()."""

    def __init__(self, guest, accel, timeout, kill_after, stdout, stderr):
        self.guest = guest
        self.outcome = Outcome()
        self.timeout = timeout
        self.kill_after = kill_after
        self.sinks = {guest.read_fds[1]: stdout, guest.read_fds[2]: stderr}
        self.partial = b""
        self.begin = time.monotonic()
        self.deadline = self.begin + BOOT_SECONDS[accel]

    def control(self, data):
        *lines, self.partial = (self.partial + data).split(b"\n")
        now = time.monotonic()
        for line in lines:
            words = line.decode(errors="replace").split()
            if words[:1] == ["started"]:
                self.outcome.started = True
                self.outcome.boot_seconds = now - self.begin
                limits = [s for s in (self.timeout, self.kill_after) if s is not None]
                self.deadline = now + min(limits) if limits else None
            elif words == ["late"]:
                self.outcome.timed_out = True
                self.guest.kill()
            elif words[:1] == ["exit"] and len(words) == 3:
                self.outcome.status, self.outcome.taint = int(words[1]), int(words[2])
                self.deadline = now + POWER_OFF_SECONDS

    def expired(self):
        """The deadline passed: what it was for decides what that means."""
        if self.outcome.status is not None:
            pass  # the command is over; only powering off took too long
        elif self.outcome.started and self.kill_after is not None and (
            self.timeout is None or self.kill_after <= self.timeout
        ):
            self.outcome.killed = True
        elif self.outcome.started and not self.outcome.timed_out:
            self.outcome.timed_out = True
            self.deadline += LATE_SECONDS
            return
        self.guest.kill()

    def loop(self):
        poll = select.poll()
        open_fds = set(self.guest.read_fds)
        for fd in open_fds:
            poll.register(fd, select.POLLIN)
        while open_fds:
            wait = None if self.deadline is None else max(0, self.deadline - time.monotonic())
            for fd, _ in poll.poll(None if wait is None else wait * 1000 + 1):
                data = os.read(fd, 1 << 16)
                if not data:
                    poll.unregister(fd)
                    open_fds.discard(fd)
                elif fd in self.sinks:
                    pass_on(data, self.sinks[fd])
                else:
                    self.control(data)
            if self.deadline is not None and time.monotonic() >= self.deadline and self.guest.qemu.poll() is None:
                self.expired()
        self.guest.qemu.wait()
        self.outcome.seconds = time.monotonic() - self.begin


def run(machine, folder, settings, command, *, timeout, kill_after, stdout, stderr, interactive=False):
    """Boot MACHINE, run COMMAND (a shell script's text) in it, return the Outcome."""
    with Guest(machine, folder, settings, command, interactive) as guest:
        watch = Watch(guest, machine.accel, timeout, kill_after, stdout, stderr)
        watch.loop()
        watch.outcome.log = guest.log()
        watch.outcome.qemu_message = (guest.folder / "qemu.err").read_text(errors="replace").strip()
    return watch.outcome
