#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""check.py - explorer, oracle, scenarios, ablations.  `python3 check.py all` runs everything; see README.md."""
import itertools
import random
import sys
import time
from multiprocessing import Pool
from protocol import World, Invalid, ROOT, NSLOT, OFF_ALL, LIT_ALL
from recover import Rec, Disk, recover, listing, partial

SETUPS = {
    'S1': {0: ('d', [(0, '/')], 0), 1: ('f', [(0, 'a')], 2), 2: ('f', [(0, 'b')], 2), 3: ('d', [(0, 'p')], 0),
           4: ('d', [(0, 'q')], 0), 5: ('f', [(3, 'c')], 2)},
    'S2': {0: ('d', [(0, '/')], 0), 1: ('f', [(0, 'a'), (0, 'b')], 2), 2: ('f', [(0, 't')], 2), 3: ('d', [(0, 'p')], 0),
           4: ('d', [(3, 'q')], 0), 5: ('f', [(4, 'c')], 2)},
    'S3': {0: ('d', [(0, '/')], 0), 1: ('f', [(0, 'a')], 2), 3: ('d', [(0, 'p')], 0)},
}
for _s in SETUPS.values():                              # the root has no name
    _s[0] = ('d', [], 0)

N = 6                                                   # the first fresh slot in S1 and S2 (2 in S3)
OPS = [('create', 0, 't'), ('create', 0, 't', True), ('create', 0, 'a'), ('create', 0, 'a', True), ('create', 3, 'c'), ('create', N, 'x'),
       ('mkdir', 0, 't'), ('mkdir', 0, 'a'), ('mkdir', 0, 't', True), ('mkdir', N, 'y'),
       ('link', 0, 'a', 0, 't'), ('link', 0, 'b', 4, 'c'), ('link', 0, 'a', N, 'x'),
       ('unlink', 0, 'a'), ('unlink', 0, 'b'), ('unlink', 0, 't'), ('unlink', 3, 'c'), ('unlink', 4, 'c'),
       ('unlink', 0, 'a', True), ('close',), ('rmdir', 0, 'p'), ('rmdir', 0, 'p', True), ('rmdir', 0, 'q'), ('rmdir', 3, 'q'),
       ('rename', 0, 'a', 0, 't'), ('rename', 0, 'a', 0, 'b'), ('rename', 0, 't', 0, 'a'), ('rename', 0, 'b', 0, 'a'), ('rename', 0, 't', 0, 'b'),
       ('rename', 0, 'b', 0, 't'), ('rename', 3, 'c', 4, 'c'), ('rename', 4, 'c', 3, 'c'), ('rename', 3, 'c', 0, 'a'), ('rename', 0, 'a', N, 'x'),
       ('rename', 0, 'p', 4, 'p'), ('rename', 0, 'q', 3, 'q'), ('rename', 3, 'q', 0, 'q'), ('rename', 0, 'p', 0, 't'), ('rename', 0, 'p', 0, 'q'),
       ('rename', 0, 't', 0, 'q'), ('rename', 0, 'p', N, 'p'), ('rename', 0, 't', 0, 'p'),
       ('exchange', 0, 'a', 0, 'b'), ('exchange', 0, 't', 0, 'a'), ('exchange', 0, 'a', 0, 't'), ('exchange', 0, 'a', 3, 'c'),
       ('exchange', 0, 'p', 0, 'q'), ('exchange', 0, 'a', 0, 'p'),
       ('whiteout', 0, 'a', 0, 't'), ('whiteout', 0, 'a', 0, 'b'), ('whiteout', 0, 'p', 0, 't'), ('whiteout', 0, 'p', 4, 'p'), ('whiteout', 0, 'p', 0, 'q'),
       ('append', 0, 'a'), ('append', 0, 't'), ('append', 0, 't', True), ('append', 0, 'b', True), ('over', 0, 'a'),
       ('trunc', 0, 'a', 0), ('trunc', 0, 'a', 1), ('trunc', 0, 'a', 2),
       ('fsync', 0, 'a'), ('fsync', 0, 'b'), ('fsync', 0, 't'), ('fsync', 4, 'c'), ('fsync', N, 'x'), ('fsyncdir', 0), ('fsyncdir', 3), ('fsyncdir', 4),
       ('sync',), ('ckb',), ('cke',)]


class Explorer:
    """All reachable states of one World.  State: (pc, phase, slots ((image, data)..), block versions, intent masks)."""

    def __init__(self, w, newest=False, chunk_all=False, crash_recovery=False, limit=200000):
        self.w, self.newest, self.chunk_all, self.cr, self.limit = w, newest, chunk_all, crash_recovery, limit
        self.bad, self.states, self.crashes = {}, 0, 0
        self.rmemo, self.omemo = {}, set()
        self.bits = [sum(1 << s for s in c) for c in w.chg]

    def ok(self, slots, r):
        if r[0] == 'd':
            return slots[r[1]][1] >= r[2]
        return self.w.im[r[0]][slots[r[0]][0]].t >= r[1]

    def mark(self, masks, pc, E, j, s=None):
        """R0: intent bits that must be durable before a home holds operation j: those of all operations up to j."""
        w = self.w
        if 'R0' in w.off:
            return masks
        m = list(masks)
        for i in range(j if 'R0-own' in w.lit or 'R0victim' in w.off else 1, j + 1):
            if w.ep_of[i] > E:
                m[w.ep_of[i]] |= self.bits[i] if 'R0victim' not in w.off or s is None else 1 << s
        return tuple(m)

    def writes(self, st):
        """Every home write that the rules permit now."""
        w = self.w
        pc, ph, slots, blocks, masks = st
        E = w.E_after[pc - (ph == 1)]
        for s in range(NSLOT):
            ii, di = slots[s]
            last = max(i for i, x in enumerate(w.im[s]) if x.t <= pc)
            dlast = w.size_hist[pc][s]
            if (ii, di) == (last, dlast):
                continue
            for i2 in range(last if self.newest else ii, last + 1):
                if i2 != ii and not all(self.ok(slots, r) for r in w.waits(s, i2, pc, ii)):
                    continue
                hi = dlast if i2 == last else max(i for i, d in enumerate(w.dv[s]) if d.t < w.im[s][i2 + 1].t or d.t == w.im[s][i2].t)
                for d2 in range(max(di, w.min_dv(s, i2)), hi + 1):
                    dv = w.dv[s][d2]
                    if (i2, d2) == (ii, di) or dv.gen != w.im[s][i2].gen:
                        continue
                    if 'R1data' not in w.off and any(blocks[b] < v for b, v in dv.blocks):
                        continue
                    m, top = masks, max(w.im[s][i2].t, dv.t)
                    for j in range(1, min(top, pc) + 1):
                        if s in w.chg[j]:
                            m = self.mark(m, pc, E, j, s)
                    yield ('slot', s, w.im[s][i2].t, d2), (pc, ph, slots[:s] + ((i2, d2),) + slots[s + 1:], blocks, m)
        for b, v in enumerate(blocks):
            for v2 in range(v + 1, len(w.bh[b])):
                bv = w.bh[b][v2]
                if bv.t <= pc and not (bv.need and not self.ok(slots, bv.need)):
                    if not self.newest or v2 + 1 == len(w.bh[b]) or w.bh[b][v2 + 1].t > pc:
                        yield ('block', b, v2), (pc, ph, slots, blocks[:b] + (v2,) + blocks[b + 1:], masks)

    def steps(self, st):
        w = self.w
        pc, ph, slots, blocks, masks = st
        if ph == 0 and pc < w.n and all(self.ok(slots, r) for r in (*w.pre[pc + 1], *w.rule4c(pc + 1, tuple(i for i, _ in slots)))):
            yield ('op',) + w.ops[pc], (pc + 1, 1 if w.post[pc + 1] or w.E_after[pc + 1] != w.E_after[pc] else 0, slots, blocks, masks)
        if ph == 1 and all(self.ok(slots, r) for r in w.post[pc]):
            E = w.E_after[pc]
            if E != w.E_after[pc - 1]:                  # superblock e: map e is retired; map e+1 was seeded with orphans
                tb = max(j for j in range(1, pc + 1) if w.ops[j - 1][0] in ('ckb', 'sync'))
                seed = 0 if 'seed' in w.off else sum(1 << s for (s, g), n in w.names_hist[tb].items() if not n and s != ROOT)
                m = list(masks)
                m[E + 1] |= seed
                masks = tuple(0 if e <= E else x for e, x in enumerate(m))
            yield ('done', pc), (pc, 0, slots, blocks, masks)

    def run(self):
        w = self.w
        st = (0, 0, ((0, 0),) * NSLOT, (0,) * len(w.bh), (0,) * (w.epoch + 2))
        self.parent = {st: None}
        todo = [st]
        while todo:
            nxt = []
            for st in todo:
                self.states += 1
                self.crash(st)
                wr = list(self.writes(st))
                if not wr:
                    self.stuck(st)
                for lab, n in itertools.chain(wr, self.steps(st)):
                    if n not in self.parent:
                        self.parent[n] = (st, lab)
                        nxt.append(n)
            todo = nxt if self.states < self.limit else []
        return self

    def stuck(self, st):
        """Nothing can be written: then everything must have been."""
        w = self.w
        pc, ph, slots, _, _ = st
        for s in range(NSLOT):
            im = [x for x in w.im[s] if x.t <= pc][-1]
            if w.im[s][slots[s][0]].t != im.t:
                self.report('deadlock', f'slot {s} image {im.t} waits {w.waits(s, w.im[s].index(im), pc, slots[s][0])}', st)
                return
        if not any(True for _ in self.steps(st)) and (pc < w.n or ph):
            self.report('deadlock', f'operation {pc + 1} cannot proceed', st)

    def report(self, cls, msg, st):
        if cls not in self.bad:
            tr, x = [], st
            while self.parent.get(x):
                x, lab = self.parent[x]
                tr.append(lab)
            self.bad[cls] = (msg, tr[::-1])

    # ---- crash and oracle -------------------------------------------------------------------------------------------
    def crash(self, st):
        """Crash here, with every permitted version of every bucket."""
        w = self.w
        pc, ph, slots, blocks, masks = st
        done = pc - (ph == 1)
        E = w.E_after[done]
        floor = 0
        if E and 'ckpt-buckets' not in w.off:
            ends = [j for j in range(1, done + 1) if w.E_after[j] != w.E_after[j - 1]]
            floor = max(j for j in range(1, ends[-1] + 1) if w.ops[j - 1][0] in ('ckb', 'sync'))
        recs = tuple(self.rec(s, *slots[s]) for s in range(NSLOT))
        names = sorted({b for j in range(1, pc + 1) for b in w.bchg[j]})
        choice = [[floor] + [j for j in range(floor + 1, pc + 1) if b in w.bchg[j]] for b in names]
        for vs in itertools.product(*choice):
            m, idx = masks, set()
            ver = dict(zip(names, vs))
            for b, v in ver.items():
                for j in range(1, v + 1):
                    if b in w.bchg[j]:
                        m = self.mark(m, pc, E, j, min(w.chg[j]) if 'R0victim' in w.off else None)
            for b in ver:
                idx |= {(k, *o) for k, o in w.bind_hist[ver[b]].items() if w.bucket(k) == b}
            idx |= {(k, *o) for k, o in w.bind_hist[0].items() if w.bucket(k) not in ver}
            bits = 0
            for e, x in enumerate(m):
                bits |= x if e > E else 0
            if self.chunk_all and bits:
                bits = (1 << NSLOT) - 1
            disk = Disk(recs, frozenset(idx), frozenset(s for s in range(NSLOT) if bits >> s & 1), E)
            ck = (disk, blocks, pc, ph)
            if ck in self.omemo:
                continue
            self.omemo.add(ck)
            self.crashes += 1
            if disk not in self.rmemo:
                r = recover(disk, w.off, w.lit)
                self.rmemo[disk] = r
                if self.cr:
                    want = self.view(r)
                    for p in partial(disk, r):
                        if self.view(recover(p, w.off, w.lit)) != want:
                            self.report('recovery-not-restartable', str(sorted(want)), st)
                            break
            self.oracle(disk, self.rmemo[disk], blocks, st)

    @staticmethod
    def view(r):
        return (frozenset(listing(r)), frozenset((s, x.gen, frozenset(k for k, _ in x.names), x.dvi) for s, x in enumerate(r.recs) if x.kind != '-'))

    def rec(self, s, ii, di):
        im, dv = self.w.im[s][ii], self.w.dv[s][di]
        return Rec(im.kind, im.gen, frozenset(im.names.items()), im.dep, im.intent, max(im.ep, dv.ep), im.nseq, di)

    def content(self, s, di, j=None, blocks=None):
        """Halves of a file: as of operation j in memory, or as read from the disk."""
        w, out = self.w, []
        dv = w.dv[s][di]
        for b, v in dv.blocks:
            if blocks is not None:
                v = blocks[b]
            else:
                v = max(i for i, x in enumerate(w.bh[b]) if x.t <= j and (x.slot, x.gen) == (s, dv.gen))
            out += w.bh[b][v].data
        return tuple(out[:dv.size])

    def oracle(self, disk, r, blocks, st):
        w = self.w
        pc, ph = st[0], st[1]
        pn, pd, pi = w.pins[pc - (ph == 1)]
        ls = listing(r)
        bad = lambda c, m: self.report(c, m, st)
        live = {s: x for s, x in enumerate(r.recs) if x.kind != '-'}
        R = {}
        for k, s, g in ls:                              # 5: index = slots, no duplicates
            if k in R:
                bad('duplicate-name', f'{k} {R[k]} {s}')
            R[k] = (s, g)
        for s, x in live.items():
            for k, _ in x.names:
                if R.get(k) != (s, x.gen):
                    bad('missing-in-index', f'{k} of slot {s}')
            if s != ROOT and not x.names:
                bad('orphan-not-freed', f'slot {s}')
            a, hops = s, 0                              # 6: every live inode hangs below the root
            while a != ROOT and hops < NSLOT:
                nm = r.recs[a].names
                if not nm:
                    break
                k = min(nm)[0]
                p = r.recs[k.p]
                if p.kind != 'd' or p.gen != k.g:
                    bad('dangling-parent', f'slot {s}: {k}')
                    break
                a, hops = k.p, hops + 1
            if hops >= NSLOT:
                bad('cycle', f'slot {s}')
        for k, s, g in r.idx:                           # raw ghosts that a later operation could make valid again
            x = r.recs[s]
            if R.get(k) != (s, g) and r.recs[k.p].gen == k.g and r.recs[k.p].kind == 'd':
                if x.kind != '-' and x.gen == g:
                    bad('~ghost-of-live-inode', f'{k} {s}')
                elif x.gen < g:
                    bad('~ghost-of-future-generation', f'{k} {s} gen {g}, slot holds {x.gen}')
        keys = {k for h in w.bind_hist[:pc + 1] for k in h} | set(R)
        for k in keys:                                  # 1,2,4: a name shows a binding it had since it was pinned
            if R.get(k) not in {w.bind_hist[j].get(k) for j in range(pn.get(k, 0), pc + 1)}:
                bad('name-wrong', f'{k} -> {R.get(k)}')
        for f in {f for h in w.names_hist[:1] for f in h} | set(pi):
            i = pi.get(f, 0)
            if f[0] != ROOT and all(w.has_name(*f, j) for j in range(i, pc + 1)) and not (f[0] in live and live[f[0]].gen == f[1] and f in R.values()):
                bad('synced-inode-lost', f'{f}')
        for s, x in live.items():
            f, got = (s, x.gen), {k for k, _ in x.names}
            if s == ROOT:
                continue
            if f not in w.born or w.born[f] > pc:
                bad('unknown-inode', f'{f}')
                continue
            hist = [w.names_hist[j].get(f, frozenset()) for j in range(pc + 1)]
            if not any(got <= h and all(any(m not in hist[k] for k in range(j + 1, pc + 1)) for m in h - got) for j, h in enumerate(hist)):
                bad('names-mixed', f'{f} has {sorted(got)}')
            # data: 3
            dhist = [j for j in range(max(pd.get(f, 0), w.born[f]), pc + 1)]
            for k, m, mg, u in w.took:                  # who takes a name over shows no less data than it had then
                if (m, mg) == f and u <= pc and (k, u) in x.names:
                    dhist = [j for j in dhist if j >= u]
            have = self.content(s, x.dvi, None, blocks)
            cont = [self.content(s, w.size_hist[j][s], j) if w.dv[s][w.size_hist[j][s]].gen == x.gen else None for j in dhist]
            cont = [c for c in cont if c is not None]
            if len(have) not in {len(c) for c in cont} or any(h not in {c[o] if o < len(c) else 0 for c in cont} for o, h in enumerate(have)):
                bad('data-wrong', f'{f}: {have}, allowed {cont}')
            used = w.dv[s][x.dvi].blocks                # bitmap: set at the last checkpoint and not cleared, or step 7
            for b, _ in used:
                alloc_t = min((y.t for y in w.bh[b] if (y.slot, y.gen) == f), default=0)
                unset, scanned = alloc_t > self.last_ckpt(pc, ph), s in disk.scanned
                if 'R3bitmap' in w.off:                 # cleared at once; R0 covers the bitmap home too
                    for q, u in w.freed_log:
                        if q == b and u <= pc:
                            unset, scanned = True, scanned or ('R0' not in w.off and w.ep_of[u] > disk.E)
                if unset and (not scanned or 'step7' in w.off):
                    bad('live-block-free-in-bitmap', f'{f} block {b}')
        bl = [b for s, x in live.items() for b, _ in w.dv[s][x.dvi].blocks]
        if len(bl) != len(set(bl)):
            bad('block-shared', str(bl))
        for j in range(1, pc + 1):                      # 2: operations on two names are all or nothing
            if w.ops[j - 1][0] in ('rename', 'exchange', 'whiteout'):
                ks = [k for k in keys if w.bind_hist[j].get(k) != w.bind_hist[j - 1].get(k)]
                v = {k: R.get(k) for k in ks}           # only the operation's own input and output tell about it
                pre = {k: {w.bind_hist[i].get(k) for i in range(pn.get(k, 0), j)} for k in ks}
                new = {k: {w.bind_hist[i].get(k) for i in range(max(j, pn.get(k, 0)), pc + 1)} for k in ks}
                if any(v[k] == w.bind_hist[j - 1].get(k) and v[k] not in new[k] for k in ks) and \
                        any(v[k] == w.bind_hist[j].get(k) and v[k] not in pre[k] for k in ks):
                    bad('half-operation', f'{w.ops[j - 1]}: {[(k.p, k.n, R.get(k)) for k in ks]}')

    def last_ckpt(self, pc, ph):
        w, done = self.w, pc - (ph == 1)
        ends = [j for j in range(1, done + 1) if w.E_after[j] != w.E_after[j - 1]]
        return max((j for j in range(1, ends[-1] + 1) if w.ops[j - 1][0] in ('ckb', 'sync')), default=0) if ends else 0


# ---- drivers --------------------------------------------------------------------------------------------------------
# Directed sequences (setup, operations, 1 if made for deadlock): the scenarios of DESIGN-FS.md, and what findings taught.
DIRECTED = {
    '1 replace, bucket first': ('S1', [('rename', 0, 'a', 0, 'b')], 0),
    '2 unlink, bitmap first': ('S1', [('unlink', 0, 'a'), ('create', 0, 't'), ('append', 0, 't', True), ('fsync', 0, 't')], 0),
    '3 mv foo bar, create foo': ('S3', [('sync',), ('rename', 0, 'a', 0, 'b'), ('create', 0, 'a'), ('fsync', 0, 'a')], 0),
    '4 link, unlink, create': ('S3', [('link', 0, 'a', 0, 'g'), ('unlink', 0, 'a'), ('create', 0, 'a'), ('fsync', 0, 'a')], 0),
    '5 swap by three renames': ('S1', [('rename', 0, 'a', 0, 't'), ('rename', 0, 'b', 0, 'a'), ('rename', 0, 't', 0, 'b')], 1),
    '6 name_seq, not seq': ('S1', [('over', 0, 'b'), ('fsync', 0, 'b'), ('over', 0, 'b'), ('fsync', 0, 'b'), ('rename', 0, 'a', 0, 'b')], 0),
    '7 write tmp, rename over': ('S1', [('create', 0, 't'), ('append', 0, 't'), ('rename', 0, 't', 0, 'a')], 0),
    '8 mv p/c q/c, rmdir p': ('S1', [('rename', 3, 'c', 4, 'c'), ('rmdir', 0, 'p')], 0),
    '14 intent across checkpoint': ('S1', [('ckb',), ('rename', 0, 'a', 0, 't'), ('cke',), ('create', 0, 'a'), ('fsync', 0, 'a')], 0),
    '14b op in e, written in e+1': ('S1', [('rename', 0, 'a', 0, 'b'), ('ckb',), ('rename', 0, 'b', 0, 't'), ('cke',), ('fsync', 0, 't')], 0),
    '15 orphan over checkpoint': ('S1', [('unlink', 0, 'a', True), ('sync',), ('create', 0, 't')], 0),
    '16 truncate, extend': ('S1', [('trunc', 0, 'a', 1), ('trunc', 0, 'a', 2), ('fsync', 0, 'a')], 0),
    '17 exchange half durable': ('S1', [('exchange', 0, 'a', 0, 'b')], 0),
    '18 whiteout': ('S1', [('whiteout', 0, 'a', 0, 'b'), ('fsync', 0, 'b')], 0),
    '19 stale entry': ('S1', [('rename', 0, 'a', 0, 't'), ('fsync', 0, 't'), ('rename', 0, 't', 0, 'a')], 0),
    '22 full disk: truncate feeds tmp': ('S2', [('trunc', 0, 'a', 0), ('append', 0, 't', True), ('rename', 0, 't', 0, 'a')], 1),
    'D exchange of a new file': ('S1', [('create', 0, 't'), ('append', 0, 't'), ('exchange', 0, 't', 0, 'a')], 0),
    'D intent claims for its peer': ('S1', [('rename', 0, 'b', 0, 'a'), ('rename', 0, 'a', 0, 't'), ('create', 0, 'a'), ('whiteout', 0, 'a', 0, 'b')], 0),
    'D orphan peer': ('S1', [('exchange', 0, 'a', 0, 'b'), ('unlink', 0, 'a', True), ('fsyncdir', 0), ('close',)], 0),
    'D peer unlinked': ('S1', [('exchange', 0, 'a', 0, 'b'), ('unlink', 0, 'a'), ('fsyncdir', 0)], 0),
    'D exchange of linked file': ('S2', [('link', 0, 'a', 4, 'd'), ('exchange', 0, 'a', 0, 't'), ('unlink', 0, 't')], 0),
    'D mv into new directory': ('S1', [('mkdir', 0, 't'), ('rename', 0, 'a', N, 'x')], 0),
    'D tree of new directories': ('S1', [('mkdir', 0, 't'), ('mkdir', N, 'y'), ('create', N + 1, 'z')], 0),
    'D mv into nested new directory': ('S1', [('mkdir', 0, 't'), ('mkdir', N, 'y'), ('rename', 0, 'a', N + 1, 'z')], 0),
    'D fsync below new directories': ('S1', [('mkdir', 0, 't'), ('create', N, 'x'), ('append', N, 'x'), ('fsync', N, 'x')], 0),
    'D dir into new dir': ('S1', [('mkdir', 0, 't'), ('rename', 0, 'p', N, 'p')], 0),
    'D cycle': ('S1', [('rename', 0, 'p', 4, 'p'), ('rename', 4, 'p', 0, 'p'), ('rename', 0, 'q', 3, 'q')], 0),
    'D replacer moves on': ('S1', [('rename', 3, 'c', 0, 'a'), ('fsync', 0, 'a'), ('rename', 0, 'a', 0, 't')], 0),
    'D unlinker moves on': ('S1', [('unlink', 0, 'b'), ('rename', 0, 'a', 0, 'b'), ('fsync', 0, 'b'), ('rename', 0, 'b', 0, 't')], 0),
    'D victim with links': ('S2', [('link', 0, 'b', 4, 'd'), ('unlink', 0, 'b'), ('rename', 0, 't', 0, 'a')], 0),
    'D victim with moved link': ('S2', [('rename', 0, 'b', 3, 'd'), ('rename', 0, 't', 0, 'a')], 0),
    'D V returns': ('S2', [('rename', 0, 't', 0, 'a'), ('rename', 0, 'b', 0, 'a')], 0),
    'D stale departed list': ('S1', [('rename', 0, 'a', 0, 't'), ('fsync', 0, 't'), ('create', 0, 'a'), ('sync',), ('over', 0, 't'), ('fsync', 0, 't')], 0),
    'D stale departed list 2': ('S1', [('rename', 0, 'a', 0, 't'), ('create', 0, 'a'), ('sync',), ('link', 0, 't', 4, 'd'), ('unlink', 4, 'd')], 0),
    'D chain of replacers': ('S1', [('rename', 0, 'a', 0, 'b'), ('rename', 3, 'c', 0, 'b'), ('fsyncdir', 0)], 0),
    'D replaced twice, fsync of dir': ('S1', [('rename', 3, 'c', 4, 'c'), ('fsyncdir', 3), ('unlink', 0, 'a'), ('fsyncdir', 0)], 0),
    'D rmdir and contents': ('S1', [('unlink', 3, 'c'), ('rmdir', 0, 'p'), ('mkdir', 0, 't', True)], 0),
    'D rmdir of an open directory': ('S1', [('rename', 3, 'c', 4, 'c'), ('rmdir', 0, 'p', True)], 0),
    'D into the directory that took its name': ('S1', [('rename', 0, 'a', 0, 't'), ('mkdir', 0, 'a'), ('rename', 0, 't', N, 'x')], 1),
    'D log rotation': ('S1', [('rename', 0, 'b', 0, 't'), ('rename', 0, 'a', 0, 'b'), ('create', 0, 'a'), ('fsync', 0, 'a')], 1),
    'D tmp used again': ('S1', [('create', 0, 't'), ('rename', 0, 't', 0, 'a'), ('create', 0, 't'), ('rename', 0, 't', 0, 'b'), ('fsync', 0, 'b')], 1),
    'D slot reuse': ('S1', [('rename', 0, 'a', 0, 'b'), ('create', 0, 't', True), ('fsync', 0, 't')], 0),
    'D rmdir open dir child moved': ('S1', [('rename', 3, 'c', 0, 't'), ('rmdir', 0, 'p'), ('unlink', 0, 't')], 0),
    'D moved over, rmdir, rm': ('S1', [('rename', 3, 'c', 0, 'a'), ('rmdir', 0, 'p'), ('unlink', 0, 'a')], 0),
    'D replace empty dir': ('S1', [('rename', 3, 'c', 0, 't'), ('rename', 0, 'q', 0, 'p')], 0),
    'D checkpoint holds buckets': ('S1', [('rename', 0, 'a', 0, 't'), ('sync',), ('create', 0, 'a')], 0),
    'D whiteout needs both': ('S1', [('whiteout', 0, 'a', 0, 't'), ('rename', 0, 't', 0, 'b')], 0),
    'D exchange, then moved on': ('S1', [('exchange', 0, 'a', 0, 'b'), ('rename', 0, 'b', 0, 't'), ('fsync', 0, 't')], 0),
    'D bitmap': ('S1', [('create', 0, 't'), ('append', 0, 't'), ('fsync', 0, 't')], 0),
}


def build(setup, ops, **kw):
    try:
        return World(tuple(ops), SETUPS[setup], **kw)
    except Invalid:
        return None


def job(a):
    """One sequence, in every mode asked for.  Returns violations and counts."""
    setup, ops, modes, off, lit = a
    bad, st, cr, n = {}, 0, 0, 0
    for newest, chunk_all, crash_rec, nb in modes:
        w = build(setup, ops, off=off, lit=lit, nbuckets=nb)
        if w is None:
            return a, {}, 0, 0, 0
        e = Explorer(w, newest, chunk_all, crash_rec).run()
        st, cr, n = st + e.states, cr + e.crashes, n + 1
        for c, v in e.bad.items():
            bad.setdefault(c, v + ((newest, chunk_all),))
    return a, bad, st, cr, n


def randseq(seed, length, setup):
    rnd, ops = random.Random(seed), []
    while len(ops) < length:
        o = rnd.choice(OPS)
        if build(setup, ops + [o]):
            ops.append(o)
    return tuple(ops)


def show(v):
    (setup, ops), (cls, (msg, tr, mode)) = v
    print(f'  {cls}: {msg}\n    {setup} newest={mode[0]} chunk-shared={mode[1]}: {list(ops)}\n    run: {tr}')


def campaign(jobs, title, pool, verbose=True):
    t, bad, ex, S, C, Nn = time.time(), {}, {}, 0, 0, 0
    for a, b, st, cr, n in pool.imap_unordered(job, jobs, 16):
        S, C, Nn = S + st, C + cr, Nn + (n > 0)
        for c, v in b.items():
            bad[c] = bad.get(c, 0) + 1
            if c not in ex or len(a[1]) < len(ex[c][0][1]):
                ex[c] = ((a[0], a[1]), (c, v))
    hard = {c: n for c, n in bad.items() if c[0] != '~'}
    print(f'{title}: {Nn} sequences, {S} states, {C} distinct crash images, {time.time() - t:.0f} s, violations {hard or "none"}, '
          f'warnings { {c: n for c, n in bad.items() if c[0] == "~"} or "none"}', flush=True)
    for c in hard:
        show(ex[c])
    return hard


MODES = [(False, False, True, 1), (True, True, False, 2)]


def all_seqs(length, setups=('S1', 'S2')):
    return [(s, ops, MODES, (), ()) for s in setups for ops in itertools.product(OPS, repeat=length)]


def cheap_first(kw):
    """Sequences for one ablation, shortest first, until one violates."""
    cand = sorted(DIRECTED.values(), key=lambda d: len(d[1]))
    cand = [(s, tuple(o)) for s, o, _ in cand]
    cand += [(s, o) for s in ('S1', 'S2') for k in (1, 2) for o in itertools.product(OPS, repeat=k)]
    cand += [(('S1', 'S2')[i % 2], None, 3 + i // 2 % 2, i) for i in range(3000)]
    return cand


def ablate(x):
    kind, name = x
    kw = {'off': tuple(name.split('+'))} if kind == 'off' else {'lit': (name,)}
    t, tried = time.time(), 0
    for c in cheap_first(kw):
        setup, ops = c[0], c[1] or randseq(c[3], c[2], c[0])
        if time.time() - t > BUDGET:
            break
        _, bad, _, _, n = job((setup, ops, [(False, False, True, 1), (True, False, False, 1), (False, True, False, 1)], kw.get('off', ()), kw.get('lit', ())))
        tried += n > 0
        hard = {c: v for c, v in bad.items() if c[0] != '~'}
        if hard:
            c = min(hard, key=lambda c: len(hard[c][1]))
            return x, tried, ((setup, ops), (c, hard[c]))
    return x, tried, None


BUDGET = 40                                             # seconds per ablation


def main(args):
    cmd = args[0] if args else 'quick'
    seed = int(args[1]) if len(args) > 1 else 20250101
    with Pool() as pool:
        failed = {}
        if cmd in ('quick', 'all', 'scenarios'):
            failed.update(campaign([(s, tuple(o), MODES + [(True, False, False, 1)], (), ()) for s, o, _ in DIRECTED.values()], 'directed', pool))
            import small
            failed.update(small.main())
        if cmd in ('quick', 'all'):
            for k in (1, 2):
                failed.update(campaign(all_seqs(k), f'all sequences of {k}', pool))
        if cmd in ('all', 'random'):
            for k, n in ((3, 8000), (4, 5000), (5, 800)):
                print(f'seed {seed}')
                jobs = [(('S1', 'S2')[i % 2], randseq(seed + i, k, ('S1', 'S2')[i % 2]), [(bool(i // 2 % 2), bool(i // 4 % 2), i % 3 == 0, 1 + i % 2)], (), ()) for i in range(n)]
                failed.update(campaign(jobs, f'random sequences of {k}', pool))
        if cmd in ('all', 'ablate'):
            todo = [('off', n) for n in OFF_ALL] + [('lit', n) for n in LIT_ALL]
            for (kind, name), tried, v in pool.imap(ablate, todo, 1):
                print(f'{"without rule" if kind == "off" else "literal text"} {name}: ' + (f'CAUGHT by sequence {tried}' if v else f'not caught in {tried} sequences'), flush=True)
                if v:
                    show(v)
    print('FAILED: ' + ', '.join(failed) if failed else 'OK')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
