"""Datagrams to listed addresses, from sockets that cannot be replaced by one of the host's because they are bound or
polled before they send (node's dgram, Java's DatagramSocket): a forwarder listens at the very address in the cage's
network, where every address is local, and sends what it receives to the real one.

A listener is made when the supervisor meets such a send, which waits for it. It is a descriptor of the host's, so a
cage has few: those that were made longest ago go first, and are made again at the next send.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import OrderedDict
from errno import EMFILE, ESHUTDOWN
from functools import partial
from ipaddress import ip_address

from pysandbox.gate.hush import Hush
from pysandbox.gate.published.inside import netns_sockets
from pysandbox.gate.tcp.target import DialTarget, check_literal, deny
from pysandbox.gate.threads import in_loop
from pysandbox.gate.udp.relay import FlowTable, UdpRelay
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.rules import Decision
    from pysandbox.live.init import CageInit

LISTENERS = 32  # of one cage
PEERS = 256  # sockets in a cage that are heard of at all of them; fewer where its share of descriptors is small


class UdpForwarders:
    """The UDP forwarders of one cage. Used by the gatekeeper's loop alone, but for `serves`, `open` and `silence`,
    which any other thread may call. IPv4 alone: an IPv6 address is not local to a cage."""

    def __init__(self, session: CageSession, live: CageInit) -> None:
        self._session, self._live = session, live
        self._serving: OrderedDict[DialTarget, asyncio.Task[None]] = OrderedDict()
        self._hushes: dict[DialTarget, Hush] = {}  # under the session's lock
        self._peers = FlowTable(PEERS, session.descriptors)
        self._visiting = threading.Lock()  # one visit to the cage at a time

    def serves(self, target: DialTarget) -> bool:
        return target in self._serving

    def open(self, target: DialTarget) -> None:
        """Returns when somebody listens. Any thread but the loop's: a visit to the cage takes as long as a fork, a cage
        may ask for one at every datagram, and others wait for the loop. Raises Denied, OSError, StartError,
        CageClosedError, RuntimeError."""
        with self._visiting:
            if self.serves(target):
                return
            self._require_allowed(target)
            (listener,) = netns_sockets(self._live, [("udp", *target)])
            try:
                in_loop(self._session.loop, partial(self._serve, target, listener))
            except BaseException:
                listener.close()
                raise

    def _require_allowed(self, target: DialTarget) -> None:
        decision = self._decision(target)
        if not decision.allowed:
            raise deny(self._session, target, decision, "udp")

    def _serve(self, target: DialTarget, listener: socket.socket) -> None:
        """Serves a listener, in the loop. A thread that tightens the rules finds it in the table, or has replaced the
        rules before."""
        self._require_allowed(target)
        if self._session.ended:
            raise OSError(ESHUTDOWN, os.strerror(ESHUTDOWN))
        while len(self._serving) >= LISTENERS:
            self._serving.popitem(last=False)[1].cancel()
        if not self._session.descriptors.take_or_tell():
            raise OSError(EMFILE, os.strerror(EMFILE))
        hush = self._hush(target)
        self._session.doors.append(listener)
        ways = [partial(self._connected, target)]
        exchange = UdpRelay(listener, ways, self._peers, self._session.turns, hush)
        self._serving[target] = task = self._session.start(exchange.serve())
        task.add_done_callback(partial(self._close, target, listener, hush))

    def _hush(self, target: DialTarget) -> Hush:
        """A new flag, raised from the beginning where the rules do not allow the target any more."""
        with self._session.lock:
            hush = self._hushes[target] = Hush()
            if not self._decision(target).allowed:
                hush.silence()
            return hush

    def _connected(self, target: DialTarget) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            made.connect(target)
            self._session.ledger.allowed("udp", *target)
        except BaseException:
            made.close()
            raise
        return made

    def _close(self, target: DialTarget, listener: socket.socket, hush: Hush, task: asyncio.Task[None]) -> None:
        """A done callback, because it runs even for a task that was cancelled before it began."""
        if self._serving.get(target) is task:
            del self._serving[target]
        with self._session.lock:
            if self._hushes.get(target) is hush:
                del self._hushes[target]
        self._session.descriptors.give()
        self._session.doors.remove(listener)
        listener.close()

    def _decision(self, target: DialTarget) -> Decision:
        return check_literal(self._session, ip_address(target.host), target.port, "udp")

    def silence(self) -> int:
        """Stops sending to every address that the rules no longer allow; returns how many. Any thread, under the lock
        of the session."""
        lost = [hush for target, hush in self._hushes.items() if not self._decision(target).allowed]
        speaking = [hush for hush in lost if not hush.is_silent]
        for hush in speaking:
            hush.silence()
        return len(speaking)

    def cut(self) -> None:
        """Closes the forwarders that were silenced. In the loop."""
        for target in [each for each in self._serving if not self._decision(each).allowed]:
            self._serving.pop(target).cancel()
