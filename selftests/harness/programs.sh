#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# C tests, scripts with the helpers, GoogleTest binaries, one unittest case a line (programs.py).
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 35
python3 "$(dirname "$0")/as_tap.py" "$(dirname "$0")/programs.py"
