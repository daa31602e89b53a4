"""START HERE: a Cage is a live session that runs commands under one policy; `run` and `spawn` are its front doors.

    with Cage(policy) as cage:              a session: its commands share PIDs, /tmp and loopback
        cage.run(["pytest", "-q"])
    Cage(policy).run(["pytest", "-q"])      one command: the cage begins and ends with it
    Cage(policy).detach(["server"])         one command that outlives this process; Cage.attach(id) finds it again

What happens between here and the kernel: `Runtime.prepare` compiles the policy into a Plan (cached), `Runtime.take`
gives a waiting cage-init, `launch.orders` sends it the order, and a Process stands for the running command.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Self

from pysandbox.asking import Decide
from pysandbox.audit.ending import PLANTED, planted_record
from pysandbox.audit.told import labels_of, limit_values, spawn_event
from pysandbox.command import Command, Start, demand_seconds, encode, input_bytes
from pysandbox.errors import CageClosedError, CagePausedError, CageTimeout, PolicyError, UnsupportedError
from pysandbox.events import LIMITS_NOT_ENFORCED, LIMITS_SKIPPED, Event, ignore
from pysandbox.launch.runtime import Prepared, Runtime, default_runtime
from pysandbox.launch.scratch import Session
from pysandbox.launch.stdio import DEVNULL, PIPE, STDOUT, File, Stdio, open_stdio
from pysandbox.policy.model import Policy
from pysandbox.probe.planted import told
from pysandbox.process import Order, Process, Result

if TYPE_CHECKING:
    from pysandbox.detached import Detached
    from pysandbox.files import Files
    from pysandbox.launch.live import LiveInit
    from pysandbox.launch.stats import Stats
    from pysandbox.supervise.context import Context
    from pysandbox.supervise.policy_fn import PolicyFn

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Cage", "run", "spawn"]


class Cage:
    """Commands under one policy. Thread-safe; `close()` is idempotent, and leaving the `with` block closes.

    `policy` None is `Policy()`: the system's programs, no network, nothing writable but the cage's own tmpfs.
    `cwd` is the working directory the policy is read in (default: the host's); `session` is the Session, or its
    name, that cages with `state = "scratch"` share /scratch in; without one the cage has it to itself.
    `labels` are fields for its events that only the caller knows: project_id, recipes, ... (`audit.told.LABELS`); an
    invocation_id among them becomes the cage's id.

    `policy_fn(event, ctx)`, plain or async, is asked before a call of a category in `watch` ("exec", "network", "file";
    default exec and network) is let go on; it answers within `deadline` seconds or the call is refused
    (`supervise.policy_fn`). `record` is a text file for every such call and verdict, one line of JSON each.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        session: Session | str | None = None,
        runtime: Runtime | None = None,
        labels: Mapping[str, object] | None = None,
        policy_fn: PolicyFn | None = None,
        watch: Sequence[str] | None = None,
        deadline: float = 5.0,
        record: IO[str] | None = None,
    ) -> None:
        self.runtime = runtime or default_runtime()
        self.policy = policy if policy is not None else Policy()
        if not isinstance(self.policy, Policy):
            raise TypeError(f"policy must be a Policy, not {type(policy).__name__}: write Policy(allow=[...])")
        self._reason = "daemon_no_sandbox" if self.runtime.no_sandbox else "dsl_disabled"
        if self.runtime.no_sandbox and self.policy.caged:
            self.policy = replace(self.policy, caged=False, strict=False)  # whatever it says (COMP-25)
        self.caged = self.policy.caged
        self.session = self.runtime.session(session) if isinstance(session, str) else session
        self.labels = labels_of(labels, session)
        self._cwd = os.path.abspath(cwd) if cwd is not None else None
        self._decide = Decide.of(policy_fn, watch, deadline, record, self.caged)
        self._live: LiveInit | None = None
        self._prepared: Prepared | None = None
        self._running: set[Process] = set()
        self._closed = False
        self._paused = False
        self._lock = threading.Lock()
        self.runtime.hold(self)

    # ---- the session --------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Opens the session now instead of at the first `with`. Raises PolicyError, UnsupportedError, StartError."""
        with self._lock:
            self._demand_not_closed()
            if self._live is None:
                self._prepared = self._prepare()
                self._live = self._take(self._prepared)
                self._record(self._live, self._prepared, ())
                self.runtime.replenish(self._prepared, self._shared(self._prepared))
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session: SIGTERM to what runs, the policy's grace period, then everything is killed and collected.

        Returns when no process of the cage is left.
        """
        with self._lock:
            live, self._live, self._closed = self._live, None, True
            running, self._running = self._running, set()
        if live is None or live.abandoned:  # a forked copy of the host: the cage is the original's
            return
        try:
            self._terminate(live, running)
        except BaseException:  # the grace period was interrupted (Ctrl-C): it ends all the same
            self.runtime.collect(live)
            raise
        live.end()
        for process in running:
            process.wait()  # end-of-file at the latest: cage-init is going
        self.runtime._reap(live)
        self._tell_planted(live)

    def _tell_planted(self, live: LiveInit) -> None:
        """What the last processes of a session have made after its last command had ended."""
        absences = self._prepared.absences if self._prepared is not None else None
        if absences and (new := live.not_told(absences())):
            self.runtime.sink(Event(PLANTED, planted_record({"invocation_id": live.id}, new, told(new))))

    def _terminate(self, live: LiveInit, running: set[Process]) -> None:
        for process in running:
            process._end_of_session = True
            process.signal(15, tree=True)
        if self._paused:  # only now: the signal is the first thing that each of them sees
            _resume(live)
        deadline = time.monotonic() + self.policy.grace_sec
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                process._cause = "cancelled"

    def end(self) -> None:
        """`close`, for the runtime."""
        self.close()

    def forget(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = threading.Lock()
        for process in self._running:
            process.forget()

    def pause(self) -> None:
        """Stops every process of the open cage, and returns when none runs. The wall time runs on; nothing can be
        started until `resume`; `close` works. Raises CageClosedError, UnstoppableError (some still run)."""
        from pysandbox.launch.freeze import pause

        live = self._demand_open()
        self._paused = True
        pause(live)

    def resume(self) -> None:
        """Lets everything in the cage go on. Idempotent. Raises CageClosedError."""
        _resume(self._demand_open())
        self._paused = False

    def stats(self) -> Stats:
        """What the open cage uses now: CPU seconds, bytes of memory and I/O, processes, threads. Raises
        CageClosedError."""
        from pysandbox.launch.stats import stats

        return stats(self._demand_open())

    def _demand_open(self) -> LiveInit:
        live = self._live
        if live is None:
            self._demand_not_closed()
            raise CageClosedError("the cage is not open: use it in a `with` block, or call open()")
        return live

    def _demand_not_closed(self) -> None:
        if self._closed:
            raise CageClosedError("this cage is closed; make another one")

    @property
    def id(self) -> str | None:
        """The cage's ULID, None until it is open."""
        return self._live.id if self._live is not None else None

    @property
    def init_pid(self) -> int | None:
        """The host's pid of cage-init, None until the cage is open, and for an uncaged one."""
        return self._live.pid if self._live is not None and self.caged else None

    @property
    def context(self) -> Context:
        """Tightens the open cage while it runs, as a callback's `ctx`. Raises CageClosedError, UnsupportedError."""
        supervision = self._demand_open().supervision
        if supervision is None:
            raise UnsupportedError("nothing of this cage is decided at run time", feature="policy_fn",
                                   fix="make it with watch=(...), or with policy_fn=")  # fmt: skip
        context: Context = supervision.context
        return context

    def restrict_network(self, addresses: Sequence[str]) -> int:
        """Only these addresses from now on, as in `network.allow_ips`, out of what the open cage could reach; [] cuts
        everything. What may no longer be is cut; returns how many connections. Raises CageClosedError, PolicyError,
        UnsupportedError (nothing of this cage's network is decided while it runs)."""
        live = self._demand_open()
        if live.supervision is not None:
            return self.context.restrict_network(addresses)
        from pysandbox.supervise.context import restrict_doors

        return restrict_doors(live, self.runtime.sink, addresses)

    @property
    def files(self) -> Files:
        """Files as the cage sees them. Raises CageClosedError unless the cage is open."""
        from pysandbox.files import Files

        live, prepared = self._demand_open(), self._prepared
        assert prepared is not None  # since it is open
        return Files(live, prepared.plan)

    def _prepare(self) -> Prepared:
        invocation_id = self.labels.get("invocation_id")
        return self.runtime.prepare(self.policy, self._directory(), self._decide.watch, invocation_id)

    def _directory(self) -> str:
        try:
            return self._cwd or os.getcwd()
        except FileNotFoundError:
            message = "the working directory was deleted"
            raise PolicyError(message, key="cwd", suggestion="change to another one, or pass cwd=") from None

    def _shared(self, prepared: Prepared) -> Session | None:
        """The session, where the plan has a directory to share."""
        return self.session if prepared.uses_scratch else None

    def _take(self, prepared: Prepared) -> LiveInit:
        live = self.runtime.take(prepared, self._shared(prepared))
        live.id = str(self.labels.get("invocation_id", live.id))
        if prepared.plan.notify is not None:
            self._decide.supervise(self.runtime, live, prepared)
        if prepared.routed:
            from pysandbox.gate.routed import route

            route(live, prepared.plan, self.runtime.sink)
        if prepared.plan.net is not None:
            from pysandbox.gate.gatekeeper import admit

            admit(self.runtime, live, prepared.plan.net)
        return live

    def _record(self, live: LiveInit, prepared: Prepared, argv: tuple[str, ...]) -> None:
        if self.caged:
            self.runtime.record(live, argv, prepared.plan)

    def _is_quick(self) -> bool:
        """Whether starting a command only sends an order: an open session, or a cage that already waits."""
        return self._live is not None or self.runtime.is_warm(self.policy, self._directory(), self._decide.watch)

    # ---- commands -----------------------------------------------------------------------------------------------

    def spawn(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: File = None,
        stdout: File = None,
        stderr: File = None,
        pty: bool | tuple[int, int] = False,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Process:
        """Starts a command and returns when it runs. Bytes; PIPE, DEVNULL, STDOUT, an open file or a descriptor.

        stdin None is the null device; stdout and stderr None lead where the host's own do. The command holds no file
        and no terminal of the host: what it writes to one is passed on by this process. With `pty` all three are a new
        terminal of the cage (`Process.pty_fd`), of the size (rows, columns) if `pty` is one, and the command leads its
        session. `env` adds to the policy's
        variables, and is everything the command sees beside them. Raises PolicyError, UnsupportedError, StartError
        (step, errno, path), ValueError.
        """
        process = self._start(Command.of(argv, env, cwd), (stdin, stdout, stderr), pty=pty, pass_fds=pass_fds)
        process._await_start()
        return process

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: str | bytes | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        text: bool = True,
        check: bool = False,
        stdin: File = None,
        stdout: File = PIPE,
        stderr: File = PIPE,
        pass_fds: Sequence[int] = (),
    ) -> Result:
        """Runs a command to its end, like subprocess.run; output is captured, as UTF-8 text unless `text` is False.

        After `timeout` seconds the command's tree (`Process.signal`) is killed and CageTimeout raised, with the partial
        output; the policy's wall time gives a Result with reason "timeout" instead. `check` raises ExitError.
        """
        data = input_bytes(input)
        demand_seconds("timeout", timeout)
        wanted = (PIPE if data is not None else stdin, stdout, stderr)
        with self._start(Command.of(argv, env, cwd), wanted, pass_fds=pass_fds, quiet=True) as process:
            try:
                process.communicate(data, timeout)
            except TimeoutError:
                process.stop("timeout")
                process.communicate()
                raise CageTimeout(process.argv, timeout or 0.0, process._result(text)) from None
            result = process._result(text)
        return result.check() if check else result

    def detach(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: File = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Detached:
        """Starts a command in a cage of its own that outlives this process; its output goes to files, up to the
        policy's `output_mb`, and `stdin` may be a regular file. Raises what `spawn` does, and PolicyError for an
        uncaged one."""
        from pysandbox.detached import start

        command = Command.of(argv, env, cwd)
        if not self.caged:
            raise PolicyError("without a cage nothing can be kept", key="caged", suggestion="use nohup(1)")
        return start(self.policy.to_json(), self._directory(), command.argv, command.env, command.cwd, stdin)

    @staticmethod
    def attach(cage_id: str) -> Detached:
        """A handle on the command that was detached under this id, also when it has ended. Raises CageClosedError."""
        from pysandbox.detached import Detached

        return Detached.attach(cage_id)

    def _start(
        self,
        command: Command,
        files: tuple[File, File, File],
        *,
        pty: bool | tuple[int, int] = False,
        pass_fds: Sequence[int] = (),
        quiet: bool = False,
    ) -> Process:
        """Sends the order; the command may not have started yet, or may never. `quiet`: its start is not reported."""
        session, prepared = self._current()
        if self.caged:
            command.demand_allowed(prepared.plan)
        live = session if session is not None else self._take(prepared)
        try:
            start = Start(command, prepared, live, live.new_command_id(), session is None, self.caged, bool(pty), quiet)
            live.nudge()
            process = self._process(start, *_send(start, files, pass_fds, pty))
        except BaseException:
            if session is None:
                self.runtime.collect(live)
            raise
        try:
            self._started(start, process)
        except BaseException:
            process.close()
            raise
        return process

    def _started(self, start: Start, process: Process) -> None:
        """What has to be known of a command that has its order."""
        if start.oneshot:
            self.runtime.replenish(start.prepared, self._shared(start.prepared))
            self._record(start.live, start.prepared, start.command.argv)
            self.runtime.hold(process)
        else:
            with self._lock:
                self._running = {each for each in self._running if each._ended is None} | {process}
        self._tell_start(start)

    def _current(self) -> tuple[LiveInit | None, Prepared]:
        """The open session, if there is one, and the plan. What is decided here holds for the command that asked,
        whoever closes the cage meanwhile."""
        with self._lock:
            session, prepared = self._live, self._prepared
            self._demand_not_closed()
            if self._paused:
                raise CagePausedError(f"cage {self.id} is paused; call resume() first")
        if prepared is None:
            return session, self._prepare()
        if not prepared.covered():
            raise CageClosedError(
                f"cage {self.id}: a path that its policy denies or masks was replaced on the host, and is uncovered in "
                "this cage since; open another one"
            )
        return session, prepared

    def _process(self, start: Start, stdio: Stdio, report_fd: int) -> Process:
        plan = start.prepared.plan
        order = Order(
            start.command.argv, start.id, start.oneshot, self.caged, plan.output_cap, start.prepared.weaker, plan.grace,
            limit_values(start.prepared.policy), start.prepared.absences or None,
        )  # fmt: skip
        try:
            return Process(
                order, start.live, stdio, report_fd,
                sink=self.runtime.sink, collect=self.runtime.collect, collect_at_close=start.quiet,
            )  # fmt: skip
        except BaseException:
            stdio.close()
            os.close(report_fd)
            raise

    def _tell_start(self, start: Start) -> None:
        sink = self.runtime.sink
        if sink is ignore:
            return
        sink(spawn_event(self.policy, start, self.labels, self._reason))
        for note in start.prepared.plan.notes:
            if note.event == LIMITS_NOT_ENFORCED.name:
                sink(Event(LIMITS_SKIPPED.name, {"invocation_id": start.live.id, "reason": note.message}))


def _resume(live: LiveInit) -> None:
    from pysandbox.launch.freeze import resume

    with suppress(CageClosedError):  # its init was killed: nothing is left to go on
        resume(live)


def _send(
    start: Start, files: tuple[File, File, File], pass_fds: Sequence[int], pty: bool | tuple[int, int]
) -> tuple[Stdio, int]:
    """Opens the command's descriptors and sends its order; the read end of its report pipe. Or nothing stays open."""
    stdio = _open_stdio(start, files, pass_fds)
    try:
        if isinstance(pty, tuple):  # before the command runs: it may ask at once
            import termios

            termios.tcsetwinsize(stdio.terminal, pty)
        report_fd = _order(start, stdio)
    except BaseException:
        stdio.close()
        raise
    stdio.given()
    if not stdio.has_go_betweens:
        return stdio, report_fd
    try:
        stdio.serve()
    except BaseException:  # no thread could be started
        stdio.close()
        os.close(report_fd)
        raise
    return stdio, report_fd


def _open_stdio(start: Start, files: tuple[File, File, File], pass_fds: Sequence[int]) -> Stdio:
    if not (start.pty and start.caged and start.prepared.plan.namespaces):
        return open_stdio(*files, pass_fds, pty=start.pty, caged=start.caged, user=start.live.user)
    root = start.live.open_root()
    try:
        return open_stdio(*files, pass_fds, pty=True, root_fd=root, user=start.live.user)
    finally:
        os.close(root)


def _order(start: Start, stdio: Stdio) -> int:
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        order = encode(start, [number for _, number in stdio.child])
        start.live.execute(order, write, [fd for fd, _ in stdio.child])
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    return read


def run(argv: Sequence[str | os.PathLike[str]], policy: Policy | None = None, **options: Any) -> Result:
    """`Cage(policy).run(argv, ...)`: one command in a cage of its own."""
    return Cage(policy).run(argv, **options)


def spawn(argv: Sequence[str | os.PathLike[str]], policy: Policy | None = None, **options: Any) -> Process:
    """`Cage(policy).spawn(argv, ...)`: one command in a cage of its own, which ends with it."""
    return Cage(policy).spawn(argv, **options)
