"""The host's side of a worker of a template: its socket, where its output goes, and how it is ended.

A worker is code that nobody reviewed: what it sends is read by `exchange`, it hands over no descriptor (none is
received), and it can neither make the host wait beyond a timeout nor allocate beyond a bound. What it prints goes into
memory of a fixed size, so that nobody has to read it meanwhile.
"""

from __future__ import annotations

import os
import signal

from pysandbox.descriptors.polling import is_readable
from pysandbox.pipeline.exchange import ended_by
from pysandbox.pipeline.memory import fixed_memory
from pysandbox.shapes import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket

OUTPUT = 1 << 20  # bytes that a worker may print
REAPED = 5.0  # seconds until the end of a killed worker is known


class WorkerOwner(Protocol):
    """The template, as its workers know it."""

    def refill(self) -> None: ...
    def kill(self, number: int) -> None: ...
    def forget(self, number: int) -> None: ...
    def ending_of(self, number: int, patience: float) -> int | None: ...
    def own_ending(self, patience: float) -> str: ...


class TemplateWorker:
    """A `CallWorker`, whose call is sent while it is forked, or waits. `number` is the template's name for it, and that
    of its directory in /tmp."""

    says_ready = False

    def __init__(self, template: WorkerOwner, number: int, sock: socket.socket) -> None:
        self.number, self.sock, self.how = number, sock, ""
        self._template = template
        self._output = -1
        self._is_over = False

    def has_hung_up(self) -> bool:
        """Whether nobody is at the other end any more, or it has spoken before anybody asked."""
        return is_readable(self.sock)

    def output_fd(self) -> int:
        return -1

    def end_fd(self) -> int:
        return -1

    def begin(self) -> list[int]:
        self._output = fixed_memory(OUTPUT)
        return [self._output]

    def has_begun(self) -> None:
        self._template.refill()

    def read_output(self) -> bool:
        return False

    def printed(self) -> bytes:
        """As far as the worker has written; it shares the position with us, and may have moved it."""
        if self._output < 0:
            return b""
        return os.pread(self._output, min(os.lseek(self._output, 0, os.SEEK_CUR), OUTPUT), 0)

    def finish(self) -> None:
        """The worker has answered, and ends, with what it started. Nobody waits: what it has handed over is sealed."""
        if not self._is_over:
            self._is_over = True
            self._template.kill(self.number)
            self._template.forget(self.number)

    def end(self, reason: str | None) -> str:
        if reason is not None or self._is_over:
            self.finish()
            return reason or "cancelled"
        self._is_over = True
        self._template.kill(self.number)
        status = self._template.ending_of(self.number, REAPED)
        if status is None:
            return self._template.own_ending(REAPED)
        found = reason_of(status)
        self.how = ended_by(found, os.waitstatus_to_exitcode(status)) if status >= 0 else ""
        return found

    def close(self) -> None:
        self.finish()
        self.drop()

    def drop(self) -> None:
        """Closes what this process has of it, and ends nothing."""
        self._is_over = True
        self.sock.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def reason_of(status: int) -> str:
    """From a wait status; negative where it could not even be forked."""
    if status < 0:
        return "cancelled"
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        return "seccomp" if ended_by == signal.SIGSYS else "timeout" if ended_by == signal.SIGXCPU else "signaled"
    return "exited"
