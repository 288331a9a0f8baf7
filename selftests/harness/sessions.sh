#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Boots of a virtual machine, and runs that are interrupted, one unittest case a line (sessions.py).
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 22
python3 "$(dirname "$0")/as_tap.py" "$(dirname "$0")/sessions.py"
