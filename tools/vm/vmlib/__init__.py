# SPDX-License-Identifier: GPL-2.0
"""Virtual machines for uhsfs: kernels, initramfs, QEMU, kernel reports.

Reading order: kernels (which kernel, where its files are), initramfs (what
boots), machine (the QEMU command line), watch (what the guest says while it
runs), reports (what in a kernel log counts as a fault).
"""

from pathlib import Path
import os

TOP = Path(__file__).resolve().parents[3]


class VmError(Exception):
    """Something the user can mend: one line, and where possible a remedy."""


def cache_root():
    """Where everything that is fetched or generated is kept: never in the repository."""
    explicit = os.environ.get("UHSFS_CACHE")
    if explicit:
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "uhsfs"
