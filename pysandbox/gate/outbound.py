"""Datagrams to listed addresses, from sockets that cannot be exchanged for one of the host's because they are bound or
watched before they send (node's dgram, Java's DatagramSocket): somebody listens at the very address in the cage's
network, where every address is local, and carries what comes to the real one.

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
from typing import TYPE_CHECKING

from pysandbox.gate.admission import in_loop
from pysandbox.gate.datagrams import Exchange, Peers
from pysandbox.gate.dial import Target, asked, denied
from pysandbox.gate.hush import Hush
from pysandbox.gate.inside import sockets_inside

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission
    from pysandbox.gate.rules import Decision
    from pysandbox.launch.live import LiveInit

LISTENERS = 32  # of one cage
PEERS = 256  # sockets in a cage that are heard of at all of them; fewer where its share of descriptors is small


class Outbound:
    """Of one cage. Belongs to the gatekeeper's loop, but for `serves`, `open` and `silence`. IPv4 alone: an IPv6
    address is not local to a cage."""

    def __init__(self, admission: Admission, live: LiveInit) -> None:
        self._admission, self._live = admission, live
        self._serving: OrderedDict[Target, asyncio.Task[None]] = OrderedDict()
        self._hushes: dict[Target, Hush] = {}  # under the admission's lock
        self._peers = Peers(PEERS, admission.descriptors)
        self._visiting = threading.Lock()  # one visit to the cage at a time

    def serves(self, target: Target) -> bool:
        return target in self._serving

    def open(self, target: Target) -> None:
        """Returns when somebody listens. Any thread but the loop's: a visit to the cage takes as long as a fork, a cage
        may ask for one at every datagram, and others wait for the loop. Raises Denied, OSError, StartError,
        CageClosedError, RuntimeError."""
        with self._visiting:
            if self.serves(target):
                return
            self._demand(target)
            (listener,) = sockets_inside(self._live, [("udp", *target)])
            try:
                in_loop(self._admission.loop, partial(self._serve, target, listener))
            except BaseException:
                listener.close()
                raise

    def _demand(self, target: Target) -> None:
        decision = self._decision(target)
        if not decision.allowed:
            raise denied(self._admission, target, decision, "udp")

    def _serve(self, target: Target, listener: socket.socket) -> None:
        """In the loop. Whoever tightens the rules finds it, or has come first."""
        self._demand(target)
        if self._admission.ended:
            raise OSError(ESHUTDOWN, os.strerror(ESHUTDOWN))
        while len(self._serving) >= LISTENERS:
            self._serving.popitem(last=False)[1].cancel()
        if not self._admission.descriptors.demand():
            raise OSError(EMFILE, os.strerror(EMFILE))
        hush = self._hush(target)
        self._admission.doors.append(listener)
        ways = [partial(self._connected, target)]
        exchange = Exchange(listener, ways, self._peers, self._admission.turns, hush)
        self._serving[target] = task = self._admission.start(exchange.serve())
        task.add_done_callback(partial(self._close, target, listener, hush))

    def _hush(self, target: Target) -> Hush:
        """Silent from the beginning, where the rules were tightened just now."""
        with self._admission.lock:
            hush = self._hushes[target] = Hush()
            if not self._decision(target).allowed:
                hush.silence()
            return hush

    def _connected(self, target: Target) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            made.connect(target)
            self._admission.ledger.allowed("udp", *target)
        except BaseException:
            made.close()
            raise
        return made

    def _close(self, target: Target, listener: socket.socket, hush: Hush, task: asyncio.Task[None]) -> None:
        """Also of one whose task was cancelled before it began."""
        if self._serving.get(target) is task:
            del self._serving[target]
        with self._admission.lock:
            if self._hushes.get(target) is hush:
                del self._hushes[target]
        self._admission.descriptors.give()
        self._admission.doors.remove(listener)
        listener.close()

    def _decision(self, target: Target) -> Decision:
        return asked(self._admission, ip_address(target.host), target.port, "udp")

    def silence(self) -> int:
        """Nothing goes any more to what the rules do not hold; how many addresses that are. Any thread, under the
        admission's lock."""
        lost = [hush for target, hush in self._hushes.items() if not self._decision(target).allowed]
        heard = [hush for hush in lost if not hush.is_silent]
        for hush in heard:
            hush.silence()
        return len(heard)

    def cut(self) -> None:
        """Nobody listens there any more. In the loop."""
        for target in [each for each in self._serving if not self._decision(each).allowed]:
            self._serving.pop(target).cancel()
