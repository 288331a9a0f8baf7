#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Whatever bytes an image has, no command crashes, hangs or prints anything but its one kind
# of output; damage is named and shown as far as it can be.
# shellcheck source=selftests/lib/tap.sh
. "$(dirname "$0")/../lib/tap.sh"
plan 13

command -v mkfs.uhsfs >/dev/null || bail "mkfs.uhsfs is not built: make user"
seed=${UHSFS_TEST_SEED:-20200601}
diag "UHSFS_TEST_SEED=$seed"
src=$TAP_TMP/src
mkdir -p "$src/dir"
for i in $(seq 60); do echo "$i" >"$src/dir/file-$i"; done
for i in $(seq 80); do ln "$src/dir/file-1" "$src/dir/link-$i"; done
for i in $(seq 0 2 400); do
	printf x | dd of="$src/sparse" bs=1 seek=$((i * 4096)) conv=notrunc status=none
done
shadow=$TAP_TMP/shadow.img device=$TAP_TMP/device.img
check "mkfs makes an image with two copies of everything" \
	mkfs.uhsfs -q --atomic shadow -d "$src" "$shadow" 4096
check "and one with one" mkfs.uhsfs -q --atomic device -d "$src" "$device" 4096

cat >"$TAP_TMP/hammer.py" <<'EOT'
"""hammer.py SEED ROUNDS IMAGE: change bytes of metadata, run a command, judge it."""
import json
import os
import random
import shutil
import subprocess
import sys

TABLE = []
for index in range(256):
    for _ in range(8):
        index = index >> 1 ^ (0x82f63b78 if index & 1 else 0)
    TABLE.append(index)


def crc32c(record):
    crc = 0xffffffff
    for byte in record:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def seal(image, at):
    """Make the checksums of the records in a block right."""
    if image[at:at + 8] == b"UHSFSSB1":
        field, size = 8, 4096
    else:
        field, size = 4, 1024 if image[at:at + 4] == b"SLOT" else 4096
    for start in range(at, at + 4096, size):
        image[start + field:start + field + 4] = bytes(4)
        crc = crc32c(image[start:start + size])
        image[start + field:start + field + 4] = crc.to_bytes(4, "little")


seed, rounds, image = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rng = random.Random(seed)
data = open(image, "rb").read()
tags = (b"UHSFSSB1", b"SLOT", b"BUCK", b"EXTN", b"NAME", b"XATR", b"BMAP", b"CHNK", b"INTM", b"SUSP")
blocks = [at for at in range(0, len(data), 4096) if data[at:at + 8].startswith(tags)]
inodes = [1, 2, 3, 64, 65, 66, 70, 128, 130]
commands = [["info"], ["usage", "-v"], ["features"], ["dump", "super", "-v"], ["dump", "chunks", "-v"],
            ["dump", "intents", "-v"], ["dump", "bitmap", "-v", "0"], ["ls", "-lR"],
            ["dump", "path", "dir"], ["dump", "path", "sparse", "-v"]]
commands += [["dump", kind, "-v", str(i)] for kind in ("slot", "dir", "extents") for i in inodes]
bad = 0
for number in range(rounds):
    changed = bytearray(data)
    note = []
    for _ in range(rng.choice((1, 1, 2, 8, 200))):
        at = rng.choice(blocks) + rng.choice((rng.randrange(4096), rng.randrange(512)))
        changed[at] = rng.choice((0, 1, 0xff, changed[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        note.append(at)
    # A checksum that is right again lets the change through to what is behind the check.
    if rng.random() < 0.7:
        for at in {at // 4096 * 4096 for at in note}:
            seal(changed, at)
    open(image + ".bad", "wb").write(changed)
    command = rng.choice(commands)
    as_json = rng.random() < 0.5
    target = [image + ".bad"]
    if rng.random() < 0.1:
        command, target = ["image", "-f"] + rng.choice(([], ["--hash-names"])), [image + ".bad", image + ".meta"]
    if rng.random() < 0.1:
        block = rng.choice(note) // 4096
        command = ["dump", "block", str(block)]
        target = [image + ".bad"]
    line = ["uhsfs-ctl"] + command + target + (["-o", "json"] if as_json else [])
    result = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    problem = None
    if result.returncode not in (0, 1):
        problem = f"exit status {result.returncode}"
    elif as_json:
        try:
            json.loads(result.stdout)
        except ValueError as error:
            problem = f"no JSON: {error}"
    if not problem and result.returncode == 1 and not result.stderr:
        problem = "failed without a word"
    for text in result.stderr.decode(errors="replace").splitlines():
        if not problem and not text.startswith("uhsfs-ctl: "):
            problem = "more than one line for an error"
    if problem:
        bad += 1
        print(f"seed {seed} round {number}: {problem}: {' '.join(line)}; bytes {note[:8]}")
        print(result.stderr.decode(errors="replace")[:1500])
        shutil.copy(image + ".bad", f"{image}.case{bad}")
        if bad > 5:
            break
sys.exit(1 if bad else 0)
EOT
cd "$TAP_TMP" || bail "no folder"
check "no command crashes on 250 damaged images (shadow)" python3 hammer.py "$seed" 250 "$shadow"
check "no command crashes on 250 damaged images (device)" python3 hammer.py "$seed" 250 "$device"

# ---- image never has data of files, whatever stands where metadata should ----
python3 - "$src/dir/file-1" <<'EOT'
"""Attributes that need two blocks and an index; values that look like attributes with names."""
import os
import sys
for i in range(3):
    try:
        os.setxattr(sys.argv[1], f"user.{i}", b"\1\x10\0\0\0\0\0\0top-secret-data!" * 80)
    except OSError:
        pass
EOT
for i in $(seq 300); do ln "$src/dir/file-1" "$src/dir/further-link-$i"; done
for mode in shadow device; do
	check "an image with attributes ($mode)" \
		mkfs.uhsfs -q -L secret-label --atomic "$mode" -d "$src" "leak-$mode.img" 4096
done
cat >leak.py <<'EOT'
"""leak.py IMAGE: put data of files where metadata is, wholly or behind the first sectors."""
import re
import subprocess
import sys

TAGS = (b"UHSFSSB1", b"SLOT", b"BUCK", b"EXTN", b"NAME", b"XATR", b"BMAP", b"CHNK", b"INTM", b"SUSP")
SECRET = b"top-secret-data!"
# As text, and as something that passes for attributes.
FILLS = (SECRET * 256, b"\1\x10\0\0\0\0\0\0top-secret-data!" * 171)
image = sys.argv[1]
data = open(image, "rb").read()
bad = 0


def metadata(options, expect):
    """The bytes of the image of leak.img and what was complained of."""
    result = subprocess.run(["uhsfs-ctl", "image", "-f", *options, "leak.img", "leak.meta"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, timeout=60)
    assert result.returncode in expect, f"exit status {result.returncode}: {result.stderr}"
    return open("leak.meta", "rb").read(), result.stderr


def keys(content):
    """Keys of inner nodes of names trees but 0, the first one of all."""
    found = set()
    for at in range(0, len(content), 4096):
        if content[at:at + 4] == b"NAME" and content[at + 48:at + 50] != b"\0\0":
            for i in range(int.from_bytes(content[at + 50:at + 52], "little")):
                found.add(content[at + 64 + 16 * i:at + 72 + 16 * i])
    return found - {bytes(8)}


open("leak.img", "wb").write(data)
sound, _ = metadata(["--hash-names"], (0,))
assert b"secret-label" in data and b"secret-label" not in sound, "the label is there"
assert b"x" * len("secret-label") in sound, "the label is not hidden"
assert keys(data) and len(keys(sound)) == len(keys(data)), "an inner node is lost"
assert not keys(data) & keys(sound), "hashes of old names are there"
for tag in TAGS:
    places = [at for at in range(0, len(data), 4096) if data[at:at + len(tag)] == tag]
    if not places and tag != b"XATR":
        sys.exit(f"no {tag} in the image")
    for number, at in enumerate(places[:1] + places[-1:]):
        for keep in (0, 512, 2048):
            fill = FILLS[(number + keep // 512) % 2]
            changed = data[:at + keep] + fill[:4096 - keep] + data[at + 4096:]
            open("leak.img", "wb").write(changed)
            for options in ([], ["--hash-names"]):
                try:
                    content, errors = metadata(options, (0, 1))
                except AssertionError as error:
                    content, errors = SECRET, str(error).encode()
                if SECRET in content:
                    bad += 1
                    print(f"{tag} at block {at // 4096}, {keep} bytes kept, {options}: leaked; {errors[:300]}")
                if keep == 0 and tag == b"BMAP" and not re.search(rb"is no bitmap of this filesystem", errors):
                    bad += 1
                    print(f"block {at // 4096} is left out without a word: {errors}")
sys.exit(1 if bad else 0)
EOT
check "image has no data of files where metadata is damaged (shadow)" python3 leak.py leak-shadow.img
check "image has no data of files where metadata is damaged (device)" python3 leak.py leak-device.img

# One byte of the root's slot: named with its object, and shown as far as it goes.
home=$(uhsfs-ctl dump slot -o json 1 "$device" | sed -n 's/.*"home": \([0-9]*\).*/\1/p')
cp "$device" "$device.bad"
printf '\377' | dd of="$device.bad" bs=1 seek=$((home * 4096 + 1024 + 130)) conv=notrunc status=none
uhsfs-ctl dump slot 1 "$device.bad" >"$TAP_TMP/out" 2>"$TAP_TMP/err"
is "a damaged slot gives exit status 1" "$?" 1
check "it is shown nevertheless" grep -q 'uid: *16711680' "$TAP_TMP/out"
check "and the fault is named" grep -q 'slot [0-9]*: crc is' "$TAP_TMP/err"

# Both superblocks.
cp "$device" "$device.bad"
copies=$(uhsfs-ctl dump super -v -o json "$device" | python3 -c \
	'import json,sys; print(*(copy["block"] for copy in json.load(sys.stdin)["copies"]))')
for block in $copies; do
	printf '\377' | dd of="$device.bad" bs=1 seek=$((block * 4096 + 2000)) conv=notrunc status=none
done
check_fails "without a superblock nothing can be listed" 1 uhsfs-ctl ls "$device.bad"
uhsfs-ctl dump super -v "$device.bad" >"$TAP_TMP/out" 2>"$TAP_TMP/err"
is "but dump super shows both copies" "$? $(grep -c 'slot-size: *1024' "$TAP_TMP/out")" "1 2"
finish
