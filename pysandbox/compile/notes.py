"""The notes a Plan may carry: their events, their ranks, and one constructor for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pysandbox import events
from pysandbox.compile.plan import Note, Rank

GRANT_SKIPPED = events.GRANT_SKIPPED.name
NOT_COVERABLE = events.NOT_COVERABLE.name
WIDE_GRANT = events.WIDE_GRANT.name
DEGRADED = events.DEGRADED.name
LIMITS_NOT_ENFORCED = events.LIMITS_NOT_ENFORCED.name
ISOLATION_GAP = events.ISOLATION_GAP.name
MONITOR = events.MONITOR.name
WORKDIR = "filesystem.workdir"


# Who hears of a note. SAID: whoever starts a command, each time, without asking; AT_THE_END: the same, of what the run
# has shown. ON_REQUEST: whoever asks (-v, explain, Result.notes), for every run in an ordinary directory has it, or
# something else says it. NO_LOSS: nothing is less than the policy asks, so that it is an event and no more.
SAID: Rank = "said"
AT_THE_END: Rank = "at the end"
ON_REQUEST: Rank = "on request"
NO_LOSS: Rank = "no loss"

# The rank of a note that has none of its own, by its event; the widest weakening first, which is how they are sorted.
RANKS: Mapping[str, Rank] = {
    "network.direct": SAID,
    WIDE_GRANT: SAID,
    DEGRADED: SAID,
    ISOLATION_GAP: SAID,
    NOT_COVERABLE: SAID,
    LIMITS_NOT_ENFORCED: SAID,
    "network.idle": SAID,
    MONITOR: ON_REQUEST,  # --monitor says it by itself
    GRANT_SKIPPED: ON_REQUEST,
    events.PLANTED.name: AT_THE_END,
    events.POLICY_VIOLATION.name: AT_THE_END,
}
ORDER = tuple(RANKS)


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


def rank_of(note: Note) -> Rank:
    """A note of an event that nobody ranked is said: it may be about a wall."""
    return note.rank or RANKS.get(note.event, SAID)


def weaker(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that say less than the policy asks, the widest first."""
    found = [note for note in notes if rank_of(note) != NO_LOSS]
    return tuple(sorted(found, key=lambda note: ORDER.index(note.event) if note.event in RANKS else len(ORDER)))


def worth_saying(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that whoever starts a command is to read, each once; of the gaps of Landlock alone that there are some."""
    said = (note for note in weaker(notes) if rank_of(note) == SAID)
    return tuple(dict.fromkeys(SOME_GAPS if note.event == ISOLATION_GAP else note for note in said))


def last_words(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Those that only the end of the command has brought; what --monitor did not see is said by itself."""
    return tuple(note for note in weaker(notes) if rank_of(note) == AT_THE_END and note.event != MONITOR)


SOME_GAPS = Note(ISOLATION_GAP, "isolation", "there are no namespaces: pysandbox explain lists what stays open")


def unobserved(key: str, message: str) -> Note:
    """What --monitor did not see: its silence about that means nothing."""
    return Note(MONITOR, key, f"not observed: {message}", AT_THE_END)


def not_coverable(key: str, message: str) -> Note:
    return Note(NOT_COVERABLE, key, message)


def guarded(key: str, message: str) -> Note:
    return Note(GRANT_SKIPPED, key, message)


def wide_grant(key: str, message: str) -> Note:
    return Note(WIDE_GRANT, key, message)
