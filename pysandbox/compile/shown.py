"""The words of a View, which `compile.view` fills: trees, holes, and the nearest of them above a path. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pysandbox.compile.plan import Note
from pysandbox.compile.programs import Programs
from pysandbox.probe.facts import PathFact

ROOT = "/"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tree:
    """One visible file or directory and, unless another tree or a hole begins, everything below it."""

    fact: PathFact
    writable: bool
    key: str
    optional: bool
    implied: bool = False  # a guard that nobody asked for by name


@dataclass(frozen=True, slots=True)
class Hole:
    """One denied or masked thing inside a tree."""

    fact: PathFact
    kind: str  # "deny" | "mask"
    key: str
    implied: bool = False


@dataclass(slots=True)
class View:
    """Filled by `see`, in that order; read-only for everyone else. The keys are real paths."""

    trees: dict[str, Tree] = field(default_factory=dict)
    holes: dict[str, Hole] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    programs: Programs | None = None  # what may be executed; None: everything
    sockets: dict[str, PathFact] = field(default_factory=dict)  # without mounts, those that are granted
    own: dict[str, str] = field(default_factory=dict)  # files that are made instead of granted, with what is in them
    notes: list[Note] = field(default_factory=list)

    def over(self, real: str) -> Tree | None:
        """The tree strictly above a real path."""
        return nearest(parent(real), self.trees)

    def shows(self, real: str) -> bool:
        return nearest(real, self.trees) is not None and nearest(real, self.holes) is None


def parent(path: str) -> str:
    return path[: path.rfind("/")]


def nearest(path: str, table: Mapping[str, T]) -> T | None:
    """The entry at `path` or at its closest ancestor: prefixes end on component boundaries (FS-08, T57)."""
    while path:
        found = table.get(path)
        if found is not None:
            return found
        path = path[: path.rfind("/")]
    return table.get(ROOT)
