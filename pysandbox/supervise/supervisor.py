"""One for each Runtime: the owner of the C loops, and of the threads in which callbacks run.

Each cage has a C loop, a thread without the interpreter lock; `_lead` waits until one cannot go on. What a loop cannot
answer is taken by a follower: a thread that waits in C, handles one call from start to end, and goes back. Before a
follower calls a user's callback another one waits, so that a slow callback delays nobody else; each cage may keep
CALLBACKS of them busy. Nothing is started before the first cage that needs it, and a failure of a loop ends the cages
that rely on it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from errno import ESHUTDOWN

from pysandbox.events import SUPERVISOR_FAILED, Event, Sink
from pysandbox.live.init import CageInit
from pysandbox.runtime.runtime import Runtime
from pysandbox.shapes import Protocol, TypeVar
from pysandbox.supervise import wire
from pysandbox.supervise.policy_fn import words_of

R = TypeVar("R")

FOLLOWERS_KEPT = 4  # waiting threads; more end when they have nothing to do
RETIRE_PATIENCE = 5.0  # seconds for threads to come back from what they do
ENTRY_LOOK = 0.05  # seconds between two looks whether a thread that was started runs


def join_supervisor(runtime: Runtime, join: Callable[[Supervisor], R]) -> R:
    """What `join` returns, which adds a cage to the Runtime's supervisor; that is made at its first use. Raises
    OSError, and what `join` does."""
    return runtime.shared.join(Supervisor, lambda: Supervisor(runtime.sink), join)


class Supervised(Protocol):
    """What decides the calls of one cage."""

    @property
    def live(self) -> CageInit: ...

    def handle(self, event: wire.ReportedCall, step_back: Callable[[], None]) -> None:
        """Answers one call. `step_back` has another follower wait for the next one, before this takes long."""


class Supervisor:
    """Owns the notifier and its threads. They are daemons: the end of the host ends every cage anyway. `retire` ends
    one that has no cage; the Runtime makes another when it needs one."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.notifier = wire.new_notifier()
        self._cages: dict[int, Supervised] = {}
        self._lock = threading.RLock()
        self._nobody = threading.Condition(self._lock)  # no follower is left
        self._waiting = 0
        self._followers = 0
        self._retired = False
        self._leader = threading.Thread(target=self._lead, name="pysandbox-notifier", daemon=True)
        self._leader.start()
        self._follow()

    @property
    def retired(self) -> bool:
        return self._retired

    def retire(self) -> bool:
        """Ends the threads and frees the notifier, unless a cage needs it still."""
        with self._lock:
            if self._cages or self._retired:
                return self._retired
            self._retired = True
        wire.stop(self.notifier)
        self._leader.join()
        with self._nobody:
            if not self._nobody.wait_for(lambda: not self._followers, RETIRE_PATIENCE):
                return True  # a callback never returned: its thread keeps the notifier
        wire.free(self.notifier)
        return True

    def after_fork_in_child(self) -> None:
        """The threads are the original's alone, and nothing of theirs is touched here."""

    def add(self, live: CageInit, supervised: Supervised, rules: wire.EncodedRules) -> int:
        """Takes over the cage's seccomp listener. Returns the cage's number. Raises OSError."""
        listener, live.listener = live.listener, -1
        with self._lock:  # before its first call can be told
            if self._retired:
                os.close(listener)
                raise OSError(ESHUTDOWN, "the supervisor has retired")
            number = wire.add(self.notifier, listener, rules)
            self._cages[number] = supervised
        return number

    def remove(self, number: int) -> None:
        with self._lock:
            self._cages.pop(number, None)
        wire.remove(self.notifier, number)

    # ---- threads ------------------------------------------------------------------------------------------------

    def _lead(self) -> None:
        reason = "the loop was stopped"
        try:
            reason = wire.run(self.notifier)
        except BaseException as error:
            reason = words_of(error)
        if reason:
            self._condemn(reason)

    def _condemn(self, reason: str) -> None:
        with self._lock:
            cages = list(self._cages.values())
        for supervised in cages:
            supervised.live.end()
        self.sink(Event(SUPERVISOR_FAILED.name, {"reason": reason}))

    def _follow(self) -> None:
        with self._lock:
            self._followers += 1
            self._waiting += 1
        try:
            self._start_follower()
        except BaseException:
            with self._lock:
                self._waiting -= 1
                self._gone()
            raise

    def _start_follower(self) -> None:
        """Returns when it runs. Where memory is short a thread may end before its first line: RuntimeError."""
        entered = threading.Event()
        thread = threading.Thread(target=self._run, args=(entered,), name="pysandbox-supervisor", daemon=True)
        thread.start()
        while not entered.wait(ENTRY_LOOK):
            if not thread.is_alive() and not entered.is_set():
                raise RuntimeError("the thread ended before it began")

    def _run(self, entered: threading.Event) -> None:
        """Runs a follower. One that cannot go on is replaced by another; where none can be started, the cages end."""
        entered.set()
        failure, waiting = None, True
        try:
            told = wire.new_event()
            while wire.next_event(self.notifier, told):
                with self._lock:
                    self._waiting, waiting = self._waiting - 1, False
                    supervised = self._cages.get(told.cage)
                if supervised is not None:
                    self._handle(supervised, told)
                with self._lock:
                    if self._waiting >= FOLLOWERS_KEPT:
                        return
                    self._waiting, waiting = self._waiting + 1, True
        except BaseException as error:
            failure = error
        finally:
            with self._lock:
                self._waiting -= waiting
                self._gone()
        if failure is not None:
            self._replace(failure)

    def _replace(self, failure: BaseException) -> None:
        self.promote_follower()
        with self._lock:
            deserted = not self._waiting
        if deserted:
            self._condemn(words_of(failure))
        else:
            self.complain(failure)

    def _gone(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._nobody.notify_all()

    def _handle(self, supervised: Supervised, told: wire.ReportedCall) -> None:
        """Handles one call. An error does not end the follower; a call without an answer is refused at its deadline."""
        try:
            supervised.handle(told, self.promote_follower)
        except BaseException as error:
            self.complain(error)

    def complain(self, error: BaseException) -> None:
        """Says what went wrong with one call; raises nothing."""
        with suppress(BaseException):  # the sink is the user's
            self.sink(Event(SUPERVISOR_FAILED.name, {"reason": words_of(error)}))

    def promote_follower(self) -> None:
        """Called by a follower before a callback: another thread must wait for calls in its place. Where no thread can
        be started, calls that come meanwhile are refused at their deadline."""
        with self._lock:
            if self._waiting:
                return
        with suppress(RuntimeError, MemoryError):
            self._follow()
