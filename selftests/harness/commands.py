# SPDX-License-Identifier: GPL-2.0
"""The command line: selection, suites, settings, and the forms of output."""
import json

from fixture import TreeTest

GOOD = "echo 1..1; echo ok 1 fine"


class Selection(TreeTest):
    def setUp(self):
        super().setUp()
        for area in ("a", "b"):
            self.tree.settings(area, "where=host")
        self.tree.script("a/one", 1, GOOD)
        self.tree.script("a/two", 1, GOOD)
        self.tree.script("b/one", 1, GOOD)
        self.tree.script("b/big", 1, GOOD, "# settings: suite=long")

    def titles(self, *arguments):
        return sorted(case["test"] for case in self.tree.run(*arguments).cases())

    def test_all(self):
        """without names every test of the suite check runs"""
        self.assertEqual(self.titles(), ["a/one", "a/two", "b/one"])

    def test_area(self):
        """AREA selects an area"""
        self.assertEqual(self.titles("a"), ["a/one", "a/two"])

    def test_name(self):
        """AREA/TEST selects a test, with or without its ending"""
        self.assertEqual(self.titles("a/two", "b/one.sh"), ["a/two", "b/one"])

    def test_once(self):
        """a test that is named twice runs once"""
        self.assertEqual(self.titles("a/two", "a"), ["a/one", "a/two"])

    def test_unknown(self):
        """a name that matches nothing is a failure"""
        self.assert_counts(self.tree.run("a", "c/x"), 2, 1, 0, says="c/x: no such area or test")

    def test_long(self):
        """the suite long runs only its own tests"""
        self.assertEqual(self.titles("--suite", "long"), ["b/big"])

    def test_named_long(self):
        """a named test runs in its own suite, but not in another that was asked for"""
        self.assertEqual(self.titles("b/big"), ["b/big"])
        self.assertEqual(self.titles("b/big", "--suite", "check"), [])

    def test_nothing(self):
        """a run in which nothing runs is not a success"""
        outcome = self.tree.run("--suite", "debug")
        self.assert_counts(outcome, 0, 0, 0)
        self.assertEqual(outcome.status, 1)
        self.assertIn("nothing ran", outcome.stdout)

    def test_empty_tree(self):
        """a tree without tests is not a success"""
        for area in ("a", "b"):
            for path in (self.tree.top / "selftests" / area).iterdir():
                path.unlink()
        self.assert_counts(self.tree.run(), 0, 0, 0)

    def test_lib(self):
        """lib and hidden folders are no areas"""
        for area in ("lib", ".x", "__pycache__"):
            self.tree.script(f"{area}/t", 1, GOOD)
        self.assertEqual(self.titles(), ["a/one", "a/two", "b/one"])

    def test_list(self):
        """--list shows tests, plans and problems and runs none"""
        self.tree.script("b/bad", None, GOOD)
        lines = self.tree.call("--list")[1].splitlines()
        self.assertIn("a/one  check  host  plan 1", lines)
        self.assertTrue([line for line in lines if line.startswith("b/bad") and "no plan" in line])
        self.assertFalse((self.tree.top / "build").exists())


class Settings(TreeTest):
    def broken(self, *lines, header="", says):
        self.tree.settings("a", *lines)
        self.tree.script("a/t", 2, "echo 1..2; echo ok 1; echo ok 2", header)
        self.assert_counts(self.tree.run("a"), 0, 2, 0, says=says)

    def test_unknown(self):
        """an unknown setting fails the area's tests as planned"""
        self.broken("were=host", says="unknown setting 'were'")

    def test_not_a_pair(self):
        """a line that is not key=value fails the area's tests"""
        self.broken("host", says="settings:1: not key=value: host")

    def test_where(self):
        """a wrong value of where is a failure"""
        self.broken("where=moon", says="must be host or guest")

    def test_timeout(self):
        """a wrong timeout is a failure"""
        self.broken("where=host", header="# settings: timeout=2m", says="timeout=2m")

    def test_suite(self):
        """a suite that does not exist is a failure"""
        self.broken("where=host", "suite=daily", says="suite=daily")

    def test_header(self):
        """a settings comment that is not key=value is a failure"""
        self.broken("where=host", header="# settings: host", says="not key=value: host")

    def test_comments(self):
        """comments and empty lines in a settings file are passed over"""
        self.tree.settings("a", "# words", "", " where = host ")
        self.tree.script("a/t", 1, GOOD)
        self.assert_counts(self.tree.run(), 1, 0, 0)

    def test_same_name(self):
        """a script and a C test with one name are a failure, not a loss"""
        self.tree.settings("a", "where=host")
        self.tree.script("a/t", 1, GOOD)
        source = '#include "tap.h"\nint main(void) { tap_plan(1); tap_ok(1, "x"); return 0; }\n'
        self.tree.write("selftests/a/t.c", source)
        self.assert_counts(self.tree.run(), 1, 1, 0, says="t.sh has the same name as t.c")


class Output(TreeTest):
    def setUp(self):
        super().setUp()
        self.tree.settings("a", "where=host")
        body = "echo 1..3; echo ok 1 x; echo not ok 2 y; echo '# why'; echo 'ok 3 z # SKIP so'; exit 1"
        self.tree.script("a/t", 3, body)

    def test_parts(self):
        """each part shows its counts and its time"""
        outcome = self.tree.run()
        self.assertRegex(outcome.stdout, r"== a: 1 passed, 1 failed, 1 skipped \(\d+\.\d s\)")
        self.assertRegex(outcome.stdout, r"(?m)^ +\d+\.\d +1 +1 +1  a$")
        self.assertNotIn("\033", outcome.stdout)

    def test_report(self):
        """--report holds every case with name, part, status, seconds and message"""
        passed, failed, skipped = self.tree.run().cases()
        self.assertEqual((passed["name"], passed["test"], passed["part"]), ("1 x", "a/t", "a"))
        self.assertEqual((passed["status"], passed["message"]), ("passed", ""))
        self.assertEqual((failed["status"], failed["message"]), ("failed", "# why"))
        self.assertEqual((skipped["status"], skipped["message"]), ("skipped", "so"))
        self.assertGreaterEqual(passed["seconds"], 0)

    def test_json(self):
        """-o json prints one JSON document on standard output and nothing else"""
        outcome = self.tree.run("-o", "json")
        self.assertEqual(json.loads(outcome.stdout)["cases"], outcome.report["cases"])
        self.assertEqual(outcome.stderr.splitlines()[-1], "1 passed, 1 failed, 1 skipped")
        self.assertEqual(outcome.status, 1)

    def test_lost_report(self):
        """a report that cannot be written is not a success"""
        self.tree.script("a/t", 1, GOOD)
        status, output = self.tree.call("--report", "/dev/null/x")
        self.assertEqual((status, output.splitlines()[-1]), (1, "1 passed, 0 failed, 0 skipped"))

    def test_terminal(self):
        """on a terminal there are colours, and the last line is still plain"""
        status, text = self.tree.run_on_terminal()
        self.assertEqual(status, 1)
        lines = text.splitlines()
        self.assertIn("\033[31m", text)
        self.assertEqual(lines[-1].rpartition("\033[K")[2], "1 passed, 1 failed, 1 skipped")

    def test_logs(self):
        """what a part printed is kept in build/selftests/log"""
        self.tree.run()
        self.assertIn("not ok 2 y", (self.tree.top / "build/selftests/log/a.out").read_text())
