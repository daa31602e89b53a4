"""Patterns in `filesystem.deny` and `filesystem.mask`, such as `*.key` and `**/.env`.

They are those of glob(7), without exception for names that begin with a dot: `*`, `?` and `[...]` match within one
name. `**` as a whole component stands for any number of directories, none included. What matches is covered with all
that is in it. A bracket around a sign takes its meaning away: `[*]` is a star. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

SIGNS = "*?["
ANY_DEPTH = "**"


def has_signs(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text  # of SIGNS; asked of every path


def escape(text: str) -> str:
    """The pattern that matches `text` alone."""
    return "".join(f"[{each}]" if each in SIGNS else each for each in text) if has_signs(text) else text


@lru_cache(maxsize=1024)  # each look and each wall asks it of the same denials
def literal(pattern: str) -> str | None:
    """The one path that `pattern` stands for, or None when it may match others."""
    if not has_signs(pattern):
        return pattern
    plain, at = "", 0
    while at < len(pattern):
        in_brackets = pattern[at + 1 : at + 2]
        if pattern[at] == "[" and in_brackets and in_brackets in SIGNS and pattern[at + 2 : at + 3] == "]":
            plain, at = plain + in_brackets, at + 3
        elif pattern[at] in SIGNS:
            return None
        else:
            plain, at = plain + pattern[at], at + 1
    return plain


def fixed_part(pattern: str) -> tuple[str, tuple[str, ...]]:
    """(the directory below which an absolute pattern can match, what is left of it, by component)."""
    parts = _parts(pattern)
    first = next(at for at, part in enumerate(parts) if literal(part) is None)
    return "/" + "/".join(literal(part) or "" for part in parts[:first]), parts[first:]


def _parts(pattern: str) -> tuple[str, ...]:
    """The components of a pattern. At the end ANY_DEPTH is whatever is in the directory."""
    parts = pattern.strip("/").split("/")
    return (*parts[:-1], "*" if parts[-1] == ANY_DEPTH else parts[-1])


def covers_path(pattern: str, path: str) -> bool:
    """Whether an absolute path matches, or lies in something that does."""
    return _matched(pattern, path) is None


def may_match_in(pattern: str, directory: str) -> bool:
    """Whether a name somewhere below a directory, which is not covered itself, could match."""
    return bool(_matched(pattern, directory))


def _matched(pattern: str, path: str) -> frozenset[int] | None:
    """How far the components of `pattern` may have been matched by those of `path`; None: all of them were, by `path`
    or a directory above it."""
    matched = Matching(pattern)
    states: frozenset[int] | None = matched.start
    for name in filter(None, path.split("/")):
        states = matched.below(states, name)
        if states is None:
            return None
    return states


class Matching:
    """One pattern, on the way down: a state says how far its components may have been matched by those of a path.
    `spelled`: each component in another spelling; a state without it is one with it."""

    def __init__(self, pattern: str, spelled: Callable[[str], str] = str) -> None:
        self._parts = tuple(map(spelled, _parts(pattern)))
        self.start = frozenset(_with_no_directory({0}, self._parts))

    def below(self, states: frozenset[int] | None, name: str) -> frozenset[int] | None:
        """The states for a name in a directory. None: it matches, or lies in what does."""
        if states is None:
            return None
        parts = self._parts
        deeper = {at for at in states if parts[at] == ANY_DEPTH}
        found = deeper | {at + 1 for at in states - deeper if match_name(parts[at], name)}
        found = _with_no_directory(found, parts)
        return None if len(parts) in found else frozenset(found)


def _with_no_directory(states: set[int], parts: tuple[str, ...]) -> set[int]:
    """How far `parts` may have been matched, when each ANY_DEPTH may also stand for nothing."""
    ahead = list(states)
    while ahead:
        at = ahead.pop()
        if at < len(parts) and parts[at] == ANY_DEPTH and at + 1 not in states:
            states.add(at + 1)
            ahead.append(at + 1)
    return states


def match_name(pattern: str, name: str) -> bool:
    """Whether one component matches one name."""
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)
