"""records/registry.py and launch/owner.py: a record is read as it was written, or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.launch.owner import Owner
from pysandbox.records.registry import LONGEST_ARGV, CageRecord, parse, shortened

OWNER = Owner(4026531836, 12, 345)
RECORD = CageRecord("01ID", OWNER, OWNER, ("sh", "-c", "true"), "digest", 1.5, "/cg", "/tmp/s", True, "key")


def text_of(**changes: object) -> bytes:
    return json.dumps(asdict(RECORD) | changes).encode()


def test_a_record_reads_back_equal() -> None:
    assert parse(text_of(), "01ID") == RECORD


def test_a_record_under_another_name_is_none() -> None:
    assert parse(text_of(), "02ID") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 1}, {"init": None}, {"init": [1, 2]}, {"init": ["a", "b", "c"]}, {"host": {}}, {"argv": 5},
        {"started": "now"}, {"cgroup": ["/"]}, {"key": None}, {"unknown": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_a_record_is_none(changes: dict[str, object]) -> None:
    assert parse(text_of(**changes), "01ID") is None


@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    assert parse(data, "01ID") is None


@given(st.lists(st.text(), max_size=20))
def test_a_command_line_is_kept_up_to_a_bound(argv: list[str]) -> None:
    kept = shortened(tuple(argv))
    assert sum(len(each.encode()) for each in kept) <= LONGEST_ARGV + len("...")
    if sum(len(each.encode(errors="replace")) + 1 for each in argv) < LONGEST_ARGV:
        assert len(kept) == len(argv)


def test_a_long_command_line_says_that_it_goes_on() -> None:
    assert shortened(("x" * LONGEST_ARGV, "y")) == ("x" * LONGEST_ARGV, "...")


def test_an_owner_reads_back_from_its_name() -> None:
    assert Owner.parse(str(OWNER)) == OWNER


@pytest.mark.parametrize("text", ["", "1-2", "1-2-3-4", "a-b-c", "1--3", "-1-2-3", "١-2-3", "1-2-" + "9" * 30])
def test_what_is_no_owner_is_none(text: str) -> None:
    assert Owner.parse(text) is None
