"""records/registry.py and launch/owner.py: a record is read as it was written, or not at all."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.launch.owner import Owner
from pysandbox.launch.private import naming
from pysandbox.records.registry import LONGEST_ARGV, CageRecord, parse, shortened, write_whole

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


def test_what_was_written_ahead_is_room_that_nobody_takes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given back before the outcome was written, for another cage's output to fill the disk."""
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    write_whole(folder, "x", bytes(8192))
    room: list[int] = []

    def write(fd: int, data: bytes) -> int:
        room.append(os.fstat(fd).st_size)
        return os.pwrite(fd, data, os.lseek(fd, 0, os.SEEK_CUR))

    monkeypatch.setattr("pysandbox.records.registry.os.write", write)
    write_whole(folder, "x", b"short")
    os.close(folder)
    assert room == [8192] and (tmp_path / "x").read_bytes() == b"short"


@pytest.mark.parametrize(("name", "told"), [("x", "/place/x"), (None, "/place"), (7, "/place")])
def test_what_there_is_no_room_for_is_named_though_it_was_reached_by_a_descriptor(name: object, told: str) -> None:
    with pytest.raises(OSError, match="make room there") as caught, naming("/place"):
        raise OSError(errno.ENOSPC, "No space left on device", name)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, told)


def test_another_error_that_names_a_descriptor_is_told_as_it_is() -> None:
    with pytest.raises(OSError, match="Input/output") as caught, naming("/place"):
        raise OSError(errno.EIO, "Input/output error", 7)
    assert caught.value.filename == 7
