"""Output on its way from a cage to a descriptor of the host that the cage must not hold.

Whoever holds a descriptor shares its flags and its place, and more: of a file it can rewrite what is there, of a pipe
it can open the other end (/proc/self/fd) and read what others write, of a terminal it can read what is typed and switch
the echo off. So a command writes to a pipe of its own, or to a pseudo-terminal where the host has a terminal, and what
arrives is written here, to the very descriptor, by the host.

Each is served by a thread of its own until its last writer is gone, or by the command line's poll loop. Whoever learns
of a command's end calls `wait_flushed`: what the command wrote is then where it belongs.
"""

from __future__ import annotations

import _signal as signal
import errno
import os
import select
import time
from _thread import allocate_lock, start_new_thread
from errno import ECONNRESET, EIO, EPIPE

from pysandbox._native import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.shapes import Any, Literal

CHUNK = 65536
PIECE = 4096  # of one write: between two of them it shows whether anybody reads
NOBODY_READS = (EPIPE, ECONNRESET, EIO)  # EIO: a terminal that was hung up
PATIENCE = 2.0  # seconds without a byte taken, after which `wait_flushed` waits no longer
PATIENCE_WITH_A_PIPE = 0.1  # whoever waits may be the one who is to read it
LOOK = 0.0005
SHORTAGES = frozenset({errno.ENOMEM, errno.ENOBUFS, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EINTR})
MOST_LEFT = 2 << 20  # bytes that are taken at the end: more than a pipe can hold is being written by what still runs


class OutputRelay:
    """One stream to a duplicate of `target`, which is a terminal or a socket. Owns both."""

    is_pipe: Literal[False] = False

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self._lock = allocate_lock()
        self._passed = 0
        self._served = False
        self.failure: OSError | None = None  # not all of it was passed on, and nobody but the host knows
        os.set_blocking(source, False)
        self._target = os.dup(target)  # close-on-exec; the caller may close his own. The last that can fail

    def serve(self) -> None:
        """From now on a thread does it, and closes in the end."""
        start_new_thread(self._run, ())
        self._served = True

    def wait_flushed(self, patience: float | None = None) -> bool:
        """Returns when all that was written before is passed on, or when nobody takes it (False). Any thread may call
        it, also later."""
        if self._served:
            return self._await_thread(PATIENCE if patience is None else patience)
        end = self._passed + MOST_LEFT
        with self._lock:
            while self._passed < end and self._pass_on() > 0:
                pass
        return True

    def _await_thread(self, patience: float) -> bool:
        return await_flush(self._is_empty, lambda: self._passed, patience)

    def _is_empty(self) -> bool:
        """Nothing is there, and the thread has nothing in hand."""
        if not self._lock.acquire(False):
            return False
        try:
            return self.source < 0 or not select_now(self.source)
        finally:
            self._lock.release()

    def step(self) -> bool:
        """Passes on what is there; False when nothing will ever come again, and it is closed."""
        with self._lock:
            going_on = self._pass_on() >= 0
            if not going_on:
                self._close()  # here alone: whoever polls it is the one who closes it
            return going_on

    def close(self) -> None:
        """Closes a relay that no thread serves (a thread closes its own). Idempotent."""
        if not self._served:
            with self._lock:
                self._close()

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGPIPE,))  # the host may have it end a program
        poller = select.poll()
        poller.register(self.source, select.POLLIN)
        try:
            while await_any(poller) and self.step():
                pass
        finally:  # whoever still writes hears of it, and does not wait for ever
            with self._lock:
                self._close()

    def _pass_on(self) -> int:
        """The bytes of one read; 0 when none are there now, -1 at the end. For whoever has the lock."""
        if self.source < 0:
            return -1
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return 0
        except OSError as error:
            if is_short(error):
                return 0
            if error.errno != EIO:  # which is: the last writer has closed a pseudo-terminal
                self.failure = lost(error, "the command's output could not be read")
            data = b""
        return len(data) if data and self._write(data) else -1

    def _write(self, data: bytes) -> bool:
        """False when nobody takes it any more; the writer in the cage then hears of it as it would have itself. What it
        has written before that, to a disk that is full, say, it will not hear of."""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            try:
                write_all(self._target, piece)
            except OSError as error:
                if error.errno not in NOBODY_READS:
                    self.failure = lost(error, "the command's output could not be written")
                return False
            self._passed += len(piece)
        return True

    def _close(self) -> None:
        source, self.source = self.source, -1
        if source >= 0:
            os.close(source)
            os.close(self._target)


class PipeRelay:
    """One stream from a pipe to a duplicate of `target`, a pipe or a file, by a thread that needs no interpreter
    (csrc/host/relay/outflow.c). Owns both. `widens`: the target is a pipe of ours, which may become a larger one."""

    def __init__(self, source: int, target: int, *, is_pipe: bool = True, widens: bool = False) -> None:
        self.source = source
        self.is_pipe = is_pipe
        self._widens = widens
        self._target = os.dup(target)
        self._flow: Any = None

    def serve(self) -> None:
        """From now on the thread does it, and closes in the end. Raises OSError."""
        made = ffi.new("struct psb_outflow **")
        result = lib.psb_start_outflow(self.source, self._target, self._widens, made)
        if result < 0:
            from pysandbox.launch.no_thread import WHY

            why = WHY.get(-result, os.strerror(-result))
            raise OSError(-result, f"the command's output cannot be passed on: {why}")
        self.source = -1
        self._flow = ffi.gc(made[0], lib.psb_release_outflow)

    def wait_flushed(self, patience: float | None = None) -> bool:
        """As of an OutputRelay."""
        flow = self._flow
        if flow is None or lib.psb_is_flushed(flow):
            return True
        if patience is None:
            patience = PATIENCE_WITH_A_PIPE if self.is_pipe else PATIENCE
        return await_flush(lambda: lib.psb_is_flushed(flow), lambda: lib.psb_outflow_passed(flow), patience)

    @property
    def failure(self) -> OSError | None:
        number = lib.psb_outflow_error(self._flow) if self._flow is not None else 0
        if not number:
            return None
        how = "passed on" if self.is_pipe else "written"
        return lost(OSError(number, os.strerror(number)), f"the command's output could not be {how}")

    def close(self) -> None:
        """Closes a relay that no thread serves (a thread closes its own). Idempotent."""
        source, self.source = self.source, -1
        if source >= 0:
            os.close(source)
            os.close(self._target)


def await_flush(is_flushed: Callable[[], object], passed: Callable[[], int], patience: float) -> bool:
    """Whether all has arrived before nobody took a byte for so long."""
    end, seen, since = passed() + MOST_LEFT, -1, 0.0
    while passed() < end and not is_flushed():
        if passed() != seen:
            seen, since = passed(), time.monotonic()
        elif time.monotonic() - since > patience:
            return False
        time.sleep(LOOK)
    return True


class InputFeed:
    """What a file of the host's holds from its place on, to a pipe. Owns that, and a duplicate of `source`; the place
    itself stays where it is."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = os.dup(source)
        self._sink = sink
        self._served = False
        self.failure: OSError | None = None  # it could not be read to its end, which the command takes for the end

    def serve(self) -> None:
        """From now on a thread does it, until the end of the file or of the last reader, and closes."""
        start_new_thread(self._run, ())
        self._served = True

    def close(self) -> None:
        """Closes a feed that no thread serves (a thread closes its own). Idempotent."""
        if not self._served:
            self._close()

    def _run(self) -> None:
        try:
            at = os.lseek(self._source, 0, os.SEEK_CUR)
            while data := self._read(at):
                write_all(self._sink, data)
                at += len(data)
        except OSError:  # nobody reads it any more, or `failure`
            pass
        finally:
            self._close()

    def _read(self, at: int) -> bytes:
        while True:
            try:
                return os.pread(self._source, CHUNK, at)
            except OSError as error:
                if not is_short(error):
                    self.failure = lost(error, "the command's input could not be read")
                    raise

    def _close(self) -> None:
        source, self._source = self._source, -1
        if source >= 0:
            os.close(source)
            os.close(self._sink)


def is_short(error: OSError) -> bool:
    """Whether the host is short of something for a moment; then a moment has passed."""
    if error.errno not in SHORTAGES:
        return False
    time.sleep(LOOK)
    return True


def await_any(poller: select.poll) -> bool:
    """Returns when something may be there: True."""
    try:
        poller.poll()
    except OSError as error:
        if not is_short(error):
            raise
    return True


def select_now(fd: int) -> bool:
    """Whether there is something to read; a hang-up alone is nothing."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return any(events & select.POLLIN for _, events in poller.poll(0))


def write_all(fd: int, data: bytes) -> None:
    """Raises OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:  # the host has set its own descriptor so
            _await_room(fd)
        except OSError as error:
            if not is_short(error):
                raise


def lost(error: OSError, what: str) -> OSError:
    return OSError(error.errno, f"{what}: {error.strerror}")


def _await_room(fd: int) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    await_any(poller)


def open_terminal(like: int) -> tuple[int, int]:
    """A pseudo-terminal in place of a terminal of the host's: its size, and what is written comes out unchanged."""
    import termios
    import tty

    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        termios.tcsetwinsize(slave, termios.tcgetwinsize(like))
    except BaseException:
        os.close(master)
        os.close(slave)
        raise
    return master, slave
