"""Records between the host and a worker: what is encoded is parsed again, and anything else is BadRecord."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.pipeline import calls
from pysandbox.pipeline.calls import BadRecord, Record

kinds = st.integers(calls.READY, calls.UNFIT)
ids = st.integers(0, 2**64 - 1)


@given(kinds, ids, st.lists(st.binary(max_size=64), max_size=8))
def test_a_record_comes_back_as_it_was(kind: int, call: int, pieces: list[bytes]) -> None:
    record = Record(kind, call, tuple(map(len, pieces)), b"".join(pieces))
    parsed = calls.parse(calls.encode(record))
    assert parsed == record
    assert [bytes(each) for each in calls.split(parsed.inline, parsed.sizes)] == pieces


@given(st.binary(max_size=200))
def test_whatever_arrives_is_a_record_or_is_refused(data: bytes) -> None:
    for each in (data, calls.MAGIC + data):
        try:
            record = calls.parse(each)
        except BadRecord:
            continue
        assert calls.encode(record) == each


@given(kinds, ids, st.lists(st.integers(0, 2**64 - 1), max_size=20), st.binary(max_size=100))
def test_sizes_are_never_believed(kind: int, call: int, sizes: list[int], data: bytes) -> None:
    raw = calls.encode(Record(kind, call, tuple(sizes), b"")) + data
    try:
        record = calls.parse(raw)
    except BadRecord:
        return
    assert not record.inline or sum(record.sizes) == len(record.inline)


def test_a_record_that_no_socket_holds_is_not_made() -> None:
    for record in (Record(calls.CALL, 1, (1,) * 1025), Record(calls.CALL, 1, (), bytes(calls.INLINE + 1))):
        with pytest.raises(BadRecord):
            calls.encode(record)


def test_pieces_of_a_memfd_begin_where_arrays_like_to() -> None:
    assert calls.places([1, 64, 0, 65]) == ([0, 64, 128, 128], 256)
