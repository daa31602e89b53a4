"""A Note: what a cage does less than its policy asks, or otherwise; and who hears of it.

Its text and its event come from whoever found it (`compile.notes` for the Plan). Data, and pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pysandbox import events
from pysandbox.shapes import Literal, TypeAlias, dataclass

Rank: TypeAlias = Literal["", "said", "at the end", "on request", "no loss"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something the Plan does less than, or other than, the policy asked for. Becomes an event at launch.

    `rank`: "" is what its event has in RANKS, the one place that decides who hears of it.
    """

    event: str
    key: str
    message: str
    rank: Rank = ""


# Who hears of a note. SAID: whoever starts a command, each time, without asking; AT_THE_END: the same, of what the run
# has shown. ON_REQUEST: whoever asks (-v, explain, Result.notes), for every run in an ordinary directory has it, or
# something else says it. NO_LOSS: nothing is less than the policy asks, so that it is an event and no more.
SAID: Rank = "said"
AT_THE_END: Rank = "at the end"
ON_REQUEST: Rank = "on request"
NO_LOSS: Rank = "no loss"

# The rank of a note that has none of its own, by its event; the widest weakening first, which is how they are sorted.
RANKS: Mapping[str, Rank] = {
    events.DEGRADED.name: SAID,  # a wall that the policy asks for and this host lacks; what comes next was asked for
    "network.direct": SAID,
    events.WIDE_GRANT.name: SAID,
    events.ISOLATION_GAP.name: SAID,
    events.NOT_COVERABLE.name: SAID,
    events.LIMITS_NOT_ENFORCED.name: SAID,
    "network.idle": SAID,
    "network.left_out": SAID,
    events.MONITOR.name: ON_REQUEST,  # --monitor says it by itself
    events.GRANT_SKIPPED.name: ON_REQUEST,
    events.PLANTED.name: AT_THE_END,
    events.POLICY_VIOLATION.name: AT_THE_END,
}
ORDER = tuple(RANKS)


def rank_of(note: Note) -> Rank:
    """A note of an event that nobody ranked is said: it may be about a wall."""
    return note.rank or RANKS.get(note.event, SAID)


def weaker(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes by which a cage is weaker than the policy asks, the widest first."""
    found = [note for note in notes if rank_of(note) != NO_LOSS]
    return tuple(sorted(found, key=lambda note: ORDER.index(note.event) if note.event in RANKS else len(ORDER)))


def weaker_sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """What `weaker` finds, as sentences for `policy.explain.topics`."""
    return tuple(f"{note.key}: {note.message}." for note in weaker(notes))


def worth_saying(notes: Iterable[Note]) -> tuple[Note, ...]:
    """What whoever starts a command is to read, each once; of the gaps of Landlock alone that there are some."""
    said = (note for note in weaker(notes) if rank_of(note) == SAID)
    return tuple(dict.fromkeys(SOME_GAPS if note.event == events.ISOLATION_GAP.name else note for note in said))


def last_words(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes that only the end of the command has brought; what --monitor did not see is said by itself."""
    return tuple(note for note in weaker(notes) if rank_of(note) == AT_THE_END and note.event != events.MONITOR.name)


SOME_GAPS = Note(
    events.ISOLATION_GAP.name, "isolation", "there are no namespaces: pysandbox explain lists what stays open"
)
