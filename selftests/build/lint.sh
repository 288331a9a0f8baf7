#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Style and licences, and that these checks can fail.  clang-tidy takes too long for CI: tidy.sh.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 12

unset CDPATH
top=$(cd "$(dirname "$0")/../.." && pwd)
for name in spdx tree kstyle shell format; do
	check "lint: $name" "$top/tools/lint/run" "$name"
	check "lint: $name finds what it should" "$top/tools/lint/run" --self-test "$name"
done

# A clone that belongs to another user, and a tree that is no clone.
mkdir "$TAP_TMP/clone"
cp -r "$top/tools/lint" "$TAP_TMP/clone/lint"
mkdir "$TAP_TMP/clone/tools"
mv "$TAP_TMP/clone/lint" "$TAP_TMP/clone/tools/lint"
git -C "$TAP_TMP/clone" init -q
git -C "$TAP_TMP/clone" add -A
if [ "$(id -u)" = 0 ]; then
	chown -R nobody "$TAP_TMP/clone"
	check "lint works in another user's clone" "$TAP_TMP/clone/tools/lint/run" spdx tree
else
	skip "lint works in another user's clone" "only root can give a clone away"
fi
rm -rf "$TAP_TMP/clone/.git"
is "without a clone lint says so" "$("$TAP_TMP/clone/tools/lint/spdx" 2>&1 | sed 's/git ls-files:.*/git ls-files/')" \
	"lint needs a git clone: git ls-files"
finish
