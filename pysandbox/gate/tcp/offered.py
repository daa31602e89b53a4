"""Clients of the SOCKS door and of the HTTP door that are connected without a task of their own, where what they ask
for is known to the relay's thread (csrc/host/relay/offered.c).

What they ask for is read here. That they have it they are told there, at the moment when it is so; what they say next
is judged here, and goes on there. Whatever is not as plain as that is given back, with all that was said, and is served
as if nothing had been read: a handshake in pieces, a target that is not known, TLS, HTTP, a server that speaks first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from pysandbox.gate.http.asked import AskedTunnels
from pysandbox.gate.tcp import socks
from pysandbox.gate.tcp.proxying import proxy_connection
from pysandbox.gate.tcp.sniff import HTTP, HTTPS, Sniffer, Way
from pysandbox.gate.tcp.socks_door import serve_greeted
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession, Offered

Leave = Callable[[], object]
Serve = Callable[[Any, ClientStream], Awaitable[None]]
MOST = 64  # of one door
PATIENCE = 1.0  # seconds for a request, after which the client has a task
WORDS = 16384  # bytes that are read of it at once
LOOKED_AT = (HTTP, HTTPS)  # ports where what follows is looked at further


class ConnectionAsked(NamedTuple):
    target: DialTarget
    answer: bytes  # for when it is connected


class OfferedClient:
    """One client, from its first byte to the end of its connection."""

    __slots__ = ("asked", "client", "has_greeted", "leave", "offered", "target", "until", "words")

    def __init__(self, client: ClientStream, leave: Leave, until: float) -> None:
        self.client, self.leave, self.until = client, leave, until
        self.has_greeted = False
        self.asked = b""  # the request, once it is read
        self.words = b""  # what came after it, and was taken from the socket
        self.target = DialTarget("", 0)
        self.offered: Offered | None = None


class OfferedClients:
    """The clients of one door of the kind `kind`. `back` gets one that is to be served otherwise after all."""

    def __init__(self, session: DoorSession, kind: str, back: Callable[[ClientStream, Leave, Serve | None], object]):
        self._session, self._back = session, back
        self._loop = asyncio.get_running_loop()
        self._parse = self._tunnel if kind == "http" else self._socks
        self._is_exact = kind == "http"  # an address that stands for a name is no way to ask for that name
        self._tunnels = AskedTunnels()
        self._waiting: dict[int, OfferedClient] = {}  # by descriptor: those that have to speak
        self._all: set[OfferedClient] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    def takes(self, client: ClientStream, leave: Leave) -> bool:
        """Whether it does; `leave` is called when it is over."""
        if len(self._all) >= MOST:
            return False
        each = OfferedClient(client, leave, self._loop.time() + PATIENCE)
        self._all.add(each)
        self._wait_on(each)
        self._read(each)  # it has said something already, in most cases
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(PATIENCE, self._sweep)
        return True

    def end(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for each in list(self._all):
            self._stop_waiting(each)
            if each.offered is not None:
                each.offered.cut()
            self._leave(each)

    # ---- what a client says -------------------------------------------------------------------------------------

    def _readable(self, each: OfferedClient) -> None:
        if not self._session.turns.now():
            self._stop_waiting(each)
            self._session.turns.later(partial(self._in_turn, each))
            return
        self._read(each)

    def _in_turn(self, each: OfferedClient) -> None:
        """The turn that it has waited for is for what it has said: to wait for that again would be another turn."""
        if each in self._all:
            self._wait_on(each)
            self._read(each)

    def _read(self, each: OfferedClient) -> None:
        try:
            said = each.client.sock.recv(WORDS)
        except BlockingIOError:
            return
        except OSError:
            said = b""  # whoever serves it meets it again
        if each.offered is not None:
            self._judge(each, said)
        elif not said or not self._ask(each, said):
            each.client.said += said
            self._give_back(each)

    def _wait_on(self, each: OfferedClient) -> None:
        if each in self._all:
            self._waiting[each.client.sock.fileno()] = each
            self._loop.add_reader(each.client.sock.fileno(), self._readable, each)

    def _ask(self, each: OfferedClient, said: bytes) -> bool:
        """Whether it is served here."""
        asked = self._parse(each, said)
        if asked is None:
            return False
        if not asked.target.host:
            return True
        target = self._session.known(asked.target)
        if target is None or (self._is_exact and target != asked.target):
            return False
        each.asked, each.target = said, target
        each.offered = self._session.offer(asked.target, asked.answer, each.client.sock, partial(self._told, each))
        if target.port in LOOKED_AT:
            self._stop_waiting(each)
            each.offered.fetch()
        return True

    def _tunnel(self, _: OfferedClient, said: bytes) -> ConnectionAsked | None:
        asked = self._tunnels.read(said)
        return None if asked is None else ConnectionAsked(*asked)

    def _socks(self, each: OfferedClient, said: bytes) -> ConnectionAsked | None:
        """What was asked for, with no host where the greeting was answered; None for what is not plain."""
        try:
            if not each.has_greeted:
                greeting = socks.read_greeting(said)
                if greeting is None or greeting.size != len(said) or each.client.sock.send(socks.ACCEPTED) != 2:
                    return None
                each.has_greeted = True
                return ConnectionAsked(DialTarget("", 0), b"")
            request = socks.read_request(said)
        except (socks.SocksRefused, OSError):
            return None
        if request is None or request.size != len(said):
            return None
        return ConnectionAsked(DialTarget(str(request.host), request.port), socks.reply(socks.SUCCEEDED))

    def _judge(self, each: OfferedClient, said: bytes) -> None:
        """What it says first; not to be read on from here on."""
        assert each.offered is not None
        self._stop_waiting(each)
        each.words = said
        sniffer = Sniffer(each.target, self._session.rules.may_name_at_address)
        verdict = sniffer.read(said) if said else None
        if verdict is not None and verdict.way is Way.PASS and not sniffer.is_tls:
            each.offered.go(said)
        else:
            each.offered.fetch()

    # ---- what becomes of it -------------------------------------------------------------------------------------

    def _told(self, each: OfferedClient, is_over: bool, server: ClientStream | None) -> None:
        """The relay is done with it; the connection is `server` where it is to be gone on with here."""
        if each not in self._all:
            if server is not None:
                server.close()
            return
        if server is not None:
            each.client.said = each.words
            self._give_back(each, partial(_proxied, each.target, server))
        elif is_over:
            self._stop_waiting(each)
            self._leave(each)  # what there was to tell it was told by the relay
        else:
            each.client.said = each.asked + each.words
            self._give_back(each)

    def _give_back(self, each: OfferedClient, serve: Serve | None = None) -> None:
        self._stop_waiting(each)
        self._all.discard(each)
        greeted = serve_greeted if each.has_greeted else None
        self._back(each.client, each.leave, serve or greeted)

    def _leave(self, each: OfferedClient) -> None:
        self._all.discard(each)
        each.client.close()
        each.leave()

    def _stop_waiting(self, each: OfferedClient) -> None:
        fd = each.client.sock.fileno()
        if self._waiting.get(fd) is each:
            del self._waiting[fd]
            self._loop.remove_reader(fd)

    def _sweep(self) -> None:
        """Gives back those that do not get on: who waits for long has a task, and a place among those that do."""
        self._sweeping, now = None, self._loop.time()
        for each in [each for each in self._waiting.values() if each.offered is None and each.until <= now]:
            self._give_back(each)
        if any(each.offered is None for each in self._all):  # also who waits for a turn
            self._sweeping = self._loop.call_later(PATIENCE, self._sweep)


async def _proxied(target: DialTarget, server: ClientStream, session: DoorSession, client: ClientStream) -> None:
    await proxy_connection(session, target, client, server)
