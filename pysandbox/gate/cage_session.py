"""One cage at the gatekeeper: its rules as they are now, its names, its ledger, and what it is connected to.

Made before the cage's first command and ended with the cage. It belongs to the gatekeeper's loop, but for what `lock`
guards: the rules, and every descriptor by which something of this cage may leave. Rules are only ever replaced by
narrower ones, under the lock. The thread that tightens them cuts, under the same lock, what the new ones refuse: this
depends on no loop that a cage may keep busy, and once it has returned nothing more is sent that the rules refuse. So
every sender on a new descriptor checks the rules under the lock (`connect`, `register`, `splice`, `join`, `permit`,
`Hush`), and a descriptor is closed only after it was taken out of the account.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, ip_address

from pysandbox._native import lib
from pysandbox.gate.dns.names import Names, asked_names
from pysandbox.gate.dns.resolver import NotAsked, Withdrawn
from pysandbox.gate.hush import Hush
from pysandbox.gate.monitors import Monitors
from pysandbox.gate.rules import Decision, GateRules
from pysandbox.gate.shares import Account
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable, deny, may_stay
from pysandbox.gate.turns import LoopTurns
from pysandbox.live.services import CageService
from pysandbox.policy.names import IPAddress, plain
from pysandbox.shapes import TYPE_CHECKING, Any, TypeVar, dataclass

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.denial import Denial
    from pysandbox.gate.dns.resolver import Answer, Resolver
    from pysandbox.gate.doors import DatagramForwarders, DoorsReader
    from pysandbox.gate.inspector import InspectorProcess
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.tcp.relay import SocketRelay
    from pysandbox.policy.endpoint import Endpoint

MOST_CONNECTIONS = 1024  # of one cage, in the relay
CUT_PATIENCE = 1.0  # seconds for the loop to tidy up what was cut; nothing depends on it
LATE = 2.5  # seconds without an answer of the host's name servers, after which that is told; a command may end sooner

T = TypeVar("T")
GrantAddress = Callable[[bytes, bytes, int, int, float], None]  # CageInit.grant_address


@dataclass(slots=True)
class Connection:
    """What was asked for, where it leads, the socket that leads there (None: the relay has it, as `relayed`), and what
    the loop does when it was cut."""

    target: DialTarget
    address: IPAddress
    sock: socket.socket | None
    cut: Callable[[], object]
    relayed: int = 0


class CageSession(CageService):
    def __init__(
        self, cage_id: str, net: NetPlan, ledger: Ledger, loop: asyncio.AbstractEventLoop, upstream: Resolver,
        relay: SocketRelay | None = None, grant_address: GrantAddress | None = None,
        left: Callable[[CageSession], None] = lambda _: None, account: Account | None = None,
    ) -> None:  # fmt: skip
        self.id, self.net, self.ledger = cage_id, net, ledger
        self.number = relay.new_cage() if relay is not None else 0  # whose pairs take turns together
        self.loop, self.upstream, self._relay = loop, upstream, relay
        self.lock = threading.Lock()
        self.turns = LoopTurns(loop)
        self.descriptors = (account or Account()).share(full=partial(ledger.crowded, "descriptors"))
        self._occupied = self.descriptors.beside()
        self.questions = upstream.questions.share(full=partial(ledger.crowded, "questions"))
        self.inward = Hush()  # what is published
        self.rules = GateRules.of(net)
        self.names = Names.of(net)
        self.asked_names = asked_names(net)
        self.connections: dict[int, Connection] = {}
        self.listen: Callable[[str, IPv4Address], Awaitable[None]] | None = None  # where nothing redirects
        self.monitors = Monitors(loop)  # of what arrives nowhere
        self.outbound: DatagramForwarders | None = None  # where addresses are listed
        self.doors: list[socket.socket] = []  # each closed by whoever serves it
        self.publishing: asyncio.Task[None] | None = None  # serves the published ports
        self.inspector: InspectorProcess | None = None  # where a host has a contract
        self.reader: DoorsReader | None = None  # the process that serves its doors
        self.secrets = 0  # their number at the inspector; 0: it has none
        self.hostname = ""  # the cage's host name, which some programs look up
        self.ended = False
        self._left = left
        self.grant = grant_address  # of the cage, for direct grants
        self._tasks: set[asyncio.Task[Any]] = set()
        self._number = 0
        self._dialling: dict[socket.socket, tuple[DialTarget, IPAddress]] = {}
        self._joined: set[int] = set()  # pairs of the relay that came in by a published port
        self._cutting: set[int] = set()  # connections that were cut and have not ended
        self._is_cut = asyncio.Event()

    @property
    def relay(self) -> SocketRelay:
        assert self._relay is not None
        return self._relay

    @property
    def decides_network(self) -> bool:
        return True

    # ---- names --------------------------------------------------------------------------------------------------

    async def lookup(self, name: str, *, six: bool = False) -> Answer:
        """The answer of the name server: addresses, how long they hold, and whether there is such a name at all. `six`:
        IPv6 addresses alone. Raises as `resolve`, and NotAsked."""
        self.may_ask(name)
        late = self.loop.call_later(LATE, self.ledger.unreachable, f"the host's name servers are silent for {LATE:g} s")
        try:
            return await self.upstream.resolve(name, six=six, share=self.questions, permit=partial(self.permit, name))
        except Withdrawn:
            raise
        except OSError as error:
            self.ledger.unreachable(str(error))
            raise Unreachable(errno.EHOSTUNREACH, str(error)) from None
        finally:
            late.cancel()

    def may_ask(self, name: str) -> None:
        """Before a name leaves: to a name server, or to the parent proxy. Raises NotAsked."""
        if self.asked_names is not None and (refused := self.asked_names.take(name)) is not None:
            raise NotAsked(*refused)

    @contextmanager
    def permit(self, name: str) -> Iterator[None]:
        """Held while a question for the name is sent, so that the rules cannot change meanwhile. Raises Withdrawn."""
        with self.lock:
            if self.ended or not self.rules.name(name, None).allowed:
                raise Withdrawn(errno.EPERM, f"{name} may not be asked for any more")
            yield

    async def check_address(self, name: str) -> IPv4Address:
        """The synthetic address of an allowed name, once connections to it arrive: without a redirect in the cage, a
        listener is opened at it first. Raises OSError."""
        address = self.names.address_of(name)
        if self.listen is not None:
            await self.listen(name, address)
        return address

    # ---- datagrams ----------------------------------------------------------------------------------------------

    def carry_datagrams(self, host: str, port: int) -> bool:
        """Opens a forwarder that listens at this address in the cage's network; returns when it does. Any thread but
        the loop's. Raises OSError, StartError, CageClosedError, RuntimeError."""
        outbound, target = self.outbound, DialTarget(host, port)
        if outbound is None:
            return False
        try:
            if not outbound.serves(target):
                outbound.open(target)
        except Denied as refusal:
            raise OSError(errno.EPERM, str(refusal)) from None
        return True

    # ---- what was refused ---------------------------------------------------------------------------------------

    def counts(self) -> Mapping[str, int]:
        return self.ledger.counts

    def denials(self) -> tuple[Denial, ...]:
        """Every refusal until now, including packets that are still in a queue, or in hand. Any thread but the
        loop's."""
        self.monitors.catch_up()
        if self.reader is not None:
            self.reader.catch_up()
        if self.inspector is not None:
            self.inspector.wait_booked()
        return self.ledger.denials()

    # ---- connections --------------------------------------------------------------------------------------------

    def check(self, target: DialTarget, connected: socket.socket) -> None:
        """Raises Denied unless the rules, as they are now, allow this connection; OSError if it is gone."""
        decision = may_stay(self, target, _peer_of(connected))
        if not decision.allowed:
            raise deny(self, target, decision)

    def connect(self, target: DialTarget, address: IPAddress, made: socket.socket, rules: GateRules) -> int:
        """Begins to connect; returns the errno. `rules` have allowed it; where they were tightened meanwhile it is
        checked again. Until `dialled` it is cut when its grant is lost. Raises Denied."""
        with self.lock:
            decision = None if self.rules is rules else may_stay(self, target, address)
            if decision is None or decision.allowed:
                self._dialling[made] = target, address
                return made.connect_ex((str(address), target.port))
        raise deny(self, target, decision)

    def dialled(self, made: socket.socket) -> None:
        """Ends what `connect` began: the socket is connected, or about to be closed. Idempotent."""
        with self.lock:
            self._dialling.pop(made, None)

    def register(self, target: DialTarget, connected: socket.socket, cut: Callable[[], object]) -> int:
        """From now on the connection is cut when its grant is lost or the cage ends, and `cut` is called in the loop
        then. `connected` is what `dial` gave; it stays open until `release`, which takes the number that this returns.
        Raises Denied, also for one connection too many."""
        address = _peer_of(connected)
        with self.lock:
            decision = may_stay(self, target, address)
            if self.ended or len(self.connections) >= MOST_CONNECTIONS:
                decision = Decision(False, f"more than {MOST_CONNECTIONS} connections at once", "")
            if decision.allowed:
                self._number += 1
                self.connections[self._number] = Connection(target, address, connected, cut)
                return self._number
        raise deny(self, target, decision)

    def splice(self, held: int, hand_over: Callable[[], int]) -> int:
        """Hands a registered connection to the relay: `hand_over` does it and returns its number there. Raises
        ConnectionAbortedError for one that was cut."""
        with self.lock:
            connection = self.connections.get(held)
            if connection is None:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            connection.relayed, connection.sock = hand_over(), None
            return connection.relayed

    def join(self, hand_over: Callable[[], int]) -> int:
        """Hands a connection that came in by a published port to the relay; returns its number there. Raises
        ConnectionAbortedError when the cage has ended or takes no more connections."""
        with self.lock:
            if self.ended or self.inward.is_silent:
                raise ConnectionAbortedError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))
            number = hand_over()
            self._joined.add(number)
            return number

    def parted(self, number: int) -> None:
        """A connection that `join` handed over has ended."""
        with self.lock:
            self._joined.discard(number)

    def unregister(self, number: int) -> None:
        """The connection is over, or about to be closed. Idempotent."""
        with self.lock:
            self.connections.pop(number, None)
            self._cutting.discard(number)
        if not self._cutting:
            self._is_cut.set()

    def reset_connections(self, keep: Callable[[Connection], bool]) -> int:
        """Cuts every connection that `keep` does not name; returns how many. Any thread."""
        with self.lock:
            return self._cut(keep)

    def _cut(self, keep: Callable[[Connection], bool]) -> int:
        """Called under the lock, so that no descriptor in the account is closed meanwhile."""
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
        if self._relay is not None:
            self._relay.cut(number)

    def _was_cut(self, lost: list[tuple[int, Connection]]) -> None:
        """Called in the loop: tells the task that serves the connection."""
        for number, each in lost:
            if number in self._cutting:
                each.cut()

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Allows only these addresses from now on, out of what was allowed; returns how many connections were cut. Any
        thread. Once it has returned, nothing leaves that is refused now; the loop tidies up later."""
        with self.lock:
            cut = self._tighten(endpoints)
        if self._relay is not None:
            self._relay.wait_idle()
        self._tidied()
        return cut

    def _tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Replaces the rules. Called under the lock."""
        self.rules = self.rules.tightened(endpoints)
        if self.reader is not None:
            self.reader.tell_rules(self)
        for made, (target, address) in list(self._dialling.items()):
            if not may_stay(self, target, address).allowed:
                lib.psb_cut_socket(made.fileno())
        if self.rules.closed:
            self.inward.silence()
            for number in self._joined:
                self._cut_relayed(number)
        silenced = self.outbound.silence() if self.outbound is not None else 0
        return silenced + self._cut(lambda each: may_stay(self, each.target, each.address).allowed)

    def _tidied(self) -> None:
        """Waits a moment for the loop, so that descriptors and ports are closed when the caller looks."""
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
        """Closes the published ports of a cage that is left no address: it could send anything to their clients."""
        if self.publishing is not None and self.rules.closed:
            self.publishing.cancel()
            await asyncio.wait({self.publishing})

    # ---- the cage's doors and its end ---------------------------------------------------------------------------

    def start(self, serving: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a coroutine, at most for as long as the cage lives."""
        task = self.loop.create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def end(self) -> None:
        """Ends everything that is served for a cage that has ended. Any thread; does not wait. A loop that has ended
        has closed everything itself."""
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
        self.reset_connections(lambda each: False)
        if self.inspector is not None:
            from pysandbox.gate.inspection.channel import ChannelRecord, Kind

            with suppress(OSError):  # what it keeps of this cage
                self.inspector.say(ChannelRecord(Kind.ENDED, self.number), patience=0.0)
        self.loop.create_task(self._leave(serving))

    async def _leave(self, serving: list[asyncio.Task[Any]]) -> None:
        """Closes the doors when no task waits at them any more, even one that was cancelled before it began."""
        try:
            if serving:
                await asyncio.wait(serving)
        finally:
            self.close_doors()
            self._left(self)

    def opened(self) -> None:
        """Counts the descriptors of its doors and ports, which a cage has even where its share is used up."""
        self._occupied.note(len(self.doors))

    def close_doors(self) -> None:
        for door in self.doors:
            door.close()
        self._occupied.give(self._occupied.taken)


def _peer_of(connected: socket.socket) -> IPAddress:
    return plain(ip_address(connected.getpeername()[0]))
