#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# All sequences of two operations that the model enumerates, driven through the kernel and cut.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 2

start_replay
selftests/replay/lib/sequences.py 2 >"$TAP_TMP/two"
crash_replay sequences 16 "$TAP_TMP/two" half
finish
