"""The netlink messages that turn a cage's network namespace into one with doors, as bytes. START HERE: the tables.

    ROUTES    every IPv4 address is local to the cage: nothing it sends can leave, all of it can be answered
    REDIRECT  what is sent to where a policy lets it arrives at a door instead, every other connection is refused by
              the kernel: one batch of nf_tables messages; `redirect` makes it for a policy that lists more than names

The probe (`probe.kernel`) tries the very bytes that a cage will get, so they live below both. Pure; the
numbers are those of linux/netlink.h and rtnetlink.h; how nf_tables is spoken to is in `nftables`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from pysandbox.netfilter import nftables as nft
from pysandbox.policy.endpoint import SYNTHETIC_NETWORK, SYNTHETIC_PREFIX
from pysandbox.shapes import NamedTuple

_ADDRESS = SYNTHETIC_NETWORK[:3] + b"\1"
DOORS = ".".join(map(str, _ADDRESS))  # all of them listen there
DNS_PORT, TCP_PORT = 53, 3129

# ---- rtnetlink ------------------------------------------------------------------------------------------------

RTM_NEWROUTE, RTA_OIF = 24, 4
AF_INET, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL = 2, 255, 3, 254, 2
LOOPBACK_INDEX = 1  # of lo, in every network namespace

# ip route add local 0.0.0.0/0 dev lo table local
ROUTES = nft.message(
    RTM_NEWROUTE, nft.REQUEST | nft.ACK | nft.CREATE | nft.EXCL, 1,
    struct.pack("=BBBBBBBBI", AF_INET, 0, 0, 0, TABLE_LOCAL, PROTOCOL_BOOT, SCOPE_HOST, TYPE_LOCAL, 0)
    + nft.attribute(RTA_OIF, struct.pack("=I", LOOPBACK_INDEX)),
)  # fmt: skip

# ---- nf_tables ------------------------------------------------------------------------------------------------

TABLE, CHAIN, RESOLVERS, LISTED = "pysandbox", "output", "resolvers", "listed-{}"
AT_ONCE = 2000  # ranges in one transaction: one is sent as a whole, and a socket takes some 200 KiB
HOOK_OUTPUT, PRIORITY_DSTNAT = 3, -100
_LOOPBACK = bytes((127, 0, 0, 0))
_REFUSER = SYNTHETIC_NETWORK[:3] + b"\2"
REFUSER = ".".join(map(str, _REFUSER))


class Reached(NamedTuple):
    """Where connections arrive at the TCP door, which decides then: networks, each an IPv4 address and a prefix, on
    these ports, inclusive; () is any port."""

    networks: tuple[tuple[bytes, int], ...]
    ports: tuple[tuple[int, int], ...]


NAMES = Reached(((SYNTHETIC_NETWORK, SYNTHETIC_PREFIX),), ())
# Port 0 is nobody's: no program can listen there, so the kernel answers with a reset, and connect(2) with ECONNREFUSED.
# Whoever hears of it (`gate.tcp.refused`) reads in the packet where it was meant to go.
REFUSE = nft.protocol(nft.TCP) + nft.note_destination() + nft.dnat(_REFUSER, 0)
# Names are asked of the DNS door, whichever server they are asked of. The cage's own loopback and the doors themselves
# are left alone: dnat and not redirect, which would lead into 127.0.0.0/8.
_OWN = (nft.destination(_LOOPBACK, 8) + nft.RETURN, nft.destination(_ADDRESS) + nft.RETURN)
_DNS = (
    nft.protocol(nft.UDP) + nft.ports(53, 53) + nft.dnat(_ADDRESS, DNS_PORT),
    nft.protocol(nft.TCP) + nft.ports(53, 53) + nft.dnat(_ADDRESS, DNS_PORT),
)
_DOOR = nft.dnat(_ADDRESS, TCP_PORT)


def redirect(
    resolvers: Sequence[tuple[bytes, int]] = (), names: Sequence[Reached] = (NAMES,), listed: Sequence[Reached] = ()
) -> bytes:
    """`resolvers` are networks that may be asked for names themselves: over TCP by the TCP door, over UDP by whoever
    listens at the address (`gate.udp.forwarders`). `names` lie in the network of the synthetic addresses, `listed`
    outside of it. However many networks a list has, they are one set; what is more than one transaction takes follows
    in others.
    """
    sets = {RESOLVERS: _ranges(resolvers)} if resolvers else {}
    sets |= {LISTED.format(number): _ranges(each.networks) for number, each in enumerate(listed)}
    asked = nft.destination_in(RESOLVERS) + nft.ports(53, 53)
    chosen = (nft.protocol(nft.UDP) + asked + nft.RETURN, nft.protocol(nft.TCP) + asked + _DOOR) if resolvers else ()
    wall = (
        nft.new_table(TABLE),
        nft.base_chain(TABLE, CHAIN, "nat", HOOK_OUTPUT, PRIORITY_DSTNAT, accept=True),
        *(nft.new_set(TABLE, each) for each in sets),
        *(nft.nothing_below(TABLE, name) for name, ranges in sets.items() if ranges[0][0]),
        *nft.rules(TABLE, CHAIN, (*_OWN, *chosen, *_DNS, *led_by_name(names), *_led_by_list(listed), REFUSE)),
    )
    filled = (
        nft.batch(nft.IPV4, nft.elements(TABLE, name, ranges[at : at + AT_ONCE]))
        for name, ranges in sets.items()
        for at in range(0, len(ranges), AT_ONCE)
    )
    return nft.batch(nft.IPV4, wall, answered=True) + b"".join(filled)


def led_by_name(names: Sequence[Reached]) -> Iterator[bytes]:
    """The rules for the synthetic addresses; what none of them leads is refused."""
    for each in names:
        for address, prefix in each.networks:
            yield from (nft.destination(address, prefix) + at + _DOOR for at in _at(each))
    yield nft.destination(SYNTHETIC_NETWORK, SYNTHETIC_PREFIX) + REFUSE


def _led_by_list(listed: Sequence[Reached]) -> Iterator[bytes]:
    for number, each in enumerate(listed):
        yield from (nft.destination_in(LISTED.format(number)) + at + _DOOR for at in _at(each))


def _at(reached: Reached) -> list[bytes]:
    tcp = nft.protocol(nft.TCP)
    return [tcp + nft.ports(*each) for each in reached.ports] or [tcp]


def _ranges(networks: Sequence[tuple[bytes, int]]) -> list[tuple[int, int]]:
    """First and last addresses, in their order; what overlaps or touches is one."""
    found: list[tuple[int, int]] = []
    for address, prefix in sorted(networks):
        size = 1 << (32 - prefix)
        first = int.from_bytes(address, "big") & ~(size - 1)
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], first + size - 1)
        else:
            found.append((first, first + size - 1))
    return found


REDIRECT = redirect()
