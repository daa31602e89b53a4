"""Every credential that is known is found in every encoding; and in every place of a request, through up to three
encodings inside each other."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence

import pytest

from pysandbox.dlp import registry
from pysandbox.dlp.engine import scan
from pysandbox.gate.dns.asked import AskedNames
from pysandbox.gate.inspection.leak import Leak
from pysandbox.gate.inspection.room import Room
from pysandbox.gate.inspection.scanning import ConnectionScan, PlanScan

from .test_scanning import ENCODINGS, GIVEN, HOST, PRINTABLE, TOKEN, Conversation, chunks, request

HITS = [(each.name, hit) for each in registry.ALL for hit in each.hits]
OF_CHARACTERS = ("JSON", "HTML")  # not of bytes
INSIDE_A_HEAD = [each for each in PRINTABLE if each != "plain"]
NESTED = (1, 2, 3)
NAME = re.compile(rb"[0-9A-Za-z!#$%&'*+.^_`|~-]+")
MULTIPART = b'--b\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n--b--'


def split(said: bytes, count: int) -> list[bytes]:
    size = len(said) // count + 1
    return [said[at : at + size] for at in range(0, len(said), size)]


def joined(begin: bytes, between: bytes, said: bytes) -> bytes:
    return begin + between.join(b"k%d=%s" % (at, each) for at, each in enumerate(split(said, 3)))


def trailed(said: bytes) -> bytes:
    return chunks(b"a body", 6).removesuffix(b"\r\n") + b"X-Sum: " + said + b"\r\n\r\n"


def called(said: bytes) -> bytes:
    return request(b"\0" + len(said).to_bytes(4, "big") + said, b"Content-Type: application/grpc")


HEADS: dict[str, Callable[[bytes], bytes]] = {
    "path": lambda said: request(target=b"/a/" + said), "query value": lambda said: request(target=b"/?a=1&b=" + said),
    "query key": lambda said: request(target=b"/?" + said + b"=1"),
    "query values together": lambda said: request(target=joined(b"/?", b"&", said)),
    "segments of a path": lambda said: request(target=b"/" + b"/".join(split(said, 3))),
    "field": lambda said: request(b"", b"X-A: " + said),
    "User-Agent": lambda said: request(b"", b"User-Agent: " + said),
    "two fields": lambda said: request(b"", *(b"X-%d: " % at + each for at, each in enumerate(split(said, 2)))),
    "cookie": lambda said: request(b"", b"Cookie: a=b; c=" + said),
    "cookies together": lambda said: request(b"", joined(b"Cookie: ", b"; ", said)), "trailer": trailed,
}  # fmt: skip
NAMES: dict[str, Callable[[bytes], bytes]] = {
    "name of a field": lambda said: request(b"", said + b": 1"), "method": lambda said: request(method=said),
}  # fmt: skip
BODIES: dict[str, Callable[[bytes], bytes]] = {
    "body": lambda said: request(b"text: " + said + b" end"), "chunks": lambda said: chunks(b"some " + said, 7),
    "JSON array": lambda said: request(b'{"a": [1, "' + said + b'"]}'),
    "part": lambda said: request(MULTIPART % (b"a", b"b", said)), "gRPC": called,
    "file name": lambda said: request(MULTIPART % (b"a", said, b"b")),
    "name of a part": lambda said: request(MULTIPART % (said, b"b", b"c")),
}  # fmt: skip


def encoded(hit: bytes, ways: Sequence[str]) -> bytes:
    for way in ways:
        hit = ENCODINGS["hex" if way in OF_CHARACTERS and not hit.isascii() else way](hit)
    return hit


@pytest.mark.parametrize("way", ENCODINGS)
def test_every_credential_in_every_encoding(way: str) -> None:
    for name, hit in HITS:
        assert name in {each.detector for each in scan(b"a: " + encoded(hit, [way]) + b"\n", bytes(16))}, hit[:4]


def combinations(place: str, outermost: Sequence[str]) -> list[tuple[str, bytes, list[str]]]:
    """Each outermost encoding at each depth, with what is inside it drawn; the credentials take turns."""
    drawn, hits = random.Random(place), itertools.cycle(random.Random(place).sample(HITS, len(HITS)))
    found = []
    for depth, last in itertools.product(NESTED, outermost):
        ways = [*(drawn.choice(list(ENCODINGS)) for _ in range(depth - 1)), last]
        found.append((*next(hits), ways))
    return found


@pytest.mark.parametrize("place", [*HEADS, *NAMES, *BODIES])
def test_in_every_place_through_every_encoding(place: str) -> None:
    tried = 0
    for name, hit, ways in combinations(place, list(ENCODINGS) if place in BODIES else INSIDE_A_HEAD):
        said = encoded(hit, ways)
        if place in NAMES and not (NAME.fullmatch(said) and len(said) < 8000):
            said = encoded(TOKEN, ["hex"] * min(len(ways), 2))
        if place in HEADS and (b"\n" in said or len(said) > 8000 or (b"#" in said or b" " in said)):
            continue
        whole = ({**HEADS, **NAMES, **BODIES})[place](said)
        conversation, cut = Conversation(), len(whole) * tried // 50 % len(whole)
        sent = conversation.say(whole[:cut], whole[cut:])
        assert conversation.status == 451, (name, ways)
        assert said not in sent and hit not in sent and hit.decode() not in repr(conversation.found), (name, ways)
        tried += 1
    assert tried >= 20, tried


def test_words_of_two_places_together_are_no_bearer_token() -> None:
    """What follows the word may be anything; so of what was put together it is one only where it was encoded."""
    said = request(target=b"/?a=Bearer&b=%20of&c=bad_news_and_of_nothing_else")
    assert Conversation().say(said) == said


@pytest.mark.parametrize("depth", NESTED)
def test_in_messages_of_a_websocket(depth: int) -> None:
    for _, hit, ways in combinations(f"messages {depth}", list(ENCODINGS)):
        said = encoded(hit, ways[-depth:])
        for pieces in ([said], [said[:7], said[7:]]):  # of one message
            passing = ConnectionScan(PlanScan(GIVEN), HOST, (), lambda _: None, Room()).messages()
            with pytest.raises(Leak):
                for at, piece in enumerate(pieces, 1):
                    assert passing.take(piece, last=at == len(pieces)) == b""


@pytest.mark.parametrize("way", ["plain", "hex", "base32"])
def test_in_names_that_are_asked_for(way: str) -> None:
    """They are sent in small letters: what has capitals in it is told by an encoding that has none."""
    said = (b"npm_" + b"a1b2c3d4e5f6" * 3 if way == "plain" else encoded(TOKEN, [way])).decode().lower().rstrip("=")
    name = ".".join([*(said[at : at + 40] for at in range(0, len(said), 40)), "a", "example"])
    refused = AskedNames(["*.a.example"]).take(name)
    assert refused is not None and said[:12] not in refused.shown
    assert AskedNames(["*.a.example"]).take("b.a.example") is None  # the control
