#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What a command sees in the machine, and how its end reaches the caller.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 16

# One boot answers many questions: each line of the output is one fact.
mkdir "$TAP_TMP/out"
vm --out "$TAP_TMP/out" --module-arg nvme.write_queues=1 -- bash -c '
	echo "to stderr" >&2
	pwd
	uname -r
	id -u
	echo "${PATH%%:*}"
	echo "$UHSFS_MODULE"
	grep -c uhsfs /proc/filesystems
	modprobe nvme; cat /sys/module/nvme/parameters/write_queues
	echo guest > '"$VM_TOP"'/written-by-guest && cat '"$VM_TOP"'/written-by-guest
	echo kept > '"$TAP_TMP"'/out/file
	echo "BUG: kernel BUG at WARNING: CPU: not from the kernel"
	exit 37'
vm_is "the command's status is the runner's, its errors pass through" 37 '^to stderr$'
mapfile -t line <<<"$VM_STDOUT"
is "it starts in the project's folder" "${line[0]}" "$VM_TOP"
is "the default kernel is the one builds use" "${line[1]}" "$(kernel_has default KVER)"
is "it is root" "${line[2]}" 0
is "the tools come first in PATH" "${line[3]}" "$VM_TOP/build/bin"
is "UHSFS_MODULE names the module" "${line[4]}" "$(kernel_has default OBJECTS)/uhsfs.ko"
is "the module is not loaded" "${line[5]}" 0
is "--module-arg reaches modprobe" "${line[6]}" 1
is "the host's root can be written in the guest" "${line[7]}" guest
check "but the host's files stay as they are" test ! -e "$VM_TOP/written-by-guest"
is "--out is the host's folder" "$(cat "$TAP_TMP/out/file")" kept
is "a command that prints kernel words is no kernel fault" "${line[8]}" "BUG: kernel BUG at WARNING: CPU: not from the kernel"
grep -o 'booted in [0-9.]* s' <<<"$VM_STDERR" | diag

vm --kernel 6.12 -- uname -r
is "6.12 boots as well" "$VM_STDOUT" "$(kernel_has 6.12 KVER)"

vm --timeout 1 -- sleep 100
vm_is "--timeout ends a command that runs on" 124 'longer than 1 s'

vm -- sh -c 'echo o >/proc/sysrq-trigger; sleep 100'
vm_is "a machine that goes away under its command is an error" 125 'died under the command'

vm --quiet -- sh -c 'exec yes 0123456789 | head -c 20000000'
is "output of 20 MB arrives whole" "$(stat -c %s "$TAP_TMP/vm.out")" 20000000
finish
