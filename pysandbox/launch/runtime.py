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
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.doors import has_way_out
from pysandbox.compile.links import written_trees
from pysandbox.compile.notes import weaker
from pysandbox.compile.plan import CgroupPlan, MountKind, Note, Plan
from pysandbox.errors import CageClosedError, PolicyError, StartError, UnsupportedError
from pysandbox.events import COMPILE_ERROR, LEFTOVER, NOTE, Event, Sink, ignore, in_turn
from pysandbox.launch import ids, native, netns, self_check, structs
from pysandbox.launch.imports import keep_imports_apart
from pysandbox.launch.live import LiveInit
from pysandbox.launch.mapped import with_unmapped
from pysandbox.launch.own_places import make_own_places
from pysandbox.launch.pool import Pool
from pysandbox.launch.recorder import Recorder
from pysandbox.launch.registry import private_paths
from pysandbox.launch.removal import remove_tree
from pysandbox.launch.scratch import Session, make_scratch, uses_scratch
from pysandbox.launch.settle import settle
from pysandbox.launch.worker import Worker
from pysandbox.policy.expand import expand
from pysandbox.policy.guarded import OURS
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import with_base
from pysandbox.probe.facts import HostFacts, Kept, PathFacts, asked_for_redirects, host_facts
from pysandbox.probe.kept import kept_directories
from pysandbox.probe.paths import home, look, watch, watch_these
from pysandbox.probe.planted import Absences, absences

if TYPE_CHECKING:
    from pysandbox.launch.cgroup import Cgroup
    from pysandbox.launch.watchdog import Watchdog

PLANS_KEPT = 256  # the least recently made plan goes first
WRITTEN_KEPT = 1024

T = TypeVar("T")


class Held(Protocol):
    """What this runtime's user holds: a Cage, or the Process of a one-shot cage."""

    def end(self) -> None:
        """SIGTERM, the grace period, SIGKILL."""

    def forget(self) -> None:
        """This is a forked copy of the host: its locks are held by nobody, its cage is the original's."""


class Audit(Protocol):
    """What `audit.AuditLog` is to a Runtime: a sink that is called first, and the directory that is kept from cages."""

    @property
    def directory(self) -> str: ...
    def __call__(self, event: Event, /) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: each is one compilation
class Prepared:
    """A policy compiled for this host (expanded, with its base), and the paths it was compiled from."""

    policy: Policy
    plan: Plan
    paths: PathFacts
    fresh: Callable[[], bool]  # whether the paths it was compiled from are still what they were
    covered: Callable[[], bool]  # whether what it denies and masks is still what was covered
    native: native.NativePlan
    limits: bytes
    uses_scratch: bool
    absences: Absences  # guarded names that the cage may create
    weaker: tuple[Note, ...]  # of the plan's notes, the worst first
    told: dict[str, object] = field(default_factory=dict)  # what every spawn tells of it (audit.told), once made

    @property
    def routed(self) -> bool:
        """Whether its cages have an interface in the host's network."""
        return self.plan.net is not None and bool(self.plan.net.bridge)


class Runtime:
    """Shared state of the cages of one process.

    `sink` receives every Event, after `audit` has kept it, whose directory no cage of this runtime reaches.
    `warm` is how many cages may be kept ready per policy (0: none, at most 4). `no_sandbox` turns every cage into an
    uncaged run (COMP-25); each such run is an event. Forked copies start empty. Raises StartError when the programs
    that cages start as are not there; `self_check` looks at the rest.
    `nameservers` ("127.0.0.1:5353") are asked for names that cages may resolve, in place of those of /etc/resolv.conf.
    `register` keeps a record of each cage that lasts, for `pysandbox ps` (registry.py).
    """

    def __init__(
        self, *, sink: Sink = ignore, audit: Audit | None = None, warm: int = 4, no_sandbox: bool = False,
        register: bool = True, nameservers: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self_check.demand_programs()
        self.sink = sink if audit is None else audit if sink is ignore else in_turn(audit, sink)
        self._audit = audit
        self.no_sandbox = no_sandbox
        self._warm = warm
        self._host: HostFacts | None = None
        self._init_fds: dict[str, int] = {}
        self._prepared: dict[object, Prepared] = {}
        self._written: dict[str, None] = {}  # what its cages may have written, by real paths
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, warm)
        self._register = register
        self._recorder = Recorder(self._worker, self._tell)
        self._lives: weakref.WeakSet[LiveInit] = weakref.WeakSet()
        self._held: weakref.WeakSet[Held] = weakref.WeakSet()
        self._ending = False
        self._left = False
        self._sessions: dict[str, Session] = {}
        self._watchdog: Watchdog | None = None
        self.nameservers = nameservers
        self.supervisor: Any = None  # of the cages whose calls are decided at run time; made by the layer above
        self.gatekeeper: Any = None  # of the cages that have doors; made by the layer above
        os.register_at_fork(after_in_child=_unless_gone(self.forget))
        atexit.register(_unless_gone(self.leave))

    def __del__(self) -> None:
        for served_by in ("supervisor", "gatekeeper"):
            if getattr(self, served_by, None) is not None:
                getattr(self, served_by).retire()
        for fd in getattr(self, "_init_fds", {}).values():
            os.close(fd)

    @property
    def audited(self) -> bool:
        """Whether what its cages do is kept."""
        return self._audit is not None

    def self_check(self) -> None:
        """Raises StartError when a file of this installation is missing or of another build; starts nothing."""
        self_check.demand_everything()

    # ---- facts and plans ----------------------------------------------------------------------------------------

    @property
    def host(self) -> HostFacts:
        host = self._host
        if host is None or host.uid != os.geteuid():
            host = self._host = host_facts()
        return host

    def prepare(
        self, policy: Policy, cwd: str, watched: frozenset[str] = frozenset(), invocation_id: object = None
    ) -> Prepared:
        """The Plan of a policy in a working directory, from the cache while the paths are what they were.
        `watched`: the categories of calls that a callback decides.

        `invocation_id` is for the event of a policy that cannot be compiled.
        Raises PolicyError, SandboxPathMissing, UnsupportedError.
        """
        key = _plan_key(policy, cwd, watched)
        prepared = self._prepared.get(key)
        if prepared is not None and prepared.fresh():
            return prepared
        prepared = self._compile(policy, cwd, watched, invocation_id)
        with self._lock:
            self._prepared.pop(key, None)
            self._prepared[key] = prepared
            while len(self._prepared) > PLANS_KEPT:
                del self._prepared[next(iter(self._prepared))]
        return prepared

    def _compile(self, policy: Policy, cwd: str, watched: frozenset[str], invocation_id: object) -> Prepared:
        try:
            resolved = with_base(expand(policy, env=os.environ, cwd=cwd, home=home()))
            host = self._facts(resolved)
            paths = self._look(resolved, cwd)
            plan = compile_plan(resolved, host, paths, watch=watched)
        except (PolicyError, UnsupportedError) as error:
            data = {"error_code": type(error).__name__, "details": str(error)}
            self.sink(Event(COMPILE_ERROR.name, {"invocation_id": invocation_id, **data}))
            if isinstance(error, UnsupportedError):
                from pysandbox.probe.restriction import explained

                raise explained(error) from None
            raise
        for note in plan.notes:
            self.sink(Event(note.event or NOTE.name, {"key": note.key, "reason": note.message}))
        carried = structs.encode_plan(plan, host.uid, host.gid)
        self._remember_written(written_trees(resolved, paths))
        if OURS not in resolved.unguarded:
            keep_imports_apart(written_trees(resolved, paths))
        return Prepared(
            resolved,
            plan,
            paths,
            watch(paths),
            _watch_covered(plan, paths),
            carried,
            structs.encode_limits(plan),
            uses_scratch(plan),
            absences(paths, written_trees(resolved, paths) if resolved.caged else ()),
            weaker(plan.notes),
        )

    def _look(self, policy: Policy, cwd: str) -> PathFacts:
        """Once more where a directory of the user's own had to be made before a cage could make it."""
        seen = look(policy, cwd=cwd, kept=self._kept(), written=tuple(self._written))
        if policy.caged and make_own_places(seen, written_trees(policy, seen)):
            seen = look(policy, cwd=cwd, kept=self._kept(), written=tuple(self._written))
        return with_unmapped(policy, seen) if self.host.root == "swapped" else seen

    def _remember_written(self, trees: Sequence[str]) -> None:
        """No later grant of this program follows a link in these. What is gone is forgotten, once there are many."""
        with self._lock:
            self._written.update(dict.fromkeys(trees))
            if len(self._written) > WRITTEN_KEPT:
                self._written = {tree: None for tree in self._written if os.path.lexists(tree)}

    def _facts(self, policy: Policy) -> HostFacts:
        """The facts are kept, the environment may have changed."""
        if has_way_out(policy):
            self._host = asked_for_redirects(self.host)
        return replace(self.host, env=dict(os.environ))

    def _kept(self) -> tuple[Kept, ...]:
        """The directories of this package, ours and every other program's: no cage reaches them."""
        ours = (self._audit.directory,) if self._audit is not None else ()
        return kept_directories(audit=ours, registry=private_paths())

    # ---- cages --------------------------------------------------------------------------------------------------

    def take(self, prepared: Prepared, session: Session | None = None) -> LiveInit:
        """A cage of this plan, waiting for its first order. `session` has the directory of a plan that shares one.
        Raises StartError, CageClosedError when this process is ending."""
        if self._ending:
            raise CageClosedError("this process was told to end, and ends its cages")
        try:
            live = self._pool.take((prepared, session), lambda: self._open(prepared, session))
        except StartError as error:
            if error.step == "idmap":  # something was mounted since: the next plan sees it
                self._forget_plan(prepared)
            raise
        if prepared.plan.watch is not None:
            self._guard().add(live, prepared.plan.watch)
        return live

    def _forget_plan(self, prepared: Prepared) -> None:
        with self._lock:
            self._prepared = {key: kept for key, kept in self._prepared.items() if kept is not prepared}

    def restrict_memory(self, live: LiveInit, plan: Plan, megabytes: int) -> None:
        """Holds a running cage to so many MiB from now on. Raises OSError."""
        from pysandbox.launch.restrict import restrict_memory

        restrict_memory(live, plan, self._guard, megabytes)

    def _guard(self) -> Watchdog:
        if self._watchdog is None:
            from pysandbox.launch.watchdog import Watchdog

            with self._lock:
                self._watchdog = self._watchdog or Watchdog()
        return self._watchdog

    def replenish(self, prepared: Prepared, session: Session | None = None) -> None:
        """Has the place of a taken cage refilled; call it once the cage has its order."""
        self._pool.replenish((prepared, session))

    def _open(self, prepared: Prepared, session: Session | None) -> LiveInit:
        """A new cage. Whatever it takes beside the cage itself is undone when a later part of it fails."""
        cage_id, plan = ids.new_id(), prepared.plan
        if session is not None:
            session.demand_open()
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
            opened = prepared.native.open(self._init(plan), name, own or scratch, born_in)
            undo.callback(opened.undo)
            doors = netns.open_doors(opened.pidfd, plan.net) if plan.net is not None else {}
            live = LiveInit(opened, cage_id, own or scratch, owns_scratch=bool(own), cgroup=group, doors=doors)
            live.hostname = name
            undo.pop_all()
        self._lives.add(live)
        if session is not None:
            _admit(session, live)
        settle(live, plan, born_inside=born_in >= 0)
        return live

    def _cgroup(self, wanted: CgroupPlan | None, cage_id: str) -> Cgroup | None:
        """The group a cage is born in; None where it has none, or systemd makes it."""
        if wanted is None or wanted.way == "systemd":
            return None
        from pysandbox.launch.cgroup import Cgroup

        return Cgroup.make(wanted, cage_id)

    def record(self, live: LiveInit, argv: tuple[str, ...], plan: Plan) -> None:
        """Has a record of a cage written in the background, if it lasts. `argv` is empty for a session."""
        if self._register:
            self._recorder.add(live, argv, plan)

    def hold(self, held: Held) -> None:
        """Whatever a user of this runtime holds is ended by `end_all`, and forgotten by a forked copy."""
        self._held.add(held)

    def _init(self, plan: Plan) -> int:
        path = native.UNCAGED_INIT_PATH if plan.isolation == "none" else native.INIT_PATH
        with self._lock:
            if path not in self._init_fds:
                self._init_fds[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
            return self._init_fds[path]

    def collect(self, live: LiveInit) -> None:
        """Reaps an ended cage in the background."""
        live.end()
        if self._left:  # the interpreter ends: it starts no thread any more, and would wait for ever for one
            return
        self._worker.submit(lambda: self._reap(live))

    def _reap(self, live: LiveInit) -> None:
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

    def is_warm(self, policy: Policy, cwd: str, watched: frozenset[str] = frozenset()) -> bool:
        """Whether the next cage of this policy is already waiting; compiles nothing."""
        prepared = self._prepared.get(_plan_key(policy, cwd, watched))
        return prepared is not None and self._pool.ready((prepared, None))

    def _tell(self, event: Event) -> None:
        self.sink(event)

    def _complain(self, error: Exception) -> None:
        self.sink(Event(NOTE.name, {"key": "background", "reason": f"{type(error).__name__}: {error}"}))

    def _expire(self) -> bool:
        self._pool.expire()
        return self._pool.empty

    def settle(self) -> None:
        """Waits for background work: ended cages are collected, and the taken ones replaced."""
        self._worker.drain()

    def drain(self) -> None:
        """Waits for background work and closes every waiting cage; afterwards nothing of this runtime is running
        but the cages their owners still hold."""
        self._worker.drain()
        self._pool.expire(older_than=-1.0)
        self._worker.drain()
        if self.supervisor is not None and self.supervisor.retire():
            self.supervisor = None
        if self.gatekeeper is not None and self.gatekeeper.retire():
            self.gatekeeper = None

    def drain_on_sigterm(self) -> None:
        """From now on SIGTERM ends every cage cleanly (SIGTERM, its grace period, SIGKILL) before it does what it did
        so far. To be called in the main thread, after other handlers were installed; raises ValueError elsewhere."""
        from signal import SIGTERM

        from pysandbox.launch.draining import DrainOnSignal

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

    def leave(self) -> None:
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

    def forget(self) -> None:
        """In a forked copy of the host: every cage belongs to the original; drop them without touching them."""
        self._pool.forget()
        for live in _members(self._lives):
            live.abandon()
        self._lives.clear()
        for held in _members(self._held):
            held.forget()
        self._sessions.clear()
        if self._watchdog is not None:
            self._watchdog.abandon()
            self._watchdog = None
        if self.gatekeeper is not None:
            self.gatekeeper.abandon()
        self.supervisor = self.gatekeeper = None
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, self._warm)
        self._recorder = Recorder(self._worker, self._tell)


def _members(held: weakref.WeakSet[T]) -> list[T]:
    """A WeakSet that another thread adds to may not be iterated; it is soon through with that."""
    while True:
        try:
            return list(held)
        except RuntimeError:
            continue


def _has_files(live: LiveInit) -> bool:
    """Whether something on the host is to be removed when it has ended."""
    return bool(live.scratch) or live.cgroup is not None or live.attachment is not None


def _admit(session: Session, live: LiveInit) -> None:
    try:
        session.admit(live)
    except CageClosedError:
        live.close()
        raise


def _watch_covered(plan: Plan, paths: PathFacts) -> Callable[[], bool]:
    """The host may replace a denied file by a rename (an editor's save): the kernel then drops the mount that covers
    it, and whoever has the cage open sees the new one. This tells."""
    covering = (MountKind.MASK_FILE, MountKind.MASK_DIR, MountKind.DENY_FILE, MountKind.DENY_DIR)
    targets = {step.target for step in plan.mounts if step.kind in covering}
    return watch_these(fact for fact in paths.facts.values() if fact.real in targets)


def _plan_key(policy: Policy, cwd: str, watched: frozenset[str]) -> Hashable:
    """All that a plan depends on but the paths: a daemon that gives up root must not meet a cage of root's."""
    return policy, cwd, watched, os.geteuid(), os.getegid(), _environment_key(policy)


def _environment_key(policy: Policy) -> tuple[str | None, ...] | frozenset[tuple[str, str]]:
    """What of the environment a plan depends on: the passed-through values; all of it where a path is expanded."""
    grants = (*policy.allow, *policy.allow_write, *policy.deny, *policy.mask, *policy.unix_sockets)
    if any("$" in grant.path or grant.path.startswith("~") for grant in grants) or "$" in "".join(policy.allow_execve):
        return frozenset(os.environ.items())
    return tuple(os.environ.get(name) for name in policy.env_passthrough)


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
