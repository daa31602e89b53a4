"""Clients that are relayed without a task of their own: what they have said when they are accepted is judged at once,
and they are passed on to the relay's thread (csrc/host/relay/dial.h), which dials what it knows and tells of their end.

What has to be looked at further is not for here: TLS, HTTP, words in pieces, silence. Nor is what is not known; a
client whose target turns out to be known no longer is given back, with all that it has said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pysandbox.gate.tcp.sniff import Sniffer, Way
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.gate.tcp.transparent import original
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession, Passed
    from pysandbox.gate.tcp.offered import OfferedClients

WORDS = 16384  # bytes that are read of it at once
Leave = Callable[[], object]


class PassedClients:
    """The clients of one door. `back` gets one that is to be served otherwise after all, and what frees its place."""

    def __init__(
        self, session: DoorSession, back: Callable[[ClientStream, Leave], object], offered: OfferedClients
    ) -> None:
        self._session, self._back, self._offered = session, back, offered
        self._passed: dict[Passed, ClientStream] = {}

    def takes(self, client: ClientStream, leave: Leave) -> bool:
        """Whether it does; `leave` is called when it is over. What was read is in `client.said`, or stays there."""
        try:
            address, port = original(client.sock)
        except OSError:
            return False
        asked = DialTarget(str(address), port)
        target = self._session.known(asked)
        if target is None or not self._is_plain(target, client):
            return False
        try:
            passed = self._session.pass_on(asked, client.said, client.sock)
        except OSError:  # too many descriptors of this user are on their way
            return False
        self._offered.learn_place(asked)
        self._passed[passed] = client
        passed.over.add_done_callback(partial(self._over, passed, client, leave))
        return True

    def _is_plain(self, target: DialTarget, client: ClientStream) -> bool:
        with suppress(OSError):  # that it is silent
            client.said = client.said or client.sock.recv(WORDS)
        if not client.said:
            return False
        sniffer = Sniffer(target, self._session.rules.may_name_at_address)
        verdict = sniffer.read(client.said)
        return verdict is not None and verdict.way is Way.PASS and not sniffer.is_tls

    def _over(self, passed: Passed, client: ClientStream, leave: Leave, over: asyncio.Future[bool]) -> None:
        del self._passed[passed]
        if over.cancelled() or over.result():
            client.close()  # what there was to tell it was told by the relay
            leave()
        else:
            self._back(client, leave)

    def end(self) -> None:
        self._offered.end()
        for passed in list(self._passed):
            passed.cut()
            passed.over.cancel()
