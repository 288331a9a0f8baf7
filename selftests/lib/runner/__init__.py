# SPDX-License-Identifier: GPL-2.0
"""The test runner and reporter behind selftests/run.

model.py     what a test, a part (one boot, one host area, the unit tests) and a case (one counted result) are
discover.py  finds tests, their settings and the number of cases each of them promises
build.py     compiles the C tests
process.py   starts children, reads their output, ends them
session.py   runs a list of TAP tests, in a virtual machine or on the host, through lib/guest-run
tap.py       turns the output of one TAP test into cases: the rules of counting
gtest.py     the same for one GoogleTest binary
report.py    prints, writes the JSON report and the last line
main.py      options, and which test goes into which part
"""
