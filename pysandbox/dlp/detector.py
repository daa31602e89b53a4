"""A detector is a row: the literals that nominate a place, the expression that verifies it, and where such a credential
may go. To add one, add its row in `detectors/` with two hits and two near misses; the suite walks all rows.

An expression is tried only around a literal, in a window of `lead` bytes before it and `longest` after its beginning,
and each try is charged to the budget: so many bytes as its window has, or `price`. So no text makes a scan slower than
its budget allows, whatever the expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pysandbox.shapes import Any, NamedTuple

ALNUM = b"A1b2C3d4E5f6G7h8J9k0LmNpQrStUvWxYz"  # what the vectors of the rows are filled with


class Detector(NamedTuple):
    """`homes` are patterns of host names (**.x: any number of labels below x); a credential without one belongs
    nowhere, unless a host of the policy lists it. `never`: not even then. What an expression calls `credential` is the
    find, where it has a group of that name."""

    name: str
    literals: tuple[bytes, ...]
    expression: bytes
    hits: tuple[bytes, ...]
    misses: tuple[bytes, ...]
    homes: tuple[str, ...] = ()
    never: bool = False
    lead: int = 0
    longest: int = 256
    price: int = 0  # of one try; 0: its window


@lru_cache(maxsize=256)
def compiled(expression: bytes) -> re.Pattern[bytes]:
    return re.compile(expression)


def own(rows: Iterable[Sequence[Any]]) -> tuple[Detector, ...]:
    """The detectors of a policy, from the rows that `policy.own_detector` makes of its blocks: bounded there."""
    return tuple(
        Detector(name, tuple(each.encode() for each in literals), expression.encode(), (), (), tuple(hosts),
                 lead=lead, longest=longest, price=price)
        for name, literals, expression, hosts, lead, longest, price in rows
    )  # fmt: skip


def filled(prefix: bytes, count: int, alphabet: bytes = ALNUM) -> bytes:
    """A credential of a vector: true to its form, and of no service. No scanner of sources takes it for a real one."""
    return prefix + (alphabet * (count // len(alphabet) + 1))[:count]


def below(*domains: str) -> tuple[str, ...]:
    """The patterns of these domains and of all names below them."""
    return tuple(each for domain in domains for each in (domain, f"**.{domain}"))
