#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Wrong usage is refused with a word that helps, before anything boots; a KVM that
# does not work is replaced; nothing of a machine stays behind.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 17

refuses()
{
	local name=$1 pattern=$2
	shift 2
	vm "$@"
	vm_is "$name" 2 "$pattern"
}
refuses "no command" 'COMMAND' --quiet
refuses "bad size" "size '12Q'" --nvme 12Q -- true
refuses "bad lba" 'must be 512 or 4096' --nvme 1G,lba=1024 -- true
refuses "unknown disk option" "bad or repeated option 'speed=9'" --nvme 1G,speed=9 -- true
refuses "unknown kernel" 'no kernel 2.6 here' --kernel 2.6 -- true
refuses "unknown release" "known are .*6\.1" --kernel 6.1.0-0-none -- true
refuses "too little memory" 'needs 256M' --mem 1M -- true
refuses "missing --out folder" 'no such folder' --out "$TAP_TMP/none" -- true
refuses "--icount with CPUs" 'runs one CPU' --icount --cpus 2 -- true
refuses "--numa with an odd count" 'even number' --numa --cpus 3 -- true
refuses "bad --module-arg" 'MODULE.NAME=VALUE' --module-arg quux -- true
refuses "two disks in one file" 'share one file' --nvme "1M,file=$TAP_TMP/x" --nvme "1M,file=$TAP_TMP/x" -- true
VM_ACCEL=fast refuses "bad VM_ACCEL" 'must be kvm, tcg or auto' -- true

# A QEMU whose KVM hangs: the runner must find out in seconds and emulate.
mkdir -p "$TAP_TMP/bin" "$TAP_TMP/cache"
real=$(command -v qemu-system-x86_64)
cat >"$TAP_TMP/bin/qemu-system-x86_64" <<END
#!/bin/sh
case " \$* " in *" -accel kvm "*) echo kvm >>"$TAP_TMP/probes"; exec sleep 600 ;; esac
exec "$real" "\$@"
END
chmod +x "$TAP_TMP/bin/qemu-system-x86_64"
ln -s "${UHSFS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/uhsfs}/kernels" "$TAP_TMP/cache/kernels"
if [ -w /dev/kvm ]; then
	begin=$SECONDS
	UHSFS_CACHE=$TAP_TMP/cache PATH=$TAP_TMP/bin:$PATH vm -- true
	vm_is "a KVM that hangs is replaced by emulation" 0 ', tcg,'
	check "in seconds ($((SECONDS - begin)) s with the boot)" test $((SECONDS - begin)) -lt 60
	UHSFS_CACHE=$TAP_TMP/cache PATH=$TAP_TMP/bin:$PATH vm -- true
	is "and is not tried again until the host boots anew" "$(grep -c kvm "$TAP_TMP/probes")" 1
else
	skip "a KVM that hangs is replaced by emulation" "no /dev/kvm on this machine"
	skip "in seconds" "no /dev/kvm on this machine"
	skip "and is not tried again until the host boots anew" "no /dev/kvm on this machine"
fi

# The runner is killed outright: QEMU must go with it.
mark=$TAP_TMP/leftover.img
"$VM_TOP/tools/vm/run" --nvme "16M,file=$mark" -- sleep 300 >/dev/null 2>&1 &
runner=$!
gone=no
for _ in $(seq 300); do
	pgrep -f "file=$mark,if=none" >/dev/null && break
	sleep 0.1
done
kill -KILL $runner
wait $runner 2>/dev/null
for _ in $(seq 100); do
	pgrep -f "file=$mark,if=none" >/dev/null || { gone=yes; break; }
	sleep 0.1
done
is "no machine outlives its runner" "$gone" yes
finish
