#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: where=host timeout=300 suite=check
# A tree larger than the machine's memory is read twice, by many readers at once: everything is right
# and nothing is killed.  The image is made on the host, where there is room for it.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 4

tree=$TAP_TMP/tree
image=$TAP_TMP/image
mebibytes=640

# Every page of the data says where it belongs, and names and inodes are many.
cat >"$TAP_TMP/fill.py" <<'END_OF_PYTHON'
import os
import struct
import sys

tree, mebibytes = sys.argv[1], int(sys.argv[2])
os.makedirs(tree + "/data")
for i in range(8):
    with open(f"{tree}/data/{i}", "wb") as file:
        for at in range(0, (mebibytes << 20) // 8, 1 << 20):
            file.write(b"".join(struct.pack("<QQ", i, at + page) * 256 for page in range(0, 1 << 20, 4096)))
for i in range(10000):
    os.makedirs(f"{tree}/many/{i // 1000}", exist_ok=True)
    with open(f"{tree}/many/{i // 1000}/{i}", "w") as file:
        file.write(str(i))
END_OF_PYTHON

# In the machine.  Two readers of data and one of names at a time.
cat >"$TAP_TMP/read.sh" <<'END_OF_SCRIPT'
set -e
for module in $(modinfo -F depends "$UHSFS_MODULE" | tr , ' '); do modprobe "$module"; done
modprobe nvme
insmod "$UHSFS_MODULE"
until test -b /dev/nvme0n1; do sleep 0.1; done
mkdir /tmp/mnt
mount -t uhsfs -o ro /dev/nvme0n1 /tmp/mnt
test "$(awk '/MemTotal/ { print $2 }' /proc/meminfo)" -lt $((640 * 1024))
for round in 1 2; do
	for half in 0 1; do
		python3 - $half <<'END_OF_PYTHON' &
import struct, sys
for i in range(int(sys.argv[1]), 8, 2):
    at = 0
    with open(f"/tmp/mnt/data/{i}", "rb", buffering=0) as file:
        while piece := file.read(1 << 20):
            if piece != b"".join(struct.pack("<QQ", i, at + page) * 256 for page in range(0, len(piece), 4096)):
                sys.exit(f"file {i}: wrong data from {at} on")
            at += len(piece)
    if at != 80 << 20:
        sys.exit(f"file {i}: {at} bytes")
END_OF_PYTHON
	done
	python3 - <<'END_OF_PYTHON' &
import os, sys
for i in range(0, 10000):
    path = f"/tmp/mnt/many/{i // 1000}/{i}"
    if i % 4 and os.stat(path).st_size != len(str(i)) or not i % 4 and open(path).read() != str(i):
        sys.exit(f"{path} is wrong")
END_OF_PYTHON
	for _ in 1 2 3; do wait -n; done
done
test "$(cat /sys/fs/uhsfs/nvme0n1/corruptions)" = 0
umount /tmp/mnt
rmmod uhsfs
! dmesg | grep -i 'out of memory\|oom-killer\|allocation failure'
END_OF_SCRIPT

python3 "$TAP_TMP/fill.py" "$tree" "$mebibytes" || bail "no tree"
check "an image of $mebibytes MiB" mkfs.uhsfs -q -d "$tree" --atomic device "$image" $((1 << 18))
rm -rf "$tree"
check "is what fsck wants" fsck.uhsfs -n "$image"
for kernel in 6.1 6.12; do
	vm --kernel "$kernel" --mem 512M --nvme "1G,file=$image" --timeout 120 --quiet -- bash "$TAP_TMP/read.sh"
	vm_is "kernel $kernel with 512 MiB of memory reads it twice" 0
done
finish
