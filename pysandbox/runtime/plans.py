"""From a policy to its Plan: expanded, held against this host and these paths, compiled, and kept while that holds.

One of these belongs to each Runtime. It remembers what it has compiled, and which trees cages of this program may have
written: no later grant follows a link in them.
"""

from __future__ import annotations

import os
from _thread import allocate_lock  # threading's Lock, without its imports
from collections.abc import Hashable, Sequence
from functools import lru_cache, partial

from pysandbox.compile.absent_names import placeholders
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.cow import is_cow
from pysandbox.compile.links import written_trees
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.events import COMPILE_ERROR, NOTE, Event, Sink, ignore
from pysandbox.launch import structs
from pysandbox.launch.placeholder import with_placeholders
from pysandbox.note import weaker
from pysandbox.policy.below import covers
from pysandbox.policy.expand import expand
from pysandbox.policy.guarded import OURS
from pysandbox.policy.model import Policy, every_grant
from pysandbox.policy.paths_wanted import changed_trees
from pysandbox.policy.recipe import with_base
from pysandbox.policy.user_home import home
from pysandbox.policy.way_out import has_doors
from pysandbox.probe.base_paths import BasePaths, OwnDirectories
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.probe.host import asked_for_overlays, asked_for_redirects, host_facts
from pysandbox.probe.kept import own_names, protected_directories
from pysandbox.probe.paths import NONE_KNOWN, KnownPaths, stat_paths, watch
from pysandbox.probe.planted import absences
from pysandbox.probe.prebuilt import prebuilt_filter
from pysandbox.records.registry import asked_paths, private_paths
from pysandbox.runtime.imports import keep_imports_apart
from pysandbox.runtime.own_places import make_own_places
from pysandbox.runtime.prepared import Prepared, must_not_show
from pysandbox.shapes import replace

OF_GIT = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")  # git-config(1), FILES (`probe.configured`)
PLANS_KEPT = POLICIES_KEPT = 256  # the least recently made plan goes first
WRITTEN_KEPT = 1024


class CompiledPlans:
    """`audit` is the directory of the audit trail, which no cage reaches; "" where nothing is kept."""

    def __init__(self, sink: Sink, audit: str) -> None:
        self._sink = sink
        self._own_directories = partial(_own_directories, (audit,) if audit else ())
        self._host: HostFacts | None = None
        self._prepared: dict[object, Prepared] = {}
        self._base = BasePaths(self._own_directories)
        self._written: dict[str, None] = {}  # what its cages may have written, by real paths
        self._lock = allocate_lock()

    @property
    def written(self) -> tuple[str, ...]:
        """What cages of this program may have written, by real paths."""
        return tuple(self._written)

    def written_before(self, policy: Policy, cwd: str) -> tuple[str, ...]:
        """Real paths in which no grant of this policy follows a link: `written`, what a plugin's policy says besides,
        and this program's own working directory, where the one that is granted lies below it (`cwd="./out"`)."""
        before = (*self._written, *getattr(policy, "strangers", ()))
        try:
            here = os.getcwd() if policy.workdir != "none" else cwd
        except OSError:  # it was removed
            return before
        return (*before, here) if here != cwd and covers(here, cwd) and not covers(here, home()) else before

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
        key = plan_key(policy, cwd, watched)
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
            before = self.written_before(resolved, cwd)
            known = self._base.known(before) if resolved.base else NONE_KNOWN
            paths = self._stat_paths(resolved, cwd, before, known)
            plan = compile_plan(resolved, host, paths, watch=watched, prebuilt=prebuilt_filter)
        except (PolicyError, UnsupportedError) as error:
            data = {"error_code": type(error).__name__, "details": str(error)}
            self._sink(Event(COMPILE_ERROR.name, {"invocation_id": invocation_id, **data}))
            if isinstance(error, UnsupportedError):
                from pysandbox.probe.restriction import explained

                raise explained(error) from None
            raise
        if self._sink is ignore and plan.notes:
            from pysandbox.runtime.missing_walls import warn_of_missing_walls

            warn_of_missing_walls(plan.notes)
        for note in plan.notes:
            self._sink(Event(note.event or NOTE.name, {"key": note.key, "reason": note.message}))
        carried = structs.encode_plan(plan, host.uid, host.gid)
        written, held = written_trees(resolved, paths), placeholders(plan, paths)
        self.remember_written(written)
        if OURS not in resolved.unguarded:
            keep_imports_apart(written)
        return Prepared(
            resolved,
            plan,
            paths,
            watch(paths, known),
            *must_not_show(plan, resolved, paths),
            held,
            carried,
            structs.encode_limits(plan),
            plan.uses_scratch,
            not held
            and plan.copies is None,  # these files stand for no longer than a cage needs them; a copy grows old
            absences(paths, written if resolved.caged else ()),
            weaker(plan.notes),
        )

    def _stat_paths(self, policy: Policy, cwd: str, written: tuple[str, ...], known: KnownPaths) -> PathFacts:
        """Once more where a directory of the user's own had to be made before a cage could make it."""
        kept = known.kept if known.kept is not None else self._own_directories().kept
        seen = stat_paths(policy, cwd=cwd, kept=kept, written=written, known=known)
        if policy.caged and make_own_places(seen, written_trees(policy, seen)):
            seen = stat_paths(policy, cwd=cwd, kept=self._own_directories().kept, written=written)
        seen = with_placeholders(policy, seen)
        if not (self.host.root and policy.caged):
            return seen
        from pysandbox.runtime.mapped import seen_by_root

        return seen_by_root(policy, seen, maps=self.host.root == "swapped")

    def remember_written(self, trees: Sequence[str]) -> None:
        """No later grant of this program follows a link in these. What is gone is forgotten, once there are many."""
        with self._lock:
            self._written.update(dict.fromkeys(trees))
            if len(self._written) > WRITTEN_KEPT:
                self._written = {tree: None for tree in self._written if os.path.lexists(tree)}

    def _facts(self, policy: Policy) -> HostFacts:
        """The facts are kept, the environment may have changed."""
        if has_doors(policy):
            self._host = asked_for_redirects(self.host)
        if is_cow(policy):
            self._host = asked_for_overlays(self.host)
        return replace(self.host, env=dict(os.environ))

    def find(self, policy: Policy, cwd: str, watched: frozenset[str]) -> Prepared | None:
        """What was compiled last; compiles nothing."""
        return self._prepared.get(plan_key(policy, cwd, watched))

    def forget(self, prepared: Prepared) -> None:
        """The policy is compiled anew when it is next asked for."""
        self._base = BasePaths(self._own_directories)
        with self._lock:
            self._prepared = {key: kept for key, kept in self._prepared.items() if kept is not prepared}

    def forget_all(self) -> None:
        with self._lock:
            self._prepared = {}

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host: another thread may have held the lock at the fork."""
        self._lock = allocate_lock()


def _own_directories(audit: Sequence[str]) -> OwnDirectories:
    """The directories of this package, ours and every other program's: no cage reaches them."""
    kept = protected_directories(audit=audit, registry=private_paths())
    return OwnDirectories(kept, (*own_names(), *audit, *asked_paths()))


def plan_key(policy: Policy, cwd: str, watched: frozenset[str]) -> Hashable:
    """All that a plan depends on but the paths: a daemon that gives up root must not meet a cage of root's. Of the
    environment it is the variables that the policy makes it depend on."""
    names = _variables_of(policy)
    read: Hashable = frozenset(os.environ.items()) if names is None else tuple(map(os.environ.get, names))
    return policy, cwd, watched, os.geteuid(), os.getegid(), read


@lru_cache(maxsize=POLICIES_KEPT)
def _variables_of(policy: Policy) -> tuple[str, ...] | None:
    """Variables that are passed through, and, where something is granted to be changed, by which git finds what it is
    led by; None, all of them, where a path is expanded. Asked at every start of the same few policies."""
    paths = (*(grant.path for grant in every_grant(policy)), *policy.allow_execve)
    if any("$" in path or path.startswith("~") for path in paths):
        return None
    return (*policy.env_passthrough, *(OF_GIT if changed_trees(policy, "/") else ()))
