"""What a template says of itself fits into one message."""

from __future__ import annotations

import json

import pytest

from pysandbox.pipeline.worker import LONGEST, MOST_TOLD, shortened


@pytest.mark.parametrize("letter", ["x", "\N{SNOWMAN}", "\N{GRINNING FACE}", "\0"])
def test_a_long_traceback_keeps_its_beginning_and_its_end(letter: str) -> None:
    told = shortened(f"what it is{letter * 100_000}where it was")
    assert told.startswith("what it is") and told.endswith("where it was")
    assert len(json.dumps({"failed": told}).encode()) <= LONGEST


def test_a_short_one_is_told_as_it_is() -> None:
    assert shortened("x" * MOST_TOLD) == "x" * MOST_TOLD
