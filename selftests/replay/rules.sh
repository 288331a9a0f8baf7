#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Each rule of ordering is needed: without it a cut loses something.  The module is one for tests, whose
# rules can be switched off.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 11

is "the module that is used has no such switch" "$(modinfo -F parm "$UHSFS_MODULE" | grep break_rule)" ""
UHSFS_MODULE=build/breakable/$(uname -r)/uhsfs.ko
start_replay
crash_replay rules 40
finish
