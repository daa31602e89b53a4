"""Claim: what is compressed in a body, or as a whole, is undone in steps of bounded work, whatever it says: a stream
that takes much and says nothing is charged for what it takes. No body stops the inspector of a Runtime, which would be
ended for it, and its hosts closed to all other cages.
"""

from __future__ import annotations

import base64
import gzip
import random
import zlib
from pathlib import Path

import brotli
import pytest
from backports import zstd

from _support.generators import returned
from _support.scanned import SCAN, another_cage_is_answered_beside, post
from pysandbox.dlp.decode import COST_OF_A_TRY, inflated
from pysandbox.dlp.passes import LARGE
from pysandbox.dlp.work import Undecodable, Work
from pysandbox.gate.inspection.codings import plain

MIB = 1 << 20
MOST = 8 * MIB
NAMED = b"\x1f\x8b\x08\x08" + b"\x01" * 6  # the head of a gzip file whose name goes on to the next NUL
LETTERS = base64.b64encode(random.Random(5).randbytes(MIB))
ATTACKS = {
    "heads of gzip, each the name of the one before": b"\xff" + b"\x1f\x8b\x08" * MIB,
    "names without an end": NAMED * 2000 + b"\x01\xff" * (2 * MIB),
    "blocks of nothing": b"\xff" + NAMED + b"\0" + b"\0\0\0\xff\xff" * (MIB // 2),
    "many members": gzip.compress(b"x") * 100_000,
    "zeros": b"\xff" + gzip.compress(bytes(MOST)),
    "zeros of zstd": b"\xff" + zstd.compress(bytes(MOST)),
    "letters": b"\xff" + gzip.compress(LETTERS * 4),
}


# ---- what is undone between two steps --------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_compressed_in_a_body_is_undone_in_steps(attack: str) -> None:
    said, since, most = ATTACKS[attack], 0, 0
    work = Work(len(said))

    def charge(size: int) -> None:
        nonlocal since
        since += size
        work.take(size)

    before = work.left
    try:
        for _ in inflated(said, charge):
            most, since = max(most, since), 0
    except Undecodable:
        pass
    assert before - work.left > 16 * LARGE  # the control: there is much to do
    assert most <= 2 * LARGE + COST_OF_A_TRY


@pytest.mark.parametrize("attack", ["heads of gzip, each the name of the one before", "names without an end"])
def test_what_says_nothing_is_charged_for_what_it_takes(attack: str) -> None:
    """The control: so many tries alone are within the budget."""
    said = ATTACKS[attack]
    assert Work(len(said)).left > COST_OF_A_TRY * 2000
    with pytest.raises(Undecodable):
        for _ in inflated(said, Work(len(said)).take):
            pass


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_is_compressed_as_a_whole_is_undone_in_steps(coding: str) -> None:
    compress = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}[coding]
    for said in (bytes(MOST), LETTERS * 4):
        steps = list(plain(compress(said), [coding.encode()], MOST))
        assert len(steps) >= len(said) // (2 * LARGE) and max(steps) <= 2 * LARGE
        assert returned(plain(compress(said), [coding.encode()], MOST)) == said


# ---- another cage meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", ATTACKS)
def test_another_cage_is_answered_by_the_same_inspector(attack: str, tmp_path: Path) -> None:
    another_cage_is_answered_beside(tmp_path, SCAN, post(ATTACKS[attack]))
