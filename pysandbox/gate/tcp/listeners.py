"""Without nf_tables nothing leads a cage's connections to one door, so there is a listener for each: at the synthetic
address of a name, on the ports that its grants name and on those of the web. They are made when the name is resolved.

A listener is a descriptor of the host's, so a cage has few: the names that were resolved longest ago lose theirs, and
have them again when they are resolved again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from ipaddress import IPv4Address

from pysandbox.errors import CageClosedError, StartError
from pysandbox.gate.published.inside import netns_sockets
from pysandbox.policy.names import matches
from pysandbox.shapes import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.live.init import CageInit

WEB = (80, 443)
NAMES = 32  # of one cage that are listened for at once
PORTS = 16  # of one name

Serve: TypeAlias = "Callable[[CageSession, str, socket.socket], Coroutine[Any, Any, None]]"


class Listeners:
    """The listeners of one cage at the addresses of names. Used by the gatekeeper's loop alone."""

    def __init__(self, session: CageSession, live: CageInit, serve: Serve) -> None:
        self._session, self._live, self._serve = session, live, serve
        self._serving: OrderedDict[IPv4Address, asyncio.Task[None]] = OrderedDict()

    async def __call__(self, name: str, address: IPv4Address) -> None:
        """Opens the listeners of a name; returns when they listen."""
        if address in self._serving:
            self._serving.move_to_end(address)
            return
        while len(self._serving) >= NAMES:
            self._serving.popitem(last=False)[1].cancel()
        listeners = self._open(str(address), self._ports(name))
        self._serving[address] = task = self._session.start(self._run(listeners))
        task.add_done_callback(lambda _: self._close(listeners))

    def _ports(self, name: str) -> tuple[int, ...]:
        rules = self._session.rules
        named = {port for each in rules.hosts if matches(each.pattern, name) for port in each.ports}
        wanted = (*sorted(named), *(rules.loopback_ports or ()), *WEB)
        return tuple(dict.fromkeys(each for each in wanted if rules.name(name, each).allowed))[:PORTS]

    def _open(self, address: str, ports: tuple[int, ...]) -> list[socket.socket]:
        """In the loop, since it takes but a moment. A port that the cage has bound itself is left to it; a cage that
        has ended needs none."""
        listeners: list[socket.socket] = []
        for port in ports:
            if not self._session.descriptors.take_or_tell():
                break
            try:
                listeners += netns_sockets(self._live, [("tcp", address, port)])
            except (StartError, CageClosedError):
                self._session.descriptors.give()
        return listeners

    async def _run(self, listeners: list[socket.socket]) -> None:
        await asyncio.gather(*(self._serve(self._session, "tcp", each) for each in listeners))

    def _close(self, listeners: list[socket.socket]) -> None:
        """A done callback, because it runs even for a task that was cancelled before it began."""
        for each in listeners:
            each.close()
        self._session.descriptors.give(len(listeners))
