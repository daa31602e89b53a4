"""A scan of a long body stops often enough for others, whatever the body is made of; and scans that take turns find
what each finds alone."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Callable

import pytest

from pysandbox.dlp import registry
from pysandbox.dlp.engine import Scan, scan
from pysandbox.dlp.nominate import LONGEST, Nominator
from pysandbox.dlp.passes import LARGE, PART

KEY = b"k" * 16
SIZE = 4 * PART
TOKENS = [each.hits[0] for each in registry.ALL]
DRAWN = random.Random(3)
LONG = {
    "one letter": b"a" * SIZE,
    "letters on lines": b"a\n" * (SIZE // 2),
    "digits": b"7" * SIZE,
    "hexadecimal": DRAWN.randbytes(SIZE // 2).hex().encode(),
    "one run of base64": base64.b64encode(DRAWN.randbytes(SIZE * 3 // 4)),
    "percent": b"%41%42" * (SIZE // 6),
    "quoted-printable": b"=41=42=\n" * (SIZE // 8),
    "words": b"the quick brown fox. " * (SIZE // 21),
}


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_a_long_body_is_many_steps(body: bytes) -> None:
    """As many as it has parts, and one for each encoding that was looked for."""
    steps = list(Scan(body, KEY).steps())
    assert len(steps) >= 4 + 5 and sum(steps) > len(body)


def test_a_short_text_is_one_step() -> None:
    assert list(Scan(b"the quick brown fox. " * 100, KEY).steps()) == [2100]


@pytest.mark.parametrize("hide", [bytes, base64.b64encode, gzip.compress, lambda said: said.hex().encode()])
def test_scans_that_take_turns_find_what_each_finds_alone(hide: Callable[[bytes], bytes]) -> None:
    """They share the table of a nominator's finds."""
    filler = (b"key: ghp_ AKIA sk-ant- " + b"words. " * 400) * (2 * PART // 2823)
    bodies = [filler + hide(token) + filler for token in TOKENS[:6]]
    scans = [Scan(body, KEY) for body in bodies]
    waiting = [(made, made.steps()) for made in scans]
    while waiting:
        waiting = [(made, steps) for made, steps in waiting if next(steps, None) is not None]
    assert [made.findings for made in scans] == [scan(body, KEY) for body in bodies]
    assert all(made.findings for made in scans)


@pytest.mark.parametrize("before", range(-LONGEST, 4, 5))
def test_what_lies_on_the_border_of_two_parts_is_found_once(before: int) -> None:
    """Control: the same in the middle of one."""
    for at in (PART + before, PART // 2):
        for token in TOKENS[:4]:
            said = b"." * at + token + b"." * PART
            places = [(each.name, place) for each, place in Nominator(registry.ALL).places(said)]
            parts = [
                (each.name, place)
                for begin in range(0, len(said), PART)
                for each, place in Nominator(registry.ALL).places(said, begin, begin + PART)
            ]
            assert parts == places and places
            assert scan(said, KEY)


def test_what_is_large_is_a_step_in_each_pass() -> None:
    assert len(list(Scan(b"." * (LARGE - 1), KEY).steps())) == 1
    assert len(list(Scan(b"." * LARGE, KEY).steps())) > 5
