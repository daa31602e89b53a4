"""What the code of the doors needs of the cage that it serves: in the reader a `RemoteSession`, the host behind it;
and what a session in the host needs of who reads at the doors, and of who passes on datagrams."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Mapping
from enum import IntEnum
from ipaddress import IPv4Address

from pysandbox.gate.monitors import Monitors
from pysandbox.gate.rules import GateRules
from pysandbox.gate.shares import Share
from pysandbox.gate.turns import LoopTurns
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.gate.inspector import InspectorProcess
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.sent import LeakCaller
    from pysandbox.gate.tcp.relay import SocketRelay
    from pysandbox.gate.tcp.stream import ClientStream
    from pysandbox.gate.tcp.target import DialTarget

Session = TypeVar("Session", contravariant=True)  # of a cage, in the host (cage_session.py)


class DoorsReader(Protocol[Session]):
    """The host's side of it (reader.py). Any thread but the loop's."""

    def catch_up(self) -> None:
        """Returns when it has told all that has arrived until now."""

    def tell_rules(self, session: Session) -> None:
        """The rules of the session have become narrower."""


class WaitingDoors(Protocol[Session]):
    """Where doors wait until somebody is at one (quiet.py)."""

    def take(self, session: Session, *, silent: bool = False) -> object | None:
        """None where they do not wait any more, or, if `silent`, something has arrived. Any thread."""

    def hand_over(self, session: Session) -> bool:
        """Whether something had arrived, and the reader has them now. In the loop."""

    def catch_up(self, session: Session) -> None:
        """Returns when the reader has them, where something has arrived. Any thread but the loop's."""


class DatagramForwarders(Protocol):
    """Who passes on datagrams to addresses that are listed (udp/forwarders.py)."""

    def serves(self, target: DialTarget) -> bool:
        """Whether it is open."""

    def open(self, target: DialTarget) -> None:
        """Returns when somebody listens at that address in the cage's network."""

    def silence(self) -> int:
        """Stops sending to what the rules no longer allow; returns how many."""

    def cut(self) -> None:
        """Closes what was silenced."""


class Passed(NamedTuple):
    """A client that was passed on. `over` is false where the target was not known any more: nothing has happened."""

    over: asyncio.Future[bool]
    cut: Callable[[], object]


class Fetched(NamedTuple):
    """A connection of the relay's thread that is gone on with here."""

    target: DialTarget
    server: ClientStream


class Offered(NamedTuple):
    """A connection that a client was promised, at the relay's thread."""

    go: Callable[[bytes], object]  # these first words of the client's were judged
    fetch: Callable[[], object]  # it is to be gone on with here, when it is there
    cut: Callable[[], object]


class RepeatClient(NamedTuple):
    """One that has said what was heard before (reading/repeats.py), and is to be gone on with. `call`: by which it was
    offered a connection, 0 if it was not; `has_spoken`: or hung up, since then."""

    sock: socket.socket
    call: int
    is_greeted: bool
    has_spoken: bool
    asked: bytes
    words: bytes


class Repeat(IntEnum):
    """What it is that means something (csrc/host/repeats/repeats.h). A client that has said GREETING is answered; one
    with any of the others is offered a connection, and told that it has it: REQUEST (after a greeting), HEAD (at once),
    PLACE (an address and a port, to which it was redirected)."""

    GREETING = 0
    REQUEST = 1
    HEAD = 2
    PLACE = 3


class RepeatWords(Protocol):
    """What was said at a door, and is known when it is said again (reading/repeats.py)."""

    def learn(self, what: Repeat, said: bytes, answer: bytes) -> bool:
        """From now on `said` is answered by `answer`; False where it cannot be kept."""

    def learn_offer(self, what: Repeat, said: bytes, asked: DialTarget, answer: bytes) -> None:
        """From now on `said` asks for `asked`, and gets `answer` when that is connected."""

    def forget(self, said: bytes | None = None) -> None:
        """From now on `said` is read anew; without it, all is."""

    def make_up(self) -> None:
        """For one that was handed back there is room for another."""

    def end(self) -> None:
        """Hands back whoever is there, at once."""


class DoorConnections(Protocol):
    """What a cage is connected to, by numbers."""

    def register(self, target: DialTarget, connected: socket.socket, cut: Callable[[], object]) -> int:
        """From now on `cut` is called when its grant is lost. Raises Denied, OSError."""

    def splice(self, number: int, hand_over: Callable[[], int]) -> int:
        """Hands a registered connection to the relay. Raises OSError for one that was cut."""

    def unregister(self, number: int) -> None:
        """The connection is over, or about to be closed. Idempotent."""


class CarriedSession(Protocol):
    """`ledger` takes refusals, `relay` carries on with what was judged, `inspector` serves hosts with a contract."""

    loop: asyncio.AbstractEventLoop
    net: NetPlan
    rules: GateRules
    ledger: Ledger
    turns: LoopTurns
    descriptors: Share
    monitors: Monitors
    inspector: InspectorProcess | None
    number: int
    secrets: int
    leak_caller: LeakCaller | None
    canaries: Mapping[str, str]
    ended: bool

    @property
    def relay(self) -> SocketRelay:
        """Where two connections become one stream."""

    def start(self, serving: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a coroutine, at most for as long as the cage lives."""


class DoorSession(CarriedSession, Protocol):
    @property
    def connections(self) -> DoorConnections:
        """What it is connected to."""

    async def dial(self, target: DialTarget) -> tuple[DialTarget, socket.socket]:
        """Connects to what a cage means by a target; returns what that is, as well. Raises Denied, Unreachable."""

    def known(self, asked: DialTarget) -> DialTarget | None:
        """What a target means to which a client may be passed on."""

    def pass_on(self, asked: DialTarget, said: bytes, client: socket.socket) -> Passed:
        """Has a client of which this was read, and judged, relayed to a known target. The client stays the caller's."""

    def offer(
        self, asked: DialTarget, answer: bytes, client: socket.socket, told: Callable[[bool, Fetched | None], None]
    ) -> Offered:
        """Has a client answered when a known target is connected, and kept until it was judged what it says next. The
        client stays the caller's. `told` hears once: whether all is over, and the connection where it was fetched, or
        had to be; neither where the target was not known any more, and nothing has happened."""

    def adopt(self, call: int, asked: DialTarget, told: Callable[[bool, Fetched | None], None]) -> Offered:
        """Goes on with what a client was offered when it said what was heard before; as `offer`."""

    def learn_at(
        self, listener: socket.socket, each: int, go_on: Callable[[RepeatClient], object], *, redirected: bool
    ) -> RepeatWords | None:
        """What is heard at a door, each client of which needs so many descriptors; `go_on` gets who is not served by
        that. None where that cannot be had."""

    def note_refused(self, address: IPv4Address, port: int) -> None:
        """The kernel has refused a connection to that address."""

    def note_lost(self, address: IPv4Address, port: int, replied_by: int | None) -> None:
        """A datagram to that address has arrived nowhere. `replied_by`: its port, where it comes from there."""
