# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# tap.sh: write a test as a bash script.
#
#   #!/usr/bin/env bash
#   . "$(dirname "$0")/../lib/tap.sh"
#   plan 2
#   check "true succeeds" true
#   is "one and one" "$((1 + 1))" 2
#   finish
#
# `plan N` comes first and N is a literal: the runner reads it from the source.  Results are
# numbered here; a failure prints what was expected and what came.  `defer COMMAND...` puts a
# command on the cleanup stack, which runs from the top when the script ends, however it ends; a
# cleanup that fails makes the script fail.  $TAP_TMP is a folder that goes away by itself.  Exit
# status: 0 all well, 1 a failure, 4 all skipped.

KSFT_SKIP=4
_tap_planned=0
_tap_count=0
_tap_failed=0
_tap_stack=()
TAP_TMP=$(mktemp -d "${TMPDIR:-/tmp}/tap-XXXXXX") || exit 1

_tap_cleanup()
{
	local status=$? i command
	trap - EXIT
	trap '' HUP INT TERM
	for ((i = ${#_tap_stack[@]} - 1; i >= 0; i--)); do
		command=${_tap_stack[i]}
		if ! eval "$command" >"$TAP_TMP/cleanup" 2>&1 </dev/null; then
			diag "cleanup failed: $command"
			diag <"$TAP_TMP/cleanup"
			[ "$status" -ne 0 ] || status=1
		fi
	done
	rm -rf "$TAP_TMP"
	exit "$status"
}
trap _tap_cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# diag [TEXT...]: a diagnostic line, or every line of standard input.
diag()
{
	if [ $# -gt 0 ]; then
		printf '%s\n' "$*" | sed 's/^/# /'
	else
		sed 's/^/# /'
	fi
}

# defer COMMAND [ARGUMENT...]: run it when the script ends.
defer()
{
	local words
	printf -v words '%q ' "$@"
	_tap_stack+=("$words")
}

plan()
{
	_tap_planned=$1
	printf 'TAP version 13\n1..%d\n' "$1"
}

ok()
{
	_tap_count=$((_tap_count + 1))
	printf 'ok %d %s\n' "$_tap_count" "$1"
}

# not_ok NAME [DIAGNOSTIC...]
not_ok()
{
	_tap_count=$((_tap_count + 1))
	_tap_failed=$((_tap_failed + 1))
	printf 'not ok %d %s\n' "$_tap_count" "$1"
	shift
	[ $# -eq 0 ] || diag "$*"
}

# check NAME COMMAND [ARGUMENT...]: the command must succeed.  It runs in this shell.
check()
{
	local name=$1 status=0
	shift
	"$@" >"$TAP_TMP/output" 2>&1 || status=$?
	if [ "$status" -eq 0 ]; then
		ok "$name"
		return
	fi
	not_ok "$name"
	diag "command:  $*"
	diag "expected: exit status 0"
	diag "got:      exit status $status"
	diag <"$TAP_TMP/output"
}

# check_fails NAME STATUS COMMAND [ARGUMENT...]: the command must exit with exactly this status.
check_fails()
{
	local name=$1 expected=$2 status=0
	shift 2
	"$@" >"$TAP_TMP/output" 2>&1 || status=$?
	if [ "$status" -eq "$expected" ]; then
		ok "$name"
		return
	fi
	not_ok "$name"
	diag "command:  $*"
	diag "expected: exit status $expected"
	diag "got:      exit status $status"
	diag <"$TAP_TMP/output"
}

# is NAME GOT EXPECTED: two strings must be equal.
is()
{
	if [ "$2" = "$3" ]; then
		ok "$1"
		return
	fi
	not_ok "$1"
	diag "expected: $3"
	diag "got:      $2"
}

# skip NAME REASON: this one result is skipped.
skip()
{
	_tap_count=$((_tap_count + 1))
	printf 'ok %d %s # SKIP %s\n' "$_tap_count" "$1" "${2:?skip needs a reason}"
}

# skip_all REASON: nothing can be tested here; allowed before the first result.
skip_all()
{
	printf '# SKIP %s\n' "${1:?skip_all needs a reason}"
	exit "$KSFT_SKIP"
}

# bail REASON: nothing after this makes sense; what has no result yet counts as failed.
bail()
{
	printf 'Bail out! %s\n' "$*"
	exit 1
}

finish()
{
	if [ "$_tap_count" -ne "$_tap_planned" ]; then
		diag "planned $_tap_planned results, gave $_tap_count"
		exit 1
	fi
	[ "$_tap_failed" -eq 0 ] || exit 1
	exit 0
}
