"""A policy that was compiled for this host, what that was made from, and how long it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import lru_cache

from pysandbox.compile.absent_names import COVERING, is_absent
from pysandbox.compile.plan import TRUST, Plan
from pysandbox.launch import native
from pysandbox.note import Note
from pysandbox.policy.model import Policy, every_grant
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.paths import watch_these
from pysandbox.probe.planted import Absences
from pysandbox.shapes import dataclass, field

POLICIES_KEPT = 256


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: each is one compilation
class Prepared:
    """A policy compiled for this host (expanded, with its base), and the paths it was compiled from."""

    policy: Policy
    plan: Plan
    paths: PathFacts
    fresh: Callable[[], bool]  # whether the paths it was compiled from are still what they were
    covered: Callable[[], bool]  # whether what it denies and masks is still what was covered
    placeholders: tuple[str, ...]  # names to be held while a cage of it lives
    native: native.NativePlan
    limits: bytes
    uses_scratch: bool
    absences: Absences  # guarded names that the cage may create
    weaker: tuple[Note, ...]  # of the plan's notes, the worst first
    spawn_record: dict[str, object] = field(
        default_factory=dict
    )  # what every spawn tells of it (audit.told), once made
    host_files: dict[str, str] = field(default_factory=dict)  # what stands for TRUST in the plan, where it has that

    @property
    def trusted(self) -> str:
        """The file of the host that stands for TRUST in cages that are opened now; another one, another cage."""
        return self.host_files.get(TRUST, "")

    @property
    def can_wait(self) -> bool:
        """Whether cages of it may be opened ahead of their command: not with files in the user's directories, which are
        there for no longer than a cage needs them, nor with a copy of a tree, which would be an old one."""
        return not self.placeholders and self.plan.copies is None

    @property
    def routed(self) -> bool:
        """Whether its cages have an interface in the host's network."""
        return self.plan.net is not None and bool(self.plan.net.bridge)


def watch_covered(plan: Plan, paths: PathFacts) -> Callable[[], bool]:
    """The host may replace a denied file by a rename (an editor's save): the kernel then drops the mount that covers
    it, and whoever has the cage open sees the new one. This tells."""
    targets = {step.target for step in plan.mounts if step.kind in COVERING}
    return watch_these(fact for fact in paths.facts.values() if fact.real in targets and not is_absent(fact))


def plan_key(policy: Policy, cwd: str, watched: frozenset[str]) -> Hashable:
    """All that a plan depends on but the paths: a daemon that gives up root must not meet a cage of root's."""
    return policy, cwd, watched, os.geteuid(), os.getegid(), _environment_key(policy)


def _environment_key(policy: Policy) -> tuple[str | None, ...] | frozenset[tuple[str, str]]:
    """What of the environment a plan depends on: the passed-through values; all of it where a path is expanded."""
    if _is_expanded(policy):
        return frozenset(os.environ.items())
    return tuple(map(os.environ.get, policy.env_passthrough))


@lru_cache(maxsize=POLICIES_KEPT)
def _is_expanded(policy: Policy) -> bool:
    """Whether what it says of paths depends on the environment; asked at every start of the same few policies."""
    paths = (*(grant.path for grant in every_grant(policy)), *policy.allow_execve)
    return any("$" in path or path.startswith("~") for path in paths)
