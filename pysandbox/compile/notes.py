"""The notes a Plan may carry: their events, and one constructor for each."""

from __future__ import annotations

from collections.abc import Iterable

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
    return Note(GRANT_SKIPPED, "filesystem.allow", f"{_ABSENT}{', '.join(paths)}")


_ABSENT = "left out, because they do not exist: "
_PLANTED = ": what the cage creates there stays on the host"  # and counts for nothing until it was looked at

# What weakens a policy, the widest first.
RANK = (
    "network.direct", WIDE_GRANT, DEGRADED, ISOLATION_GAP, NOT_COVERABLE, LIMITS_NOT_ENFORCED, "network.idle", MONITOR,
    GRANT_SKIPPED,
)  # fmt: skip


def weaker(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that say less than the policy asks, ranked: a path of a recipe that this host has not is nothing lost."""
    found = [note for note in notes if not note.message.startswith(_ABSENT)]
    return tuple(sorted(found, key=lambda note: RANK.index(note.event) if note.event in RANK else len(RANK)))


def worth_saying(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that whoever starts a command is to read each time, without asking: not what every run in an ordinary
    directory has, not what --monitor says by itself, and of the gaps of Landlock alone that there are some."""
    found = []
    for note in weaker(notes):
        if note.event == MONITOR or note.message.endswith(_PLANTED):
            continue
        if note.event == GRANT_SKIPPED and note.key != "filesystem.workdir":
            continue
        if note.event == ISOLATION_GAP:
            note = Note(ISOLATION_GAP, "isolation", "there are no namespaces: pysandbox explain lists what stays open")
        if note not in found:
            found.append(note)
    return tuple(found)


def not_coverable(key: str, message: str) -> Note:
    return Note(NOT_COVERABLE, key, message)


def guarded(key: str, message: str) -> Note:
    return Note(GRANT_SKIPPED, key, message)


def wide_grant(key: str, message: str) -> Note:
    return Note(WIDE_GRANT, key, message)
