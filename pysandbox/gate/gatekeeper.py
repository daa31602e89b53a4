"""One for each Runtime: the thread of the event loop that serves the doors of all its cages, and the relay beside it.

Nothing is started before the first cage that has doors. A cage is admitted before its first command and leaves when it
is gone (NET-16); which cage asks is known by which door it came through (T09), so there is no table of addresses to be
fooled. When the gatekeeper dies, for whatever reason, the doors close and what was relayed is cut: a cage is cut off by
that, never opened.
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
from typing import TYPE_CHECKING, Any

from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import GATEKEEPER_FAILED, Event, Sink
from pysandbox.gate import dns, lost, refused
from pysandbox.gate.admission import Admission, in_loop
from pysandbox.gate.inside import as_sockets
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.listeners import Listeners
from pysandbox.gate.outbound import Outbound
from pysandbox.gate.published import Ports, Stock, listen, serve_published
from pysandbox.gate.relay import Relay
from pysandbox.gate.shares import Account
from pysandbox.gate.upstream import Upstream

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan
    from pysandbox.launch.live import LiveInit
    from pysandbox.launch.runtime import Runtime

RETIRE_PATIENCE = 5.0  # seconds for the loop to come to its end


def gatekeeper_of(runtime: Runtime) -> Gatekeeper:
    """The Runtime's gatekeeper, made at its first use, and again when it has retired or died. Raises OSError."""
    with _MAKING:
        if runtime.gatekeeper is None or runtime.gatekeeper.retired:
            runtime.gatekeeper = Gatekeeper(runtime.sink, runtime.nameservers)
        made: Gatekeeper = runtime.gatekeeper
        return made


def admit(runtime: Runtime, live: LiveInit, net: NetPlan) -> None:
    """Has the doors of a cage served that has not run anything yet. Raises StartError, CageClosedError; the cage ends
    then."""
    try:
        gatekeeper = gatekeeper_of(runtime)
        live.admission = gatekeeper.admit(live, net, _ports(runtime, gatekeeper, net))
    except (CageClosedError, StartError):  # a published port is taken
        runtime.collect(live)
        raise
    except (OSError, RuntimeError, TimeoutError) as error:
        runtime.collect(live)
        number = error.errno if isinstance(error, OSError) and error.errno else ESHUTDOWN
        raise StartError("network", number, None, f"the gatekeeper did not take the cage over: {error}") from error


def _ports(runtime: Runtime, gatekeeper: Gatekeeper, net: NetPlan) -> Ports:
    """The published ports, taken. A cage that has ended may still be on its way out of one. Raises StartError."""
    try:
        return listen(net.published)
    except StartError as error:
        if error.errno != EADDRINUSE:
            raise
    runtime.settle()
    gatekeeper.settle()
    return listen(net.published)


_MAKING = threading.Lock()


class Gatekeeper:
    """Owns its loop, the relay and every door. `retire` ends one that has no cage left."""

    def __init__(self, sink: Sink, nameservers: Sequence[str] | None = None) -> None:
        self.sink = sink
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._complain)
        try:
            self.account = Account()
            self.upstream, self.relay = Upstream(nameservers, account=self.account), Relay(self.loop)
        except BaseException:
            self.loop.close()
            raise
        self._admissions: set[Admission] = set()
        self._lock = threading.Lock()
        self._leaving = threading.Condition(self._lock)  # a cage has left
        self._retired = False
        self._thread = threading.Thread(target=self._run, name="pysandbox-gatekeeper", daemon=True)
        self._thread.start()

    @property
    def retired(self) -> bool:
        """Whether it serves nobody any more."""
        return self._retired

    def admit(self, live: LiveInit, net: NetPlan, ports: Ports) -> Admission:
        """Takes the cage's doors and its ports over; does not wait for the loop: whoever knocks meanwhile is in the
        kernel's queue. Raises OSError, RuntimeError, CageClosedError; all of them are closed then."""
        admission = None
        try:
            with self._lock:
                if self._retired:
                    raise OSError(ESHUTDOWN, "the gatekeeper has retired")
                admission = self._admission(live, net)
                doors = as_sockets(live.take_doors())
                admission.doors.extend((*doors.values(), *(listener for _, listener in ports)))
                self._admissions.add(admission)
            self.loop.call_soon_threadsafe(self._serve, admission, doors, ports, Stock(live, admission.descriptors))
        except BaseException:
            for each in (*(admission.doors if admission is not None else ()), *(listener for _, listener in ports)):
                each.close()
            if admission is not None:
                self._left(admission)
            raise
        return admission

    def _admission(self, live: LiveInit, net: NetPlan) -> Admission:
        admission = Admission(
            live.id, net, Ledger(live.id, self.sink), self.loop, self.upstream, self.relay, lambda: live.supervision,
            left=self._left, account=self.account,
        )  # fmt: skip
        admission.own_name = live.hostname
        if net.doors and not net.redirect:
            from pysandbox.gate.streams import serve

            admission.listen = Listeners(admission, live, serve)
        if net.endpoints:
            admission.outbound = Outbound(admission, live)
        return admission

    def _serve(
        self, admission: Admission, doors: dict[tuple[str, str], socket.socket],
        ports: Ports, stock: Stock,
    ) -> None:  # fmt: skip
        """In the loop."""
        if admission.ended:
            admission.close_doors()
            return
        admission.opened()
        if ports:
            admission.publishing = admission.start(self._publish(admission, ports, stock))
        answers = dns.Answers(admission)
        for (kind, protocol), door in doors.items():
            admission.start(self._keep(door, kind, partial(self._service(kind, protocol, answers), admission, door)))

    def _service(self, kind: str, protocol: str, answers: dns.Answers) -> Callable[..., Coroutine[Any, Any, None]]:
        if kind == "dns":
            return partial(dns.serve_udp if protocol == "udp" else dns.serve_tcp, answers=answers)
        if kind in ("lost", "refused"):
            return lost.serve if kind == "lost" else refused.serve
        from pysandbox.gate.streams import serve

        return lambda admission, door: serve(admission, kind, door)

    async def _publish(self, admission: Admission, ports: Ports, stock: Stock) -> None:
        """Every published port of a cage, until it ends."""
        try:
            await asyncio.gather(*(
                self._keep(listener, port.protocol, partial(serve_published, admission, port, listener, stock))
                for port, listener in ports
            ))  # fmt: skip
        finally:
            stock.close()

    async def _keep(self, door: socket.socket, kind: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A door that cannot be served is closed: whoever knocks is refused by the kernel."""
        with door:
            try:
                await serve()
            except Exception as error:
                self._tell(f"the {kind} door of a cage is closed: {type(error).__name__}: {error}")

    def _left(self, admission: Admission) -> None:
        with self._lock:
            self._admissions.discard(admission)
            self._leaving.notify_all()

    def settle(self) -> None:
        """Returns when the doors and ports of every cage that has ended are closed."""
        if self._thread is threading.current_thread():
            return
        with suppress(RuntimeError, TimeoutError):
            in_loop(self.loop, lambda: None)  # it knows by then which cages have ended
        with self._lock:
            self._leaving.wait_for(lambda: not any(each.ended for each in self._admissions), RETIRE_PATIENCE)

    # ---- the end ------------------------------------------------------------------------------------------------

    def retire(self) -> bool:
        """Ends the thread, unless a cage needs it still."""
        self.settle()
        with self._lock:
            if self._admissions or self._retired:
                return self._retired
            self._retired = True
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join(RETIRE_PATIENCE)
        return True

    def abandon(self) -> None:
        """In a forked copy of the host: the doors are the original's, and close with it only if no copy is left here.
        Nothing but the descriptors is touched; what the loop waits with is shared with the original."""
        for admission in list(self._admissions):
            for door in admission.doors:
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
        """Every door, every connection, then the loop; whatever goes wrong with one, the others are closed."""
        with self._lock:
            admissions = list(self._admissions)
        for admission in admissions:
            with suppress(Exception):
                admission.close()
        with suppress(Exception):
            self.relay.stop()
        with suppress(Exception):
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for admission in admissions:
            admission.close_doors()
            self._left(admission)
        with suppress(Exception):
            self.loop.close()

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._tell(f"{context.get('message')}: {type(error).__name__}: {error}" if error else str(context["message"]))

    def _tell(self, reason: str) -> None:
        with suppress(Exception):  # the sink is the user's
            self.sink(Event(GATEKEEPER_FAILED.name, {"reason": reason}))
