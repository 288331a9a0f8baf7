# SPDX-License-Identifier: GPL-2.0
"""protocol.py - executable form of the uhsfs commit protocol (DESIGN-FS.md), part 1: truth and rules.

A World is one operation sequence.  Running the operations in memory is deterministic, so everything that is *not*
timing is computed once: image histories of slots, data versions, contents of data blocks, directory bindings after each
operation.  What remains nondeterministic is which home holds which version, and that is the explorer's state
(check.py).  "Durable" is the only persistence in that state: the cache being volatile, a written but not durable home
may hold any version between its last durable and its last written one, and every one of those is reached by a run in
which just that version became durable.  Guards look at durable versions only, and these only grow, so exploring
"write = becomes durable, at any permitted moment" visits exactly the crash states of the volatile cache (the reduction
to downward-closed sets of persisted writes).

Rules are methods that return requirements: (slot, t) "the home of slot holds an image of operation >= t" and
('d', slot, i) "... data version >= i".   Switches: OFF names one rule to leave out (ablation); LIT names one sentence of
DESIGN-FS.md to take literally instead of with the correction proposed in README.md.
"""
from collections import namedtuple

ROOT = 0
NSLOT = 9
KEY = namedtuple('KEY', 'p g n')                       # parent slot, parent generation, name (name = its own cookie)
# Slot image. kind: f file, d directory, w whiteout, - FREE.  names: {KEY: name_seq}.  nseq: newest name_seq ever drawn
# for this slot (survives losing all names).  intent: (op, peer, peer generation, KEY, name_seq).
Im = namedtuple('Im', 't ep gen kind names dep intent nseq')
Dv = namedtuple('Dv', 't ep gen size blocks')          # data version: size in half blocks, blocks ((block, version), ..)
Bv = namedtuple('Bv', 't slot gen data need')          # block content: two halves; need = R3 requirement before writing

# Rules that can be switched off (each must then be caught) and sentences that can be taken literally.
OFF_ALL = ['R0', 'R0victim', 'R1data', 'R1tail', 'R3reuse', 'R3slot', 'R3bitmap', 'R4a', 'R4b-data', 'R4b-victim', 'R4b-pass', 'R4b-keep',
           'R4c', 'R5', 'R6', 'R6order', 'R7anc', 'R7dir', 'R8intent', 'R8order', 'R8once', 'seed', 'departed', 'name_seq',
           'ckpt-slots', 'ckpt-buckets', 'N1', 'N1+R7anc', 'N2', 'step7']
LIT_ALL = ['scan', 'R4a-replaced', 'R4a-exchange', 'R5-freed', 'R5-dead', 'step4-once', 'step2-nameseq', 'departed-any',
           'R8-fresh', 'R8-data', 'R8-image', 'N1-anc', 'pass-self', 'R0-own', 'R8-peer', 'R3-late', 'N2-replaced', 'keep-names']


class Invalid(Exception):
    """The operation fails in memory (ENOENT, EEXIST, ...): the sequence is of no interest."""


class World:
    def __init__(self, ops, setup, off=(), lit=(), nbuckets=1):
        self.off, self.lit, self.nb = frozenset(off), frozenset(lit), nbuckets
        self.ops, self.n = ops, len(ops)
        self.im = [[] for _ in range(NSLOT)]
        self.dv = [[] for _ in range(NSLOT)]
        self.bh = []                                   # block -> [Bv]
        self.cur = [None] * NSLOT                      # newest image
        self.freed = []                                # blocks free in memory, with the requirement for reuse
        self.freed_log = []                            # (block, operation that freed it)
        self.deadslots = []
        self.bind, self.names, self.bind_hist, self.names_hist, self.size_hist = {}, {}, [], [], []
        self.left = []                                 # (KEY, slot, gen, op, how)
        self.over = []                                 # rename M over V: (KEY, M, Mgen, V, op, dv index of M)
        self.took = []                                 # names taken over from another inode: (KEY, slot, gen, op), oracle
        self.chg, self.bchg = [set()], [set()]         # per op: slots changed, buckets changed
        self.pre, self.post = [[]], [[]]               # per op: requirements before it runs / before it returns
        self.epoch, self.ep_of, self.E_after = 1, [1], [0]
        self.ckpt = None
        self.pins = [None]
        self.born = {}                                 # (slot, gen) -> op that created it
        self.open = set()
        self.ckpt_t = 0                                # begin op of the last completed checkpoint
        self.wait_cache = {}
        self.load(setup)
        self.snap()
        self.pin_names, self.pin_data, self.pin_ino = {}, {}, {}
        self.pins[0] = ({}, {}, {})
        for t, op in enumerate(ops, 1):
            self.t = t
            self.C, self.B, self.PRE, self.POST = set(), set(), [], []
            self.E_after.append(self.E_after[-1])
            getattr(self, 'op_' + op[0])(*op[1:])
            self.ep_of.append(self.ep_of_now)
            self.chg.append(self.C), self.bchg.append(self.B)
            self.snap()
            self.pins.append((dict(self.pin_names), dict(self.pin_data), dict(self.pin_ino)))
            self.pre.append(self.PRE), self.post.append(self.POST)

    # ---- in-memory state --------------------------------------------------------------------------------------------
    def load(self, setup):
        """setup: {slot: (kind, [(parent slot, name)], size)}: durable and checkpointed in epoch 0."""
        self.t, self.ep_of_now = 0, 0
        for s in range(NSLOT):
            kind, names, size = setup.get(s, ('-', [], 0))
            gen = 1 if kind != '-' else 0
            nm = {KEY(p, 1, n): 0 for p, n in names}
            self.cur[s] = Im(0, 0, gen, kind, nm, frozenset(), None, 0)
            self.im[s].append(self.cur[s])
            blocks = []
            for i in range((size + 1) // 2):
                self.bh.append([Bv(0, s, gen, ((s, gen, 0, i), (s, gen, 0, i)), None)])
                blocks.append((len(self.bh) - 1, 0))
            self.dv[s].append(Dv(0, 0, gen, size, tuple(blocks)))
            if kind != '-':
                self.born[s, gen] = 0
            for k in nm:
                self.bind[k] = (s, gen)
        self.ep_of_now = 1

    def snap(self):
        self.bind_hist.append(dict(self.bind))
        self.names_hist.append({(s, im.gen): frozenset(im.names) for s, im in enumerate(self.cur) if im.kind != '-'})
        self.size_hist.append([len(self.dv[s]) - 1 for s in range(NSLOT)])

    def has_name(self, s, gen, j):
        return bool(self.names_hist[j].get((s, gen)))

    def key(self, p, n):
        if self.cur[p].kind != 'd' or not (p == ROOT or self.cur[p].names):
            raise Invalid
        return KEY(p, self.cur[p].gen, n)

    def get(self, k):
        if k not in self.bind:
            raise Invalid
        return self.bind[k][0]

    def bucket(self, k):
        return (k.p, k.g, sum(map(ord, k.n)) % self.nb)

    def image(self, s, add=(), drop=(), **kw):
        """New image of slot s for the running operation."""
        o = self.cur[s]
        names = dict(o.names)
        # `departed`: entries stay until a checkpoint that began after the removal has completed (it holds the bucket).
        dep = {d for d in o.dep if d[1] > self.ckpt_t}
        for k in drop:
            del names[k]
            dep.add((k, self.t))
            self.bind.pop(k)
            self.B.add(self.bucket(k))
        for k in add:
            names[k] = self.t
            dep = {d for d in dep if d[0] != k}
            self.bind[k] = (s, kw.get('gen', o.gen))
            self.B.add(self.bucket(k))
        kw.setdefault('intent', None)
        im = o._replace(t=self.t, ep=self.ep_of_now, names=names, dep=frozenset(dep),
                        nseq=self.t if add or drop else o.nseq, **kw)
        if self.im[s][-1].t == self.t:
            self.im[s].pop()
        self.im[s].append(im)
        self.cur[s] = im
        self.C.add(s)
        return im

    def data(self, s, size, blocks):
        self.dv[s].append(Dv(self.t, self.ep_of_now, self.cur[s].gen, size, tuple(blocks)))
        self.C.add(s)

    def left_name(self, k, s, how):
        self.left.append((k, s, self.cur[s].gen, self.t, how))

    def free_blocks(self, s, blocks, need):
        for b, _ in blocks:
            self.freed.append((b, need))
            self.freed_log.append((b, self.t))

    def remove(self, s, k, how):
        """Slot s loses name k; without names it is freed (or an orphan while open)."""
        self.left_name(k, s, how)
        im = self.image(s, drop=[k])
        if not im.names and s not in self.open:
            self.free_slot(s)

    def free_slot(self, s):
        need = (s, self.t)
        self.free_blocks(s, self.dv[s][-1].blocks, need)
        self.image(s, kind='-')
        self.dv[s].append(Dv(self.t, self.ep_of_now, self.cur[s].gen, 0, ()))
        self.deadslots.append(s)

    def new_slot(self, reuse, kind):
        """A fresh slot, or (reuse) the newest dead one: R3 'slot-in-use bits follow their slot'."""
        if reuse:
            if not self.deadslots:
                raise Invalid
            s = self.deadslots.pop()
            if 'R3slot' not in self.off:
                self.PRE.append((s, self.cur[s].t))
        else:
            fresh = [s for s in range(NSLOT) if len(self.im[s]) == 1 and self.cur[s].kind == '-']
            if not fresh:
                raise Invalid
            s = fresh[0]
        gen = self.cur[s].gen + 1
        self.born[s, gen] = self.t
        self.cur[s] = self.cur[s]._replace(gen=gen, kind=kind, names={})
        self.dv[s].append(Dv(self.t, self.ep_of_now, gen, 0, ()))
        return s

    # ---- operations -------------------------------------------------------------------------------------------------
    def op_create(self, p, n, reuse=False, kind='f'):
        k = self.key(p, n)
        if k in self.bind:
            raise Invalid
        s = self.new_slot(reuse, kind)
        self.image(s, add=[k], kind=kind, gen=self.cur[s].gen)

    def op_mkdir(self, p, n, reuse=False):
        self.op_create(p, n, reuse, 'd')

    def op_link(self, p, n, p2, n2):
        s, k2 = self.get(self.key(p, n)), self.key(p2, n2)
        if k2 in self.bind or self.cur[s].kind == 'd':
            raise Invalid
        self.image(s, add=[k2])

    def op_unlink(self, p, n, keep_open=False):
        k = self.key(p, n)
        s = self.get(k)
        if self.cur[s].kind == 'd':
            raise Invalid
        if keep_open:
            self.open.add(s)
        self.remove(s, k, 'unlink')

    def op_close(self):
        orphans = [s for s in self.open if not self.cur[s].names]
        if not orphans:
            raise Invalid
        for s in orphans:
            self.open.discard(s)
            self.free_slot(s)

    def empty(self, s):
        return not any(k.p == s and k.g == self.cur[s].gen for k in self.bind)

    def op_rmdir(self, p, n, keep_open=False):
        k = self.key(p, n)
        s = self.get(k)
        if self.cur[s].kind != 'd' or not self.empty(s):
            raise Invalid
        if keep_open:
            self.open.add(s)
        self.remove(s, k, 'unlink')

    def below(self, s, top):
        while s != ROOT:
            if s == top:
                return True
            s = next(iter(self.cur[s].names)).p
        return False

    def op_rename(self, p, n, p2, n2, whiteout=False):
        k, k2 = self.key(p, n), self.key(p2, n2)
        s, v = self.get(k), self.bind.get(k2, (None,))[0]
        isdir = self.cur[s].kind == 'd'
        if k == k2 or v == s or (isdir and self.below(p2, s)):
            raise Invalid
        if v is not None:
            if (self.cur[v].kind == 'd') != isdir or (isdir and not self.empty(v)):
                raise Invalid
            # R4(b): V is committed first if names that it keeps are not durable: with its current image.
            if len(self.cur[v].names) > 1 and 'R4b-keep' not in self.off:
                if 'keep-names' in self.lit:           # literal: look only at names it *gains*
                    self.PRE.append((v, max(q for x, q in self.cur[v].names.items() if x != k2)))
                else:
                    self.PRE.append((v, self.cur[v].t))
            self.over.append((k2, s, self.cur[s].gen, v, self.t, len(self.dv[s]) - 1))
            self.took.append((k2, s, self.cur[s].gen, self.t))
            self.remove(v, k2, 'replaced')
        self.left_name(k, s, 'move')
        intent = None
        if whiteout:
            w = self.new_slot(False, 'w')
            intent = ('whiteout', w, self.cur[w].gen, k, self.t)
            if 'R8intent' in self.off:
                intent = None
        self.image(s, add=[k2], drop=[k], intent=intent)
        if whiteout:
            self.image(w, add=[k], kind='w', gen=self.cur[w].gen)
            if 'R8once' not in self.off:
                self.POST += [(s, self.t), (w, self.t)]
        if isdir and k.p != k2.p and 'R6' not in self.off:
            self.POST.append((s, self.t))              # R6: commits at once

    def op_whiteout(self, p, n, p2, n2):
        self.op_rename(p, n, p2, n2, True)

    def op_exchange(self, p, n, p2, n2):
        k, k2 = self.key(p, n), self.key(p2, n2)
        a, b = self.get(k), self.get(k2)
        if a == b or any(self.cur[x].kind == 'd' and self.below(y, x) for x, y in ((a, p2), (b, p))):
            raise Invalid
        for s in (a, b):                               # both are durable as they are before the first half is written
            if 'R8-image' in self.lit:                 # only as much as "the inode exists durably"
                self.PRE.append((s, self.born[s, self.cur[s].gen]))
            elif 'R8-fresh' not in self.lit:
                self.PRE.append((s, self.cur[s].t))
            if not {'R8-data', 'R8-fresh'} & self.lit:
                self.PRE.append(('d', s, len(self.dv[s]) - 1))
        self.took += [(k2, a, self.cur[a].gen, self.t), (k, b, self.cur[b].gen, self.t)]
        self.left_name(k, a, 'xchg'), self.left_name(k2, b, 'xchg')
        intent = ('exchange', b, self.cur[b].gen, k, self.t)
        self.bind.pop(k2)
        ia = self.image(a, drop=[k])
        ia = self.image(a, add=[k2], intent=None if 'R8intent' in self.off else intent)
        self.bind[k2] = (b, self.cur[b].gen)
        self.image(b, drop=[k2])
        self.image(b, add=[k])
        self.bind[k2] = (a, ia.gen)
        if 'R8once' not in self.off:
            self.POST += [(a, self.t), (b, self.t)]

    def op_append(self, p, n, reuse=False):
        s = self.get(self.key(p, n))
        d = self.dv[s][-1]
        if self.cur[s].kind != 'f' or d.size % 2:
            raise Invalid
        need = None
        if reuse:
            if not self.freed:
                raise Invalid
            b, need = self.freed.pop()
            if 'R3reuse' in self.off:
                need = None
            elif 'R3-late' not in self.lit:            # reservation counts durably free blocks only (see README)
                self.PRE.append(need)
        else:
            b = len(self.bh)
            self.bh.append([Bv(0, -1, 0, ('stale', 'stale'), None)])
        g = self.cur[s].gen
        c = (s, g, self.t, len(d.blocks))
        self.bh[b].append(Bv(self.t, s, g, (c, c), need))
        self.data(s, d.size + 2, d.blocks + ((b, len(self.bh[b]) - 1),))

    def op_over(self, p, n):
        """Overwrite block 0 in place."""
        s = self.get(self.key(p, n))
        d = self.dv[s][-1]
        if not d.blocks or d.size < 2:
            raise Invalid
        b, g = d.blocks[0][0], self.cur[s].gen
        c = (s, g, self.t, 0)
        self.bh[b].append(Bv(self.t, s, g, (c, c), self.bh[b][-1].need))
        self.data(s, d.size, ((b, len(self.bh[b]) - 1),) + d.blocks[1:])

    def op_trunc(self, p, n, size):
        """size 0: frees; 1: half a block, the tail is zeroed in the page cache; 2 after 1: extends without writing."""
        s = self.get(self.key(p, n))
        d = self.dv[s][-1]
        if self.cur[s].kind != 'f' or d.size == size or not d.blocks:
            raise Invalid
        if size < d.size:
            keep = d.blocks[:(size + 1) // 2]
            self.data(s, size, keep)
            self.free_blocks(s, d.blocks[len(keep):], ('d', s, len(self.dv[s]) - 1))
            if size == 1:
                b = keep[0][0]
                o = self.bh[b][-1]
                self.bh[b].append(Bv(self.t, s, o.gen, (o.data[0], 0), o.need))
        else:
            b, v = d.blocks[0]
            v = v if 'R1tail' in self.off else len(self.bh[b]) - 1
            self.data(s, size, ((b, v),) + d.blocks[1:])

    # ---- synchronisation: what a call promises (pins, for the oracle) and what it commits (post, R7) ----------------
    def ancestors(self, s):
        while s != ROOT and self.cur[s].names:
            s = min(self.cur[s].names).p
            yield s

    def commit(self, s):
        self.POST += [(s, self.cur[s].t), ('d', s, len(self.dv[s]) - 1)]
        if 'R7anc' not in self.off:                    # R7: never-durable ancestors; see waits() for "what it waits for"
            for k in self.cur[s].names:
                for a in (k.p,) + tuple(self.ancestors(k.p)):
                    self.POST.append((a, self.born[a, self.cur[a].gen]))

    def op_fsync(self, p, n):
        s = self.get(self.key(p, n))
        self.commit(s)
        self.pin_ino[s, self.cur[s].gen] = self.pin_data[s, self.cur[s].gen] = self.t
        for k in self.cur[s].names:
            self.pin_names[k] = self.t

    def op_fsyncdir(self, s):
        if self.cur[s].kind != 'd' or (s != ROOT and not self.cur[s].names):
            raise Invalid
        self.commit(s)
        g = self.cur[s].gen
        for k in {k for h in self.bind_hist for k in h if k.p == s and k.g == g}:
            self.pin_names[k] = self.t
        for k in self.cur[s].names:
            self.pin_names[k] = self.t
        self.pin_ino[s, g] = self.t
        if 'R7dir' in self.off:
            return
        for c in range(NSLOT):                         # children added or departed: the image in which that happened
            ts = [x.t for x in self.im[c] if any(k.p == s and k.g == g for k in x.names)]
            ts += [u for k, x, _, u, _ in self.left if x == c and k.p == s and k.g == g]
            if ts and max(ts) > 0:
                self.POST.append((c, max(ts)))

    def op_ckb(self):
        """Checkpoint begins: a new epoch opens."""
        if self.ckpt:
            raise Invalid
        self.ckpt = (self.t, self.epoch)
        self.epoch += 1
        self.ep_of_now = self.epoch

    def op_cke(self):
        """Checkpoint ends: slots changed in <= e and buckets are durable, then the superblock holds e."""
        if not self.ckpt:
            raise Invalid
        tb, e = self.ckpt
        self.ckpt = None
        self.ckpt_slots(tb)
        self.E_after[-1] = e
        self.ckpt_t = tb

    def ckpt_slots(self, tb, data=False):
        if 'ckpt-slots' in self.off:
            return
        for s in range(NSLOT):
            ts = [x.t for x in self.im[s] if x.t <= tb]
            self.POST.append((s, ts[-1]))
            self.POST.append(('d', s, max(i for i, d in enumerate(self.dv[s]) if d.t <= tb)))

    def op_sync(self):
        self.op_ckb()
        self.op_cke()
        for k in {k for h in self.bind_hist + [self.bind] for k in h}:
            self.pin_names[k] = self.t
        for s, im in enumerate(self.cur):
            if im.kind != '-':
                self.pin_ino[s, im.gen] = self.pin_data[s, im.gen] = self.t

    # ---- the rules: what the image of operation t of slot s waits for ------------------------------------------------
    def waits(self, s, ii, now, disk):
        """Requirements on other homes before image ii of slot s may replace image `disk`, seen from operation `now`."""
        ck = (s, ii, now, disk)
        if ck in self.wait_cache:
            return self.wait_cache[ck]
        off, lit, im, out = self.off, self.lit, self.im[s][ii], []
        if 'R4a' not in off:                           # R4(a): inodes that left a name claimed here and still have one
            claims = list(im.names.items())
            if im.intent and 'R8-peer' not in lit:     # the intent claims a name for its peer
                claims.append(im.intent[3:5])
            for k, q in claims:
                for lk, x, xg, u, how in self.left:
                    if lk != k or x == s or u > q or u > now:
                        continue
                    if how == 'replaced' and 'R4a-replaced' not in lit:
                        continue                       # (b) orders V after M
                    if how == 'xchg' and u == q and 'R4a-exchange' not in lit:
                        continue                       # R8 orders the two halves
                    if self.has_name(x, xg, now):
                        out.append((x, u))
        for k, m, mg, v, u, d in self.over:            # R4(b)
            if u > now:
                continue
            # Once its FREE image is durable, so was M's: the slot's next generation is not concerned.
            if v == s and im.t >= u and im.gen == self.gen_at(v, u) and 'R4b-victim' not in off:
                r = self.taker(k, m, mg, u, now)
                if r and (r[0] != s or 'pass-self' not in lit):
                    out.append(r)                      # the taker may be V itself: then only its newer image will do
            if m == s and im.t > u and im.names.get(k) != u and 'N2' not in off:
                out.append((v, u))                     # N2 (new): M leaves the name after V has durably left it
            if m == s and im.gen == mg and im.t >= u and 'R5' not in off and self.is_dir(m, mg):
                out += self.departures(v, u, now)      # R5: replaced only after its departures
        if 'N2' not in off and 'N2-replaced' not in lit:   # N2: so does whoever loses a name that it claims on disk
            for k, q in self.im[s][disk].names.items():
                if im.names.get(k) != q or im.gen != self.im[s][disk].gen:
                    out += [(x, u) for lk, x, _, u, _ in self.left if lk == k and x != s and u <= q]
        if im.kind == '-' or (im.kind == 'd' and not im.names and s != ROOT and 'R5-freed' not in lit):
            if 'R5' not in off and ii and any(x.kind == 'd' and x.gen == im.gen for x in self.im[s]):
                out += self.departures(s, im.t, now)
        if im.kind != '-' and 'N1' not in off:         # N1 (new): parents exist durably before a name in them does
            for k in im.names:
                p = k.p
                b = self.born[p, k.g]
                if b and not ('R6order' in off and im.kind == 'd') and ('N1-anc' not in lit or im.kind == 'd'):
                    out.append((p, b))
        for j in range(1, now + 1):                    # R8: the slot with the intent first
            if self.ops[j - 1][0] in ('exchange', 'whiteout') and 'R8order' not in off and j <= im.t:
                for a in self.chg[j] if j < len(self.chg) else self.C:
                    x = next((x for x in self.im[a] if x.t == j and x.intent), None)
                    if x and x.intent[1] == s:
                        out.append((a, j))
        out = [r for r in out if r[0] != s or r[1] > im.t]
        self.wait_cache[ck] = out
        return out

    def gen_at(self, s, t):
        return next(x.gen for x in reversed(self.im[s]) if x.t <= t)

    def is_dir(self, s, g):
        return any(x.kind == 'd' and x.gen == g for x in self.im[s])

    def taker(self, k, m, mg, u, now):
        """R4(b): if M dies, its waiters pass to the taker of the name (M replaced there in turn)."""
        if self.has_name(m, mg, now):
            return (m, u)
        if 'R4b-pass' in self.off:
            return None
        for k2, m2, mg2, v2, u2, _ in self.over:
            if k2 == k and v2 == m and u < u2 <= now:
                return self.taker(k, m2, mg2, u2, now)
        return None

    def departures(self, d, t, now):
        g = next(x.gen for x in reversed(self.im[d]) if x.t <= t)
        return [(x, u) for k, x, xg, u, _ in self.left
                if k.p == d and k.g == g and u <= t and x != d
                and ('R5-dead' not in self.lit or self.has_name(x, xg, now))]

    def min_dv(self, s, ii):
        """R4(b): M's image waits for the data M had.  Returns the least data version image ii may carry."""
        im = self.im[s][ii]
        lo = next(i for i, d in enumerate(self.dv[s]) if d.gen == im.gen and (im.kind != '-' or d.t == im.t))
        if 'R4b-data' not in self.off:
            for k, m, mg, v, u, d in self.over:
                if m == s and mg == im.gen and im.t >= u:
                    lo = max(lo, d)
        return lo

    def rule4c(self, t, disk):
        """R4(c), evaluated when operation t starts (disk: image index per slot): if the operation makes an image that
        is waited for wait itself, or wait for one that waits, what that one waits for is committed first."""
        if 'R4c' in self.off:
            return ()
        ck = ('c', t, disk)
        if ck not in self.wait_cache:
            last = [max(i for i, x in enumerate(h) if x.t <= t) for h in self.im]
            pend = [[r for r in self.waits(s, last[s], t, disk[s]) if self.im[r[0]][disk[r[0]]].t < r[1]]
                    if disk[s] != last[s] else [] for s in range(NSLOT)]
            waited = {x for w in pend for x, _ in w}
            add = [r for s in self.chg[t] if s in waited for r in pend[s]]
            if 'R4c-chain' not in self.off:            # this half only keeps chains short (see README)
                add += [r for s in self.chg[t] for x, _ in pend[s] for r in pend[x]]
            self.wait_cache[ck] = [r for r in add if r[1] < t]
        return self.wait_cache[ck]
