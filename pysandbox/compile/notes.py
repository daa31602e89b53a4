"""The notes a Plan may carry: their event names, spelled once, and one constructor for each."""

from __future__ import annotations

from pysandbox.compile.plan import Note

GRANT_SKIPPED = "sandbox.grant_skipped"  # something granted is not in the view
NOT_COVERABLE = "sandbox.not_coverable"  # a name that does not exist cannot be covered before the cage creates it
WIDE_GRANT = "sandbox.wide_grant"  # what was asked for, and more than was probably meant
DEGRADED = "sandbox.degraded"  # a second wall, or a check, that this host or version does not have
LIMITS_NOT_ENFORCED = "sandbox.limits_not_enforced"
ISOLATION_GAP = "sandbox.isolation_gap"  # what isolation = "landlock" leaves open


def grant_skipped(key: str, path: str, reason: str) -> Note:
    return Note(GRANT_SKIPPED, key, f"{path!r} is left out: {reason}")


def grants_absent(paths: list[str]) -> Note:
    """One note for all of them: a recipe for every distribution names many paths that any one host lacks."""
    return Note(GRANT_SKIPPED, "filesystem.allow", f"left out, because they do not exist: {', '.join(paths)}")


def not_coverable(key: str, message: str) -> Note:
    return Note(NOT_COVERABLE, key, message)


def wide_grant(key: str, message: str) -> Note:
    return Note(WIDE_GRANT, key, message)
