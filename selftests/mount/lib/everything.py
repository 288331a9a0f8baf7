#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""everything.py DIR: fill DIR with one of everything that a tree can have.

DIR is on a filesystem with attributes of 64 KiB (ext4 with ea_inode).  On DIR/tmpfs, if it is
there, another one is mounted that knows all times and long symlinks.  All of it follows from
SEED.
"""
import os
import random
import socket
import stat
import struct
import sys

SEED = 4
rng = random.Random(SEED)
BLOCK = 4096


def folder(name):
    os.makedirs(name, exist_ok=True)
    return name


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def sparse(path, size, blocks):
    """Data in these blocks, holes elsewhere."""
    with open(path, "wb") as file:
        file.truncate(size)
        for block in blocks:
            file.seek(block * BLOCK)
            file.write(rng.randbytes(min(BLOCK, size - block * BLOCK)))


def names():
    top = folder(b"names")
    for length in range(2, 256):
        write(top + b"/" + b"n" * length, b"%d" % length)
    for byte in set(range(1, 256)) - set(b"/."):
        os.mknod(top + b"/" + bytes([byte]))
    for odd in (b"new\nline", b" two  spaces ", b"back\\slash", b"\xff\xfe\x80", "käse".encode(), b"...",
                b"-rf", b"\x1b[31m", b"a" * 254 + b"\xff"):
        write(folder(top + b"/folder " + odd[:240]) + b"/" + odd, odd)
    deep = b"names"
    for _ in range(40):
        deep += b"/deep"
        os.mkdir(deep)
    write(deep + b"/bottom", b"here")


def types():
    top = folder("types")
    os.mkfifo(f"{top}/fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(f"{top}/socket")
    for name, kind, major, minor in (("null", stat.S_IFCHR, 1, 3), ("whiteout", stat.S_IFCHR, 0, 0),
                                     ("far", stat.S_IFCHR, 4095, 1048575), ("disk", stat.S_IFBLK, 259, 70000)):
        os.mknod(f"{top}/{name}", kind | 0o640, os.makedev(major, minor))
    os.symlink("nowhere", f"{top}/dangling")
    os.symlink(b"\xff\n", f"{top}/raw")
    for mode in (0, 0o1, 0o644, 0o1777, 0o2755, 0o4755, 0o6511, 0o7777):
        write(f"{top}/file-{mode:o}", b"x")
        os.chmod(f"{top}/file-{mode:o}", mode)
        os.mkdir(f"{top}/dir-{mode:o}")
        os.chmod(f"{top}/dir-{mode:o}", mode)
    for uid, gid in ((1, 2), (65534, 65535), (65536, 100000), (2**31, 2**31 - 1), (2**32 - 2, 2**32 - 2)):
        write(f"{top}/owner-{uid}", b"x")
        os.chown(f"{top}/owner-{uid}", uid, gid)


def links():
    top = folder("links")
    write(f"{top}/one", b"the same content")
    for where in "abcde":
        folder(f"{top}/{where}")
        for i in range(150):
            os.link(f"{top}/one", f"{top}/{where}/{'long ' * (i % 40)}{i}")
    write(f"{top}/big", rng.randbytes(3 * BLOCK))
    for i in range(30):
        os.link(f"{top}/big", f"{top}/big-{i}")
    os.symlink("one", f"{top}/symlink")
    os.link(f"{top}/symlink", f"{top}/a/symlink", follow_symlinks=False)
    os.mkfifo(f"{top}/fifo")
    os.link(f"{top}/fifo", f"{top}/b/fifo")


def sizes():
    """Around what fits into slots of 1024, 2048 and 4096 bytes, and around blocks."""
    top = folder("sizes")
    picked = {*range(40), *range(40, 700, 17), *range(700, 900), *range(1000, 1026, 3), *range(1700, 1900, 3),
              *range(3740, 3940, 3), *range(4085, 4110), 8191, 8192, 8193, 65535, 65536, 65537, 300001}
    for size in picked:
        write(f"{top}/{size}", rng.randbytes(size))


def acl(*entries):
    """The attribute's value, of (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, who) for tag, perm, who in entries)


USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER, NOBODY = 1, 2, 4, 8, 16, 32, 2**32 - 1


def xattrs():
    top = folder("xattrs")

    def made(name, values, data=b"with attributes"):
        write(f"{top}/{name}", data)
        for key, value in values.items():
            os.setxattr(f"{top}/{name}", key, value)

    made("empty-value", {"user.none": b""})
    made("odd", {"user." + "n" * 250: b"long name", b"user.\xff\x01": b"\0a\0", "trusted.t": b"t", "security.s": b"s"})
    made("capability", {"security.capability": struct.pack("<IIIII", 0x02000001, 0x400, 0, 0, 0)})
    for size in [*range(0, 900, 19), *range(3600, 4100, 37), 65535, 65536]:
        made(f"value-{size}", {"user.v": rng.randbytes(size)})
        if size < 900 or size > 4096:
            made(f"crowded-{size}", {"user.v": rng.randbytes(size), "user.w": b"w"}, rng.randbytes(400))
    made("many-small", {f"user.{i}": b"%d" % i for i in range(60)})
    made("many-large", {f"user.{i}": rng.randbytes(5000 + i) for i in range(90)})
    made("some-huge", {f"user.{i}": rng.randbytes(65536 - i) for i in range(8)})
    os.mkdir(f"{top}/dir")
    os.setxattr(f"{top}/dir", "user.d", rng.randbytes(5000))
    os.symlink("x", f"{top}/symlink")
    os.setxattr(f"{top}/symlink", "trusted.l", b"l" * 1000, follow_symlinks=False)
    os.mknod(f"{top}/device", stat.S_IFCHR, os.makedev(1, 5))
    os.setxattr(f"{top}/device", "trusted.d", b"d")


def acls():
    """secret: uid 1000 may read it, uid 1001 not, and others may; forbidden the other way round."""
    top = folder("acls")
    os.chmod(top, 0o755)
    secret = acl((USER_OBJ, 6, NOBODY), (USER, 4, 1000), (USER, 0, 1001), (GROUP_OBJ, 0, NOBODY), (MASK, 4, NOBODY),
                 (OTHER, 4, NOBODY))
    write(f"{top}/secret", b"may be read\n")
    os.setxattr(f"{top}/secret", "system.posix_acl_access", secret)
    many = acl((USER_OBJ, 7, NOBODY), *((USER, i % 8, 2000 + i) for i in range(60)), (GROUP_OBJ, 5, NOBODY),
               *((GROUP, i % 8, 3000 + i) for i in range(60)), (MASK, 7, NOBODY), (OTHER, 0, NOBODY))
    write(f"{top}/many", b"x")
    os.setxattr(f"{top}/many", "system.posix_acl_access", many)
    os.mkdir(f"{top}/dir")
    os.setxattr(f"{top}/dir", "system.posix_acl_access", secret)
    os.setxattr(f"{top}/dir", "system.posix_acl_default", secret)
    write(f"{top}/dir/inherits", b"x")
    os.mkdir(f"{top}/dir/below")


def data():
    top = folder("data")
    write(f"{top}/more-than-a-unit", rng.randbytes((5 << 20) + 17))
    write(f"{top}/zeros", bytes(3 * BLOCK))
    sparse(f"{top}/hole", 100 * BLOCK, ())
    sparse(f"{top}/hole-first", 10 * BLOCK + 5, (9, 10))
    sparse(f"{top}/hole-last", 10 * BLOCK + 5, (0, 1))
    sparse(f"{top}/hole-around", 100 * BLOCK, (50,))
    sparse(f"{top}/hole-within", 3 * BLOCK, (0, 2))
    sparse(f"{top}/small-hole", 100, ())
    for count in (15, 35, 170, 700):
        sparse(f"{top}/{count}-extents", 2 * count * BLOCK, range(1, 2 * count, 2))
    sparse(f"{top}/extents-by-chance", 4000 * BLOCK + 1, sorted(rng.sample(range(4000), 900)))
    sparse(f"{top}/a-terabyte", 1 << 40, (0, 1 << 20, (1 << 28) - 1))


def on_tmpfs():
    """What ext4 cannot have."""
    top = "tmpfs"
    for second in (0, -1, 1, -2**31, -2**31 - 1, 2**31, 2**32, 2**33, -9223372035, 9223372035):
        for ns in (0, 1, 999999999):
            path = f"{top}/time{second}.{ns}"
            os.mknod(path)
            os.utime(path, ns=(second * 10**9 + ns, (second * 10**9) + (ns + 7) % 10**9))
    for length in (1, 59, 60, 200, 600, *range(740, 860, 3), 1023, 1024, 2000, 3800, 4000, 4094, 4095):
        os.symlink("s" * length, f"{top}/symlink-{length}")
    os.symlink("/".join(f"{i}" for i in range(800)), f"{top}/symlink-path")


def main():
    os.umask(0)
    os.chdir(sys.argv[1])
    for make in (names, types, links, sizes, xattrs, acls, data):
        make()
    if os.path.ismount("tmpfs"):
        on_tmpfs()
        os.chmod("tmpfs", 0o1777)
    os.utime(".", ns=(10**18 + 1, 10**18 + 2))


main()
