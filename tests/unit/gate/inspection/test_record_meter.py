"""gate/inspection/record_meter.py: who sends content is read in large pieces, who does not in small ones, and not for
long."""

from __future__ import annotations

import pytest

from pysandbox.gate.inspection.in_flight import AT_ONCE
from pysandbox.gate.inspection.record_meter import ALLOWED, LEAST, Broken, RecordMeter

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
