"""cli/cages.py: a cage is named by enough of its id, and what it calls itself is not trusted with the terminal."""

from __future__ import annotations

import pytest

from pysandbox.cli.cages import find, printable
from pysandbox.cli.flags import UsageError

IDS = ["01M80JAAAA0001", "01M80JAAAA0002", "01M80JBBBB0003"]


@pytest.mark.parametrize(
    ("text", "found"), [("0003", IDS[2]), ("01M80JB", IDS[2]), (IDS[0], IDS[0]), ("aaaa0002", IDS[1])]
)
def test_an_end_or_a_beginning_is_enough(text: str, found: str) -> None:
    assert find(text, IDS) == found


@pytest.mark.parametrize(
    ("text", "reason"), [("01M80JAAAA", "2 cages"), ("9999", "no live cage"), ("3", "too short"), ("", "too short")]
)
def test_what_names_no_single_cage_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        find(text, IDS)


def test_a_command_line_cannot_speak_to_the_terminal() -> None:
    assert printable("a\x1b[2Jb\nc", 80) == "a\\x1b[2Jb\\nc"
    assert printable("x" * 30, 10) == "x" * 9 + "…"
