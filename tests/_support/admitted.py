"""Cages without a cage at a gatekeeper: their doors are sockets on loopback, and a reader of its own serves them."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from _support.gate import net_plan
from pysandbox.events import Event
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.gatekeeper import Gatekeeper, admit
from pysandbox.live.commands import Commands
from pysandbox.live.served import CageServices
from pysandbox.runtime.shared import SharedServices

ASKED = struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + b"\4evil\3com\0" + struct.pack("!2H", 1, 1)


class Live:
    """What the gatekeeper needs of a cage: its doors, here on loopback."""

    def __init__(self) -> None:
        self.id, self.hostname, self.services = "cage", "cage-1", CageServices()
        self.pid, self.commands = os.getpid(), Commands()
        self.canaries: dict[str, str] = {}
        door = socket.socket(type=socket.SOCK_DGRAM)
        door.bind(("127.0.0.1", 0))
        self.place = door.getsockname()
        self._doors = {("dns", "udp"): door.detach()}

    def take_doors(self) -> dict[tuple[str, str], int]:
        taken, self._doors = self._doors, {}
        return taken

    @property
    def session(self) -> Any:
        return self.services.find(CageSession)

    def knocks(self) -> None:
        """Says what is no question: its doors are handed over."""
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.sendto(b"", self.place)

    def kill_reader(self) -> Any:
        """The reader of its doors, which has ended."""
        reader = self.session.reader.process
        reader.kill()
        reader.wait()
        return reader

    def asks(self, question: bytes = ASKED) -> bytes:
        """Raises ConnectionRefusedError when nobody is there."""
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.connect(self.place)
            client.send(question)
            return client.recv(512)


@contextmanager
def runtime_of_cages() -> Iterator[Any]:
    """What the gatekeeper needs of a Runtime; `events` are those of its sink."""
    events: list[Event] = []
    runtime = SimpleNamespace(
        sink=events.append, events=events, nameservers=["127.0.0.1:9"], shared=SharedServices(), collected=[]
    )
    runtime.collect = runtime.collected.append
    yield runtime
    runtime.shared.retire()


def admitted(runtime: Any, *patterns: str, **plan: Any) -> Any:
    """A `Live` that was admitted, with its `keeper`."""
    live: Any = Live()
    admit(runtime, live, net_plan(*patterns, **plan))
    live.keeper = runtime.shared.find(Gatekeeper)
    return live
