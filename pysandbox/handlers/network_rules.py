"""The network rule: may this address be reached, and how? Pure, and the only place where Python decides it.

`NetworkRules` is one value for both who ask. The supervisor asks about calls of the cage (`reach`), and gives the C
half the same lists, encoded once, for the calls that it answers by itself (csrc/host/emulate/reach.c). The gatekeeper
asks about what it is to dial in the host's network (`grants_address`, `grants_resolved`). One table of cases is run
against all of them: tests/unit/handlers/test_network_rules.py.

Three ranges of addresses are nobody's by a range. What is special (`policy.endpoint.special`) is in no list that does
not name it. This host's own addresses are reached only where the whole address is written down. What a cage with a
network of its own has for itself is never reached outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pysandbox.policy.endpoint import ANYWHERE, OWN, TCP, WHOLE, Endpoint, special, without_special
from pysandbox.shapes import Literal, TypeAlias, dataclass

Reach: TypeAlias = Literal["grant", "local", ""]  # a socket of the host's network; the caller's own socket; not at all


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """Lists as they are meant, so that `narrowed` only ever takes away: no range in them holds what is special there.

    An address of the host's network is sixteen bytes here; `protocol` is one bit of Endpoint.protocols; `own` says that
    the address is this host's, as the kernel routes it.
    """

    local: tuple[Endpoint, ...] = ()  # in the network of the caller's socket
    grants: tuple[Endpoint, ...] = ()  # in the host's network
    named: tuple[Endpoint, ...] = ()  # the same, for an address to which a name has led
    own: tuple[Endpoint, ...] = ()  # of the grants those that hold although the address is this host's own

    @classmethod
    def of_list(cls, listed: Iterable[Endpoint], *, named: tuple[Endpoint, ...] = (ANYWHERE,)) -> NetworkRules:
        """What the lines of a policy grant in the host's network."""
        lines = tuple(listed)
        return cls(grants=tuple(piece for each in lines for piece in _meant(each)), named=named, own=whole(lines))

    def reach(
        self, address: bytes, port: int, protocol: int, *, own: bool, host_netns: bool = False,
        real: bytes | None = None,
    ) -> Reach:  # fmt: skip
        """How a call of the cage may reach the address. `host_netns`: its socket is of the host's network already;
        `real`: for which the address stands, of a name over TCP; whose that is was asked when it was resolved
        (`grants_resolved`)."""
        if real is not None and protocol == TCP and not is_cage_own(real) and holds(self.named, real, port, protocol):
            return "grant"
        if not is_cage_own(address) and self.grants_address(address, port, protocol, own=own):
            return "grant"
        return "local" if not host_netns and holds(self.local, address, port, protocol) else ""

    def grants_address(self, address: bytes, port: int, protocol: int, *, own: bool) -> bool:
        """Whether the list grants an address in the host's network that was asked for as such."""
        listed = holds(self.grants, address, port, protocol)
        return listed and (not own or holds(self.own, address, port, protocol))

    def grants_resolved(
        self, address: bytes, port: int, protocol: int, *, own: bool, private: tuple[str, ...] = ()
    ) -> bool:  # fmt: skip
        """Whether an address may be had that an allowed name was resolved to: its owner may have it lead anywhere.
        `private`: the private addresses that are listed for that name."""
        plain = not own and not is_special(address)
        listed = plain or self.grants_address(address, port, protocol, own=own)
        if not listed and private and protocol == TCP:
            from pysandbox.policy.private_networks import leads_into

            listed = leads_into(private, address, own=own)
        return listed and holds(self.named, address, port, protocol)

    def narrowed(self, endpoints: tuple[Endpoint, ...]) -> NetworkRules:
        """What is in these as well."""
        lists = (both(each, endpoints) for each in (self.local, self.grants, self.named, self.own))
        return NetworkRules(*lists)


def holds(listed: Iterable[Endpoint], address: bytes, port: int, protocol: int) -> bool:
    return any(each.holds(address, port, protocol) for each in listed)


def is_cage_own(address: bytes) -> bool:
    """Whether it lies in a cage's loopback, or among the addresses that stand for names and doors in it."""
    return holds(OWN, address, 0, TCP)


@lru_cache(maxsize=1024)
def is_special(address: bytes) -> bool:
    return holds(special(), address, 0, TCP)


def whole(lines: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """The lines that name one whole address. To be asked of a list as it was written: what is left of a range once its
    special addresses are out may be a single one."""
    return tuple(each for each in lines if each.prefix == WHOLE)


@lru_cache(maxsize=256)
def _meant(line: Endpoint) -> tuple[Endpoint, ...]:
    return without_special(line)


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
