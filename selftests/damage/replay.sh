#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Images that were not unmounted: a mount that writes recovers them, fsck finds nothing, and the next
# mount has nothing to do.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/damage/lib/image_damage.sh
. "$(dirname "$0")/lib/image_damage.sh"
plan 30

# Read by load_module.
# shellcheck disable=SC2034
MODULE_PARAMETERS=write=1
load_module
image_damage replay
finish
