#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Sequences of operations that the model enumerates, driven through the kernel and cut: the directed ones,
# and many of two operations; long.sh has all.  UHSFS_SEED=N repeats a run.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 4

start_replay
selftests/replay/lib/sequences.py directed >"$TAP_TMP/directed"
crash_replay sequences 24 "$TAP_TMP/directed" half
export UHSFS_SEED=${UHSFS_SEED:-$RANDOM}
selftests/replay/lib/sequences.py 2 600 "$UHSFS_SEED" >"$TAP_TMP/two"
crash_replay sequences 10 "$TAP_TMP/two" half
finish
