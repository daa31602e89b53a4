"""One cage at the gatekeeper: its rules as they are now, its names, its ledger, and what serves it.

Made before the cage's first command and ended with the cage. It belongs to the gatekeeper's loop, but for what `lock`
guards: the rules, and every descriptor by which something of this cage may leave (connections.py). Rules are only ever
replaced by narrower ones, under the lock. The thread that tightens them cuts, under the same lock, what the new ones
refuse: this depends on no loop that a cage may keep busy, and once it has returned nothing more is sent that the rules
refuse. So every sender on a new descriptor checks the rules under the lock (`CageConnections`, `permit`, `Hush`).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address

from pysandbox.gate.connections import CageConnections
from pysandbox.gate.dns.names import Names, asked_names, name_scan
from pysandbox.gate.dns.resolver import NotAsked, Withdrawn
from pysandbox.gate.hush import Hush
from pysandbox.gate.judged import JudgedTargets
from pysandbox.gate.monitors import Monitors
from pysandbox.gate.rules import GateRules
from pysandbox.gate.shares import Account
from pysandbox.gate.tasks import CageTasks
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.gate.turns import LoopTurns
from pysandbox.live.services import CageService
from pysandbox.shapes import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.denial import Denial
    from pysandbox.gate.dns.resolver import Answer, Resolver
    from pysandbox.gate.doors import DatagramForwarders, DoorsReader, WaitingDoors
    from pysandbox.gate.inspector import InspectorProcess
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.sent import LeakCaller
    from pysandbox.gate.tcp.relay import SocketRelay
    from pysandbox.policy.endpoint import Endpoint

CUT_PATIENCE = 1.0  # seconds for the loop to tidy up what was cut; nothing depends on it
LATE = 2.5  # seconds without an answer of the host's name servers, after which that is told; a command may end sooner

T = TypeVar("T")
GrantAddress = Callable[[bytes, bytes, int, int, float], None]  # CageInit.grant_address


class CageSession(CageService):
    def __init__(
        self, cage_id: str, net: NetPlan, ledger: Ledger, loop: asyncio.AbstractEventLoop, upstream: Resolver,
        relay: SocketRelay | None = None, grant_address: GrantAddress | None = None,
        left: Callable[[CageSession], None] = lambda _: None, account: Account | None = None,
        canaries: Mapping[str, str] | None = None,
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
        self.judged = JudgedTargets(relay, self.number, self.descriptors, ledger)
        self.names.forgotten = self.judged.forget
        self.canaries = canaries or {}  # false credentials that its commands have
        names = name_scan(net, self.canaries)
        self.asked_names = asked_names(net, names, ledger.found_name)
        if names is not None:
            ledger.credential_in = names.credential
        self.connections = CageConnections(self, relay)
        self.listen: Callable[[str, IPv4Address], Awaitable[None]] | None = None  # where nothing redirects
        self.monitors = Monitors(loop)  # of what arrives nowhere
        self.outbound: DatagramForwarders | None = None  # where addresses are listed
        self.doors: list[socket.socket] = []  # each closed by whoever serves it
        self.publishing: asyncio.Task[None] | None = None  # serves the published ports
        self.inspector: InspectorProcess | None = None  # where a host has a contract
        self.quiet: WaitingDoors[CageSession] | None = None  # where its doors wait until somebody is at one
        self.reader: DoorsReader[CageSession] | None = None  # the process that serves its doors
        self.secrets = 0  # their number at the inspector; 0: it has none
        self.leak_caller: LeakCaller | None = None  # where the host has a callback for what is sent
        self.hostname = ""  # the cage's host name, which some programs look up
        self.needs_loop = True  # more is served than doors
        self.ended = False
        self._left = left
        self.grant = grant_address  # of the cage, for direct grants
        self._tasks = CageTasks(loop)

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
        self.judged.count()
        return self.ledger.counts

    def denials(self) -> tuple[Denial, ...]:
        """Every refusal until now, including packets that are still in a queue, or in hand. Any thread but the
        loop's."""
        self.monitors.catch_up()
        if self.quiet is not None:
            self.quiet.catch_up(self)
        if self.reader is not None:
            self.reader.catch_up()
        if self.inspector is not None:
            self.inspector.wait_booked()
        return self.ledger.denials()

    # ---- narrower rules ---------------------------------------------------------------------------------------------

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
        self.judged.forget()
        if self.rules.closed:
            self.inward.silence()
        silenced = self.outbound.silence() if self.outbound is not None else 0
        lost = silenced + self.connections.cut_refused()
        if self.reader is not None:
            self.reader.tell_rules(self)  # once there is nothing left to be sent on
        return lost

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
                await self.connections.wait_cut()
                await self._unpublish()

    async def _unpublish(self) -> None:
        """Closes the published ports of a cage that is left no address: it could send anything to their clients."""
        if self.publishing is not None and self.rules.closed:
            self.publishing.cancel()
            await asyncio.wait({self.publishing})

    # ---- the cage's doors and its end ---------------------------------------------------------------------------

    def start(self, serving: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a coroutine, at most for as long as the cage lives."""
        return self._tasks.start(serving)

    def end(self) -> None:
        """Ends everything that is served for a cage that has ended. Any thread; does not wait. A loop that has ended
        has closed everything itself."""
        if self.quiet is not None and not self.needs_loop and self.quiet.take(self, silent=True) is not None:
            self.ended = True  # it has never been served
            self.close_doors()
            self._left(self)
            return
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        """In the loop. What has arrived at a door is told before that is closed; doors that are just being handed over
        are served first, for nobody takes them back from a task that has not begun."""
        if self.ended:
            return
        if self.quiet is not None:
            self.quiet.hand_over(self)
        self.loop.call_soon(self.close)

    def close(self) -> None:
        """Closes the doors and cuts everything. In the loop; idempotent."""
        if self.ended:
            return
        self.ended = True
        if self.quiet is not None:
            self.quiet.take(self)
        self.inward.silence()
        serving = self._tasks.cancel()
        self.connections.cut_all()
        self.judged.leave()
        if self.inspector is not None:
            from pysandbox.gate.inspection.channel import ChannelRecord, Kind

            with suppress(OSError):  # what it keeps of this cage
                self.inspector.say(ChannelRecord(Kind.ENDED, self.number), later=True)
        self.loop.create_task(self._leave(serving))

    async def _leave(self, serving: list[asyncio.Task[Any]]) -> None:
        """Closes the doors when no task waits at them any more, even one that was cancelled before it began."""
        try:
            if serving:
                await asyncio.wait(serving)
        finally:
            self.close_doors()
            self._left(self)

    def opened(self, count: int) -> None:
        """Counts descriptors of its doors or ports, which a cage has even where its share is used up. In the loop."""
        self._occupied.note(count)

    def close_doors(self) -> None:
        for door in self.doors:
            door.close()
        if self._occupied.taken:
            self._occupied.give(self._occupied.taken)
