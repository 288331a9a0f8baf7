#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Which kernel is taken and what is fetched, one unittest case a line (kernels.py); boots nothing.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 13
python3 "$(dirname "$0")/../harness/as_tap.py" "$(dirname "$0")/kernels.py"
