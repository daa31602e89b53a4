"""The notes a Plan may carry: their events, and one constructor for each."""

from __future__ import annotations

from pysandbox import events
from pysandbox.compile.plan import Note

GRANT_SKIPPED = events.GRANT_SKIPPED.name
NOT_COVERABLE = events.NOT_COVERABLE.name
WIDE_GRANT = events.WIDE_GRANT.name
DEGRADED = events.DEGRADED.name
LIMITS_NOT_ENFORCED = events.LIMITS_NOT_ENFORCED.name
ISOLATION_GAP = events.ISOLATION_GAP.name
MONITOR = events.MONITOR.name


def grant_skipped(key: str, path: str, reason: str) -> Note:
    return Note(GRANT_SKIPPED, key, f"{path!r} is left out: {reason}")


def grants_absent(paths: list[str]) -> Note:
    """One note for all of them: a recipe for every distribution names many paths that any one host lacks."""
    return Note(GRANT_SKIPPED, "filesystem.allow", f"left out, because they do not exist: {', '.join(paths)}")


def not_coverable(key: str, message: str) -> Note:
    return Note(NOT_COVERABLE, key, message)


def guarded(key: str, message: str) -> Note:
    return Note(GRANT_SKIPPED, key, message)


def wide_grant(key: str, message: str) -> Note:
    return Note(WIDE_GRANT, key, message)
