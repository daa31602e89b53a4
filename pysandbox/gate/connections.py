"""What one cage is connected to: each connection is cut when its grant is lost, or when its cage ends.

This is the account of every descriptor by which something of the cage may leave. `lock` is the session's: under it the
rules are replaced, and under it, here, they are asked again before a descriptor gets in (`connect`, `register`,
`splice`, `join`) and what they refuse is cut (`cut_refused`). A descriptor is closed only after it was taken out.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

from pysandbox._native import lib
from pysandbox.gate.hush import Hush
from pysandbox.gate.judged import DialledTarget, JudgedTargets
from pysandbox.gate.rules import Decision, GateRules
from pysandbox.gate.tcp.target import Asking, DialTarget, deny, may_stay
from pysandbox.policy.names import IPAddress, plain
from pysandbox.shapes import TYPE_CHECKING, Protocol, dataclass

if TYPE_CHECKING:
    from pysandbox.gate.tcp.relay import SocketRelay

MOST_CONNECTIONS = 1024  # of one cage, in the relay


class ConnectedSession(Asking, Protocol):
    """What is needed of the session whose connections these are. `inward` silences what is published; `judged` has the
    connections that the relay's thread has dialled."""

    judged: JudgedTargets
    lock: threading.Lock
    loop: asyncio.AbstractEventLoop
    inward: Hush
    ended: bool


@dataclass(slots=True)
class Connection:
    """What was asked for, where it leads, the socket that leads there (None: the relay has it, as `relayed`), and what
    the loop does when it was cut."""

    target: DialTarget
    address: IPAddress
    sock: socket.socket | None
    cut: Callable[[], object]
    relayed: int = 0


class CageConnections:
    def __init__(self, session: ConnectedSession, relay: SocketRelay | None) -> None:
        self._session, self._relay = session, relay
        self._registered: dict[int, Connection] = {}
        self._number = 0
        self._dialling: dict[socket.socket, tuple[DialTarget, IPAddress]] = {}
        self._joined: set[int] = set()  # pairs of the relay that came in by a published port
        self._cutting: set[int] = set()  # connections that were cut and have not ended
        self._is_cut = asyncio.Event()

    def __len__(self) -> int:
        """How many are registered."""
        return len(self._registered)

    def check(self, target: DialTarget, connected: socket.socket) -> None:
        """Raises Denied unless the rules, as they are now, allow this connection; OSError if it is gone."""
        decision = may_stay(self._session, target, peer_of(connected))
        if not decision.allowed:
            raise deny(self._session, target, decision)

    # ---- what gets in, and out ----------------------------------------------------------------------------------

    def connect(self, target: DialTarget, address: IPAddress, made: socket.socket, rules: GateRules) -> int:
        """Begins to connect; returns the errno. `rules` have allowed it; where they were tightened meanwhile it is
        checked again. Until `dialled` it is cut when its grant is lost. Raises Denied."""
        session = self._session
        with session.lock:
            decision = None if session.rules is rules else may_stay(session, target, address)
            if decision is None or decision.allowed:
                self._dialling[made] = target, address
                return made.connect_ex((str(address), target.port))
        raise deny(session, target, decision)

    def dialled(self, made: socket.socket) -> None:
        """Ends what `connect` began: the socket is connected, or about to be closed. Idempotent."""
        with self._session.lock:
            self._dialling.pop(made, None)

    def register(self, target: DialTarget, connected: socket.socket, cut: Callable[[], object]) -> int:
        """From now on the connection is cut when its grant is lost or the cage ends, and `cut` is called in the loop
        then. `connected` is what `dial` gave; it stays open until `unregister`, which takes the number that this
        returns. Raises Denied, also for one connection too many."""
        session, address = self._session, peer_of(connected)
        with session.lock:
            decision = may_stay(session, target, address)
            if session.ended or len(self._registered) >= MOST_CONNECTIONS - session.judged.most:
                decision = Decision(False, f"more than {MOST_CONNECTIONS} connections at once", "")
            if decision.allowed:
                self._number += 1
                self._registered[self._number] = Connection(target, address, connected, cut)
                return self._number
        raise deny(session, target, decision)

    def splice(self, number: int, hand_over: Callable[[], int]) -> int:
        """Hands a registered connection to the relay: `hand_over` does it and returns its number there. Raises
        ConnectionAbortedError for one that was cut."""
        with self._session.lock:
            connection = self._registered.get(number)
            if connection is None:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            connection.relayed, connection.sock = hand_over(), None
            return connection.relayed

    def unregister(self, number: int) -> None:
        """The connection is over, or about to be closed. Idempotent."""
        with self._session.lock:
            self._registered.pop(number, None)
            self._cutting.discard(number)
        if not self._cutting:
            self._is_cut.set()

    def join(self, hand_over: Callable[[], int]) -> int:
        """Hands a connection that came in by a published port to the relay; returns its number there. Raises
        ConnectionAbortedError when the cage has ended or takes no more connections."""
        with self._session.lock:
            if self._session.ended or self._session.inward.is_silent:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            number = hand_over()
            self._joined.add(number)
            return number

    def parted(self, number: int) -> None:
        """A connection that `join` handed over has ended."""
        with self._session.lock:
            self._joined.discard(number)

    # ---- what is cut --------------------------------------------------------------------------------------------

    def cut_refused(self) -> int:
        """Cuts what the rules, as they are now, refuse; returns how many connections. Called under the lock, by any
        thread."""
        for made, (target, address) in list(self._dialling.items()):
            if not may_stay(self._session, target, address).allowed:
                lib.psb_cut_socket(made.fileno())
        if self._session.rules.closed:
            for number in self._joined:
                self._cut_relayed(number)
        return self._cut(lambda each: may_stay(self._session, each.target, each.address).allowed)

    def cut_all(self) -> None:
        """Any thread."""
        with self._session.lock:
            self._cut(lambda _: False)

    async def wait_cut(self) -> None:
        """Returns when nothing that was cut is served any more. In the loop."""
        self._is_cut.clear()
        while self._cutting:
            await self._is_cut.wait()

    def _cut(self, keep: Callable[[Connection | DialledTarget], bool]) -> int:
        """Cuts every connection that `keep` does not name. Called under the lock, so that no descriptor in the account
        is closed meanwhile."""
        lost = [(number, each) for number, each in self._registered.items() if not keep(each)]
        for number, each in lost:
            del self._registered[number]
            self._cutting.add(number)
            if each.sock is not None:
                lib.psb_cut_socket(each.sock.fileno())
            else:
                self._cut_relayed(each.relayed)
        judged = [each for each in self._session.judged.connections() if not keep(each)]
        for dialled in judged:
            self._session.judged.cut(dialled.number)
        with suppress(RuntimeError):  # a loop that has ended has closed everything itself
            self._session.loop.call_soon_threadsafe(self._was_cut, lost)
        return len(lost) + len(judged)

    def _cut_relayed(self, number: int) -> None:
        if self._relay is not None:
            self._relay.cut(number)

    def _was_cut(self, lost: list[tuple[int, Connection]]) -> None:
        """Called in the loop: tells the task that serves the connection."""
        for number, each in lost:
            if number in self._cutting:
                each.cut()


def peer_of(connected: socket.socket) -> IPAddress:
    return plain(ip_address(connected.getpeername()[0]))
