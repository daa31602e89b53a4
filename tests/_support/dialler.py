"""A relay's dialler with the reader's end of its channel, for tests that play the reader (csrc/host/relay/dial.h)."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from ipaddress import ip_address
from typing import Any

from pysandbox._native import lib

from _support.gate import net_plan, upstream
from _support.sockets import PATIENCE
from pysandbox.events import ignore
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.reading.kinds import FIELDS, OF_DIALLER, Verb
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.tcp.target import DialTarget

NAME = "name.example"
LOOPBACK = ip_address("127.0.0.1")
Heard = tuple[ChannelRecord, list[int]]


class Dialler:
    """A relay with a reader's end of the channel, a cage, and a server that accepts what comes."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.relay = SocketRelay(self.loop)
        self.failed = threading.Event()
        self.relay.dialler_failed = self.failed.set
        self.server = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.server.settimeout(PATIENCE)
        self.port: int = self.server.getsockname()[1]
        self.calls = itertools.count(1)
        self.cage = self.session()
        self.channel = self.opened()

    def opened(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        assert self.relay.ask(lib.psb_dial_open, near.detach()) == 1
        far.settimeout(PATIENCE)
        return far

    def session(self) -> CageSession:
        plan = net_plan(NAME, ips=("127.0.0.1",))
        return CageSession("cage", plan, Ledger("cage", ignore), self.loop, upstream(), self.relay)

    def knows(self, said: str = NAME, port: int | None = None, *, life: float = 60.0, cage: Any = None) -> bool:
        at = DialTarget(said, port or self.port)
        judged = (cage or self.cage).judged
        return judged.admit() and judged.tell(at, at._replace(host=NAME), LOOPBACK, 1, life)

    # ---- what the reader says -------------------------------------------------------------------------------------

    def says(self, kind: Verb, number: int, *fields: object, fds: tuple[int, ...] = ()) -> None:
        said = tuple(each if isinstance(each, bytes) else str(each).encode() for each in fields)
        channel.send(self.channel, ChannelRecord(kind, number, said), fds, patience=PATIENCE)

    def hears(self) -> Heard:
        self.channel.settimeout(PATIENCE)
        said, fds, _, _ = socket.recv_fds(self.channel, 4096, 4)
        return channel.decode(said, FIELDS), fds

    def dials(self, host: str = NAME, port: int | None = None, cage: int | None = None) -> socket.socket | None:
        """None for what is not known; `number` is of the connection otherwise."""
        call = next(self.calls)
        self.says(Verb.DIAL, call, self.cage.number if cage is None else cage, host, port or self.port, b"")
        record, fds = self.hears()
        while record.kind is Verb.CUT:
            record, fds = self.hears()
        assert record.number == call
        if record.kind is Verb.FAILED:
            assert not fds
            return None
        assert record.kind is Verb.DIALLED and record.fields[1:] == (NAME.encode(), str(self.port).encode(), b"1")
        self.number = int(record.fields[0])
        assert self.number & OF_DIALLER
        return socket.socket(fileno=fds[0])

    def misses(self, cage: int) -> bool:
        """Whether it is not known, after all that it hears of those that were cut."""
        call = next(self.calls)
        self.says(Verb.DIAL, call, cage, NAME, self.port, b"")
        while (heard := self.hears()[0]).number != call:
            assert heard.kind in (Verb.CUT, Verb.OVER)
        return heard.kind is Verb.FAILED

    def passes(self, said: bytes, client: socket.socket, host: str = NAME) -> int:
        call = next(self.calls)
        self.says(Verb.PASS, call, self.cage.number, host, self.port, said, fds=(client.fileno(),))
        return call

    def accepts(self) -> socket.socket:
        there = self.server.accept()[0]
        there.settimeout(PATIENCE)
        return there

    def close(self) -> None:
        self.cage.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.relay.stop()
        self.channel.close()
        self.server.close()
        self.loop.close()
