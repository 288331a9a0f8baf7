#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What in a kernel log counts as a fault, one unittest case a line (reports.py); boots nothing.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 4
python3 "$(dirname "$0")/../harness/as_tap.py" "$(dirname "$0")/reports.py"
