"""The commands of a pipeline, running, and the pipes between them.

    upstream -> a pipe of its own -> splice(2), in a thread of C (outflow.c) -> a pipe of its own -> downstream

Two pipes and not one: whoever holds an end of a pipe can open the other (/proc/self/fd), and a stage that was taken
over could hear from its reader. So bytes go one way, and neither stage knows of the other. What is spliced is not
copied, and the pipes of a stream that flows are larger than ordinary ones.

All cages are opened first, then the last command is started first: nobody writes before somebody reads. Who owns a
Joined closes it; then every command is over and every descriptor closed, whatever has happened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from pysandbox.errors import CageClosedError, CageTimeout, StartError
from pysandbox.launch.relay import PipeRelay
from pysandbox.launch.stdio import PIPE
from pysandbox.shapes import TYPE_CHECKING, Any, Self, replace
from pysandbox.stages.order import Placed, Reserved, Streams
from pysandbox.stages.outcome import PipelineResult, has_failed

if TYPE_CHECKING:
    from pysandbox.process import Process
    from pysandbox.result import Reason


class Joined:
    """`start`, then wait for `running` to become empty, then `result`. `abandon` may be called by any thread."""

    def __init__(self, placed: Sequence[Placed], head: int, streams: Streams) -> None:
        self.placed = placed
        self.head = head
        self.began = time.monotonic()
        self._streams = streams
        self._started: dict[int, Process[Any]] = {}
        self._named: dict[int, int] = {}  # who feeds by name, and the writing end of the descriptor that it feeds
        self._relays: list[PipeRelay] = []
        self._abandoned = False
        self._lock = threading.Lock()  # of what abandoning and starting share

    # ---- the start ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Sends every order; nothing is left running when this raises and it is closed."""
        reserved: dict[int, Reserved] = {}
        try:
            for index, each in enumerate(self.placed):
                reserved[index] = each.cage.reserve(each.command)
            for index in reversed(range(len(self.placed))):
                self._start(index, reserved)
        finally:
            for unused in reserved.values():
                unused.give_back()
        for index in range(len(self.placed)):
            self._join(index)

    def _start(self, index: int, waiting: dict[int, Reserved]) -> None:
        """Takes from those that wait the one that it starts, which from then on is its cage's to give back."""
        each, reserved = self.placed[index], waiting[index]
        reading: dict[str, int] = {}
        try:
            for feeder in [at for at, other in enumerate(self.placed) if other.feeds == index and other.name]:
                reading[str(self.placed[feeder].name)], self._named[feeder] = _pipe(reserved.live.user)
            numbers = {name: str(fd) for name, fd in reading.items()}
            del waiting[index]
            process = each.cage.start(
                replace(reserved.command, env={**reserved.command.env, **numbers}), self._files(index),
                pass_fds=list(reading.values()), coding=self._streams.coding, quiet=True, reserved=reserved,
            )  # fmt: skip
        finally:
            for fd in reading.values():
                os.close(fd)
        with self._lock:
            self._started[index] = process
            if self._abandoned:
                raise CageClosedError(f"{each.command.argv[0]!r} was given up before its pipeline had started")

    def _files(self, index: int) -> tuple[Any, Any, Any]:
        is_fed = any(each.feeds == index and each.name is None for each in self.placed)
        stdin = PIPE if is_fed else self._streams.stdin if index == self.head else None
        stdout = self._streams.stdout if self.placed[index].feeds is None else PIPE
        return stdin, stdout, self._streams.stderr

    def _join(self, index: int) -> None:
        """The output of a stage to whoever reads it."""
        reader = self.placed[index].feeds
        if reader is None:
            return
        source = self._started[index].state.streams.take("stdout")
        named = self._named.pop(index, -1)
        target = named if named >= 0 else self._started[reader].state.streams.take("stdin")
        try:
            relay = PipeRelay(source, target, widens=True)
        except BaseException:
            os.close(source)
            raise
        finally:
            os.close(target)
        self._relays.append(relay)
        relay.serve()

    # ---- while it runs ------------------------------------------------------------------------------------------

    @property
    def processes(self) -> list[Process[Any]]:
        """The processes that have their order, in the order of `placed`."""
        return [self._started[index] for index in sorted(self._started)]

    @property
    def running(self) -> list[Process[Any]]:
        return [each for each in self.processes if each.state.ended is None]

    @property
    def has_failed(self) -> bool:
        return any(each.state.ended is not None and has_failed(each.state.returncode) for each in self.processes)

    def raise_failure(self) -> None:
        """Raises StartError, with its `argv`, when one of them never ran."""
        for each in self.processes:
            if each.state.ended is None:
                continue
            try:
                each.state.raise_failure()
            except StartError as error:
                error.argv = each.argv
                raise

    def condemn(self, cause: Reason) -> None:
        """Kills what runs, without waiting for its end."""
        for each in self.running:
            each.condemn(cause)

    def abandon(self) -> None:
        """Kills what runs, and whatever is still being started."""
        with self._lock:
            self._abandoned = True
        self.condemn("cancelled")

    # ---- the end ------------------------------------------------------------------------------------------------

    def result(self, late: bool, timeout: float | None) -> PipelineResult[Any]:
        """What came of it, when all have ended. Raises OSError when not all has arrived, CageTimeout when `late`."""
        stages = tuple(each.state.result() for each in self.processes)
        if late:
            first = next((each for each in stages if each.reason == "timeout"), stages[-1])
            error = CageTimeout(first.argv, timeout or 0.0, stages[-1])
            error.stages = stages
            raise error
        for relay in self._relays:
            if relay.failure is not None:
                raise relay.failure
        return PipelineResult(stages, tuple(each.feeds for each in self.placed), time.monotonic() - self.began)

    def close(self) -> None:
        """Ends every command and closes every descriptor. Idempotent."""
        self.abandon()
        for each in self.processes:
            each.close()
        for relay in self._relays:
            relay.close()
        while self._named:
            os.close(self._named.popitem()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pipe(user: int) -> tuple[int, int]:
    """`user`: whom the cage is outside, where root has started it as another."""
    ends = os.pipe2(os.O_CLOEXEC)
    try:
        if user and os.fstat(ends[0]).st_uid == 0:
            os.fchown(ends[0], user, user)
    except BaseException:
        for fd in ends:
            os.close(fd)
        raise
    return ends
