#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# settings: timeout=600
# Real trees: mkfs -d takes all of it, fsck finds nothing, uhsfs-ctl lists exactly the tree.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 12

top=$(cd "$(dirname "$0")/../.." && pwd)
export TZ=UTC

# round_trip NAME DIR BLOCKS OPTIONS...
round_trip()
{
	local name=$1 dir=$2 blocks=$3 image=$TAP_TMP/image
	shift 3
	rm -f "$image"
	check "$name: mkfs takes it" mkfs.uhsfs -q -d "$dir" "$@" "$image" "$blocks"
	check "$name: fsck finds nothing" fsck.uhsfs -n "$image"
	"$top/selftests/lib/list_tree.py" "$dir" >"$TAP_TMP/expected"
	uhsfs-ctl ls -R -l "$image" >"$TAP_TMP/listed"
	check "$name: the listing is the tree ($(wc -l <"$TAP_TMP/expected") entries)" \
		cmp "$TAP_TMP/expected" "$TAP_TMP/listed"
}

round_trip "/usr/include" /usr/include 262144
round_trip "/usr/include in large slots with two copies" /usr/include 262144 --slot-size=4096 --atomic=shadow

# A hundred thousand small files, most of them in one directory.
python3 - "$TAP_TMP/many" <<'END'
import os
import sys

top = sys.argv[1]
os.makedirs(top + "/flat")
for i in range(100000):
    if i % 10 == 9:
        folder = f"{top}/{i // 1000}"
        os.makedirs(folder, exist_ok=True)
        path = f"{folder}/{i}"
    else:
        path = f"{top}/flat/a small file with number {i}"
    with open(path, "wb") as file:
        file.write(b"%d" % i * (i % 200))
END
round_trip "100,000 small files" "$TAP_TMP/many" 131072
round_trip "100,000 small files with two copies" "$TAP_TMP/many" 262144 --atomic=shadow
finish
