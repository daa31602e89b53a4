"""Whether an operand lies in what was granted: domains, paths under prefixes, pairs of peers. Pure.

A path has one spelling here: relative, `/` between components, none of them empty, `.` or `..`, no control character,
and composed (NFC) where Unicode has two ways to write a letter. What is spelled otherwise is in no scope; nothing is
brought into form for an app, since what was checked must be what is opened. Unicode 3.2 decides about NFC under every
Python, so that a replay elsewhere decides alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from pysandbox.apps.opcodes import DOMAIN, ENTRY, PATH, PEER
from pysandbox.policy.below import covers
from pysandbox.policy.folding import caseless
from pysandbox.shapes import NamedTuple

WHOLE = "."  # the prefix that is the whole workspace
ANY_PEER = "*"
TRASH = ".pysandbox-trash"  # where FS_DELETE moves to: no app names it
LONGEST_PATH = 1024
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?)*")
_COMPONENT = r"(?!\.{1,2}(?:/|\Z))[^/\0-\x1f\x7f\ud800-\udfff]+"
_PATH = re.compile(f"{_COMPONENT}(?:/{_COMPONENT})*")

Check = Callable[[object], bool]


class Scopes(NamedTuple):
    """`domains` None: any domain, as document 004 has it; no prefix and no pair: no path and no channel."""

    domains: frozenset[str] | None = None
    prefixes: tuple[str, ...] = ()
    peers: frozenset[tuple[str, str]] | None = frozenset()  # None: the wildcard policy


def is_domain(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 128 and _DOMAIN.fullmatch(value) is not None


def _is_path(text: str) -> bool:
    return len(text) <= LONGEST_PATH and _is_spelled(text)


@lru_cache(maxsize=1024)
def _is_spelled(text: str) -> bool:
    """Kept for short texts alone: an app chooses them, and memory is the host's."""
    if not _PATH.fullmatch(text) or is_trash(text.partition("/")[0]):
        return False
    return text.isascii() or _composed(text)


def is_trash(name: str) -> bool:
    return caseless(name) == TRASH


def _composed(text: str) -> bool:
    """What Unicode 3.2 does not know counts as a digit, which composes with nothing: `ucd_3_2_0` has the order of marks
    from the tables of its Python."""
    from unicodedata import ucd_3_2_0

    known = "".join("0" if ucd_3_2_0.category(each) == "Cn" else each for each in text)
    return ucd_3_2_0.normalize("NFC", known) == known


def is_path(value: object) -> bool:
    """A path of a workspace in its one spelling, without the whole of it (`.`)."""
    return isinstance(value, str) and _is_path(value)


def under(prefixes: Iterable[str], path: str) -> bool:
    return any(prefix == WHOLE or covers(prefix, path) for prefix in prefixes)


def below(prefixes: Iterable[str], path: str) -> bool:
    """`under`, but no prefix itself."""
    return any(prefix == WHOLE or (covers(prefix, path) and prefix != path) for prefix in prefixes)


def checks_of(scopes: Scopes) -> dict[str, Check]:
    """What is asked of one operand, by its kind."""
    domains, prefixes = scopes.domains, scopes.prefixes

    def domain(value: object) -> bool:
        if domains is None:
            return is_domain(value)
        return isinstance(value, str) and value in domains

    def path(value: object) -> bool:
        if value == WHOLE:
            return WHOLE in prefixes
        return isinstance(value, str) and _is_path(value) and under(prefixes, value)

    def entry(value: object) -> bool:
        return isinstance(value, str) and _is_path(value) and below(prefixes, value)

    return {DOMAIN: domain, PEER: domain, PATH: path, ENTRY: entry}


def pair_allowed(scopes: Scopes, first: object, second: object) -> bool:
    """The order counts: a pair is from the app to its peer."""
    return scopes.peers is None or (first, second) in scopes.peers


def intersect(first: Scopes, second: Scopes) -> Scopes:
    """What both allow."""
    domains = first.domains
    if second.domains is not None:
        domains = second.domains if domains is None else domains & second.domains
    peers = first.peers
    if second.peers is not None:
        peers = second.peers if peers is None else peers & second.peers
    return Scopes(domains, _common(first.prefixes, second.prefixes), peers)


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    kept = {each for each in first if under(second, each)} | {each for each in second if under(first, each)}
    if WHOLE in kept and not (WHOLE in first and WHOLE in second):
        kept.discard(WHOLE)
    return tuple(sorted(kept))


def within(inner: Scopes, outer: Scopes) -> bool:
    """Whether `inner` allows nothing that `outer` does not."""
    if outer.domains is not None and (inner.domains is None or not inner.domains <= outer.domains):
        return False
    if outer.peers is not None and (inner.peers is None or not inner.peers <= outer.peers):
        return False
    return all(each == WHOLE or under(outer.prefixes, each) for each in inner.prefixes) and not (
        WHOLE in inner.prefixes and WHOLE not in outer.prefixes
    )
