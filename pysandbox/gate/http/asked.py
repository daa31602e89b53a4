"""Requests for a tunnel, read once: the bytes of a whole head mean the same whenever they come again. Pure.

h11 reads each head that is new; a program asks for the same tunnel in the same words each time.
"""

from __future__ import annotations

import h11

from pysandbox.gate.http import messages as http
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import NamedTuple

LONGEST_KEPT, MOST_KEPT = 2048, 32  # bytes of a head; heads
METHOD, END = b"CONNECT ", b"\r\n\r\n"


class TunnelAsked(NamedTuple):
    target: DialTarget
    answer: bytes  # for when it is connected


class AskedTunnels:
    def __init__(self) -> None:
        self._read: dict[bytes, TunnelAsked] = {}

    def read(self, said: bytes) -> TunnelAsked | None:
        """What was asked for, where this is one whole head of a CONNECT and nothing else."""
        known = self._read.get(said)
        if known is None and said.startswith(METHOD) and said.endswith(END) and len(said) <= LONGEST_KEPT:
            known = _read(said)
            if known is not None:
                if len(self._read) >= MOST_KEPT:
                    self._read.clear()
                self._read[said] = known
        return known


def connected(asked: h11.Connection) -> bytes:
    """The answer to a CONNECT that was read to its end."""
    return asked.send(h11.Response(status_code=200, headers=[], reason=b"Connection established")) or b""


def _read(said: bytes) -> TunnelAsked | None:
    asked = h11.Connection(h11.SERVER, max_incomplete_event_size=http.LONGEST_HEAD)
    try:
        asked.receive_data(said)
        request = asked.next_event()
        if not isinstance(request, h11.Request) or request.method != b"CONNECT":
            return None
        target = http.connect_target(request)
        if not isinstance(asked.next_event(), h11.EndOfMessage) or asked.trailing_data[0]:
            return None
        return TunnelAsked(target, connected(asked))
    except (h11.ProtocolError, http.BadRequest):
        return None
