"""What a run with --monitor says: before, what would hold without it; after, what would have been refused.

On standard error, where every line begins with `MONITOR:`, to be told from the command's own. Pure but for `say`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pysandbox.cli import console
from pysandbox.compile.notes import MONITOR
from pysandbox.denial import monitor_passes
from pysandbox.note import AT_THE_END, rank_of
from pysandbox.policy.explain import topics
from pysandbox.shapes import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from pysandbox.denial import Denial
    from pysandbox.note import Note
    from pysandbox.policy.model import Policy
    from pysandbox.result import Result

NO_SECURITY = (
    "This gives no security: what would be refused is recorded and let pass. Only files and network are confined."
)
WOULD, WAS = "Would have been refused:", "Was refused, with --monitor as well:"
LET_PASS = ("process.max_pids", "process.env_passthrough")
NOTHING = "Nothing of what is observed would have been refused."


def say(lines: Iterable[str]) -> None:
    for line in lines:
        console.monitor(line)


def preview(policy: Policy) -> Iterator[str]:
    yield NO_SECURITY
    yield "Without --monitor this policy would hold:"
    for heading, sentences in topics(replace(policy, monitor=False)):
        for sentence in sentences:
            yield f"  {heading}: {sentence}"


def summary(result: Result[Any]) -> Iterator[str]:
    ranked = sorted(result.denials, key=lambda denial: -denial.count)
    for heading, passes in ((WOULD, True), (WAS, False)):
        listed = [denial for denial in ranked if monitor_passes(denial) == passes]
        if listed:
            yield heading
            yield from map(_line, listed)
    if not ranked and not any(note.key == "syscalls.notifier" for note in _unobserved(result)):
        yield NOTHING
    for note in (*_let_pass(result), *_unobserved(result)):
        yield f"  {note.message[0].upper()}{note.message[1:]}."


def _let_pass(result: Result[Any]) -> list[Note]:
    """What no single refusal stands for (MODE-04)."""
    return [note for note in result.notes if note.event == MONITOR and note.key in LET_PASS]


def _unobserved(result: Result[Any]) -> list[Note]:
    return [note for note in result.notes if note.event == MONITOR and rank_of(note) == AT_THE_END]


def _line(denial: Denial) -> str:
    often = "once" if denial.count == 1 else f"{denial.count} times"
    line = f"  {denial.kind} {denial.target}, {often} ({denial.rule})"
    return f"{line}; to allow it: {denial.flag}" if denial.flag else line
