#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: where=host timeout=3000 suite=long
# The same as crash, with more cuts: a machine is killed while programs write and fsync, again and again on
# the same disks, and each time everything that they were promised is there.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
# shellcheck source=selftests/write/lib/crash.sh
. "$(dirname "$0")/lib/crash.sh"
plan 181

crash_rounds 20
finish
