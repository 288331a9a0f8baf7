# SPDX-License-Identifier: GPL-2.0
"""as_tap.py FILE: run the unittest cases of a Python file, one TAP result line each (the caller plans)."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True


class TapResult(unittest.TestResult):
    """Prints each case as it ends."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.broken = []        # (subtest, error) of the case that runs

    def line(self, passed, test, note=""):
        self.count += 1
        name = (test.shortDescription() or str(test)).replace("#", "")
        print(f"{'ok' if passed else 'not ok'} {self.count} {name}{note}", flush=True)

    def trouble(self, test, error):
        self.line(False, test)
        self.explain(test, error)

    def explain(self, test, error):
        for text in self._exc_info_to_string(error, test).splitlines():
            print(f"# {text}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(True, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.trouble(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.trouble(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.broken.append((subtest, err))

    def stopTest(self, test):
        """unittest adds no result of its own to a case with broken subtests."""
        super().stopTest(test)
        if self.broken:
            self.line(False, test)
        for subtest, error in self.broken:
            print(f"# {subtest}", flush=True)
            self.explain(test, error)
        self.broken = []

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, f" # SKIP {reason}")


def main():
    file = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(file.parent))
    suite = unittest.defaultTestLoader.loadTestsFromName(file.stem)
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
