# SPDX-License-Identifier: GPL-2.0
"""Which kernel is taken, and what is fetched, on machines that are not this one: the folder of modules, the cache and
the archives are false."""
import os
import pathlib
import sys
import tempfile
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "vm"))

from vmlib import TOP, VmError, cache_root, kernels  # noqa: E402

OLD, NEW, NEXT = "6.1.0-20-amd64", "6.1.0-57-amd64", "6.12.9+deb12-amd64"


class Machine(unittest.TestCase):
    """A machine with installed headers and an archive of kernels."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="uhsfs-kernels-")
        self.addCleanup(holder.cleanup)
        self.top = pathlib.Path(holder.name)
        self.archive = [NEW, NEXT]
        self.downloads = []
        self.said = []
        for patch in (
            mock.patch.dict(os.environ, {"UHSFS_CACHE": str(self.top / "cache")}),
            mock.patch.object(kernels, "MODULES", self.top / "modules"),
            mock.patch.object(kernels, "ROOT", self.top),
            mock.patch.object(kernels, "run", self.apt),
            mock.patch.object(kernels, "extract_vmlinux", lambda data: None),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.runs("9.9.9-elsewhere")

    def runs(self, release):
        patch = mock.patch("os.uname", return_value=mock.Mock(release=release))
        patch.start()
        self.addCleanup(patch.stop)

    def headers(self, *releases):
        for release in releases:
            self.write(self.top / "modules" / release / "build" / "Makefile")

    def image(self, release):
        (self.top / "modules" / release / "kernel").mkdir(parents=True)
        self.write(self.top / "boot" / f"vmlinuz-{release}")

    @staticmethod
    def write(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("/usr/src\n")

    def fetch(self, name):
        return kernels.fetch(name, self.said.append)

    def apt(self, *argv, cwd=None):
        """What fetch() calls: apt-cache, apt-get download, dpkg-deb, depmod."""
        if argv[:2] == ("apt-cache", "search"):
            return "".join(f"linux-image-{release} - Linux\n" for release in self.archive)
        if argv[:2] == ("apt-cache", "madison"):
            return "found\n" if argv[2].removeprefix("linux-image-") in self.archive else ""
        if argv[0] == "apt-get":
            for package in argv[argv.index("-q") + 1:]:
                if not package.startswith(("-o", "APT")):
                    self.downloads.append(package)
                    self.write(cwd / f"{package}.deb")
        elif argv[0] == "dpkg-deb":
            package, root = argv[2].stem, argv[3]
            kind, release = package.split("-", 2)[1:]
            if kind == "image":
                self.write(root / "boot" / f"vmlinuz-{release}")
                (root / "lib" / "modules" / release).mkdir(parents=True)
            elif not release.endswith("common"):
                self.write(root / "usr" / "src" / package / "Makefile")
        return ""


class Choice(Machine):
    def test_default(self):
        """the default is the running kernel if it has headers and is supported, else the stock series"""
        self.headers(OLD, NEW, NEXT, "6.9.1-amd64", "7.0.1-amd64")
        self.assertEqual(kernels.default_release(), NEW)
        self.runs(NEXT)
        self.assertEqual(kernels.default_release(), NEXT)
        self.runs("7.0.1-amd64")
        self.assertEqual(kernels.default_release(), NEW)

    def test_nothing(self):
        """a machine without kernels is told what to do"""
        self.assertRaisesRegex(VmError, "make deps", kernels.default_release)
        self.assertRaisesRegex(VmError, "kernel fetch 6.12", kernels.resolve, "6.12")

    def test_objects(self):
        """objects of the default kernel are beside the sources, others below build/"""
        self.headers(NEW)
        self.assertEqual(kernels.object_tree(NEW), TOP)
        self.assertEqual(kernels.object_tree(NEXT), TOP / "build" / NEXT)

    def test_bootable(self):
        """a kernel with headers alone is refused for a machine, with the remedy"""
        self.headers(NEW)
        self.assertRaisesRegex(VmError, f"tools/vm/kernel fetch {NEW}", kernels.resolve_bootable, "6.1")


    def test_relative_cache(self):
        """a relative UHSFS_CACHE is a folder below the current one, also for programs that run elsewhere"""
        for settings in ({"UHSFS_CACHE": "c"}, {"UHSFS_CACHE": "", "XDG_CACHE_HOME": "c"}):
            with mock.patch.dict(os.environ, settings):
                self.assertTrue(cache_root().is_absolute())


class Fetch(Machine):
    def test_image_only(self):
        """of a kernel whose headers are installed only the image is fetched"""
        self.headers(NEW)
        self.assertEqual(self.fetch("6.1"), NEW)
        self.assertEqual(self.downloads, [f"linux-image-{NEW}"])
        self.assertTrue(kernels.resolve("default").complete)

    def test_with_headers(self):
        """of another kernel image and headers are"""
        self.assertEqual(self.fetch("6.12"), NEXT)
        self.assertEqual(len(self.downloads), 4)
        self.assertTrue(kernels.resolve("6.12").complete)

    def test_twice(self):
        """what is here is not fetched again, nor is an installed kernel"""
        self.headers(NEW)
        self.image(NEW)
        self.fetch("6.1")
        self.fetch("default")
        self.assertEqual(self.downloads, [])
        self.fetch("6.12")
        self.fetch("6.12")
        self.assertEqual(len(self.downloads), 4)

    def test_gone(self):
        """a release that the archives dropped is replaced by the newest, for builds and machines"""
        self.headers(OLD)
        self.assertEqual(self.fetch("6.1"), NEW)
        self.assertIn(f"{NEW} takes its place", self.said[0])
        for name in ("6.1", "default"):
            self.assertEqual(kernels.resolve(name).release, NEW)
            self.assertTrue(kernels.resolve(name).complete)

    def test_running_gone(self):
        """a running kernel that the archives dropped stays the default, and deps goes on"""
        self.headers(OLD, NEW)
        self.runs(OLD)
        self.assertEqual([self.fetch(name) for name in ("6.1", "6.12", "default")], [NEW, NEXT, OLD])
        self.assertIn("builds only", self.said[-1])

    def test_running_other(self):
        """on a machine that runs 6.12 the stock kernel is fetched too"""
        self.headers(NEXT)
        self.image(NEXT)
        self.runs(NEXT)
        self.assertEqual([self.fetch(name) for name in ("6.1", "6.12", "default")], [NEW, NEXT, NEXT])
        self.assertTrue(kernels.resolve("6.1").complete)

    def test_unknown(self):
        """a release that is named and not there is an error"""
        self.assertRaisesRegex(VmError, "no package linux-image-6.1.0-20-amd64", self.fetch, OLD)

    def test_at_once(self):
        """two fetches at once bring a kernel once"""
        threads = [threading.Thread(target=self.fetch, args=("6.12",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.downloads), 4)
        self.assertTrue(kernels.resolve("6.12").complete)


del Machine  # it has no cases of its own

if __name__ == "__main__":
    unittest.main()
