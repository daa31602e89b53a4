"""One cage at the gatekeeper: its rules as they are now, its names, its ledger, and what it is connected to.

Made before the cage's first command and ended with the cage. All of it belongs to the gatekeeper's loop; `tighten` and
`end` may be called by any thread and have the loop do it. Rules are only ever replaced by narrower ones, and a
connection that the new ones would not make is cut in the same step, so there is none in between.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pysandbox.gate import lost
from pysandbox.gate.dial import Denied, Target, Unreachable, asked, denied, reached
from pysandbox.gate.names import Names
from pysandbox.gate.rules import Decision, Rules, is_special, sixteen
from pysandbox.policy.names import IPAddress, canonical, plain

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.outbound import Outbound
    from pysandbox.gate.upstream import Answer, Upstream
    from pysandbox.handlers.denial import Denial
    from pysandbox.policy.endpoint import Endpoint

MOST_CONNECTIONS = 1024  # of one cage, in the relay
CUT_PATIENCE = 1.0  # seconds for connections to end that were cut
LOOP_PATIENCE = 10.0  # seconds for the loop to come round

T = TypeVar("T")


class Connection(NamedTuple):
    """A relayed connection: what was asked for, where it leads, and how it is cut."""

    target: Target
    address: IPAddress
    cut: Callable[[], object]


class Admission:
    def __init__(
        self, cage_id: str, net: NetPlan, ledger: Ledger, loop: asyncio.AbstractEventLoop, upstream: Upstream,
        relay: Any = None, supervision: Callable[[], Any] = lambda: None,
        left: Callable[[Admission], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.id, self.net, self.ledger = cage_id, net, ledger
        self.loop, self.upstream, self.relay = loop, upstream, relay
        self.rules = Rules.of(net)
        self.names = Names()
        self.connections: dict[int, Connection] = {}
        self.listen: Callable[[str, IPv4Address], Awaitable[None]] | None = None  # where nothing redirects
        self.ear: socket.socket | None = None  # hears of datagrams that arrive nowhere
        self.outbound: Outbound | None = None  # where addresses are listed
        self.doors: list[socket.socket] = []  # each closed by whoever serves it
        self.publishing: asyncio.Task[None] | None = None  # serves the published ports
        self.own_name = ""  # the cage's host name, which some programs look up
        self.ended = False
        self._left = left
        self._supervision = supervision  # what decides the cage's calls, for direct grants
        self._tasks: set[asyncio.Task[Any]] = set()
        self._number = 0
        self._cutting: set[int] = set()  # connections that were told to end and have not
        self._is_cut = asyncio.Event()
        self._is_cut.set()

    # ---- names --------------------------------------------------------------------------------------------------

    async def resolve(self, name: str) -> tuple[IPAddress, ...]:
        """The addresses of an allowed name, as the host sees it; none where there is no such name. Raises Unreachable,
        with the fault written down."""
        return (await self.look_up(name)).addresses

    async def look_up(self, name: str, *, six: bool = False) -> Answer:
        """The same with how long it holds, and whether there is such a name at all; `six` for IPv6 alone."""
        try:
            return await self.upstream.resolve(name, six=six)
        except OSError as error:
            self.ledger.unreachable(str(error))
            raise Unreachable(errno.EHOSTUNREACH, str(error)) from None

    async def demand_address(self, name: str) -> IPv4Address:
        """The synthetic address of an allowed name, once it leads somewhere: without a redirect in the cage, somebody
        has to listen there. Raises OSError."""
        address = self.names.address_of(name)
        if self.listen is not None:
            await self.listen(name, address)
        return address

    def grant_direct(self, name: str, answer: Answer) -> None:
        """Tells the supervisor where the grants of a name lead, that need no relay. One that it does not take is served
        by the relay."""
        supervision = self._supervision()
        if supervision is None:
            return
        synthetic = sixteen(self.names.address_of(name))
        for first, last in self.rules.direct_ports(name):
            for address in answer.addresses:
                alone = first == last or not is_special(address)  # a special address is listed port by port
                if alone and reached(self, name, address, first).allowed:
                    with suppress(OSError):
                        supervision.grant_address(synthetic, sixteen(address), first, last, float(answer.ttl))

    # ---- datagrams ----------------------------------------------------------------------------------------------

    def carry_datagrams(self, host: str, port: int) -> None:
        """Returns when somebody listens at the address in the cage's network, who carries on what is sent there. Any
        thread but the loop's. Raises OSError, StartError, CageClosedError, RuntimeError."""
        outbound, target = self.outbound, Target(host, port)
        if outbound is None:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        try:
            if not outbound.serves(target):
                outbound.open(target)
        except Denied as refusal:
            raise OSError(errno.EPERM, str(refusal)) from None

    # ---- what was refused ---------------------------------------------------------------------------------------

    def denials(self) -> tuple[Denial, ...]:
        """Every refusal until now, also of datagrams that nobody has looked at yet. Any thread but the loop's."""
        ear = self.ear
        with suppress(RuntimeError, TimeoutError, ValueError):  # the gatekeeper has ended, or is closing it
            if ear is not None and lost.has_heard(ear):
                in_loop(self.loop, lambda: lost.hear(self))
        return self.ledger.denials()

    # ---- connections --------------------------------------------------------------------------------------------

    def demand(self, target: Target, connected: socket.socket) -> None:
        """Raises Denied unless the rules, as they are now, would make this connection."""
        decision = self._may_stay(target, _peer_of(connected))
        if not decision.allowed:
            raise denied(self, target, decision)

    def hold(self, target: Target, connected: socket.socket, cut: Callable[[], object]) -> int:
        """From now on the connection is cut when its grant is lost or the cage ends. `connected` is what `dial` gave,
        still open; returns the number for `release`. Raises Denied, also for one connection too many."""
        self.demand(target, connected)
        if self.ended or len(self.connections) >= MOST_CONNECTIONS:
            decision = Decision(False, f"more than {MOST_CONNECTIONS} connections at once", "")
            raise denied(self, target, decision)
        self._number += 1
        self.connections[self._number] = Connection(target, _peer_of(connected), cut)
        return self._number

    def release(self, number: int) -> None:
        """The connection is over. Idempotent."""
        self.connections.pop(number, None)
        self._cutting.discard(number)
        if not self._cutting:
            self._is_cut.set()

    def cut(self, keep: Callable[[Connection], bool]) -> int:
        """Cuts every connection that is not to be kept; how many."""
        lost = [(number, each) for number, each in self.connections.items() if not keep(each)]
        for number, each in lost:
            del self.connections[number]
            self._cutting.add(number)
            self._is_cut.clear()
            with suppress(OSError):
                each.cut()
        return len(lost)

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Only these addresses from now on, out of what was allowed; how many connections were cut. Any thread but the
        loop's; returns when it is done."""
        tightening = self._tighten_and_wait(endpoints)
        try:
            return asyncio.run_coroutine_threadsafe(tightening, self.loop).result(LOOP_PATIENCE)
        except RuntimeError:
            tightening.close()
            return 0  # the gatekeeper has ended, and cut everything

    async def _tighten_and_wait(self, endpoints: tuple[Endpoint, ...]) -> int:
        cut = self._tighten(endpoints)
        with suppress(TimeoutError):
            async with asyncio.timeout(CUT_PATIENCE):
                await self._is_cut.wait()
                await self._unpublish()
        return cut

    async def _unpublish(self) -> None:
        """A cage that is left nothing is reached by nobody either: whoever connects could be told anything."""
        if self.publishing is not None and self.rules.within == ():
            self.publishing.cancel()
            await asyncio.wait({self.publishing})

    def _tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        self.rules = self.rules.tightened(endpoints)
        silenced = self.outbound.cut() if self.outbound is not None else 0
        return silenced + self.cut(lambda each: self._may_stay(each.target, each.address).allowed)

    def _may_stay(self, target: Target, address: IPAddress) -> Decision:
        host = canonical(target.host)
        if not isinstance(host, str):
            return asked(self, address, target.port)
        decision = self.rules.name(host, target.port)
        return self.rules.reached(host, address, target.port) if decision.allowed else decision

    # ---- the cage's doors and its end ---------------------------------------------------------------------------

    def start(self, serving: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a coroutine, at most for as long as the cage lives."""
        task = self.loop.create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """The cage is gone. Any thread; does not wait. A loop that has ended has closed everything itself."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.close)

    def close(self) -> None:
        """Closes the doors and cuts everything. In the loop; idempotent."""
        if self.ended:
            return
        self.ended = True
        serving = list(self._tasks)
        for task in serving:
            task.cancel()
        self.cut(lambda each: False)
        self.loop.create_task(self._leave(serving))

    async def _leave(self, serving: list[asyncio.Task[Any]]) -> None:
        """When nobody waits at a door any more; also at those of whoever was cancelled before it began."""
        try:
            if serving:
                await asyncio.wait(serving)
        finally:
            self.close_doors()
            self._left(self)

    def close_doors(self) -> None:
        for door in self.doors:
            door.close()


def in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Has a loop of another thread make a call; what it answers or raises. Raises RuntimeError when the loop ended."""
    answer: Future[T] = Future()

    def make() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    loop.call_soon_threadsafe(make)
    return answer.result(LOOP_PATIENCE)


def _peer_of(connected: socket.socket) -> IPAddress:
    return plain(ip_address(connected.getpeername()[0]))
