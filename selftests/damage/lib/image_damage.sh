# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# image_damage.sh: run build/bin/selftests/image_damage and number its results.  Source it after
# tap.sh and guest.sh.

# image_damage TEST [ARGUMENT...]: see src/main.cpp.
image_damage()
{
	local program=build/bin/selftests/image_damage work=$TAP_TMP/work large small line last=
	local test=$1
	shift
	[ -x "$program" ] || give_up "run image_damage" "$program is not built: make user"
	large=$(nvme_disk 1) || give_up "find a disk of 4096-byte blocks" "no NVMe disk"
	small=$(nvme_disk 2) || give_up "find a disk of 512-byte blocks" "only one NVMe disk"
	mkdir "$work"
	mount -t tmpfs tmpfs "$work" || give_up "make a place for images" "no tmpfs"
	defer umount "$work"
	# The last mount, if the program ends within one.
	defer unmount_if_mounted "$work/mnt"
	while IFS= read -r line; do
		case $line in
			"ok "*) ok "${line#ok }" ;;
			"not ok "*) not_ok "${line#not ok }" ;;
			*) last=$line; printf '%s\n' "$line" ;;
		esac
	done < <("$program" "$test" "$work" "$large" "$small" "$@" 2>&1 || printf '# image_damage: exit status %d, after: %s\n' "$?" "$last")
}
