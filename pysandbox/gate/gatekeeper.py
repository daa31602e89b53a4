"""One for each Runtime: the thread of the event loop that serves the doors of all its cages, and the relay beside it.

Nothing is started before the first cage that has doors. A cage is admitted before its first command and leaves when it
is gone (NET-16). Each cage has doors of its own, so the door says which cage asks (T09), and there is no table of
addresses to be fooled. When the gatekeeper dies, for whatever reason, the doors close and what was relayed is cut: a
cage is cut off by that, never opened.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from errno import EADDRINUSE, ESHUTDOWN
from functools import partial

from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import GATEKEEPER_FAILED, Event, Sink
from pysandbox.gate.askers import Askers
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.dns.resolver import Resolver
from pysandbox.gate.handed import handed_doors
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.published.inside import as_sockets
from pysandbox.gate.published.ports import Ports, SocketPool, listen, serve_published
from pysandbox.gate.quiet import Doors, QuietDoors
from pysandbox.gate.reader import DoorReader
from pysandbox.gate.shares import Account, descriptors
from pysandbox.gate.tcp.listeners import Listeners
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.threads import in_loop
from pysandbox.gate.udp.forwarders import UdpForwarders
from pysandbox.shapes import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.gate.secrets import CageSecrets
    from pysandbox.gate.sent import LeakCaller
    from pysandbox.live.init import CageInit
    from pysandbox.runtime.runtime import Runtime

R = TypeVar("R")

ENDS = 2  # rounds of the loop in which a cage's end is known, also when it has spoken just before
ROUNDS = 3  # of the loop: a cage is admitted, its doors are listened at, what has come is taken
RETIRE_PATIENCE = 5.0  # seconds for the loop to come to its end


def join_gatekeeper(runtime: Runtime, join: Callable[[Gatekeeper], R]) -> R:
    """What `join` returns, which admits a cage to the Runtime's gatekeeper; that is made at its first use, and again
    when it has retired or died. Raises OSError, and what `join` does."""
    return runtime.shared.join(Gatekeeper, lambda: Gatekeeper(runtime.sink, runtime.nameservers), join)


def admit(
    runtime: Runtime, live: CageInit, net: NetPlan, secrets: CageSecrets | None = None,
    leak_caller: LeakCaller | None = None,
) -> None:  # fmt: skip
    """Serves the doors of a cage that has not run anything yet. Raises StartError, CageClosedError; the cage ends
    then."""
    try:
        session = _admitted(runtime, live, net, leak_caller)
        live.services.add(session)
        if secrets is not None and session.inspector is not None and net.inspection is not None:
            from pysandbox.gate.secrets import hold_secrets

            held = hold_secrets(session.inspector, secrets, net.inspection.secrets)
            live.services.add(held)
            session.secrets = held.number
    except (CageClosedError, StartError):  # a published port is taken
        runtime.collect(live)
        raise
    except (OSError, RuntimeError, TimeoutError) as error:
        runtime.collect(live)
        number = error.errno if isinstance(error, OSError) and error.errno else ESHUTDOWN
        raise StartError("network", number, None, f"the gatekeeper did not take the cage over: {error}") from error


def _admitted(runtime: Runtime, live: CageInit, net: NetPlan, leak_caller: LeakCaller | None) -> CageSession:
    ports = _ports(runtime, net)
    try:
        session = join_gatekeeper(runtime, lambda gatekeeper: gatekeeper.admit(live, net, ports))
    except BaseException:
        for _, listener in ports:
            listener.close()
        raise
    if net.inspection is not None:
        from pysandbox.gate.inspectors import join_inspector

        asks = leak_caller is not None
        session.leak_caller = leak_caller
        session.inspector = join_inspector(runtime, net, lambda inspector: inspector.serve(session), asks=asks)
    return session


def _ports(runtime: Runtime, net: NetPlan) -> Ports:
    """Listens at the published ports. Waits for a cage that has ended and is still closing one. Raises StartError."""
    try:
        return listen(net.published)
    except StartError as error:
        if error.errno != EADDRINUSE:
            raise
    runtime.wait_idle()
    gatekeeper = runtime.shared.find(Gatekeeper)
    if gatekeeper is not None:
        gatekeeper.wait_idle()
    return listen(net.published)


class Gatekeeper:
    """Owns its loop, the relay and every door. `retire` ends one that has no cage left."""

    def __init__(self, sink: Sink, nameservers: Sequence[str] | None = None) -> None:
        self.sink = sink
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._complain)
        try:
            self.account = Account(self._room)
            self.quiet = QuietDoors(self.loop, self._serve)
            self.upstream, self.relay = Resolver(nameservers, account=self.account), SocketRelay(self.loop)
        except BaseException:
            self.loop.close()
            raise
        self.reader = DoorReader(self.loop, self._tell, self.relay)
        self._has_begun = False  # the reader, or is about to
        self._sessions: set[CageSession] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Condition(self._lock)  # a cage has left
        self._retired = False
        self._thread = threading.Thread(target=self._run, name="pysandbox-gatekeeper", daemon=True)
        self._thread.start()

    @property
    def retired(self) -> bool:
        """Whether it serves nobody any more."""
        return self._retired

    def admit(self, live: CageInit, net: NetPlan, ports: Ports) -> CageSession:
        """Takes over the cage's doors and its ports. Does not wait for the loop: until it accepts, connections wait in
        the kernel's queue. Raises OSError, RuntimeError, CageClosedError: the doors are closed then, and the ports the
        caller's to close."""
        session = None
        try:
            with self._lock:
                if self._retired:
                    raise OSError(ESHUTDOWN, "the gatekeeper has retired")
                session = self._new_session(live, net)
                doors = {**as_sockets(live.take_doors()), **handed_doors(live, net)}
                session.doors.extend((*doors.values(), *(listener for _, listener in ports)))
                self._sessions.add(session)
            self._admit(session, doors, ports, live)
        except BaseException:
            if session is not None:
                self.quiet.take(session)
                for each in session.doors:
                    each.close()
                self._left(session)
            raise
        return session

    def _admit(self, session: CageSession, doors: Doors, ports: Ports, live: CageInit) -> None:
        """Raises OSError, RuntimeError."""
        session.needs_loop = bool(ports) or session.outbound is not None or session.net.inspection is not None
        self.quiet.add(session, doors)  # first: what fails leaves nothing that the loop will serve
        if ports:
            pool = SocketPool(live, session.descriptors)
            self.loop.call_soon_threadsafe(self._serve_ports, session, ports, pool)
        if doors and not self._has_begun:  # ahead of whoever speaks first
            self._has_begun = True
            self.loop.call_soon_threadsafe(self._begin_reader)

    def _begin_reader(self) -> None:
        try:
            self.reader.begin()
        except Exception as error:  # the next cage has it tried again, and so has whoever speaks
            self._has_begun = False
            self._tell(f"the reader of the doors: {type(error).__name__}: {error}")

    def _room(self) -> int:
        """What cages may have of descriptors, beyond the doors at which nobody has been."""
        return descriptors() - self.quiet.descriptors

    def _new_session(self, live: CageInit, net: NetPlan) -> CageSession:
        ledger = Ledger(live.id, self.sink, who=Askers(live.pid).now, commands=live.commands)
        session = CageSession(
            live.id, net, ledger, self.loop, self.upstream, self.relay, live.services.grant_address,
            left=self._left, account=self.account, canaries=live.canaries,
        )  # fmt: skip
        session.hostname, session.quiet = live.hostname, self.quiet
        if not net.redirect and any(door.kind == "dns" for door in net.doors):
            session.listen = Listeners(
                session, live, lambda session, kind, door: self.reader.serve(session, kind, "tcp", door)
            )
        if net.endpoints:
            session.outbound = UdpForwarders(session, live)
        return session

    def _serve(self, session: CageSession, doors: Doors) -> None:
        """Has the reader serve the doors of a cage that speaks. In the loop."""
        if session.ended:
            return
        session.opened(len(doors))
        with suppress(Exception):  # each door meets it again, is closed, and tells it
            self.reader.introduce(session)
        for (kind, protocol), door in doors.items():
            serve = partial(self.reader.serve, session, kind, protocol, door)
            session.start(self._serve_door(door, kind, serve))

    def _serve_ports(self, session: CageSession, ports: Ports, pool: SocketPool) -> None:
        """In the loop."""
        if session.ended:
            session.close_doors()
            return
        session.opened(len(ports))
        session.publishing = session.start(self._publish(session, ports, pool))

    async def _publish(self, session: CageSession, ports: Ports, pool: SocketPool) -> None:
        """Serves every published port of a cage until it ends."""
        try:
            await asyncio.gather(*(
                self._serve_door(listener, port.protocol, partial(serve_published, session, port, listener, pool))
                for port, listener in ports
            ))  # fmt: skip
        finally:
            pool.close()

    async def _serve_door(self, door: socket.socket, kind: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Serves one door. One that cannot be served is closed, so that the kernel refuses connections to it."""
        with door:
            try:
                await serve()
            except Exception as error:
                self._tell(f"the {kind} door of a cage is closed: {type(error).__name__}: {error}")

    def _left(self, session: CageSession) -> None:
        with self._lock:
            self._sessions.discard(session)
            self._leaving.notify_all()

    def wait_begun(self) -> None:
        """Returns when the doors of every admitted cage are served, and what waited there before is being answered."""
        for _ in range(ROUNDS):
            with suppress(RuntimeError, TimeoutError):
                in_loop(self.loop, lambda: None)
        self.reader.catch_up()

    def wait_idle(self) -> None:
        """Returns when the doors and ports of every cage that has ended are closed."""
        if self._thread is threading.current_thread():
            return
        for _ in range(ENDS):
            with suppress(RuntimeError, TimeoutError):
                in_loop(self.loop, lambda: None)  # it knows by then which cages have ended
        with self._lock:
            self._leaving.wait_for(lambda: not any(each.ended for each in self._sessions), RETIRE_PATIENCE)

    # ---- the end ------------------------------------------------------------------------------------------------

    def retire(self) -> bool:
        """Ends the thread, unless a cage needs it still."""
        self.wait_idle()
        with self._lock:
            if self._sessions or self._retired:
                return self._retired
            self._retired = True
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join(RETIRE_PATIENCE)
        return True

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: closes its copies of the descriptors, so that the doors close when the original
        closes them. Nothing else is touched: the loop's epoll is shared with the original."""
        self.reader.after_fork_in_child()
        self.quiet.after_fork_in_child()
        for session in list(self._sessions):
            for door in session.doors:
                if door.fileno() >= 0:
                    os.close(door.detach())

    def _run(self) -> None:
        reason = "its loop was stopped"
        try:
            self.loop.run_forever()
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
        with self._lock:
            died, self._retired = not self._retired, True
        self._close()
        if died:
            self._tell(reason)

    def _close(self) -> None:
        """Closes every door, every connection, then the loop; an error with one does not keep the others open."""
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            with suppress(Exception):
                session.close()
        with suppress(Exception):
            self.reader.stop()
        with suppress(Exception):
            self.relay.stop()
        with suppress(Exception):
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for session in sessions:
            session.close_doors()
            self._left(session)
        with suppress(Exception):
            self.quiet.close()
        with suppress(Exception):
            self.loop.close()

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._tell(f"{context.get('message')}: {type(error).__name__}: {error}" if error else str(context["message"]))

    def _tell(self, reason: str) -> None:
        with suppress(Exception):  # the sink is the user's
            self.sink(Event(GATEKEEPER_FAILED.name, {"reason": reason}))
