#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The runner notices what the kernel reports, on both kernels.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 15

fault=$(fault_module default)
fault612=$(fault_module 6.12)

vm -- insmod "$fault" what=warn
vm_is "WARN: status 99 and the report, though the command succeeded" 99 'fault_warn'
vm --kernel 6.12 -- insmod "$fault612" what=warn
vm_is "WARN on 6.12" 99 'fault_warn'
"$VM_TOP/tools/vm/run" --quiet -- sh -c 'yes | head -c 1000000; insmod '"$fault"' what=warn' 2>"$TAP_TMP/vm.err" | head -n 1 >/dev/null
is "a reader that leaves does not change the status" "${PIPESTATUS[0]}" 99
vm -- insmod "$fault" what=oops
vm_is "oops" 99 'NULL pointer dereference'
vm -- insmod "$fault" what=bug
vm_is "BUG" 99 'kernel BUG at'
vm -- sh -c 'echo c >/proc/sysrq-trigger; sleep 100'
vm_is "panic" 99 'Kernel panic'
vm -- sh -c 'dmesg -n 1; insmod '"$fault"' what=warn'
vm_is "a WARN on a silenced console is still seen, by the taint flag" 99 'tainted \(warning\)'

# A task that waits for ever: the kernel ends the machine, though nobody else would.
vm -- sh -c 'cd /proc/sys/kernel && cat hung_task_panic hung_task_timeout_secs && echo 2 >hung_task_timeout_secs &&
	exec insmod '"$fault"' what=dstate'
is "a hung task ends the machine, after 30 s" "$VM_STDOUT" "$(printf '1\n30')"
vm_is "and is reported" 99 'task insmod:[0-9]+ blocked for more than'
vm --timeout 4 -- insmod "$fault" what=dstate
vm_is "what a command waits for is shown when its time is over" 124 'fault_dstate'
vm --timeout 4 -- insmod "$fault" what=hang
vm_is "a processor that spins in the kernel does not stop the clock" 124 'longer than 4 s'

# A test that leaves such a task behind, though its results are all ok.
printf '#!/bin/sh\ninsmod %s what=dstate &\nsleep 1\necho 1..1\necho ok 1\n' "$fault" >"$TAP_TMP/leaves"
chmod +x "$TAP_TMP/leaves"
printf '60\t%s\n' "$TAP_TMP/leaves" >"$TAP_TMP/list"
vm -- "$VM_TOP/selftests/lib/guest-run" token "$TAP_TMP/list"
vm_is "a task left hanging is reported when the command has ended" 99 'task insmod:[0-9]+ blocked when'
check "guest-run says that the test left it" grep -q '^@token end 0 stuck' <<<"$VM_STDOUT"
check "and where it hangs" grep -q '^# !   .*fault_dstate' <<<"$VM_STDOUT"

vm -- sh -c 'insmod '"$fault"' what=nonsense || exit 5'
vm_is "an ordinary error message is no fault" 5
finish
