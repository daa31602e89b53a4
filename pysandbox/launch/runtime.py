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
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.plan import MountKind, Plan
from pysandbox.errors import PolicyError
from pysandbox.events import COMPILE_ERROR, LEFTOVER, NOTE, Event, Sink, ignore
from pysandbox.launch import ids, native
from pysandbox.launch.live import LiveInit
from pysandbox.launch.pool import Pool
from pysandbox.launch.scratch import Session, make_scratch, remove_scratch, uses_scratch
from pysandbox.launch.worker import Worker
from pysandbox.policy.expand import expand
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import with_base
from pysandbox.probe.facts import HostFacts, PathFacts, host_facts
from pysandbox.probe.paths import home, look, watch, watch_these

PLANS_KEPT = 256  # the least recently made plan goes first


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: each is one compilation
class Prepared:
    """A policy compiled for this host (expanded, with its base), and the paths it was compiled from."""

    policy: Policy
    plan: Plan
    fresh: Callable[[], bool]  # whether the paths it was compiled from are still what they were
    covered: Callable[[], bool]  # whether what it denies and masks is still what was covered
    native: native.NativePlan
    limits: bytes
    uses_scratch: bool


class Runtime:
    """Shared state of the cages of one process.

    `sink` receives every Event. `warm` is how many cages may be kept ready per policy (0: none, at most 4).
    `no_sandbox` turns every cage into an uncaged run (COMP-25); each such run is an event. Forked copies start empty.
    """

    def __init__(self, *, sink: Sink = ignore, warm: int = 4, no_sandbox: bool = False) -> None:
        self.sink = sink
        self.no_sandbox = no_sandbox
        self._warm = warm
        self._host: HostFacts | None = None
        self._init_fd = -1
        self._prepared: dict[object, Prepared] = {}
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, warm)
        self._lives: weakref.WeakSet[LiveInit] = weakref.WeakSet()
        self._sessions: dict[str, Session] = {}
        self.supervisor: Any = None  # of the cages whose calls are decided at run time; made by the layer above
        os.register_at_fork(after_in_child=_unless_gone(self.forget))
        atexit.register(_unless_gone(self.leave))

    def __del__(self) -> None:
        if getattr(self, "supervisor", None) is not None:
            self.supervisor.retire()
        if getattr(self, "_init_fd", -1) >= 0:
            os.close(self._init_fd)

    # ---- facts and plans ----------------------------------------------------------------------------------------

    @property
    def host(self) -> HostFacts:
        host = self._host
        if host is None or host.uid != os.geteuid():
            host = self._host = host_facts()
        return host

    def prepare(self, policy: Policy, cwd: str, watched: frozenset[str] = frozenset()) -> Prepared:
        """The Plan of a policy in a working directory, from the cache while the paths are what they were.
        `watched`: the categories of calls that a callback decides.

        Raises PolicyError, SandboxPathMissing, UnsupportedError.
        """
        key = _plan_key(policy, cwd, watched)
        prepared = self._prepared.get(key)
        if prepared is not None and prepared.fresh():
            return prepared
        prepared = self._compile(policy, cwd, watched)
        with self._lock:
            self._prepared.pop(key, None)
            self._prepared[key] = prepared
            while len(self._prepared) > PLANS_KEPT:
                del self._prepared[next(iter(self._prepared))]
        return prepared

    def _compile(self, policy: Policy, cwd: str, watched: frozenset[str]) -> Prepared:
        host = replace(self.host, env=dict(os.environ))  # the facts are kept, the environment may have changed
        try:
            resolved = with_base(expand(policy, env=os.environ, cwd=cwd, home=home()))
            paths = look(resolved, cwd=cwd)
            plan = compile_plan(resolved, host, paths, watch=watched)
        except PolicyError as error:
            self.sink(Event(COMPILE_ERROR.name, {"error_code": type(error).__name__, "details": str(error)}))
            raise
        for note in plan.notes:
            self.sink(Event(note.event or NOTE.name, {"key": note.key, "reason": note.message}))
        carried = native.NativePlan(plan, host.uid, host.gid)
        return Prepared(
            resolved,
            plan,
            watch(paths),
            _watch_covered(plan, paths),
            carried,
            native.encode_limits(plan),
            uses_scratch(plan),
        )

    # ---- cages --------------------------------------------------------------------------------------------------

    def take(self, prepared: Prepared, scratch: str = "") -> LiveInit:
        """A cage of this plan, waiting for its first order. `scratch` is the session's directory, for a plan that
        shares one. Raises StartError."""
        return self._pool.take((prepared, scratch), lambda: self._open(prepared, scratch))

    def replenish(self, prepared: Prepared, scratch: str = "") -> None:
        """Has the place of a taken cage refilled; call it once the cage has its order."""
        self._pool.replenish((prepared, scratch))

    def _open(self, prepared: Prepared, scratch: str) -> LiveInit:
        cage_id = ids.new_id()
        own = make_scratch() if prepared.uses_scratch and not scratch else ""
        name = ids.hostname(prepared.plan.hostname_prefix, cage_id)
        try:
            opened = prepared.native.open(self._init(), name, own or scratch)
        except BaseException:
            if own:
                remove_scratch(own)
            raise
        live = LiveInit(opened, cage_id, own or scratch, owns_scratch=bool(own))
        self._lives.add(live)
        return live

    def _init(self) -> int:
        with self._lock:
            if self._init_fd < 0:
                self._init_fd = os.open(native.INIT_PATH, os.O_PATH | os.O_CLOEXEC)
            return self._init_fd

    def collect(self, live: LiveInit) -> None:
        """Reaps an ended cage in the background."""
        live.end()
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
        """Removes what the cages of a session shared (LIFE-11). Idempotent."""
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
        return prepared is not None and self._pool.ready((prepared, ""))

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

    def leave(self) -> None:
        """At the end of the interpreter: the kernel ends every cage, but directories on the host are ours to remove."""
        self.end_sessions()
        if not any(prepared.uses_scratch for prepared in self._prepared.values()):
            return
        self.drain()
        for live in list(self._lives):
            if live.owns_scratch:
                live.close()

    def forget(self) -> None:
        """In a forked copy of the host: every cage belongs to the original; drop them without touching them."""
        self._pool.forget()
        for live in list(self._lives):
            live.abandon()
        self._lives.clear()
        self._sessions.clear()
        self.supervisor = None
        self._lock = threading.Lock()
        self._worker = Worker(self._expire, self._complain)
        self._pool = Pool(self._worker, self._warm)


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
    grants = (*policy.allow, *policy.allow_write, *policy.deny, *policy.mask)
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
