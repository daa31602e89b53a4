"""How much of a stream is looked at in one turn before it is known whether it may be cut."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from pysandbox.gate.inspection.bodies import Chunked
from pysandbox.gate.inspection.held_body import A_STEP, AT_ONCE, HeldBody
from pysandbox.gate.inspection.holding import LEAST, WINDOW, BodyPart, Unended
from pysandbox.gate.inspection.room import FREE, MOST, Room
from pysandbox.gate.inspection.scanning import PlanScan

from .test_scanning import GIVEN

GZIP = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\n"  # where it may begin; it does not


def nothing_found(part: BodyPart, trailer: bytes, has_sent: bool) -> Iterator[int]:
    yield len(part.said)


def held(steps: int, room: Room, seen: list[int]) -> HeldBody:
    """A body whose content may be cut anywhere, which takes so many steps to find out, each a whole turn."""

    def is_open(end: bytes, since: bytes) -> Generator[int, None, bool]:
        for _ in range(steps):
            seen.append(len(since))
            yield AT_ONCE
        return False

    return HeldBody(Chunked(), nothing_found, Unended(is_open, LEAST), room, lambda: None)


def test_what_may_be_compressed_is_looked_for_in_steps() -> None:
    endings, said = PlanScan(GIVEN).endings, GZIP * 20_000
    steps = list(endings.steps(said[-WINDOW:], said))
    spent = [size + A_STEP for size in steps]
    assert sum(spent) > 4 * AT_ONCE, "the control: it is more than a turn"
    assert max(spent) < AT_ONCE // 8
    assert not endings.is_open(GZIP[-1:], GZIP[-1:]) and endings.is_open(said[-WINDOW:], said)


def test_a_turn_ends_before_it_is_known_and_then_it_goes_on() -> None:
    seen: list[int] = []
    body, buffer, said = held(3, Room(), seen), bytearray(b"6\r\nhello\n\r\n"), b""
    assert body.take(buffer) == b"" and not seen
    for turn in (1, 2, 3):
        assert body.goes_on and body.is_looking
        assert body.take(buffer) == b"" and len(seen) == turn
    while body.goes_on:
        said += body.take(buffer)
    assert said == b"6\r\nhello\n\r\n" and len(seen) == 3


def test_what_comes_meanwhile_is_taken_when_it_is_known() -> None:
    body, buffer, said = held(2, Room(), []), bytearray(b"2\r\na\n\r\n"), b""
    body.take(buffer)
    buffer += b"2\r\nb\n\r\n0\r\n\r\n"
    for _ in range(20):
        said += body.take(buffer)
    assert said == b"2\r\na\n\r\n2\r\nb\n\r\n0\r\n\r\n" and body.done


def test_what_cannot_be_cut_begins_nothing_and_waits_for_more() -> None:
    def is_open(end: bytes, since: bytes) -> Generator[int, None, bool]:
        yield 1
        return True

    body = HeldBody(Chunked(), nothing_found, Unended(is_open, LEAST), Room(), lambda: None)
    body.headed(b"the head")
    buffer = bytearray(b"6\r\nhello\n\r\n")
    for _ in range(3):
        assert body.take(buffer) == b""
    assert not body.goes_on and not body.is_looking
    assert not body.may_begin or body.headed(b"") == b""


def test_it_needs_no_room_to_find_out() -> None:
    """Another body of the cage has all of it."""
    room = Room()
    room.ask(object(), MOST, lambda: None)
    content = b"x" * (FREE - 1) + b"\n"
    body, buffer, said = held(2, room, []), bytearray(b"%x\r\n%s\r\n" % (len(content), content)), b""
    said += body.take(buffer)
    while body.goes_on:
        said += body.take(buffer)
    assert content in said


def test_one_that_left_meanwhile_takes_nothing_more() -> None:
    seen: list[int] = []
    body, buffer = held(3, Room(), seen), bytearray(b"6\r\nhello\n\r\n")
    body.take(buffer)
    body.take(buffer)
    body.leave()
    assert not body.goes_on and body.take(buffer) == b"" and len(seen) == 1
