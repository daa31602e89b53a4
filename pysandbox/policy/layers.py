"""A layer: one recipe that counts, where it came from, and what it may say. Data of `resolve` and `search`."""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.policy.fields import GRANTING
from pysandbox.policy.option import Grant
from pysandbox.policy.recipe import Recipe
from pysandbox.shapes import Any, Literal, dataclass, field, replace

Why = Literal["base", "detected", "asked", "manifest", "flags"]

# All that the place of a program brings, whatever its recipe says besides: that it can be seen, with the settings it
# needs to run. Never permission to execute or to write, a network, or less of a cage; and no limit either (RCP-20).
BY_DETECTION = frozenset(("allow", "deny", "mask", "env", "env_passthrough", "address_space_gb"))


@dataclass(frozen=True, slots=True)
class Layer:
    """One recipe that counted. `path` is "" for what came from no file, and for the shipped base. `digest` is the
    SHA-256 of the bytes that were read; `place` is the name that a file which a stranger brings along is trusted by, ""
    for what is the user's, the system's or ours. `shared`: found by its name among those, so written for many hosts."""

    name: str
    path: str
    why: Why
    recipe: Recipe = field(default_factory=lambda: Recipe({}), repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)
    digest: str = ""
    place: str = ""
    shared: bool = False
    foreign: bool = False  # it lies among the user's own, and is another user's

    @property
    def given(self) -> Mapping[str, Any]:
        """What it adds to the policy. What a shared one grants may be missing on this host (T50)."""
        given = self.recipe.given
        if self.shared:
            given = {name: _optional(value) if name in GRANTING else value for name, value in given.items()}
        if self.why != "detected":
            return given
        return {name: value for name, value in given.items() if name in BY_DETECTION}


def _optional(grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
    """A stranger's host may lack any of them; a denial that cannot be made stays an error."""
    return tuple(replace(grant, optional=True) for grant in grants)


@dataclass(slots=True)
class Dependencies:
    """What a policy came from, so that somebody who keeps what was made of it can tell when it may be another.

    `paths`: files that were read, directories that were searched, names that were not there. `variables` of the
    environment. `programs`: where the command's program was looked for, and where the one that was found really lies.
    """

    paths: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    programs: dict[str, str | None] = field(default_factory=dict)
    size: int = 0  # of all that was read
