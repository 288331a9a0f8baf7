#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What is done with mounts: mount(8) and its options, remounts, bind mounts, mounts with other owners,
# busy and lazy unmounts; an overlay, a loop device and a program on top; all writing is refused.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
plan 39

a=$TAP_TMP/a
b=$TAP_TMP/b
tree=$TAP_TMP/tree

load_module
disk=$(nvme_disk 1) || bail "no disk"
other=$(nvme_disk 2) || bail "no second disk"
name=${disk#/dev/}
mkdir -p "$a" "$b" "$tree"
mount -t tmpfs none "$tree" || bail "no tmpfs"
defer umount "$tree"
mkdir "$tree/dir"
echo content >"$tree/dir/file"
chown 1000:1000 "$tree/dir/file"
mknod "$tree/dir/gone" c 0 0
cp /bin/true "$tree/program"
truncate -s 8M "$tree/image"
mkfs.ext4 -q -d "$tree/dir" "$tree/image"
mkfs.uhsfs -q -f -L first -d "$tree" "$disk" || bail "no filesystem"
mkfs.uhsfs -q -f -d "$tree/dir" "$other" || bail "no second filesystem"

# options [DIR]: those in /proc/mounts
options()
{
	awk -v where="${1:-$a}" '$2 == where { print $4 }' /proc/mounts
}

# Options.
check "mount(8) mounts read-only when that is all there is" mount_at "$disk" "$a"
is "and /proc/mounts says so" "$(options)" "ro,relatime,errors=remount-ro"
check "errors= can be changed by a remount" mount -o remount,ro,errors=continue "$a"
is "and is shown" "$(options)" "ro,relatime,errors=continue"
check "a remount without it leaves it" mount -o remount,ro,noatime "$a"
is "as it was" "$(options)" "ro,noatime,errors=continue"
check_fails "a remount for writing is refused" 32 mount -i -n -o remount,rw "$a"
check_fails "a remount with norecovery is refused" 32 mount -o remount,ro,norecovery "$a"
check_fails "a remount with nonsense is refused" 32 mount -o remount,ro,errors=perhaps "$a"
is "and changes nothing" "$(options)" "ro,noatime,errors=continue"
is "sysfs: epoch, recovery" "$(cd "/sys/fs/uhsfs/$name" && cat recovery && test "$(cat epoch)" -ge 1 && echo epoch)" \
	"$(printf 'clean\nepoch')"

# More than one mount.
mount_at "$disk" "$b" ro
is "a device that is mounted twice is one filesystem" "$(stat -c %d "$a")" "$(stat -c %d "$b")"
umount "$b"
check "which stays when one of the mounts goes" test -f "$a/dir/file" -a -d "/sys/fs/uhsfs/$name"
mount_at "$other" "$b" ro,errors=panic
is "two filesystems have each their own options" "$(options "$a") $(options "$b")" \
	"ro,noatime,errors=continue ro,relatime,errors=panic"
is "and their own files" "$(cd "$a" && echo ./*) $(cd "$b" && echo ./*)" "./dir ./image ./program ./file ./gone"
check_fails "mkfs.uhsfs refuses a device that is mounted" 1 mkfs.uhsfs -q -f "$other"
umount "$b"
mount --bind "$a/dir" "$b"
is "a bind mount shows the folder" "$(cat "$b/file")" content
umount "$b"

# Owners of a mount: 1000 on disk is 3000 in it.
cat >"$TAP_TMP/idmap.py" <<'END_OF_PYTHON'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, OPEN_TREE_CLONE, AT_EMPTY_PATH, MOUNT_ATTR_IDMAP, MOVE_EMPTY = 0x10000000, 1, 0x1000, 0x100000, 4
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
def call(*words):
    result = libc.syscall(*words)
    if result < 0:
        sys.exit(f"system call {words[0]}: {os.strerror(ctypes.get_errno())}")
    return result
ready, wait = os.pipe(), os.pipe()
child = os.fork()
if not child:
    libc.unshare(CLONE_NEWUSER)
    os.write(ready[1], b"x")
    os.close(wait[1])
    os.read(wait[0], 1)
    os._exit(0)
os.read(ready[0], 1)
for kind in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{kind}", "w") as file:
        file.write("0 2000 5000")
space = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
os.write(wait[1], b"x")
os.waitpid(child, 0)
tree = call(OPEN_TREE, -100, sys.argv[1].encode(), OPEN_TREE_CLONE)
call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, struct.pack("<QQQQ", MOUNT_ATTR_IDMAP, 0, 0, space), 32)
call(MOVE_MOUNT, tree, b"", -100, sys.argv[2].encode(), MOVE_EMPTY)
END_OF_PYTHON
check "an idmapped mount" python3 "$TAP_TMP/idmap.py" "$a" "$b"
is "shows other owners" "$(stat -c %u:%g "$b/dir/file" "$b")" "$(printf '3000:3000\n2000:2000')"
is "and the first mount does not" "$(stat -c %u:%g "$a/dir/file")" 1000:1000
umount "$b"

# On top of it.
check "a program runs from it" "$a/program"
mkdir "$TAP_TMP/upper" "$TAP_TMP/work"
mount -t tmpfs none "$TAP_TMP/upper" && mkdir "$TAP_TMP/upper/u" "$TAP_TMP/upper/w"
defer umount "$TAP_TMP/upper"
check "an overlay on it" mount -t overlay -o "lowerdir=$a,upperdir=$TAP_TMP/upper/u,workdir=$TAP_TMP/upper/w" none "$b"
echo more >>"$b/dir/file"
is "copies what is changed" "$(cat "$b/dir/file" "$a/dir/file" | tr '\n' ' ')" "content more content "
check_fails "and takes whiteouts for what they are" 1 test -e "$b/dir/gone"
umount "$b"
modprobe -q loop
check "an image in a file is mounted through a loop device" mount -o ro,loop "$a/image" "$b"
is "and read" "$(cat "$b/file")" content
umount "$b"

# Busy, and lazy.
exec 5<"$a/dir/file"
check_fails "with an open file it is busy" 32 umount "$a"
check_fails "and so is the module" 1 rmmod uhsfs
check "a lazy unmount works" umount -l "$a"
check_fails "it is mounted no more" 32 mountpoint -q "$a"
is "the open file can still be read" "$(cat <&5)" content
check "the filesystem is still there" test -d "/sys/fs/uhsfs/$name"
exec 5<&-
check "until the file is closed" wait_for 10 test ! -e "/sys/fs/uhsfs/$name"

# Writing.
mount_at "$disk" "$a" ro
cat >"$TAP_TMP/write.py" <<'END_OF_PYTHON'
import errno, fcntl, os, sys
top = sys.argv[1]
file = top + "/dir/file"
fd = os.open(file, os.O_RDONLY)
ways = {
    "open": lambda: os.open(file, os.O_WRONLY), "create": lambda: os.open(top + "/x", os.O_CREAT | os.O_WRONLY),
    "truncate": lambda: os.truncate(file, 1), "unlink": lambda: os.unlink(file), "rmdir": lambda: os.rmdir(top + "/dir"),
    "mkdir": lambda: os.mkdir(top + "/x"), "mknod": lambda: os.mknod(top + "/x"), "rename": lambda: os.rename(file, top + "/x"),
    "link": lambda: os.link(file, top + "/x"), "symlink": lambda: os.symlink("x", top + "/x"),
    "chmod": lambda: os.chmod(file, 0), "chown": lambda: os.chown(file, 1, 1), "utime": lambda: os.utime(file),
    "setxattr": lambda: os.setxattr(file, "user.x", b""), "removexattr": lambda: os.removexattr(file, "user.x"),
    "flags": lambda: fcntl.ioctl(fd, 0x40086602, b"\0" * 8),
}
for name, way in ways.items():
    try:
        way()
        print(name, "worked")
    except OSError as error:
        if error.errno != errno.EROFS:
            print(name, os.strerror(error.errno))
END_OF_PYTHON
is "all writing is refused with EROFS" "$(python3 "$TAP_TMP/write.py" "$a")" ""
check "sync and fsync have nothing to do" sync -f "$a/dir/file"
check "reading does not change the time of access" test "$(stat -c %X "$a/dir/file")" = "$(stat -c %X "$tree/dir/file")"
umount "$a"
before=$(awk '{ print $7 }' "/sys/block/$name/stat")
mount_at "$disk" "$a" ro && find "$a" -type f -exec cat {} + >"$TAP_TMP/output" && umount "$a"
is "nothing is written to the device" "$(awk '{ print $7 }' "/sys/block/$name/stat")" "$before"
is "nothing is left in sysfs" "$(find /sys/fs/uhsfs -maxdepth 1 -name 'nvme*')" ""
check "the module is not in use any more" rmmod uhsfs
insmod "$UHSFS_MODULE"
finish
