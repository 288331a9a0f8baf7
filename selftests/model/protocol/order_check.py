#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""order_check.py LIBRARY [COUNT [SEED]]: what kmod/core/order.c says, compared with the rules of the model.

In every reachable state of every sequence (newest images only, as the kernel writes them) the C code is given the
changes of names so far and what is durable, and must name exactly the slots that the model says an image waits for,
and what R4(c) commits first.  Sequences: the directed ones, all of one and two operations, then COUNT random ones of
three and four.  Ends at the first difference.
"""
import ctypes
import itertools
import random
import sys
from multiprocessing import Pool

from check import DIRECTED, OPS, Explorer, build, randseq
from protocol import NSLOT, ROOT

CLAIM, INTENT, UNLINK, MOVE, REPLACED, EXCHANGE, PEER = range(7)
HOW = {"unlink": UNLINK, "move": MOVE, "replaced": REPLACED, "xchg": EXCHANGE}
ROOM = 4096


class Rules:
    """The C code, brought to any state of a world."""

    def __init__(self, library):
        self.c = ctypes.CDLL(library)
        self.c.shim_new.restype = ctypes.c_void_p
        self.shim = ctypes.c_void_p(self.c.shim_new())
        self.out = (ctypes.c_long * (2 * ROOM))()

    def use(self, world):
        """Number the generations of each slot, and work out the changes of each operation."""
        self.w = world
        self.nodes, self.of = {}, []
        for s in range(NSLOT):
            for image in world.im[s]:
                self.node(s, image.gen)
        self.changes = [self.of_operation(t) for t in range(world.n + 1)]

    def node(self, s, gen):
        if (s, gen) not in self.nodes:
            self.nodes[s, gen] = len(self.of)
            self.of.append((s, gen))
        return self.nodes[s, gen]

    def image(self, s, t):
        return max((x for x in self.w.im[s] if x.t <= t), key=lambda x: x.t)

    def of_operation(self, t):
        """Calls for the changes of operation t: departures first, then claims, then the halves of R8."""
        w, departures, claims, halves = self.w, [], [], []
        if not t:
            return []
        for s in sorted(w.chg[t]):
            new = self.image(s, t)
            old = self.image(s, t - 1)
            node = self.node(s, new.gen)
            names = old.names if old.gen == new.gen else {}
            if new.t != t:
                claims.append(("touch", node, t))
                continue
            for k, was in names.items():
                if new.names.get(k) != was:
                    how = next(h for lk, x, g, u, h in w.left if (lk, x, g, u) == (k, s, new.gen, t))
                    other = next((self.node(m, mg) for ok, m, mg, v, u, _ in w.over if (ok, v, u) == (k, s, t)), -1)
                    departures.append((HOW[how], t, was, node, other, self.node(k.p, k.g), ord(k.n)))
            for k, q in new.names.items():
                if names.get(k) != q:
                    other = next((self.node(v, self.image(v, t).gen) for ok, m, _, v, u, _ in w.over
                                  if (ok, m, u) == (k, s, t)), -1)
                    claims.append((CLAIM, t, 0, node, other, self.node(k.p, k.g), ord(k.n)))
            if new.intent:
                _, peer, gen, k, q = new.intent
                claims.append((INTENT, q, 0, node, self.node(peer, gen), self.node(k.p, k.g), ord(k.n)))
                halves.append((PEER, t, 0, self.node(peer, gen), node, -1, 0))
            claims.append(("touch", node, t))
        return departures + claims + halves

    def apply(self, t):
        for change in self.changes[t]:
            if change[0] == "touch":
                self.c.shim_touch(self.shim, change[1], change[2])
            else:
                self.c.shim_change(self.shim, *change)

    def durable(self, slots, pc):
        for s in range(NSLOT):
            image = self.w.im[s][slots[s][0]]
            if image.t > pc:
                continue
            for gen in {x.gen for x in self.w.im[s] if x.t <= image.t}:
                self.c.shim_durable(self.shim, self.node(s, gen), self.w.n + 1 if gen != image.gen else image.t)

    def bring(self, pc, slots, early):
        """State (pc, slots); early: durable images as soon as they may be, else all at the end."""
        self.c.shim_reset(self.shim)
        for number, (s, gen) in enumerate(self.of):
            first = self.w.im[s][0]
            old = first.gen == gen
            names = len(first.names) if old else 0
            kinds = {x.kind for x in self.w.im[s] if x.gen == gen}
            self.c.shim_slot(self.shim, number, self.w.born.get((s, gen), 0), names + (s == ROOT), "d" in kinds)
        for t in range(1, pc + 1):
            self.apply(t)
            if early or t == pc:
                self.durable(slots, t)

    def told(self, count):
        return {(self.of[self.out[2 * i]][0], self.out[2 * i + 1]) for i in range(count)}

    def waits(self, s, pc):
        node = self.node(s, self.image(s, pc).gen)
        return self.told(self.c.shim_waits(self.shim, node, self.out, ROOM))

    def first(self, pc):
        """R4(c) of operation pc + 1, which is undone again."""
        before, found = self.c.shim_count(self.shim), set()
        t = pc + 1
        self.apply(t)
        for s in self.w.chg[t]:
            node = self.node(s, self.image(s, t).gen)
            found |= self.told(self.c.shim_first(self.shim, node, t, self.out, ROOM))
        self.c.shim_undo(self.shim, before)
        return found


class Compare(Explorer):
    """Explore, and instead of crashing compare."""

    def __init__(self, world, rules):
        super().__init__(world, newest=True)
        self.rules = rules
        self.compared = 0
        self.seen = set()
        rules.use(world)

    def crash(self, st):
        w, (pc, _, slots, _, _) = self.w, st
        key = (pc, tuple(i for i, _ in slots))
        if key in self.seen:
            return
        self.seen.add(key)
        for early in (False, True):
            self.rules.bring(pc, slots, early)
            for s in range(NSLOT):
                last = max(i for i, x in enumerate(w.im[s]) if x.t <= pc)
                if slots[s][0] == last:
                    continue
                want = {r for r in w.waits(s, last, pc, slots[s][0]) if not self.ok(slots, r)}
                self.same(f"slot {s} waits", self.rules.waits(s, pc), want, st)
            # A slot is used again only when its FREE image is durable.
            if pc < w.n and all(self.ok(slots, r) for r in w.pre[pc + 1]):
                want = {r for r in w.rule4c(pc + 1, key[1]) if not self.ok(slots, r)}
                self.same("first", self.rules.first(pc), want, st)

    def same(self, what, got, want, st):
        self.compared += 1
        if got != want:
            self.report("differs", f"{what}: C {sorted(got)}, model {sorted(want)}", st)


def job(a):
    library, setup, ops = a
    world = build(setup, ops, off=("R4c-chain",))
    if world is None:
        return a, {}, 0
    if not hasattr(job, "rules"):
        job.rules = Rules(library)
    explorer = Compare(world, job.rules).run()
    return a, explorer.bad, explorer.compared


def main(library, count=3000, seed=20260101):
    jobs = [(library, s, tuple(o)) for s, o, _ in DIRECTED.values()]
    jobs += [(library, s, o) for s in ("S1", "S2") for k in (1, 2) for o in itertools.product(OPS, repeat=k)]
    rnd = random.Random(seed)
    jobs += [(library, s, randseq(rnd.random(), rnd.choice((3, 4)), s)) for s in ("S1", "S2") for _ in range(count // 2)]
    compared = 0
    with Pool() as pool:
        for (_, setup, ops), bad, n in pool.imap(job, jobs, 8):
            compared += n
            for kind, (message, run) in bad.items():
                print(f"{kind}: {message}\n  {setup}: {list(ops)}\n  run: {run}")
                return 1
    print(f"seed {seed}: {compared} answers compared")
    return 0 if compared else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
