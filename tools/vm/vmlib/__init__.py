# SPDX-License-Identifier: GPL-2.0
"""Virtual machines for uhsfs: kernels, initramfs, QEMU, kernel reports.

Reading order: kernels (which kernel, where its files are), initramfs (what
boots), machine (the QEMU command line), watch (what the guest says while it
runs), reports (what in a kernel log counts as a fault).
"""

from pathlib import Path
import os
import subprocess

TOP = Path(__file__).resolve().parents[3]
# In front of a command: it must not outlive this program, however that ends.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


class VmError(Exception):
    """Something the user can mend: one line, and where possible a remedy."""


def cache_root():
    """Where everything that is fetched or generated is kept: never in the repository."""
    explicit = os.environ.get("UHSFS_CACHE")
    if explicit:
        return Path(explicit).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "uhsfs"


def extend_path():
    """Users other than root often lack the folders of modprobe, depmod and busybox."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def run(*argv, cwd=None, fails=""):
    """The output of a command; where it fails, VmError with FAILS or the command, and its last word."""
    try:
        done = subprocess.run(argv, cwd=cwd, text=True, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise VmError(f"no {argv[0]} here: run 'make deps'") from error
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise VmError(f"{fails or ' '.join(map(str, argv[:3])) + ' failed'}: {words[-1]}")
    return done.stdout
