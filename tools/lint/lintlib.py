# SPDX-License-Identifier: GPL-2.0
"""What the checks in this folder share: the list of files, and the command line.

A check is a script with a function check(root) that returns its findings, one
line each, and with examples: trees it must accept and trees it must not. The
examples are run by --self-test, in a repository made for the purpose, so that a
check that has stopped finding anything is noticed.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE_SUFFIXES = {".c", ".h", ".cpp", ".hpp", ".S", ".py", ".sh", ".cmake", ".mk"}
CODE_NAMES = {"Makefile", "Kbuild", "CMakeLists.txt"}


@dataclass
class Example:
    """A small tree. `finds` is a part of the one finding expected; empty: none."""

    name: str
    files: dict  # path -> text or bytes
    finds: str = ""
    executable: set = field(default_factory=set)
    subject: str = "lint: an example"


def git_command(root, *arguments):
    """A git command in root, which may belong to another user, as in CI."""
    return ("git", "-c", f"safe.directory={root}", "-C", str(root), *arguments)


def git(root, *arguments):
    """The standard output of a git command in root."""
    try:
        return subprocess.run(git_command(root, *arguments), check=True, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE).stdout
    except FileNotFoundError:
        sys.exit("git not found (hint: apt-get install git)")
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["no message"]
        sys.exit(f"lint needs a git clone: git {arguments[0]}: {said[0]}")


def tracked(root):
    """Paths of tracked regular files that exist, relative to root."""
    for entry in git(root, "ls-files", "-z", "--stage").split("\0"):
        if not entry:
            continue
        mode, path = entry.split()[0], entry.split("\t", 1)[1]
        if mode.startswith("100") and (root / path).is_file():
            yield pathlib.PurePosixPath(path)


def read_text(root, path):
    """The text of a file, or None if it is not text."""
    data = (root / path).read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def is_code(path, text):
    """Whether a file is source code, by its name or its shebang."""
    return path.suffix in CODE_SUFFIXES or path.name in CODE_NAMES or text.startswith("#!")


def _plant(root, example):
    git(root, "init", "-q", "-b", "main")
    for path, content in example.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        if path in example.executable:
            target.chmod(0o755)
    git(root, "add", "-A")
    git(root, "-c", "user.name=lint", "-c", "user.email=lint@localhost", "commit", "-q",
        "--no-verify", "--no-gpg-sign", "-m", example.subject)


def _self_test(check, examples):
    failures = []
    for example in examples:
        with tempfile.TemporaryDirectory(prefix="uhsfs-lint.") as folder:
            root = pathlib.Path(folder).resolve()
            _plant(root, example)
            found = check(root)
        expected = f"one finding with '{example.finds}'" if example.finds else "no finding"
        right = (len(found) == 1 and example.finds in found[0]) if example.finds else not found
        if not right:
            failures.append(f"self-test: {example.name}: expected {expected}, got {found}")
    return failures


def main(check, examples, fix=None, check_example=None):
    """The command line of a check: exit 1 with findings on standard output.

    fix(root) changes the files, where a check can; check_example(root) replaces
    check where an example needs preparing."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--self-test", action="store_true",
                        help="show that violations are found and clean files accepted")
    if fix:
        parser.add_argument("--fix", action="store_true", help="change the files instead")
    arguments = parser.parse_args()
    # A hook or an enclosing git command must not redirect us to its repository.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    if arguments.self_test:
        findings = _self_test(check_example or check, examples)
    elif fix and arguments.fix:
        findings = fix(ROOT) or []
    else:
        findings = check(ROOT)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


def need(command, package):
    """Exit with a hint when a command is missing."""
    found = subprocess.run(("sh", "-c", f"command -v {command}"), stdout=subprocess.DEVNULL)
    if found.returncode != 0:
        sys.exit(f"{command} not found (hint: apt-get install {package})")
