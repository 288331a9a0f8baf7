# SPDX-License-Identifier: GPL-2.0
"""The virtual machine as a QEMU command line: accelerator, memory, disks, ports.

Nothing here starts the guest but `probe_kvm()`, which tries whether KVM can boot
the kernel at all: a /dev/kvm that exists may belong to a nested hypervisor on which
stock kernels hang right after the firmware.
"""

from dataclasses import dataclass, field
from pathlib import Path
import fcntl
import os
import re
import shutil
import subprocess

from . import VmError, cache_root

QEMU = "qemu-system-x86_64"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
GIB = 1 << 30
PROBE_SECONDS = 6
MIN_MEM = 256 << 20
PMEM_ALIGN = 128 << 20  # a memory section

# Emulated string instructions are slow and la57/smap cost page-table work that
# tests nothing here.
TCG_CPU = "max,-erms,-fsrm,la57=off,-smap,-smep,-umip"
# Arguments that matter under emulation: without address randomisation
# translations are reused; rep_good off keeps memcpy away from rep movs; on a busy
# host the timer comes too late for the check of the interrupt controller, which panics.
TCG_APPEND = "norandmaps clearcpuid=rep_good tsc=reliable no_timer_check"
APPEND = (
    "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on cryptomgr.notests "
    "audit=0 init_on_alloc=0 rcupdate.rcu_cpu_stall_timeout=120"
)


def parse_size(text):
    match = re.fullmatch(r"(\d+)([KMGT]?)(i?B)?", text, re.IGNORECASE)
    if not match or int(match[1]) == 0:
        raise VmError(f"size '{text}': expected a positive number with K, M, G or T, such as 2G")
    return int(match[1]) * UNITS[match[2].upper()]


@dataclass(frozen=True)
class Nvme:
    """One emulated NVMe disk; path None = a fresh one that goes with the machine."""

    size: int
    lba: int = 4096
    queues: int = 4
    path: Path | None = None

    @classmethod
    def parse(cls, text):
        size, *options = text.split(",")
        values = {}
        for option in options:
            key, _, value = option.partition("=")
            if key not in ("lba", "queues", "file") or not value or key in values:
                raise VmError(f"--nvme: bad or repeated option '{option}': known are lba=4096|512, queues=N, file=PATH")
            values[key] = value
        if values.get("lba", "4096") not in ("512", "4096"):
            raise VmError(f"--nvme: lba={values['lba']}: must be 512 or 4096")
        queues = values.get("queues", "4")
        if not queues.isdigit() or not 1 <= int(queues) <= 64:
            raise VmError(f"--nvme: queues={queues}: must be 1 to 64")
        path = Path(values["file"]).resolve() if "file" in values else None
        disk = cls(parse_size(size), int(values.get("lba", 4096)), int(queues), path)
        if disk.size % disk.lba:
            raise VmError(f"--nvme: size {disk.size} is not a multiple of lba={disk.lba}")
        return disk

    def prepare(self, folder, number):
        """The backing file, created sparse where it is missing; never resized."""
        path = self.path or folder / f"nvme{number}.img"
        if path.exists():
            have = path.stat().st_size
            if have != self.size:
                raise VmError(f"{path}: holds {have} bytes, --nvme asks for {self.size}: give the same size or another file")
        else:
            try:
                with open(path, "wb") as file:
                    file.truncate(self.size)
            except OSError as error:
                raise VmError(f"--nvme: {path} cannot be made: {error.strerror}") from error
        return path


@dataclass
class Machine:
    """What a run needs; see argv()."""

    kernel: object
    accel: str  # kvm or tcg
    cpus: int = 2
    mem: int = 2 * GIB
    numa: bool = False
    icount: bool = False
    pmem: int = 0
    nvme: list = field(default_factory=list)
    out: Path | None = None
    append: list = field(default_factory=list)

    def __post_init__(self):
        if self.mem < MIN_MEM:
            raise VmError(f"--mem {self.mem >> 20}M: the guest needs {MIN_MEM >> 20}M or more")
        if self.pmem % (2 << 20):
            raise VmError(f"--pmem {self.pmem}: must be a multiple of 2M")

    def memory(self):
        """(RAM bytes to give QEMU, kernel argument) such that PMEM bytes lie in one piece.

        q35 puts at most 2 GiB below the PCI hole once RAM exceeds 2.75 GiB.  The
        firmware's tables end the low part, so the range is cut from its middle, or
        from the part above 4 GiB.
        """
        if not self.pmem:
            return self.mem, []
        total = self.mem + self.pmem
        if total <= 0xB0000000:
            start = self.mem // 2 // PMEM_ALIGN * PMEM_ALIGN
        else:
            total = max(total, 2 * GIB + self.pmem)
            start = 4 * GIB
        return total, [f"memmap={self.pmem >> 20}M!{start >> 20}M"]

    def argv(self, folder, share, initrd, fds, serial):
        """The command line.  share: see share.py; fds: control, out and err pipes."""
        ram, pmem_append = self.memory()
        tcg = self.accel == "tcg"
        if self.icount:
            accel = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"]
        elif tcg:
            accel = ["-accel", "tcg,thread=multi,tb-size=512"]
        else:
            accel = ["-accel", "kvm"]
        argv = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", *accel]
        argv += ["-cpu", TCG_CPU if tcg else "host", "-smp", self.topology(), *self.memory_argv(ram)]
        argv += ["-kernel", str(self.kernel.image), "-initrd", str(initrd), "-serial", serial]
        argv += share.argv
        argv += ["-device", "virtio-serial-pci"]
        for number, (name, fd) in enumerate(zip(("control", "out", "err"), fds), 1):
            argv += ["-chardev", f"file,id={name},path=/proc/self/fd/{fd}"]
            argv += ["-device", f"virtserialport,chardev={name},name=vm.{name},nr={number}"]
        if self.out:
            argv += ["-fsdev", f"local,id=out,path={escape(self.out)},security_model=none,multidevs=remap"]
            argv += ["-device", "virtio-9p-pci,fsdev=out,mount_tag=out"]
        for number, disk in enumerate(self.nvme):
            argv += nvme_argv(disk, number, folder)
        append = [APPEND, *([TCG_APPEND] if tcg else []), *pmem_append, *self.append]
        if self.kernel.debug:
            append.append("kmemleak=on")
        return [*argv, "-append", " ".join(append)]

    def topology(self):
        # CPUs of one socket on two nodes would make the kernel complain.
        return f"cpus={self.cpus},sockets=2,cores={self.cpus // 2}" if self.numa else str(self.cpus)

    def memory_argv(self, ram):
        nodes = 2 if self.numa else 1
        argv = ["-m", f"{ram >> 20}M"]
        for node in range(nodes):
            share = ram // nodes >> 20 << 20
            size = share if node else ram - share * (nodes - 1)
            argv += ["-object", f"memory-backend-memfd,id=mem{node},size={size},share=on"]
            cpus = ""
            if self.numa:
                half = self.cpus // 2
                first, last = (0, half - 1) if node == 0 else (half, self.cpus - 1)
                cpus = f",cpus={first}-{last}"
            argv += ["-numa", f"node,nodeid={node},memdev=mem{node}{cpus}"]
        return argv


def escape(path):
    """A comma in a QEMU option value is written twice."""
    return str(path).replace(",", ",,")


def nvme_argv(disk, number, folder):
    path = disk.prepare(folder, number)
    return [
        "-drive", f"file={escape(path)},if=none,format=raw,id=drive{number},cache=unsafe,aio=threads,discard=unmap",
        "-device", f"nvme,serial=vm-nvme{number},id=nvme{number},max_ioqpairs={disk.queues},msix_qsize={disk.queues + 1}",
        "-device", f"nvme-ns,drive=drive{number},bus=nvme{number},nsid=1,"
        f"logical_block_size={disk.lba},physical_block_size={disk.lba}",
    ]


# ---- accelerator ----------------------------------------------------------


def choose_accel(kernel, icount):
    """'kvm' or 'tcg': VM_ACCEL decides, else KVM where it truly boots this kernel."""
    wanted = os.environ.get("VM_ACCEL", "auto")
    if wanted not in ("auto", "kvm", "tcg"):
        raise VmError(f"VM_ACCEL={wanted}: must be kvm, tcg or auto")
    if not shutil.which(QEMU):
        raise VmError(f"no {QEMU} here: run 'make deps' (package qemu-system-x86)")
    if icount:
        if wanted == "kvm":
            raise VmError("--icount counts emulated instructions: it cannot run with VM_ACCEL=kvm")
        return "tcg"
    if wanted != "auto":
        return wanted
    return "kvm" if os.access("/dev/kvm", os.R_OK | os.W_OK) and kvm_boots(kernel) else "tcg"


def kvm_boots(kernel):
    """Remembered per boot of the host and per kernel, so the probe is paid once."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    mark = cache_root() / "accel" / f"{boot_id}-{kernel.release}"
    mark.parent.mkdir(parents=True, exist_ok=True)
    with open(mark, "a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # of several runs at once, one probes
        file.seek(0)
        known = file.read()
        if not known:
            known = "kvm" if probe_kvm(kernel) else "tcg"
            file.write(known)
    return known == "kvm"


def probe_kvm(kernel):
    """Boot the kernel without a root: it must panic for want of one, and soon.

    'panic=-1 -no-reboot' turns the panic into an exit of QEMU.
    """
    argv = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35"]
    argv += ["-accel", "kvm", "-cpu", "host", "-m", "512M", "-kernel", str(kernel.image), "-serial", "stdio"]
    argv += ["-append", "console=ttyS0 panic=-1"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return b"Kernel panic - not syncing: VFS" in done.stdout
