# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# memory.sh: what a filesystem that is written to keeps in memory.  Source it after tap.sh and vm.sh.
#
# In a machine of 512 MiB two programs make many small files in many directories; all is synced, looked at,
# changed and looked at again.  Nothing is killed, and the inodes can be dropped afterwards.

# One of two programs: files PART, PART + 2, ...
cat >"$TAP_TMP/many.py" <<'END_OF_PYTHON'
import os
import sys

how, part, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for i in range(part, count, 2):
    folder = f"/tmp/mnt/{i % 97}/{i // 97 % 41}"
    if how == "make":
        if i // 97 < 41:
            os.makedirs(folder, exist_ok=True)
        # Most in the slot, some in blocks.
        with open(f"{folder}/{i}", "wb", buffering=0) as file:
            file.write(b"%d\n" % i * (200 if i % 16 == 0 else 1))
    elif how == "change":
        os.chmod(f"{folder}/{i}", 0o600)
    elif os.stat(f"{folder}/{i}").st_size != len("%d\n" % i) * (200 if i % 16 == 0 else 1):
        sys.exit(f"{folder}/{i} has another size")
END_OF_PYTHON

cat >"$TAP_TMP/memory.sh" <<'END_OF_SCRIPT'
set -e
many=$1 count=$2 seconds=0
for module in $(modinfo -F depends "$UHSFS_MODULE" | tr , ' '); do modprobe "$module"; done
modprobe nvme
insmod "$UHSFS_MODULE" write=1
until test -b /dev/nvme0n1; do sleep 0.1; done
mkdir /tmp/mnt
mount -t uhsfs /dev/nvme0n1 /tmp/mnt
test "$(awk '/MemTotal/ { print $2 }' /proc/meminfo)" -lt $((640 * 1024))

# What is in memory, in MiB.
report()
{
	printf '%3d s, %s: %s MiB available, %s MiB reclaimable slab, %s MiB other slab, %s inodes\n' \
		$((SECONDS - seconds)) "$1" "$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)" \
		"$(awk '/SReclaimable/ { print int($2 / 1024) }' /proc/meminfo)" \
		"$(awk '/SUnreclaim/ { print int($2 / 1024) }' /proc/meminfo)" \
		"$(awk '$1 == "uhsfs_inode" { print $2 }' /proc/slabinfo)"
	seconds=$SECONDS
}

# Both programs at once.
both()
{
	python3 "$many" "$1" 0 "$count" &
	python3 "$many" "$1" 1 "$count"
	wait $!
	report "$1"
}

report "mounted"
both make
sync
report "synced"
both look
both change
sync -f /tmp/mnt
report "synced"
echo 2 >/proc/sys/vm/drop_caches
echo 3 >/proc/sys/vm/drop_caches
report "dropped"
# A few are in use: the root, those that the shell and the kernel hold.
test "$(awk '$1 == "uhsfs_inode" { print $2 }' /proc/slabinfo)" -lt $((count / 10))
both look
test "$(cat /sys/fs/uhsfs/nvme0n1/corruptions)" = 0
umount /tmp/mnt
report "unmounted"
rmmod uhsfs
! dmesg | grep -i 'out of memory\|oom-killer\|allocation failure'
END_OF_SCRIPT

# memory_test KERNEL FILES: three results.
memory_test()
{
	local image=$TAP_TMP/image
	rm -f "$image"
	check "kernel $1: an empty filesystem" mkfs.uhsfs -q --slot-size 1024 --atomic device "$image" 1048576
	vm --kernel "$1" --mem 512M --nvme "4G,file=$image" --timeout 1000 --quiet -- bash "$TAP_TMP/memory.sh" "$TAP_TMP/many.py" "$2"
	vm_is "kernel $1: $2 files in 512 MiB of memory" 0
	diag "$VM_STDOUT"
	check "kernel $1: fsck finds nothing" fsck.uhsfs -n -v "$image"
}
