"""What a test of commits does before one, and the commit of all that a workspace has changed."""

from __future__ import annotations

import time

from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import Committed, commit
from pysandbox.workspace.upper import Upper


def settled() -> None:
    """Files that were made in the tick of the clock in which the workspace is opened count as changed since."""
    time.sleep(0.02)


def written(upper: Upper, **options: object) -> Committed:
    return commit(upper, changes_of(upper), **options)  # type: ignore[arg-type]
