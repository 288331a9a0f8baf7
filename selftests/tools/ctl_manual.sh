#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Every command of uhsfs-ctl's table has help, a man page and completion; wrong command lines
# are refused in one line.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 21

bin=$(dirname "$(command -v uhsfs-ctl)") || bail "uhsfs-ctl is not built: make user"
man=$bin/../man
completion=$bin/../completion

uhsfs-ctl help -o json >"$TAP_TMP/table.json"
python3 -c '
import json, sys
for command in json.load(open(sys.argv[1]))["commands"]:
    print(command["name"], command["page"], sep="\t")
' "$TAP_TMP/table.json" >"$TAP_TMP/commands"
check "the table has commands" test -s "$TAP_TMP/commands"

# each COMMAND PAGE must satisfy "$@"
# shellcheck disable=SC2317 # called through check
each()
{
	local name page status=0
	while IFS=$'\t' read -r name page; do
		"$@" "$name" "$page" || { echo "'$name' does not"; status=1; }
	done <"$TAP_TMP/commands"
	return "$status"
}

# shellcheck disable=SC2317 # called through check
help_is_there()
{
	# shellcheck disable=SC2086 # a name may be two words
	uhsfs-ctl $1 --help >"$TAP_TMP/a" && uhsfs-ctl help $1 >"$TAP_TMP/b" &&
		cmp "$TAP_TMP/a" "$TAP_TMP/b" && grep -q "^Usage: uhsfs-ctl $1 " "$TAP_TMP/a"
}

# shellcheck disable=SC2317 # called through check
help_is_narrow()
{
	# shellcheck disable=SC2086
	! uhsfs-ctl $1 --help | grep -E '.{81}'
}

# Renders without a warning, and has the name section that apropos reads.
# shellcheck disable=SC2317 # called through check
page_is_good()
{
	groff -man -Tascii -ww "$man/$2.8" >"$TAP_TMP/page" 2>"$TAP_TMP/warnings" || return 1
	if [ -s "$TAP_TMP/warnings" ]; then
		cat "$TAP_TMP/warnings"
		return 1
	fi
	grep -q "$2 - " "$TAP_TMP/page"
}

# complete WORD...: what bash offers for the last word
# shellcheck disable=SC2317 # called through check
complete_words()
{
	bash -c '
		. "$1"
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_uhsfs_ctl
		printf "%s\n" "${COMPREPLY[@]}"' bash "$completion/uhsfs-ctl" "$@"
}

# shellcheck disable=SC2317 # called through check
is_completed()
{
	local words last
	read -ra words <<<"$1"
	last=${words[-1]}
	complete_words uhsfs-ctl "${words[@]:0:${#words[@]}-1}" "${last:0:2}" | grep -qx -- "$last" || return 1
	complete_words uhsfs-ctl "${words[@]}" --o | grep -qx -- --output
}

check "every command has help, in two ways" each help_is_there
check "help fits 80 columns" each help_is_narrow
check "every command has a man page that renders without warnings" each page_is_good
check "so has the program" page_is_good "" uhsfs-ctl
check "every command is completed, and its options" each is_completed
check "the overview lists every command" python3 - "$TAP_TMP/commands" <<'EOT'
import subprocess
import sys
text = subprocess.run(["uhsfs-ctl", "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
missing = [line.split("\t")[0] for line in open(sys.argv[1]) if f"\n  {line.split(chr(9))[0]} " not in text]
sys.exit(f"missing: {missing}" if missing else 0)
EOT

check "completion is valid bash" bash -n "$completion/uhsfs-ctl"
check "completion passes shellcheck" shellcheck -s bash -e SC2034 "$completion/uhsfs-ctl"
uhsfs-ctl completion bash >"$TAP_TMP/completion"
check "the command writes what was built" cmp "$TAP_TMP/completion" "$completion/uhsfs-ctl"
is "choices of an option are offered" "$(complete_words uhsfs-ctl info -o '' | tr '\n' ' ')" "text json "
is "also behind =" "$(complete_words uhsfs-ctl info --output = j)" json
: >"$TAP_TMP/some image"
is "devices are completed as paths" "$(complete_words uhsfs-ctl dump slot 1 "$TAP_TMP/some")" \
	"$TAP_TMP/some image"

# shellcheck disable=SC2317 # called through check
fails_with_usage()
{
	local status=0
	"$@" >"$TAP_TMP/out" 2>"$TAP_TMP/err" || status=$?
	cat "$TAP_TMP/err"
	[ "$status" -eq 2 ] && [ "$(wc -l <"$TAP_TMP/err")" -eq 1 ]
}
check "no command is a usage error" fails_with_usage uhsfs-ctl
check "an unknown command is" fails_with_usage uhsfs-ctl frobnicate
check "a group alone is" fails_with_usage uhsfs-ctl dump
check "an unknown option is" fails_with_usage uhsfs-ctl info --frobnicate x
check "a missing argument is" fails_with_usage uhsfs-ctl info
check "one too many is" fails_with_usage uhsfs-ctl info a b
check "a format that does not exist is" fails_with_usage uhsfs-ctl info -o xml x
uhsfs-ctl -o json info --frobnicate >"$TAP_TMP/out" 2>/dev/null
check "and in JSON it is an object" python3 -c \
	'import json,sys; assert json.load(open(sys.argv[1]))["errors"][0]["message"]' "$TAP_TMP/out"
finish
