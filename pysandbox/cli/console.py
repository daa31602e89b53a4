"""How the command line speaks: one clear line on standard error, never a word on the command's standard output.

Errors are always one plain line. What `-v` adds goes through `Log`: readable on a terminal, JSON lines elsewhere.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

RED, GREEN, YELLOW, BOLD = "31", "32", "33", "1"


def error(message: str) -> None:
    _line(f"pysandbox: error: {message}")


def warning(message: str) -> None:
    _line(f"pysandbox: warning: {message}")


def say(message: str) -> None:
    """What the user is to know although nothing is wrong."""
    _line(f"pysandbox: {message}")


def monitor(message: str) -> None:
    """A line about what --monitor saw."""
    _line(f"MONITOR: {message}")


def usage_error(message: str, see: str) -> int:
    """Report wrong usage; the exit code for it."""
    error(f"{message}; see: {see}")
    return 125


def plain(text: str) -> str:
    """The text as one line that moves no cursor and rings no bell, whoever wrote it."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _line(text: str) -> None:
    if sys.stderr is not None:
        print(plain(text), file=sys.stderr)


def meant(word: str, known: Iterable[str]) -> str:
    """``, did you mean "..."?``, or nothing when nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f', did you mean "{near[0]}"?' if near else ""


def version() -> str:
    from pysandbox import __version__

    return __version__


class Palette:
    """Colours for one stream: only on a terminal, and never when NO_COLOR is set (no-color.org)."""

    def __init__(self, stream: TextIO | None) -> None:
        terminal = stream is not None and stream.isatty()
        self.enabled = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled else text


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
        import json

        print(json.dumps({"event": event, **fields}, default=str), file=sys.stderr)
