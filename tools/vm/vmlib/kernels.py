# SPDX-License-Identifier: GPL-2.0
"""Which kernel a build or a boot uses, and where its files are.

The module build (Makefile) and the virtual machine must never disagree, so
both ask `resolve()`.  A kernel is named by

    default         the running kernel if its headers are installed and the
                    project supports it, else one of the oldest supported series
                    (Debian 12's stock kernel)
    6.1, 6.12       one of that series: first one that can be built for and booted,
                    then an installed one, then the newest
    6.1.0-57-amd64  exactly that release, installed or cached
    debug           the kernel that tools/vm/build-debug-kernel made

Headers of the stock series come from installed packages (`make deps`).  Images
are never installed: `fetch()` downloads packages with apt-get, unpacks them
below cache_root()/kernels/RELEASE and writes `.complete` last, so a broken
download never looks like a kernel.
"""

from dataclasses import dataclass
from pathlib import Path
import fcntl
import lzma
import os
import re
import shutil
import subprocess
import tempfile
import zlib

from . import TOP, VmError, cache_root, run

ROOT = Path("/")
MODULES = ROOT / "lib" / "modules"


@dataclass(frozen=True)
class Kernel:
    """One kernel: kdir builds modules for it, image and modroot boot it."""

    release: str
    kdir: Path | None  # for make -C
    image: Path | None  # bzImage or vmlinux with a PVH note
    modroot: Path | None  # the folder that holds lib/modules/RELEASE
    debug: bool = False

    @property
    def bootable(self):
        return bool(self.image and self.modroot)

    @property
    def complete(self):
        return bool(self.kdir and self.bootable)


def series_of(release):
    match = re.match(r"(\d+)\.(\d+)", release)
    if not match:
        raise VmError(f"kernel release '{release}' does not start with MAJOR.MINOR")
    return int(match[1]), int(match[2])


def natural(release):
    """Sort key: numbers as numbers, so that 6.1.0-9 < 6.1.0-57."""
    return [(1, int(p), "") if p.isdigit() else (0, 0, p) for p in re.split(r"(\d+)", release)]


def supported_range():
    """The range in META: ((6, 1), (6, 12))."""
    meta = dict(
        line.split(":", 1) for line in (TOP / "META").read_text().splitlines() if ":" in line
    )
    return tuple(series_of(meta[key].strip()) for key in ("Kernel-Minimum", "Kernel-Maximum"))


def store(name):
    return cache_root() / "kernels" / name


def installed_releases():
    if not MODULES.is_dir():
        return []
    found = [d.name for d in MODULES.iterdir() if (d / "build" / "Makefile").exists()]
    return sorted(found, key=natural)


def cached_releases():
    base = cache_root() / "kernels"
    if not base.is_dir():
        return []
    found = [d.name for d in base.iterdir() if (d / ".complete").exists() and d.name != "debug"]
    return sorted(found, key=natural)


def debug_kernel():
    base = store("debug")
    if not (base / ".complete").exists():
        raise VmError("no debug kernel: build it with tools/vm/build-debug-kernel")
    release = (base / "release").read_text().strip()
    return Kernel(release, base / "build", base / "boot" / f"vmlinuz-{release}", base, debug=True)


def default_release():
    low, high = supported_range()
    installed = installed_releases()
    running = os.uname().release
    if running in installed and low <= series_of(running) <= high:
        return running
    stock = best_of(low)
    if not stock or not resolve(stock).kdir:
        name = ".".join(map(str, low))
        raise VmError(f"no headers of a {name} kernel are installed: run 'make deps'")
    return stock


def best_of(series):
    """The release that a series, such as (6, 1), stands for, or None."""
    installed, cached = installed_releases(), cached_releases()
    known = [r for r in {*installed, *cached} if series_of(r) == series]
    return max(known, key=lambda r: (resolve(r).complete, r in installed, natural(r)), default=None)


def release_of(name):
    """The release that NAME stands for; VmError where there is none."""
    if name == "default":
        return default_release()
    if re.fullmatch(r"\d+\.\d+", name):
        best = best_of(series_of(name))
        if not best:
            raise VmError(f"no kernel {name} here: fetch it with 'tools/vm/kernel fetch {name}'")
        return best
    installed, cached = installed_releases(), cached_releases()
    if name in installed or name in cached:
        return name
    known = sorted(set(installed + cached), key=natural) or ["none"]
    raise VmError(f"no kernel '{name}': known are {', '.join(known)}; see 'tools/vm/kernel fetch'")


def boot_image(base, release):
    """The uncompressed kernel where it could be extracted: it boots twice as fast under TCG."""
    for candidate in (base / "boot" / f"vmlinux-{release}", base / "boot" / f"vmlinuz-{release}"):
        if candidate.exists():
            return candidate
    return None


def resolve(name="default"):
    if name == "debug":
        return debug_kernel()
    release = release_of(name)
    installed = MODULES / release / "build"
    cached = store(release)
    kdir = None
    if installed.exists():
        kdir = installed
    elif (cached / "usr" / "src" / f"linux-headers-{release}").exists():
        kdir = cached / "usr" / "src" / f"linux-headers-{release}"
    if (cached / ".complete").exists():
        return Kernel(release, kdir, boot_image(cached, release), cached)
    image = boot_image(ROOT, release)
    has_modules = (MODULES / release / "kernel").is_dir()
    return Kernel(release, kdir, image, ROOT if image and has_modules else None)


def resolve_bootable(name):
    kernel = resolve(name)
    if not kernel.bootable:
        release = kernel.release
        raise VmError(f"kernel {release} has no image here: fetch it with 'tools/vm/kernel fetch {release}'")
    return kernel


def object_tree(release):
    """Where the module's objects for a kernel are: those of the default kernel beside the sources."""
    try:
        default = default_release()
    except VmError:
        default = None
    return TOP if release == default else TOP / "build" / release


# ---- fetching -------------------------------------------------------------


def newest_package_release(series):
    """The newest linux-image release of a series that the configured archives offer."""
    names = run("apt-cache", "search", "--names-only", rf"^linux-image-{re.escape(series)}\.").split("\n")
    pattern = re.compile(rf"linux-image-({re.escape(series)}\.\d+[^ ]*-amd64) ")
    found = [m[1] for m in map(pattern.match, names) if m]
    found = [r for r in found if not re.search(r"(cloud|rt)-amd64$|unsigned|dbg", r)]
    if not found:
        raise VmError(
            f"no linux-image-{series}* package in the configured archives: "
            "run 'apt-get update' (Debian 12 with its security suite has it)"
        )
    return max(found, key=natural)


def offered(release):
    """Whether the archives still have the image of a release; madison knows no installed packages."""
    return bool(run("apt-cache", "madison", f"linux-image-{release}").strip())


def packages_for(release, with_headers):
    yield f"linux-image-{release}"
    if with_headers:
        flavourless = release.removesuffix("-amd64")
        yield f"linux-headers-{release}"
        yield f"linux-headers-{flavourless}-common"
        yield f"linux-kbuild-{flavourless}"


def fetch(name, say=print):
    """See that kernel NAME can be built for and booted; returns its release.

    Archives drop a release when the next one comes, while its headers stay installed
    here; then the newest of its series is fetched, with headers.
    """
    base = cache_root() / "kernels"
    base.mkdir(parents=True, exist_ok=True)
    with open(base / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another fetch may be bringing the same kernel
        release = wanted_release(name)
        if is_complete(release):
            return release
        if not offered(release):
            if name == release:
                raise VmError(f"no package linux-image-{release} in the archives: run 'apt-get update', or name a series")
            if release == os.uname().release:
                say(f"kernel {release} runs here but the archives have no image of it: builds only, no machines")
                return release
            newest = newest_package_release(".".join(map(str, series_of(release))))
            say(f"kernel {release} has headers here but no image in the archives: {newest} takes its place")
            release = newest
        if not is_complete(release):
            download(release)
    return release


def wanted_release(name):
    if name == "default":
        return default_release()
    if re.fullmatch(r"\d+\.\d+", name):
        return best_of(series_of(name)) or newest_package_release(name)
    return name


def is_complete(release):
    return release in {*installed_releases(), *cached_releases()} and resolve(release).complete


def download(release):
    target = store(release)
    with_headers = release not in installed_releases()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as tmp:
        work = Path(tmp)
        debs = work / "debs"
        debs.mkdir()
        sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
        run("apt-get", "download", "-q", *sandbox, *packages_for(release, with_headers), cwd=debs)
        root = work / "root"
        for deb in debs.iterdir():
            run("dpkg-deb", "-x", deb, root)
        finish_tree(root, release)
        if target.exists():
            target.rename(work / "old")
        root.rename(target)
    (target / ".complete").touch()


def finish_tree(root, release):
    """What the packages' post-install scripts and absolute paths would have done."""
    run("depmod", "-b", root, release)
    vmlinuz = root / "boot" / f"vmlinuz-{release}"
    elf = extract_vmlinux(vmlinuz.read_bytes())
    if elf:
        (root / "boot" / f"vmlinux-{release}").write_bytes(elf)
    for link in ("build", "source"):
        (root / "lib" / "modules" / release / link).unlink(missing_ok=True)
    headers = root / "usr" / "src" / f"linux-headers-{release}"
    if headers.is_dir():
        # The packaged Makefile includes its sibling by absolute path.
        final = store(release) / "usr" / "src"
        makefile = headers / "Makefile"
        makefile.write_text(makefile.read_text().replace("/usr/src", str(final)))


def extract_vmlinux(bzimage):
    """The ELF kernel inside a bzImage, or None when its compression is unknown."""
    for magic, unpack in (
        (b"\xfd7zXZ\x00", lambda d: lzma.LZMADecompressor().decompress(d)),
        (b"\x28\xb5\x2f\xfd", unzstd),
        (b"\x1f\x8b\x08", lambda d: zlib.decompressobj(31).decompress(d)),
    ):
        at = bzimage.find(magic)
        while at >= 0:
            try:
                data = unpack(bzimage[at:])
            except (lzma.LZMAError, zlib.error, OSError):
                data = b""
            if data.startswith(b"\x7fELF"):
                return data
            at = bzimage.find(magic, at + 1)
    return None


def unzstd(data):
    # zstd complains about what follows the frame; the frame itself comes out whole.
    done = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=False)
    return done.stdout
