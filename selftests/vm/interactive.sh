#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What people start by hand: the shell in a machine, and the demo.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 6

check_fails "the shell wants a terminal" 2 "$VM_TOP/tools/vm/shell"
check_fails "and no command" 2 "$VM_TOP/tools/vm/shell" -- true

# script(1) gives it one.  What is typed is echoed, so the answer must differ from the question.
# The shell is not there at once, and what is typed before it is lost: so it is typed again.
keys()
{
	for _ in $(seq 60); do
		sleep 1
		printf 'echo $((1111 * 2)) in $PWD of $(whoami)\n'
		! grep -q '2222 in' "$TAP_TMP/typescript" || break
	done
	printf 'exit 7\n'
	sleep 10
}
status=0
keys | script -qefc "'$VM_TOP/tools/vm/shell' --mem 512M" "$TAP_TMP/typescript" >/dev/null 2>&1 || status=$?
check "the shell answers, as root in the project's folder" grep -q "2222 in $VM_TOP of root" "$TAP_TMP/typescript"
is "its exit status is the shell's" "$status" 7

"$VM_TOP/tools/demo" --kernel 6.12 >"$TAP_TMP/demo" 2>"$TAP_TMP/demo.err"
is "the demo runs, on the kernel that was asked for" \
	"$? $(grep -c "Linux $(kernel_has 6.12 KVER)," "$TAP_TMP/demo")" "0 1"
is "and prints no colours into a file" "$(grep -c "$(printf '\033')" "$TAP_TMP/demo")" 0
finish
