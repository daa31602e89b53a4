"""The watch over one running command: its end, our signals, the clock and any stream, in one poll loop.

A signal to us is the command's: it arrives there as what it is, and what the command makes of it is its own affair, its
exit code too. SIGTERM and SIGHUP also mean that it is to end: SIGKILL follows after the grace period, or at the next
signal. SIGINT may mean anything to a program that reads it, so it alone ends nothing; three within a second do. A
stop (SIGTSTP, from the keyboard too where there is no terminal of the cage's, else by `stop_key.py`) is the command's
first, and ours with it; SIGCONT lets both go on.
Handlers only leave a byte in a pipe, so nothing is ever interrupted half way. Knows nothing of policies, terminals or
documents.
"""

from __future__ import annotations

import _signal as signal  # the numbers and calls alone: what signal adds to them costs a third of a start
import os
import select
import time

from pysandbox.exit_codes import BY_SIGNAL, OUT_OF_TIME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pysandbox.launch.relay import OutputRelay, PipeRelay
    from pysandbox.shapes import Any, Literal, Protocol, Self

    class Attended(Protocol):
        """What is asked of the running command."""

        def fileno(self) -> int: ...
        def signal(self, number: int, *, tree: bool = False) -> None: ...
        def kill(self) -> None: ...
        def blame(self, reason: Literal["timeout", "cancelled"], seconds: float | None = None) -> None: ...


ENDING = (signal.SIGTERM, signal.SIGHUP)
PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
OF_THE_SCREEN = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)
IMPATIENT, SOON = 3, 1.0  # so many SIGINT within so many seconds end the command
LATE = 60.0  # seconds for whoever reads our terminal, or has stopped it, to go on
PATIENCE = 2.0  # the same for a pipe, when the command was ended by us
LOOK = 0.2
HEED = 0.05  # seconds for whoever puts something in order before it stops


class Signals:
    """While entered, the signals that are the command's arrive as bytes on `fileno()`.

    What the caller has us ignore stays ignored: `nohup pysandbox run` outlives its terminal.
    """

    def __enter__(self) -> Self:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[int, Any] = {}
        for number in (*ENDING, *PASSED_ON, *OF_THE_SCREEN):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, _wake)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        return self._read

    def take(self) -> bytes:
        """The numbers of the signals that arrived, in order."""
        try:
            return os.read(self._read, 512)
        except BlockingIOError:
            return b""


def _wake(number: int, frame: object) -> None:
    """Python needs a handler for the byte to be written; the byte says it all."""


class Attendance:
    """One command under watch. `cause`: the exit code for having been ended by us, None while it is left alone."""

    def __init__(
        self, process: Attended, signals: Signals, *, grace: float, timeout: float | None = None,
        may_stop: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """`may_stop`: unless a limit of the cage's is held by this process. A timer of the cage's can continue what was
        stopped, and then nobody would hold it. Asked when it is to stop."""
        self.may_stop = may_stop
        self.cause: int | None = None
        self.resized: Callable[[], None] | None = None  # of whoever has made the command a terminal of its own
        self.awaited: Callable[[], bool] | None = None  # the same: asked now and then whether it has what it waits for
        self._process = process
        self._signals = signals
        self._grace = grace
        self._timeout = timeout
        self._insisted = False  # it had its grace, or none was given
        self._interrupts: list[float] = []
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._ended = False
        self._later: tuple[float, Callable[[], None]] | None = None
        self._poll = select.poll()
        self._acts: dict[int, Callable[[int], None]] = {}
        self.watch(process.fileno(), select.POLLIN, self._on_end)
        self.watch(signals.fileno(), select.POLLIN, self._on_signal)

    def watch(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        """Call `act(events)` whenever `fd` is ready; again for the same fd, replace what was asked."""
        self._poll.register(fd, events)
        self._acts[fd] = act

    def forget(self, fd: int) -> None:
        if self._acts.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` once, if the command still runs then."""
        self._later = time.monotonic() + seconds, act

    def until_end(self) -> None:
        """Blocks until the command has ended, or was killed because its grace ran out."""
        while not self._ended:
            if self.awaited is not None and self.awaited():
                self.awaited = None
            ready = self._poll.poll(self._patience())
            for fd, events in ready:
                if fd in self._acts:  # an act before this one may have forgotten it
                    self._acts[fd](events)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self.stop(OUT_OF_TIME)
            if self._later is not None and not self._ended and time.monotonic() >= self._later[0]:
                act, self._later = self._later[1], None
                act()

    def stop(self, cause: int, number: int = signal.SIGTERM) -> None:
        """End the command: politely, by this signal, and when it is being ended already, at once."""
        if self.cause is None:
            self.cause = cause
            self._deadline = time.monotonic() + self._grace
            out_of_time = cause == OUT_OF_TIME
            self._process.blame("timeout" if out_of_time else "cancelled", self._timeout if out_of_time else None)
            self._process.signal(number)
        else:
            self._insisted = True
            self._process.kill()
            self._ended = True

    def let_through(self, relays: Iterable[OutputRelay | PipeRelay]) -> None:
        """The command has ended: returns when all that it wrote has arrived, or nobody takes it. Whoever reads a pipe
        may take as long as he likes (a pager); a signal to us ends that."""
        for relay in relays:
            patience = LATE if not relay.is_pipe else PATIENCE if self.cause is not None else float("inf")
            end = time.monotonic() + patience
            while not relay.wait_flushed(LOOK) and time.monotonic() < end and not self._is_to_end():
                pass

    def _is_to_end(self) -> bool:
        return any(number in (*ENDING, signal.SIGINT) for number in self._signals.take())

    def code(self, own: int) -> int:
        """The exit code, of a command whose own is `own`: that, also after a signal of ours that it heeded."""
        if self.cause is None or (self.cause - BY_SIGNAL in ENDING and not self._insisted):
            return own
        return self.cause

    def _patience(self) -> float | None:
        moments = [] if self._deadline is None else [self._deadline]
        if self._later is not None:
            moments.append(self._later[0])
        if self.awaited is not None:
            moments.append(time.monotonic() + LOOK)
        return max(0.0, min(moments) - time.monotonic()) * 1000 if moments else None

    def _on_end(self, events: int) -> None:
        self._ended = True

    def _on_signal(self, events: int) -> None:
        for number in self._signals.take():
            if number in OF_THE_SCREEN:
                self._on_screen(number)
            elif number in ENDING or self.cause is not None:
                self.stop(BY_SIGNAL + number, number)
            elif number in PASSED_ON:
                self._process.signal(number)
                if number == signal.SIGINT and self._is_impatient():
                    self.stop(BY_SIGNAL + number, number)
                    self.stop(BY_SIGNAL + number)

    def _on_screen(self, number: int) -> None:
        if number == signal.SIGWINCH and self.resized is not None:
            self.resized()
        elif number == signal.SIGTSTP:
            self._stop_with_it()
        else:
            if number == signal.SIGCONT and self.resized is not None:
                self.resized()
            self._process.signal(number, tree=number == signal.SIGCONT)

    def stop_by_key(self, stop_us: Callable[[], None]) -> None:
        """Stops the command, and by `stop_us` us. It goes on by our SIGCONT, as after any stop of ours."""
        self._process.signal(signal.SIGSTOP, tree=True)
        stop_us()

    def _stop_with_it(self) -> None:
        """The command leads a session of its own, and by default the kernel passes a SIGTSTP over there: so it is
        stopped. Job control in a terminal of the cage's own is that terminal's business."""
        self._process.signal(signal.SIGTSTP)
        if self.resized is None and self.may_stop():
            time.sleep(HEED)
            self._process.signal(signal.SIGSTOP, tree=True)
            os.kill(os.getpid(), signal.SIGSTOP)

    def _is_impatient(self) -> bool:
        now = time.monotonic()
        self._interrupts = [*(before for before in self._interrupts if now - before < SOON), now]
        return len(self._interrupts) >= IMPATIENT
