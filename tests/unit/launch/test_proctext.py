"""launch/proctext.py: text that a program of the cage helps to write is parsed to its end, whatever is in it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.launch import proctext

WORDS = [b"Pss:", b"1", b"kB", b")", b"(", b"\n", b"\r", b"\x0b", b"\x85", b" ", b"-1", b"9" * 5000]
TEXTS = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from(WORDS), max_size=30).map(b"".join),
)


@given(TEXTS)
def test_no_text_makes_it_raise(text: bytes) -> None:
    for parse in (proctext.numbers, proctext.lines, proctext.after_name, proctext.sizes, proctext.table):
        parse(text)
    proctext.number(text)
    proctext.field(proctext.after_name(text), 11)


@given(TEXTS)
def test_nothing_but_a_newline_ends_a_line(text: bytes) -> None:
    assert len(proctext.lines(text)) == text.count(b"\n") + 1


def test_a_name_may_hold_brackets_and_newlines() -> None:
    assert proctext.after_name(b"7 (a) R 1\n) S 3 4") == [b"S", b"3", b"4"]


def test_what_is_not_there_is_empty_and_what_is_closed_is_none(tmp_path: Path) -> None:
    (tmp_path / "shown").write_bytes(b"x" * 200_000)
    (tmp_path / "closed").touch(mode=0)
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        assert proctext.read_below(directory, "absent") == b"" and proctext.names_below(directory, "absent") == []
        assert proctext.read_below(directory, "shown", 1 << 20) == b"x" * 200_000
        if os.geteuid():
            assert proctext.read_below(directory, "closed") is None
        with pytest.raises(NotADirectoryError):
            proctext.names_below(directory, "shown")
    finally:
        os.close(directory)


def test_a_shortage_of_the_host_s_is_not_taken_for_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="Too many"):
        proctext.read_below(-1, "stat")
