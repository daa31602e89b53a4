"""One spelling for every host: what DNS, SOCKS, HTTP and TLS call a host is brought here to the form that is matched,
dialled and shown (T56), and held against a pattern (T03). Nothing else in this package may compare host names. Pure.

A text that a resolver could read as an address is an address, however it is spelled: 2130706433, 0177.0.0.1, 0x7f.1
and ::ffff:127.0.0.1 are all 127.0.0.1, and no name. What has two readings is refused instead of guessed at.
"""

from __future__ import annotations

from functools import lru_cache

from pysandbox.policy.netallow import LABEL, LONGEST_NAME, NUMERIC_LABEL
from pysandbox.policy.refusal import shown
from pysandbox.shapes import TYPE_CHECKING, TypeAlias
from pysandbox.shapes.pattern import pattern

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

IPAddress: TypeAlias = "IPv4Address | IPv6Address"

HOST_ALIAS = "host.pysandbox.internal"  # the host's own loopback, where network.allow_host_loopback is set
ANY_NAME = "**"  # no policy can write it: `contract_mode = "relaxed"` means it

LONGEST_TEXT = 4 * LONGEST_NAME  # of what is looked at at all: IDNA in the standard library is quadratic in it
NEVER = {"@": "user information", "%": "a percent sign or a zone", "/": "a slash", "\\": "a backslash", "?": "a query",
         "#": "a fragment", ",": "a comma", "*": "a star"}  # fmt: skip
# IDNA2003 and IDNA2008 read these differently (RFC 5894, 7.2): which name was meant cannot be told.
DEVIATIONS = "ßς\u200c\u200d"

_LABELS = pattern(rf"{LABEL}(?:\.{LABEL})*")
_NUMERIC = pattern(rf"(?s)(?:.*\.)?(?:{NUMERIC_LABEL})")
_PART = pattern(r"0x(?P<hex>[0-9a-f]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)")


class BadName(ValueError):
    """What was given as a host is none; says why."""


@lru_cache(maxsize=1024)
def canonical(text: str | bytes) -> str | IPAddress:
    """The one spelling of a host: a name in lower case, as A-labels and without the last dot; or an address. Raises
    BadName."""
    given = _decoded(text)
    _refuse_marks(given)
    if given.startswith("[") or given.count(":"):
        return _six(given)
    name = _ascii(given).lower()
    name = name.removesuffix(".")
    if _NUMERIC.fullmatch(name):
        return _four(given, name)
    if len(name) > LONGEST_NAME:
        raise BadName(f"{shown(given)} is longer than {LONGEST_NAME} characters")
    if not _LABELS.fullmatch(name):
        raise BadName(f"{shown(given)} {_what_is_wrong(name)}")
    return name


def matches(pattern: str, name: str) -> bool:
    """Whether a canonical name is what a canonical pattern says: `example.com` is itself alone, `*.example.com` exactly
    one label below it, `**.example.com` any number of them, but not example.com. ANY_NAME is every name."""
    if pattern == ANY_NAME:
        return True
    if pattern.startswith("**."):
        return name.endswith(pattern[2:]) and len(name) > len(pattern) - 2
    if pattern.startswith("*."):
        label, dot, rest = name.partition(".")
        return bool(label and dot) and rest == pattern[2:]
    return name == pattern


def within(inner: str, outer: str) -> bool:
    """Whether each name that the canonical pattern `inner` says is what `outer` says too."""
    if "*" not in inner:
        return matches(outer, inner)
    parents = [each.removeprefix("**.").removeprefix("*.") for each in (inner, outer)]
    if outer.startswith("**."):
        return parents[0] == parents[1] or parents[0].endswith(f".{parents[1]}")
    return inner == outer


def plain(address: IPAddress) -> IPAddress:
    """IPv4 in IPv6 clothing (::ffff:a.b.c.d) is IPv4: the kernel connects it as such."""
    return getattr(address, "ipv4_mapped", None) or address


def _decoded(text: str | bytes) -> str:
    if len(text) > LONGEST_TEXT:
        raise BadName(f"{shown(text)} is far longer than a host name")
    try:
        given = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        raise BadName(f"{shown(text)} is not text") from None
    if not given:
        raise BadName("a host name is missing")
    return given


def _refuse_marks(given: str) -> None:
    for letter in given:
        if letter <= " " or letter == "\x7f":
            what = "a NUL byte" if letter == "\0" else "a space" if letter == " " else "a control byte"
            raise BadName(f"{shown(given)} has {what} in it")
        if letter in NEVER:
            raise BadName(f"{shown(given)} has {NEVER[letter]} in it")
        if letter in DEVIATIONS:
            raise BadName(f"{shown(given)} has {letter!r} in it, which has two readings; spell it with xn--")


def _six(given: str) -> IPAddress:
    from ipaddress import IPv6Address

    inside = given[1:-1] if given.startswith("[") and given.endswith("]") else given
    try:
        return plain(IPv6Address(inside))
    except ValueError:
        raise BadName(f"{shown(given)} is neither a name nor an IPv6 address; a port does not belong to it") from None


def _ascii(given: str) -> str:
    """A-labels. The standard library has IDNA2003 alone, which maps every spelling of a name to one; what it maps
    otherwise than IDNA2008 was refused before, and what it cannot map is refused here. Since the outcome is what is
    matched and what is dialled, another reading can only miss a rule, never slip past one."""
    if given.isascii():
        return given
    try:
        mapped = given.encode("idna").decode("ascii")
    except UnicodeError as error:
        raise BadName(f"{shown(given)} cannot be written as a host name: {error}") from None
    _refuse_marks(mapped)  # a full-width at sign is an at sign now
    return mapped


def _four(given: str, name: str) -> IPv4Address:
    """As inet_aton(3) reads it: one to four parts, the last of which fills what the others leave."""
    from ipaddress import IPv4Address

    parts = [_number(each) for each in name.split(".")]
    if len(parts) > 4 or None in parts:
        raise BadName(f"{shown(given)} is neither a host name nor a whole address")
    numbers = [each for each in parts if each is not None]
    *leading, last = numbers
    if any(each > 255 for each in leading) or last >= 1 << (8 * (4 - len(leading))):
        raise BadName(f"{shown(given)} is no address: a part of it is too large")
    value = last
    for place, each in enumerate(leading):
        value |= each << (24 - 8 * place)
    return IPv4Address(value)


def _number(part: str) -> int | None:
    found = _PART.fullmatch(part) if len(part) <= 16 else None
    if found is None:
        return None
    if found["hex"]:
        return int(found["hex"], 16)
    return int(found["octal"], 8) if found["octal"] else int(found["decimal"])


def _what_is_wrong(name: str) -> str:
    labels = name.split(".")
    if "" in labels:
        return "has an empty label"
    if any(len(each) > 63 for each in labels):
        return "has a label of more than 63 characters"
    return "is not made of letters, digits, hyphens and underscores"
