"""What the reader says is read by a parser that takes anything: a record of a known kind, or an error."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.gate.askers import DoorClient
from pysandbox.gate.dns.message import LONGEST_NAME
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import BadChannelRecord, ChannelRecord
from pysandbox.gate.reading.kinds import FIELDS, FROM_READER, Verb, labels_of, number, read_peer, write_peer

PEERS = (None, DoorClient("udp", ("198.18.0.1", 5353)), DoorClient("tcp", ("127.0.0.1", 1), ("203.0.113.9", 65535)))


@given(st.sampled_from(sorted(FIELDS)), st.integers(0, 2**64 - 1), st.data())
def test_every_kind_comes_back_as_it_was_sent(kind: Verb, which: int, data: st.DataObject) -> None:
    fields = tuple(data.draw(st.binary(max_size=9)) for _ in range(FIELDS[kind]))
    record = ChannelRecord(kind, which, fields)
    assert channel.decode(channel.encode(record), FIELDS) == record


@given(st.binary(max_size=200))
def test_anything_else_is_a_record_or_an_error(said: bytes) -> None:
    with suppress(BadChannelRecord):
        record = channel.decode(said, FIELDS)
        assert len(record.fields) == FIELDS[Verb(record.kind)]


@given(st.integers(0, 255), st.integers(0, 9))
def test_a_kind_has_its_number_of_fields(kind: int, count: int) -> None:
    said = channel.HEAD.pack(kind, 1, count) + channel.SIZE.pack(0) * count
    if kind in FIELDS and FIELDS[Verb(kind)] == count:
        assert channel.decode(said, FIELDS).kind == kind
    else:
        with pytest.raises(BadChannelRecord):
            channel.decode(said, FIELDS)


def test_each_kind_is_somebody_s_to_send() -> None:
    assert FROM_READER < set(Verb) == set(FIELDS)


@pytest.mark.parametrize("peer", PEERS, ids=str)
def test_a_peer_comes_back_as_it_was_written(peer: DoorClient | None) -> None:
    assert read_peer(write_peer(peer)) == peer


@given(st.binary(max_size=60) | st.from_regex(rb"(udp|tcp)( [0-9.]{1,15} [0-9]{1,6}){1,2}", fullmatch=True))
def test_any_other_peer_is_an_error(said: bytes) -> None:
    with suppress(ValueError):
        peer = read_peer(said)
        assert peer is None or (peer.protocol in ("tcp", "udp") and 0 <= peer.local[1] <= 65536)


@given(st.binary(max_size=30))
def test_a_number_is_decimal_and_bounded(said: bytes) -> None:
    with suppress(ValueError):
        assert 0 <= number(said, 99) <= 99


@given(st.binary(max_size=300))
def test_labels_are_those_of_a_name_or_an_error(said: bytes) -> None:
    with suppress(ValueError):
        labels = labels_of(said)
        assert b"".join(bytes((len(each),)) + each for each in labels) == said and len(said) <= LONGEST_NAME
