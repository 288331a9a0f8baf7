#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: suite=long timeout=3600
# Static analysis of all C++: some twelve CPU seconds a file, remembered by content.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 2

top=$(cd "$(dirname "$0")/../.." && pwd)
check "lint: tidy finds what it should" "$top/tools/lint/run" --self-test tidy
check "lint: tidy" "$top/tools/lint/run" tidy
finish
