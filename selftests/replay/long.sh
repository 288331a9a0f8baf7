#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: suite=long timeout=7200
# The same as the other files here, with all crash images of scenarios and more of all others.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 32

start_replay
crash_replay scenarios 0
selftests/replay/lib/sequences.py directed >"$TAP_TMP/directed"
crash_replay sequences 0 "$TAP_TMP/directed"
selftests/replay/lib/sequences.py 2 >"$TAP_TMP/two"
crash_replay sequences 200 "$TAP_TMP/two"
selftests/replay/lib/sequences.py 3 1000 "${UHSFS_SEED:-$RANDOM}" >"$TAP_TMP/three"
crash_replay sequences 60 "$TAP_TMP/three"
crash_replay random 200 20
finish
