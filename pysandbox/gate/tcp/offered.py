"""Clients of the SOCKS door and of the HTTP door that are connected without a task of their own, where what they ask
for is known to the relay's thread (csrc/host/relay/offered.c).

What they ask for is read here. That they have it they are told there, at the moment when it is so; what they say next
is judged here, and goes on there. Whatever is not as plain as that is given back, with all that was said, and is served
as if nothing had been read: a handshake in pieces, a target that is not known, TLS, HTTP, a server that speaks first.

What one has said who was plain to the end is served without Python when it is said again (reading/repeats.py), and
comes here only where it goes on in another way.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.doors import Repeat
from pysandbox.gate.http.asked import AskedTunnels
from pysandbox.gate.tcp import socks
from pysandbox.gate.tcp.proxying import proxy_connection
from pysandbox.gate.tcp.sniff import HTTP, HTTPS, Sniffer, Way
from pysandbox.gate.tcp.socks_door import serve_greeted
from pysandbox.gate.tcp.stream import ClientStream
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.gate.doors import DoorSession, Fetched, Offered, RepeatClient, RepeatWords

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

    __slots__ = ("asked", "client", "greeting", "has_greeted", "leave", "offered", "target", "until", "words")

    def __init__(self, client: ClientStream, leave: Leave, until: float) -> None:
        self.client, self.leave, self.until = client, leave, until
        self.has_greeted = False
        self.greeting = b""
        self.asked = b""  # the request, once it is read
        self.words = b""  # what came after it, and was taken from the socket
        self.target = DialTarget("", 0)
        self.offered: Offered | None = None


class OfferedClients:
    """The clients of one door of the kind `kind`. `back` gets one that is to be served otherwise after all. At a door
    to which clients are redirected ("tcp"), these are the ones that went to a target which others had reached."""

    def __init__(self, session: DoorSession, kind: str, back: Callable[[ClientStream, Leave, Serve | None], object]):
        self._session, self._back = session, back
        self._loop = asyncio.get_running_loop()
        self._parse = {"http": self._tunnel, "socks": self._socks, "tcp": self._place}[kind]
        self._is_redirected = kind == "tcp"
        self._is_exact = kind == "http"  # an address that stands for a name is no way to ask for that name
        self._tunnels = AskedTunnels()
        self._waiting: dict[int, OfferedClient] = {}  # by descriptor: those that have to speak
        self._all: set[OfferedClient] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._repeats: RepeatWords | None = None
        self._each = 0
        self._is_full: Callable[[], bool] = lambda: True
        self._fresh: Callable[[ClientStream, Leave], object] = self.takes
        self._is_ended = False

    def learn_at(
        self, listener: socket.socket, each: int, is_full: Callable[[], bool],
        fresh: Callable[[ClientStream, Leave], object],
    ) -> None:  # fmt: skip
        """What is said at the door again is served without Python, while it is not full; a client is so many
        descriptors. `fresh` gets those of which nothing is known."""
        self._each, self._is_full, self._fresh = each, is_full, fresh
        self._repeats = self._session.learn_at(listener, each, self._handed_back, redirected=self._is_redirected)

    def takes(self, client: ClientStream, leave: Leave) -> bool:
        """Whether it does; `leave` is called when it is over."""
        if len(self._all) >= MOST:
            return False
        each = self._add(client, leave)
        self._wait_on(each)
        self._read(each)  # it has said something already, in most cases
        return True

    def _add(self, client: ClientStream, leave: Leave) -> OfferedClient:
        each = OfferedClient(client, leave, self._loop.time() + PATIENCE)
        self._all.add(each)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(PATIENCE, self._sweep)
        return each

    def end(self) -> None:
        self._is_ended = True
        if self._repeats is not None:
            self._repeats.end()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for each in list(self._all):
            self._stop_waiting(each)
            if each.offered is not None:
                each.offered.cut()
            each.client.reset()
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
        self._take_words(each, said)

    def _take_words(self, each: OfferedClient, said: bytes) -> None:
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
        try:
            offered = self._session.offer(asked.target, asked.answer, each.client.sock, partial(self._told, each))
        except OSError:  # too many descriptors of this user are on their way
            return False
        each.asked, each.target, each.offered = said, target, offered
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
                each.has_greeted, each.greeting = True, said
                return ConnectionAsked(DialTarget("", 0), b"")
            request = socks.read_request(said)
        except (socks.SocksRefused, OSError):
            return None
        if request is None or request.size != len(said):
            return None
        return ConnectionAsked(DialTarget(str(request.host), request.port), socks.reply(socks.SUCCEEDED))

    def _place(self, _: OfferedClient, said: bytes) -> ConnectionAsked | None:
        return ConnectionAsked(DialTarget(str(IPv4Address(said[:4])), int.from_bytes(said[4:], "big")), b"")

    def _judge(self, each: OfferedClient, said: bytes) -> None:
        """What it says first; not to be read on from here on."""
        assert each.offered is not None
        self._stop_waiting(each)
        each.words = said
        sniffer = Sniffer(each.target, self._session.rules.may_name_at_address)
        verdict = sniffer.read(said) if said and each.target.host else None  # what it means may not be known any more
        if verdict is not None and verdict.way is Way.PASS and not sniffer.is_tls:
            each.offered.go(said)
            self._learn(each)
        else:
            each.offered.fetch()

    # ---- what is said again -------------------------------------------------------------------------------------

    def learn_place(self, asked: DialTarget) -> None:
        """Who was redirected from there was plain."""
        if self._repeats is not None:
            place = IPv4Address(asked.host).packed + asked.port.to_bytes(2, "big")
            self._repeats.learn_offer(Repeat.PLACE, place, asked, b"")

    def _learn(self, each: OfferedClient) -> None:
        asked = self._parse(each, each.asked)
        if self._repeats is None or asked is None or self._is_redirected:
            return
        if each.greeting:
            self._repeats.learn(Repeat.GREETING, each.greeting, socks.ACCEPTED)
        what = Repeat.REQUEST if each.has_greeted else Repeat.HEAD
        self._repeats.learn_offer(what, each.asked, asked.target, asked.answer)

    def _handed_back(self, repeat: RepeatClient) -> None:
        """One goes on in another way than those before; it has its place here, and waits for a turn."""
        leave = partial(self._session.descriptors.give, self._each)
        each = self._add(ClientStream(repeat.sock, self._session.turns), leave)
        each.has_greeted = repeat.is_greeted
        asked = self._parse(each, repeat.asked) if repeat.call else None
        if asked is not None:
            each.asked, each.target = repeat.asked, self._session.known(asked.target) or each.target
            each.offered = self._session.adopt(repeat.call, asked.target, partial(self._told, each))
            each.words = repeat.words
        goes_on = partial(self._go_on, each, repeat)
        if self._session.turns.now():
            goes_on()
        else:
            self._session.turns.later(goes_on)

    def _go_on(self, each: OfferedClient, repeat: RepeatClient) -> None:
        if self._is_ended:
            return
        if self._repeats is not None and not self._is_full():
            self._repeats.make_up()
        if each not in self._all:
            return  # answered before it had its turn
        if each.offered is not None:
            if repeat.has_spoken:
                self._judge(each, repeat.words)
        elif self._is_redirected:
            self._all.discard(each)
            each.client.said = repeat.words
            self._fresh(each.client, each.leave)
        else:
            self._wait_on(each)
            if repeat.words or repeat.is_greeted:
                self._take_words(each, repeat.words)
            else:
                self._read(each)

    # ---- what becomes of it -------------------------------------------------------------------------------------

    def _told(self, each: OfferedClient, is_over: bool, fetched: Fetched | None) -> None:
        """The relay is done with it; the connection is `fetched` where it is to be gone on with here."""
        if each not in self._all:
            if fetched is not None:
                fetched.server.close()
            return
        if fetched is not None:
            each.client.said = each.words
            self._give_back(each, partial(_proxied, *fetched))
        elif is_over:
            self._stop_waiting(each)
            self._leave(each)  # what there was to tell it was told by the relay
        else:
            if self._repeats is not None:
                self._repeats.forget(each.asked)
            each.client.said = each.words if self._is_redirected else each.asked + each.words
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
