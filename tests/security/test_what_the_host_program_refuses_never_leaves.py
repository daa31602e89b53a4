"""Claim: a callback of the host program sees what is about to be sent, wherever it stands, and can only refuse. If it
refuses, raises, answers nonsense or is late, nothing of that leaves; of what the detectors refuse it is not even asked.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from _support.inspected import NAME
from _support.scanned import SCAN, TOKEN, ScannedHost, chunked, get, post, scanned
from pysandbox import Cage, Policy, PolicyError
from pysandbox.gate.inspection.asking import AGAIN, PIECE, pieces
from pysandbox.gate.sent import MOST_RUNNING, LeakCaller, SentPart
from pysandbox.shapes import replace

WORD = b"customer-4711"
SECONDS = 10.0


class Callback:
    """What the host program has, which does as the test says."""

    def __init__(self) -> None:
        self.heard: list[SentPart] = []
        self.does: Callable[[SentPart], object] = lambda part: WORD in part.data

    def __call__(self, part: SentPart) -> object:
        self.heard.append(part)
        return self.does(part)


@pytest.fixture(scope="module")
def callback() -> Callback:
    return Callback()


@pytest.fixture(scope="module")
def host(callback: Callback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("asked"), caller=LeakCaller.of(callback, SECONDS)) as made:  # type: ignore[arg-type]
        yield made


@pytest.fixture(autouse=True)
def clean(host: ScannedHost, callback: Callback) -> None:
    host.server.heard.clear()
    host.asking.events.clear()
    callback.__init__()  # type: ignore[misc]


def is_refused(host: ScannedHost, said: bytes) -> None:
    told = found(host)
    answer = host.send([said])
    assert answer.startswith(b"HTTP/1.1 451 ") and b"x-pysandbox-dlp-reason: leak_fn\r\n" in answer
    assert host.server.heard == b""
    assert found(host) == told + 1
    assert ("dlp", "dlp.leak_fn") in host.asking.refused()


def found(host: ScannedHost) -> int:
    """How often something was found: an event tells of the same once."""
    host.asking.inspector.wait_booked()
    return host.asking.session.ledger.counts.get("gatekeeper.credential_found", 0)


def test_what_it_has_nothing_against_arrives(host: ScannedHost, callback: Callback) -> None:
    """The control."""
    assert host.send([post(b"a body", b"X-A: b")]).endswith(b"hello") and host.server.heard.endswith(b"a body")
    assert [(each.host, each.place, each.offset) for each in callback.heard] == [
        (NAME, "the head", 0), (NAME, "the body", 0)
    ]  # fmt: skip
    assert callback.heard[0].data.startswith(b"POST /\r\nHost: ") and b"X-A: b" in callback.heard[0].data
    assert callback.heard[1].data == b"a body" and host.found() == []


@pytest.mark.parametrize("said", [
    get(b"/?a=" + WORD), get(b"/", b"X-A: " + WORD), get(b"/", WORD + b": 1"), post(b"a " + WORD),
    post(gzip.compress(WORD), b"Content-Encoding: gzip"), chunked(b"a " + WORD + b" b", 3),
    post(b"a" * (PIECE - 7) + WORD + b"b" * PIECE), post(b"a" * (1 << 20) + WORD), chunked(b"a", 1, b"X-Sum: " + WORD),
])  # fmt: skip
def test_it_sees_every_place(host: ScannedHost, said: bytes) -> None:
    is_refused(host, said)


def _raises(error: BaseException) -> Callable[[SentPart], object]:
    def does(_: SentPart) -> object:
        raise error

    return does


class Odd:
    def __bool__(self) -> bool:
        raise SystemExit

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize("does", [
    _raises(ValueError(WORD.decode())), _raises(SystemExit()), _raises(KeyboardInterrupt()), _raises(GeneratorExit()),
    lambda _: 0, lambda _: 1, lambda _: "", lambda _: "no", lambda _: [], lambda _: Odd(), lambda _: NotImplemented,
])  # fmt: skip
def test_whatever_it_does_refuses(host: ScannedHost, callback: Callback, does: Callable[[SentPart], object]) -> None:
    callback.does = does
    is_refused(host, post(b"a body"))
    assert WORD.decode() not in repr(host.asking.events)


def test_it_is_not_asked_of_what_the_detectors_refuse(host: ScannedHost, callback: Callback) -> None:
    for answer in (None, False):
        callback.does = lambda _, answer=answer: answer  # type: ignore[misc]
        assert host.send([get(b"/?a=" + TOKEN)]).startswith(b"HTTP/1.1 451 ")
        assert host.send([post(TOKEN)]).startswith(b"HTTP/1.1 451 ")
    assert host.server.heard == b"" and all(TOKEN not in each.data for each in callback.heard)
    assert {each["detector"] for each in host.found()} == {"github_pat"}


def test_one_that_is_late_refuses_and_the_next_is_asked(tmp_path: Path) -> None:
    ends, asked = threading.Event(), threading.Event()

    def waits(part: SentPart) -> bool:
        asked.set()
        return WORD in part.data and not ends.wait(60)

    try:
        with scanned(tmp_path, caller=LeakCaller.of(waits, 0.2)) as host:
            is_refused(host, get(b"/?" + WORD))
            assert asked.is_set()
            assert host.send([get(b"/")]).endswith(b"hello")  # the control: others are not refused for it
            for _ in range(MOST_RUNNING):
                host.server.heard.clear()
                is_refused(host, get(b"/?" + WORD))
            host.server.heard.clear()
            is_refused(host, get(b"/"))  # no more threads are made of it
            ends.set()
    finally:
        ends.set()


def test_what_is_said_meanwhile_is_done_afterwards(tmp_path: Path) -> None:
    """A second connection, and questions whether it is there, while it waits for an answer."""
    asked, goes_on = threading.Event(), threading.Event()

    def waits(part: SentPart) -> None:
        if b"/first" in part.data:
            asked.set()
            goes_on.wait(60)

    with scanned(tmp_path, caller=LeakCaller.of(waits, 60)) as host:
        answers: list[bytes] = []
        first = threading.Thread(target=lambda: answers.append(host.send([get(b"/first")])))
        first.start()
        assert asked.wait(20)
        assert host.asking.inspector.wait_booked()
        second = threading.Thread(target=lambda: answers.append(host.send([get(b"/second")])))
        second.start()
        goes_on.set()
        first.join(20)
        second.join(20)
        assert [each[-5:] for each in answers] == [b"hello"] * 2


def test_with_monitor_it_passes_and_is_told(tmp_path: Path) -> None:
    with scanned(tmp_path, replace(SCAN, warns=True), LeakCaller.of(lambda _: True, SECONDS)) as host:
        answer = host.send([get(b"/?" + WORD)])
        assert b"x-pysandbox-dlp-warning: leak_fn\r\n" in answer and WORD in host.server.heard
        assert [each["verdict"] for each in host.found()] == ["warned"]


@pytest.mark.parametrize("size", [0, 1, AGAIN, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - AGAIN, 5 * PIECE])
def test_pieces_are_all_of_it(size: int) -> None:
    said = bytes(at % 251 for at in range(size))
    made = pieces(said)
    assert b"".join(each if not at else each[AGAIN:] for at, each in made) == said
    assert all(said[at : at + len(each)] == each and len(each) <= PIECE for at, each in made)


def test_what_could_never_be_asked_is_refused_when_it_is_given() -> None:
    async def later(_: SentPart) -> bool:
        return True

    for wrong in (later, 7):
        with pytest.raises(TypeError, match="leak_fn"):
            Cage(Policy(hosts=["example.com"], dlp_enabled=True), leak_fn=wrong)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="uncaged"):
        Cage(Policy(caged=False), leak_fn=lambda _: True)
    for policy in (Policy(), Policy(hosts=["example.com"])):
        with pytest.raises(PolicyError, match=r"leak_fn is asked of what is scanned"):
            Cage(policy, leak_fn=lambda _: True).run(["true"])
    with pytest.raises(PolicyError, match="outlives"):
        Cage(Policy(hosts=["example.com"], dlp_enabled=True), leak_fn=lambda _: True).detach(["true"])
