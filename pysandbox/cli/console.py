"""How the command line speaks: one clear line on standard error, never a word on the command's standard output.

Errors are one plain line. What `-v` adds goes through `Log`: readable on a terminal, JSON lines elsewhere; there the
errors and warnings are JSON lines, too (`in_lines_of_json`), so that no reader has to tell them apart.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pysandbox.shapes import Any, TextIO

# Letters that Python calls printable and that show nothing (Unicode's Default_Ignorable_Code_Point, and a blank).
UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")

NEAR = 0.65  # of difflib: below it, what is proposed has little to do with what was typed

RED, GREEN, YELLOW, BOLD = "31", "32", "33", "1"


_structured: list[TextIO] = []  # the standard error that is read by programs


def in_lines_of_json() -> None:
    """From now on, where standard error is not a terminal."""
    if sys.stderr is not None and not sys.stderr.isatty():
        _structured[:] = [sys.stderr]


def error(message: str) -> None:
    _tell("error", f"pysandbox: error: {message}", message)


def warning(message: str) -> None:
    _tell("warning", f"pysandbox: warning: {message}", message)


def weaker(lines: Iterable[str]) -> None:
    """What this run is without, of what its policy asks."""
    for line in lines:
        _tell("weaker", f"pysandbox: weaker: {line}", line)


def say(message: str) -> None:
    """What the user is to know although nothing is wrong."""
    _tell("say", f"pysandbox: {message}", message)


def monitor(message: str) -> None:
    """A line about what --monitor saw."""
    _tell("monitor", f"MONITOR: {message}", message)


def usage_error(message: str, see: str) -> int:
    """Report wrong usage; the exit code for it."""
    error(f"{message}; see: {see}")
    return 125


def exit_code_after_loss(failure: OSError | None, code: int) -> int:
    """The exit code of a command that ended with `code`: not success, where not all that it wrote or read arrived."""
    if failure is None:
        return code
    error(str(failure))
    return code or 125


class Painted(str):
    """Text that went through `plain` and then got a colour of ours (`Palette.paint`)."""

    __slots__ = ()


def out(*lines: str | Sequence[str]) -> None:
    """Lines on standard output, each a text or several parts in a row. All that we print there goes through here,
    `document` or `generated`; only a `Painted` part keeps an escape sequence, and only ours."""
    if sys.stdout is not None:
        for line in lines:
            parts = (line,) if isinstance(line, str) else line
            print("".join(part if isinstance(part, Painted) else plain(part) for part in parts))


def out_with_tabs(line: str) -> None:
    """A line of a file on standard output: a tab stays one, every other control character is escaped."""
    if sys.stdout is not None:
        print("\t".join(plain(part) for part in line.split("\t")))


def generated(text: str) -> None:
    """Text of ours alone, its end of line included: nothing that anybody else wrote is in it."""
    if sys.stdout is not None:
        print(text, end="")


def document(value: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> None:
    """One JSON document on standard output; on a single line unless `indent` is given."""
    if sys.stdout is not None:
        print(in_json(value, indent=indent, default=default))


def in_json(value: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Pure ASCII without control characters: JSON leaves DEL alone, and a terminal does not."""
    import json

    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")


def show(lines: Iterable[str]) -> None:
    """Lines for the user on standard error, where standard output is somebody else's."""
    for line in lines:
        _line(line)


def show_parts(*parts: str) -> None:
    """One line on standard error, as `out` has it: what is `Painted` keeps its colour."""
    if sys.stderr is not None:
        print("".join(part if isinstance(part, Painted) else plain(part) for part in parts), file=sys.stderr)


def ask(question: str) -> None:
    if sys.stderr is not None:
        print(plain(question), end="", file=sys.stderr, flush=True)


def plain(text: str) -> str:
    """The text as one line that moves no cursor, rings no bell, hides and reorders nothing, whoever wrote it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter.isprintable() and letter not in UNSEEN else escaped(letter) for letter in text)


def escaped(letter: str) -> str:
    """As Python and TOML write it."""
    code = ord(letter)
    return repr(letter)[1:-1] if not letter.isprintable() else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _tell(kind: str, line: str, message: str) -> None:
    if _structured and _structured[0] is sys.stderr:
        _line(in_json({"event": f"cli.{kind}", "message": message}))
    else:
        _line(line)


def _line(text: str) -> None:
    if sys.stderr is not None:
        print(plain(text), file=sys.stderr)


def meant(word: str, known: Iterable[str]) -> str:
    """``, did you mean "..."?``, or nothing when nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=NEAR)
    return f', did you mean "{near[0]}"?' if near else ""


def version() -> str:
    from pysandbox import __version__

    return __version__


class Palette:
    """Colours for one stream: only on a terminal, and never when NO_COLOR is set (no-color.org)."""

    def __init__(self, stream: TextIO | None) -> None:
        terminal = stream is not None and stream.isatty()
        self.enabled = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def paint(self, code: str, text: str) -> Painted:
        return Painted(f"\x1b[{code}m{plain(text)}\x1b[0m" if self.enabled else plain(text))


class Log:
    """What `-v` says. Without it, silence."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose and sys.stderr is not None

    def say(self, event: str, /, **fields: object) -> None:
        if not self.verbose:
            return
        if sys.stderr.isatty():
            _line(f"pysandbox: {event}: " + ", ".join(f"{name}={value}" for name, value in fields.items()))
            return
        print(in_json({"event": event, **fields}, default=str), file=sys.stderr)
