"""CONNECT at the parent proxy: what it is asked, and what of its answers opens a tunnel (RFC 9110, 9.3.6).

The parent is believed in nothing but that: any answer other than a whole 2xx without content, in time, means that there
is no connection, and it is followed nowhere. Its answer is taken out of the socket up to the end of its head and not a
byte further: what follows is the server's. What it says is told to nobody, its number apart.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import re
import socket

from pysandbox.gate.tcp.stream import until_readable
from pysandbox.gate.tcp.target import DialTarget, Unreachable
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.policy.parent import ParentProxy

ANSWER_SECONDS = 30.0
LONGEST_HEAD = 16384  # of all its answers to one request
LONGEST_CREDENTIALS = 1024
HEAD_ENDS = re.compile(rb"\n\r?\n")  # as h11 reads it
FRAMES = frozenset((b"content-length", b"transfer-encoding"))


class ParentRefused(Unreachable):
    """The parent does not connect us."""

    code = "parent-refused"


class ParentLate(Unreachable):
    status, code = 504, "parent-timeout"


async def open_tunnel(
    connected: socket.socket, parent: ParentProxy, target: DialTarget, send: Callable[[bytes], object]
) -> None:  # fmt: skip
    """From now on the socket leads to `target`. `send` sends the request, all of it. Raises Unreachable."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _ask(connected, parent, target, send)
    except TimeoutError:
        why = f"the parent proxy does not answer in {ANSWER_SECONDS:g} s"
        raise ParentLate(errno.ETIMEDOUT, why) from None
    except Unreachable:
        raise
    except OSError as error:
        why = f"the parent proxy has hung up: {os.strerror(error.errno or errno.ECONNRESET)}"
        raise ParentRefused(errno.ECONNREFUSED, why) from None


async def _ask(
    connected: socket.socket, parent: ParentProxy, target: DialTarget, send: Callable[[bytes], object]
) -> None:  # fmt: skip
    import h11

    spoken = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
    place = f"{target.host}:{target.port}".encode()
    fields = [(b"Host", place), *_authorization(parent)]
    try:
        said = spoken.send(h11.Request(method=b"CONNECT", target=place, headers=fields))
        send((said or b"") + (spoken.send(h11.EndOfMessage()) or b""))
        left = LONGEST_HEAD
        while True:
            head = await _head(connected, left)
            left -= len(head)
            spoken.receive_data(head)
            while isinstance(event := spoken.next_event(), h11.InformationalResponse):
                pass
            if isinstance(event, h11.Response):
                _judge(event.status_code, {name for name, value in event.headers if value != b"0"})
                return
            if event is not h11.NEED_DATA:
                raise ParentRefused(errno.ECONNREFUSED, "the parent proxy has hung up before it answered")
    except h11.ProtocolError:
        raise ParentRefused(errno.ECONNREFUSED, "the answer of the parent proxy makes no sense") from None


def _judge(status: int, named: set[bytes]) -> None:
    """Raises ParentRefused."""
    if status == 407:
        raise ParentRefused(errno.ECONNREFUSED, "the parent proxy wants other credentials ([proxy] parent_credentials)")
    if not 200 <= status < 300:
        raise ParentRefused(errno.ECONNREFUSED, f"the parent proxy does not connect: it answers {status}")
    if named & FRAMES:
        raise ParentRefused(errno.ECONNREFUSED, f"the parent proxy answers {status} with a page, and no connection")


async def _head(connected: socket.socket, most: int) -> bytes:
    """The next head, and nothing of what follows it; less than one where the parent hangs up. Raises OSError,
    ParentRefused."""
    head = bytearray()
    while HEAD_ENDS.search(head) is None:
        await until_readable(connected)
        try:
            seen = connected.recv(4096, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        if not seen:
            break
        kept = len(head)
        ends = HEAD_ENDS.search(bytes(head[-2:]) + seen)
        size = ends.end() - min(kept, 2) if ends is not None else len(seen)
        head += connected.recv(size)
        if len(head) > most:
            raise ParentRefused(errno.ECONNREFUSED, "the answer of the parent proxy does not end")
    return bytes(head)


def _authorization(parent: ParentProxy) -> list[tuple[bytes, bytes]]:
    """Raises ParentRefused, which does not repeat them."""
    if not parent.variable:
        return []
    said = os.environ.get(parent.variable, "").encode("utf-8", "surrogateescape")
    if b":" not in said or len(said) > LONGEST_CREDENTIALS or re.search(rb"[\x00-\x1f\x7f]", said):
        why = f"the variable {parent.variable} of the host program does not hold USER:PASSWORD for the parent proxy"
        raise ParentRefused(errno.ECONNREFUSED, why)
    return [(b"Proxy-Authorization", b"Basic " + base64.b64encode(said))]
