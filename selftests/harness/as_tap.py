# SPDX-License-Identifier: GPL-2.0
"""as_tap.py MODULE: run the unittest cases of a module of this folder, one TAP result line each (the caller plans)."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True


class TapResult(unittest.TestResult):
    """Prints each case as it ends."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def line(self, passed, test, note=""):
        self.count += 1
        name = (test.shortDescription() or str(test)).replace("#", "")
        print(f"{'ok' if passed else 'not ok'} {self.count} {name}{note}", flush=True)

    def trouble(self, test, error):
        self.line(False, test)
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

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(True, test, f" # SKIP {reason}")


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
