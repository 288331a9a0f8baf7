# SPDX-License-Identifier: GPL-2.0
"""The host's root for the guest, read-only: virtiofs under KVM, else 9p.

virtiofs is about twice as fast for many files but its daemon needs root, and it writes
to the guest's memory behind QEMU's back.  An emulated processor then goes on with the
translation of what was there before: a program that is read into memory in which another
one stood (after drop_caches, say) crashes, or worse, does something else.  So emulation
has 9p, unless VM_SHARE says otherwise.

The daemon runs in a mount namespace of its own in which every mount is read-only, so that
no fault of the guest's kernel can reach the host's files.  9p is read-only by QEMU's own
option.
"""

from dataclasses import dataclass
from pathlib import Path
import os
import socket
import subprocess

from . import DIE_WITH_PARENT, VmError
from .machine import escape

DAEMONS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
SOCKET = "virtiofs.sock"
READ_ONLY = (
    'mount --make-rprivate / && awk \'{print $5}\' /proc/self/mountinfo | while read -r m; do '
    'mount -o remount,bind,ro "$(printf %b "$m")" 2>/dev/null; done; exec "$@"'
)


@dataclass
class Share:
    """How the guest mounts the root, and what QEMU needs for it."""

    kind: str
    options: str
    argv: tuple

    def start(self):
        pass

    def stop(self):
        pass


@dataclass
class VirtioFs(Share):
    """A share with a daemon; QEMU connects to its socket."""

    program: str
    folder: Path
    daemon: subprocess.Popen | None = None

    def start(self):
        with socket.socket(socket.AF_UNIX) as listener, open(self.folder / "virtiofsd.log", "wb") as out:
            listener.bind(str(self.folder / SOCKET))
            listener.listen(1)
            self.daemon = subprocess.Popen(
                [*DIE_WITH_PARENT, "unshare", "--mount", "sh", "-c", READ_ONLY, "sh",
                 self.program, f"--fd={listener.fileno()}",
                 "-o", "source=/,sandbox=chroot,cache=always,no_posix_lock", "--thread-pool-size=1"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=[listener.fileno()],
            )

    def stop(self):
        if self.daemon:
            self.daemon.kill()
            self.daemon.wait()


def plan9():
    return Share(
        "9p",
        "ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose",
        (
            "-fsdev", "local,id=hostroot,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=hostroot,mount_tag=hostroot",
        ),
    )


def virtiofs(folder):
    program = next((d for d in DAEMONS if os.access(d, os.X_OK)), None)
    if os.geteuid() != 0 or not program:
        return None
    argv = (
        "-chardev", f"socket,id=hostroot,path={escape(folder / SOCKET)}",
        "-device", "vhost-user-fs-pci,chardev=hostroot,tag=hostroot,queue-size=1024",
    )
    return VirtioFs("virtiofs", "ro", argv, program, folder)


def choose(folder, accel):
    wanted = os.environ.get("VM_SHARE", "auto")
    if wanted not in ("auto", "virtiofs", "9p"):
        raise VmError(f"VM_SHARE={wanted}: must be virtiofs, 9p or auto")
    if wanted == "auto" and accel == "tcg":
        wanted = "9p"
    share = virtiofs(Path(folder)) if wanted != "9p" else None
    if share is None and wanted == "virtiofs":
        raise VmError("VM_SHARE=virtiofs: virtiofsd does not run here (it needs root): use 9p")
    return share or plan9()
