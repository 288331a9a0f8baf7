#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Images that were not unmounted: a read-only mount shows what recovery would make of them, and
# writes nothing.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/damage/lib/image_damage.sh
. "$(dirname "$0")/lib/image_damage.sh"
plan 30

load_module
image_damage crash
finish
