"""Where the synthetic addresses of a cage lie: names whose grants list the same ports have a network of their own, so
that the kernel of the cage knows which connections may be made, and refuses the others at once (`netfilter.netlink`).

The first pool is of names that may be reached on any port, and of those whose ports are no list of one grant: there the
TCP door decides. Pure; `compile.doors` writes the rules, `gate.dns.names` gives out the addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pysandbox.compile.plan import HostGrant
from pysandbox.netfilter.netlink import Reached
from pysandbox.policy.endpoint import SYNTHETIC_NETWORK, SYNTHETIC_PREFIX
from pysandbox.policy.names import HOST_ALIAS, matches

MOST_POOLS = 16  # each has more addresses than names are kept for
MOST_PORTS = 8  # of one list, each of which is a rule, and has an answer of the kernel's that must find room

Ports = tuple[int, ...]


def nearest(hosts: Sequence[HostGrant], name: str) -> list[HostGrant]:
    """The grants that decide of a canonical name: the most specific ones that match it, and no other. A name before
    `*.`, that before `**.`; among them the longer."""
    found = [each for each in hosts if matches(each.pattern, name)]
    if len(found) < 2:
        return found
    most = max(_specific(each.pattern) for each in found)
    return [each for each in found if _specific(each.pattern) == most]


def _specific(pattern: str) -> tuple[int, int]:
    """The larger, the more specific."""
    stars = 2 if pattern.startswith("**") else int(pattern.startswith("*."))
    return -stars, len(pattern)


def port_lists(hosts: Sequence[HostGrant], loopback_ports: Ports | None) -> tuple[Ports, ...]:
    """What each pool is for; () is any port."""
    listed = {_ordered(each.ports) for each in hosts} | {_ordered(loopback_ports or ())}
    return ((), *sorted(each for each in listed if 0 < len(each) <= MOST_PORTS))[:MOST_POOLS]


def pool_of(name: str, hosts: Sequence[HostGrant], loopback_ports: Ports | None) -> int:
    """The place in `port_lists` of a name that may be resolved."""
    found = [each.ports for each in nearest(hosts, name)]
    if name == HOST_ALIAS:
        found = [loopback_ports or ()]
    ports = _ordered(port for each in found for port in each) if all(found) else ()
    lists = port_lists(hosts, loopback_ports)
    return lists.index(ports) if ports in lists else 0


def network(place: int, pools: int) -> tuple[bytes, int]:
    """The first address and the prefix of one pool out of so many."""
    bits = (pools - 1).bit_length()
    first = int.from_bytes(SYNTHETIC_NETWORK, "big") | place << (32 - SYNTHETIC_PREFIX - bits)
    return first.to_bytes(4, "big"), SYNTHETIC_PREFIX + bits


def reached(hosts: Sequence[HostGrant], loopback_ports: Ports | None) -> tuple[Reached, ...]:
    lists = port_lists(hosts, loopback_ports)
    return tuple(
        Reached((network(place, len(lists)),), tuple((port, port) for port in ports))
        for place, ports in enumerate(lists)
    )


def _ordered(ports: Iterable[int]) -> Ports:
    return tuple(sorted(set(ports)))
