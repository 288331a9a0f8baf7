#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# A mounted tree is the tree that mkfs.uhsfs -d was given: every byte, attribute and name; and what
# the filesystem says of itself is right.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
plan 33

here=$(dirname "$0")
source=$TAP_TMP/source
mnt=$TAP_TMP/mnt

load_module
disk4096=$(nvme_disk 1) || bail "no disk"
disk512=$(nvme_disk 2) || bail "no second disk"
scratch=$(nvme_disk 3) || bail "no third disk"
mkdir "$source" "$mnt"
mkfs.ext4 -q -F -O ea_inode -I 256 "$scratch" || bail "no ext4"
mount -t ext4 -o noatime "$scratch" "$source" || bail "no source"
defer umount "$source"
mkdir -p "$source/tree/tmpfs" "$source/tree/include"
mount -t tmpfs -o noatime none "$source/tree/tmpfs" || bail "no tmpfs"
defer umount "$source/tree/tmpfs"
"$here/lib/everything.py" "$source/tree" || bail "no tree"
# Not more: the host's files are behind a server that keeps each open.
(cd /usr/include/linux && find . -maxdepth 1 -name '[a-k]*' -type f | cpio -pdm --quiet "$source/tree/include")
sync
"$here/../lib/tree_manifest.py" "$source/tree" >"$TAP_TMP/expected" || bail "no manifest"
diag "$(wc -l <"$TAP_TMP/expected") objects"
check "the tree has all that is to be tested" test "$(wc -l <"$TAP_TMP/expected")" -gt 2000

# same_tree NAME: what is mounted is the source.
same_tree()
{
	echo 3 >/proc/sys/vm/drop_caches
	if "$here/../lib/tree_manifest.py" "$mnt" >"$TAP_TMP/found" 2>"$TAP_TMP/errors" &&
		cmp -s "$TAP_TMP/expected" "$TAP_TMP/found"; then
		ok "$1"
		return
	fi
	not_ok "$1"
	diag <"$TAP_TMP/errors"
	diff "$TAP_TMP/expected" "$TAP_TMP/found" | cut -c 1-500 | head -n 30 | diag
}

# round_trip DISK MKFS-OPTION...
round_trip()
{
	local disk=$1
	shift
	local what
	what="blocks of $(cat "/sys/block/${disk#/dev/}/queue/logical_block_size"), $*"
	check "$what: mkfs" mkfs.uhsfs -q -f -d "$source/tree" "$@" "$disk"
	check "$what: mount" mount_at "$disk" "$mnt" ro
	same_tree "$what: the same tree"
	is "$what: nothing damaged" "$(cat "/sys/fs/uhsfs/${disk#/dev/}/corruptions")" 0
	umount "$mnt"
}

dmesg -C
round_trip "$disk4096" --slot-size 2048 --atomic shadow
round_trip "$disk512" --slot-size 4096
round_trip "$disk4096" --slot-size 1024

# Without recovery every entry is compared with its inode.
mount_at "$disk4096" "$mnt" ro,norecovery
same_tree "norecovery: the same tree"
umount "$mnt"
is "the log has nothing but that" "$(dmesg | sed 's/^\[[^]]*\] //' | grep uhsfs)" \
	"uhsfs: ${disk4096#/dev/}: norecovery: recent changes may be missing or contradictory"

# What it says of itself.
mount_at "$disk4096" "$mnt" ro
IFS=' ' read -r type size blocks free available files free_files longest < <(stat -f -c '%t %S %b %f %a %c %d %l' "$mnt")
is "statfs: type, block size, longest name" "$type $size $longest" "$(sed -n \
	's/^#define UHSFS_SUPER_MAGIC[[:space:]]*0x\([0-9a-fA-F]*\).*/\1/p' kmod/uapi/linux/uhsfs_fs.h | tr A-F a-f) 4096 255"
is "statfs: blocks of the device" "$blocks" $(($(blockdev --getsize64 "$disk4096") / 4096))
used=$(du -s --block-size=4096 "$source/tree" | cut -f 1)
check "statfs: what is used is the tree ($used blocks) and not much more ($((blocks - free)))" \
	test $((blocks - free)) -gt $((used * 3 / 4)) -a $((blocks - free)) -lt $((used * 2 + 4096))
check "statfs: available ($available) is part of free ($free)" test "$available" -gt 0 -a "$available" -le "$free"
objects=$(find "$mnt" -printf '%i\n' | sort -u | wc -l)
is "statfs: inodes in use are those in the tree" $((files - free_files)) "$objects"
check "df works" df "$mnt"
check "statx: the time of creation is there, before now" \
	test "$(stat -c %W "$mnt/data/zeros")" -gt 0 -a "$(stat -c %W "$mnt/data/zeros")" -le "$(date +%s)"
check "statx: a change is no older than the creation" \
	test "$(stat -c %Z "$mnt/data/zeros")" -ge "$(stat -c %W "$mnt/data/zeros")"
is "statx: blocks of a file with holes" "$(stat -c %b "$mnt/data/hole-around")" 8
is "statx: blocks of a file without" "$(stat -c %b "$mnt/data/zeros")" 24
is "statx: blocks of inline data" "$(stat -c %b "$mnt/sizes/20")" 0
is "lsattr reads flags" "$(lsattr "$mnt/data/zeros" | tr -d -- '-' | cut -d' ' -f 1)" ""
is "lsattr -p reads project IDs" "$(lsattr -p "$mnt/data/zeros" | awk '{print $1}')" 0

# Who may do what.
as()
{
	setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}
chmod 711 "$TAP_TMP" "${TMPDIR:-$TAP_TMP}"
check "an ACL lets a user read" as 1000 cat "$mnt/acls/secret"
check_fails "an ACL keeps a user from reading" 1 as 1001 cat "$mnt/acls/secret"
check "an ACL leaves others alone" as 1002 cat "$mnt/acls/secret"
check_fails "mode 0 keeps all but root out" 1 as 1002 cat "$mnt/types/file-0"
is "attributes that root has alone are shown to root only" \
	"$(as 1002 python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' "$mnt/xattrs/odd" | grep -c trusted)" 0
umount "$mnt"
finish
