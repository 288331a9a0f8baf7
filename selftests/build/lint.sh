#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Style, licences and static analysis, and that these checks can fail.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 12

top=$(cd "$(dirname "$0")/../.." && pwd)
for name in spdx tree kstyle shell format tidy; do
	check "lint: $name" "$top/tools/lint/run" "$name"
	check "lint: $name finds what it should" "$top/tools/lint/run" --self-test "$name"
done
finish
