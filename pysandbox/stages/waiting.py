"""One poll loop for all commands of a pipeline: feeds the first, reads what is captured, sees every end."""

from __future__ import annotations

import select
import time
from functools import partial

from pysandbox.descriptors.polling import LONGEST_POLL
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.process_state import ProcessState
    from pysandbox.stages.joined import Joined
    from pysandbox.streams.command_streams import CommandStreams, InputWriter, OutputReader

LAST_REPORT_PATIENCE = 5.0  # seconds that killed commands may take to be reported


class Times:
    """When to give up on what: all of it at `deadline`, the others `grace` seconds after one has failed."""

    def __init__(self, joined: Joined, deadline: float | None, grace: float) -> None:
        self.late = False
        self._joined = joined
        self._deadline = deadline
        self._grace = grace
        self._cut: float | None = None  # when the others of one that has failed are killed
        self._last: float | None = None  # when nobody waits for killed ones any more

    def patience(self) -> float:
        """Seconds until there is something to do."""
        now = time.monotonic()
        if self._cut is None and self._joined.has_failed:
            self._cut = now + self._grace
        times = [each for each in (self._deadline, self._cut) if each is not None]
        times = [self._last] if self._last is not None else times
        return max(0.0, min(min(times, default=now + LONGEST_POLL) - now, LONGEST_POLL))

    def over(self) -> bool:
        """Kills what has no time left. True when it is not waited for any longer."""
        now = time.monotonic()
        if self._last is not None:
            return now >= self._last
        if self._deadline is not None and now >= self._deadline:
            self.late = True
            self._joined.condemn("timeout")
            self._last = now + LAST_REPORT_PATIENCE
        elif self._cut is not None and now >= self._cut:
            self._joined.condemn("cancelled")
            self._last = now + LAST_REPORT_PATIENCE
        return False


def exchange(joined: Joined, data: bytes | None, deadline: float | None, grace: float) -> bool:
    """Returns when all have ended, their output captured: whether they were killed at the deadline. Raises StartError
    as soon as one has not started."""
    times = Times(joined, deadline, grace)
    loop = _PollLoop()
    captured = [loop.follow(process.state) for process in joined.processes]
    head = joined.processes[joined.head].state.streams
    writer = head.writer(data)
    if writer is not None:
        loop.watch(writer.fd, select.POLLOUT, partial(_write, head, writer))
    try:
        while joined.running and not times.over():
            loop.turn(times.patience())
            joined.raise_failure()
    finally:
        _store(captured)
    return times.late


class _PollLoop:
    """What is polled, and what is called when it is ready; that says whether to go on."""

    def __init__(self) -> None:
        self._poller = select.poll()
        self._calls: dict[int, Callable[[], bool]] = {}

    def watch(self, fd: int, events: int, call: Callable[[], bool]) -> None:
        self._poller.register(fd, events)
        self._calls[fd] = call

    def follow(self, state: ProcessState) -> tuple[CommandStreams, dict[str, OutputReader]]:
        self.watch(state.report_fd, select.POLLIN, partial(_report, state))
        readers = state.streams.readers()
        for reader in readers.values():
            self.watch(reader.fd, select.POLLIN, partial(_read, reader))
        return state.streams, readers

    def turn(self, patience: float) -> None:
        for fd, _ in self._poller.poll(patience * 1000):
            if not self._calls[fd]():
                self._poller.unregister(fd)
                del self._calls[fd]


def _report(state: ProcessState) -> bool:
    state.read_report()
    return state.ended is None


def _read(reader: OutputReader) -> bool:
    return reader.read() or reader.open


def _write(streams: CommandStreams, writer: InputWriter) -> bool:
    if writer.write():
        return True
    streams.close_stdin()
    return False


def _store(captured: list[tuple[CommandStreams, dict[str, OutputReader]]]) -> None:
    """What was read, of each. Raises OSError for the first whose output was not readable."""
    failures = []
    for streams, readers in captured:
        try:
            streams.store(readers)
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]
