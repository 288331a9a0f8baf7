#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Every command of uhsfs-ctl on images made from a tree: what it shows is what is there.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 34

command -v mkfs.uhsfs >/dev/null || bail "mkfs.uhsfs is not built: make user"
export TZ=UTC
src=$TAP_TMP/src
mkdir -p "$src/dir/sub" "$src/many" "$src/empty"
echo private-content >"$src/hello"
head -c 300000 /dev/urandom >"$src/dir/big"
truncate -s 10M "$src/dir/sparse"
printf 'end' | dd of="$src/dir/sparse" bs=1 seek=5000000 conv=notrunc status=none
ln "$src/hello" "$src/dir/sub/hard link"
for i in $(seq 300); do ln "$src/hello" "$src/dir/l$i"; done
ln -s ../hello "$src/dir/short"
ln -s "$(printf 'x%.0s' $(seq 900))/y" "$src/long"
mkfifo "$src/fifo"
for i in $(seq 600); do : >"$src/many/file-number-$i"; done
: >"$src/$(printf 'odd\nname\\ü')"
: >"$src/$(printf 'not\xffutf8')"
: >"$src/a"
chmod 4711 "$src/hello"
touch -d '1960-05-06 07:08:09.123456789' "$src/a"
# As far as the filesystem under $TMPDIR has room for attributes.
python3 - "$src/hello" "$src/dir/big" <<'EOT'
import os
import sys
for name, size in (("short", 1), ("long", 200), ("longer", 2000), ("longest", 9000)):
    for path in sys.argv[1:]:
        try:
            os.setxattr(path, "user." + name, b"secret-value" * size)
        except OSError:
            pass
EOT

shadow=$TAP_TMP/shadow.img device=$TAP_TMP/device.img
check "mkfs makes an image with two copies of everything" \
	mkfs.uhsfs -q -L "a label" --atomic shadow -d "$src" "$shadow" 16384
check "and one with one" mkfs.uhsfs -q --atomic device -d "$src" "$device" 16384

# ---- image does not destroy what is in use ----
echo precious >"$TAP_TMP/used"
check_fails "image --force refuses a file that another program has locked" 1 \
	flock "$TAP_TMP/used" uhsfs-ctl image --force "$device" "$TAP_TMP/used"
is "and leaves it" "$(cat "$TAP_TMP/used")" precious

# ---- ls and cat ----
"$(dirname "$0")/../lib/list_tree.py" "$src" >"$TAP_TMP/expected"
for image in shadow device; do
	uhsfs-ctl ls -lR "${!image}" >"$TAP_TMP/listed"
	check "ls -lR equals the tree ($image)" diff "$TAP_TMP/expected" "$TAP_TMP/listed"
done
is "ls lists names alone" "$(uhsfs-ctl ls "$shadow" dir/sub)" "hard link"
is "ls of a file is its path" "$(uhsfs-ctl ls "$shadow" /dir/big)" "/dir/big"
check_fails "ls of what is not there fails" 1 uhsfs-ctl ls "$shadow" no/such
uhsfs-ctl ls -lR -o json "$shadow" >"$TAP_TMP/ls.json"
check "names that are no UTF-8 stand in JSON in hex as well" \
	grep -q '"path": "not\\ufffdutf8", "path-hex": "6e6f74ff75746638"' "$TAP_TMP/ls.json"

# shellcheck disable=SC2317 # called through check
cat_is_equal()
{
	local path
	for path in hello dir/big dir/sparse "dir/sub/hard link" a; do
		uhsfs-ctl cat "$1" "$path" | cmp - "$src/$path" || return 1
	done
}
check "cat writes the content (shadow)" cat_is_equal "$shadow"
check "cat writes the content (device)" cat_is_equal "$device"
is "cat of a symbolic link writes its target" "$(uhsfs-ctl cat "$shadow" dir/short)" ../hello
check_fails "cat of a directory fails" 1 uhsfs-ctl cat "$shadow" dir
check "cat in JSON is base64" python3 - "$shadow" "$src/dir/big" <<'EOT'
import base64
import json
import subprocess
import sys
out = subprocess.run(["uhsfs-ctl", "cat", "-o", "json", sys.argv[1], "dir/big"], stdout=subprocess.PIPE, check=True)
assert base64.b64decode(json.loads(out.stdout)["data"], validate=True) == open(sys.argv[2], "rb").read()
EOT

# ---- everything, as text and as JSON ----
ino=$(uhsfs-ctl ls -o json "$shadow" many/file-number-1 | sed -n 's/.*"ino": \([0-9]*\).*/\1/p')
many=$(uhsfs-ctl dump path -o json many "$shadow" | sed -n 's/^ *"ino": \([0-9]*\).*/\1/p')
cat >"$TAP_TMP/commands" <<EOT
info IMAGE
usage IMAGE
features
features IMAGE
dump super IMAGE
dump slot 1 IMAGE
dump slot $ino IMAGE
dump path hello IMAGE
dump path long IMAGE
dump dir 1 IMAGE
dump dir $many IMAGE
dump extents $many IMAGE
dump chunks IMAGE
dump intents IMAGE
dump bitmap 0 IMAGE
dump block 1 IMAGE
dump block 2 IMAGE
ls IMAGE
ls -lR IMAGE
cat IMAGE hello
help
version
completion bash
EOT
# speaks COMMAND...: it succeeds, says something, and has nothing to complain of
# shellcheck disable=SC2317 # called through check
speaks()
{
	uhsfs-ctl "$@" >"$TAP_TMP/text" 2>"$TAP_TMP/err" || return 1
	[ -s "$TAP_TMP/text" ] && [ ! -s "$TAP_TMP/err" ]
}

# all_commands IMAGE: every command succeeds as text and as JSON, plain and with -v
# shellcheck disable=SC2317 # called through check
all_commands()
{
	local image=$1 line status=0
	shift
	while read -r line; do
		# shellcheck disable=SC2086
		set -- ${line//IMAGE/"$image"}
		speaks "$@" || { echo "text: $line"; cat "$TAP_TMP/err"; status=1; }
		speaks "$@" -v || { echo "-v: $line"; cat "$TAP_TMP/err"; status=1; }
		for verbose in "" -v; do
			# shellcheck disable=SC2086
			uhsfs-ctl -o json "$@" $verbose >"$TAP_TMP/json" || { echo "json $verbose: $line"; status=1; }
			python3 - "$TAP_TMP/json" <<'EOP' || { echo "json $verbose: $line"; status=1; }
import json
import re
import sys

def keys(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", key), key
            keys(inner)
    elif isinstance(value, list):
        for inner in value:
            keys(inner)

def unique(pairs):
    assert len(pairs) == len(dict(pairs)), f"a key twice: {pairs}"
    return dict(pairs)

document = json.load(open(sys.argv[1]), object_pairs_hook=unique)
assert document["errors"] == [], document["errors"]
keys(document)
EOP
		done
	done <"$TAP_TMP/commands"
	return "$status"
}
check "all commands give text and JSON (shadow)" all_commands "$shadow"
check "all commands give text and JSON (device)" all_commands "$device"

field() { uhsfs-ctl info -o json "$1" | python3 -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]])' "$2"; }
is "info has the label" "$(field "$shadow" label)" "a label"
is "info knows that nothing needs recovery" "$(field "$shadow" recovery-needed)" False
is "info has the mode of writing" "$(field "$shadow" atomic) $(field "$device" atomic)" "shadow device"
for image in shadow device; do
	is "usage accounts for every block ($image)" \
		"$(uhsfs-ctl usage -o json "${!image}" | python3 -c 'import json,sys; print(json.load(sys.stdin)["blocks-by-kind"]["unaccounted"])')" 0
done

# ---- what is no filesystem ----
truncate -s 1M "$TAP_TMP/zeros"
uhsfs-ctl info "$TAP_TMP/zeros" 2>"$TAP_TMP/err"
is "a file of zeros is refused" "$? $(sed 's/.*zeros: //' "$TAP_TMP/err")" \
	"1 not a uhsfs filesystem (hint: mkfs.uhsfs makes one, and destroys what is there)"
truncate -s 4M "$TAP_TMP/swap"
mkswap "$TAP_TMP/swap" >/dev/null 2>&1
uhsfs-ctl info "$TAP_TMP/swap" 2>"$TAP_TMP/err"
is "what stands there instead is named" "$(sed 's/.*swap: //' "$TAP_TMP/err")" \
	"not a uhsfs filesystem: it holds swap"
uhsfs-ctl info -o json "$TAP_TMP/swap" 2>/dev/null >"$TAP_TMP/json"
check "in JSON too" python3 -c \
	'import json,sys; assert "swap" in json.load(open(sys.argv[1]))["errors"][0]["message"]' "$TAP_TMP/json"
check_fails "a file that is not there fails" 1 uhsfs-ctl info "$TAP_TMP/none"
check_fails "a full disk is noticed" 1 sh -c "uhsfs-ctl ls -lR '$shadow' >/dev/full"

# ---- image ----
# image_is_clean IMAGE [OPTION]: the copy has the same blocks in use, none of the data, and is sound
# shellcheck disable=SC2317 # called through check
image_is_clean()
{
	local image=$1
	shift
	uhsfs-ctl image "$@" -f "$image" "$TAP_TMP/meta" || return 1
	uhsfs-ctl ls -lR "$TAP_TMP/meta" >"$TAP_TMP/meta.ls" || return 1
	uhsfs-ctl usage "$TAP_TMP/meta" >"$TAP_TMP/meta.usage" || return 1
	uhsfs-ctl usage "$image" | diff - "$TAP_TMP/meta.usage" || return 1
	if grep -q -e private-content -e secret-value -e "$(printf 'x%.0s' $(seq 900))/y" "$TAP_TMP/meta"; then
		echo "data of the files is in the image"
		return 1
	fi
	fsck.uhsfs -n "$TAP_TMP/meta"
}
check "image makes an image that is sound (shadow)" image_is_clean "$shadow"
sed 's/ -> .*//' "$TAP_TMP/expected" >"$TAP_TMP/expected.short"
sed 's/ -> .*//' "$TAP_TMP/meta.ls" >"$TAP_TMP/meta.short"
check "with the same files" diff "$TAP_TMP/expected.short" "$TAP_TMP/meta.short"
is "without content" "$(uhsfs-ctl cat "$TAP_TMP/meta" hello | tr -d '\0' | wc -c)" 0
check "image makes an image that is sound (device)" image_is_clean "$device"
check "also with other names (shadow)" image_is_clean "$shadow" --hash-names
# shellcheck disable=SC2317 # called through check
same_but_names()
{
	diff <(sed 's/ [^ ]*Z .*//' "$TAP_TMP/expected" | sort) <(sed 's/ [^ ]*Z .*//' "$TAP_TMP/meta.ls" | sort) &&
		! grep -aq -e file-number -e 'hard link' -e sparse "$TAP_TMP/meta"
}
check "which keep everything but the names" same_but_names
check "also with other names (device)" image_is_clean "$device" --hash-names
finish
