"""`pysandbox commit -p`: which changes, and which hunks of a text, by question and answer."""

from __future__ import annotations

import sys

from pysandbox.cli import console
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.diff import hunks, with_hunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.workspace.changes import Change
    from pysandbox.workspace.diff import Hunk, Pair
    from pysandbox.workspace.workspace import Workspace

HELP = "y write it, n leave it, a write it and all that follows, q leave it and all that follows"


class _HunkAnswers:
    """What was answered so far: `rest` is what holds for all that follows."""

    def __init__(self) -> None:
        self.rest = ""

    def wants(self, question: str) -> bool:
        while not self.rest:
            said = _answer(f"{question} [y,n,a,q,?] ")
            if said in ("y", "n"):
                return said == "y"
            if said in ("a", "q"):
                self.rest = said
            else:
                console.show([HELP])
        return self.rest == "a"


def _answer(question: str) -> str:
    """One word from standard input; "q" at its end."""
    console.ask(question)
    return (sys.stdin.readline() or "q").strip().lower()


def picked(workspace: Workspace, paths: Sequence[str] | None) -> tuple[list[str], dict[str, bytes]]:
    """The paths that were chosen, absolute and each for itself alone (`commit(exactly=True)`), and the contents of
    those of which only some hunks were."""
    answers = _HunkAnswers()
    chosen: list[str] = []
    contents: dict[str, bytes] = {}
    several = len(workspace.trees) > 1
    for change in workspace.changes(paths):
        path, name = f"{change.tree}/{change.path}", _named(change, several=several)
        pair = workspace.lines(change) if change.kind == "modified" else None
        found = hunks(pair) if pair is not None else []
        if pair is not None and len(found) > 1 and not answers.rest:
            wanted = _wanted(name, found, answers)
            if wanted:
                chosen.append(path)
            if wanted and len(wanted) < len(found):
                contents[path] = with_hunks(pair, found, wanted)
            continue
        _show(name, pair, found)
        if answers.wants(f"write {name}?"):
            chosen.append(path)
    return chosen, contents


def _wanted(name: str, found: Sequence[Hunk], answers: _HunkAnswers) -> list[int]:
    console.out(name)
    wanted = []
    for number, hunk in enumerate(found):
        _show_hunk(hunk)
        if answers.wants(f"write this hunk of {name} ({number + 1} of {len(found)})?"):
            wanted.append(number)
    return wanted


def _named(change: Change, *, several: bool) -> str:
    """`several`: there are more trees than one, so that a name alone says too little."""
    top = f"{change.tree}/" if several else ""
    old = f"{top}{change.renamed_from} -> " if change.renamed_from else ""
    marks = f" [{', '.join(change.risk)}]" if change.risk else ""
    return f"{change.kind} {old}{top}{change.path}{marks}"


def _show(name: str, pair: Pair | None, found: Sequence[Hunk]) -> None:
    console.out(name)
    for hunk in found if pair is not None else ():
        _show_hunk(hunk)


def _show_hunk(hunk: Hunk) -> None:
    for line in hunk.lines:
        console.out_with_tabs(line.removesuffix("\n"))
