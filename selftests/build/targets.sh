#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What make and CI promise to those who type the command; works on copies of the sources.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 16

unset CDPATH
top=$(cd "$(dirname "$0")/../.." && pwd)
tree="$TAP_TMP/a tree"
mkdir -p "$tree/selftests"
(cd "$top" && tar -c --exclude='*.o' --exclude='*.ko' --exclude='.*.cmd' --exclude='*.mod*' --exclude=__pycache__ \
	Kbuild META Makefile .ci kmod bpf tools selftests/lib selftests/harness/settings) | tar -x -C "$tree"

targets=$(make -s -C "$top" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | tr '\n' ' ')
is "make help lists the targets" "$targets" "help deps all modules user bpf fuzz check check-unit check-vm check-long \
check-debug demo bench install uninstall clean format lint "

# says PATTERN COMMAND...: the command fails with a message that matches.
# shellcheck disable=SC2317 # called through check
says()
{
	local pattern=$1 text
	shift
	text=$("$@" 2>&1) && { echo "it succeeded: $text"; return 1; }
	grep -Eq "$pattern" <<<"$text" || { echo "$text"; return 1; }
}
for target in check check-vm check-long check-debug; do
	check "make $target KVER= is refused, not ignored" says "$target: tests choose their kernels" \
		make -C "$top" "$target" KVER=6.12
done
check "make demo KDIR= is refused" says 'demo: KDIR cannot be booted' make -C "$top" demo KDIR=/
check "a path with a space is refused in words" says 'move the sources to a path without spaces' \
	"$tree/tools/build-modules"
mv "$tree" "$TAP_TMP/tree"
tree=$TAP_TMP/tree
check "make -j4 builds the module, with CDPATH set" env CDPATH=.:/ make -j4 -C "$tree" modules
make -j4 -C "$tree" modules 2>"$TAP_TMP/log" >/dev/null
is "and has nothing to say about job slots" "$(grep -i 'jobserver\|warning' "$TAP_TMP/log")" ""
python3 "$tree/tools/vm/kernel" list >/dev/null
python3 -c "import sys; sys.path.insert(0, '$tree/tools/vm'); import vmlib"
check "make clean" make -C "$tree" clean
is "leaves what was unpacked" "$(cd "$tree" && find . -name __pycache__ -o -name '*.cmd' -o -name '*.o' -o -name build)" ""

check "the BPF programs compile" make -C "$tree/bpf" OUT="$TAP_TMP/bpf"
check "without clang make bpf names the package" says 'apt-get install clang-19' \
	make -C "$tree/bpf" OUT="$TAP_TMP/bpf" CLANG=no-such-clang clean all

# CI counts by the last line, whatever fails.
# ci DEPS MAKE: run it with false deps and a false make, shell text each; prints status and last line.
mkdir "$TAP_TMP/bin"
ci()
{
	printf '#!/bin/sh\n%s\n' "$1" >"$tree/tools/deps"
	printf '#!/bin/sh\n%s\n' "$2" >"$TAP_TMP/bin/make"
	chmod +x "$tree/tools/deps" "$TAP_TMP/bin/make"
	local status=0
	PATH=$TAP_TMP/bin:$PATH "$tree/.ci/run" >"$TAP_TMP/log" 2>&1 || status=$?
	echo "$status $(tail -n 1 "$TAP_TMP/log")"
}
is "CI: a failed test" "$(ci true 'echo 3 passed, 1 failed, 0 skipped; echo make: Error; exit 2')" \
	"2 3 passed, 1 failed, 0 skipped"
is "CI: a failed build counts as one failure" "$(ci true 'echo error; exit 2')" "2 0 passed, 1 failed, 0 skipped"
is "CI: so do packages that cannot be had" "$(ci 'exit 3' true)" "3 0 passed, 1 failed, 0 skipped"
finish
