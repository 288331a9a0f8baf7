# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# crash.sh: a machine that is killed again and again.  Source it after tap.sh and vm.sh.
#
# Two disks are kept all the time.  Each boot checks what programs were promised before the last cut, in a
# mount that reads and in one that recovers, and then writes on until it is killed.  UHSFS_SEED=N repeats a
# run, as far as the moments of cuts allow.

CRASH_FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# In the machine: check what was promised, then a program for each disk until the machine is killed.
cat >"$TAP_TMP/boot.sh" <<'END_OF_SCRIPT'
out=$1 promises=$2/promises.py seed=$3 what=$4
check_disk()
{
	local device=$1 disk=$2 how status
	set +e
	for how in ro rw; do
		{
			mount -t uhsfs -o $how $device /tmp/mnt$disk &&
				python3 "$promises" check /tmp/mnt$disk "$out/log$disk"
			status=$?
			umount /tmp/mnt$disk || status=1
		} >"$out/check-$how$disk" 2>&1
		echo $status >"$out/check-$how-status$disk"
	done
	fsck.uhsfs -n -v $device >"$out/fsck-end$disk" 2>&1
	echo $? >"$out/fsck-end-status$disk"
}
set -e
for module in $(modinfo -F depends "$UHSFS_MODULE" | tr , ' '); do modprobe "$module"; done
modprobe nvme
insmod "$UHSFS_MODULE" write=1
for disk in 0 1; do
	until test -b /dev/nvme${disk}n1; do sleep 0.1; done
	mkdir /tmp/mnt$disk
	# What was being written when the machine was killed.
	[ ! -e "$out/next$disk" ] || mv "$out/next$disk" "$out/log$disk"
	[ $what = begin ] || check_disk /dev/nvme${disk}n1 $disk &
done
wait
dmesg | grep uhsfs >"$out/dmesg" || true
if [ $what = end ] || cat "$out"/*-status? 2>/dev/null | grep -qv '^0$'; then
	exit 0
fi
writers=()
for disk in 0 1; do
	mount -t uhsfs /dev/nvme${disk}n1 /tmp/mnt$disk
	if [ $what = begin ]; then
		python3 "$promises" write /tmp/mnt$disk "$out/next$disk" $((seed + disk)) >"$out/end$disk" 2>&1 &
	else
		python3 "$promises" resume /tmp/mnt$disk "$out/log$disk" "$out/next$disk" $((seed + disk)) \
			>"$out/end$disk" 2>&1 &
	fi
	writers+=($!)
done
until [ -e "$out/next0" ] && [ -e "$out/next1" ] || [ -s "$out/end0" ] || [ -s "$out/end1" ]; do sleep 0.1; done
# So long did it take: the kill comes some seconds after that.
echo $SECONDS >"$out/before"
wait -n "${writers[@]}" || true
cat "$out"/end*
dmesg | grep uhsfs
END_OF_SCRIPT

# crash_boot ARGUMENT...: a boot of one kernel or the other.
crash_boot()
{
	kernel=$((round % 2)) && [ "$kernel" -eq 0 ] && kernel=6.12 || kernel=6.1
	vm --kernel "$kernel" --nvme "256M,file=$out/disk0" --nvme "256M,lba=512,file=$out/disk1" --out "$out" --quiet \
		"$@" -- bash "$TAP_TMP/boot.sh" "$out" "$CRASH_FOLDER" $((seed + 2 * round)) "$what"
}

# crash_check FILE NAME: the status in $out/FILE-status is 0; else what was printed.
crash_check()
{
	local status
	status=$(cat "$out/$1-status$disk" 2>/dev/null)
	is "cut $cut, disk $disk: $2" "$status" 0
	if [ "$status" != 0 ]; then
		diag <"$out/$1$disk"
		diag <"$out/dmesg"
	fi
}

# What came of a cut, after the next boot.
crash_verdict()
{
	local disk
	for disk in 0 1; do
		crash_check fsck-cut "fsck finds no damage"
		crash_check check-ro "a mount that reads has all that was promised"
		crash_check check-rw "a mount that recovers has it too"
		crash_check fsck-end "fsck finds nothing after it"
		diag "$(head -n 1 "$out/check-ro$disk")"
	done
}

# One boot that is killed when programs write; one that is killed before that counts for nothing.
crash_cut()
{
	for _ in 1 2 3 4; do
		rm -f "$out"/check-* "$out"/fsck-end* "$out/before"
		after=$((before + 3 + RANDOM % 7)).$((RANDOM % 10))
		crash_boot --kill-after "$after"
		if [ "$VM_STATUS" -ne 0 ] || [ -e "$out/before" ]; then
			break
		fi
		diag "round $round: killed after $after s, before programs wrote"
		before=$((before * 2))
	done
	[ ! -e "$out/before" ] || before=$(cat "$out/before")
}

# crash_rounds N: nine results for each of N cuts, and one more.
crash_rounds()
{
	local seed kernel out=$TAP_TMP/crash round cut disk what=begin before=8 after
	seed=${UHSFS_SEED:-$RANDOM$RANDOM}
	diag "UHSFS_SEED=$seed"
	RANDOM=$((seed % 32768))
	mkdir "$out"
	if ! mkfs.uhsfs -q --slot-size 1024 --atomic device "$out/disk0" 65536 >"$out/mkfs" 2>&1 ||
		! mkfs.uhsfs -q --slot-size 4096 --atomic shadow "$out/disk1" 65536 >>"$out/mkfs" 2>&1; then
		bail "mkfs: $(cat "$out/mkfs")"
	fi
	for ((round = 1; round <= $1; round++)); do
		crash_cut
		cut=$((round - 1))
		[ "$cut" -eq 0 ] || crash_verdict
		vm_is "cut $round: killed after $after s on $kernel" 0
		[ "$VM_STATUS" -eq 0 ] || bail "the machine ended before it was killed"
		what=on
		for disk in 0 1; do
			fsck.uhsfs -n "$out/disk$disk" >"$out/fsck-cut$disk" 2>&1
			echo $? >"$out/fsck-cut-status$disk"
		done
	done
	rm -f "$out"/check-* "$out"/fsck-end*
	what=end
	crash_boot --timeout 240
	cut=$1
	crash_verdict
	vm_is "the last machine ends by itself" 0
}
