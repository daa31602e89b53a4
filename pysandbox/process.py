"""A command in a cage, and what became of it.

A Process owns the host's ends of the command's descriptors and its report pipe: cage-init writes one record there when
the command starts (or why it could not) and one when it ends, so `fileno()` becomes readable at the end and works with
any selector. A Result is plain data about a command that is over.
"""

from __future__ import annotations

import os
import select
import signal as signals
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from pysandbox.audit.ending import PLANTED, START_FAILED, UNGUARDED, end_records, failed_record, planted_record
from pysandbox.errors import CageClosedError, ExitError
from pysandbox.events import POLICY_VIOLATION, Event, Sink, ignore
from pysandbox.exchange import exchange
from pysandbox.handlers.denial import Denial
from pysandbox.launch import orders
from pysandbox.probe.planted import told

if TYPE_CHECKING:
    from pysandbox.compile.plan import Note
    from pysandbox.launch.live import LiveInit
    from pysandbox.launch.stdio import Stdio

Reason = Literal["exited", "signaled", "timeout", "oom", "seccomp", "cancelled"]

EXIT_TIMEOUT = 124
LONGEST_POLL = 2**31 - 1  # milliseconds, poll(2); whoever waits for longer comes back for the rest
LAST_REPORT_PATIENCE = 5.0  # seconds a killed command may take to be reported


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command and the children it waited for used (getrusage(2)): seconds, and KiB at the peak."""

    user_time: float = 0.0
    system_time: float = 0.0
    max_rss_kb: int = 0


@dataclass(frozen=True)
class Result:
    """The outcome of a command.

    `exit_code` is a shell's view (128+n for signal n, 124 after the wall time), `returncode` Popen's (-n).
    `stdout` and `stderr` are str or bytes as asked for, None where they were not captured. `duration` in seconds.
    `network` counts what the gatekeeper has let through and refused for the cage so far, by type of event
    ("gatekeeper.dns_denied", "gatekeeper.tcp_denied", ...).
    """

    argv: tuple[str, ...]
    returncode: int
    reason: Reason
    stdout: Any = None
    stderr: Any = None
    truncated: bool = False
    duration: float = 0.0
    usage: Usage = field(default_factory=Usage)
    denials: tuple[Denial, ...] = ()
    caged: bool = True
    notes: tuple[Note, ...] = ()
    network: Mapping[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        if self.reason == "timeout":
            return EXIT_TIMEOUT
        return self.returncode if self.returncode >= 0 else 128 - self.returncode

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the command, None if it exited."""
        return -self.returncode if self.returncode < 0 else None

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and self.reason == "exited"

    def check(self) -> Result:
        """This result if the command succeeded. Raises ExitError."""
        if not self.ok:
            raise ExitError(self)
        return self


@dataclass(frozen=True, slots=True)
class Order:
    """What a Process needs to know of the command it stands for."""

    argv: tuple[str, ...]
    id: int
    oneshot: bool
    caged: bool
    output_cap: int
    notes: tuple[Note, ...]
    grace: float = 5.0  # seconds from SIGTERM to SIGKILL, when the host has to end it
    limits: Mapping[str, object] = field(default_factory=dict)  # what `policy.violation` tells of each
    appeared: Callable[[], tuple[str, ...]] | None = None  # what has been planted; None where nothing can be


class Process:
    """A running command. Made by `Cage.spawn`; use it as a context manager, or close it, or wait for it.

    Any thread may call any method. Descriptors are bytes; `stdin`, `stdout`, `stderr` are unbuffered binary files
    where PIPE was asked for, `pty_fd` the terminal's master where pty=True was.
    """

    def __init__(
        self,
        order: Order,
        live: LiveInit,
        stdio: Stdio,
        report_fd: int,
        *,
        sink: Sink,
        collect: Callable[[LiveInit], None],
        collect_at_close: bool = False,
    ) -> None:
        self.argv = order.argv
        self.caged = order.caged
        self.pid: int | None = None
        self._report_fd = -1  # nothing is ours to close until this is set, last of all
        self._order = order
        self._live = live
        self._stdio = stdio
        self._sink = sink
        self._collect = collect
        self._collect_at_close = collect_at_close  # it wakes the worker: `run` does that last
        self._began = time.monotonic()
        self._ended: float | None = None
        self._final: orders.Report | None = None  # None after the end: the cage died with it
        self._cause: Reason | None = None  # why we ended it, when we did
        self._blamed: Reason | None = None  # why it was asked to end, when it was
        self._asked_limits: dict[str, object] = {}
        self._limit = ""  # the limit that ended it, where its reason does not say
        self._refused_forks = False
        self._planted: tuple[str, ...] = ()  # what it made that programs of the host act on
        self._end_of_session = False  # it was asked to end because its cage was closed
        self._users = 0  # threads that wait on our descriptors
        self._closing = False  # the last of them closes
        self._truncated = False
        self._captured: dict[str, bytes] = {}
        self._lock = threading.RLock()
        self._users_lock = threading.Lock()
        self._files: dict[str, IO[bytes]] = {}
        self._report_fd = report_fd

    def forget(self) -> None:
        """In a forked copy of the host: another thread may have held the locks, or waited, at the fork."""
        self._lock, self._users_lock, self._users = threading.RLock(), threading.Lock(), 0

    # ---- the reports of cage-init -------------------------------------------------------------------------------

    def _await_start(self) -> None:
        """Blocks until the command runs. Raises StartError or CageClosedError; nothing is left open then."""
        while self.pid is None and self._ended is None:
            self._read_report()
        if self.pid is not None:
            return
        self.close()
        self._raise_failure()
        raise CageClosedError(f"cage {self._live.id} ended before {self.argv[0]!r} could start")

    def _raise_failure(self) -> None:
        """Raises StartError when the command never ran, OSError when not all of its input or output has arrived."""
        if self._stdio.failure is not None:
            raise self._stdio.failure
        if self._final is not None and self._final.error is not None:
            if self._live.supervision is not None:
                self._live.supervision.explain(self._final.error, self.argv, self._began)
            raise self._final.error

    def _read_report(self) -> None:
        """Takes the next record, blocking."""
        with self._lock:
            if self._ended is not None:
                return
            report = orders.read_report(self._report_fd)
            if report is not None and report.kind == "started":
                self.pid = report.pid
                self._live.wake()
                return
            self._ended = time.monotonic()
            self._final = report
            self._ask_limits()
            self._look_for_planted()
            if self._order.oneshot and not self._collect_at_close:
                self._collect(self._live)
        self._stdio.settle()
        self._tell_end()

    def _ask_limits(self) -> None:
        """What the cage's limits had to do with the end; they are gone once the cage is collected."""
        if self._returncode() == -signals.SIGKILL and self._live.ran_out_of_memory():
            self._cause = "oom"
        elif self._returncode() == -signals.SIGKILL and self._live.condemned is not None:
            self._cause, self._limit = self._live.condemned.reason, self._live.condemned.limit
        self._refused_forks = self._sink is not ignore and self._live.refused_forks()

    def _look_for_planted(self) -> None:
        """All of a one-shot cage has ended when it is reported; of a session each thing is told once."""
        if self._order.appeared is None:
            return
        if self._final is None:  # the rest of the cage goes with its init, and takes a moment
            self._live.await_end()
        self._planted = self._live.not_told(self._order.appeared())

    def _demand_ours(self) -> None:
        """A forked copy of the host shares the report pipe: what it read there the original would never see."""
        if self._live.abandoned:
            raise CageClosedError(f"{self.argv[0]!r} runs in a cage of the process that this one was forked from")

    def _tell_end(self) -> None:
        if self._sink is ignore:
            return
        which: dict[str, object] = {"invocation_id": self._live.id, "command": self._order.id}
        if self._final is not None and (error := self._final.error) is not None:
            self._sink(Event(START_FAILED, failed_record(which, error.step, error.errno, error.filename)))
            return
        if self._planted:
            self._sink(Event(PLANTED, planted_record(which, self._planted, told(self._planted))))
        result = self._result()
        with_session = self._end_of_session and result.returncode < 0 and result.reason != "timeout"
        limits = {**self._order.limits, **self._live.tightened, **self._asked_limits}
        for name, data in end_records(
            which, limits, _outcome(result),
            limit=self._limit, session_ended=with_session, refused_forks=self._refused_forks,
        ):  # fmt: skip
            self._sink(Event(name, data))

    @property
    def cage_id(self) -> str:
        """The ULID of the cage it runs in."""
        return self._live.id

    @property
    def init_pid(self) -> int:
        """The host's pid of its cage's init."""
        return self._live.pid

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is weaker here than its policy asks, the worst first."""
        return self._order.notes

    @property
    def output_cap(self) -> int:
        """Bytes of each output that are kept (resources.output_mb)."""
        return self._order.output_cap

    def fileno(self) -> int:
        """A descriptor that becomes readable when the command has ended; `poll()` then tells how."""
        return self._report_fd

    # ---- waiting ------------------------------------------------------------------------------------------------

    def poll(self) -> int | None:
        """The return code (-n for signal n), None while it runs. Never blocks."""
        self._demand_ours()
        with self._descriptors():
            if self._ended is None and _readable(self._report_fd, 0):
                self._read_report()
        return None if self._ended is None else self._returncode()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the return code. Raises TimeoutError after `timeout` seconds; it runs on."""
        self._demand_ours()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._descriptors():
            while self._ended is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not _readable(self._report_fd, left):
                    if left is not None and left * 1000 > LONGEST_POLL:
                        continue
                    raise TimeoutError(f"{self.argv[0]!r} still runs after {timeout:g} s")
                self._read_report()
        return self._returncode()

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Feeds stdin, reads stdout and stderr until the command has ended. Raises TimeoutError; it runs on.

        At most `resources.output_mb` of each is kept; the rest is read and dropped (`Result.truncated`). Output of
        processes that a session leaves running in the background is not waited for.
        """
        self._demand_ours()
        with self._descriptors():
            exchange(self, input, timeout)
        self._raise_failure()
        return self._captured.get("stdout", b""), self._captured.get("stderr", b"")

    def result(self) -> Result:
        """Waits for the end and tells everything about it; output as bytes, where `communicate` captured it."""
        self.wait()
        return self._result()

    def _returncode(self) -> int:
        if self._final is None:
            return -signals.SIGKILL  # the cage's init was killed, and everything with it
        return os.waitstatus_to_exitcode(self._final.status)

    def _reason(self) -> Reason:
        if self._final is not None and self._final.timed_out:
            return "timeout"
        if self._cause is not None:
            return self._cause
        if self._final is None:
            return "cancelled"
        code = self._returncode()
        if self._blamed == "timeout" or (self._blamed is not None and code < 0):
            return self._blamed
        if code >= 0:
            return "exited"
        return "seccomp" if code == -signals.SIGSYS else "signaled"

    def _output(self, name: str, text: bool) -> str | bytes | None:
        data = self._captured.get(name)
        return data.decode("utf-8", errors="replace") if text and data is not None else data

    def _result(self, text: bool = False) -> Result:
        final = self._final
        usage = Usage(final.user_time, final.system_time, final.max_rss_kb) if final else Usage()
        return Result(
            self.argv,
            self._returncode(),
            self._reason(),
            self._output("stdout", text),
            self._output("stderr", text),
            self._truncated,
            (self._ended or time.monotonic()) - self._began,
            usage,
            self._denials(),
            self.caged,
            (*self._order.notes, *self._last_words()),
            self._live.admission.ledger.counts if self._live.admission is not None else {},
        )

    def _last_words(self) -> Iterator[Note]:
        """What was planted, and why the watchdog has ended the cage."""
        if self._planted:
            from pysandbox.compile.plan import Note

            yield Note(PLANTED, UNGUARDED, told(self._planted))
        why = self._live.condemned
        if why is not None and self._cause is not None:
            from pysandbox.compile.plan import Note

            yield Note(POLICY_VIOLATION.name, why.limit, why.message)

    def _denials(self) -> tuple[Denial, ...]:
        """Of the whole cage so far: calls, and what the gatekeeper refused."""
        supervision, admission = self._live.supervision, self._live.admission
        return (
            *(supervision.denials() if supervision is not None else ()),
            *(admission.denials() if admission is not None else ()),
        )

    # ---- signals and the end ------------------------------------------------------------------------------------

    def signal(self, number: int, *, tree: bool = False) -> None:
        """Sends a signal to the command, with `tree` to every process it started. Nothing when it is over.

        The tree of a one-shot cage is the cage; in a session it is the command's session (setsid(2)) and whatever
        descends from it: a process that left both its session and its parents is ended with the cage.
        """
        if not 0 < number < signals.NSIG:
            raise ValueError(f"{number} is not a signal; use signal.SIGTERM and the like")
        if self._ended is None:
            scope = ("all" if self._order.oneshot else "session") if tree else "one"
            self._live.signal(self._order.id, number, scope)

    def terminate(self) -> None:
        self.signal(signals.SIGTERM)

    def blame(self, reason: Literal["timeout", "cancelled"], seconds: float | None = None) -> None:
        """Say why it is being asked to end, before the signal: an end by a signal is then told with this reason, and
        one that ran out of its `seconds` as that whatever it answers."""
        self._blamed = reason
        if seconds is not None:
            self._asked_limits = {"walltime": seconds}

    def kill(self) -> None:
        """SIGKILL to the command and every process it started."""
        self.signal(signals.SIGKILL, tree=True)

    def stop(self, cause: Reason = "cancelled") -> None:
        """Kills the command's tree and waits until that is reported. `cause` becomes the Result's reason."""
        if self._ended is not None:
            return
        self._condemn(cause)
        with suppress(TimeoutError, CageClosedError):  # another thread closes it meanwhile
            self.wait(LAST_REPORT_PATIENCE)

    def _condemn(self, cause: Reason) -> None:
        """What `stop` does before it waits."""
        if self._ended is not None or self._live.abandoned:
            return
        self._cause = cause
        self.kill()
        if self._order.oneshot:
            self._live.end()  # reaches also what a signal does not: cage-init kills until nothing is left

    def end(self) -> None:
        """SIGTERM to the command's tree, and SIGKILL to what is left after the policy's grace period. The descriptors
        stay open: whoever talks to the command sees it end."""
        with suppress(CageClosedError):  # closed meanwhile, or not ours
            self.signal(signals.SIGTERM, tree=True)
            self.signal(signals.SIGCONT, tree=True)
            try:
                self.wait(self._order.grace)
            except TimeoutError:
                self.stop()

    def close(self) -> None:
        """Ends the command if it still runs and closes every descriptor. Idempotent.

        A thread that is inside `communicate` or `wait` sees the end, and is the one that closes.
        """
        if self._report_fd >= 0 and self._ended is None and not self._live.abandoned:
            self.stop()  # before the lock: another thread may hold it, waiting for the very end that this brings about
        with self._users_lock:
            self._closing = True
            if self._users:
                return
        self._close_descriptors()

    def _descriptors(self) -> _InUse:
        """While entered, no other thread closes our descriptors. Raises CageClosedError when they are closed and the
        end is not known."""
        return _InUse(self)

    def _close_descriptors(self) -> None:
        with self._lock:
            if self._report_fd < 0:
                return
            for name, file in self._files.items():
                setattr(self._stdio, name, -1)  # the file owns the descriptor
                with suppress(OSError):  # a pipe that nobody reads any more
                    file.close()
            self._stdio.close()
            os.close(self._report_fd)
            self._report_fd = -1
            if self._order.oneshot and not self._live.abandoned and (self._collect_at_close or self._ended is None):
                self._collect(self._live)
            self._ended = self._ended or time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_report_fd", -1) >= 0:
            with suppress(Exception):
                self.close()

    # ---- the host's ends of the descriptors ---------------------------------------------------------------------

    def _file(self, name: str, mode: str) -> IO[bytes] | None:
        fd = getattr(self._stdio, name)
        if fd < 0:
            return None
        if name not in self._files:
            self._files[name] = open(fd, mode, buffering=0)  # noqa: SIM115 - closed by close()
        return self._files[name]

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._file("stdin", "wb")

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._file("stdout", "rb")

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._file("stderr", "rb")

    @property
    def pty_fd(self) -> int | None:
        """The master of the command's terminal; owned by this Process."""
        return self._stdio.terminal if self._stdio.terminal >= 0 else None


def _outcome(result: Result) -> dict[str, object]:
    """The fields of EXIT that tell how a command ended and what it used."""
    told: dict[str, object] = {
        "exit_code": result.exit_code,
        "reason": result.reason,
        "duration_ms": round(result.duration * 1000),
        "user_ms": round(result.usage.user_time * 1000),
        "system_ms": round(result.usage.system_time * 1000),
        "max_rss_kb": result.usage.max_rss_kb,
    }
    if result.denials:
        told["denials"] = [asdict(each) for each in result.denials]
    if result.network:
        told["counts"] = dict(result.network)
    return told


class _InUse:
    """One thread that waits on a Process's descriptors: their numbers must not become another file's meanwhile."""

    __slots__ = ("_process",)

    def __init__(self, process: Process) -> None:
        self._process = process

    def __enter__(self) -> None:
        process = self._process
        with process._users_lock:
            if process._closing and process._ended is None:
                raise CageClosedError(f"{process.argv[0]!r} was closed")
            process._users += 1

    def __exit__(self, *_: object) -> None:
        process = self._process
        with process._users_lock:
            process._users -= 1
            last = process._closing and not process._users
        if last:
            process._close_descriptors()


def _readable(fd: int, seconds: float | None) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(None if seconds is None else min(seconds * 1000, LONGEST_POLL)))
