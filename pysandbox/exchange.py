"""Communicating with a running command: feed its stdin, read its stdout and stderr, see its end. One poll loop.

The loop ends when the command has ended and what was in the pipes at that moment is read: processes that it has left
in the background, and that hold its pipes open, are not waited for.
"""

from __future__ import annotations

import select
import time

from pysandbox.descriptors.polling import LONGEST_POLL
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.process_state import ProcessState
    from pysandbox.streams.command_streams import InputWriter, OutputReader


def communicate(state: ProcessState, data: bytes | None, timeout: float | None) -> None:
    """Returns when the command has ended; its output captured. Raises TimeoutError; what was read is kept."""
    streams = state.streams
    stdio = streams.stdio
    if timeout is None and stdio.stdin < 0 and stdio.stdout < 0 and stdio.stderr < 0:
        while state.ended is None:  # nothing to read or write: one blocking read is the whole wait
            state.read_report()
        return
    readers = streams.readers()
    writer = streams.writer(data)
    deadline = None if timeout is None else time.monotonic() + timeout
    try:
        _loop(state, readers, writer, deadline)
    except BaseException:
        streams.silence(readers)
        raise
    finally:
        streams.store(readers)
    for listener in streams.listeners.values():
        listener.add(b"")
        listener.tell(deadline)


def _loop(
    state: ProcessState, readers: dict[str, OutputReader], writer: InputWriter | None, deadline: float | None
) -> None:
    poller = select.poll()
    poller.register(state.report_fd, select.POLLIN)
    by_fd = {reader.fd: reader for reader in readers.values()}
    for fd in by_fd:
        poller.register(fd, select.POLLIN)
    if writer is not None:
        poller.register(writer.fd, select.POLLOUT)
    while state.ended is None:
        left = LONGEST_POLL if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{state.argv[0]!r} still runs")
        for fd, _ in poller.poll(min(left, LONGEST_POLL) * 1000):
            if fd == state.report_fd:
                state.read_report()
            elif writer is not None and fd == writer.fd:
                if not writer.write():
                    poller.unregister(fd)
                    state.streams.close_stdin()
                    writer = None
            else:
                _read(by_fd[fd], poller, deadline)


def _read(reader: OutputReader, poller: select.poll, deadline: float | None) -> None:
    if not reader.read() and not reader.open:
        poller.unregister(reader.fd)
    if reader.listener is not None:
        reader.listener.tell(deadline)
