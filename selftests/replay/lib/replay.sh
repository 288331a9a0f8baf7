# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# replay.sh: run build/bin/selftests/crash_replay and number its results.  Source it after tap.sh and
# guest.sh.

# start_replay: modules, and a folder $REPLAY_WORK in memory.
start_replay()
{
	local module
	[ -x build/bin/selftests/crash_replay ] ||
		give_up "run crash_replay" "build/bin/selftests/crash_replay is not built: make user"
	for module in "null_blk nr_devices=0" loop dm-mod dm-log-writes; do
		# shellcheck disable=SC2086
		modprobe $module || give_up "load $module" "this kernel does not have it"
	done
	# Read by load_module.
	# shellcheck disable=SC2034
	MODULE_PARAMETERS=write=1
	load_module
	REPLAY_WORK=$TAP_TMP/work
	mkdir "$REPLAY_WORK"
	mount -t tmpfs -o size=75% tmpfs "$REPLAY_WORK" || give_up "make a place for images" "no tmpfs"
	defer umount "$REPLAY_WORK"
	# The last mount, if the program ends within one.
	defer unmount_if_mounted "$REPLAY_WORK/mnt"
}

# crash_replay TEST [ARGUMENT...]: see src/main.cpp.
crash_replay()
{
	local test=$1 line last=
	shift
	while IFS= read -r line; do
		case $line in
			"ok "*) ok "${line#ok }" ;;
			"not ok "*) not_ok "${line#not ok }" ;;
			*) last=$line; printf '%s\n' "$line" ;;
		esac
	done < <(build/bin/selftests/crash_replay "$test" "$REPLAY_WORK" "$@" 2>&1 ||
		printf '# crash_replay: exit status %d, after: %s\n' "$?" "$last")
}
