"""What the host knows of a name: /etc/hosts, then the name servers of /etc/resolv.conf, or those it was given.

One cache for all cages of the gatekeeper, for at most 60 s (T05); the name was allowed before the resolver is asked.
No cage learns how old an answer is, which would tell it what another one asked. Each question is sent from a connected
socket of its own, so that only that server can answer and only to that port; its id is random, and an answer to
another question is ignored. Equal questions at one time are sent once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from ipaddress import IPv4Address, IPv6Address, ip_address

from pysandbox.gate.dns import message
from pysandbox.gate.rules import Decision
from pysandbox.gate.shares import Account, Share, descriptors
from pysandbox.policy.names import IPAddress, canonical, plain
from pysandbox.shapes import Generic, NamedTuple, TypeVar

HOSTS, RESOLV_CONF = "/etc/hosts", "/etc/resolv.conf"
LONGEST_TTL = 60  # seconds
HOSTS_HOLD = 1.0  # seconds until a change of /etc/hosts is seen, whoever dials
MISSING_TTL = 5  # of a name that does not exist
ANSWERS_KEPT = 4096
QUESTIONS_AT_ONCE = 256  # of all cages; a cage has its share of them, and what is more waits for its turn
QUESTIONS_PART = 4  # one part in so many of the descriptors of all cages
SERVERS_ASKED = 3  # as resolv.conf(5)
ROUNDS = 2
PATIENCE = 2.0  # seconds for one server, each time
TURN_PATIENCE = 10.0  # seconds for a turn
LARGEST_FILE = 4 << 20  # of /etc/hosts

Server = tuple[str, int]
T = TypeVar("T")


class Answer(NamedTuple):
    """`exists`: there is such a name, though it may have no address of the family that was asked for. `ttl` is what is
    left of the time that it holds, `whole` all of it, where that is not the same."""

    addresses: tuple[IPAddress, ...]
    ttl: int
    exists: bool = True
    whole: int = 0

    @property
    def lifetime(self) -> int:
        """The TTL that a cage is told; it does not reveal what other cages have asked."""
        return min(max(self.ttl, self.whole), LONGEST_TTL)


class Withdrawn(OSError):
    """The cage may not ask for this name any more."""


class NotAsked(OSError):
    """What the name says is not to leave. `shown` is what may be told of it."""

    def __init__(self, shown: str, decision: Decision) -> None:
        super().__init__(errno.EPERM, f"{shown} is not asked for: {decision.rule}")
        self.shown, self.decision = shown, decision


Permit = Callable[[], AbstractContextManager[object]]  # held while a question is sent; raises Withdrawn


class Resolver:
    """The name servers and the cache of one event loop."""

    def __init__(
        self, nameservers: Sequence[str] | None = None, *, hosts: str = HOSTS, resolv_conf: str = RESOLV_CONF,
        clock: Callable[[], float] = time.monotonic, account: Account | None = None,
    ) -> None:  # fmt: skip
        self._given = tuple(read_server(each) for each in nameservers) if nameservers is not None else None
        self._hosts = CachedFile(hosts, read_hosts)
        self._servers = CachedFile(resolv_conf, read_resolv_conf)
        self._clock = clock
        self._cache: OrderedDict[tuple[str, int], tuple[float, Answer]] = OrderedDict()
        self._asking: dict[tuple[str, int], asyncio.Task[Answer]] = {}
        self._descriptors = (account or Account()).share()
        self.questions = Account(lambda: min(QUESTIONS_AT_ONCE, descriptors() // QUESTIONS_PART))

    async def resolve(
        self, name: str, *, six: bool = False, share: Share | None = None, permit: Permit = nullcontext
    ) -> Answer:  # fmt: skip
        """The IPv4 addresses of a canonical name, or with `six` its IPv6 ones. `share` is of `questions`. Raises
        OSError when nobody knows."""
        known = self._hosts.content().get(name)
        if known is not None:
            return Answer(tuple(each for each in known if (each.version == 6) == six), LONGEST_TTL)
        key = name, message.AAAA if six else message.A
        return self._kept(key) or await self._asked_for(key, share or self.questions.share(), permit)

    def holds(self, name: str, *, six: bool = False) -> float:
        """For how many seconds more the addresses of a name are known; 0 where they are asked for each time."""
        if name in self._hosts.content():
            return HOSTS_HOLD
        kept = self._cache.get((name, message.AAAA if six else message.A))
        return max(0.0, kept[0] - self._clock()) if kept is not None else 0.0

    def _kept(self, key: tuple[str, int]) -> Answer | None:
        kept = self._cache.get(key)
        if kept is None or kept[0] <= self._clock():
            return None
        return kept[1]._replace(ttl=max(0, int(kept[0] - self._clock())), whole=kept[1].ttl)

    async def _asked_for(self, key: tuple[str, int], share: Share, permit: Permit) -> Answer:
        """Asks a question, or waits for the same question of another cage that is on its way already."""
        while (task := self._asking.get(key)) is not None:
            try:
                return await asyncio.shield(task)
            except Withdrawn:  # by who asked first
                continue
        try:
            async with asyncio.timeout(TURN_PATIENCE):
                await share.room()
        except TimeoutError:
            raise OSError(errno.EAGAIN, "too many names are being resolved") from None
        if key in self._asking:
            share.give()
            return await self._asked_for(key, share, permit)
        self._descriptors.note()
        task = self._asking[key] = asyncio.create_task(self._ask(*key, permit))
        task.add_done_callback(lambda done: self._asked(key, share, done))
        return await asyncio.shield(task)

    def _asked(self, key: tuple[str, int], share: Share, done: asyncio.Task[Answer]) -> None:
        del self._asking[key]
        share.give()
        self._descriptors.give()
        if done.cancelled() or done.exception() is not None:
            return
        answer = done.result()
        self._cache.pop(key, None)
        if answer.ttl > 0:
            self._cache[key] = self._clock() + answer.ttl, answer
        while len(self._cache) > ANSWERS_KEPT:
            self._cache.popitem(last=False)

    # ---- asking -------------------------------------------------------------------------------------------------

    async def _ask(self, name: str, kind: int, permit: Permit) -> Answer:
        servers = self._given if self._given is not None else self._servers.content()
        if not servers:
            raise OSError(errno.ENOENT, f"this host has no name server ({RESOLV_CONF})")
        failure = ""
        for server in list(servers[:SERVERS_ASKED]) * ROUNDS:
            try:
                async with asyncio.timeout(PATIENCE):
                    reply = await _ask_server(server, name, kind, permit)
            except Withdrawn:
                raise
            except (OSError, message.Malformed) as error:
                what = "no answer" if isinstance(error, TimeoutError) else str(error)
                failure = f"{server[0]}:{server[1]}: {what}"
                continue
            if reply.code == message.NXDOMAIN:
                return Answer((), MISSING_TTL, exists=False)
            if reply.code == message.NOERROR:
                return _answer_of(reply, kind)
            failure = f"{server[0]}:{server[1]}: answered with code {reply.code}"
        raise OSError(errno.EHOSTUNREACH, f"the host's name servers do not answer ({failure})")


def _answer_of(reply: message.Reply, kind: int) -> Answer:
    size, made = (16, IPv6Address) if kind == message.AAAA else (4, IPv4Address)
    found = tuple(plain(made(each)) for each in reply.data if len(each) == size)
    return Answer(found, min(reply.ttl, LONGEST_TTL) if found else MISSING_TTL)


async def _ask_server(server: Server, name: str, kind: int, permit: Permit) -> message.Reply:
    """Raises OSError, Malformed."""
    number = int.from_bytes(os.urandom(2), "big")
    question = message.ask(number, name, kind)
    with _open(server, socket.SOCK_DGRAM) as asking:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(asking, server)
        with permit():
            asking.send(question)
        while True:
            await asyncio.sleep(0)  # whoever guesses may do so without end
            try:
                reply = message.read_reply(await loop.sock_recv(asking, 65535), number, name, kind)
                break
            except message.Malformed:
                continue  # somebody guesses; the real answer may still come
    return await _ask_over_tcp(server, question, number, name, kind, permit) if reply.truncated else reply


async def _ask_over_tcp(
    server: Server, question: bytes, number: int, name: str, kind: int, permit: Permit
) -> message.Reply:  # fmt: skip
    loop = asyncio.get_running_loop()
    with _open(server, socket.SOCK_STREAM) as asking:
        await loop.sock_connect(asking, server)
        with permit():
            asking.send(len(question).to_bytes(2, "big") + question)  # there is room in a new connection
        size = int.from_bytes(await _receive(asking, 2), "big")
        reply = message.read_reply(await _receive(asking, size), number, name, kind)
    if reply.truncated:
        raise message.Malformed("truncated over TCP")
    return reply


async def _receive(asking: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        await asyncio.sleep(0)
        more = await asyncio.get_running_loop().sock_recv(asking, size - len(got))
        if not more:
            raise message.Malformed("cut off")
        got += more
    return got


def _open(server: Server, kind: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
    return socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)


# ---- what the host's files say --------------------------------------------------------------------------------------


class CachedFile(Generic[T]):
    """What a file says, read again when it was changed; `read` of nothing where it is not there."""

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self._path, self._read = path, read
        self._seen: tuple[int, int, int] | None = None
        self._content = read("")

    def content(self) -> T:
        try:
            status = os.stat(self._path)
            seen = status.st_mtime_ns, status.st_size, status.st_ino
            if seen != self._seen:
                with open(self._path, encoding="utf-8", errors="replace") as file:
                    self._content = self._read(file.read(LARGEST_FILE))
                self._seen = seen
        except OSError:
            self._seen, self._content = None, self._read("")
        return self._content


def read_hosts(text: str) -> Mapping[str, tuple[IPAddress, ...]]:
    """hosts(5): every name with all its addresses. What cannot be read is left out."""
    found: dict[str, tuple[IPAddress, ...]] = {}
    for line in text.splitlines():
        written, *names = line.partition("#")[0].split() or [""]
        for name in names:
            try:
                address, known = plain(ip_address(written.partition("%")[0])), canonical(name)
            except ValueError:  # BadName is one
                continue
            if isinstance(known, str):
                found[known] = (*found.get(known, ()), address)
    return found


def read_resolv_conf(text: str) -> tuple[Server, ...]:
    """The servers of resolv.conf(5); without any the one of this host, as there."""
    words = [line.split() for line in text.splitlines()]
    named = [each[1] for each in words if len(each) >= 2 and each[0] == "nameserver"]
    found = []
    for each in named:
        try:
            ip_address(each.partition("%")[0])
        except ValueError:
            continue
        found.append((each, 53))
    return tuple(found) or (("127.0.0.1", 53),)


def read_server(text: str) -> Server:
    """`127.0.0.1`, `127.0.0.1:5353`, `[::1]:5353`. Raises ValueError."""
    host, port = text, "53"
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":") or "53"
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is not a name server; write 127.0.0.1 or 127.0.0.1:5353")
    try:
        return str(ip_address(host)), int(port)
    except ValueError:
        raise ValueError(f"{text!r} is not a name server; write its address, 127.0.0.1 or 127.0.0.1:5353") from None
