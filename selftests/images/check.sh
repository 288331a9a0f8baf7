#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# mkfs.uhsfs and fsck.uhsfs as a user meets them: a new filesystem is clean, a damaged one is
# not, and exit statuses and output are what fsck(8) and programs expect.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 33

tree=$TAP_TMP/tree
image=$TAP_TMP/image

mkdir -p "$tree/a/b/c" "$tree/many"
for i in $(seq 200); do
	head -c $((i * 7)) /dev/zero >"$tree/many/file-$i"
done
ln "$tree/many/file-1" "$tree/a/link"
ln -s "$(printf '%02000d' 0)" "$tree/long"
head -c 300000 /dev/urandom >"$tree/data"

# Every shape of a filesystem.
for slots in 1024 2048 4096; do
	for atomic in device shadow; do
		rm -f "$image"
		check "mkfs: slots of $slots bytes, atomic = $atomic" \
			mkfs.uhsfs -q --slot-size "$slots" --atomic "$atomic" -d "$tree" "$image" 8192
		check "fsck: slots of $slots bytes, atomic = $atomic" fsck.uhsfs "$image"
	done
done

# What is printed.
rm -f "$image"
mkfs.uhsfs -q --atomic device -d "$tree" "$image" 8192 || bail "no image"
line=$(fsck.uhsfs -n "$image" | tail -n 1)
is "one line sums up" "${line% used}" \
	"$image: clean, 202 files, 5 directories, $(printf '%s' "$line" | grep -o '[0-9]* %')"
# shellcheck disable=SC2016
json='import json, sys; d = json.load(sys.stdin); print(*(d[k] for k in sys.argv[1:]))'
is "JSON of a clean filesystem" \
	"$(fsck.uhsfs -o json "$image" | python3 -c "$json" state files directories findings-total)" \
	"clean 202 5 0"
is "progress goes to the descriptor" \
	"$(fsck.uhsfs -C 3 "$image" 3>&1 >/dev/null | head -n 1)" "1 0 1 $image"
is "without a terminal there is no bar" "$(fsck.uhsfs "$image" 2>&1 >/dev/null)" ""

# Exit statuses.
for option in -n -a -p -f; do
	check "$option on a clean filesystem succeeds" fsck.uhsfs "$option" "$image"
done
check_fails "-y is not available yet" 8 fsck.uhsfs -y "$image"
check_fails "-r is not available yet" 8 fsck.uhsfs -r "$image"
check_fails "an unknown option is wrong usage" 16 fsck.uhsfs --unknown "$image"
check_fails "no device is wrong usage" 16 fsck.uhsfs
check_fails "a missing device is an operational error" 8 fsck.uhsfs "$TAP_TMP/none"
head -c 8388608 /dev/zero >"$TAP_TMP/zeros"
check_fails "no filesystem is an operational error" 8 fsck.uhsfs "$TAP_TMP/zeros"
is "JSON of an operational error" \
	"$(fsck.uhsfs -o json "$TAP_TMP/zeros" 2>/dev/null | python3 -c "$json" state status)" "error 8"
check "-V prints a version" fsck.uhsfs -V

# Damage: a byte of the second superblock, then of the first, too.
last=$(grep -abo UHSFSSB1 "$image" | tail -n 1 | cut -d: -f1)
printf '\377' | dd of="$image" bs=1 seek=$((last + 300)) conv=notrunc status=none
check_fails "a damaged copy of the superblock is found" 4 fsck.uhsfs "$image"
is "JSON of a damaged filesystem" \
	"$(fsck.uhsfs -o json "$image" | python3 -c "$json" state status findings-total)" "damaged 4 1"
check_fails "-p on a damaged filesystem fails" 4 fsck.uhsfs -p "$image"
printf '\377' | dd of="$image" bs=1 seek=$((4096 + 300)) conv=notrunc status=none
check_fails "two damaged superblocks are found" 4 fsck.uhsfs "$image"

# A device that became smaller.
truncate -s 8G "$TAP_TMP/large"
check_fails "an image cut short is damaged" 4 \
	sh -c "mkfs.uhsfs -q -f '$TAP_TMP/large' && truncate -s 4G '$TAP_TMP/large' && fsck.uhsfs '$TAP_TMP/large'"
finish
