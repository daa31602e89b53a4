"""The notes a Plan may carry: their events, and one constructor for each."""

from __future__ import annotations

from pysandbox import events
from pysandbox.note import AT_THE_END, NO_LOSS, ON_REQUEST, SAID, Note

GRANT_SKIPPED = events.GRANT_SKIPPED.name
NOT_COVERABLE = events.NOT_COVERABLE.name
WIDE_GRANT = events.WIDE_GRANT.name
DEGRADED = events.DEGRADED.name
LIMITS_NOT_ENFORCED = events.LIMITS_NOT_ENFORCED.name
ISOLATION_GAP = events.ISOLATION_GAP.name
MONITOR = events.MONITOR.name
WORKDIR = "filesystem.workdir"


def grant_skipped(key: str, path: str, reason: str) -> Note:
    """Where it is the working directory, what is written there would be missed."""
    return Note(GRANT_SKIPPED, key, f"{path!r} is left out: {reason}", SAID if key == WORKDIR else "")


def grants_absent(paths: list[str]) -> Note:
    """One note for all of them: a recipe for every distribution names many paths that any one host lacks."""
    message = f"left out, because they do not exist: {', '.join(paths)}"
    return Note(GRANT_SKIPPED, "filesystem.allow", message, NO_LOSS)


def guards_absent(key: str, directory: str, names: str) -> Note:
    """Every project lacks some of them, and what appears there is told when a command has ended (`probe.planted`)."""
    message = f"{directory!r} has no {names}: what the cage creates there stays on the host"
    return Note(NOT_COVERABLE, key, message, ON_REQUEST)


TO_COMMIT = "to commit, --allow-write"


def repository_read_only(key: str, git: str) -> Note:
    """Reading is what most commands of git do."""
    message = f"{git!r}, the repository of the working directory, is read-only: {TO_COMMIT} {git}"
    return Note(GRANT_SKIPPED, key, message, ON_REQUEST)


def unobserved(key: str, message: str) -> Note:
    """What --monitor did not see: its silence about that means nothing."""
    return Note(MONITOR, key, f"not observed: {message}", AT_THE_END)


def not_coverable(key: str, message: str) -> Note:
    return Note(NOT_COVERABLE, key, message)


def guarded(key: str, message: str) -> Note:
    return Note(GRANT_SKIPPED, key, message)


def wide_grant(key: str, message: str) -> Note:
    return Note(WIDE_GRANT, key, message)
