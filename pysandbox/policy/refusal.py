"""How a wrong value is refused: `Refused`, and the words a refusal is made of.

`Refused` knows what is wrong, not where: the caller that knows (a keyword, a line of a file) makes a PolicyError of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pysandbox.errors import PolicyError

_SHOWN = 60
_NEAR = 0.65  # of difflib: below it, what is proposed has little to do with what was written


class CommandRefused(Exception):
    """A value that its option cannot hold. `at` leads from the value to the offending part (list index, table key)."""

    def __init__(self, message: str, suggestion: str | None = None, at: tuple[int | str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
        self.at = at

    def error(self, key: str, *, file: str | None = None, line: int | None = None) -> PolicyError:
        return PolicyError(self.message, file=file, line=line, key=key, suggestion=self.suggestion)


def shown(value: object) -> str:
    """The value as a message shows it: short, on one line, and never itself a failure (a huge int has no repr)."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to print"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def did_you_mean(word: str, known: Iterable[str], spelled: Callable[[str], str] = str) -> str | None:
    """A suggestion for a misspelt word, as `spelled`, or None when nothing comes close."""
    from difflib import get_close_matches

    close = get_close_matches(word[:_SHOWN], list(known), n=1, cutoff=_NEAR)
    return f'did you mean "{spelled(close[0])}"?' if close else None
