"""Claim: of a request that streams, no byte of a credential leaves before the verdict on it: cut in pieces with pauses
between them, dripped, in any alignment of an encoding, in messages of gRPC, in a trailer. What never ends keeps bounded
memory here, and many that wait hold up nobody else; what is no credential arrives as it comes.
"""

from __future__ import annotations

import base64
import gzip
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from _support.inspected import NAME, Server, resident
from _support.scanned import TOKEN, ScannedHost, get, scanned
from pysandbox.gate.inspection.in_flight import MOST

HEAD = b"POST / HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\nTransfer-Encoding: chunked\r\n"
GRPC = b"Content-Type: application/grpc\r\n"
BEGUN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b'data: {"say": "hello"}\n\n'
MIB = 1 << 20


class Echo(Server):
    """Answers a request at its head, with what follows as it comes; keeps the last of what it is sent."""

    kept = 1 << 16
    echoes = True

    def _serve(self, far) -> None:  # type: ignore[no-untyped-def]
        with suppress(OSError), self.context.wrap_socket(far, server_side=True) as tls:
            said, is_begun = b"", False
            while piece := tls.recv(65536):
                said += piece
                self.heard += piece
                del self.heard[: -self.kept]
                if not is_begun and b"\r\n\r\n" in said:
                    is_begun, said = True, said.partition(b"\r\n\r\n")[2]
                    tls.sendall(BEGUN)
                if is_begun:
                    if said and self.echoes:
                        tls.sendall(b"%x\r\n%s\r\n" % (len(said), said))
                    said = b""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("streamed")) as made:
        yield made


@pytest.fixture
def echo(host: ScannedHost) -> Echo:
    host.asking.events.clear()
    return Echo(host.server.context)


def chunk(said: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(said), said)


def message(said: bytes) -> bytes:
    return b"\0" + len(said).to_bytes(4, "big") + said


def until(tls: ssl.SSLSocket, mark: bytes) -> bytes:
    """What is said up to this mark, or to the end."""
    said = b""
    with suppress(OSError):
        while mark not in said and (piece := tls.recv(65536)):
            said += piece
    return said


def pause(host: ScannedHost) -> None:
    """Until the inspector has done what it was given: it answers another connection."""
    assert host.send([get(b"/pause")]).endswith(b"hello")


def talk(host: ScannedHost, echo: Echo, *pieces: bytes, fields: bytes = b"", end: bytes = b"0\r\n\r\n") -> bytes:
    """What the client hears of a request in chunks, with a pause after each of them."""
    with host.asking.client(echo) as tls:
        with suppress(OSError):
            tls.sendall(HEAD + fields + b"\r\n")
            for piece in pieces:
                tls.sendall(chunk(piece))
                pause(host)
            tls.sendall(end)
        return until(tls, b"never said")


def never_left(host: ScannedHost, echo: Echo, said: bytes) -> None:
    """Not three letters of it, and the request that it was in has no end."""
    content = echo.heard.partition(b"\r\n\r\n")[2]
    assert said[:3] not in content.replace(b"\r\n", b"") and not content.endswith(b"0\r\n\r\n"), content
    assert ("dlp", "dlp.github_pat") in host.asking.refused()
    assert TOKEN.decode() not in str(host.asking.events)


@pytest.mark.parametrize("fields,piece", [(b"", LINE), (GRPC, message(b"hello"))], ids=["lines", "gRPC"])
def test_each_piece_arrives_before_the_next_is_said(fields: bytes, piece: bytes, host: ScannedHost, echo: Echo) -> None:
    """The control: ping and pong."""
    with host.asking.client(echo) as tls:
        tls.sendall(HEAD + fields + b"\r\n")
        for count in range(20):
            said = piece.replace(b"hello", b"no.%02d" % count)
            tls.sendall(chunk(said))
            assert said in until(tls, said)
    assert not host.found()


WAYS = {
    "plain": TOKEN, "base64": base64.b64encode(TOKEN), "one further": base64.b64encode(b"x" * 16 + TOKEN)[20:],
    "two further": base64.b64encode(b"x" * 17 + TOKEN)[20:], "hex": TOKEN.hex().encode(),
    "in lines": base64.encodebytes(TOKEN * 2), "JSON": b"".join(b"\\u%04x" % each for each in TOKEN),
    "UTF-16": TOKEN.decode().encode("utf-16-le"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_however_it_is_cut_and_whatever_pauses_are_made(way: str, host: ScannedHost, echo: Echo) -> None:
    said = WAYS[way]
    for size in (1 if way == "plain" else 9, len(said) // 2):
        echo.heard.clear()
        pieces = [said[at : at + size] for at in range(0, len(said), size)]
        heard = talk(host, echo, LINE, *pieces, b"\n" + LINE)
        assert LINE in heard and LINE in echo.heard
        never_left(host, echo, said)
    assert all(str(each["place"]).startswith("the body, whose beginning was sent") for each in host.found())


@pytest.mark.parametrize("size", [4, 7, len(TOKEN) // 2])
def test_no_two_messages_of_grpc_carry_one_between_them(size: int, host: ScannedHost, echo: Echo) -> None:
    pieces = [TOKEN[at : at + size] for at in range(0, len(TOKEN), size)]
    wrapped = [message(b"\x08\x01\x12" + bytes((len(each),)) + each) for each in pieces]
    talk(host, echo, message(b"hello"), *wrapped, fields=GRPC)
    never_left(host, echo, TOKEN)
    assert message(b"hello") in echo.heard


def test_a_compressed_message_of_grpc_is_looked_into(host: ScannedHost, echo: Echo) -> None:
    said = gzip.compress(b"key " + TOKEN)
    framed = b"\1" + len(said).to_bytes(4, "big") + said
    talk(host, echo, message(b"hello"), framed[:20], framed[20:], fields=GRPC + b"grpc-encoding: gzip\r\n")
    never_left(host, echo, said)


def test_what_is_compressed_in_a_stream_waits_for_its_end(host: ScannedHost, echo: Echo) -> None:
    said = gzip.compress(b"key " + TOKEN)
    talk(host, echo, LINE, said[:15], said[15:40], said[40:], LINE)
    never_left(host, echo, said)


def test_a_trailer_ends_no_stream_that_it_has_one_for(host: ScannedHost, echo: Echo) -> None:
    talk(host, echo, LINE, end=b"0\r\nX-Key: " + TOKEN + b"\r\n\r\n")
    never_left(host, echo, TOKEN)
    assert LINE in echo.heard and b"X-Key" not in echo.heard


def test_a_run_that_never_ends_costs_bounded_memory(host: ScannedHost, echo: Echo) -> None:
    talk(host, echo, LINE)
    before, most, piece = resident(host.asking.inspector), 0, b"aZ09" * 16384
    echo.echoes = False
    with host.asking.client(echo) as tls:
        tls.sendall(HEAD + b"\r\n")
        for count in range(400):  # 26 MB
            tls.sendall(chunk(piece))
            if count % 20 == 0:
                most = max(most, resident(host.asking.inspector))
        assert most - before < 64 * MIB, most - before
        tls.sendall(chunk(base64.b64encode(TOKEN)) + chunk(b"}"))
        until(tls, b"never said")
    never_left(host, echo, base64.b64encode(TOKEN))


def test_many_streams_that_wait_have_bounded_room_and_hold_up_nobody(host: ScannedHost, echo: Echo) -> None:
    """Each has more to wait for than it has without asking, and all of them together more than there is room for."""
    before = resident(host.asking.inspector)
    with ExitStack() as stack:
        held = [stack.enter_context(host.asking.client(echo)) for _ in range(20)]
        for tls in held:
            tls.sendall(HEAD + b"\r\n" + chunk(b"a" * 100_000))
            pause(host)
        assert resident(host.asking.inspector) - before < MOST
        for tls in held:  # the first have their room, and the others get it from them
            tls.sendall(chunk(b"\n" + LINE))
            assert LINE in until(tls, LINE)
        for tls in held:
            tls.sendall(chunk(LINE))
            assert LINE in until(tls, LINE)
