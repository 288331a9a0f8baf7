#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Images changed at random, with right checksums: whatever they say, reading them ends and does no
# harm.  UHSFS_TEST_SEED=N begins with another seed.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/damage/lib/image_damage.sh
. "$(dirname "$0")/lib/image_damage.sh"
plan 4

load_module
image_damage hostile "${UHSFS_TEST_SEED:-20200601}" 20
finish
