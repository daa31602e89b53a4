"""What the handlers hold a call against: the lists in force, which only ever get narrower. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pysandbox.policy.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Rules:
    """`endpoints` may be reached in the network of the caller's socket; a process that bears a mark of `by_mark`, only
    what that list holds as well."""

    endpoints: tuple[Endpoint, ...]
    by_mark: Mapping[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    source: str = "network.egress"  # the policy key, or the callback's restriction, that a refusal names
    grants: tuple[Endpoint, ...] = ()  # reached through a socket of the host's network
    named: tuple[Endpoint, ...] = ()  # the same, for addresses that names stand for

    def narrowed(self, endpoints: tuple[Endpoint, ...], source: str) -> Rules:
        """What is in these as well."""
        return replace(
            self, endpoints=both(self.endpoints, endpoints), grants=both(self.grants, endpoints),
            named=both(self.named, endpoints), source=source,
        )  # fmt: skip


def both(one: tuple[Endpoint, ...], other: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """The endpoints that are in both lists."""
    shared = (_overlap(a, b) for a in one for b in other)
    return tuple(dict.fromkeys(each for each in shared if each is not None))


def _overlap(one: Endpoint, other: Endpoint) -> Endpoint | None:
    inner, outer = (one, other) if one.prefix >= other.prefix else (other, one)
    first, last = max(one.first_port, other.first_port), min(one.last_port, other.last_port)
    protocols = one.protocols & other.protocols
    if first > last or not protocols or not _covers(outer, inner):
        return None
    return Endpoint(inner.address, inner.prefix, first, last, protocols)


def _covers(outer: Endpoint, inner: Endpoint) -> bool:
    shift = 128 - outer.prefix
    return int.from_bytes(outer.address, "big") >> shift == int.from_bytes(inner.address, "big") >> shift
