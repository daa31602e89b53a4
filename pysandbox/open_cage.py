"""The open cage of a session, and the commands that run in it: paused, resumed and ended together.

`Cage` has one from its opening to its closing, and what it does with it is `SessionControls`; a cage for one command
has none, as it ends with its command.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from signal import SIGTERM

from pysandbox.audit.ending import PLANTED, planted_record
from pysandbox.errors import CageClosedError, CagePausedError, PolicyError, UnsupportedError
from pysandbox.events import Event
from pysandbox.probe.planted import warning
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.command import Command
    from pysandbox.denial import Denial
    from pysandbox.files import Files
    from pysandbox.live.init import CageInit
    from pysandbox.live.stats import Stats
    from pysandbox.policy.model import Policy
    from pysandbox.process import Process
    from pysandbox.runtime.prepared import Prepared
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.supervise.context import Context
    from pysandbox.workspace.apart import KeptApart
    from pysandbox.workspace.workspace import Workspace


class ReservedCage(NamedTuple):
    """What is to run one command: an open session, or (`opened` None) a cage of the command's own, which waits."""

    command: Command
    policy: Policy
    prepared: Prepared
    live: CageInit
    opened: OpenCage | None
    runtime: Runtime

    def give_back(self) -> None:
        """The command is not started: a cage of its own ends; a session is left as it is."""
        if self.opened is None:
            self.runtime.collect(self.live)


def cage_closed() -> CageClosedError:
    return CageClosedError("this cage is closed; make another one")


def require_nothing_apart(policy: Policy) -> None:
    """For a command that outlives whoever could decide about it. Raises PolicyError."""
    if policy.workdir == "cow" or policy.cow:
        raise PolicyError("nobody holds what a detached command writes apart", key="filesystem.workdir",
                          suggestion='run it attached, or with workdir = "write"')  # fmt: skip


def replaced(live: CageInit) -> str:
    """Why no command may be started any more."""
    path = live.services.uncovered
    return (
        f"{repr(path) if path else 'a path'}, which its policy denies, masks or guards, was made or replaced on the "
        "host (as git config, git push -u and editors do), and is uncovered in this cage since"
    )


class OpenCage:
    """Any thread may call any method; `close` is called once."""

    def __init__(self, runtime: Runtime, live: CageInit, prepared: Prepared) -> None:
        self.live = live
        self.prepared = prepared
        self._runtime = runtime
        self._paused = False
        self._running: set[Process] = set()
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = threading.Lock()
        for process in self._running:
            process.after_fork_in_child()

    def require_ready(self) -> None:
        """Whether a command may be started. Raises CagePausedError, CageClosedError, StartError."""
        if self._paused:
            raise CagePausedError(f"cage {self.live.id} is paused; call resume() first")
        if not self.live.services.cover and not self.live.closed:
            raise CageClosedError(f"cage {self.live.id}: {replaced(self.live)}; open another one")

    def add(self, process: Process) -> None:
        """A command that was started in it."""
        with self._lock:
            self._running = {each for each in self._running if each.state.ended is None} | {process}

    def pause(self) -> None:
        """Raises CageClosedError, UnstoppableError."""
        from pysandbox.live.stopping import pause

        self._paused = True
        pause(self.live)

    def resume(self) -> None:
        from pysandbox.live.stopping import resume

        with suppress(CageClosedError):  # its init was killed: nothing is left to go on
            resume(self.live)
        self._paused = False

    def close(self) -> None:
        """SIGTERM to what runs, the policy's grace period, then everything is killed and collected."""
        with self._lock:
            running, self._running = self._running, set()
        try:
            self._terminate(running)
        except BaseException:  # the grace period was interrupted (Ctrl-C): it ends all the same
            self._runtime.collect(self.live)
            raise
        self.live.services.let_go()
        self.live.end()
        for process in running:
            process.wait()  # end-of-file at the latest: cage-init is going
        self._runtime.reap(self.live)
        self._tell_planted()

    def _terminate(self, running: set[Process]) -> None:
        for process in running:
            process.state.end_of_session = True
            process.blame("cancelled")
            process.signal(SIGTERM, tree=True)
        if self._paused:  # only now: the signal is the first thing that each of them sees
            self.resume()
        deadline = time.monotonic() + self.prepared.plan.grace
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                process.state.condemn("cancelled")

    def _tell_planted(self) -> None:
        """What the last processes of a session have made after its last command had ended."""
        absences, live = self.prepared.absences, self.live
        if absences and (new := live.planted.not_told(absences(live.commands.since))):
            which: dict[str, object] = {"invocation_id": live.id}
            self._runtime.sink(Event(PLANTED, planted_record(which, new, warning(new))))


class SessionControls:
    """What is done with the open cage of a `Cage`, other than opening and closing it and running commands in it."""

    runtime: Runtime
    policy: Policy
    caged: bool
    _opened: OpenCage | None
    _closed: bool
    _apart: KeptApart | None = None

    def pause(self) -> None:
        """Stops every process of the open cage, and returns when none runs. The wall time runs on; nothing can be
        started until `resume`; `close` works. Raises CageClosedError, UnstoppableError (some still run)."""
        self._require_open().pause()

    def resume(self) -> None:
        """Lets everything in the cage go on. Idempotent. Raises CageClosedError."""
        self._require_open().resume()

    def stats(self) -> Stats:
        """What the open cage uses now: CPU seconds, bytes of memory and I/O, processes, threads. Raises
        CageClosedError."""
        from pysandbox.live.stats import stats

        return stats(self._require_open().live)

    @property
    def denials(self) -> tuple[Denial, ...]:
        """Everything that the open cage was refused so far: of all its commands, and what cannot be told to be of one
        (`Denial.command` None). Raises CageClosedError."""
        return self._require_open().live.services.denials()

    @property
    def workspace(self) -> Workspace:
        """What the cage has written to its copy-on-write directories, to be looked at, committed, kept or forgotten: of
        the open cage, or of the last one, for as long as this is held. Raises UnsupportedError where the policy names
        no such directory, CageClosedError before there was a cage.
        """
        if self._apart is not None:
            return self._apart.workspace
        if self.policy.workdir == "cow" or self.policy.cow:
            raise CageClosedError("nothing was written yet: open the cage, or run a command")
        raise UnsupportedError("this policy keeps nothing apart", feature="workspace",
                               fix='set workdir = "cow", or name directories in filesystem.cow')  # fmt: skip

    def _require_open(self) -> OpenCage:
        opened = self._opened
        if opened is None:
            if self._closed:
                raise cage_closed()
            raise CageClosedError("the cage is not open: use it in a `with` block, or call open()")
        return opened

    @property
    def _live(self) -> CageInit | None:
        return self._opened.live if self._opened is not None else None

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
        from pysandbox.supervise.supervision import Supervision

        supervision = self._require_open().live.services.find(Supervision)
        if supervision is None:
            raise UnsupportedError("nothing of this cage is decided at run time", feature="policy_fn",
                                   fix="make it with watch=(...), or with policy_fn=")  # fmt: skip
        return supervision.context

    def restrict_network(self, addresses: Sequence[str]) -> int:
        """Only these addresses from now on, as in `network.allow_ips`, out of what the open cage could reach; [] cuts
        everything. What may no longer be is cut; returns how many connections. Raises CageClosedError, PolicyError,
        UnsupportedError (nothing of this cage's network is decided while it runs)."""
        live = self._require_open().live
        from pysandbox.supervise.context import restrict_doors
        from pysandbox.supervise.supervision import Supervision

        if live.services.find(Supervision) is not None:
            return self.context.restrict_network(addresses)
        return restrict_doors(live, self.runtime.sink, addresses)

    def revoke_secret(self, name: str) -> None:
        """From now on the open cage has this secret no more: no request is sent with it, and one that has its
        placeholder is refused. Raises CageClosedError, PolicyError."""
        from pysandbox.gate.secrets import revoke

        revoke(self._require_open().live, name)

    @property
    def files(self) -> Files:
        """Files as the cage sees them. Raises CageClosedError unless the cage is open."""
        from pysandbox.files import Files

        opened = self._require_open()
        return Files(opened.live, opened.prepared.plan)
