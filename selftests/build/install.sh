#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Installing puts files where they belong, for two kernels, and uninstalling takes away these and
# no others, after `make clean` too.  Works on a copy of the sources with a false program.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 9

tree=$TAP_TMP/tree root=$TAP_TMP/root
mkdir -p "$tree/selftests" "$tree/build"/{bin,man,completion} "$root/opt/x/sbin"
(cd "$VM_TOP" && tar -c --exclude='*.o' --exclude='*.ko' --exclude='.*.cmd' --exclude='*.mod*' --exclude=bench \
	Kbuild META Makefile kmod tools selftests/lib) | tar -x -C "$tree"
install -m 755 /dev/null "$tree/build/bin/uhsfs"
touch "$tree/build/man/uhsfs.8" "$tree/build/completion/uhsfs" "$root/opt/x/sbin/other"

# shellcheck disable=SC2317 # called through check
run_install()
{
	"$tree/tools/install" --destdir "$root" --prefix /opt/x "$@"
}
files()
{
	(cd "$root" && find . -type f | sed 's/^\.//' | sort)
}
# modules.order makes it a kernel whose modules are indexed.
kernel=$(kernel_has default KVER)
mkdir -p "$root/lib/modules/$kernel"
touch "$root/lib/modules/$kernel/modules.order" "$root/lib/modules/$kernel/modules.builtin"
check "it installs" run_install
is "module, program, man page and completion" "$(files | grep uhsfs)" "$(sort <<END
/lib/modules/$kernel/updates/uhsfs.ko
/opt/x/sbin/uhsfs
/opt/x/share/bash-completion/completions/uhsfs
/opt/x/share/man/man8/uhsfs.8
/opt/x/share/uhsfs/installed
END
)"
check "the module is indexed" grep -q '^updates/uhsfs.ko:' "$root/lib/modules/$kernel/modules.dep"
check "it installs for a second kernel, and again" run_install --kernel 6.12
make -s -C "$tree" clean
check "it uninstalls without a build" run_install --uninstall
is "and only what was installed" "$(files | grep -v '/modules\.')" /opt/x/sbin/other
check "the index forgets the module" test ! -s "$root/lib/modules/$kernel/modules.dep"
check_fails "with nothing installed it says so" 1 run_install --uninstall
is "an option without its value is refused in words" "$("$tree/tools/install" --destdir 2>&1)" \
	"install: --destdir needs a value"
finish
