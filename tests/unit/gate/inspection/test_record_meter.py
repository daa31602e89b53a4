"""gate/inspection/record_meter.py: who sends content is read in large pieces, who does not in small ones, and not for
long; and where records end, wherever what is received was cut."""

from __future__ import annotations

import random

import pytest

from pysandbox.gate.inspection.in_flight import AT_ONCE
from pysandbox.gate.inspection.record_meter import ALLOWED, LEAST, Broken, RecordEnds, RecordMeter

CONTENT, WHOLE = 16384, 16384 + 22


def test_large_records_are_read_in_large_pieces_wherever_they_are_cut() -> None:
    meter, left = RecordMeter(), 0
    for _ in range(200):
        left += meter.most
        meter.took(meter.most, left // WHOLE * CONTENT)
        left %= WHOLE
    assert meter.most == AT_ONCE


def test_it_recovers_from_a_word_that_was_small() -> None:
    meter, left = RecordMeter(), 0
    meter.took(16000, 1)
    assert meter.most == LEAST
    for _ in range(60):
        left += meter.most
        meter.took(meter.most, left // WHOLE * CONTENT)
        left %= WHOLE
    assert meter.most == AT_ONCE


def test_what_says_nothing_is_read_in_small_pieces_and_ends() -> None:
    meter, came = RecordMeter(), 0
    with pytest.raises(Broken):
        while True:
            came += meter.most
            meter.took(meter.most, 0)
    assert came <= ALLOWED + LEAST and meter.most == LEAST


def test_a_byte_in_each_record_is_content() -> None:
    meter = RecordMeter()
    for _ in range(100_000):
        meter.took(85, 1)
    assert meter.most == LEAST


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


def test_records_are_counted_where_they_end() -> None:
    ends = RecordEnds()
    assert ends.came(record(1024)) == 1 and ends.came(record(0)) == 1
    assert ends.came(record(1024) + record(1)) == 2
    assert ends.came(record(5)[:3]) == 0 and not ends.is_whole
    assert ends.came(record(5)[3:] + record(5)[:6]) == 1 and not ends.is_whole
    assert ends.came(record(5)[6:] + record(5)) == 2 and ends.is_whole


@pytest.mark.parametrize("seed", range(20))
def test_records_end_where_they_end_wherever_they_are_cut(seed: int) -> None:
    chosen, ends = random.Random(seed), RecordEnds()
    sizes = [chosen.choice((0, 1, 4, 17, 300)) for _ in range(100)]
    said, places, at = b"".join(map(record, sizes)), {0}, 0
    for size in sizes:
        places.add(at := at + 5 + size)
    at = 0
    while at < len(said):
        begun, at = at, min(at + chosen.choice((1, 2, 3, 5, 6, 22, 305)), len(said))
        ended = sum(begun < each <= at for each in places)
        assert ends.came(said[begun:at]) == ended and ends.is_whole == (at in places)
