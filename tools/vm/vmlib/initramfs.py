# SPDX-License-Identifier: GPL-2.0
"""The initramfs: busybox, the few modules that reach the host's root, guest/init.

The part that depends on the kernel alone is cached; what differs from run to run
(the command, the guest's settings) is a second cpio archive appended to it, which
the kernel unpacks over the first.
"""

from pathlib import Path
import hashlib
import lzma
import os
import shlex
import shutil
import tempfile

from . import TOP, VmError, cache_root, run

GUEST = TOP / "tools" / "vm" / "guest"
MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "virtiofs", "overlay")


class Cpio:
    """A newc archive under construction."""

    def __init__(self):
        self.parts = []
        self.ino = 1
        self.folders = set()

    def _entry(self, path, mode, data):
        name = path.encode() + b"\0"
        fields = (self.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + name
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
        self.ino += 1

    def folder(self, path):
        if path not in self.folders:
            self.folders.add(path)
            self._entry(path, 0o040755, b"")

    def file(self, path, data, mode=0o644):
        parent = os.path.dirname(path)
        if parent:
            self.folder(parent)
        self._entry(path, 0o100000 | mode, data)

    def bytes(self):
        self._entry("TRAILER!!!", 0, b"")
        data = b"".join(self.parts)
        return data + b"\0" * (-len(data) % 512)


def module_files(kernel):
    """The .ko files that MODULES need, dependencies first; built-in ones have none."""
    found = []
    for name in MODULES:
        text = run(
            "modprobe", "-d", kernel.modroot, "-S", kernel.release, "--show-depends", name,
            fails=f"kernel {kernel.release} has no module {name}",
        )
        for line in text.splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in found:
                found.append(words[1])
    return [Path(f) for f in found]


def busybox():
    path = shutil.which("busybox")
    if not path:
        raise VmError("no busybox here: run 'make deps' (package busybox-static)")
    return Path(path)


def base_image(kernel):
    """Path of the cached archive for this kernel."""
    files = module_files(kernel)
    box = busybox()
    key = hashlib.sha256()
    for path in [*files, box]:
        stat = path.stat()
        key.update(f"{path} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    for path in (GUEST / "init", Path(__file__)):
        key.update(path.read_bytes())
    target = cache_root() / "initramfs" / f"{kernel.release}-{key.hexdigest()[:16]}.cpio"
    if target.exists():
        return target
    archive = Cpio()
    for folder in ("bin", "lib", "proc", "sys", "dev", "mnt", "vm"):
        archive.folder(folder)
    archive.file("bin/busybox", box.read_bytes(), 0o755)
    names = []
    for path in files:
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        names.append(path.name.removesuffix(".xz"))
        archive.file(f"lib/{names[-1]}", data)
    archive.file("modlist", "".join(n + "\n" for n in names).encode())
    archive.file("init", (GUEST / "init").read_bytes(), 0o755)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as tmp:
        tmp.write(archive.bytes())
    os.rename(tmp.name, target)
    return target


def build(kernel, settings, command, target):
    """Write base + this run's part to TARGET.  settings: shell variables of the guest."""
    run = Cpio()
    config = "".join(f"{k}={shlex.quote(str(v))}\n" for k, v in settings.items())
    run.file("vm/config", config.encode())
    run.file("vm/command", command.encode(), 0o755)
    run.file("vm/pid1", (GUEST / "pid1").read_bytes(), 0o755)
    with open(target, "wb") as out:
        with open(base_image(kernel), "rb") as base:
            shutil.copyfileobj(base, out)
        out.write(run.bytes())
