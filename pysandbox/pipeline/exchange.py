"""One call on one worker: (READY,) CALL, (ASK, ROOM,) answer; what the worker prints is kept, up to a bound.

Nothing here blocks but `run`: whoever has many exchanges polls their descriptors (`watched`) and has each read what has
come (`advance`). Whatever a worker says is parsed totally, no descriptor is taken from it, and one that says what makes
no sense is ended. It answers once, for this call, or its end is told. The worker is over when its answer is read.
"""

from __future__ import annotations

import os
import select
import signal
import time
import weakref

from pysandbox.descriptors.polling import LONGEST_POLL
from pysandbox.errors import SandboxedError
from pysandbox.pipeline import calls
from pysandbox.pipeline.calls import BadRecord, Record
from pysandbox.pipeline.memory import give_room, read_room, send_call
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from pysandbox.result import Reason
    from pysandbox.shapes import Any

    Piece = bytes | memoryview

LAST_WORDS = 1.0  # seconds that one which has closed its socket may take to end


class CallWorker(Protocol):
    """A process in a cage that waits for one CALL, as an exchange sees it."""

    sock: socket.socket
    says_ready: bool  # before it is sent its call; else that waits in its socket until it is there
    how: str  # it ended by itself, when `end` has said so: "exit code 3", "SIGSEGV"

    def output_fd(self) -> int:
        """What is to be read while it runs; -1 where nothing is."""

    def end_fd(self) -> int:
        """Becomes readable at its end; -1 where only `end` can tell."""

    def begin(self) -> list[int]:
        """What goes to it with its call."""

    def has_begun(self) -> None:
        """The call is sent: what can be done beside that is done now."""

    def read_output(self) -> bool:
        """Whether more may come."""

    def printed(self) -> bytes: ...

    def finish(self) -> None:
        """Ends whoever has answered, so that nothing of the answer changes any more."""

    def end(self, reason: Reason | None) -> str:
        """Ends it, and says why it ended, as `Result.reason`: why it ended by itself, where `reason` is None."""

    def close(self) -> None:
        """Ends it where it still runs, and closes what the host has of it. Idempotent."""

    def drop(self) -> None:
        """Closes what this process has of it, and ends nothing: in a forked copy of the host."""


class ReceivedAnswer(NamedTuple):
    """`kind` is RETURNED, RAISED or UNFIT."""

    kind: int
    pieces: list[Any]
    printed: bytes

    @property
    def logs(self) -> str:
        return logs_of(self.printed)


def logs_of(printed: bytes) -> str:
    return printed.decode("utf-8", "replace")


def ended_by(reason: str, returncode: int) -> str:
    """What the reason alone does not say."""
    if reason == "exited":
        return f"exit code {returncode}"
    return signal.Signals(-returncode).name if -returncode in signal.valid_signals() else ""


class CallExchange:
    """`timeout` is for all of it; an answer has at most `most` bytes."""

    def __init__(
        self, worker: CallWorker, pieces: Sequence[Piece], *, timeout: float | None, most: int, number: int = 1
    ) -> None:
        self._worker, self._pieces, self._most, self._number = worker, pieces, most, number
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self._timeout = timeout
        self.printed = b""  # when it is over
        self._last_words: float | None = None  # until then it may end by itself
        self._expected = {calls.READY, calls.RAISED}
        self._asked: Record | None = None
        self._room = -1
        _ALL.add(self)
        if not worker.says_ready:
            try:
                self._send_call()
            except BaseException:
                self.close()
                raise

    def watched(self) -> list[int]:
        """The descriptors that `advance` reads; `advance` changes them."""
        first = self._worker.sock.fileno() if self._last_words is None else self._worker.end_fd()
        return [fd for fd in (first, self._worker.output_fd()) if fd >= 0]

    def due(self) -> float | None:
        """When `advance` is to be called whatever happens."""
        return min((each for each in (self.deadline, self._last_words) if each is not None), default=None)

    def advance(self, fd: int = -1) -> ReceivedAnswer | None:
        """Reads what has come; None where the answer has not. Raises SandboxedError. Over when it does, or answers."""
        try:
            of_output = fd >= 0 and fd == self._worker.output_fd()
            if of_output:
                self._worker.read_output()
            elif fd >= 0 and self._last_words is not None:
                raise self._without_answer()
            answer = self._step() if (fd >= 0 and not of_output) or self._waits_late() else None
            if answer is None:
                self._check_time()
            else:
                self.close()
            return answer
        except BadRecord as error:
            self._worker.end("cancelled")
            failed = self._failed("cancelled", f"what answered in the cage made no sense: {error}")
            self.close()
            raise failed from None
        except BaseException:
            self.close()
            raise

    def run(self) -> ReceivedAnswer:
        """To its end. Raises SandboxedError."""
        try:
            while True:
                poller = select.poll()
                for fd in self.watched():
                    poller.register(fd, select.POLLIN)
                due = self.due()
                patience = LONGEST_POLL if due is None else max(0.0, min(due - time.monotonic(), LONGEST_POLL))
                for fd, _ in poller.poll(patience * 1000) or [(-1, 0)]:
                    answer = self.advance(fd)
                    if answer is not None:
                        return answer
        finally:
            self.close()

    def abandon(self) -> SandboxedError:
        """Ends it before its answer."""
        self._worker.end("cancelled")
        failed = self._failed("cancelled", "the call was cancelled")
        self.close()
        return failed

    def forget(self) -> None:
        """In a forked copy of the host: closes the copies of its descriptors, and ends nothing."""
        self._worker.drop()
        self._close_room()

    def close(self) -> None:
        self._close_room()
        self._worker.close()

    # ---- what it says ------------------------------------------------------------------------------------------------

    def _step(self) -> ReceivedAnswer | None:
        record = self._next()
        if record is None:
            return None
        if record.kind == calls.READY:
            self._send_call()
        elif record.kind == calls.ASK:
            if sum(record.sizes) > self._most:
                self._worker.end("cancelled")
                raise self._failed("cancelled", f"cannot return {sum(record.sizes)} bytes; {self._most} are the most")
            self._asked = record
            self._room = give_room(self._worker.sock, record)
            self._expected = {calls.RETURNED, calls.RAISED, calls.UNFIT}
        else:
            return self._answered(record)
        return None

    def _send_call(self) -> None:
        send_call(self._worker.sock, self._number, self._pieces, self._worker.begin())
        self._worker.has_begun()
        self._expected = {calls.ASK, calls.RETURNED, calls.RAISED, calls.UNFIT}

    def _next(self) -> Record | None:
        """None where it has closed its socket, and may yet end by itself."""
        try:
            data = self._worker.sock.recv(calls.LONGEST + 1)  # without room for descriptors: the kernel drops them
        except ConnectionError:
            data = b""
        if not data:
            if self._worker.end_fd() < 0:
                raise self._without_answer()
            self._last_words = time.monotonic() + LAST_WORDS
            return None
        record = calls.parse(data)
        prepares = calls.READY in self._expected
        if record.kind not in self._expected or record.call != (0 if prepares else self._number):
            raise BadRecord(f"a record of kind {record.kind}, for call {record.call}, out of turn")
        if self._asked is not None and record.sizes != self._asked.sizes:
            raise BadRecord("the answer is not the one that there is room for")
        return record

    def _answered(self, record: Record) -> ReceivedAnswer:
        self._worker.finish()  # from here on nobody can change what it has written
        if self._asked is None and sum(record.sizes) != len(record.inline):
            raise BadRecord("its answer is nowhere")
        inline = self._asked is None
        pieces: list[Any] = (
            [*calls.split(record.inline, record.sizes)] if inline else read_room(self._room, record.sizes)
        )
        self.printed = self._worker.printed()
        return ReceivedAnswer(record.kind, pieces, self.printed)

    # ---- why there is no answer --------------------------------------------------------------------------------------

    def _check_time(self) -> None:
        now = time.monotonic()
        if self.deadline is not None and now >= self.deadline:
            self._worker.end("timeout")
            raise self._failed("timeout", f"the call did not end in time ({self._timeout:g} s)")
        if self._last_words is not None and now >= self._last_words:
            raise self._without_answer()

    def _waits_late(self) -> bool:
        """Whether the time is over, and yet something is there: an answer that the host was late to read is one."""
        if self.deadline is None or time.monotonic() < self.deadline or self._last_words is not None:
            return False
        poller = select.poll()
        poller.register(self._worker.sock, select.POLLIN)
        return bool(poller.poll(0))

    def _without_answer(self) -> SandboxedError:
        reason = self._worker.end(None)
        how = f": {self._worker.how}" if self._worker.how else ""
        return self._failed(reason, f"the interpreter in the cage ended ({reason}{how}) without an answer")

    def _failed(self, reason: str, message: str) -> SandboxedError:
        self.printed = self._worker.printed()
        return SandboxedError(message, reason=reason, logs=logs_of(self.printed))

    def _close_room(self) -> None:
        if self._room >= 0:
            os.close(self._room)
            self._room = -1


_ALL: weakref.WeakSet[CallExchange] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Whoever waited for them, another thread most often, is not here."""
    for each in list(_ALL):
        each.forget()


os.register_at_fork(after_in_child=_after_fork_in_child)
