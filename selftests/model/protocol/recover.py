# SPDX-License-Identifier: GPL-2.0
"""recover.py - recovery steps 1-8 of DESIGN-FS.md on a crash image, with corrections (README.md) unless taken literally.

Disk: recs = tuple of Rec per slot, idx = frozenset of raw index entries (KEY, ino, generation), scanned = slots in chunks
marked in intent maps > E, E = superblock epoch.  An entry counts only if the slot confirms the name (listing()).
"""
from collections import namedtuple

Rec = namedtuple('Rec', 'kind gen names dep intent ep nseq dvi')     # names: frozenset of (KEY, name_seq)
Disk = namedtuple('Disk', 'recs idx scanned E')
NEW_EPOCH = 99                                                       # the epoch that recovery itself writes in


def confirmed(e, recs):
    k, s, g = e
    r, p = recs[s], recs[k.p]
    return r.kind != '-' and r.gen == g and any(n == k for n, _ in r.names) and p.kind == 'd' and p.gen == k.g


def recover(d, off=frozenset(), lit=frozenset()):
    recs = [dict(kind=r.kind, gen=r.gen, names=dict(r.names), nseq=r.nseq) for r in d.recs]
    # 1. Records that matter.  Literal: only epoch > E, or nameless.  Corrected: every record of a marked chunk.
    scan = [s for s in sorted(d.scanned) if 'scan' not in lit or d.recs[s].ep > d.E or not d.recs[s].names]
    # 2. Intents whose peer is older.
    for s in scan:
        if d.recs[s].intent and d.recs[s].kind != '-':
            op, peer, pgen, key, q = d.recs[s].intent
            p = recs[peer]
            if 'step2-nameseq' in lit:                               # literal: (generation, newest name_seq of a name)
                older = (p['gen'], max(p['names'].values(), default=-1)) < (pgen, q)
            else:                                                    # a slot keeps its newest name_seq when nameless
                older = p['nseq'] < q
            if older and op == 'whiteout':
                recs[peer] = dict(kind='w', gen=pgen, names={key: q}, nseq=q)
            elif older and p['kind'] != '-' and p['gen'] == pgen:
                p['names'][key], p['nseq'] = q, q
            if older and peer not in scan:
                scan.append(peer)
    # 3. Per name, the highest name_seq keeps it.
    best = {}
    for s in scan:
        for k, q in recs[s]['names'].items():
            if recs[s]['kind'] != '-' and (k not in best or q > best[k][0]):
                best[k] = (q if 'name_seq' not in off else -s, s)
    for s in scan:
        for k in [k for k in recs[s]['names'] if best.get(k, (0, s))[1] != s]:
            del recs[s]['names'][k]
    # 4./5. Names in free or other parents are dropped, nameless slots are freed; a freed directory makes more of them.
    while True:
        again = False
        for s in scan:
            for k in list(recs[s]['names']):
                p = recs[k.p]
                if p['kind'] != 'd' or p['gen'] != k.g:
                    del recs[s]['names'][k]
                    again = True
        for s in scan:
            if s and recs[s]['kind'] != '-' and not recs[s]['names']:
                recs[s]['kind'] = '-'
                again = True
        if not again or 'step4-once' in lit:
            break
    # 6. Departed entries are deleted, missing names inserted.
    idx = set(d.idx)
    if 'departed' not in off:
        for s in scan:
            for k, _ in d.recs[s].dep:
                if 'departed-any' in lit:                            # literal: {parent, cookie}, whoever owns the entry
                    idx = {e for e in idx if (e[0].p, e[0].n) != (k.p, k.n)}
                else:
                    idx = {e for e in idx if (e[0].p, e[0].n, e[1]) != (k.p, k.n, s)}
    for s in scan:
        if recs[s]['kind'] != '-':
            idx |= {(k, s, recs[s]['gen']) for k in recs[s]['names']}
    # 8. (7, the bitmap, is judged by the oracle from `scanned`.)
    out = []
    for s, o in enumerate(d.recs):
        r = recs[s]
        n = Rec(r['kind'], r['gen'], frozenset(r['names'].items()), o.dep, o.intent, o.ep, r['nseq'], o.dvi)
        out.append(n if n == o else n._replace(ep=NEW_EPOCH))
    return Disk(tuple(out), frozenset(idx), d.scanned, d.E)


def listing(d):
    """What users see: the confirmed entries."""
    return [e for e in d.idx if confirmed(e, d.recs)]


def partial(before, after, limit=5):
    """Crash during recovery: any subset of the homes that recovery changes has reached the disk."""
    homes = [('s', i) for i in range(len(before.recs)) if before.recs[i] != after.recs[i]]
    homes += [('b', b) for b in sorted({(k.p, k.g) for k, _, _ in before.idx ^ after.idx})]
    if not homes:
        return
    masks = range(1, 1 << len(homes)) if len(homes) <= limit else [1 << i for i in range(len(homes))]
    for m in masks:
        on = {h for i, h in enumerate(homes) if m >> i & 1}
        recs = tuple(after.recs[i] if ('s', i) in on else before.recs[i] for i in range(len(before.recs)))
        idx = frozenset(e for d, want in ((before, False), (after, True)) for e in d.idx
                        if (('b', (e[0].p, e[0].g)) in on) == want)
        yield before._replace(recs=recs, idx=idx)
