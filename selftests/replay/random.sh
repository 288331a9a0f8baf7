#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Random operations, cut, and the recovery of some of these cuts, cut again.  UHSFS_SEED=N repeats a run.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 3

start_replay
crash_replay random 30 2
finish
