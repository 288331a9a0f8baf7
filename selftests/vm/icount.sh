#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# --icount: guest time counts instructions, so a loop costs the same every time (with Python's own
# randomness off).
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 2

loop='
import time
for _ in range(3):
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    for i in range(100000):
        pass
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin)'
vm --icount --quiet -- env PYTHONHASHSEED=0 python3 -c "$loop"
mapfile -t first <<<"$VM_STDOUT"
check "a loop of 100,000 rounds costs more than 10 million instructions (${first[1]})" test "${first[1]}" -gt 10000000
vm --icount --quiet -- env PYTHONHASHSEED=0 python3 -c "$loop"
mapfile -t second <<<"$VM_STDOUT"
apart=$((first[1] > second[1] ? first[1] - second[1] : second[1] - first[1]))
check "and within 1 % as much in another boot (${second[1]})" test $((apart * 100)) -lt "${first[1]}"
finish
