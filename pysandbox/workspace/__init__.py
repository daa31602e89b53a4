"""A copy-on-write workspace: what a cage wrote to a tree of the host, kept apart from it until somebody decides.

upper.py   START HERE: what is kept, whoever keeps it     walk.py      an upper directory of overlayfs, read
changes.py upper + tree -> Change, with risk.py's marks   content.py   bytes compared, copied with holes, hashed
diff.py    changes as a patch, JSON, hunks                summary.py   changes as a person reads them
commit.py  START HERE to write them to the tree           conflict.py  whether the tree changed meanwhile
plan.py    which are written, by which renames            stage.py     new files beside their places
journal.py what will be done, on disk before it is        moves.py     one rename, made and unmade
recovery.py  after a kill     undo.py  a commit taken back     bundle.py, store.py  workspaces on disk
workspace.py  what users hold        ending.py   what becomes of it by itself, at the end of its cage
denied.py  what the policy denies in the tree       commit_lock.py  one commit at a time to one directory
run_by_others.py, links.py, path_sets.py, folds.py   what marks and refusals ask: who runs it, where it leads,
           whether a name is among many, or another in other letters
apart.py   what a cage that runs, or has ended, wrote: its Upper, which is a layer (overlay.py) or a copy (snapshot.py),
           and what both have in common (held.py)
"""

from __future__ import annotations

from pysandbox.workspace.bundle import Kept
from pysandbox.workspace.changes import Change, State
from pysandbox.workspace.plan import Skipped
from pysandbox.workspace.upper import Quota
from pysandbox.workspace.workspace import Commit, Workspace, WorkspaceOutcome

__all__ = ["Change", "Commit", "Conflict", "Kept", "Quota", "Skipped", "State", "Workspace", "WorkspaceOutcome"]
