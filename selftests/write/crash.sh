#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: where=host timeout=1200 suite=check
# A machine is killed while programs write and fsync, and that again and again on the same disks: in the
# next one everything that they were promised is there, and fsck finds no damage.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
# shellcheck source=selftests/write/lib/crash.sh
. "$(dirname "$0")/lib/crash.sh"
plan 73

crash_rounds 8
finish
