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
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from errno import ESHUTDOWN
from typing import TYPE_CHECKING, Any

from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import GATEKEEPER_FAILED, Event, Sink
from pysandbox.gate import dns
from pysandbox.gate.admission import Admission, in_loop
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.listeners import Listeners
from pysandbox.gate.relay import Relay
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
        live.admission = gatekeeper_of(runtime).admit(live, net)
    except CageClosedError:
        runtime.collect(live)
        raise
    except (OSError, RuntimeError, TimeoutError) as error:
        runtime.collect(live)
        number = error.errno if isinstance(error, OSError) and error.errno else ESHUTDOWN
        raise StartError("network", number, None, f"the gatekeeper did not take the cage over: {error}") from error


_MAKING = threading.Lock()


class Gatekeeper:
    """Owns its loop, the relay and every door. `retire` ends one that has no cage left."""

    def __init__(self, sink: Sink, nameservers: Sequence[str] | None = None) -> None:
        self.sink = sink
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(self._complain)
        try:
            self.upstream, self.relay = Upstream(nameservers), Relay(self.loop)
        except BaseException:
            self.loop.close()
            raise
        self._admissions: set[Admission] = set()
        self._lock = threading.Lock()
        self._retired = False
        self._thread = threading.Thread(target=self._run, name="pysandbox-gatekeeper", daemon=True)
        self._thread.start()

    @property
    def retired(self) -> bool:
        """Whether it serves nobody any more."""
        return self._retired

    def admit(self, live: LiveInit, net: NetPlan) -> Admission:
        """Takes the cage's doors over. Raises OSError, RuntimeError, CageClosedError."""
        with self._lock:
            if self._retired:
                raise OSError(ESHUTDOWN, "the gatekeeper has retired")
            doors = {door: socket.socket(fileno=fd) for door, fd in live.take_doors().items()}
            admission = self._admission(live, net)
            self._admissions.add(admission)
        try:
            in_loop(self.loop, lambda: self._serve(admission, doors))
        except BaseException:
            for door in doors.values():
                door.close()
            self._left(admission)
            raise
        return admission

    def _admission(self, live: LiveInit, net: NetPlan) -> Admission:
        admission = Admission(
            live.id, net, Ledger(live.id, self.sink), self.loop, self.upstream, self.relay, lambda: live.supervision,
            left=self._left,
        )  # fmt: skip
        if not net.redirect:
            from pysandbox.gate.streams import serve

            admission.listen = Listeners(admission, live, serve)
        return admission

    def _serve(self, admission: Admission, doors: dict[tuple[str, str], socket.socket]) -> None:
        """In the loop. Raises OSError when it has come to its end meanwhile."""
        if admission.ended:
            raise OSError(ESHUTDOWN, "the gatekeeper has ended")
        admission.doors.extend(doors.values())
        from pysandbox.gate.streams import serve

        answers = dns.Answers(admission)
        for (kind, protocol), door in doors.items():
            serving: Coroutine[Any, Any, None]
            if kind == "dns":
                serving = (dns.serve_udp if protocol == "udp" else dns.serve_tcp)(admission, door, answers)
            else:
                serving = serve(admission, kind, door)
            admission.start(self._keep(door, kind, serving))

    async def _keep(self, door: socket.socket, kind: str, serving: Coroutine[Any, Any, None]) -> None:
        """A door that cannot be served is closed: whoever knocks is refused by the kernel."""
        with door:
            try:
                await serving
            except Exception as error:
                self._tell(f"the {kind} door of a cage is closed: {type(error).__name__}: {error}")

    def _left(self, admission: Admission) -> None:
        with self._lock:
            self._admissions.discard(admission)

    # ---- the end ------------------------------------------------------------------------------------------------

    def retire(self) -> bool:
        """Ends the thread, unless a cage needs it still."""
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
        with suppress(Exception):
            self.loop.close()

    def _complain(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._tell(f"{context.get('message')}: {type(error).__name__}: {error}" if error else str(context["message"]))

    def _tell(self, reason: str) -> None:
        with suppress(Exception):  # the sink is the user's
            self.sink(Event(GATEKEEPER_FAILED.name, {"reason": reason}))
