"""START HERE: a Cage is a live session that runs commands under one policy; `run` and `spawn` are its front doors.

    with Cage(policy) as cage:              a session: its commands share PIDs, /tmp and loopback
        cage.run(["pytest", "-q"])
    Cage(policy).run(["pytest", "-q"])      one command: the cage begins and ends with it
    Cage(policy).detach(["server"])         one command that outlives this process; Cage.attach(id) finds it again

What happens between here and the kernel: `launcher` has the policy compiled into a Plan (cached) and takes a waiting
cage-init, `start` sends it the order, and a Process stands for the running command. They are imported when the first
Cage is made: to name one costs a program next to nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence

from pysandbox.command import Command, LaunchRequest, TextCoding, check_seconds, coding_of, input_bytes, run_files
from pysandbox.errors import CageTimeout, UnsupportedError
from pysandbox.launch.stdio import DEVNULL, PIPE, STDOUT, File
from pysandbox.misplaced import misplaced
from pysandbox.open_cage import OpenCage, ReservedCage, SessionControls, cage_closed
from pysandbox.policy.model import Policy
from pysandbox.shapes import IO, TYPE_CHECKING, Any, Literal, Self, overload

if TYPE_CHECKING:
    import asyncio
    from typing import Never, Unpack

    from pysandbox.detached import Detached
    from pysandbox.gate.sent import LeakFn
    from pysandbox.keywords import RunOptions, SpawnOptions
    from pysandbox.launch.scratch import Session
    from pysandbox.process import Process
    from pysandbox.result import Result
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.stages import Pipeline, Stage
    from pysandbox.streams.line_listener import LineFunction
    from pysandbox.supervise.policy_fn import PolicyFn

    Argv = str | Sequence[str | os.PathLike[str]]

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Cage"]

CONFINEMENT = "pysandbox.confinement"


class Cage(SessionControls):
    """Commands under one policy. Thread-safe; `close()` is idempotent, and leaving the `with` block closes.

    `policy` None is `Policy()`: the system's programs, no network, nothing writable but the cage's own tmpfs; a text
    is the name of a recipe, or the path of a TOML file (`Policy.load`).
    `cwd` is the working directory the policy is read in (default: the host's); `session` is the Session, or its
    name, that cages with `state = "scratch"` share /scratch in; without one the cage has it to itself.
    `labels` are fields for its events that only the caller knows: project_id, recipes, ... (`audit.told.LABELS`); an
    invocation_id among them becomes the cage's id.

    `policy_fn(event, ctx)`, plain or async, is asked before a call of a category in `watch` ("exec", "network", "file";
    default exec and network) is let go on; it answers within `deadline` seconds or the call is refused
    (`supervise.policy_fn`). `record` is a text file for every such call and verdict, one line of JSON each.
    `secrets` has the values of those that the policy calls "given", by name; only the inspector is told them.
    `leak_fn(part)` may refuse what is scanned and about to be sent (`gate.sent`); so does one that raises or is late.
    """

    def __init__(
        self,
        policy: Policy | str | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        session: Session | str | None = None,
        runtime: Runtime | None = None,
        labels: Mapping[str, object] | None = None,
        policy_fn: PolicyFn | None = None,
        watch: Sequence[str] | None = None,
        deadline: float = 5.0,
        record: IO[str] | None = None,
        secrets: Mapping[str, str] | None = None,
        leak_fn: LeakFn | None = None,
        **unknown: Never,
    ) -> None:
        if CONFINEMENT in sys.modules:  # before anything is imported: the walls may hide our own files
            _require_unconfined()
        from pysandbox.launcher import Launcher

        if unknown:
            raise misplaced("Cage", unknown)
        self._launcher = launcher = Launcher.of(policy, cwd, session, runtime, labels)
        if policy_fn is not None or watch is not None or record is not None or deadline != launcher.callbacks.deadline:
            launcher.ask(policy_fn, watch, deadline, record)
        if secrets or leak_fn is not None:
            launcher.give(secrets, leak_fn, deadline)
        self.runtime: Runtime = launcher.runtime
        self.policy: Policy = launcher.policy
        self.caged: bool = launcher.policy.caged
        self.session: Session | None = launcher.session
        self.labels: dict[str, object] = launcher.labels
        self._opened: OpenCage | None = None
        self._closed = False
        self._lock = threading.Lock()
        launcher.runtime.track(self)

    # ---- the session --------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Opens the session now instead of at the first `with`. Raises PolicyError, UnsupportedError, StartError."""
        with self._lock:
            if self._closed:
                raise cage_closed()
            if self._opened is None:
                live, prepared = self._launcher.open(self.policy, self._launcher.prepare(self.policy))
                self._opened = OpenCage(self.runtime, live, prepared)
                self._apart = self._launcher.opened(live, prepared)
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, raised: object = None, *_: object) -> None:
        self.leave(raised)

    def leave(self, raised: object) -> None:
        """`close`, at the end of a `with` block that was left by this exception, if any."""
        if raised is not None and self._apart is not None:
            self._apart.fail()
        self.close()

    def close(self) -> None:
        """Ends the session: SIGTERM to what runs, the policy's grace period, then everything is killed and collected.

        Returns when no process of the cage is left.
        """
        with self._lock:
            opened, self._opened, self._closed = self._opened, None, True
        if opened is not None and not opened.live.abandoned:  # in a forked copy of the host it is the original's
            opened.close()

    def end(self) -> None:
        """`close`, for the runtime."""
        self.close()

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = threading.Lock()
        if self._opened is not None:
            self._opened.after_fork_in_child()

    # ---- commands -----------------------------------------------------------------------------------------------

    @overload
    def spawn(self, argv: Argv, *, text: Literal[False] | None = None, encoding: None = None, errors: None = None,
        **options: Unpack[SpawnOptions]) -> Process[bytes]: ...  # fmt: skip
    @overload
    def spawn(self, argv: Argv, *, text: Literal[True], encoding: str | None = None, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
    @overload
    def spawn(self, argv: Argv, *, text: Literal[True] | None = None, encoding: str, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
    @overload
    def spawn(self, argv: Argv, *, text: Literal[True] | None = None, encoding: None = None, errors: str,
        **options: Unpack[SpawnOptions]) -> Process[str]: ...  # fmt: skip
    @overload
    def spawn(self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> Process[Any]: ...  # fmt: skip
    def spawn(
        self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        shell: bool = False, stdin: File = None, stdout: File = None, stderr: File = None,
        pty: bool | tuple[int, int] = False, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None, pass_fds: Sequence[int] = (), **unknown: object,
    ) -> Process[Any]:  # fmt: skip
        """Starts a command and returns when it runs. PIPE, DEVNULL, STDOUT, an open file or a descriptor, for each of
        the three; in bytes, or in text with `text`, `encoding` or `errors`. With `shell`, `argv` is what /bin/sh reads.

        stdin None is the null device; stdout and stderr None lead where the host's own do. The command holds no file
        and no terminal of the host: what it writes to one is passed on by this process. With `pty` all three are a new
        terminal of the cage (`Process.pty_fd`), of the size (rows, columns) if `pty` is one, and the command leads its
        session. `env` adds to the policy's variables, and is everything the command sees beside them. Raises
        PolicyError, UnsupportedError, StartError (step, errno, path), TypeError, ValueError.
        """
        if unknown:
            raise misplaced("spawn", unknown)
        if self._launcher.callbacks.loop is not None:
            self._launcher.callbacks.require_answer(blocking=False)
        coding = coding_of(text, encoding, errors, default=False)
        command = Command.of(argv, env, cwd, shell=shell)
        process = self.start(command, (stdin, stdout, stderr), pty=pty, pass_fds=pass_fds, coding=coding)
        process.await_start()
        return process

    @overload
    def run(self, argv: Argv, *,
        text: Literal[True] | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[RunOptions]) -> Result[str]: ...  # fmt: skip
    @overload
    def run(self, argv: Argv, *, text: Literal[False], encoding: None = None, errors: None = None,
        **options: Unpack[RunOptions]) -> Result[bytes]: ...  # fmt: skip
    @overload
    def run(self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[RunOptions]) -> Result[Any]: ...  # fmt: skip
    def run(
        self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        shell: bool = False, input: str | bytes | None = None, timeout: float | None = None, check: bool = False,
        capture_output: bool = True, stdin: File = None, stdout: File = PIPE, stderr: File = PIPE,
        env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None, pass_fds: Sequence[int] = (),
        on_stdout: LineFunction | None = None, on_stderr: LineFunction | None = None, **unknown: object,
    ) -> Result[Any]:  # fmt: skip
        """Runs a command to its end, like subprocess.run; output is captured, as UTF-8 text unless `text` is False.
        What `capture_output=False` leaves alone goes where the host's own goes. `shell`, `env` and the rest: `spawn`.
        `on_stdout` and `on_stderr` are called with each line as it comes (`line_listener`), its end included.

        After `timeout` seconds the command's tree (`Process.signal`) is killed and CageTimeout raised, with the partial
        output; the policy's wall time gives a Result with reason "timeout" instead. `check` raises ExitError.
        """
        if unknown:
            raise misplaced("run", unknown)
        if self._launcher.callbacks.loop is not None:
            self.require_answer()
        coding = coding_of(text, encoding, errors, default=True)
        data = None if input is None else input_bytes(input, coding)
        if timeout is not None:
            check_seconds("timeout", timeout)
        listeners = {"stdout": on_stdout, "stderr": on_stderr}
        files = run_files(data, capture_output, stdin, stdout, stderr, listeners)
        if any(listeners.values()):
            from pysandbox.streams.line_listener import check_listeners

            check_listeners(listeners, files)
        command = Command.of(argv, env, cwd, shell=shell)
        with self.start(command, files, pass_fds=pass_fds, coding=coding, quiet=True) as process:
            if on_stdout is not None or on_stderr is not None:
                process.listen(listeners)
            try:
                process.exchange(data, timeout)
            except TimeoutError:
                process.stop("timeout")
                process.exchange()
                raise CageTimeout(process.argv, timeout or 0.0, process.state.result()) from None
            result = process.state.result()
        return result.check() if check else result

    def detach(
        self, argv: Sequence[str | os.PathLike[str]], *, stdin: File = None, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Detached:  # fmt: skip
        """Starts a command in a cage of its own that outlives this process; its output goes to files, up to the
        policy's `output_mb`, and `stdin` may be a file or an open pipe. Raises what `spawn` does, and PolicyError for
        an uncaged one."""
        from pysandbox.detached import detach

        return detach(self._launcher, Command.of(argv, env, cwd), stdin)

    @staticmethod
    def attach(cage_id: str) -> Detached:
        """A handle on the command that was detached under this id, also when it has ended. Raises CageClosedError."""
        from pysandbox.detached import Detached

        return Detached.attach(cage_id)

    def cmd(
        self, argv: Argv, *, shell: bool = False, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None, inputs: Mapping[str, Stage | Pipeline] | None = None,
    ) -> Stage:  # fmt: skip
        """A command that has not started, to be joined with others: `(a.cmd([...]) | b.cmd([...])).run()`. `inputs`
        are further commands whose output it reads: each from the descriptor whose number stands in the variable of that
        name. Raises TypeError, ValueError."""
        from pysandbox.stages import Stage

        return Stage(self, Command.of(argv, env, cwd, shell=shell), inputs or {})

    # ---- for AsyncCage, and for pipelines ----------------------------------------------------------------------

    def is_quick(self, command: Command) -> bool:
        """Whether starting a command only sends an order: an open session, or a cage that already waits."""
        return self._opened is not None or self._launcher.is_warm(self._launcher.policy_for(command))

    def require_answer(self) -> None:
        """Before a call that blocks until a command has ended. Raises RuntimeError."""
        self._launcher.callbacks.require_answer(blocking=True)

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The event loop in which an async `policy_fn` is to run."""
        self._launcher.callbacks = self._launcher.callbacks._replace(loop=loop)

    def start(
        self,
        command: Command,
        files: tuple[File, File, File],
        *,
        pty: bool | tuple[int, int] = False,
        pass_fds: Sequence[int] = (),
        coding: TextCoding | None = None,
        quiet: bool = False,
        reserved: ReservedCage | None = None,
    ) -> Process[Any]:
        """Sends the order; the command may not have started yet, or may never. `quiet`: its start is not reported."""
        if reserved is None:
            reserved = self.reserve(command)
            command = reserved.command
        _, policy, prepared, live, opened, _ = reserved
        try:
            request = LaunchRequest(
                command, prepared, live, live.commands.begin(), opened is None, self.caged, files, pass_fds, pty,
                coding, quiet,
            )  # fmt: skip
            process = self._launcher.start(request, self.runtime)
        except BaseException:
            reserved.give_back()
            raise
        try:
            if opened is not None:
                opened.add(process)
            else:
                self._apart = self._launcher.opened(live, prepared, command.argv)
                self.runtime.track(process)
            self._launcher.tell(policy, request)
        except BaseException:
            process.close()
            raise
        return process

    def reserve(self, command: Command) -> ReservedCage:
        """What is to run the command: the open session, or else a cage of its own; whoever then does not start it gives
        it back. Raises as `open`, CagePausedError, CageClosedError. What is decided here holds for the command that
        asked, whoever closes the cage meanwhile."""
        with self._lock:
            opened = self._opened
            if self._closed:
                raise cage_closed()
        if opened is not None:
            opened.require_ready()
        policy = self.policy if opened is not None else self._launcher.policy_for(command)
        prepared = opened.prepared if opened is not None else self._launcher.prepare(policy)
        if self.policy.allow:
            command = self._launcher.on_its_path(command, prepared, in_session=opened is not None)
        if self.caged and prepared.plan.executables is not None:
            command.check_allowed(prepared.plan)
        live, prepared = (opened.live, prepared) if opened is not None else self._launcher.open(policy, prepared)
        return ReservedCage(command, policy, prepared, live, opened, self.runtime)


def _require_unconfined() -> None:
    """Raises UnsupportedError."""
    if sys.modules[CONFINEMENT].has_confined_itself():
        raise UnsupportedError(
            "this process has confined itself (confine), and no cage can be opened from inside", feature="confine",
            fix="confine a process of its own, or open cages from one that is not confined",
        )  # fmt: skip
