# SPDX-License-Identifier: GPL-2.0
"""small.py - self-contained enumerations: shadow homes and torn writes, directory splits, chunk incarnations.

Each part returns the violations found with a set of rules; main() checks that the full set has none and that leaving
out any one rule is caught.
"""
import itertools
import time

TORN = 'torn'


# ---- shadow homes: scenarios 10, 11, 12 ------------------------------------------------------------------------------
def shadow(rules, depth=7):
    """State: (durable copies, cached writes, promised seq, copy the writer thinks newest, newest seq, last write durable).
    Events: write, flush, power cut (each cached write may be lost, complete or torn), kernel crash (the device keeps its
    cache, the writer forgets what is durable).  Promise: a flushed image is never lost; some copy is always valid."""
    start = ((1, 0), (), 1, 0, 1, True)
    seen, todo, bad = {start: ()}, [start], {}
    for _ in range(depth):
        nxt = []
        for st in todo:
            copies, cache, prom, newest, seq, durable = st
            for ev in ('write', 'flush', 'power', 'kernel'):
                outs = []
                if ev == 'write':
                    tgt = newest if not durable and 'same-copy' in rules else 1 - newest
                    if 'older' not in rules:
                        tgt = newest
                    if len(cache) < 4:
                        outs = [(copies, cache + ((tgt, seq + 1),), prom, tgt, seq + 1, False)]
                elif ev == 'flush':
                    c = list(copies)
                    for t, s in cache:
                        c[t] = s
                    outs = [(tuple(c), (), seq, newest, seq, True)]
                else:
                    res = [copies]                      # what reads return after the restart
                    if ev == 'power':
                        res = {tuple(v) for v in itertools.product(*[{copies[i], *[s for t, s in cache if t == i], *([TORN] if any(t == i for t, _ in cache) else [])} for i in (0, 1)])}
                    for c in res:
                        vis, left = list(c), () if ev == 'power' else cache
                        for t, s in left:
                            vis[t] = s
                        ok = [i for i in (0, 1) if vis[i] != TORN and vis[i]]
                        if not ok or max(vis[i] for i in ok) < prom:
                            bad.setdefault('synced image lost', seen[st] + (ev,))
                            continue
                        b = max(ok, key=lambda i: vis[i])
                        if left and 'flush-first' in rules:   # recovery begins with a flush
                            c, left = tuple(vis), ()
                        outs.append((tuple(c), left, prom, b, vis[b], True))
                for o in outs:
                    base = o[2] - 1                     # seq numbers relative to the promise keep the state space finite
                    if o not in seen:
                        seen[o] = seen[st] + (ev,)
                        nxt.append(o)
        todo = nxt
    return bad, len(seen)


def bitrot(marked_only):
    """Scenario 12.  Both copies durable (seq 4, 5), the newer one rots.  Outside recovery: EUCLEAN.  In recovery the rot
    looks like a torn write; only a home whose chunk is marked in a map > E can have had a write in flight."""
    bad = {}
    for recovery, marked in itertools.product((False, True), (False, True)):
        accept = recovery and (marked or not marked_only)
        if accept and not marked:
            bad['silent step back in recovery'] = ('rot of an unmarked home', 'crash elsewhere', 'recovery')
    return bad, 4


# ---- directory splits: scenario 20 -----------------------------------------------------------------------------------
def rev(x, bits):
    return int(format(x, f'0{bits}b')[::-1], 2) if bits else 0


def bucket_of(cookie, n, bits=4):
    """Linear hashing on the leading bits: n buckets; the bucket number is the reversal of the leading bits."""
    lv = n.bit_length() - 1
    b = rev(cookie >> (bits - lv), lv)
    return rev(cookie >> (bits - lv - 1), lv + 1) if b < n - (1 << lv) else b


def ranges_ok():
    for n in range(1, 16):
        bs = [bucket_of(c, n) for c in range(16)]
        runs = [b for b, _ in itertools.groupby(bs)]
        if len(runs) != len(set(runs)) or set(bs) != set(range(n)):
            return {f'{n} buckets are not {n} ranges': (bs,)}, 15
    return {}, 15


def split(rules, splits=2):
    """A directory of cold entries (not scanned by recovery) and one warm one that is inserted or removed at any time.
    Homes: buckets and the directory slot (number of buckets).  Every downward-closed set of persisted writes."""
    cold, warm, bad, states = {1, 6, 9, 14}, 11, {}, 0
    for warm_hist in ([(), (warm,)], [(warm,), ()]):
        for when in range(splits + 1):                  # in memory: the warm entry changes before split number `when`
            truth = lambda step: cold | set(warm_hist[1 if step >= when else 0])
            content = lambda b, step: frozenset(c for c in truth(step) if bucket_of(c, step + 1) == b)
            nb = splits + 1
            # the bucket homes hold step -1 (never written) .. splits; a written bucket holds what memory held then
            for vs in itertools.product(*[range(0 if b == 0 else -1, splits + 1) for b in range(nb)], range(splits + 1)):
                buckets, slot = vs[:nb], vs[nb]
                if any(0 <= v < b for b, v in enumerate(buckets)):
                    continue                            # bucket b exists from split b on
                good = True
                for k in range(1, splits + 1):          # split k moves part of bucket `old` into new bucket k
                    old = k - (1 << (k.bit_length() - 1))
                    if 'new-first' in rules and slot >= k and buckets[k] < k:
                        good = False
                    if 'old-last' in rules and buckets[old] >= k and slot < k:
                        good = False
                if not good:
                    continue
                states += 1
                disk = [content(b, v) if v >= 0 else frozenset({99}) for b, v in enumerate(buckets)]
                seen = [c for b in range(slot + 1) for c in disk[b] if c != 99
                        and ('range' not in rules or bucket_of(c, slot + 1) == b)]
                for c in cold:
                    if seen.count(c) != 1:
                        bad.setdefault('entry twice' if seen.count(c) else 'entry missing', (f'cookie {c}', vs))
    return bad, states


# ---- chunks: scenario 13 ---------------------------------------------------------------------------------------------
def chunk(rules):
    """One extent over time: user data (forged slots, without or with a nonce copied from anything a user can read),
    chunk incarnation 1, data, incarnation 2.  Descriptor and slot blocks persist independently unless ruled."""
    bad, states = {}, 0
    # what the extent's block may hold, oldest first, and what the descriptor home may hold
    blocks = [('data', None), ('slots', 1), ('data', None), ('slots', 2)]
    descs = [None, 1, None, 2]
    for b, d in itertools.product(range(4), range(4)):
        kind, inc = blocks[b]
        if 'desc-first' in rules and kind == 'slots' and d < b:
            continue                                    # descriptor durable before the first slot
        if 'R3' in rules and kind == 'data' and b == 2 and d < 2:
            continue                                    # extent reused only after the descriptor that gave it up is durable
        states += 1
        if descs[d] is None:
            if kind == 'slots' and d < b:
                bad.setdefault('slots of an unknown chunk (synced inode lost)', (blocks[b], descs[d]))
            continue
        accepted = kind == 'slots' and inc == descs[d] if 'nonce' in rules else True
        if accepted and (kind, inc) != ('slots', descs[d]):
            bad.setdefault('foreign record accepted as inode', (blocks[b], descs[d]))
    return bad, states


def main():
    failed = {}
    for name, fn, rules in (('shadow', shadow, ('same-copy', 'older', 'flush-first')), ('split', split, ('new-first', 'old-last', 'range')),
                            ('chunk', chunk, ('nonce', 'desc-first'))):
        t = time.time()
        bad, n = fn(frozenset(rules))
        print(f'{name}: {n} states, {time.time() - t:.1f} s, violations {bad or "none"}')
        failed.update({f'{name}: {k}': v for k, v in bad.items()})
        for r in rules:
            bad, n = fn(frozenset(rules) - {r})
            print(f'  without {r}: ' + ('CAUGHT ' + '; '.join(f'{k} after {v}' for k, v in bad.items()) if bad else 'not caught'))
    for name, (bad, n) in (('bit rot', bitrot(True)), ('bucket ranges', ranges_ok())):
        print(f'{name}: {n} states, violations {bad or "none"}')
        failed.update(bad)
    print('  without marked-homes-only: ' + str(bitrot(False)[0] or 'not caught'))
    return failed


if __name__ == '__main__':
    main()
