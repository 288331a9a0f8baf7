#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What mkfs.uhsfs makes, says and refuses, on image files.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 47

command -v mkfs.uhsfs >/dev/null || bail "mkfs.uhsfs is not built: make user"
cd "$TAP_TMP" || bail "no folder to work in"
uuid=01234567-89ab-cdef-0123-456789abcdef

# run COMMAND...: its status in $status, what it printed in out and err
run()
{
	status=0
	"$@" >out 2>err || status=$?
}

# refuses NAME PATTERN COMMAND...: it fails with status 1 and one line that matches
refuses()
{
	local name=$1 pattern=$2
	shift 2
	run "$@"
	if [ "$status" = 1 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "$pattern" err; then
		ok "$name"
	else
		not_ok "$name"
		diag "expected: exit status 1, one line that matches '$pattern'"
		diag "got:      $status"
		cat out err | diag
	fi
}

json()
{
	python3 -c 'import json, sys; print(json.load(open("out"))[sys.argv[1]])' "$1"
}

# ---- what it makes and says ----
run mkfs.uhsfs -L 'a label' -U "$uuid" a.img 4096
is "a file is made of BLOCKS blocks" "$status $(stat -c %s a.img)" "0 16777216"
is "one line says what was made" "$(cat out err)" \
	"a.img: label 'a label', 16.0 MiB, uuid $uuid, 4032 slots of 1024 bytes, atomic shadow (image file)"
run mkfs.uhsfs -q -f a.img
is "-q says nothing" "$status$(cat out err)" 0
check "fsck finds it clean" fsck.uhsfs a.img
run mkfs.uhsfs -o json -f --slot-size 4096 --erase-unit 1M a.img 2048
is "-o json is one object, with raw numbers" "$(json blocks) $(json slot-size) $(json erase-unit) $(json written)" \
	"2048 4096 1048576 True"
check "a filesystem may be smaller than its file" fsck.uhsfs a.img
run mkfs.uhsfs -f --atomic device a.img
check "asking for atomic writes that nobody promises is worth a warning" grep -q 'warning: .*atomic=device' err
check "but is done" fsck.uhsfs a.img
run mkfs.uhsfs -n new.img 4096
is "-n says what would be made" "$status $(grep -c 'would be made (not written)' out)" "0 1"
check "and makes no file" test ! -e new.img
cp a.img before.img
run mkfs.uhsfs -n -f -d /usr/include/linux a.img
is "-n with a tree" "$status" 0
check "changes nothing" cmp a.img before.img
run mkfs.uhsfs huge.img $((1 << 28))
is "1 TiB takes no space to speak of" "$status $(($(du -k huge.img | cut -f 1) < 4096))" "0 1"
rm -f huge.img

# ---- what it refuses ----
refuses "a uhsfs filesystem" "holds: a uhsfs filesystem" mkfs.uhsfs a.img
cp a.img half.img
dd if=/dev/zero of=half.img bs=4096 seek=1 count=1 conv=notrunc status=none
refuses "one that lost its first superblock" "holds: a uhsfs filesystem" mkfs.uhsfs half.img
cp a.img before.img
refuses "a folder that is not there, even with -f" "none" mkfs.uhsfs -f -d none a.img
check "before anything is erased" cmp a.img before.img
truncate -s 16M ext4.img
if command -v mkfs.ext4 >/dev/null && mkfs.ext4 -q -L root ext4.img; then
	refuses "another filesystem, by its name" "holds: ext4 filesystem labelled 'root'" mkfs.uhsfs ext4.img
	check "-f overwrites it" mkfs.uhsfs -q -f ext4.img
	is "and no trace of it is found" "$(blkid -p -o value -s TYPE ext4.img)" ""
else
	skip "another filesystem, by its name" "no mkfs.ext4"
	skip "-f overwrites it" "no mkfs.ext4"
	skip "and no trace of it is found" "no mkfs.ext4"
fi
refuses "a missing file without a size" "give BLOCKS" mkfs.uhsfs none.img
refuses "a size that is too small" "at least 1024 blocks" mkfs.uhsfs none.img 1023
check "and leaves no file" test ! -e none.img
refuses "what is neither device nor file" "give a block device" mkfs.uhsfs /dev/null
refuses "a label that is too long" "is 65 bytes long" mkfs.uhsfs -L "$(printf 'l%.0s' {1..65})" none.img 4096
refuses "what is no UUID" "is no UUID" mkfs.uhsfs -U 1234 none.img 4096
refuses "other block sizes" "none of 4096" mkfs.uhsfs -b 512 none.img 4096
refuses "other slot sizes" "none of 1024" mkfs.uhsfs --slot-size=512 none.img 4096
refuses "an erase unit that is no power of two" "power of two" mkfs.uhsfs --erase-unit=3M none.img 4096
refuses "an erase unit that overflows" "too large" mkfs.uhsfs --erase-unit=99999999999G none.img 4096
refuses "a source that is not there" "/nonexistent: cannot open" mkfs.uhsfs -d /nonexistent none.img 4096
check "and leaves no file here either" test ! -e none.img
run mkfs.uhsfs -o json none.img
is "an error is told in JSON too" "$status $(json written)" "1 False"

# ---- trees ----
mkdir -p tree/dir
head -c 3000000 /dev/urandom >tree/big
for i in $(seq 100); do echo "$i" >"tree/dir/$i"; done
ln tree/big tree/dir/link
ln -s big tree/symlink
run mkfs.uhsfs -d tree tree.img 4096
is "-d copies a tree" "$status $(sed 's/.*; //' out)" \
	"0 101 files, 2 directories, 1 symlink, 1 further link, 2.9 MiB of data"
check "fsck finds it clean" fsck.uhsfs tree.img
check "a file has its content" sh -c 'uhsfs-ctl cat tree.img /dir/link | cmp - tree/big'
run mkfs.uhsfs -d tree full.img 1024
is "on a full image" "$status $(grep -c 'full.img: the contents do not fit' err)" "0 0"
head -c 3000000 /dev/urandom >tree/more
refuses "a tree that does not fit" "the contents do not fit.*No space left" mkfs.uhsfs -d tree toofull.img 1024
check "leaves no file" test ! -e toofull.img
export SOURCE_DATE_EPOCH=1700000000
mkfs.uhsfs -q -U "$uuid" -d tree one.img 4096
head -c 16777216 /dev/urandom >two.img
mkfs.uhsfs -q -f -U "$uuid" -d tree two.img
check "images can be built again bit by bit, whatever the file held" cmp one.img two.img
unset SOURCE_DATE_EPOCH

# ---- devices in use ----
if command -v qemu-io >/dev/null; then
	truncate -s 16M machine.img
	mkfifo commands
	qemu-io -f raw machine.img <commands >/dev/null 2>&1 &
	machine=$!
	exec 9>commands
	echo 'write 0 512' >&9
	for _ in $(seq 100); do
		grep -q lock: "/proc/$machine/fdinfo/"* 2>/dev/null && break
		sleep 0.05
	done
	refuses "an image that QEMU has open, with its name" "is locked by qemu-io (process $machine).*stop the program" \
		mkfs.uhsfs -f machine.img
	exec 9>&-
	wait "$machine"
	check "not when QEMU has gone" mkfs.uhsfs -q -f machine.img
else
	skip "an image that QEMU has open, with its name" "no qemu-io"
	skip "not when QEMU has gone" "no qemu-io"
fi
if loop=$(losetup -f --show ext4.img 2>/dev/null); then
	defer losetup -d "$loop"
	check "a loop device" mkfs.uhsfs -q -f "$loop"
	mkdir mnt
	if mkfs.ext4 -q -F "$loop" && mount "$loop" mnt; then
		defer umount mnt
		refuses "a mounted device, -f or not" "is mounted on .*/mnt" mkfs.uhsfs -f "$loop"
		refuses "and the file behind it" "stands behind $loop, which is mounted on" mkfs.uhsfs -f ext4.img
		ln ext4.img other.img
		rm ext4.img
		refuses "by another name, and when its own is gone" "stands behind $loop, which is mounted on" \
			mkfs.uhsfs -f other.img
		mv other.img ext4.img
		chown 65534 . ext4.img
		refuses "and when the loop device cannot be examined" "may stand behind $loop, which cannot be examined" \
			setpriv --reuid 65534 --clear-groups "$(command -v mkfs.uhsfs)" -f ext4.img
	else
		skip "a mounted device, -f or not" "cannot mount"
		skip "and the file behind it" "cannot mount"
		skip "by another name, and when its own is gone" "cannot mount"
		skip "and when the loop device cannot be examined" "cannot mount"
	fi
else
	skip "a loop device" "no loop devices"
	skip "a mounted device, -f or not" "no loop devices"
	skip "and the file behind it" "no loop devices"
	skip "by another name, and when its own is gone" "no loop devices"
	skip "and when the loop device cannot be examined" "no loop devices"
fi
finish
