"""A policy that was compiled for this host, what that was made from, and how long it holds."""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.compile.absent_names import COVERING
from pysandbox.compile.plan import Plan
from pysandbox.launch import native
from pysandbox.note import Note
from pysandbox.policy.below import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import granted_paths, hidden_paths
from pysandbox.probe.facts import PathFact, PathFacts
from pysandbox.probe.planted import Absences
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, dataclass, field

if TYPE_CHECKING:
    from pysandbox.live.services import CageService


class ShownPath(NamedTuple):
    """A PATH for commands of one plan, "" where it shows nothing of the user's; the environment that it was made from,
    and whether the directories in it are still what they were."""

    text: str
    variables: tuple[str | None, ...]
    holds: Callable[[], bool]


class TrustedFile(NamedTuple):
    """A file of the host with the certificates that a cage is to trust. `hold`, which is told the path, has it stay
    until the cage is gone; raises StartError where it is gone already."""

    path: str
    hold: Callable[[str], CageService]


@dataclass(slots=True, eq=False)  # compared by identity: each is one compilation
class Prepared:
    """A policy compiled for this host (expanded, with its base), and all that every start of it would ask again."""

    policy: Policy
    plan: Plan
    paths: PathFacts
    fresh: Callable[[], bool]  # whether the paths it was compiled from are still what they were
    covered: frozenset[str]  # what a cage of it must not see or write inside its grants, by the mounts on them
    awaited: tuple[PathFact, ...]  # what it must not see either, and that is not there
    placeholders: tuple[str, ...]  # names to be held while a cage of it lives
    native: native.NativePlan
    limits: bytes
    uses_scratch: bool
    can_wait: bool  # whether cages of it may be opened ahead of their command
    absences: Absences  # guarded names that the cage may create
    weaker: tuple[Note, ...]  # of the plan's notes, the worst first
    variables: tuple[list[str], str] | None = None  # what commands without any of their own are told (`start.encode`)
    spawn_record: dict[str, object] = field(default_factory=dict)  # what every spawn tells, once made (audit)
    shown_path: ShownPath | None = None  # what of the user's PATH its cages show, once asked for (`commanded`)
    trusted: dict[bool, TrustedFile] = field(default_factory=dict)  # of its cages without a callback and with one, last

    @property
    def routed(self) -> bool:
        """Whether its cages have an interface in the host's network."""
        return self.plan.net is not None and bool(self.plan.net.bridge)


def must_not_show(plan: Plan, policy: Policy, paths: PathFacts) -> tuple[frozenset[str], tuple[PathFact, ...]]:
    """What is covered: denied and masked, and the files that are guarded; not what every cage covers of /proc. And
    what is awaited: denied or masked and not there, in a directory that is shown, so that whatever the host makes
    there is, too. Not what was said to be optional, nor what lies below something else that is covered."""
    guarded = {paths[guard.path].real for guard in paths.guards}
    named = {fact.real for fact in paths.facts.values()}
    over = [step.target for step in plan.mounts if step.kind in COVERING]
    covered = {step.target for step in plan.mounts if step.target in guarded}.union(named.intersection(over))
    hidden = (paths[path] for _, grant, path in hidden_paths(policy, paths.cwd) if not grant.optional)
    missing = [fact for fact in hidden if fact.kind == "missing"]
    if not missing or not policy.caged:
        return frozenset(covered), ()
    copied = {tree.path for tree in plan.copies.trees} if plan.copies is not None else set()
    granted = (paths[path] for path in granted_paths(policy, paths.cwd))
    shown = [fact.real for fact in granted if fact.kind == "dir" and fact.real not in copied]
    return frozenset(covered), tuple(
        fact for fact in missing
        if any(covers(tree, fact.real) for tree in shown) and not any(covers(each, fact.real) for each in over)
    )  # fmt: skip
