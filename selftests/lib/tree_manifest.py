#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""tree_manifest.py DIR: everything that can be seen of a tree, one line per object.

Two trees are equal if and only if their manifests are: path, type, mode, owner, device, links,
size, times of access and modification in ns, symlink target, extended attributes, content, where
data and holes are, and which names are one inode (`same=` the first of them).  What may differ is
left out: sizes of directories, blocks, inode numbers, times of change.  Links of a directory are
counted from its subdirectories, as not every filesystem counts them; that what the kernel says
is 1 or just that is checked here, as is that readdir gives the inode and type that stat gives.

Bytes that are not plain are escaped, so that a line is a line.  Directories are sorted by name.
"""
import errno
import hashlib
import os
import stat
import sys

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink", stat.S_IFCHR: "char",
         stat.S_IFBLK: "block", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}
BLOCK = 4096
STEP = 1 << 20
READ_HOLES = 64 << 20       # of larger files only the data is read
SEGMENTS = 8                # of longer maps a hash is shown


def shown(raw):
    return "".join(chr(b) if 0x21 <= b <= 0x7e and b not in b"\\" else f"\\x{b:02x}" for b in raw)


def digest(raw):
    return hashlib.blake2b(raw, digest_size=12).hexdigest()


def segments(fd, size):
    """[(start, end)] of data, as SEEK_DATA and SEEK_HOLE say."""
    found, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        at = os.lseek(fd, start, os.SEEK_HOLE)
        found.append((start, at))
    return found


def hash_range(state, fd, start, end):
    while start < end:
        piece = os.pread(fd, min(STEP, end - start), start)
        if not piece:
            raise EOFError(f"end of file at {start}, not at {end}")
        state.update(piece)
        start += len(piece)


def content(path, size):
    """Hash and map.  What fits into one block may stand in an inode, which has no holes."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME)
    try:
        state = hashlib.blake2b(digest_size=12)
        if size <= BLOCK:
            hash_range(state, fd, 0, size)
            return f"data={state.hexdigest()}"
        data = segments(fd, size)
        for start, end in [(0, size)] if size <= READ_HOLES else data:
            hash_range(state, fd, start, end)
        shape = ",".join(f"{start}-{end}" for start, end in data)
        if len(data) > SEGMENTS:
            shape = f"{len(data)}:{digest(shape.encode())}"
        return f"data={state.hexdigest()} map={shape}"
    finally:
        os.close(fd)


def attributes(path):
    words = []
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        value = os.getxattr(path, name, follow_symlinks=False)
        words.append(f"{shown(os.fsencode(name))}={len(value)}:{digest(value)}")
    return words


class Manifest:
    def __init__(self, top):
        self.top = top
        self.first = {}

    def line(self, path, inner, entries):
        st = os.lstat(path)
        kind = TYPES[stat.S_IFMT(st.st_mode)]
        words = [shown(inner or b"."), kind, f"mode={stat.S_IMODE(st.st_mode):04o}",
                 f"owner={st.st_uid}:{st.st_gid}", f"atime={st.st_atime_ns}", f"mtime={st.st_mtime_ns}"]
        if kind == "dir":
            links = 2 + sum(entry.is_dir(follow_symlinks=False) for entry in entries)
            words.append(f"links={links}" if st.st_nlink in (1, links) else f"links={st.st_nlink}-not-{links}")
        else:
            words.append(f"links={st.st_nlink}")
            if st.st_nlink > 1:
                words.append("same=" + shown(self.first.setdefault((st.st_dev, st.st_ino), inner)))
        if kind in ("char", "block"):
            words.append(f"device={os.major(st.st_rdev)}:{os.minor(st.st_rdev)}")
        if kind in ("file", "symlink"):
            words.append(f"size={st.st_size}")
        if kind == "symlink":
            words.append("target=" + shown(os.readlink(path)))
        if kind == "file":
            words.append(content(path, st.st_size))
        return " ".join(words + attributes(path))

    def check_entry(self, entry):
        """What readdir says of an object must be what stat says."""
        st = entry.stat(follow_symlinks=False)
        same = (entry.is_dir(follow_symlinks=False), entry.is_symlink(), entry.is_file(follow_symlinks=False)) == (
            stat.S_ISDIR(st.st_mode), stat.S_ISLNK(st.st_mode), stat.S_ISREG(st.st_mode))
        # What is mounted in the tree has another inode than the folder it hides.
        if not same or (entry.inode() != st.st_ino and not os.path.ismount(entry.path)):
            print(f"{shown(entry.path)} readdir gives inode {entry.inode()}, stat {st.st_ino}, or another type")

    def walk(self, path, inner):
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        print(self.line(path, inner, entries))
        for entry in entries:
            below = inner + b"/" + entry.name if inner else entry.name
            self.check_entry(entry)
            if entry.is_dir(follow_symlinks=False):
                self.walk(entry.path, below)
            else:
                print(self.line(entry.path, below, ()))


if __name__ == "__main__":
    Manifest(os.fsencode(sys.argv[1])).walk(os.fsencode(sys.argv[1]), b"")
