"""The words of a View: trees, holes, and the nearest of them above a path. Pure data.

`compile.view` fills a ViewDraft and hands out a View, which nobody can change: mounts, Landlock and the environment all
read the same one, in whatever order they are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pysandbox.compile.programs import Programs
from pysandbox.note import Note
from pysandbox.probe.facts import PathFact
from pysandbox.shapes import TypeVar, dataclass, field

ROOT = "/"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShownTree:
    """One visible file or directory and, unless another tree or a hole begins, everything below it."""

    fact: PathFact
    writable: bool
    key: str
    optional: bool
    implied: bool = False  # a guard that nobody asked for by name
    cow: bool = False  # writable, and what is written stays apart from the host's

    @property
    def access(self) -> str:
        return "read" if not self.writable else "cow" if self.cow else "write"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One denied or masked thing inside a tree."""

    fact: PathFact
    kind: str  # "deny" | "mask"
    key: str
    implied: bool = False
    by_pattern: bool = False  # it may be gone before it is covered


@dataclass(frozen=True, slots=True)
class View:
    """What a cage sees. The keys are real paths."""

    trees: Mapping[str, ShownTree]
    holes: Mapping[str, Exclusion]
    links: Mapping[str, str]
    sockets: Mapping[str, PathFact]  # without mounts, those that are granted
    own: Mapping[str, str]  # files that are made instead of granted, with what is in them
    programs: Programs | None  # what may be executed; None: everything
    notes: tuple[Note, ...]
    copies: Mapping[str, str] = field(default_factory=dict)  # of a tree that is copied: where that lies, below LAYERS

    def enclosing(self, real: str) -> ShownTree | None:
        """The tree strictly above a real path."""
        return nearest(parent(real), self.trees)

    def shows(self, real: str) -> bool:
        return nearest(real, self.trees) is not None and nearest(real, self.holes) is None


@dataclass(slots=True)
class ViewDraft:
    """A View that is still being made, by the steps of `view.build_view` and by nobody else."""

    trees: dict[str, ShownTree] = field(default_factory=dict)
    holes: dict[str, Exclusion] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    sockets: dict[str, PathFact] = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    copies: Mapping[str, str] = field(default_factory=dict)

    def enclosing(self, real: str) -> ShownTree | None:
        """The tree strictly above a real path."""
        return nearest(parent(real), self.trees)

    def finished(self, programs: Programs | None) -> View:
        """What is here now, with the programs as they were listed; later changes of the draft do not reach it."""
        return View(_frozen(self.trees), _frozen(self.holes), _frozen(self.links), _frozen(self.sockets),
                    _frozen(self.own), programs, tuple(self.notes), _frozen(self.copies))  # fmt: skip


def _frozen(table: Mapping[str, T]) -> Mapping[str, T]:
    return MappingProxyType(dict(table))


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
