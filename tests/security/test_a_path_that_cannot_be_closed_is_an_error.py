"""Claim: deny_path closes what it is given, or says that it cannot; and whatever it was asked before, the next denial
holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage
from pysandbox.errors import PolicyError

from .harness import in_cage, policy, program

ODD: dict[str, tuple[Any, type[BaseException]]] = {
    "the root": ("/", PolicyError), "the root again": ("//", PolicyError), "above the root": ("/..", PolicyError),
    "the root by a link": ("GRANT/to-root", PolicyError), "below proc": ("/proc/..", PolicyError),
    "self": ("/proc/self", PolicyError), "a thread": ("//proc/thread-self/fd", PolicyError),
    "descriptors": ("/dev/fd/0", PolicyError), "init": ("/proc/1", PolicyError), "stdin": ("/dev/stdin", PolicyError),
    "self, dotted": ("/dev/../proc/self", PolicyError),
    "relative": ("secret", ValueError), "nothing": ("", ValueError), "dot": (".", ValueError),
    "home": ("~/x", ValueError),
    "a NUL": ("/etc\0/x", ValueError), "None": (None, TypeError), "a number": (5, TypeError),
    "absent": ("/nowhere", FileNotFoundError), "below a file": ("/etc/passwd/x", NotADirectoryError),
    "too long": ("/" + "a" * 5000, OSError), "no text": ("/\udcff", FileNotFoundError),
    "loop": ("GRANT/loop", OSError),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("f")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "inner").write_text("i")
    (tmp_path / "to-root").symlink_to("/")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


READ = "attempt('read', lambda: open(PATH).read())"


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_closed_is_an_error_and_disarms_nothing(name: str, tree: Path) -> None:
    path, error = ODD[name]
    given = path.replace("GRANT", str(tree)) if isinstance(path, str) else path
    with Cage(policy(allow=[str(tree)]), watch=["network"]) as cage:
        with pytest.raises(error):
            cage.context.deny_path(given)
        assert in_cage(cage, program(READ, PATH=str(tree / "file")))["read"].errno is None  # the control
        cage.context.deny_path(str(tree / "file"))
        assert in_cage(cage, program(READ, PATH=str(tree / "file")))["read"].errno == "EACCES"


def test_what_is_closed_is_closed_twice(tree: Path) -> None:
    with Cage(policy(allow=[str(tree)]), watch=["network"]) as cage:
        for path in (tree / "file", tree / "d"):
            for _ in range(3):
                cage.context.deny_path(path)
        for path in (tree / "file", tree / "d" / "inner"):
            assert in_cage(cage, program(READ, PATH=str(path)))["read"].errno == "EACCES"


def test_what_is_everywhere_can_be_closed() -> None:
    with Cage(policy(), watch=["network"]) as cage:
        for path in ("/dev/null", "/proc/sys", b"/etc/passwd", "/tmp"):
            cage.context.deny_path(path)  # type: ignore[arg-type]
        for path in ("/dev/null", "/proc/sys/vm/swappiness", "/etc/passwd"):
            assert in_cage(cage, program(READ, PATH=path), stdin=None)["read"].errno == "EACCES"


def test_the_numbers_that_limits_take_are_checked() -> None:
    with Cage(policy(), watch=["network"]) as cage:
        context: Any = cage.context
        for value in (0, -1, True, 1.5, "3", None, 2**70):
            for method in (context.restrict_max_processes, context.restrict_max_memory):
                with pytest.raises(PolicyError):
                    method(value)
        for value in (None, 5, [5], "x", ["x"], {1: 2}, [b"1"]):
            with pytest.raises(PolicyError):
                context.restrict_network(value)
