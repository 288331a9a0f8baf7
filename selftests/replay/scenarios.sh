#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Scenarios of the design that must never fail: every cut of what the device was asked to write, mounted,
# compared with what was promised, and checked.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/replay/lib/replay.sh
. "$(dirname "$0")/lib/replay.sh"
plan 23

start_replay
crash_replay scenarios 30
finish
