"""What type checkers are told of a Policy is what it takes: the samples of tests/typing, as values."""

from __future__ import annotations

import runpy
from collections import deque
from pathlib import Path

import pytest

from _support.tree import REPOSITORY
from pysandbox import Grant, Policy, PolicyError
from pysandbox.policy.accepted import ACCEPTED
from pysandbox.policy.validate import KINDS

SAMPLES = REPOSITORY / "tests" / "typing" / "policy.py"
WRONG = [line.strip() for line in SAMPLES.read_text(encoding="utf-8").splitlines() if "# wrong" in line]


def test_each_kind_of_field_says_what_is_accepted() -> None:
    assert ACCEPTED.keys() == KINDS.keys()


def test_what_the_checkers_accept_is_accepted() -> None:
    assert runpy.run_path(str(SAMPLES))["kept"] == (Grant("/home/me"),)


@pytest.mark.parametrize("line", [line for line in WRONG if line.startswith(("Policy", "mine"))])
def test_what_they_refuse_is_refused(line: str) -> None:
    with pytest.raises(PolicyError):
        eval(line, runpy.run_path(str(SAMPLES)))


def test_any_sequence_is_a_list_but_a_string_of_bytes() -> None:
    assert Policy(allow=deque(["/a", Path("/b")])).allow == (Grant("/a"), Grant("/b"))
    for given in (b"/a", bytearray(b"/a")):
        with pytest.raises(PolicyError, match="list of paths"):
            Policy(allow=given)
