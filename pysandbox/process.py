"""A command in a cage: what users hold of it, to talk to it, to wait for it, to end it.

`fileno()` becomes readable at the end, so a Process works with any selector. What is known of the command, and how it
is read from cage-init's reports, is `process_state`; what is known of one that is over is a `result.Result`.
"""

from __future__ import annotations

import signal as signals
import sys
import time
from contextlib import suppress

from pysandbox.descriptors.polling import is_readable, wait_readable
from pysandbox.errors import CageClosedError
from pysandbox.exchange import communicate
from pysandbox.launch.forgotten import end_forgotten
from pysandbox.process_state import DescriptorUse, ProcessState
from pysandbox.result import Output, Reason, Result
from pysandbox.shapes import IO, TYPE_CHECKING, Generic, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.launch.relay import OutputRelay, PipeRelay
    from pysandbox.note import Note
    from pysandbox.streams.line_listener import LineFunction

LAST_REPORT_PATIENCE = 5.0  # seconds a killed command may take to be reported


class Process(Generic[Output]):
    """A running command. Made by `Cage.spawn`; use it as a context manager, or close it, or wait for it.

    Any thread may call any method. `stdin`, `stdout`, `stderr` are files where PIPE was asked for, unbuffered and
    binary, of text where that was (`Process[str]`); `pty_fd` is the terminal's master where pty=True was. `state` and
    `in_use` are for other ways to wait (`aio`).
    """

    def __init__(self, state: ProcessState) -> None:
        self.argv: tuple[str, ...] = state.argv
        self.caged: bool = state.request.caged
        self._request = state.request
        self._live = state.live
        self.in_use: DescriptorUse = DescriptorUse(state)
        self.state = state  # last: from here on there is something to close

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the locks, or waited, at the fork."""
        self.state.after_fork_in_child()
        self.in_use.after_fork_in_child()

    def __repr__(self) -> str:
        state = self.state
        how = "runs" if state.ended is None else f"ended with {state.returncode}"
        return f"<Process {self.argv[0]!r}, pid {state.pid}, {how}>"

    @property
    def args(self) -> list[str]:
        return list(self.argv)

    @property
    def pid(self) -> int:
        """The number of the command's process in the cage; 0 until it is known to run."""
        return self.state.pid or 0

    @property
    def returncode(self) -> int | None:
        """As `poll`."""
        return self.poll()

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
        return self._request.prepared.weaker

    @property
    def output_cap(self) -> int:
        """Bytes of each output that are kept (resources.output_mb)."""
        return self.state.streams.cap

    @property
    def relays(self) -> list[OutputRelay | PipeRelay]:
        """What passes its output on to files and terminals of the host's, which it never holds itself."""
        return self.state.streams.stdio.relays

    @property
    def loss(self) -> OSError | None:
        """Why not all that it wrote, or was to read, has arrived."""
        return self.state.streams.stdio.failure

    def fileno(self) -> int:
        """A descriptor that becomes readable when the command has ended; `poll()` then tells how."""
        return self.state.report_fd

    # ---- waiting ------------------------------------------------------------------------------------------------

    def await_start(self) -> None:
        """Blocks until the command runs. Raises StartError or CageClosedError; nothing is left open then."""
        while self.state.pid is None and self.state.ended is None:
            self.state.read_report()
        if self.state.pid is not None:
            return
        self.close()
        self.state.raise_failure()
        raise CageClosedError(f"cage {self.cage_id} ended before {self.argv[0]!r} could start")

    def poll(self) -> int | None:
        """The return code (-n for signal n), None while it runs. Never blocks."""
        state = self.state
        state.require_ours()
        with self.in_use:
            if state.ended is None and is_readable(state.report_fd):
                state.read_report()
        return None if state.ended is None else state.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the return code. Raises TimeoutError after `timeout` seconds; it runs on."""
        state = self.state
        state.require_ours()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.in_use:
            while state.ended is None:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if not wait_readable(state.report_fd, left):
                    raise TimeoutError(f"{self.argv[0]!r} still runs after {timeout:g} s")
                state.read_report()
        return state.returncode

    def communicate(self, input: Output | None = None, timeout: float | None = None) -> tuple[Output, Output]:
        """Feeds stdin, reads stdout and stderr until the command has ended. Raises TimeoutError; it runs on.

        At most `resources.output_mb` of each is kept; the rest is read and dropped (`Result.truncated`). Output of
        processes that a session leaves running in the background is not waited for.
        """
        self.exchange(self.state.streams.input(input), timeout)
        return self.state.streams.outputs()

    def exchange(self, data: bytes | None = None, timeout: float | None = None) -> None:
        """`communicate`, which leaves what was read to `result`."""
        state = self.state
        state.require_ours()
        with self.in_use:
            communicate(state, data, timeout)
        state.raise_failure()

    def listen(self, listeners: dict[str, LineFunction | None]) -> None:
        """Has each function called, while `exchange` reads, with the lines of its output ("stdout", "stderr")."""
        for name, function in listeners.items():
            self.state.streams.listen(name, function)

    def result(self) -> Result[Output]:
        """Waits for the end and tells everything about it; with the output, where `communicate` captured it."""
        self.wait()
        return self.state.result()

    # ---- signals and the end ------------------------------------------------------------------------------------

    def signal(self, number: int, *, tree: bool = False) -> None:
        """Sends a signal to the command, with `tree` to every process it started. Nothing when it is over.

        The tree of a one-shot cage is the cage; in a session it is the command's session (setsid(2)) and whatever
        descends from it: a process that left both its session and its parents is ended with the cage.
        """
        if not 0 < number < signals.NSIG:
            raise ValueError(f"{number} is not a signal; use signal.SIGTERM and the like")
        if self.state.ended is None:
            scope = ("all" if self._request.oneshot else "session") if tree else "one"
            self._live.signal(self._request.id, number, scope)

    def send_signal(self, number: int) -> None:
        """To the command alone, as Popen's."""
        self.signal(number)

    def terminate(self) -> None:
        self.signal(signals.SIGTERM)

    def blame(self, reason: Literal["timeout", "cancelled"], seconds: float | None = None) -> None:
        """Say why it is being asked to end, before the signal: an end by a signal is then told with this reason, and
        one that ran out of its `seconds` as that whatever it answers."""
        self.state.blame(reason, seconds)

    def kill(self) -> None:
        """SIGKILL to the command and every process it started."""
        self.signal(signals.SIGKILL, tree=True)

    def stop(self, cause: Reason = "cancelled") -> None:
        """Kills the command's tree and waits until that is reported. `cause` becomes the Result's reason."""
        if self.state.ended is not None:
            return
        self.condemn(cause)
        with suppress(TimeoutError, CageClosedError):  # another thread closes it meanwhile
            self.wait(LAST_REPORT_PATIENCE)

    def condemn(self, cause: Reason) -> None:
        """Kills the command's tree, as `stop` does, without waiting for that."""
        if self.state.ended is not None or self._live.abandoned:
            return
        self.state.condemn(cause)
        self.kill()
        if self._request.oneshot:
            self._live.end()  # reaches also what a signal does not: cage-init kills until nothing is left

    def end(self) -> None:
        """SIGTERM to the command's tree, and SIGKILL to what is left after the policy's grace period. The descriptors
        stay open: whoever talks to the command sees it end."""
        with suppress(CageClosedError):  # closed meanwhile, or not ours
            self.signal(signals.SIGTERM, tree=True)
            self.signal(signals.SIGCONT, tree=True)
            try:
                self.wait(self._request.prepared.plan.grace)
            except TimeoutError:
                self.stop()

    def close(self) -> None:
        """Ends the command if it still runs and closes every descriptor. Idempotent.

        A thread that is inside `communicate` or `wait` sees the end, and is the one that closes.
        """
        if self.state.report_fd >= 0 and self.state.ended is None and not self._live.abandoned:
            self.stop()  # before the lock: another thread may hold it, waiting for the very end that this brings about
        self.in_use.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, _ends_here: Callable[[], bool] = sys.is_finalizing) -> None:
        state = getattr(self, "state", None)
        if state is None or state.report_fd < 0:
            return
        if state.ended is None:
            if not _ends_here():  # then the kernel ends it, and the modules that would are half gone
                end_forgotten(self.close)
        else:  # nothing is waited for any more, and all is recorded
            with suppress(Exception):
                self.close()

    # ---- the host's ends of the descriptors ---------------------------------------------------------------------

    @property
    def stdin(self) -> IO[Output] | None:
        return self.state.streams.file("stdin", "wb")

    @property
    def stdout(self) -> IO[Output] | None:
        return self.state.streams.file("stdout", "rb")

    @property
    def stderr(self) -> IO[Output] | None:
        return self.state.streams.file("stderr", "rb")

    @property
    def pty_fd(self) -> int | None:
        """The master of the command's terminal; owned by this Process."""
        terminal = self.state.streams.stdio.terminal
        return terminal if terminal >= 0 else None
