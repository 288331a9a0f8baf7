#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The module loads, says what it is, refuses to mount in plain words, and unloads.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/guest.sh
. "$(dirname "$0")/../lib/guest.sh"
plan 8

load_module
is "the type needs a device" "$(grep -w uhsfs /proc/filesystems)" "$(printf '\tuhsfs')"
is "sysfs has the version in META" "$(cat /sys/fs/uhsfs/version)" "$(sed -n 's/^Version: *//p' META)"
is "modinfo has it too" "$(modinfo -F version "$UHSFS_MODULE")" "$(sed -n 's/^Version: *//p' META)"
is "features are readable" "$(cd /sys/fs/uhsfs/features && grep . crc32c siphash)" \
	"$(printf 'crc32c:supported\nsiphash:supported')"

# A device without a filesystem.
mkdir "$TAP_TMP/mnt"
dmesg -C
mount -t uhsfs -o ro /dev/nvme0n1 "$TAP_TMP/mnt" 2>"$TAP_TMP/message"
is "a mount of nothing is refused" "$?" 32
is "with a message that names device and reason" \
	"$(dmesg | sed -n 's/^\[[^]]*\] //p')" "uhsfs: /dev/nvme0n1: no uhsfs filesystem here"

check "it unloads" rmmod uhsfs
check_fails "and leaves nothing in sysfs" 1 test -e /sys/fs/uhsfs
# What load_module deferred would find it gone.
insmod "$UHSFS_MODULE"
finish
