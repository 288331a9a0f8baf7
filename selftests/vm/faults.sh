#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The runner notices what the kernel reports, on both kernels.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 7

fault=$VM_TOP/selftests/lib/fault/uhsfs_fault.ko
fault612=$VM_TOP/build/$("$VM_TOP/tools/vm/kernel" resolve 6.12 | sed -n 's/^KVER=//p')/selftests/lib/fault/uhsfs_fault.ko

vm -- insmod "$fault" what=warn
vm_is "WARN: status 99 and the report, though the command succeeded" 99 'fault_warn'
vm --kernel 6.12 -- insmod "$fault612" what=warn
vm_is "WARN on 6.12" 99 'fault_warn'
vm -- insmod "$fault" what=oops
vm_is "oops" 99 'NULL pointer dereference'
vm -- insmod "$fault" what=bug
vm_is "BUG" 99 'kernel BUG at'
vm -- sh -c 'echo c >/proc/sysrq-trigger; sleep 100'
vm_is "panic" 99 'Kernel panic'
vm -- sh -c 'dmesg -n 1; insmod '"$fault"' what=warn'
vm_is "a WARN on a silenced console is still seen, by the taint flag" 99 'tainted \(warning\)'
vm -- sh -c 'insmod '"$fault"' what=nonsense || exit 5'
vm_is "an ordinary error message is no fault" 5
finish
