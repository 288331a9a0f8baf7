#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The rules themselves: no crash in any state of all sequences of one and two operations loses anything.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 2

protocol=$(cd "$(dirname "$0")" && pwd)/protocol
check "scenarios, and all sequences of one and two operations" python3 "$protocol/check.py" quick
check_fails "a rule left out is noticed" 1 python3 - "$protocol" <<'END'
import sys

sys.path.insert(0, sys.argv[1])
from check import DIRECTED, MODES, job

setup, operations, _ = DIRECTED["7 write tmp, rename over"]
sys.exit(1 if job((setup, tuple(operations), MODES, ("R4b-data",), ()))[1] else 0)
END
finish
