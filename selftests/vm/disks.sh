#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# NVMe disks, persistent memory, NUMA, crashes.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
# shellcheck source=selftests/lib/vm.sh
. "$(dirname "$0")/../lib/vm.sh"
plan 20

disk=$TAP_TMP/disk.img
vm --nvme "64M,file=$disk" --nvme 32M,lba=512,queues=2 --pmem 128M --cpus 2 --numa -- bash -c '
	q=/sys/block/nvme0n1/queue
	cat /sys/block/nvme0n1/size $q/logical_block_size $q/write_cache
	cat /sys/block/nvme1n1/size /sys/block/nvme1n1/queue/logical_block_size
	ls /sys/block/nvme1n1/mq | wc -l
	cat /sys/block/pmem0/size /sys/block/pmem0/queue/dax
	ls -d /sys/devices/system/node/node[0-9]* | wc -l
	cmp -n 1048576 /dev/nvme0n1 /dev/zero && echo zeros
	printf "first boot" | dd of=/dev/nvme0n1 conv=fsync status=none && echo written'
vm_is "a machine with two disks, persistent memory and two nodes" 0
mapfile -t line <<<"$VM_STDOUT"
is "size" "${line[0]}" 131072
is "4096-byte blocks by default" "${line[1]}" 4096
is "a volatile write cache" "${line[2]}" "write back"
is "size of the second disk" "${line[3]}" 65536
is "lba=512" "${line[4]}" 512
is "queues=2" "${line[5]}" 2
is "size of the persistent memory" "${line[6]}" 262144
is "it does DAX" "${line[7]}" 1
is "--numa: two nodes" "${line[8]}" 2
is "a new disk is empty" "${line[9]}" zeros

is "what the guest wrote is in file=" "$(head -c 10 "$disk")" "first boot"
# On 6.12 the driver probes disks side by side.
vm --kernel 6.12 --nvme "64M,file=$disk" --nvme 32M --nvme 48M --nvme 16M --pmem 128M -- sh -c '
	head -c 10 /dev/nvme0n1; cat /sys/block/pmem0/queue/dax; cat /sys/block/nvme[0-3]n1/size'
is "file= keeps the disk for the next boot, on the other kernel too" "$(head -n 1 <<<"$VM_STDOUT")" "first boot1"
is "disks have their names in the order of --nvme" "$(tail -n +2 <<<"$VM_STDOUT")" "$(printf '%s\n' 131072 65536 98304 32768)"

vm --kill-after 3 --nvme "64M,file=$disk" -- bash -c '
	printf synced | dd of=/dev/nvme0n1 bs=4096 seek=1 conv=fsync status=none
	exec 3<>/dev/nvme0n1 # stays open: udev has a disk read anew, and so written back, when a writer closes it
	dd bs=8192 count=1 of=/dev/null status=none <&3
	printf cached >&3
	sleep 100'
vm_is "--kill-after is a crash that happened" 0 'killed 3 s after'
is "what was synced before the crash is there" "$(dd if="$disk" bs=4096 skip=1 count=1 status=none | head -c 6)" synced
is "what was only in the guest's cache is not" "$(dd if="$disk" bs=4096 skip=2 count=1 status=none | tr -d '\0')" ""

vm --kill-after 60 -- sh -c 'exit 7'
vm_is "--kill-after: a command that ends first is no crash" 98 'ended with status 7'

vm --nvme "128M,file=$disk" -- true
vm_is "file= of another size is refused, not resized" 2 'holds 67108864 bytes'
is "and its size stays" "$(stat -c %s "$disk")" 67108864
finish
