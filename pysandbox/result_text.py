"""A Result in words: `short` for a prompt or a log, `told` for whoever prints it. Pure."""

from __future__ import annotations

import shlex

from pysandbox.shapes import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pysandbox.denial import Denial
    from pysandbox.note import Note

LONGEST_VALUE = 80  # letters of an output in a repr
LONGEST_OUTPUT = 4000  # letters of an output that is printed
MOST_DENIALS = 10


class Outcome(Protocol):
    """What is told of a Result (`pysandbox.result`)."""

    @property
    def argv(self) -> tuple[str, ...]: ...
    @property
    def exit_code(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def stdout(self) -> Any: ...
    @property
    def stderr(self) -> Any: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def duration(self) -> float: ...
    @property
    def denials(self) -> tuple[Denial, ...]: ...
    @property
    def notes(self) -> tuple[Note, ...]: ...
    @property
    def caged(self) -> bool: ...
    @property
    def no_route(self) -> bool: ...


def short(result: Outcome) -> str:
    """What an ordinary result lacks is left out."""
    parts = [
        _cut(repr(list(result.argv)), LONGEST_VALUE),
        f"exit_code={result.exit_code}",
        *([] if result.reason == "exited" else [f"reason={result.reason!r}"]),
        *(f"{name}={_value(value)}" for name, value in _captured(result)),
        *(["truncated=True"] if result.truncated else []),
        *(f"{name}=<{len(many)}>" for name, many in (("denials", result.denials), ("notes", _said(result))) if many),
        *([] if result.caged else ["caged=False"]),
        f"duration={result.duration:.3f}",
    ]
    return f"Result({', '.join(parts)})"


def told(result: Outcome) -> str:
    lines = [f"{_cut(shlex.join(result.argv), LONGEST_VALUE)!r} {_ending(result)} after {result.duration:.2f} s"]
    for name, value in _captured(result):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if text:
            lines += [f"{name}:", _cut(text.rstrip("\n"), LONGEST_OUTPUT)]
    if result.truncated:
        lines.append("(the output was longer than the policy's output_mb, and the rest was dropped)")
    lines += map(_refused, result.denials[:MOST_DENIALS])
    if len(result.denials) > MOST_DENIALS:
        lines.append(f"refused: {len(result.denials) - MOST_DENIALS} more, in denials")
    if result.no_route:
        lines.append("a host was looked for, and the policy lets the cage reach none")
    return "\n".join([*lines, *(f"note: {note.key}: {note.message}" for note in _said(result))])


def _said(result: Outcome) -> tuple[Note, ...]:
    """The notes of a result that are said without being asked for; an ordinary directory has others."""
    if not result.notes:
        return ()
    from pysandbox.note import last_words, worth_saying

    return (*worth_saying(result.notes), *last_words(result.notes))


def _captured(result: Outcome) -> list[tuple[str, Any]]:
    named = (("stdout", result.stdout), ("stderr", result.stderr))
    return [(name, value) for name, value in named if value is not None]


def _ending(result: Outcome) -> str:
    if result.reason == "exited":
        return f"ended with exit code {result.exit_code}"
    if result.reason == "signaled":
        return f"was ended by signal {result.signal}"
    words = {"timeout": "ran out of time", "oom": "ran out of memory", "cancelled": "was cancelled",
             "seccomp": "was killed for a system call"}  # fmt: skip
    return f"{words[result.reason]} (exit code {result.exit_code})"


def _refused(denial: Denial) -> str:
    times = f", {denial.count} times" if denial.count > 1 else ""
    fix = f"; to allow it: {denial.fix}" if denial.fix else ""
    return f"refused: {denial.kind} {denial.target} ({denial.rule}{times}){fix}"


def _value(value: Any) -> str:
    return repr(value) if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]!r}... ({len(value)} in all)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} in all)"
