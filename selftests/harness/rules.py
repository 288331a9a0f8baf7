# SPDX-License-Identifier: GPL-2.0
"""The rules of counting for one TAP test: each case breaks the protocol in one way."""
import pathlib

from fixture import TreeTest


class Rules(TreeTest):
    def test_plain(self):
        """ok and not ok are counted"""
        outcome = self.run_script(3, "echo 1..3; echo ok 1 a; echo not ok 2 b; echo ok 3 c; exit 1")
        self.assert_counts(outcome, 2, 1, 0)

    def test_all_well(self):
        """all ok gives exit status 0"""
        self.assert_counts(self.run_script(2, "echo 1..2; echo ok 1 - a; echo ok 2"), 2, 0, 0)

    def test_failure_text(self):
        """a failure shows its name and the diagnostics that follow it, not those of others"""
        outcome = self.run_script(2, "echo 1..2; echo ok 1 a; echo '# of-a'; echo not ok 2 b; echo '# got: 7'; exit 1")
        self.assert_counts(outcome, 1, 1, 0, says="2 b: # got: 7")
        self.assertNotIn("of-a", outcome.messages())
        self.assertIn("FAILED a/t: 2 b", outcome.stdout)

    def test_stderr(self):
        """standard error is shown with a failure and cannot count as a result"""
        outcome = self.run_script(2, "echo 1..2; echo not ok 1 a; sleep 0.2; echo ok 2 b >&2; sleep 0.2; exit 1")
        self.assert_counts(outcome, 0, 2, 0, says="# ! ok 2 b")

    def test_no_literal(self):
        """a file without a literal plan is one failure"""
        outcome = self.run_script(None, "echo 1..1; echo ok 1 a")
        self.assert_counts(outcome, 0, 1, 0, says="no plan in selftests/a/t.sh")

    def test_variable_plan(self):
        """a plan that is a variable is no literal"""
        self.assert_counts(self.run_script("$n", "echo 1..1; echo ok 1 a"), 0, 1, 0, says="no plan")

    def test_two_literals(self):
        """two different literal plans are a failure"""
        self.assert_counts(self.run_script(2, "plan 3; echo 1..2; echo ok 1; echo ok 2"), 0, 1, 0, says="several plans")

    def test_zero_plan(self):
        """a plan of 0 is a failure"""
        self.assert_counts(self.run_script(0, "echo 1..0"), 0, 1, 0, says="plan of 0")

    def test_no_plan_line(self):
        """a missing plan line in the output is a failure"""
        self.assert_counts(self.run_script(1, "echo ok 1 a"), 1, 1, 0, says="no plan line")

    def test_other_plan_line(self):
        """a plan line that differs from the source is a failure"""
        self.assert_counts(self.run_script(2, "echo 1..1; echo ok 1; echo ok 2"), 2, 1, 0, says="plans 1..1")

    def test_twice_planned(self):
        """two plan lines are a failure"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo 1..1; echo ok 1"), 1, 1, 0, says="several plan lines")

    def test_late_plan_line(self):
        """the plan line may come at the end"""
        self.assert_counts(self.run_script(1, "echo ok 1; echo 1..1"), 1, 0, 0)

    def test_missing(self):
        """tests without a result are failed"""
        self.assert_counts(self.run_script(4, "echo 1..4; echo ok 1 a; echo ok 2 b"), 2, 2, 0, says="no result")

    def test_silent(self):
        """a test that prints nothing fails as often as it planned"""
        self.assert_counts(self.run_script(5, "exit 0"), 0, 5, 0, says="no result: exit status 0")

    def test_too_many(self):
        """a number above the plan is a failure"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo ok 1; echo ok 2"), 1, 1, 0, says="outside the plan")

    def test_number_zero(self):
        """a test number 0 is a failure"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo ok 0; echo ok 1"), 1, 1, 0, says="outside the plan")

    def test_duplicate(self):
        """a number that comes twice is a failure"""
        self.assert_counts(self.run_script(2, "echo 1..2; echo ok 1; echo ok 1; echo ok 2"), 2, 1, 0, says="came twice")

    def test_duplicate_hides_nothing(self):
        """a repeated ok does not mend a not ok"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo not ok 1; echo ok 1"), 0, 2, 0)

    def test_out_of_order(self):
        """a number out of order is a failure"""
        self.assert_counts(self.run_script(2, "echo 1..2; echo ok 2; echo ok 1"), 1, 1, 0, says="out of order")

    def test_unnumbered(self):
        """results without numbers are numbered in order"""
        self.assert_counts(self.run_script(2, "echo 1..2; echo ok; echo not ok; exit 1"), 1, 1, 0)

    def test_other_lines(self):
        """lines that only resemble results are not results"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo okay 1; echo '  ok 1'; echo ok 1; echo ok-2"), 1, 0, 0)

    def test_skip(self):
        """a skip with a reason is skipped and its reason is shown"""
        outcome = self.run_script(2, "echo 1..2; echo ok 1 a; echo 'ok 2 b # SKIP no disk'")
        self.assert_counts(outcome, 1, 0, 1)
        self.assertIn("a/t: 2 b: no disk", outcome.stdout)

    def test_skip_without_reason(self):
        """a skip without a reason is a failure"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo 'ok 1 b # SKIP'"), 0, 1, 0, says="without a reason")

    def test_failed_skip(self):
        """not ok stays a failure with # SKIP"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo 'not ok 1 b # SKIP why'; exit 1"), 0, 1, 0)

    def test_todo(self):
        """TODO is a failure, with ok and with not ok"""
        outcome = self.run_script(2, "echo 1..2; echo 'ok 1 # TODO later'; echo 'not ok 2 # todo later'")
        self.assert_counts(outcome, 0, 2, 0, says="marked TODO")

    def test_hash_in_name(self):
        """a # in a name is no directive"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo 'ok 1 issue #5 todo'"), 1, 0, 0)

    def test_skip_all(self):
        """exit status 4 without results skips the whole plan"""
        outcome = self.run_script(3, "echo '# SKIP no device'; exit 4")
        self.assert_counts(outcome, 0, 0, 3)
        self.assertIn("no device", outcome.messages("skipped"))

    def test_skip_all_plan_line(self):
        """1..0 # SKIP reason with exit status 4 skips the whole plan"""
        outcome = self.run_script(2, "echo '1..0 # SKIP too old'; exit 4")
        self.assert_counts(outcome, 0, 0, 2)
        self.assertIn("too old", outcome.messages("skipped"))

    def test_skip_all_without_reason(self):
        """exit status 4 without a reason is a failure"""
        self.assert_counts(self.run_script(2, "echo 1..2; exit 4"), 0, 2, 0, says="without a reason")

    def test_skip_all_status_0(self):
        """1..0 # SKIP with exit status 0 is a failure"""
        self.assert_counts(self.run_script(2, "echo '1..0 # SKIP too old'"), 0, 3, 0, says="no result")

    def test_skip_all_after_results(self):
        """exit status 4 after results does not skip the rest"""
        outcome = self.run_script(2, "echo 1..2; echo ok 1; echo '# SKIP x'; exit 4")
        self.assert_counts(outcome, 1, 1, 0, says="exit status 4")

    def test_exit_status(self):
        """a bad exit status with all ok is one failure more"""
        self.assert_counts(self.run_script(2, "echo 1..2; echo ok 1; echo ok 2; exit 3"), 2, 1, 0, says="exit status 3")

    def test_signal(self):
        """death by a signal with all ok is one failure more"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo ok 1; kill -SEGV $$"), 1, 1, 0, says="signal 11")

    def test_bail(self):
        """Bail out! fails what has no result"""
        self.assert_counts(self.run_script(3, "echo 1..3; echo ok 1; echo 'Bail out! broken'"), 1, 2, 0, says="broken")

    def test_late_bail(self):
        """Bail out! after all results is one failure more"""
        self.assert_counts(self.run_script(1, "echo 1..1; echo ok 1; echo 'Bail out! broken'"), 1, 1, 0, says="broken")

    def test_not_executable(self):
        """a script that cannot be executed fails as planned"""
        self.tree.settings("a", "where=host")
        self.tree.script("a/t", 2, "echo ok 1")
        (self.tree.top / "selftests/a/t.sh").chmod(0o644)
        self.assert_counts(self.tree.run(), 0, 2, 0, says="Permission denied")

    def test_timeout(self):
        """a test that takes too long fails what has no result and runs its cleanup"""
        mark = self.tree.top / "cleaned"
        body = f"trap 'touch {mark}; exit 1' TERM; echo 1..2; echo ok 1; sleep 60 & wait"
        self.assert_counts(self.run_script(2, body, "# settings: timeout=1"), 1, 1, 0, says="timed out after 1 s")
        self.assertTrue(mark.exists())

    def test_timeout_after_results(self):
        """a test that hangs after all results is one failure more"""
        outcome = self.run_script(1, "echo 1..1; echo ok 1; sleep 60", "# settings: timeout=1")
        self.assert_counts(outcome, 1, 1, 0, says="timed out")

    def test_next_after_timeout(self):
        """the next test runs after one that ran out of time"""
        self.tree.script("a/u", 1, "echo 1..1; echo ok 1")
        outcome = self.run_script(1, "trap '' TERM; sleep 60; sleep 60", "# settings: timeout=1")
        self.assert_counts(outcome, 1, 1, 0, says="timed out")

    def test_left_processes(self):
        """processes that a test leaves behind are killed, also in a session of their own"""
        body = f"echo 1..1; setsid sleep 300 & echo $! >{self.tree.top}/pid; sleep 0.3; echo ok 1"
        self.assert_counts(self.run_script(1, body), 1, 0, 0)
        pid = (self.tree.top / "pid").read_text().strip()
        self.assertFalse(pathlib.Path("/proc", pid).exists())

    def test_no_final_newline(self):
        """a last line without newline counts and harms no other test"""
        self.tree.script("a/u", 1, "echo 1..1; echo ok 1")
        self.assert_counts(self.run_script(1, "echo 1..1; printf 'ok 1'"), 2, 0, 0)

    def test_false_marker(self):
        """a test cannot end its own frame"""
        body = "echo 1..2; echo ok 1; echo '@0123456789abcdef01234567 end 0 0 0.1'; echo '@x end 0 0 0.1'; echo ok 2"
        self.assert_counts(self.run_script(2, body), 2, 0, 0)

    def test_long_failure(self):
        """a long failure is shown in part, with its end"""
        outcome = self.run_script(1, "echo 1..1; echo not ok 1; seq -f '# row-%g-' 1 5000; exit 1")
        self.assert_counts(outcome, 0, 1, 0)
        self.assertLess(len(outcome.stdout.splitlines()), 90)
        self.assertIn("row-5000-", outcome.stdout)
        self.assertIn("lines left out", outcome.stdout)

    def test_flood(self):
        """a flood of output without line ends neither fills the memory nor hides that results are missing"""
        outcome = self.run_script(2, "echo 1..2; echo ok 1; head -c 30M /dev/zero | tr '\\0' x; echo; echo ok 2")
        self.assert_counts(outcome, 1, 1, 0, says="output cut")

    def test_control_characters(self):
        """what a test prints cannot steer the terminal or forge the last line"""
        outcome = self.run_script(1, r"echo 1..1; echo not ok 1; printf '# \033[2J\r9 passed\n'; exit 1")
        self.assert_counts(outcome, 0, 1, 0)
        self.assertNotIn("\033", outcome.stdout)
        self.assertNotIn("\r", outcome.stdout)

    def test_control_characters_in_names(self):
        """neither can the name of a result or the reason of a skip, on a terminal with colours either"""
        body = r"echo 1..2; printf 'not ok 1 \033[2Ja\n'; printf 'ok 2 \033[2Jb # SKIP \033[2Jc\n'; exit 1"
        self.tree.settings("a", "where=host")
        self.tree.script("a/t", 2, body)
        status, text = self.tree.run_on_terminal()
        self.assertEqual(status, 1)
        self.assertIn("\033[31m", text)
        self.assertNotIn("\033[2J", text)
        self.assertIn("?[2Jc", text)
