# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# crash.sh: rounds of crashes.  Source it after tap.sh and vm.sh.  UHSFS_SEED=N repeats a run, as far as
# the moments of crashes allow.

CRASH_FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# In the machine: a program for each disk, until the machine is killed.
cat >"$TAP_TMP/write.sh" <<'END_OF_SCRIPT'
set -e
out=$1 seed=$2
for module in $(modinfo -F depends "$UHSFS_MODULE" | tr , ' '); do modprobe "$module"; done
modprobe nvme
insmod "$UHSFS_MODULE" write=1
for disk in 0 1; do
	until test -b /dev/nvme${disk}n1; do sleep 0.1; done
	mkdir /tmp/mnt$disk
	mount -t uhsfs /dev/nvme${disk}n1 /tmp/mnt$disk
	python3 "$3/promises.py" write /tmp/mnt$disk "$out/log$disk" $((seed + disk)) >"$out/end$disk" 2>&1 &
done
wait -n
cat "$out"/end*
dmesg | grep uhsfs
END_OF_SCRIPT

# In the next machine: is it all there, for a mount that only reads, and after one that recovers?
cat >"$TAP_TMP/check.sh" <<'END_OF_SCRIPT'
out=$1
for module in $(modinfo -F depends "$UHSFS_MODULE" | tr , ' '); do modprobe "$module"; done
modprobe nvme
insmod "$UHSFS_MODULE" write=1
for disk in 0 1; do
	device=/dev/nvme${disk}n1
	until test -b $device; do sleep 0.1; done
	mkdir /tmp/mnt$disk
	for how in ro rw; do
		fsck.uhsfs -n $device >"$out/fsck-$how$disk" 2>&1
		echo $? >"$out/fsck-$how-status$disk"
		{
			mount -t uhsfs -o $how $device /tmp/mnt$disk &&
				python3 "$2/promises.py" check /tmp/mnt$disk "$out/log$disk"
			status=$?
			umount /tmp/mnt$disk || status=1
		} >"$out/check-$how$disk" 2>&1
		echo $status >"$out/check-$how-status$disk"
	done
	fsck.uhsfs -n -v $device >"$out/fsck-end$disk" 2>&1
	echo $? >"$out/fsck-end-status$disk"
done
dmesg | grep uhsfs >"$out/dmesg"
true
END_OF_SCRIPT

# crash_check FILE NAME: the status in $out/FILE-status is 0; else what was printed.
crash_check()
{
	local status file=$out/$1$disk
	status=$(cat "$out/$1-status$disk")
	is "round $round, disk $disk: $2" "$status" 0
	if [ "$status" != 0 ]; then
		diag <"$file"
		diag <"$out/dmesg"
	fi
}

# crash_rounds N: ten results each.
crash_rounds()
{
	local round seed kernel seconds out disk
	seed=${UHSFS_SEED:-$RANDOM$RANDOM}
	diag "UHSFS_SEED=$seed"
	RANDOM=$((seed % 32768))
	for ((round = 1; round <= $1; round++)); do
		kernel=$((round % 2)) && [ "$kernel" -eq 0 ] && kernel=6.12 || kernel=6.1
		seconds=$((9 + RANDOM % 8)).$((RANDOM % 10))
		out=$TAP_TMP/out$round
		mkdir "$out"
		if ! mkfs.uhsfs -q --slot-size 1024 --atomic device "$out/disk0" 65536 >"$out/mkfs" 2>&1 ||
			! mkfs.uhsfs -q --slot-size 4096 --atomic shadow "$out/disk1" 65536 >>"$out/mkfs" 2>&1; then
			bail "mkfs: $(cat "$out/mkfs")"
		fi
		vm --kernel "$kernel" --nvme "256M,file=$out/disk0" --nvme "256M,lba=512,file=$out/disk1" --out "$out" \
			--kill-after "$seconds" --quiet -- bash "$TAP_TMP/write.sh" "$out" $((seed + 2 * round)) "$CRASH_FOLDER"
		vm_is "round $round: killed after $seconds s on $kernel" 0
		vm --kernel "$kernel" --nvme "256M,file=$out/disk0" --nvme "256M,lba=512,file=$out/disk1" --out "$out" \
			--quiet --timeout 240 -- bash "$TAP_TMP/check.sh" "$out" "$CRASH_FOLDER"
		vm_is "round $round: the next machine reads it" 0
		for disk in 0 1; do
			crash_check fsck-ro "fsck finds no damage"
			crash_check check-ro "a mount that reads has all that was promised"
			crash_check check-rw "a mount that recovers has it too"
			crash_check fsck-end "fsck finds nothing after it"
			diag "$(head -n 1 "$out/check-ro$disk")"
		done
		rm -f "$out"/disk?
	done
}
