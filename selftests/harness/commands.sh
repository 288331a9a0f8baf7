#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The command line, settings and output, one unittest case a line (commands.py).
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 25
python3 "$(dirname "$0")/as_tap.py" "$(dirname "$0")/commands.py"
