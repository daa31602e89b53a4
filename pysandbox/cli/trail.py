"""The audit trail that the commands write to."""

from __future__ import annotations

import os

from pysandbox.cli import console
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.audit import AuditLog


def open_audit() -> AuditLog | None:
    """The stream that the environment names. Without a place for the default one (no home directory, a read-only one)
    a command runs all the same, with a warning; one that was asked for by name must work."""
    from pysandbox.audit import AuditLog, files
    from pysandbox.errors import AuditError

    path = files.chosen_path()
    if path is None:
        return None
    try:
        return AuditLog(path)
    except AuditError as error:
        if os.environ.get(files.VARIABLE):
            raise
        console.warning(f"{error}; this run is not recorded")
        return None
