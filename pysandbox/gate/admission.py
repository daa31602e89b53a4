"""One cage at the gatekeeper: its rules as they are now, its names, its ledger, and what it is connected to.

Made before the cage's first command and ended with the cage. It belongs to the gatekeeper's loop, but for what `lock`
guards: the rules, and every descriptor by which something of this cage may leave. Rules are only ever replaced by
narrower ones, under the lock, and what the new ones would not let through is cut by whoever tightens them, in his own
thread and under the same lock: it depends on no loop that a cage may keep busy, and when it returns, nothing that was
not sent by then is sent. So whoever sends on a new descriptor looks at the rules under the lock (`connecting`, `hold`,
`splice`, `join`, `permit`, `Hush`), and a descriptor is closed only after it was taken out of the account.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from pysandbox._native import lib
from pysandbox.gate import lost
from pysandbox.gate.dial import Denied, Target, Unreachable, asked, denied, reached
from pysandbox.gate.hush import Hush
from pysandbox.gate.names import Names
from pysandbox.gate.rules import Decision, Rules, is_special, sixteen
from pysandbox.gate.shares import Account
from pysandbox.gate.turns import Turns
from pysandbox.gate.upstream import Withdrawn
from pysandbox.policy.names import IPAddress, canonical, plain

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.outbound import Outbound
    from pysandbox.gate.upstream import Answer, Upstream
    from pysandbox.handlers.denial import Denial
    from pysandbox.policy.endpoint import Endpoint

MOST_CONNECTIONS = 1024  # of one cage, in the relay
CUT_PATIENCE = 1.0  # seconds for the loop to tidy up what was cut; nothing depends on it
LOOP_PATIENCE = 10.0  # seconds for the loop to come round

T = TypeVar("T")


@dataclass(slots=True)
class Connection:
    """What was asked for, where it leads, the socket that leads there (None: the relay has it, as `relayed`), and what
    the loop does when it was cut."""

    target: Target
    address: IPAddress
    sock: socket.socket | None
    cut: Callable[[], object]
    relayed: int = 0


class Admission:
    def __init__(
        self, cage_id: str, net: NetPlan, ledger: Ledger, loop: asyncio.AbstractEventLoop, upstream: Upstream,
        relay: Any = None, supervision: Callable[[], Any] = lambda: None,
        left: Callable[[Admission], None] = lambda _: None, account: Account | None = None,
    ) -> None:  # fmt: skip
        self.id, self.net, self.ledger = cage_id, net, ledger
        self.number = relay.new_cage() if relay is not None else 0  # whose pairs take turns together
        self.loop, self.upstream, self.relay = loop, upstream, relay
        self.lock = threading.Lock()
        self.turns = Turns(loop)
        self.descriptors = (account or Account()).share(full=partial(ledger.crowded, "descriptors"))
        self._occupied = self.descriptors.beside()
        self.questions = upstream.questions.share(full=partial(ledger.crowded, "questions"))
        self.inward = Hush()  # what is published
        self.rules = Rules.of(net)
        self.names = Names.of(net)
        self.connections: dict[int, Connection] = {}
        self.listen: Callable[[str, IPv4Address], Awaitable[None]] | None = None  # where nothing redirects
        self.ears: dict[socket.socket, Callable[[Admission, socket.socket], None]] = {}  # of what arrives nowhere
        self.outbound: Outbound | None = None  # where addresses are listed
        self.doors: list[socket.socket] = []  # each closed by whoever serves it
        self.publishing: asyncio.Task[None] | None = None  # serves the published ports
        self.own_name = ""  # the cage's host name, which some programs look up
        self.ended = False
        self._left = left
        self._supervision = supervision  # what decides the cage's calls, for direct grants
        self._tasks: set[asyncio.Task[Any]] = set()
        self._number = 0
        self._dialling: dict[socket.socket, tuple[Target, IPAddress]] = {}
        self._joined: set[int] = set()  # pairs of the relay that came in by a published port
        self._cutting: set[int] = set()  # connections that were cut and have not ended
        self._is_cut = asyncio.Event()

    # ---- names --------------------------------------------------------------------------------------------------

    async def resolve(self, name: str) -> tuple[IPAddress, ...]:
        """The addresses of an allowed name, as the host sees it; none where there is no such name. Raises Unreachable,
        with the fault written down; Withdrawn."""
        found = (await self.look_up(name)).addresses
        return found or (await self.look_up(name, six=True)).addresses if self.net.ipv6 == "resolve" else found

    async def look_up(self, name: str, *, six: bool = False) -> Answer:
        """The same with how long it holds, and whether there is such a name at all; `six` for IPv6 alone."""
        try:
            return await self.upstream.resolve(name, six=six, share=self.questions, permit=partial(self.permit, name))
        except Withdrawn:
            raise
        except OSError as error:
            self.ledger.unreachable(str(error))
            raise Unreachable(errno.EHOSTUNREACH, str(error)) from None

    @contextmanager
    def permit(self, name: str) -> Iterator[None]:
        """While a question for the name is sent. Raises Withdrawn."""
        with self.lock:
            if self.ended or not self.rules.name(name, None).allowed:
                raise Withdrawn(errno.EPERM, f"{name} may not be asked for any more")
            yield

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
        """Every refusal until now, also of what was sent and nobody has looked at yet. Any thread but the loop's."""
        for ear in list(self.ears):
            with suppress(RuntimeError, TimeoutError, ValueError):  # the gatekeeper has ended, or is closing it
                if lost.has_heard(ear):
                    in_loop(self.loop, partial(self._hear, ear))
        return self.ledger.denials()

    def _hear(self, ear: socket.socket) -> None:
        if ear in self.ears:
            self.ears[ear](self, ear)

    # ---- connections --------------------------------------------------------------------------------------------

    def demand(self, target: Target, connected: socket.socket) -> None:
        """Raises Denied unless the rules, as they are now, would make this connection; OSError if it is gone."""
        decision = self._may_stay(target, _peer_of(connected))
        if not decision.allowed:
            raise denied(self, target, decision)

    def connect(self, target: Target, address: IPAddress, made: socket.socket, rules: Rules) -> int:
        """Begins to connect; the errno. Decided by `rules`, or anew where they were tightened meanwhile. From now on it
        is cut when its grant is lost, until `dialled`. Raises Denied."""
        with self.lock:
            decision = None if self.rules is rules else self._may_stay(target, address)
            if decision is None or decision.allowed:
                self._dialling[made] = target, address
                return made.connect_ex((str(address), target.port))
        raise denied(self, target, decision)

    def dialled(self, made: socket.socket) -> None:
        """It is connected, or about to be closed. Idempotent."""
        with self.lock:
            self._dialling.pop(made, None)

    def hold(self, target: Target, connected: socket.socket, cut: Callable[[], object]) -> int:
        """From now on the connection is cut when its grant is lost or the cage ends, and `cut` is called in the loop
        then. `connected` is what `dial` gave; it stays open until `release`, which takes the number that this returns.
        Raises Denied, also for one connection too many."""
        address = _peer_of(connected)
        with self.lock:
            decision = self._may_stay(target, address)
            if self.ended or len(self.connections) >= MOST_CONNECTIONS:
                decision = Decision(False, f"more than {MOST_CONNECTIONS} connections at once", "")
            if decision.allowed:
                self._number += 1
                self.connections[self._number] = Connection(target, address, connected, cut)
                return self._number
        raise denied(self, target, decision)

    def splice(self, held: int, hand_over: Callable[[], int]) -> int:
        """Has a held connection given to the relay: `hand_over` returns its number there. Raises ConnectionAbortedError
        for one that was cut."""
        with self.lock:
            connection = self.connections.get(held)
            if connection is None:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            connection.relayed, connection.sock = hand_over(), None
            return connection.relayed

    def join(self, hand_over: Callable[[], int]) -> int:
        """The same for one that has come in by a published port."""
        with self.lock:
            if self.ended or self.inward.is_silent:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            number = hand_over()
            self._joined.add(number)
            return number

    def parted(self, number: int) -> None:
        """It is over."""
        with self.lock:
            self._joined.discard(number)

    def release(self, number: int) -> None:
        """The connection is over, or about to be closed. Idempotent."""
        with self.lock:
            self.connections.pop(number, None)
            self._cutting.discard(number)
        if not self._cutting:
            self._is_cut.set()

    def cut(self, keep: Callable[[Connection], bool]) -> int:
        """Cuts every connection that is not to be kept; how many. Any thread."""
        with self.lock:
            return self._cut(keep)

    def _cut(self, keep: Callable[[Connection], bool]) -> int:
        """Under the lock: no descriptor that is in the account is closed meanwhile."""
        lost = [(number, each) for number, each in self.connections.items() if not keep(each)]
        for number, each in lost:
            del self.connections[number]
            self._cutting.add(number)
            if each.sock is not None:
                lib.psb_cut_socket(each.sock.fileno())
            else:
                self._cut_relayed(each.relayed)
        with suppress(RuntimeError):  # a loop that has ended has closed everything itself
            self.loop.call_soon_threadsafe(self._was_cut, lost)
        return len(lost)

    def _cut_relayed(self, number: int) -> None:
        if self.relay is not None:
            self.relay.cut(number)

    def _was_cut(self, lost: list[tuple[int, Connection]]) -> None:
        """In the loop: whoever serves it is told."""
        for number, each in lost:
            if number in self._cutting:
                each.cut()

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Only these addresses from now on, out of what was allowed; how many connections were cut. Any thread. When it
        returns, nothing of what is refused now leaves any more; the loop tidies up in its own time."""
        with self.lock:
            cut = self._tighten(endpoints)
        if self.relay is not None:
            self.relay.settle()
        self._tidied()
        return cut

    def _tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Under the lock."""
        self.rules = self.rules.tightened(endpoints)
        for made, (target, address) in list(self._dialling.items()):
            if not self._may_stay(target, address).allowed:
                lib.psb_cut_socket(made.fileno())
        if self.rules.within == ():
            self.inward.silence()
            for number in self._joined:
                self._cut_relayed(number)
        silenced = self.outbound.silence() if self.outbound is not None else 0
        return silenced + self._cut(lambda each: self._may_stay(each.target, each.address).allowed)

    def _tidied(self) -> None:
        """Waits a moment for the loop, so that whoever asks next finds descriptors and ports closed."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self.loop:
                return
        tidying = self._tidy()
        try:
            asyncio.run_coroutine_threadsafe(tidying, self.loop).result(2 * CUT_PATIENCE)
        except RuntimeError:
            tidying.close()
        except TimeoutError:
            return

    async def _tidy(self) -> None:
        if self.outbound is not None:
            self.outbound.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(CUT_PATIENCE):
                self._is_cut.clear()
                while self._cutting:
                    await self._is_cut.wait()
                await self._unpublish()

    async def _unpublish(self) -> None:
        """A cage that is left nothing is reached by nobody either: whoever connects could be told anything."""
        if self.publishing is not None and self.rules.within == ():
            self.publishing.cancel()
            await asyncio.wait({self.publishing})

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
        self.inward.silence()
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

    def opened(self) -> None:
        """Its doors and ports are there: a cage has them whatever there is, and no guest asked for them."""
        self._occupied.note(len(self.doors))

    def close_doors(self) -> None:
        for door in self.doors:
            door.close()
        self._occupied.give(self._occupied.taken)


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
