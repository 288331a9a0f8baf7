#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: suite=debug timeout=1800
# The debug kernel sees what a stock kernel does not, and the runner notices.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 5

fault=$(fault_module debug)
vm --kernel debug -- insmod "$fault" what=sleep
vm_is "sleeping in atomic context" 99 'sleeping function called from invalid context|scheduling while atomic'
vm --kernel debug -- insmod "$fault" what=lockdep
vm_is "a lock order that can deadlock" 99 'possible circular locking dependency'
vm --kernel debug -- insmod "$fault" what=useafterfree
vm_is "use after free" 99 'KASAN.*use-after-free'
vm --kernel debug -- insmod "$fault" what=leak
vm_is "memory that nothing points to" 99 'unreferenced object'
vm --kernel debug -- sh -c 'modprobe libcrc32c && insmod '"$(kernel_has debug OBJECTS)/uhsfs.ko"' && rmmod uhsfs'
vm_is "the module itself loads and unloads without a report" 0
finish
