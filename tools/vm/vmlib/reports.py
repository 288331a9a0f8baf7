# SPDX-License-Identifier: GPL-2.0
"""What in a kernel log is a fault of the kernel under test.

`scan()` returns the excerpts to show.  It reads the serial console alone, where a
test's own output never stands.  `TAINTS` catches a fault whose text was lost (a
WARN_ON_ONCE that fired before, a console that was silenced).
"""

import re

# A message begins at the start of the line or behind the time stamp: "Spectre V2 :
# WARNING: ..." at boot is no fault.
PATTERNS = re.compile(
    r"""
    (?:^|\]\ )(?:WARNING:\ |BUG[ :])
    | \bBUG:\s | kernel\ BUG\ at | Oops | Kernel\ panic | general\ protection\ fault[,:]
    | Unable\ to\ handle\ kernel | divide\ error: | invalid\ opcode: | stack\ segment: | double\ fault:
    | -----------\[\ cut\ here\ \] | \[\ BUG:
    | KASAN: | UBSAN: | KCSAN: | DEBUG_LOCKS_WARN_ON
    | INFO:\ task\ .*\ blocked\ (for\ more\ than|on|when) | INFO:\ .*trying\ to\ register\ non-static\ key
    | rcu: .*(detected\ (expedited\ )?stall|self-detected) | soft\ lockup | hard\ LOCKUP
    | unreferenced\ object\ 0x | refcount_t: | list_(add|del)\ corruption
    | VFS:\ Busy\ inodes | tried\ to\ init\ an\ initialized\ object
    | cannot\ create\ duplicate\ filename | page\ dumped\ because | Bad\ page\ (state|map)
    | vm-init:
    """,
    re.VERBOSE,
)

# Bit -> meaning, Documentation/admin-guide/tainted-kernels.rst.
TAINTS = {5: "bad page", 7: "oops", 9: "warning", 14: "soft lockup"}

CONTEXT_BEFORE = 2
CONTEXT_AFTER = 40


def scan(log):
    """The excerpts of LOG (text) around its faults, joined where they touch."""
    lines = log.splitlines()
    wanted = set()
    for at, line in enumerate(lines):
        if PATTERNS.search(line):
            wanted.update(range(max(0, at - CONTEXT_BEFORE), min(len(lines), at + CONTEXT_AFTER)))
    excerpts, last = [], None
    for at in sorted(wanted):
        if last is None or at != last + 1:
            excerpts.append([])
        excerpts[-1].append(lines[at])
        last = at
    return ["\n".join(part) for part in excerpts]


def taint_words(taint):
    return [word for bit, word in TAINTS.items() if taint >> bit & 1]
