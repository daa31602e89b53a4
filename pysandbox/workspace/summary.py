"""The changes of a workspace as a person reads them: what can do harm first, what belongs together as one line.

A directory that is new or gone with many files in it (node_modules, a build directory) is one line, with how many of
its files carry a mark. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pysandbox.shapes import NamedTuple
from pysandbox.workspace.changes import Change, counted
from pysandbox.workspace.path_sets import TopmostMarked, walk_order
from pysandbox.workspace.risk import MARKS

FOLDED_FROM = 12  # names of a new directory that are one line
MOST_LINES = 60
SIGNS = {"added": "+", "modified": "~", "deleted": "-", "renamed": ">", "type": "!", "metadata": "m"}


class Line(NamedTuple):
    """`sign` is one letter for the kind, `risk` the words of the marks."""

    sign: str
    text: str
    risk: tuple[str, ...] = ()


def lines(found: Sequence[Change]) -> list[Line]:
    """The risky ones first. What exceeds a screen or two is counted."""
    made = sorted(_folded(found), key=lambda each: not each.risk)
    if len(made) <= MOST_LINES:
        return made
    return [*made[:MOST_LINES], Line(" ", f"... and {len(made) - MOST_LINES} more: pysandbox diff --stat")]


def headline(found: Sequence[Change]) -> str:
    if not found:
        return "nothing was changed"
    counts = ", ".join(f"{number} {kind}" for kind, number in counted(found).items())
    return f"{len(found)} {'change' if len(found) == 1 else 'changes'}: {counts}"


def legend(found: Iterable[Change]) -> list[str]:
    """What the marks mean that are there."""
    seen = {word for each in found for word in each.risk}
    return [f"{word}: {said}" for word, said in MARKS.items() if word in seen]


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def _folded(found: Sequence[Change]) -> Iterator[Line]:
    """`found` in any order. The topmost new directory takes its files into its line where they are many. Each tree by
    itself: two may have the same names."""
    inside: dict[int, list[Change]] = {}  # of the line at that place: what lies in its new directory
    alone: list[Change] = []
    new, tree = TopmostMarked(), ""
    for each in sorted(found, key=lambda each: (each.tree, walk_order(each.path))):
        if each.tree != tree:
            new, tree = TopmostMarked(), each.tree
        if new.above(each.path):
            inside[len(alone) - 1].append(each)
            continue
        alone.append(each)
        if _is_directory(each):
            new.mark(each.path)
            inside[len(alone) - 1] = []
    for at, each in enumerate(alone):
        held = inside.get(at, [])
        if len(held) >= FOLDED_FROM:
            yield _folder(each, held)
        else:
            yield from map(_line, (each, *held))


def _is_directory(change: Change) -> bool:
    return change.kind == "added" and change.after is not None and change.after.kind == "dir"


def _folder(change: Change, inside: Sequence[Change]) -> Line:
    files = [each for each in inside if each.after is not None and each.after.kind != "dir"]
    marks = Counter(word for each in (change, *inside) for word in each.risk)
    said = "".join(f", {number} {word}" for word, number in marks.items())
    total = size(sum(each.size for each in files))
    return Line("+", f"{change.path}/  {len(files)} files, {total}{said}", tuple(marks))


def _line(change: Change) -> Line:
    name = change.path + ("/" if (change.after or change.before) is not None and _kind(change) == "dir" else "")
    if change.renamed_from:
        name = f"{change.renamed_from} -> {name}"
    grown = f"  {size(change.size)}" if change.kind in ("added", "modified") and _kind(change) == "file" else ""
    return Line(SIGNS[change.kind], name + grown, change.risk)


def _kind(change: Change) -> str:
    state = change.after or change.before
    return state.kind if state is not None else ""
