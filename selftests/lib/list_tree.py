#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""list_tree.py DIR: what `uhsfs-ctl ls -R -l` must print for an image made from DIR.

Sorted by path component, byte by byte; directories without a size, their links counted
from their subdirectories, as not every filesystem counts them.
"""
import datetime
import os
import stat
import sys


def shown(raw):
    try:
        raw.decode()
        utf8 = True
    except UnicodeDecodeError:
        utf8 = False
    out = b""
    for byte in raw:
        if byte == 0x5c:
            out += b"\\\\"
        elif byte < 0x20 or byte == 0x7f or (byte > 0x7f and not utf8):
            out += b"\\x%02x" % byte
        else:
            out += bytes([byte])
    return out


def time(ns):
    seconds, part = divmod(ns, 10**9)
    date = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return (date.strftime("%Y-%m-%dT%H:%M:%S") + f".{part:09}Z").encode()


def walk(top, path):
    for name in sorted(os.listdir(top)):
        full = os.path.join(top, name)
        inner = path + b"/" + name if path else name
        st = os.lstat(full)
        directory = stat.S_ISDIR(st.st_mode)
        links = 2 + sum(e.is_dir(follow_symlinks=False) for e in os.scandir(full)) if directory else st.st_nlink
        line = b"%s %d:%d %d %d %s %s" % (stat.filemode(st.st_mode).encode(), st.st_uid, st.st_gid,
                                        0 if directory else st.st_size, links,
                                        time(st.st_mtime_ns), shown(inner))
        if stat.S_ISLNK(st.st_mode):
            line += b" -> " + shown(os.readlink(full))
        sys.stdout.buffer.write(line + b"\n")
        if directory:
            walk(full, inner)


walk(os.fsencode(sys.argv[1]), b"")
