"""What Landlock would decide about an open that the host does for a program: the same rules, evaluated here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from errno import EACCES

from pysandbox.policy.match import covers
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import LandlockPlan

TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY  # the bit that makes the difference


def rights(flags: int, directory: bool) -> set[str]:
    """The access rights that an open needs (security/landlock/fs.c: hook_file_open, hook_path_truncate)."""
    how = flags & os.O_ACCMODE
    wanted = {"WRITE_FILE"} if how != os.O_RDONLY else set()
    if how != os.O_WRONLY:
        wanted.add("READ_DIR" if directory and not flags & TMPFILE else "READ_FILE")
    return wanted | ({"TRUNCATE"} if flags & os.O_TRUNC else set())


def require_rights(plan: LandlockPlan | None, real: str, asked: Iterable[str]) -> None:
    """Checks that each handled right is granted by a rule on the file, or on a directory above it. Raises
    PermissionError."""
    wanted = set(asked).intersection(plan.handled_fs) if plan is not None else set()
    for rule in plan.rules if plan is not None else ():
        if rule.path and covers(rule.path, real):
            wanted.difference_update(rule.access)
    if wanted:
        raise PermissionError(EACCES, os.strerror(EACCES), real)
