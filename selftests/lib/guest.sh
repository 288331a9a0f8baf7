# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# guest.sh: what tests in a virtual machine need on top of tap.sh: the module, a disk, a mount.
#
# Source it after tap.sh.  Each helper either does its work and defers the undoing, or reports a
# failed result that says why and ends the script: the results still missing then count as failed.

GUEST_WAIT_SECONDS=30

# wait_for SECONDS COMMAND...: repeat the command until it succeeds.
wait_for()
{
	local tries=$(($1 * 10))
	shift
	while ! "$@" >/dev/null 2>&1; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.1
	done
}

# give_up NAME REASON...: a failed result, and the end.
give_up()
{
	not_ok "$@"
	exit 1
}

# load_module: insert the module built for the running kernel, with the parameters in $MODULE_PARAMETERS,
# and wait until the filesystem is registered.
load_module()
{
	local name dependency
	[ -n "${UHSFS_MODULE:-}" ] ||
		give_up "load module" "UHSFS_MODULE is unset: no uhsfs.ko was built for kernel $(uname -r)"
	[ -r "$UHSFS_MODULE" ] || give_up "load module" "$UHSFS_MODULE is not readable"
	name=$(basename "$UHSFS_MODULE" .ko)
	if [ ! -d "/sys/module/$name" ]; then
		for dependency in $(modinfo -F depends "$UHSFS_MODULE" | tr ',' ' '); do
			modprobe "$dependency" 2>"$TAP_TMP/load" ||
				give_up "load module" "modprobe $dependency: $(cat "$TAP_TMP/load")"
		done
		# shellcheck disable=SC2086
		insmod "$UHSFS_MODULE" ${MODULE_PARAMETERS:-} 2>"$TAP_TMP/load" || give_up "load module" "$(cat "$TAP_TMP/load")"
		defer unload_if_loaded "$name"
	fi
	wait_for "$GUEST_WAIT_SECONDS" grep -qw uhsfs /proc/filesystems ||
		give_up "load module" "uhsfs is not in /proc/filesystems after $GUEST_WAIT_SECONDS s"
}

unload_if_loaded()
{
	[ ! -d "/sys/module/$1" ] || rmmod "$1"
}

# nvme_disk [N]: print the N-th (from 1) NVMe namespace once it is there.
nvme_disk()
{
	local disk
	modprobe nvme 2>/dev/null
	disk=/dev/nvme$((${1:-1} - 1))n1
	wait_for "$GUEST_WAIT_SECONDS" test -b "$disk" || return 1
	printf '%s\n' "$disk"
}

# mount_at DEVICE FOLDER [OPTIONS]: mount, and unmount when the test ends if it is still mounted.
mount_at()
{
	mkdir -p "$2"
	mount -t uhsfs ${3:+-o "$3"} "$1" "$2" || return
	defer unmount_if_mounted "$2"
}

unmount_if_mounted()
{
	! mountpoint -q "$1" || umount "$1"
}
