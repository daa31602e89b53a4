"""Modules from the parts of their sources: a statement runs once in each, and one that has raised has not run."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pysandbox.pipeline import placing

NAME = "module_that_is_placed"


@pytest.fixture(autouse=True)
def cleared() -> Iterator[None]:
    yield
    sys.modules.pop(NAME, None)
    placing._FINDER.sources = {}
    sys.meta_path.remove(placing._FINDER)


def place(*texts: str, at_once: bool = False, around: dict[str, Any] | None = None) -> None:
    code = [((each, 0), marshal.dumps(compile(each, "<placed>", "exec"))) for each in texts]
    placing.place({NAME: ("", code, False, at_once)}, around or {})


def test_a_module_that_could_not_be_imported_is_imported_again() -> None:
    tries: list[int] = []
    place("A = 1", "tries.append(1)", "1 / (len(tries) - 1)", "B = 2", around={"tries": tries})
    with pytest.raises(ZeroDivisionError):
        __import__(NAME)
    assert NAME not in sys.modules
    place("A = 1", around={"tries": tries})  # a call after that one
    place("A = 1", "tries.append(1)", "1 / (len(tries) - 1)", "B = 2", around={"tries": tries})
    found = __import__(NAME)
    assert (found.A, found.B, len(tries)) == (1, 2, 2)


def test_a_module_that_was_taken_away_is_whole_again() -> None:
    place("A = 1")
    first = __import__(NAME)
    del sys.modules[NAME]
    assert __import__(NAME).A == 1 and __import__(NAME) is not first


@pytest.mark.parametrize("at_once", [True, False])
def test_statements_that_have_run_do_not_run_again(at_once: bool) -> None:
    place("A = []", at_once=at_once)
    first = __import__(NAME).A
    place("A = []", "B = 1", at_once=at_once)
    assert __import__(NAME).A is first and __import__(NAME).B == 1


def test_one_that_raises_is_run_again_and_those_before_it_are_not() -> None:
    tries: list[int] = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            place("tries.append(1)", "1 / 0", at_once=True, around={"tries": tries})
    assert tries == [1]
