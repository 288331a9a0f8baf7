#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Wrong usage is refused with a word that helps, before anything boots; a KVM that
# does not work is replaced; nothing of a machine stays behind.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 25

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

# Nothing of a machine outlives its runner, with a daemon where there can be one.
share=9p
[ $EUID != 0 ] || share=virtiofs
# machine_parts: what runs with $mark in its arguments
# (QEMU) or uses the scratch folder of this test (the daemon that shares the root).
mark=$TAP_TMP/leftover.img
machine_parts()
{
	local dir
	for dir in /proc/[0-9]*; do
		if tr '\0' ' ' 2>/dev/null <"$dir/cmdline" | grep -q "file=$mark,if=none" ||
			readlink "$dir/fd/1" 2>/dev/null | grep -q "^$TAP_TMP/scratch/.*virtiofsd.log"; then
			printf '%s\n' "${dir#/proc/}"
		fi
	done
}

# ended_by SIGNAL: start a machine and send its runner the signal; prints what was seen, and what is left.
ended_by()
{
	local runner seen="no machine" left
	rm -rf "$TAP_TMP/scratch"
	mkdir "$TAP_TMP/scratch"
	TMPDIR=$TAP_TMP/scratch VM_SHARE=$share "$VM_TOP/tools/vm/run" --nvme "16M,file=$mark" -- sleep 300 >/dev/null 2>&1 &
	runner=$!
	for _ in $(seq 300); do
		[ "$(machine_parts | wc -l)" -lt $((EUID == 0 ? 2 : 1)) ] || { seen="a machine"; break; }
		sleep 0.1
	done
	kill -"$1" $runner
	wait $runner 2>/dev/null
	for _ in $(seq 100); do
		left=$(machine_parts)
		[ -n "$left" ] || break
		sleep 0.1
	done
	[ "$1" = KILL ] || left+=$(ls "$TAP_TMP/scratch")
	echo "$seen, then ${left:-nothing}"
}
for signal in KILL HUP TERM; do
	is "no machine outlives a runner that SIG$signal ended" "$(ended_by $signal)" "a machine, then nothing"
done

# A command line that no program can have: QEMU does not start, and what was started before it must go too.
long=$(printf '%070000d' 1)
TMPDIR=$TAP_TMP/scratch VM_SHARE=$share refuses "a QEMU that cannot be started" 'QEMU cannot be started' --append "$long" --append "$long" -- true
is "leaves nothing behind" "$(machine_parts)" ""
refuses "a disk that cannot be made" '/proc/none cannot be made' --nvme 1M,file=/proc/none -- true

# A kernel without an image is found before anything asks whether KVM boots it.
UHSFS_CACHE=$TAP_TMP/empty vm -- true
if [ -e "/boot/vmlinuz-$(kernel_has default KVER)" ]; then
	skip "a kernel that is not here to boot" "the default kernel is installed on this machine"
else
	vm_is "a kernel that is not here to boot" 2 "has no image here: fetch it with 'tools/vm/kernel fetch"
fi
check "and no accelerator is remembered for it" test ! -e "$TAP_TMP/empty/accel"
mkdir -p "$TAP_TMP/$(printf '%0100d' 1)"
TMPDIR=$TAP_TMP/$(printf '%0100d' 1) PATH=/usr/bin:/bin VM_ACCEL=tcg vm --quiet -- sh -c 'ls -d /sys/bus/virtio/drivers/9pnet_virtio/virtio*'
vm_is "a long TMPDIR, a PATH without sbin, a root that is shared by 9p where it is emulated" 0
finish
