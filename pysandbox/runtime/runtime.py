"""What the cages of one host process share: the facts of the host, compiled plans, the warm pool.

A Runtime is plain state with an owner: pass one to Cage, or let `default_runtime()` make the one for the process.
The path from a Policy to a waiting cage is here and reads top to bottom: prepare (cached), take.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pysandbox.compile.plan import CgroupPlan, Plan
from pysandbox.descriptors import standard_streams
from pysandbox.descriptors.kept_descriptor import KeptDescriptor
from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import LEFTOVER, NOTE, Event, Sink, ignore, in_turn
from pysandbox.launch import ids, native, netns
from pysandbox.launch.removal import remove_tree
from pysandbox.launch.scratch import Session, make_scratch
from pysandbox.launch.worker import Worker
from pysandbox.live.init import CageInit
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts
from pysandbox.records.recorder import Recorder
from pysandbox.runtime import self_check
from pysandbox.runtime.beside import covers, make_beside, opened_uppers
from pysandbox.runtime.commanded import CommandPolicies
from pysandbox.runtime.plans import CompiledPlans
from pysandbox.runtime.pool import Pool
from pysandbox.runtime.prepared import Prepared, TrustedFile
from pysandbox.runtime.prewarmed import Prewarmed
from pysandbox.runtime.shared import SharedServices
from pysandbox.shapes import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from pysandbox.live.cgroup import CageCgroup
    from pysandbox.live.watchdog import Watchdog

T = TypeVar("T")


class Owned(Protocol):
    """What this runtime's user holds: a Cage, or the Process of a one-shot cage."""

    def end(self) -> None:
        """SIGTERM, the grace period, SIGKILL."""

    def after_fork_in_child(self) -> None:
        """This is a forked copy of the host: its locks are held by nobody, its cage is the original's."""


class AuditSink(Protocol):
    """What `audit.AuditLog` is to a Runtime: a sink that is called first, and the directory that is kept from cages."""

    @property
    def directory(self) -> str: ...
    def __call__(self, event: Event, /) -> None: ...


class Runtime:
    """Shared state of the cages of one process.

    `sink` receives every Event, after `audit` has kept it, whose directory no cage of this runtime reaches.
    `warm` is how many cages may be kept ready per policy (0: none, at most 4; "auto": up to 32, as many as bursts of
    late have found missing); `prewarm` has some wait ahead. `no_sandbox` turns every cage into an
    uncaged run (COMP-25); each such run is an event. Forked copies start empty. Raises StartError when the programs
    that cages start as are not there; `self_check` looks at the rest.
    `nameservers` ("127.0.0.1:5353") are asked for names that cages may resolve, in place of those of /etc/resolv.conf.
    `register` keeps a record of each cage that lasts, for `pysandbox ps` (registry.py).
    """

    def __init__(
        self, *, sink: Sink = ignore, audit: AuditSink | None = None, warm: int | Literal["auto"] = 4,
        no_sandbox: bool = False, register: bool = True, nameservers: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        standard_streams.fill()
        self_check.check_programs()
        self_check.check_proc()
        self.sink: Sink = sink if audit is None else audit if sink is ignore else in_turn(audit, sink)
        self.audited: bool = audit is not None  # whether what its cages do is kept
        self.no_sandbox = no_sandbox
        self._warm = warm
        self._inits: dict[str, KeptDescriptor] = {}
        self.plans: CompiledPlans = CompiledPlans(self.sink, audit.directory if audit is not None else "")
        self.commanded: CommandPolicies = CommandPolicies()
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, warm)
        self._prewarmed = Prewarmed(self.plans.prepare, self._keep)
        self._register = register
        self._recorder = Recorder(self._worker, self._tell)
        self._lives: weakref.WeakSet[CageInit] = weakref.WeakSet()
        self._held: weakref.WeakSet[Owned] = weakref.WeakSet()
        self._ending = False
        self._left = False
        self._sessions: dict[str, Session] = {}
        self._watchdog: Watchdog | None = None
        self.nameservers = nameservers
        self.shared: SharedServices = SharedServices()  # the supervisor, the gatekeeper: made by the layers above
        os.register_at_fork(after_in_child=_unless_gone(self.after_fork_in_child))
        atexit.register(_unless_gone(self.at_exit))

    def __del__(self) -> None:
        if hasattr(self, "shared"):
            self.shared.retire()
        for held in getattr(self, "_inits", {}).values():
            held.close()

    def self_check(self) -> None:
        """Raises StartError when a file of this installation is missing or of another build; starts nothing."""
        self_check.check_installation()

    # ---- facts and plans ----------------------------------------------------------------------------------------

    @property
    def host(self) -> HostFacts:
        return self.plans.host

    def policy_for(self, policy: Policy, program: str, cwd: str) -> Policy:
        """The policy with what one command needs, by its first word. Raises PolicyError."""
        return self.commanded.policy_for(policy, program, cwd, written=self.plans.written)

    def prepare(
        self, policy: Policy, cwd: str, watched: frozenset[str] = frozenset(), invocation_id: object = None
    ) -> Prepared:
        """The Plan of a policy in a working directory. Raises PolicyError, SandboxPathMissing, UnsupportedError."""
        return self.plans.prepare(policy, cwd, watched, invocation_id)

    # ---- cages --------------------------------------------------------------------------------------------------

    def take(self, prepared: Prepared, session: Session | None = None, trusted: TrustedFile | None = None) -> CageInit:
        """A cage of this plan, waiting for its first order. `session` has the directory of a plan that shares one,
        `trusted` is what stands for TRUST. Raises StartError, CageClosedError when this process is ending."""
        if self._ending:
            raise CageClosedError("this process was told to end, and ends its cages")
        opener = functools.partial(self._open, prepared, session, trusted)
        try:
            live = self._pool.take((prepared, session, trusted), opener) if prepared.can_wait else opener()
        except StartError as error:
            if error.step in ("idmap", "overlay"):  # something was mounted since: the next plan sees it
                self.plans.forget(prepared)
            raise
        live.trusted = trusted
        if prepared.plan.watch is not None:
            self._guard().add(live, prepared.plan.watch)
        return live

    def restrict_memory(self, live: CageInit, plan: Plan, megabytes: int) -> None:
        """Holds a running cage to so many MiB from now on. Raises OSError."""
        from pysandbox.live.restrict import restrict_memory

        restrict_memory(live, plan, self._guard, megabytes)

    def _guard(self) -> Watchdog:
        if self._watchdog is None:
            from pysandbox.live.watchdog import Watchdog

            with self._lock:
                self._watchdog = self._watchdog or Watchdog()
        return self._watchdog

    def replenish(self, prepared: Prepared, taken: CageInit, session: Session | None = None, *, last: bool) -> None:
        """Has the place of a taken cage refilled; call it once the cage has its order: `last` where it is its last."""
        self._pool.replenish((prepared, session, taken.trusted), taken if last else None)

    def _open(self, prepared: Prepared, session: Session | None, trusted: TrustedFile | None) -> CageInit:
        """A new cage. Whatever it takes beside the cage itself is undone when a later part of it fails."""
        cage_id, plan = ids.new_id(), prepared.plan
        if session is not None:
            session.require_open()
        scratch = session.path if session is not None else ""
        with ExitStack() as undo:
            own = make_scratch() if prepared.uses_scratch and not scratch else ""
            if own:
                undo.callback(remove_tree, own)
            group = self._cgroup(plan.cgroup, cage_id)
            if group is not None:
                undo.callback(group.close)
            name = ids.hostname(plan.hostname_prefix, cage_id)
            born_in = group.fd if group is not None and plan.cgroup is not None and plan.cgroup.born_inside else -1
            beside = make_beside(prepared, trusted, undo)
            opened = prepared.native.open(
                self._init(plan), name, own or scratch, born_in, trusted.path if trusted else "", beside.layers
            )
            undo.callback(opened.undo)
            doors = netns.open_doors(opened.pidfd, plan.net) if plan.net is not None else {}
            uppers = opened_uppers(opened, plan, undo)
            live = CageInit(opened, cage_id, own or scratch, owns_scratch=bool(own), cgroup=group, doors=doors,
                            uppers=uppers)  # fmt: skip
            live.hostname, live.layers = name, beside.layers
            for each in beside.services:
                live.services.add(each)
            for each in covers(live, prepared):
                live.services.add_cover(each)
            undo.pop_all()
        self._lives.add(live)
        if session is not None:
            _admit(session, live)
        if plan.cgroup is not None or plan.watch is not None:
            from pysandbox.live.placing import place_in_cgroup

            place_in_cgroup(live, plan, born_inside=born_in >= 0)
        return live

    def _cgroup(self, wanted: CgroupPlan | None, cage_id: str) -> CageCgroup | None:
        """The group a cage is born in; None where it has none, or systemd makes it."""
        if wanted is None or wanted.way == "systemd":
            return None
        from pysandbox.live.cgroup import CageCgroup

        return CageCgroup.make(wanted, cage_id)

    def record(self, live: CageInit, argv: tuple[str, ...], plan: Plan) -> None:
        """Has a record of a cage written in the background, if it lasts. `argv` is empty for a session."""
        if self._register:
            self._recorder.add(live, argv, plan)

    def track(self, held: Owned) -> None:
        """Whatever a user of this runtime holds is ended by `end_all`, and forgotten by a forked copy."""
        self._held.add(held)

    def _init(self, plan: Plan) -> int:
        path = native.UNCAGED_INIT_PATH if plan.isolation == "none" else native.INIT_PATH
        with self._lock:
            if path not in self._inits:
                self._inits[path] = KeptDescriptor(functools.partial(os.open, path, os.O_PATH | os.O_CLOEXEC))
            return self._inits[path].fileno()

    def collect(self, live: CageInit) -> None:
        """Reaps an ended cage in the background, or at once where something in it is waited for."""
        live.end()
        if live.services and any(each.is_awaited for each in live.services):
            self.reap(live)
            return
        if self._left:  # the interpreter ends: it starts no thread any more, and would wait for ever for one
            return
        self._worker.submit(lambda: self.reap(live))

    def reap(self, live: CageInit) -> None:
        """Waits until an ended cage is gone; what is left of it all the same is told."""
        if not live.reap():
            self.sink(Event(LEFTOVER.name, {"invocation_id": live.id, "pid": live.pid}))

    def session(self, name: str) -> Session:
        """The session of that name, made at its first use; `end_session` or the end of the process removes it."""
        with self._lock:
            if name not in self._sessions:
                self._sessions[name] = Session()
            return self._sessions[name]

    def end_session(self, name: str) -> None:
        """Ends the cages of a session and removes what they shared (LIFE-11). Idempotent."""
        with self._lock:
            session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def end_sessions(self) -> None:
        for name in list(self._sessions):
            self.end_session(name)

    def is_warm(self, policy: Policy, cwd: str, watched: frozenset[str] = frozenset(), asks: bool = False) -> bool:
        """Whether the next cage of this policy, with a callback or without, is already waiting; compiles nothing."""
        prepared = self.plans.find(policy, cwd, watched)
        return prepared is not None and self._pool.ready((prepared, None, prepared.trusted.get(asks)))

    def _tell(self, event: Event) -> None:
        self.sink(event)

    def _complain(self, error: Exception) -> None:
        self.sink(Event(NOTE.name, {"key": "background", "reason": f"{type(error).__name__}: {error}"}))

    def prewarm(self, policy: Policy, n: int, cwd: str | os.PathLike[str] | None = None) -> None:
        """Keeps `n` cages of a policy waiting from now on, and returns when they do: whoever takes one, another is
        opened in the background. 0 lets go, and so do `drain` and a fork. They wait for `run` and `spawn` as for
        sessions, in the working directory `cwd`. Raises PolicyError, UnsupportedError, StartError, ValueError."""
        self._prewarmed.want(policy, n, os.path.abspath(cwd) if cwd is not None else os.getcwd())

    def _keep(self, prepared: Prepared, count: int) -> None:
        key = prepared, None, prepared.trusted.get(False)
        self._pool.keep(key, functools.partial(self._open, *key), count)

    def _expire(self) -> bool:
        self._prewarmed.follow()
        self._pool.expire()
        return self._pool.empty

    def wait_idle(self) -> None:
        """Waits for background work: ended cages are collected, and the taken ones replaced."""
        self._worker.drain()

    def drain(self) -> None:
        """Waits for background work and closes every waiting cage; afterwards nothing of this runtime is running
        but the cages their owners still hold."""
        self._prewarmed.forget()
        self._worker.drain()
        self._pool.clear()
        self._worker.drain()
        self.shared.retire()

    def drain_on_sigterm(self) -> None:
        """From now on SIGTERM ends every cage cleanly (SIGTERM, its grace period, SIGKILL) before it does what it did
        so far. To be called in the main thread, after other handlers were installed; raises ValueError elsewhere."""
        from signal import SIGTERM

        from pysandbox.runtime.draining import DrainOnSignal

        DrainOnSignal(self.end_all).install(SIGTERM)

    def end_all(self) -> None:
        """Ends every cage of this runtime, all at once; none can be opened any more."""
        self._ending = True
        ending = [threading.Thread(target=each.end, name="pysandbox-end", daemon=True) for each in _members(self._held)]
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join()
        self.drain()
        self.end_sessions()

    def at_exit(self) -> None:
        """At the end of the interpreter: the kernel ends every cage, but files on the host are ours to remove. What a
        cage could write is removed after its end."""
        self._recorder.stop()
        for live in _members(self._lives):
            live.unrecord()
        if any(_has_files(live) for live in _members(self._lives)):
            self.drain()
            for live in _members(self._lives):
                if _has_files(live):
                    live.close()
        self.end_sessions()
        self._left = True

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: every cage belongs to the original; drop them without touching them."""
        self._pool.after_fork_in_child()
        self.commanded.after_fork_in_child()
        for live in _members(self._lives):
            live.abandon()
        self._lives.clear()
        for held in _members(self._held):
            held.after_fork_in_child()
        self._sessions.clear()
        if self._watchdog is not None:
            self._watchdog.abandon()
            self._watchdog = None
        self.shared.after_fork_in_child()
        self.plans.after_fork_in_child()
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, self._warm)
        self._recorder = Recorder(self._worker, self._tell)
        self._prewarmed = Prewarmed(self.plans.prepare, self._keep)


def _members(held: weakref.WeakSet[T]) -> list[T]:
    """A WeakSet that another thread adds to may not be iterated; it is soon through with that."""
    while True:
        try:
            return list(held)
        except RuntimeError:
            continue


def _has_files(live: CageInit) -> bool:
    """Whether something on the host is to be removed when it has ended."""
    return bool(live.scratch) or live.cgroup is not None or any(each.leaves_files for each in live.services)


def _admit(session: Session, live: CageInit) -> None:
    try:
        session.admit(live)
    except CageClosedError:
        live.close()
        raise


def _unless_gone(method: Callable[[], None]) -> Callable[[], None]:
    """The method, without keeping its object alive."""
    held = weakref.WeakMethod(method)

    def call() -> None:
        found = held()
        if found is not None:
            found()

    return call


@functools.cache
def default_runtime() -> Runtime:
    """The Runtime of cages that were not given one. Made at first use."""
    return Runtime()
