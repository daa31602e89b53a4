"""The netlink messages that turn a cage's network namespace into one with doors, as bytes. START HERE: the tables.

    ROUTES    every IPv4 address is local to the cage: nothing it sends can leave, all of it can be answered
    REDIRECT  what is sent out of 127.0.0.0/8 arrives at a door instead: one batch of nf_tables messages;
              `redirect` makes it for a cage that may ask resolvers of its own

The probe tries the very bytes that a cage will get, which is why they live here and not in `compile`. Pure; the
numbers are those of linux/netlink.h and rtnetlink.h; how nf_tables is spoken to is in `nftables`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pysandbox.policy.endpoint import SYNTHETIC_NETWORK
from pysandbox.probe import nftables as nft

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

TABLE, CHAIN, RESOLVERS = "pysandbox", "output", "resolvers"
AT_ONCE = 2000  # ranges in one transaction: one is sent as a whole, and a socket takes some 200 KiB
HOOK_OUTPUT, PRIORITY_DSTNAT = 3, -100
_LOOPBACK = bytes((127, 0, 0, 0))

# Names are asked of the DNS door, whichever server they are asked of; every other TCP connection arrives at the TCP
# door. The cage's own loopback, and the doors themselves, are left alone: dnat and not redirect, which would lead into
# 127.0.0.0/8.
_OWN = (nft.destination(_LOOPBACK, 8) + nft.RETURN, nft.destination(_ADDRESS) + nft.RETURN)
_LED = (
    nft.protocol(nft.UDP) + nft.ports(53, 53) + nft.dnat(_ADDRESS, DNS_PORT),
    nft.protocol(nft.TCP) + nft.ports(53, 53) + nft.dnat(_ADDRESS, DNS_PORT),
    nft.protocol(nft.TCP) + nft.dnat(_ADDRESS, TCP_PORT),
)


def redirect(resolvers: Sequence[tuple[bytes, int]] = ()) -> bytes:
    """`resolvers` are networks, each an IPv4 address and a prefix, that may be asked for names themselves: over TCP by
    the TCP door, over UDP by whoever listens at the address (`gate.outbound`). However many, they are one set and two
    rules; what is more than one transaction takes follows in others."""
    ranges = _ranges(resolvers)
    asked = nft.destination_in(RESOLVERS) + nft.ports(53, 53)
    chosen = (
        nft.protocol(nft.UDP) + asked + nft.RETURN,
        nft.protocol(nft.TCP) + asked + nft.dnat(_ADDRESS, TCP_PORT),
    )  # fmt: skip
    wall = (
        nft.new_table(TABLE),
        nft.base_chain(TABLE, CHAIN, "nat", HOOK_OUTPUT, PRIORITY_DSTNAT, accept=True),
        *([nft.new_set(TABLE, RESOLVERS)] if ranges else []),
        *([nft.nothing_below(TABLE, RESOLVERS)] if ranges and ranges[0][0] else []),
        *nft.rules(TABLE, CHAIN, (*_OWN, *(chosen if ranges else ()), *_LED)),
    )
    listed = (
        nft.batch(nft.IPV4, nft.elements(TABLE, RESOLVERS, ranges[at : at + AT_ONCE]))
        for at in range(0, len(ranges), AT_ONCE)
    )
    return nft.batch(nft.IPV4, wall, answered=True) + b"".join(listed)


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
