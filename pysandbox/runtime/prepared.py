"""A policy that was compiled for this host, what that was made from, and how long it holds."""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.compile.absent_names import COVERING
from pysandbox.compile.plan import Plan
from pysandbox.launch import native
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFacts
from pysandbox.probe.planted import Absences
from pysandbox.shapes import NamedTuple, dataclass, field


class ShownPath(NamedTuple):
    """A PATH for commands of one plan, "" where it shows nothing of the user's; the environment that it was made from,
    and whether the directories in it are still what they were."""

    text: str
    variables: tuple[str | None, ...]
    holds: Callable[[], bool]


@dataclass(slots=True, eq=False)  # compared by identity: each is one compilation
class Prepared:
    """A policy compiled for this host (expanded, with its base), and all that every start of it would ask again."""

    policy: Policy
    plan: Plan
    paths: PathFacts
    fresh: Callable[[], bool]  # whether the paths it was compiled from are still what they were
    covered: frozenset[str]  # what a cage of it must not see or write inside its grants, by the mounts on them
    placeholders: tuple[str, ...]  # names to be held while a cage of it lives
    native: native.NativePlan
    limits: bytes
    uses_scratch: bool
    can_wait: bool  # whether cages of it may be opened ahead of their command
    absences: Absences  # guarded names that the cage may create
    weaker: tuple[Note, ...]  # of the plan's notes, the worst first
    spawn_record: dict[str, object] = field(default_factory=dict)  # what every spawn tells, once made (audit)
    shown_path: ShownPath | None = None  # what of the user's PATH its cages show, once asked for (`commanded`)
    trusted: str = ""  # the file of the host that stands for TRUST in cages that are opened now; another, another cage

    @property
    def routed(self) -> bool:
        """Whether its cages have an interface in the host's network."""
        return self.plan.net is not None and bool(self.plan.net.bridge)


def covered_paths(plan: Plan, paths: PathFacts) -> frozenset[str]:
    """What is denied and masked, and the files that are guarded; not what every cage covers of /proc."""
    guarded = {paths[guard.path].real for guard in paths.guards}
    named = {fact.real for fact in paths.facts.values()}
    return frozenset(
        step.target for step in plan.mounts
        if step.target in guarded or (step.kind in COVERING and step.target in named)
    )  # fmt: skip
