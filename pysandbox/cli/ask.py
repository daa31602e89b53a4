"""`on_exit = "ask"` at the end of a run: what was written apart is kept, written or forgotten, by question and answer.

Whatever goes wrong with the asking (no more input, Ctrl-C, a conflict) forgets nothing: it is kept then.
"""

from __future__ import annotations

import sys

from pysandbox.cli import console
from pysandbox.cli.commit import tell, tell_conflict
from pysandbox.cli.diff import show_patch
from pysandbox.errors import CommitConflict, CommitError
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.workspace.workspace import Workspace

QUESTION = "keep it, commit it, discard it, or show the diff? [k,c,d,s] "
WORDS = {"k": "k", "keep": "k", "c": "c", "commit": "c", "d": "d", "discard": "d", "s": "s", "show": "s", "diff": "s"}


def settled(workspace: Workspace) -> bool:
    """Whether nothing is left to be kept. Raises OSError."""
    try:
        return _settled(workspace)
    except KeyboardInterrupt:
        console.show([""])
        return False


def _settled(workspace: Workspace) -> bool:
    while True:
        said = _answer()
        if said == "s":
            show_patch(workspace.diff_lines())
        elif said == "d":
            workspace.abort()
            console.say("forgotten")
            return True
        elif said == "c":
            done = _committed(workspace)
            if done is not None:
                return done
        elif said == "k":
            return False


def _answer() -> str:
    """One of WORDS, "" for any other; "k" at the end of the input."""
    console.ask(QUESTION)
    said = sys.stdin.readline()
    if not said:
        console.show([""])
        return "k"
    return WORDS.get(said.strip().lower(), "")


def _committed(workspace: Workspace) -> bool | None:
    """Whether nothing is left; None where nothing was written."""
    try:
        done = workspace.commit()
    except CommitConflict as conflict:
        tell_conflict(conflict, as_json=False)
        return None
    except CommitError as error:
        console.error(str(error))
        return None
    tell(done)
    if workspace.changes():
        return False
    workspace.abort()
    return True
