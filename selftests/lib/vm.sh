# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# vm.sh: what tests of the virtual machine runner share.  Source it after tap.sh.

unset CDPATH
VM_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# kernel_has NAME KEY: what tools/vm/kernel says of a kernel, such as KVER or OBJECTS.
kernel_has()
{
	"$VM_TOP/tools/vm/kernel" resolve "$1" | sed -n "s/^$2=//p"
}

# fault_module KERNEL: the module that makes faults, built for that kernel.
fault_module()
{
	printf '%s\n' "$(kernel_has "$1" OBJECTS)/selftests/lib/fault/uhsfs_fault.ko"
}

# vm ARGUMENT...: run a machine; $VM_STATUS, $VM_STDOUT and $VM_STDERR say how it ended.
vm()
{
	VM_STATUS=0
	"$VM_TOP/tools/vm/run" "$@" >"$TAP_TMP/vm.out" 2>"$TAP_TMP/vm.err" </dev/null || VM_STATUS=$?
	VM_STDOUT=$(cat "$TAP_TMP/vm.out")
	VM_STDERR=$(cat "$TAP_TMP/vm.err")
}

# vm_is NAME STATUS [PATTERN]: the last machine ended with STATUS and its errors match the regular expression.
vm_is()
{
	if [ "$VM_STATUS" -eq "$2" ] && grep -Eq "${3:-}" <<<"$VM_STDERR"; then
		ok "$1"
		return
	fi
	not_ok "$1"
	diag "expected: exit status $2${3:+ and a message matching '$3'}"
	diag "got:      exit status $VM_STATUS, output '$VM_STDOUT', messages:"
	diag <<<"$VM_STDERR"
}
