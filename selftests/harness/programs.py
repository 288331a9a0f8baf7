# SPDX-License-Identifier: GPL-2.0
"""C tests with tap.h, scripts with tap.sh and guest.sh, and GoogleTest binaries (false ones, made of shell)."""
import json
import pathlib

from fixture import HERE, TreeTest

LIB = HERE.parent / "lib"


class CTests(TreeTest):
    def setUp(self):
        super().setUp()
        self.tree.settings("a", "where=host")

    def program(self, body, top=""):
        self.tree.write("selftests/a/t.c", f'{top}\n#include "tap.h"\nint main(void)\n{{\n{body}\n}}\n')
        return self.tree.run()

    def test_results(self):
        """tap.h: results are numbered and counted"""
        body = 'tap_plan(3); tap_ok(1, "a"); tap_eq(2 + 2, 4, "b"); tap_str("x", "x", "c"); return tap_finish();'
        self.assert_counts(self.program(body), 3, 0, 0)

    def test_failures(self):
        """tap.h: failures show expected and got"""
        body = ('tap_plan(4); tap_ok(1 > 2, "a"); tap_eq(5, 4, "b"); tap_str("x", NULL, "c");'
                'tap_mem("ab", "ac", 2, "d"); return tap_finish();')
        outcome = self.program(body)
        self.assert_counts(outcome, 0, 4, 0, says="expected: 4 (0x4)")
        for text in ("expected: 1 > 2", "got:      5 (0x5)", "expected: (null)", "0x63 at byte 1 of 2", "a/t.c:"):
            self.assertIn(text, outcome.messages())

    def test_errno(self):
        """tap.h: a result of -1 shows errno"""
        body = 'tap_plan(1); tap_eq(close(-1), 0, "close"); return tap_finish();'
        self.assert_counts(self.program(body), 0, 1, 0, says="Bad file descriptor")

    def test_skips(self):
        """tap.h: one result or all can be skipped"""
        body = 'tap_plan(2); tap_ok(1, "a"); tap_skip("b", "why"); return tap_finish();'
        self.assert_counts(self.program(body), 1, 0, 1)
        self.assert_counts(self.program('tap_plan(2); tap_skip_all("why");'), 0, 0, 2)

    def test_short(self):
        """tap.h: fewer results than planned give a bad exit status"""
        outcome = self.program('tap_plan(2); tap_ok(1, "a"); return tap_finish();')
        self.assert_counts(outcome, 1, 1, 0, says="planned 2 results, gave 1")

    def test_bail(self):
        """tap.h: a bail-out fails what has no result"""
        outcome = self.program('tap_plan(2); tap_ok(1, "a"); tap_bail("no %s", "disk");')
        self.assert_counts(outcome, 1, 1, 0, says="no disk")

    def test_cleanup(self):
        """tap.h: the cleanup runs last in, first out, once, and not in children"""
        top = "static void say(void *text) { printf(\"# %s\\n\", (char *)text); }"
        body = ('tap_plan(1); tap_defer(say, "first"); tap_defer(say, "second"); tap_ok(0, "a"); fflush(stdout);'
                'if (!fork()) exit(0); sleep(1); return tap_finish();')
        outcome = self.program(body, '#include <stdio.h>\n#include <unistd.h>\n' + top)
        lines = [line for line in outcome.messages().splitlines() if line in ("# first", "# second")]
        self.assertEqual(lines, ["# second", "# first"])

    def test_crash(self):
        """tap.h: a crash keeps the results that came"""
        outcome = self.program('tap_plan(3); tap_ok(1, "a"); tap_ok(1, "b"); abort();')
        self.assert_counts(outcome, 2, 1, 0, says="signal 6")

    def test_compile_failure(self):
        """a test that does not compile fails as planned, with the compiler's message"""
        self.tree.script("a/u", 1, "echo 1..1; echo ok 1")
        outcome = self.program('tap_plan(6); return no_such_thing;')
        self.assert_counts(outcome, 1, 6, 0, says="no_such_thing")

    def test_warning(self):
        """a warning is a compile failure"""
        self.assert_counts(self.program('int unused; tap_plan(2); return 0;'), 0, 2, 0, says="unused")

    def test_build_comment(self):
        """a build comment adds compiler arguments; the uapi headers are found"""
        self.tree.write("kmod/uapi/linux/some.h", "#define SOME 1\n")
        top = "/* build: -DEXTRA=7 -lm */\n#include <linux/some.h>"
        body = 'tap_plan(1); tap_eq(EXTRA + SOME, 8, "sum"); return tap_finish();'
        self.assert_counts(self.program(body, top), 1, 0, 0)

    def test_no_plan(self):
        """a C test without a literal tap_plan is one failure"""
        outcome = self.program('int n = 1; tap_plan(n); return 0;')
        self.assert_counts(outcome, 0, 1, 0, says="no plan in selftests/a/t.c")

    def test_settings_comment(self):
        """a settings comment in C is obeyed"""
        body = 'tap_plan(1); sleep(60); return 0;'
        self.assert_counts(self.program(body, "/* settings: timeout=1 */"), 0, 1, 0, says="timed out after 1 s")


class Scripts(TreeTest):
    def script(self, plan, body, **environment):
        self.tree.settings("a", "where=host")
        text = f'#!/usr/bin/env bash\n. "{LIB}/tap.sh"\n. "{LIB}/guest.sh"\nplan {plan}\n{body}\n'
        self.tree.write("selftests/a/t.sh", text, 0o755)
        return self.tree.run(**environment)

    def test_results(self):
        """tap.sh: results are numbered and counted"""
        self.assert_counts(self.script(4, "ok a; check b true; is c 1 1; check_fails d 1 false; finish"), 4, 0, 0)

    def test_failures(self):
        """tap.sh: failures show expected and got"""
        body = "is a 1 2; check b sh -c 'echo noise; exit 5'; not_ok c why; check_fails d 2 false; finish"
        outcome = self.script(4, body)
        self.assert_counts(outcome, 0, 4, 0, says="expected: 2")
        for text in ("got:      1", "got:      exit status 5", "# noise", "# why", "expected: exit status 2"):
            self.assertIn(text, outcome.messages())

    def test_skips(self):
        """tap.sh: one result or all can be skipped"""
        self.assert_counts(self.script(2, "ok a; skip b why; finish"), 1, 0, 1)
        self.assert_counts(self.script(2, "skip_all why"), 0, 0, 2)

    def test_short(self):
        """tap.sh: fewer results than planned give a bad exit status"""
        self.assert_counts(self.script(2, "ok a; finish"), 1, 1, 0, says="planned 2 results, gave 1")

    def test_cleanup(self):
        """tap.sh: the cleanup runs last in, first out, and its folder goes away"""
        log = self.tree.top / "log"
        body = (f'add() {{ echo "$*" >>{log}; }}; defer add 1 "a  b"; defer add 2; echo "$TAP_TMP" >{log}.tmp;'
                'ok a; finish')
        self.assert_counts(self.script(1, body), 1, 0, 0)
        self.assertEqual(log.read_text(), "2\n1 a  b\n")
        self.assertFalse(pathlib.Path(pathlib.Path(f"{log}.tmp").read_text().strip()).exists())

    def test_cleanup_failure(self):
        """tap.sh: a cleanup that fails is a failure"""
        outcome = self.script(1, "defer sh -c 'echo busy; exit 1'; ok a; finish")
        self.assert_counts(outcome, 1, 1, 0, says="busy")

    def test_cleanup_after_timeout(self):
        """tap.sh: the cleanup runs when the test runs out of time"""
        mark = self.tree.top / "mark"
        self.assert_counts(self.script(1, f"# settings: timeout=1\ndefer touch {mark}; sleep 60"), 0, 1, 0)
        self.assertTrue(mark.exists())

    def test_bail(self):
        """tap.sh: a bail-out fails what has no result"""
        self.assert_counts(self.script(3, "ok a; bail no disk"), 1, 2, 0, says="no disk")

    def test_load_module_unset(self):
        """guest.sh: without a module load_module says so as a failed result"""
        outcome = self.script(2, "load_module; ok a; ok b; finish", UHSFS_MODULE="")
        self.assert_counts(outcome, 0, 2, 0, says="UHSFS_MODULE is unset")


class Binaries(TreeTest):
    LIST = r'''
if [ "$1" = --gtest_list_tests ]; then
    printf "S.\n  a\n  b  # GetParam() = 1\nT/0.  # TypeParam = int\n  c\n"
    exit
fi
'''

    def report(self, *cases):
        """Shell text that writes a JSON report with these cases of suite, name, result, failure."""
        suites = {}
        for suite, name, result, failure in cases:
            status = "NOTRUN" if result == "SUPPRESSED" else "RUN"
            case = {"name": name, "status": status, "result": result, "time": "0.5s"}
            suites.setdefault(suite, []).append(case | ({"failures": [{"failure": failure}]} if failure else {}))
        document = {"testsuites": [{"name": name, "testsuite": cases} for name, cases in suites.items()]}
        return f"cat >\"$json\" <<'END'\n{json.dumps(document)}\nEND"

    def binary(self, *body):
        self.tree.binary("core", "\n".join([self.LIST, *body]))
        return self.tree.run()

    def test_cases(self):
        """unit: every case of a binary counts, with its time"""
        outcome = self.binary(self.report(("S", "a", "COMPLETED", ""), ("S", "b", "COMPLETED", "1 != 2"),
                                          ("T/0", "c", "COMPLETED", "")), "exit 1")
        self.assert_counts(outcome, 2, 1, 0, says="S.b: 1 != 2")
        self.assertEqual([case["seconds"] for case in outcome.cases()], [0.5] * 3)
        self.assertEqual({case["test"] for case in outcome.cases()}, {"unit/core"})

    def test_skips(self):
        """unit: skipped and disabled cases are skipped, with reasons"""
        text = "printf '[ RUN      ] S.a\\nx.cc:3: Skipped\\nno disk\\n\\n[  SKIPPED ] S.a (0 ms)\\n'"
        outcome = self.binary(text, self.report(("S", "a", "SKIPPED", ""), ("S", "b", "COMPLETED", ""),
                                                ("T/0", "c", "COMPLETED", ""), ("S", "DISABLED_d", "SUPPRESSED", "")))
        self.assert_counts(outcome, 2, 0, 2)
        self.assertIn("S.a: no disk", outcome.stdout)
        self.assertIn("S.DISABLED_d: disabled", outcome.stdout)

    def test_environment(self):
        """unit: GTEST_* variables of the user do not reach a binary"""
        report = self.report(("S", "a", "COMPLETED", ""), ("S", "b", "COMPLETED", ""), ("T/0", "c", "COMPLETED", ""))
        self.tree.binary("core", f'[ -z "${{GTEST_FILTER+set}}" ] || exit 1\n{self.LIST}\n{report}')
        self.assert_counts(self.tree.run(GTEST_FILTER="none"), 3, 0, 0)

    def test_skip_without_reason(self):
        """unit: a skip without a reason is a failure"""
        outcome = self.binary(self.report(("S", "a", "SKIPPED", ""), ("S", "b", "COMPLETED", ""),
                                          ("T/0", "c", "COMPLETED", "")))
        self.assert_counts(outcome, 2, 1, 0, says="without a reason")

    def test_crash(self):
        """unit: after a crash finished cases count and the others are failed"""
        text = r"printf '[ RUN      ] S.a\n[       OK ] S.a (2 ms)\n[ RUN      ] S.b\n'"
        outcome = self.binary(text, "echo heap broken >&2; kill -SEGV $$")
        self.assert_counts(outcome, 1, 2, 0, says="SIGSEGV")
        self.assertIn("heap broken", outcome.messages())

    def test_crash_skips(self):
        """unit: after a crash skips still need reasons, and disabled cases are skipped"""
        names = 'if [ "$1" = --gtest_list_tests ]; then printf "S.\\n  a\\n  b\\n  DISABLED_c\\n  d\\n"; exit; fi'
        text = r"printf '[ RUN      ] S.%s\nx.cc:3: Skipped\n%s\n[  SKIPPED ] S.%s (0 ms)\n'"
        self.tree.binary("core", f"{names}\n{text} a why a b '' b; kill -SEGV $$")
        self.assert_counts(self.tree.run(), 0, 2, 2, says="without a reason")

    def test_early_exit(self):
        """unit: exit status 0 without a report fails every case"""
        self.assert_counts(self.binary("exit 0"), 0, 3, 0, says="no result")

    def test_missing_case(self):
        """unit: a listed case that the report lacks is a failure"""
        outcome = self.binary(self.report(("S", "a", "COMPLETED", ""), ("T/0", "c", "COMPLETED", "")))
        self.assert_counts(outcome, 2, 1, 0, says="S.b: no result")

    def test_exit_status(self):
        """unit: a bad exit status with all cases passed is one failure more"""
        outcome = self.binary(self.report(("S", "a", "COMPLETED", ""), ("S", "b", "COMPLETED", ""),
                                          ("T/0", "c", "COMPLETED", "")), "exit 23")
        self.assert_counts(outcome, 3, 1, 0, says="exit status 23")

    def test_timeout(self):
        """unit: a binary that hangs is ended and its cases are failed"""
        self.tree.settings("unit", "timeout=1")
        self.assert_counts(self.binary("exec sleep 60"), 0, 3, 0, says="timed out")

    def test_no_list(self):
        """unit: a binary that cannot list its cases is one failure"""
        self.tree.binary("core", "echo 'cannot load library' >&2; exit 127")
        self.assert_counts(self.tree.run(), 0, 1, 0, says="cannot load library")

    def test_not_built(self):
        """unit: sources without binaries are a failure"""
        self.tree.write("selftests/unit/crc.cc", "")
        self.assert_counts(self.tree.run(), 0, 1, 0, says="not built")

    def test_selection(self):
        """unit: AREA and AREA/TEST select binaries"""
        self.tree.binary("other", "exit 9")
        self.binary(self.report(("S", "a", "COMPLETED", ""), ("S", "b", "COMPLETED", ""),
                                ("T/0", "c", "COMPLETED", "")))
        self.assert_counts(self.tree.run("unit/core"), 3, 0, 0)
        self.assert_counts(self.tree.run("unit"), 3, 1, 0)
