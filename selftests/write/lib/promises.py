#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A program that is killed, and what it was promised.

    promises.py write DIR LOG SEED [STEPS] [MARK]   change DIR; say in LOG what was promised
    promises.py check DIR LOG                       is all of it kept?
    promises.py resume DIR LOG NEWLOG SEED          go on with what is there; LOG was checked

A line of LOG is a JSON list:

    ["will", path, state]   from now on this, or what was right before
    ["is", path, state]     only this is right: fsync said so

States are "gone", "dir", "-> target" of a symlink, or [version, size] of a file.  A file's bytes follow
from its version and their place, so that nothing can be taken for something else.  LOG is written
through.  MARK is a command that is run after each promise, with the number of lines so far as its last
argument.
"""
import json
import mmap
import os
import random
import subprocess
import sys

PIECE = 4096
FILES = 120         # at most, or reading them all takes too long
HELD = 6            # open files without a name


def piece(version, number):
    return random.Random(version << 32 | number).randbytes(PIECE)


def content(version, size, start=0):
    first = start // PIECE
    data = b"".join(piece(version, n) for n in range(first, (size + PIECE - 1) // PIECE))
    return data[start - first * PIECE:size - first * PIECE]


class Writer:
    def __init__(self, top, log, seed, mark):
        self.top, self.rng, self.mark, self.lines = top, random.Random(seed), mark, 0
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DSYNC, 0o644)
        self.version = 0
        self.files = {}         # path: (version, size)
        self.symlinks = {}      # path: state
        self.held = []          # open files without a name: [fd, path, version, size]
        self.touched = set()    # paths that ever were
        self.dirs = [""]
        self.ever = {}          # version: paths that the file may have if the machine stops now

    def say(self, kind, path, state):
        os.write(self.log, (json.dumps([kind, path, state]) + "\n").encode())
        self.lines += 1
        if self.mark and kind == "is":
            subprocess.run([*self.mark, str(self.lines)], check=True)

    def path(self, name):
        return os.path.join(self.top, name)

    def sync_dir(self, name):
        fd = os.open(self.path(name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def a_name(self):
        name = self.rng.choice(self.dirs) + "/" + self.rng.choice("abcdefghij") + "n" * self.rng.choice([0, 0, 3, 100])
        return name.lstrip("/")

    def a_file(self):
        return self.rng.choice(sorted(self.files)) if self.files else None

    def taken(self, path):
        return path in self.files or path in self.dirs or path in self.symlinks

    def others(self, path):
        return [p for p, state in self.files.items() if state[0] == self.files[path][0]]

    def change(self, path, state):
        """What is about to be done to a file, under all its names."""
        for name in sorted(self.ever[state[0]]):
            self.say("will", name, list(state))
        for name in self.others(path):
            self.files[name] = state

    def promised(self, path):
        """After fsync of a file: it has its names, and only those."""
        version, size = self.files[path]
        names = self.others(path)
        for name in names:
            self.say("is", name, [version, size])
        for name in sorted(self.ever[version] - set(names)):
            if not self.taken(name):
                self.say("is", name, "gone")
        self.ever[version] = set(names)

    def gone(self, path):
        self.say("is", path, "gone")
        for names in self.ever.values():
            names.discard(path)

    def create(self):
        path = self.a_name()
        if self.taken(path) or len(self.files) >= FILES:
            return
        self.version += 1
        size = self.rng.choice([0, 1, 100, 4096, 5000, 20000, 300000])
        self.say("will", path, [self.version, size])
        if self.rng.randrange(4):
            fd = os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL)
            os.write(fd, content(self.version, size))
        else:
            # It gets its name when its data is there.
            fd = os.open(self.path(os.path.dirname(path)), os.O_RDWR | os.O_TMPFILE)
            os.write(fd, content(self.version, size))
            os.link(f"/proc/self/fd/{fd}", self.path(path), src_dir_fd=fd, follow_symlinks=True)
        self.files[path] = (self.version, size)
        self.ever[self.version] = {path}
        how = self.rng.randrange(4)
        if how > 1:
            os.fsync(fd)
            self.promised(path)
        elif how == 1:
            # The name, whatever of the data.
            self.sync_dir(os.path.dirname(path))
            self.dir_promised(os.path.dirname(path))
            self.say("is", path, [self.version, 0])
            self.say("will", path, [self.version, size])
        os.close(fd)

    def append(self):
        path = self.a_file()
        if not path:
            return
        version, size = self.files[path]
        more = size + self.rng.choice([1, 100, 4096, 70000])
        self.change(path, (version, more))
        fd = os.open(self.path(path), os.O_RDWR | os.O_APPEND)
        os.write(fd, content(version, more, size))
        if self.rng.randrange(3):
            (os.fsync if self.rng.randrange(2) else os.fdatasync)(fd)
            self.promised(path)
        os.close(fd)

    def map(self):
        """Grow a file through a mapping."""
        path = self.a_file()
        if not path:
            return
        version, size = self.files[path]
        more = size + self.rng.choice([1, 100, 4096, 30000])
        self.change(path, (version, more))
        fd = os.open(self.path(path), os.O_RDWR)
        os.ftruncate(fd, more)
        with mmap.mmap(fd, more) as mapped:
            mapped[size:] = content(version, more, size)
            if self.rng.randrange(2):
                mapped.flush()
                self.promised(path)
        os.close(fd)

    def truncate(self):
        path = self.a_file()
        if not path:
            return
        version, size = self.files[path]
        less = self.rng.randrange(size + 1)
        self.change(path, (version, less))
        fd = os.open(self.path(path), os.O_RDWR)
        os.ftruncate(fd, less)
        if self.rng.randrange(2):
            os.fsync(fd)
            self.promised(path)
        os.close(fd)

    def link(self):
        path, name = self.a_file(), self.a_name()
        if not path or self.taken(name):
            return
        state = list(self.files[path])
        self.say("will", name, state)
        os.link(self.path(path), self.path(name))
        self.files[name] = self.files[path]
        self.ever[state[0]].add(name)
        if self.rng.randrange(2):
            fd = os.open(self.path(name), os.O_RDWR)
            os.fsync(fd)
            os.close(fd)
            self.promised(name)

    def rename(self):
        """To a name that is free, or over another file."""
        path, name = self.a_file(), self.a_name()
        if not path or name == path or name in self.dirs or name in self.symlinks:
            return
        if self.files.get(name, (None,))[0] == self.files[path][0]:
            return
        state = self.files[path]
        self.say("will", name, list(state))
        self.say("will", path, "gone")
        os.rename(self.path(path), self.path(name))
        del self.files[path]
        self.files[name] = state
        self.ever[state[0]].add(name)
        if self.rng.randrange(2):
            fd = os.open(self.path(name), os.O_RDWR)
            os.fsync(fd)
            os.close(fd)
            self.promised(name)

    def unlink(self):
        path = self.rng.choice(sorted([*self.files, *self.symlinks]) or [None])
        if not path:
            return
        if path in self.files and len(self.others(path)) == 1 and len(self.held) < HELD and self.rng.randrange(2):
            self.held.append([os.open(self.path(path), os.O_RDWR), path, *self.files[path]])
        self.say("will", path, "gone")
        os.unlink(self.path(path))
        self.files.pop(path, None)
        self.symlinks.pop(path, None)
        if self.rng.randrange(2):
            self.sync_dir(os.path.dirname(path))
            self.dir_promised(os.path.dirname(path))

    def use_held(self):
        """A file without a name: there is nothing of it after a crash."""
        if not self.held:
            return
        which = self.rng.choice(self.held)
        fd, path, version, size = which
        if self.rng.randrange(3):
            more = self.rng.choice([1, 4096, 20000])
            os.pwrite(fd, content(version, size + more, size), size)
            which[3] += more
        if self.rng.randrange(2):
            os.fsync(fd)
            # Another one may have the name by now.
            if not self.taken(path) and path in self.ever[version]:
                self.gone(path)
            self.ever[version].discard(path)
        if not self.rng.randrange(3):
            if os.pread(fd, which[3] + 1, 0) != content(version, which[3]):
                raise RuntimeError(f"{path} has other data without its name")
            os.close(fd)
            self.held.remove(which)

    def symlink(self):
        path = self.a_name()
        if self.taken(path):
            return
        target = self.rng.choice("tu") * self.rng.choice([1, 60, 300])
        self.say("will", path, "-> " + target)
        os.symlink(target, self.path(path))
        self.symlinks[path] = "-> " + target
        if self.rng.randrange(2):
            self.sync_dir(os.path.dirname(path))
            self.dir_promised(os.path.dirname(path))
            self.say("is", path, self.symlinks[path])

    def dir_promised(self, name):
        """After fsync of a directory: names in it that are gone are."""
        for path in self.gone_in(name):
            self.gone(path)

    def gone_in(self, name):
        return [p for p in sorted(self.touched) if os.path.dirname(p) == name and not self.taken(p)]

    def mkdir(self):
        path = self.a_name()
        if self.taken(path) or len(self.dirs) > 30:
            return
        self.say("will", path, "dir")
        os.mkdir(self.path(path))
        self.dirs.append(path)
        if self.rng.randrange(2):
            self.sync_dir(path if self.rng.randrange(2) else os.path.dirname(path))
            self.say("is", path, "dir")

    def rmdir(self):
        path = self.rng.choice(self.dirs)
        if not path or any(os.path.dirname(p) == path for p in [*self.files, *self.symlinks, *self.dirs]):
            return
        self.say("will", path, "gone")
        os.rmdir(self.path(path))
        self.dirs.remove(path)
        if self.rng.randrange(2):
            self.sync_dir(os.path.dirname(path))
            self.dir_promised(os.path.dirname(path))

    def sync(self):
        fd = os.open(self.top, os.O_RDONLY)
        os.fsync(fd)
        if not self.rng.randrange(4):
            os.sync()
            for path, state in self.files.items():
                self.say("is", path, list(state))
            for path, state in self.symlinks.items():
                self.say("is", path, state)
            for path in self.dirs[1:]:
                self.say("is", path, "dir")
            for path in sorted(self.touched):
                if not self.taken(path):
                    self.gone(path)
        else:
            self.dir_promised("")
        os.close(fd)

    def run(self, steps):
        ways = [self.create] * 8 + [self.append] * 4 + [self.map, self.map, self.truncate, self.truncate, self.rename,
                self.rename, self.link, self.link, self.mkdir, self.mkdir, self.rmdir, self.sync, self.symlink] + [self.unlink] * 5 + [
                self.use_held] * 3
        for _ in range(steps):
            self.rng.choice(ways)()
            self.touched.update(self.files, self.symlinks, self.dirs[1:])


def write(top, log, seed, steps, mark):
    Writer(top, log, int(seed), mark.split() if mark else None).run(int(steps))


# ---- checking


def found(path):
    """What stands there: a state in words, or the bytes."""
    try:
        if os.path.islink(path):
            return "-> " + os.readlink(path)
        if os.path.isdir(path):
            return "dir"
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return "gone"


def is_state(got, state):
    if isinstance(state, str) or isinstance(got, str):
        return got == state
    return got == content(*state)


def is_between(got, promised, states):
    """A file that was being changed: its data, as far as that goes; what follows is new or zero."""
    if isinstance(got, str):
        return False
    for version in {s[0] for s in states if not isinstance(s, str)}:
        sizes = [s[1] for s in states if not isinstance(s, str) and s[0] == version]
        kept = [s[1] for s in promised if not isinstance(s, str) and s[0] == version]
        if not kept and promised:
            kept = [0]
        if not 0 <= len(got) <= max(sizes):
            continue
        safe = min([*sizes, *kept]) if kept else 0
        if len(got) < safe:
            continue
        right = content(version, len(got))
        if got[:safe] == right[:safe] and all(a in (0, b) for a, b in zip(got[safe:], right[safe:])):
            return True
    return False


def read_log(log, lines):
    with open(log, "rb") as file:
        text = file.read()
    if lines is not None:
        entries = text.split(b"\n")[:lines]
    else:
        entries = text.split(b"\n")[:-1]        # the last one may be cut off
    return [json.loads(entry) for entry in entries]


def expectations(entries):
    """{path: (promised state or None, states since)}"""
    known = {}
    for kind, path, state in entries:
        if kind == "is":
            known[path] = (state, [])
        else:
            known.setdefault(path, ("gone", []))[1].append(state)
    return known


def check(top, log, lines=None, later=0):
    """later: lines behind that may have come into being; their states are right too."""
    entries = read_log(log, None if lines is None else lines + later)
    known = expectations(entries if lines is None else entries[:lines])
    for kind, path, state in entries[lines:] if lines is not None else []:
        known.setdefault(path, ("gone", []))[1].append(state)
    wrong = []
    for path, (promised, since) in sorted(known.items()):
        got = found(os.path.join(top, path))
        states = [promised, *since]
        if any(is_state(got, s) for s in states) or since and is_between(got, [promised], states):
            continue
        what = got if isinstance(got, str) else f"{len(got)} bytes"
        if isinstance(got, bytes):
            version = next((s[0] for s in reversed(states) if not isinstance(s, str)), 0)
            right = content(version, len(got))
            at = next((i for i in range(len(got)) if got[i] != right[i]), None)
            what += f", the first other one at {at} is {got[at]:#x}" if at is not None else ", all right"
        wrong.append(f"{path[:80]}: {what}; promised {promised}, then {since[:6]}")
    return wrong + unexpected(top, known)


def unexpected(top, known):
    """What nobody made must not be there, all of it can be read, and links are counted."""
    wrong, links = [], {}
    for where, dirs, files in os.walk(top, onerror=lambda error: wrong.append(str(error))):
        real = [name for name in dirs if not os.path.islink(os.path.join(where, name))]
        if os.lstat(where).st_nlink != 2 + len(real):
            wrong.append(f"{where} has {os.lstat(where).st_nlink} links, and {len(real)} directories in it")
        for name in [*dirs, *files]:
            path = os.path.relpath(os.path.join(where, name), top)
            if path not in known:
                wrong.append(f"{path} is there, and was never made")
            if name not in real:
                found_now = os.lstat(os.path.join(where, name))
                links.setdefault((found_now.st_ino, found_now.st_nlink), []).append(path)
    for (ino, nlink), paths in links.items():
        if nlink != len(paths):
            wrong.append(f"inode {ino} has {nlink} links, and the names {paths[:6]}")
    return wrong


# ---- going on


def adopt(writer, entries):
    """What is there becomes what the writer made; files that were being changed go."""
    by_inode, known = {}, expectations(entries)
    for path in sorted(known):
        got = found(writer.path(path))
        if got == "dir":
            writer.dirs.append(path)
        elif isinstance(got, bytes):
            by_inode.setdefault(os.stat(writer.path(path)).st_ino, []).append((path, got))
        elif got != "gone":
            writer.symlinks[path] = got
    writer.version = max((s[0] for _, _, s in entries if not isinstance(s, str)), default=0)
    for names in by_inode.values():
        got = names[0][1]
        states = [s for promised, since in (known[path] for path, _ in names) for s in [promised, *since]]
        # Two files of one byte may look the same.
        state = next((tuple(s) for s in states if len(got) and is_state(got, s) and s[0] not in writer.ever), None)
        if not len(got):
            writer.version += 1
            state = (writer.version, 0)
        for path, _ in names:
            if state:
                writer.files[path] = state
                writer.ever.setdefault(state[0], set()).add(path)
            else:
                os.unlink(writer.path(path))
    os.sync()


def resume(top, log, new_log, seed):
    entries = read_log(log, None)
    writer = Writer(top, new_log + ".new", int(seed), None)
    adopt(writer, entries)
    for path in writer.dirs[1:]:
        writer.say("is", path, "dir")
    for path, state in [*writer.symlinks.items(), *((p, list(s)) for p, s in writer.files.items())]:
        writer.say("is", path, state)
    # Before anything is done that it does not tell of.
    os.rename(new_log + ".new", new_log)
    writer.run(10**9)


def main():
    if sys.argv[1] == "write":
        write(*sys.argv[2:5], sys.argv[5] if len(sys.argv) > 5 else 10**9, sys.argv[6] if len(sys.argv) > 6 else None)
        return 0
    if sys.argv[1] == "resume":
        resume(*sys.argv[2:6])
        return 0
    wrong = check(*sys.argv[2:4])
    entries = read_log(sys.argv[3], None)
    print(f"{sum(e[0] == 'is' for e in entries)} promises, {len(wrong)} broken")
    print("\n".join(wrong[:20]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
