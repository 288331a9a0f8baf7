#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: where=host timeout=2400 suite=long
# A machine of 512 MiB makes, syncs and looks at hundreds of thousands of files: see lib/memory.sh.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
# shellcheck source=selftests/write/lib/memory.sh
. "$(dirname "$0")/lib/memory.sh"
plan 6

memory_test 6.1 200000
memory_test 6.12 200000
finish
