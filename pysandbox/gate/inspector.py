"""The host's side of the inspector: one process for each Runtime, started for the first plan that has a contract.

The gatekeeper keeps what decides: names, addresses, what is dialled and what is cut. Here a connected client and a
connected server go to the inspector (`inspection`), and what it says of them comes back: refusals, which are booked
where the fix is made, and ends. Nothing that it says is believed beyond that: it parses what strangers send.

When it ends, keeps silent (`pulse`) or says what makes no sense, the connections that it had are cut, and it is started
once more. After that, hosts with a contract are closed; all others go on.
"""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from errno import ESHUTDOWN, ETIMEDOUT

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.events import GATEKEEPER_FAILED, Event, Sink
from pysandbox.gate import confined
from pysandbox.gate.confined import ConfinedProcess
from pysandbox.gate.held import HeldConnection, Served, book
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import OF_CAGE, TO_INSPECTOR, BadChannelRecord, ChannelRecord, Kind
from pysandbox.gate.known_plans import KnownPlans, PlanHold
from pysandbox.gate.pulse import Pulse
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan

START_SECONDS = 20.0
ASKED_EVERY = 2.0  # seconds between two questions whether it is there, while it has connections
SILENT_ROUNDS = 5  # of questions without an answer, after which it is taken for stuck
BOOKING_SECONDS = 2.0
ENDS_SECONDS = 1.0  # between the end of its channel and its own
MOST_STARTS = 2
READ = selectors.EVENT_READ
LONGEST_SAID = 1 << 17
MODULE = "pysandbox.gate.inspection.__main__"


class InspectorProcess:
    scans = False

    def __init__(self, sink: Sink, asked_every: float = ASKED_EVERY) -> None:
        self._sink, self._asked_every = sink, asked_every
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._plans = KnownPlans()
        self._held: dict[int, HeldConnection] = {}
        self._sessions: weakref.WeakSet[Served] = weakref.WeakSet()
        self.numbers = itertools.count(1)  # of whatever it is told
        self.told_again: dict[int, Callable[[], ChannelRecord]] = {}  # to one that takes its place
        self._channel: socket.socket | None = None
        self._process: ConfinedProcess | None = None
        self._pulse: Pulse | None = None
        self._starts, self._why = 0, "it was stopped"  # the last one serves no more
        self._retired = self._ready = self._returns = False

    @property
    def process(self) -> ConfinedProcess | None:
        """The one that serves."""
        return self._process

    # ---- a Runtime's service ------------------------------------------------------------------------------------

    @property
    def retired(self) -> bool:
        return self._retired

    def retire(self) -> bool:
        with self._lock:
            served = (*self._sessions, *(each.session for each in self._held.values()))
            if self._plans.is_expecting or any(not each.ended for each in served):
                return False
            self._retired = True
            self._stop()
            self._plans.forget_all()
            return True

    def after_fork_in_child(self) -> None:
        self._retired = True
        if self._channel is not None:
            os.close(self._channel.detach())
        if self._pulse is not None:
            self._pulse.close()
        if self._process is not None:
            self._process.words.close()
        self._plans.files.abandon()

    # ---- plans --------------------------------------------------------------------------------------------------

    def trust(self, net: NetPlan) -> str:
        """The file that a cage of this plan is to trust. Raises OSError."""
        with self._lock:
            if self._retired:
                raise OSError(ESHUTDOWN, "it has retired")
            self._ensure()
            known = self._plans.use(net, lambda: next(self.numbers))
            self._forget()
            if not known.path:
                self._teach()
                self._wait_until(lambda: bool(known.path))
            return known.path

    def _teach(self) -> None:
        """Tells it the plans that it does not know."""
        assert self._channel is not None
        for known in self._plans:
            if known.taught != self._starts:
                with known.described() as file:
                    channel.send(self._channel, ChannelRecord(Kind.PLAN, known.number), (file.fileno(),))
                known.taught = self._starts
        self._ask()

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        """Under the lock. Raises OSError when it has ended for good, or does not answer."""
        until = time.monotonic() + START_SECONDS
        while not holds():
            left = until - time.monotonic()
            if self._channel is None and not self._returns:
                raise OSError(ESHUTDOWN, f"the inspector is gone: {self._why}")
            if left <= 0:
                raise OSError(ETIMEDOUT, f"the inspector is silent for {START_SECONDS:g} s")
            self._news.wait(left)

    def _forget(self) -> None:
        """What nobody needs. Connections that are open go on."""
        for known in self._plans.forget_unneeded(self._starts):
            with suppress(OSError):  # it has ended, and what takes its place is not told of it
                self.say(ChannelRecord(Kind.DROP, known.number), later=True)

    def expect(self, net: NetPlan, cages: int) -> InspectorProcess:
        """So many more, or fewer, cages of it are on their way to `serve`; it does not retire meanwhile. Itself."""
        with self._lock:
            self._plans.expect(net, cages)
            self._forget()
        return self

    def hold(self, path: str) -> PlanHold:
        """For a cage that is given this file: the plan is needed until it is gone. Raises StartError."""
        return PlanHold(self._plans, path, self._lock, self._forget)

    def serve(self, session: Served) -> InspectorProcess:
        """From now on it is needed, until the session has ended. Returns itself."""
        with self._lock:
            self._sessions.add(session)
        return self

    # ---- connections --------------------------------------------------------------------------------------------

    def open(
        self, held: HeldConnection, said: bytes, client: socket.socket, server: socket.socket, *, proxied: bool
    ) -> int:
        """Hands over duplicates of both; `held.over` is called in any thread when it has ended, with whether by a
        reset. Returns its number. Raises OSError."""
        with self._lock:
            known = self._plans.find(held.session.net)
            if known is None or self._channel is None or not known.path or len(said) > LONGEST_SAID:
                raise OSError(ESHUTDOWN, "the inspector has ended")
            number = held.session.number << OF_CAGE | next(self.numbers)
            record = held.opening(number, known, said, proxied=proxied)
            self._held[number] = held
            try:
                channel.send(self._channel, record, (client.fileno(), server.fileno()))
                if len(self._held) == 1:
                    self._ask()
            except OSError:
                self._held.pop(number, None)
                raise
        return number

    def cut(self, number: int) -> None:
        """The connection is gone as far as the gatekeeper is concerned. Idempotent."""
        with self._lock, suppress(OSError):
            if self._held.pop(number, None) is not None:
                self.say(ChannelRecord(Kind.CUT, number), later=True)

    def say(self, record: ChannelRecord, patience: float = BOOKING_SECONDS, *, later: bool = False) -> None:
        """Raises OSError where it is not taken, or nobody is there. `later`: else when it reads again, or it ends."""
        with self._lock:
            if self._channel is None or self._pulse is None:
                raise OSError(ESHUTDOWN, "the inspector has ended")
            if later:
                self._pulse.owed.append(record)
                self._ask()
            else:
                channel.send(self._channel, record, patience=patience)

    def wait_booked(self) -> bool:
        """Returns when what the inspector has refused until now is booked, and what it was told is done; or it is late
        with an answer (False). Not in the thread that reads."""
        with self._lock, suppress(OSError):
            pulse = self._pulse
            if self._channel is None or pulse is None or pulse.is_late:
                return self._channel is None
            asked, until = self._ask(), time.monotonic() + BOOKING_SECONDS
            while pulse.replied < asked and self._pulse is pulse and (left := until - time.monotonic()) > 0:
                self._news.wait(left)
            return pulse.replied >= asked or self._pulse is not pulse
        return False

    def _ask(self) -> int:
        assert self._channel is not None and self._pulse is not None
        number = self._pulse.ask()
        channel.send_owed(self._channel, self._pulse.owed, ChannelRecord(Kind.PING, number))
        return number

    # ---- the process --------------------------------------------------------------------------------------------

    def _ensure(self) -> None:
        """Starts it where there is none. Under the lock. Raises OSError."""
        if self._channel is not None:
            return
        if self._starts >= MOST_STARTS:
            raise OSError(ESHUTDOWN, f"it has ended {self._starts} times, and is not started again")
        self._start()
        for record in list(self.told_again.values()):
            self.say(record())

    def _start(self) -> None:
        self._starts += 1
        near, far = socket_pair()
        with ExitStack() as undo:
            undo.callback(near.close)
            with far, tempfile.TemporaryFile() as roots:
                process = self._process = _spawn(far, roots.fileno(), self.scans)
                undo.callback(process.words.close)
                far.close()  # else its end would not be heard
                self._channel, self._ready = near, False
                pulse = self._pulse = Pulse(self._asked_every, SILENT_ROUNDS)
                undo.callback(pulse.close)
                undo.callback(self._stop, process)
                _begin("pysandbox-inspector", self._listen, near, process, pulse)
                undo.pop_all()  # the others are the thread's
                undo.callback(self._stop, process)
                self._wait_until(lambda: self._ready or self._process is not process)
                if self._process is not process:
                    raise OSError(ESHUTDOWN, f"the inspector is gone at its start: {self._why}")
                roots.seek(0)
                self._plans.files.roots = roots.read()
            undo.pop_all()

    def _stop(self, only: ConfinedProcess | None = None) -> None:
        """Under the lock. It ends when its channel does; a stopped one is killed. `only`: if it is that one still."""
        if only is not None and self._process is not only:
            return
        near, self._channel = self._channel, None
        process, self._process = self._process, None
        if near is not None:
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
        if process is not None:
            process.kill()
            process.wait()
        self._news.notify_all()

    # ---- what it says -------------------------------------------------------------------------------------------

    def _listen(self, near: socket.socket, process: ConfinedProcess, pulse: Pulse) -> None:
        """The thread that reads its records, one for each process. Whatever goes wrong here, nobody waits for it."""
        why = ""
        try:
            with near, selectors.DefaultSelector() as selector:
                said, wakes = selector.register(near, READ), selector.register(pulse, READ)
                while True:
                    ready = [key for key, _ in selector.select(pulse.every if self._held or pulse.is_owed else None)]
                    if wakes in ready:
                        pulse.rest()
                    if said in ready:
                        record = _received(near)
                        if record is None:
                            break
                        self._take(record)
                    if not self._answers(pulse):
                        why = f"it is silent for {pulse.seconds:g} s"
                        break
                self._ended(process, pulse, why or _how_ended(process))
        except Exception as error:
            self._ended(process, pulse, f"{type(error).__name__}: {error}")
        finally:
            process.words.close()

    def _answers(self, pulse: Pulse) -> bool:
        with self._lock:
            if not (self._held or pulse.is_owed) or self._channel is None:
                return True
            again = pulse.asks_again(time.monotonic())
            if again:
                self._ask()
            return again is not None

    def _take(self, record: ChannelRecord) -> None:
        """Raises OSError, ValueError."""
        with self._lock:
            held = self._held.get(record.number)
            if record.kind is Kind.READY:
                self._ready = True
            elif record.kind is Kind.PONG and self._pulse is not None:
                self._pulse.answered(record.number)
            elif record.kind is Kind.AUTHORITY:
                self._plans.files.learn(record.number, record.fields[0], self._plans, self._starts)
            elif record.kind is Kind.OVER:
                self._held.pop(record.number, None)
            self._news.notify_all()
        if held is not None or record.kind is Kind.ASK:
            with suppress(RuntimeError):  # its loop has ended
                book(record, held, self.say)

    def _ended(self, process: ConfinedProcess, pulse: Pulse, why: str) -> None:
        with self._lock:
            pulse.close()
            if self._process is not process:
                return  # somebody has stopped it
            held, self._held, self._why = self._held, {}, why
            self._stop()
            for known in self._plans:
                known.path = ""
            self._again()
        for each in held.values():
            with suppress(RuntimeError):
                each.over(True)
        with suppress(Exception):  # the sink is the user's
            self._sink(Event(GATEKEEPER_FAILED.name, {"reason": f"the inspector of TLS: {why}"}))

    def _again(self) -> None:
        """Starts it once more, for the cages that there are; where that fails, their hosts stay closed."""
        if self._retired or self._starts >= MOST_STARTS:
            return
        self._returns = True

        def start() -> None:
            with self._lock:
                with suppress(OSError):
                    if not self._retired:
                        self._ensure()
                        self._teach()
                self._returns = False
                self._news.notify_all()

        _begin("pysandbox-inspector-again", start)


def _begin(name: str, work: Callable[..., object], *given: object) -> None:
    """In a thread of its own. Raises RuntimeError where none can be started."""
    threading.Thread(target=work, args=given, name=name, daemon=True).start()


def _received(near: socket.socket) -> ChannelRecord | None:
    """The next record; None at the end. Raises OSError, BadChannelRecord."""
    received = channel.receive(near)
    if received is None:
        return None
    record, fds = received
    for fd in fds:
        os.close(fd)
    if record.kind in TO_INSPECTOR:
        raise BadChannelRecord("a record that is the host's to send")
    return record


def _how_ended(process: ConfinedProcess) -> str:
    """How a process ended that has closed its channel."""
    try:
        code = process.wait(ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        return "it has closed its channel"
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"it has ended {how}{process.words.said()}"


def _spawn(far: socket.socket, roots: int, scans: bool) -> ConfinedProcess:
    kept = {name: value for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if (value := os.environ.get(name))}
    return confined.start(MODULE, (far.fileno(), roots), int(scans), environment=kept)
