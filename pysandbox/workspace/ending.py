"""What becomes of a workspace by itself, when its cage has ended: `workspace.on_exit` and `on_error`.

No Exception is raised here, since whoever waits for a command gets its result; `Workspace.outcome` says what was done,
and a warning what was not, also where warnings are errors. An interrupt (Ctrl-C) goes on to whoever waits. A commit
that nobody looks at writes all of it or nothing, and nothing where a change carries a mark (risk.py): then, as after a
conflict, it is kept, and a person decides. What Python keeps of compiled modules is left out, unread: it makes it
again from the source.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress

from pysandbox.errors import CommitConflict, CommitError
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.plan import Skipped
from pysandbox.workspace.risk import NOBODY_COMMITS, is_made_again
from pysandbox.workspace.workspace import WorkspaceOutcome

if TYPE_CHECKING:
    from pysandbox.workspace.changes import Change
    from pysandbox.workspace.workspace import Workspace

NOBODY = "nobody could be asked: `pysandbox run` asks, on a terminal"
MADE_AGAIN = "Python makes it again from the source"
NAMED = 3  # paths in a reason


def end_as_asked(workspace: Workspace, wanted: str) -> None:
    """`wanted` is a value of `workspace.on_exit`."""
    if wanted == "defer":
        return
    try:
        workspace.outcome = _outcome(workspace, wanted)
    except (OSError, ValueError) as error:
        workspace.outcome = WorkspaceOutcome("failed", _seen(workspace), f"it is not kept: {error}")
    except Exception as error:  # of a sink, before or after something was done
        reason = f"whoever is told of it raised {type(error).__name__}: {error}; look at the tree and at what is kept"
        workspace.outcome = WorkspaceOutcome("failed", reason=reason)
    if workspace.outcome.reason and not workspace.is_told:
        _warn(f"the workspace was not ended as asked: {workspace.outcome.reason}")


def _seen(workspace: Workspace) -> tuple[Change, ...]:
    """What was changed, where that can be told."""
    try:
        return tuple(workspace.changes())
    except Exception:  # it is the first error that is told
        return ()


def _warn(message: str) -> None:
    """Where warnings are errors, it is shown: the command has ended, and its result is not to be lost for it."""
    try:
        warnings.warn(message, stacklevel=4)
    except Warning as error:
        with suppress(Exception):
            warnings.showwarning(error, type(error), __file__, 0)


def _outcome(workspace: Workspace, wanted: str) -> WorkspaceOutcome:
    try:
        found = tuple(workspace.changes())
    except OSError:
        if wanted != "abort":
            raise
        workspace.abort()  # what cannot be looked at can be forgotten
        return WorkspaceOutcome("aborted")
    if not found:
        workspace.close()
        return WorkspaceOutcome("nothing")
    if wanted == "abort":
        workspace.abort()
        return WorkspaceOutcome("aborted", found)
    reason = NOBODY if wanted == "ask" else ""
    if wanted == "commit":
        reason = marked(found)
        if not reason:
            try:
                return _committed(workspace, found)
            except (CommitConflict, CommitError) as error:
                reason = str(error)
    return WorkspaceOutcome("kept", found, reason, workspace.keep(reason))


def _committed(workspace: Workspace, found: tuple[Change, ...]) -> WorkspaceOutcome:
    left_out = tuple(Skipped(f"{each.tree}/{each.path}", MADE_AGAIN) for each in found if _is_left_out(each))
    picked = [f"{each.tree}/{each.path}" for each in found if not _is_left_out(each)]
    if not picked:
        workspace.close()
        return WorkspaceOutcome("nothing", found, left_out=left_out)
    done = workspace.commit(picked, exactly=True) if left_out else workspace.commit()
    if not done.skipped:
        workspace.close()
        return WorkspaceOutcome("committed", found, commits=done.ids, left_out=left_out)
    first = done.skipped[0]
    reason = f"{len(done.skipped)} changes were not written: {first.path!r}: {first.reason}"
    return WorkspaceOutcome("committed", found, reason, workspace.keep(reason), done.ids, left_out)


def marked(found: tuple[Change, ...]) -> str:
    """Why nobody commits this without looking; empty where anybody may."""
    risky = [each for each in found if each.risk and not _is_left_out(each)]
    if not risky:
        return ""
    named = ", ".join(f"{each.path!r} ({', '.join(each.risk)})" for each in risky[:NAMED])
    more = f" and {len(risky) - NAMED} more" if len(risky) > NAMED else ""
    alone = any(word in each.risk for each in risky for word in NOBODY_COMMITS)
    then = "`pysandbox commit` writes it, marks included" + (", and what is guarded by its path alone" if alone else "")
    return f"nothing was committed, since somebody must look at {named}{more} first: {then}"


def _is_left_out(change: Change) -> bool:
    """Files as they are made and removed; one that was renamed, or became a link, is looked at like any other."""
    kinds = {state.kind for state in (change.before, change.after) if state is not None}
    if change.renamed_from or kinds not in ({"file"}, {"dir"}):
        return False
    is_directory = kinds == {"dir"}
    if is_directory and change.kind != "added":
        return False
    return is_made_again(os.fsencode(change.path), is_directory=is_directory)
