#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The module builds without a warning on both kernels, and nowhere else.  Works on a copy
# of the sources, so that the tree under test stays as it was built.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 12

tree=$TAP_TMP/tree
mkdir -p "$tree/selftests"
(cd "$VM_TOP" && tar -c --exclude='*.o' --exclude='*.ko' --exclude='.*.cmd' --exclude='*.mod*' --exclude=bench \
	Kbuild META kmod tools selftests/lib) | tar -x -C "$tree"
# The default is one of the two, on Debian 12 mostly 6.1.
default=$(kernel_has default KVER)
other=6.12
[ "$(kernel_has 6.12 KVER)" != "$default" ] || other=6.1
kdir=$(kernel_has 6.1 KDIR)

# build KERNEL: with all warnings and sparse; the messages are in $TAP_TMP/log.
# shellcheck disable=SC2317 # called through check
build()
{
	"$tree/tools/build-modules" --kernel "$1" W=1 C=2 modules >"$TAP_TMP/path" 2>"$TAP_TMP/log"
}
complaints()
{
	grep -E 'warning|error' "$TAP_TMP/log" || true
}
check "it builds for the default kernel" build default
is "W=1 and sparse have nothing to say" "$(complaints)" ""
check "it builds for the other one ($other)" build $other
is "W=1 and sparse have nothing to say there" "$(complaints)" ""
is "objects of another kernel stay in build/" "$(cat "$TAP_TMP/path")" "$tree/build/$(kernel_has $other KVER)/uhsfs.ko"
is "there is one uhsfs.ko in the tree" "$(find "$tree" -path "$tree/build" -prune -o -name uhsfs.ko -print)" "$tree/uhsfs.ko"
is "and it is the default kernel's" "$(modinfo -F vermagic "$tree/uhsfs.ko" | cut -d ' ' -f 1)" \
	"$default"

# The range stands in META: raise or lower it there and nowhere else.
sed -i 's/^Kernel-Maximum:.*/Kernel-Maximum: 6.0/; s/^Kernel-Minimum:.*/Kernel-Minimum: 5.15/' "$tree/META"
check_fails "a kernel newer than META's range is refused" 1 "$tree/tools/build-modules" --kdir "$kdir"
message=$("$tree/tools/build-modules" --kdir "$kdir" 2>&1)
check "with the range in the message" grep -q 'uhsfs builds for Linux 5.15 to 6.0' <<<"$message"
make -C "$kdir" M="$tree" modules >"$TAP_TMP/log" 2>&1
check "and by kbuild itself" grep -q 'error.*newer than Kernel-Maximum' "$TAP_TMP/log"
sed -i 's/^Kernel-Maximum:.*/Kernel-Maximum: 6.12/; s/^Kernel-Minimum:.*/Kernel-Minimum: 6.2/' "$tree/META"
check_fails "so is an older one" 1 "$tree/tools/build-modules" --kdir "$kdir"
make -C "$kdir" M="$tree" modules >"$TAP_TMP/log" 2>&1
check "by kbuild too" grep -q 'error.*older than Kernel-Minimum' "$TAP_TMP/log"
finish
