#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The rules of counting, one unittest case a line (rules.py).
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 46
python3 "$(dirname "$0")/as_tap.py" "$(dirname "$0")/rules.py"
