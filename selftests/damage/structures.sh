#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Each kind of structure damaged in each way: what is hit gives an error and a line in the log,
# everything else is read as if nothing had happened.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
# shellcheck source=selftests/damage/lib/image_damage.sh
. "$(dirname "$0")/lib/image_damage.sh"
plan 203

load_module
image_damage damage
finish
