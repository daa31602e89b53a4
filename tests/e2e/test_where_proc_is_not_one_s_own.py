"""A program whose /proc is missing, of another PID namespace, or not its own to write: what is wrong is said."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

LIMIT = 60.0
START = """
from pysandbox import Cage
from pysandbox.errors import UnsupportedError
try:
    print(Cage().run(["true"]).exit_code)
except UnsupportedError as error:
    print(error)
"""
UNDUMPABLE = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # PR_SET_DUMPABLE


def said_by(*before: str, code: str = START) -> str:
    if before and shutil.which(before[0]) is None:
        pytest.skip(f"{before[0]} is missing")
    done = subprocess.run([*before, sys.executable, "-c", code], cwd="/", capture_output=True, text=True, timeout=LIMIT)
    return done.stdout + done.stderr


def test_a_program_with_its_own_starts_cages() -> None:
    """The control, in the namespaces of the attempts below."""
    assert said_by() == "0\n"
    assert said_by("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc") == "0\n"


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        (("unshare", "--map-root-user", "--pid", "--fork"), "/proc is that of another PID namespace"),
        (("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/proc"), "/proc is not mounted"),
        (("unshare", "--user"), "this program's user namespace has no ids"),
    ],
    ids=["foreign", "absent", "without ids"],
)
def test_what_is_wrong_with_it_is_named(before: tuple[str, ...], cause: str) -> None:
    assert cause in said_by(*before)


def test_a_program_that_is_not_dumpable_is_told_so() -> None:
    assert "this program is not dumpable" in said_by(code=UNDUMPABLE + START)


@pytest.mark.root
def test_a_server_that_gave_up_root_is_told_what_helps_and_it_does() -> None:
    become = "import os; os.setgroups([]); os.setresgid(12345, 12345, 12345); os.setresuid(12345, 12345, 12345)\n"
    assert "call prctl(PR_SET_DUMPABLE, 1)" in said_by(code=become + START)
    assert said_by(code=become + UNDUMPABLE.replace("4, 0", "4, 1") + START) == "0\n"
