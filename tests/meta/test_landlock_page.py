"""The page on landlock isolation names all that stays open there, and every call that is closed."""

from __future__ import annotations

import pytest

from _support.tree import REPOSITORY
from pysandbox.compile.degrade import GAPS
from pysandbox.compile.profiles.arguments import CLOSED_ON_THE_HOST

PAGE = " ".join((REPOSITORY / "docs" / "landlock-mode.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("message", [message for _, _, message in GAPS])
def test_each_gap_is_on_the_page(message: str) -> None:
    assert message in PAGE


def test_each_closed_call_is_on_the_page() -> None:
    assert {name for name in CLOSED_ON_THE_HOST if f"`{name}`" not in PAGE} == set()
