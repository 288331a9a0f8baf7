#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Sequences of operations that the model enumerates, as crash_replay reads them.

    sequences.py 2                  all sequences of two operations
    sequences.py 3 COUNT SEED       so many of three, by chance
    sequences.py directed           the model's directed ones

One line each: "SETUP OPERATIONS".  Left out are the beginning and end of checkpoints, which nobody can
ask a kernel for, and exchanges and whiteouts: a mount does not finish those that were cut off.
"""
import itertools
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../model/protocol"))
from check import DIRECTED, OPS, build  # noqa: E402

MISSING = {"ckb", "cke", "exchange", "whiteout"}
HALF = 2048                     # bytes of a half block of the model


def path_of(world, slot):
    """Where a slot is; the root is a folder of each sequence."""
    parts = []
    while slot:
        key = min(world.cur[slot].names)
        parts.append(key.n)
        slot = key.p
    return "/".join(reversed(parts))


def join(world, slot, name):
    return f"{path_of(world, slot)}/{name}".lstrip("/")


def one(world, op):
    """An operation in words; world: as it is before."""
    kind, *rest = op
    path = join(world, rest[0], rest[1]) if len(rest) > 1 else ""
    if kind == "append":
        size = world.dv[world.get(world.key(rest[0], rest[1]))][-1].size
        return f"write {path} {size * HALF} {2 * HALF}"
    if kind == "over":
        return f"write {path} 0 {2 * HALF}"
    if kind == "trunc":
        return f"truncate {path} {rest[2] * HALF}"
    if kind in ("link", "rename", "exchange", "whiteout"):
        return f"{kind} {path} {join(world, rest[2], rest[3])}"
    if kind in ("unlink", "rmdir") and len(rest) > 2:
        return f"{kind} {path} keep"
    if kind == "fsyncdir":
        return f"fsyncdir {path_of(world, rest[0]) or '.'}"
    return f"{kind} {path}".strip()


def words(setup, ops):
    """None: the model does not allow it."""
    text = []
    for i, op in enumerate(ops):
        before = build(setup, ops[:i])
        if before is None or build(setup, ops[:i + 1]) is None:
            return None
        text.append(one(before, op))
    return "; ".join(text)


def main():
    if sys.argv[1] == "directed":
        for setup, seq, _ in DIRECTED.values():
            if not any(op[0] in MISSING for op in seq):
                print(setup, words(setup, tuple(seq)))
        return
    length = int(sys.argv[1])
    ops = [op for op in OPS if op[0] not in MISSING]
    setups = ("S1", "S2")
    if len(sys.argv) == 2:
        every = [(s, seq) for s in setups for seq in itertools.product(ops, repeat=length)]
    else:
        rng = random.Random(int(sys.argv[3]))
        every = ((rng.choice(setups), tuple(rng.choice(ops) for _ in range(length))) for _ in itertools.count())
    left = int(sys.argv[2]) if len(sys.argv) > 2 else len(every)
    seen = set()
    for setup, seq in every:
        text = words(setup, seq)
        # What the model tells apart may be the same to a kernel: which slot or block is used again.
        if text is None or (setup, text) in seen:
            continue
        seen.add((setup, text))
        print(setup, text)
        left -= 1
        if not left:
            break


if __name__ == "__main__":
    main()
