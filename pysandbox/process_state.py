"""A running command as this process knows it: its reports, how it ended, what is told of that, its descriptors.

cage-init writes one record to the report pipe when the command starts, or why it could not, and one when it ends.
Whoever waits for the command reads them here, whichever way it waits: `Process` blocks, `exchange` polls, `aio` has an
event loop. The first to read the last record also tells the audit how the command ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from errno import ENOENT
from signal import SIGKILL

from pysandbox.audit.ending import PLANTED, START_FAILED, UNGUARDED, end_records, failed_record, planted_record
from pysandbox.audit.told import limit_values
from pysandbox.errors import CageClosedError
from pysandbox.events import POLICY_VIOLATION, Event, ignore
from pysandbox.launch import orders
from pysandbox.probe.planted import warning
from pysandbox.result import KILLED, Reason, Result, outcome, reason_of, returncode_of, usage_of
from pysandbox.shapes import TYPE_CHECKING, Any, replace
from pysandbox.streams.command_streams import CommandStreams

if TYPE_CHECKING:
    from pysandbox.command import LaunchRequest
    from pysandbox.denial import Denial
    from pysandbox.launch.stdio import Stdio
    from pysandbox.note import Note
    from pysandbox.runtime.runtime import Runtime

SESSION = (
    "no such program in the cage: a session shows what its policy grants, and Cage(Policy.load(command=[PROGRAM])) "
    "what that program needs too"
)


class ProcessState:
    """Owns the command's descriptors and its report pipe; `close` closes them once. Any thread may call any method."""

    def __init__(self, request: LaunchRequest, stdio: Stdio, report_fd: int, runtime: Runtime) -> None:
        self.argv = request.command.argv
        self.request = request
        self.live = request.live
        self.streams = CommandStreams(stdio, request.prepared.plan.output_cap, request.coding)
        self.pid: int | None = None
        self.began = time.monotonic()
        self.ended: float | None = None
        self.returncode = KILLED  # the exit code, once it has ended
        self.end_of_session = False  # it was asked to end because its cage was closed
        self._runtime = runtime
        self._final: orders.Report | None = None  # None after the end: the cage died with it
        self._cause: Reason | None = None  # why we ended it, when we did
        self._blamed: Reason | None = None  # why it was asked to end, when it was
        self._asked_limits: dict[str, object] = {}
        self._limit = ""  # the limit that ended it, where its reason does not say
        self._refused_forks = 0
        self._planted: tuple[str, ...] = ()  # what it made that programs of the host act on
        self._lock = threading.RLock()
        self.report_fd = report_fd

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = threading.RLock()

    def require_ours(self) -> None:
        """A forked copy of the host shares the report pipe: what it read there the original would never see."""
        if self.live.abandoned:
            raise CageClosedError(f"{self.argv[0]!r} runs in a cage of the process that this one was forked from")

    # ---- the reports of cage-init -------------------------------------------------------------------------------

    def read_report(self) -> None:
        """Takes the next record, blocking."""
        with self._lock:
            if self.ended is not None:
                return
            report = orders.read_report(self.report_fd)
            if report is not None and report.kind == "started":
                self.pid = report.pid
                self.live.commands.leads(self.request.id, report.pid)
                self.live.wake()
                return
            self.ended = time.monotonic()
            self._final, self.returncode = report, returncode_of(report)
            self.live.commands.end(self.request.id, report.pid if report is not None and report.error is None else 0)
            if self.live.services and not self.end_of_session:
                self.live.services.command_ended(well=self.returncode == 0)
            if report is None or report.status or self._runtime.sink is not ignore or not self.request.oneshot:
                self._ask_limits()  # one that succeeded, untold and alone, is asked nothing
            if self.request.prepared.absences.names:
                self._look_for_planted()
            if self.request.oneshot and not self.request.quiet:  # it wakes the worker: a quiet one does that at close
                self._runtime.collect(self.live)
        if self.streams.stdio.has_go_betweens:
            self.streams.stdio.wait_flushed()
        if self._runtime.sink is not ignore:
            self._record_end()

    def _ask_limits(self) -> None:
        """What the cage's limits had to do with the end; they are gone once the cage is collected."""
        if self.returncode == -SIGKILL and self.live.ran_out_of_memory():
            self._cause = "oom"
        elif self.returncode == -SIGKILL and self.live.kill_reason is not None:
            self._cause, self._limit = self.live.kill_reason.reason, self.live.kill_reason.limit
        self._refused_forks = self.live.new_refused_forks(self.request.id)

    def _look_for_planted(self) -> None:
        """All of a one-shot cage has ended when it is reported; of a session each thing is told once."""
        if self._final is None:  # the rest of the cage goes with its init, and takes a moment
            self.live.await_end()
        if made := self.request.prepared.absences(self.live.commands.since):
            self._planted = self.live.planted.not_told(made)

    def _record_end(self) -> None:
        sink = self._runtime.sink
        which: dict[str, object] = {"invocation_id": self.live.id, "command": self.request.id}
        if self._final is not None and (error := self._final.error) is not None:
            sink(Event(START_FAILED, failed_record(which, error.step, error.errno, error.filename)))
            return
        if self._planted:
            sink(Event(PLANTED, planted_record(which, self._planted, warning(self._planted))))
        result = self.result()
        with_session = self.end_of_session and result.returncode < 0 and result.reason != "timeout"
        limits = {**limit_values(self.request.prepared.policy), **self.live.tightened, **self._asked_limits}
        for name, data in end_records(
            which, limits, outcome(result),
            limit=self._limit, session_ended=with_session, refused_forks=bool(self._refused_forks),
        ):  # fmt: skip
            sink(Event(name, data))

    # ---- how it ended -------------------------------------------------------------------------------------------

    def blame(self, reason: Reason, seconds: float | None = None) -> None:
        """Why it is being asked to end; `seconds` is the limit that it ran into."""
        self._blamed = reason
        if seconds is not None:
            self._asked_limits = {"walltime": seconds}

    def condemn(self, cause: Reason) -> None:
        """Why it is being killed."""
        self._cause = cause

    def raise_failure(self) -> None:
        """Raises StartError when the command never ran, OSError when not all of its input or output has arrived."""
        stdio = self.streams.stdio
        if stdio.has_go_betweens and (failure := stdio.failure) is not None:
            raise failure
        if self._final is not None and self._final.error is not None:
            self.live.services.explain(self._final.error, self.argv, self.began)
            if self._final.error.errno == ENOENT and not self.request.oneshot and self.request.caged:
                self._final.error.hint = SESSION
            raise self._final.error

    def result(self) -> Result[Any]:
        """What is known so far."""
        live, streams, notes = self.live, self.streams, self.request.prepared.weaker
        is_served = bool(live.services)
        if self._planted or live.kill_reason is not None:
            notes = (*notes, *self._last_words())
        return Result(
            self.argv,
            self.returncode,
            reason_of(self._final, self._cause, self._blamed),
            streams.output("stdout"),
            streams.output("stderr"),
            streams.truncated,
            (self.ended or time.monotonic()) - self.began,
            usage_of(self._final),
            self._denials() if is_served or live.cgroup is not None else (),
            self.request.caged,
            notes,
            live.services.counts() if is_served else {},
            self._final is not None and self._final.no_route,
        )

    def _forks_denied(self) -> Iterator[Denial]:
        most = self.request.prepared.policy.max_pids
        if self._refused_forks and most is not None:
            from pysandbox.handlers.fix import of_forks

            yield replace(of_forks(most, self._refused_forks), command=self.request.id)

    def _denials(self) -> tuple[Denial, ...]:
        """What this command was refused, as far as that can be told from what others of its cage were."""
        from pysandbox.denial import EVERY_HOST
        from pysandbox.live.askers import gone

        live = self.live
        over = gone(live.commands, live.pid) if not self.request.oneshot else ()  # first: they can ask nothing more
        found = live.services.denials()
        live.commands.close(tuple(over))
        own = (each for each in found if each.command == self.request.id)
        return (*(each for each in own if self.returncode or each.target != EVERY_HOST), *self._forks_denied())

    def _last_words(self) -> Iterator[Note]:
        """What was planted, and why the watchdog has ended the cage."""
        if self._planted:
            from pysandbox.note import Note

            yield Note(PLANTED, UNGUARDED, warning(self._planted))
        why = self.live.kill_reason
        if why is not None and self._cause is not None:
            from pysandbox.note import Note

            yield Note(POLICY_VIOLATION.name, why.limit, why.message)

    def close(self) -> None:
        """Closes every descriptor. Idempotent; nobody may wait on them any more."""
        with self._lock:
            if self.report_fd < 0:
                return
            self.streams.close()
            os.close(self.report_fd)
            self.report_fd = -1
            collect_now = self.request.quiet or self.ended is None
            if self.request.oneshot and collect_now and not self.live.abandoned:
                self._runtime.collect(self.live)
            self.ended = self.ended or time.monotonic()


class DescriptorUse:
    """Threads that wait on a command's descriptors: their numbers must not become another file's meanwhile.

    While entered, no other thread closes them; the last to leave closes what was to be closed meanwhile.
    """

    def __init__(self, state: ProcessState) -> None:
        self.count = 0
        self._state = state
        self._closing = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Raises CageClosedError when they are closed and the end is not known."""
        with self._lock:
            if self._closing and self._state.ended is None:
                raise CageClosedError(f"{self._state.argv[0]!r} was closed")
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.count -= 1
            last = self._closing and not self.count
        if last:
            self._state.close()

    def close(self) -> None:
        """Closes the descriptors, at once or when the last has left."""
        with self._lock:
            self._closing = True
            if self.count:
                return
        self._state.close()

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock, or waited, at the fork."""
        self._lock, self.count = threading.Lock(), 0
