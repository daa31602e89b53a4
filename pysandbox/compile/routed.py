"""The routed back end's rules: what a cage with an interface of its own may send, said three times.

    inside()   in the cage's network namespace: listed packets leave it, names arrive at the doors, every other TCP
               connection is refused, and the rest is dropped at once, so the sender sees EPERM and not a silence
    ingress()  where a cage's packets enter the host: the wall. It holds whatever becomes of the first
    around()   in the host's network, once for the bridge: nothing comes to a cage unasked, cages do not meet, and what
               leaves wears the host's address

`passages` decides the order. An address wholly written down is let out whatever it is. A range never leads to the host
itself, and to loopback, link-local, metadata and private addresses only when it lies within them: 0.0.0.0/0 is the
world, not the network behind it. IPv6 is off on these interfaces. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.netfilter import nftables as nft
from pysandbox.netfilter.netlink import REFUSE, Reached, led_by_name
from pysandbox.policy.endpoint import SYNTHETIC_NETWORK, SYNTHETIC_PREFIX, TCP, UDP, Endpoint
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import NamedTuple

NETWORK, NETWORK_PREFIX = b"\x0a\x8f\0\0", 16  # 10.143.0.0/16, document 000
LOOPBACK = b"\x7f\0\0\0"
ANY_PORT = (0, 0xFFFF)
DNS = 53

# What a range must lie within to reach it. RFC 6890, without the documentation blocks.
GUARDED: tuple[tuple[bytes, int], ...] = (
    (b"\0\0\0\0", 8), (b"\x0a\0\0\0", 8), (b"\x64\x40\0\0", 10), (b"\x7f\0\0\0", 8), (b"\xa9\xfe\0\0", 16),
    (b"\xac\x10\0\0", 12), (b"\xc0\0\0\0", 24), (b"\xc0\xa8\0\0", 16), (SYNTHETIC_NETWORK, SYNTHETIC_PREFIX),
    (b"\xe0\0\0\0", 4), (b"\xf0\0\0\0", 4),
)  # fmt: skip

LONGEST = 200_000  # bytes of a batch; net.core.wmem_default is 212,992 where nobody changed it

_PROTOCOLS = ((TCP, nft.TCP), (UDP, nft.UDP))


def bridge(policy: Policy, host: HostFacts) -> str:
    """The bridge that a cage of this policy is attached to; "" for doors alone. Raises SandboxCompileError,
    UnsupportedError."""
    if policy.network_backend != "routed":
        return ""
    if not host.nf_tables:
        message = 'backend = "routed" holds cages to their list by nf_tables, which this kernel lacks'
        raise UnsupportedError(message, feature="nf_tables", fix='modprobe nf_tables nft_fib_netdev, or use "doors"')
    return policy.bridge


def check_backend(policy: Policy) -> None:
    """SandboxCompileError for a back end that the rest of the policy leaves nothing to do."""
    if policy.egress != "proxy-only" or policy.isolation != "full":
        raise SandboxCompileError(
            f'"routed" is a way out of a full cage, beside the doors; this one has egress = "{policy.egress}" and '
            f'isolation = "{policy.isolation}"', key="network.backend",
            suggestion='set egress = "proxy-only" and isolation = "full", or leave backend out',
        )  # fmt: skip


class Passage(NamedTuple):
    """The match of one rule, and what becomes of what matches."""

    match: bytes
    open: bool
    protocol: int = 0  # 0 is any
    host: bool = False  # of use to the host only


def passages(endpoints: tuple[Endpoint, ...]) -> Iterator[Passage]:
    """In order; what none of them matches is refused."""
    four = [each for each in endpoints if each.is_four]
    single = [each for each in four if each.prefix == 128]
    within = [each for each in four if each.prefix < 128 and _is_guarded(each)]
    wide = [each for each in four if each.prefix < 128 and not _is_guarded(each)]
    yield Passage(nft.destination(NETWORK, NETWORK_PREFIX), False)  # another cage, or the bridge
    yield from _opened(single)
    yield Passage(nft.not_unicast(), False, host=True)
    yield from _opened(within)
    for address, prefix in GUARDED if wide else ():
        yield Passage(nft.destination(address, prefix), False)
    yield from _opened(wide)


def _is_guarded(endpoint: Endpoint) -> bool:
    ours = int.from_bytes(endpoint.address[12:], "big")
    return any(
        endpoint.prefix - 96 >= prefix and ours >> (32 - prefix) == int.from_bytes(address, "big") >> (32 - prefix)
        for address, prefix in GUARDED
    )


def _opened(endpoints: list[Endpoint]) -> Iterator[Passage]:
    for each in endpoints:
        to, whole = nft.destination(each.address[12:], each.prefix - 96), (each.first_port, each.last_port) == ANY_PORT
        for bit, number in _PROTOCOLS:
            if each.protocols & bit:
                # Names are the resolver's, unless an entry names its port: any port is any but 53.
                at = nft.any_port_but(DNS) if whole else nft.ports(each.first_port, each.last_port)
                yield Passage(to + nft.protocol(number) + at, True, number)
                yield Passage(to + nft.protocol(number) + nft.later_fragment(), True, number, host=True)
        if whole and each.protocols == TCP | UDP:
            yield Passage(to + nft.echo_request(), True, nft.ICMP)


# ---- the cage's side ----------------------------------------------------------------------------------------------

TABLE = "pysandbox"
_OUTPUT, _INGRESS = 3, 0  # NF_INET_LOCAL_OUT, NF_NETDEV_INGRESS
_DSTNAT, _FILTER, _SRCNAT = -100, 0, 100


def inside(endpoints: tuple[Endpoint, ...], names: Sequence[Reached], at: str, dns: int) -> bytes:
    """`at` is the address of the doors, `dns` the port where names are asked; `names` is where connections arrive at
    the TCP door, as `netlink.redirect` takes it. Raises SandboxCompileError."""
    doors = bytes(map(int, at.split(".")))
    listed = [each for each in passages(endpoints) if not each.host]
    led = (
        nft.destination(LOOPBACK, 8) + nft.RETURN,
        nft.destination(doors) + nft.RETURN,
        nft.interface("oifname", "lo")
        + nft.destination(NETWORK, NETWORK_PREFIX)
        + nft.RETURN,  # the cage's own address
        *(each.match + (nft.RETURN if each.open else REFUSE) for each in listed if each.protocol != nft.ICMP),
        nft.protocol(nft.UDP) + nft.ports(DNS, DNS) + nft.dnat(doors, dns),
        nft.protocol(nft.TCP) + nft.ports(DNS, DNS) + nft.dnat(doors, dns),
        *led_by_name(names),
        REFUSE,
    )
    let = (
        nft.interface("oifname", "lo") + nft.ACCEPT,
        nft.destination(LOOPBACK, 8) + nft.ACCEPT,
        nft.destination(SYNTHETIC_NETWORK, SYNTHETIC_PREFIX)
        + nft.ACCEPT,  # led to a door just now: still bound for the way out
        *(each.match + (nft.ACCEPT if each.open else nft.DROP) for each in listed),
    )
    made = nft.batch(nft.IPV4, (
        nft.new_table(TABLE),
        nft.base_chain(TABLE, "output", "nat", _OUTPUT, _DSTNAT, accept=True),
        nft.base_chain(TABLE, "way-out", "filter", _OUTPUT, _FILTER, accept=False),
        *nft.rules(TABLE, "output", led),
        *nft.rules(TABLE, "way-out", let),
    ))  # fmt: skip
    if max(len(made), len(ingress(TABLE, TABLE, doors, endpoints))) > LONGEST:
        raise SandboxCompileError(
            f"{len(endpoints)} addresses are more rules than the kernel takes at once", key="network.allow_ips",
            suggestion='write ranges (10.0.0.0/8) instead of single addresses, or leave backend = "routed" out',
        )  # fmt: skip
    return made


# ---- the host's side ----------------------------------------------------------------------------------------------


def closed(table: str, device: str) -> nft.Body:
    """The chain of a cage with nothing in it: nothing passes."""
    return nft.base_chain(table, "ingress", "filter", _INGRESS, _FILTER, accept=False, device=device)


def ingress(table: str, device: str, cage: bytes, endpoints: tuple[Endpoint, ...]) -> bytes:
    """The chain of one cage, at the host's end of its pair; `cage` is its address. A counter tells what was refused."""
    chosen = (
        nft.arp_from(cage) + nft.ACCEPT,
        nft.is_ip(other=True) + nft.COUNT + nft.DROP,  # IPv6 with it
        nft.source(cage, other=True) + nft.COUNT + nft.DROP,  # spoofed
        *(each.match + (nft.ACCEPT if each.open else nft.COUNT + nft.DROP) for each in passages(endpoints)),
        nft.COUNT + nft.DROP,
    )
    return nft.batch(nft.NETDEV, (
        closed(table, device),
        *nft.rules(table, "ingress", chosen),
    ))  # fmt: skip


def around(bridge: str) -> bytes:
    """The table of the bridge, named like it. What is there of an earlier one is replaced in the same step."""
    here, there = nft.interface("iifname", bridge), nft.interface("oifname", bridge)
    into = (there + nft.answer() + nft.ACCEPT, there + nft.DROP)
    ours = nft.destination(NETWORK, NETWORK_PREFIX)
    chains = (
        # The last one: an answer to a cage that is gone would follow the default route, back to where it came from.
        ("forward", "filter", 2, _FILTER, (here + there + nft.DROP, *into, ours + nft.DROP)),
        ("input", "filter", 1, _FILTER, (here + ours + nft.DROP,)),
        # Neither do other users of the host come in, nor does a cage reach the bridge by having the gatekeeper dial it.
        ("output", "filter", _OUTPUT, _FILTER, (ours + nft.answer() + nft.ACCEPT, ours + nft.DROP)),
        ("postrouting", "nat", 4, _SRCNAT, (
            nft.source(NETWORK, NETWORK_PREFIX) + nft.interface("oifname", bridge, other=True) + nft.MASQUERADE,
        )),
    )  # fmt: skip
    return nft.batch(nft.IPV4, (
        nft.new_table(bridge), nft.delete_table(bridge), nft.new_table(bridge, "cages of pysandbox"),
        *(body for name, kind, hook, priority, each in chains for body in (
            nft.base_chain(bridge, name, kind, hook, priority, accept=True), *nft.rules(bridge, name, each),
        )),
    ))  # fmt: skip


# ---- the interface inside the cage (rtnetlink) --------------------------------------------------------------------

_NEWLINK, _NEWADDR, _NEWROUTE = 16, 20, 24
_AF_INET, _AF_INET6 = 2, 10
_IFLA_AF_SPEC, _ADDRESS_MODE, _NO_ADDRESS = 26, 8, b"\x01"  # IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE
_IFF_UP, _LOOPBACK_INDEX = 1, 1
_MAIN, _LOCAL = 254, 255  # routing tables
_GLOBAL, _HOST = 0, 254  # scopes
_UNICAST, _TYPE_LOCAL, _BOOT = 1, 2, 3


def local_routes() -> bytes:
    """Only the doors and the addresses of names are local to the cage; all else has a way out, or none."""
    return _route(
        1, _LOCAL, _HOST, _TYPE_LOCAL, SYNTHETIC_PREFIX, nft.attribute(1, SYNTHETIC_NETWORK) + _of(_LOOPBACK_INDEX)
    )


def interface(index: int, cage: bytes, gateway: bytes, prefix: int) -> bytes:
    """Gives the cage's end of the pair its address, raises it, and makes it the way out."""
    no_ipv6 = nft.attribute(_IFLA_AF_SPEC, nft.attribute(_AF_INET6, nft.attribute(_ADDRESS_MODE, _NO_ADDRESS)))
    address = struct.pack("=BBBBI", _AF_INET, prefix, 0, _GLOBAL, index)
    return b"".join((
        _link(1, index, 0, no_ipv6),
        nft.message(_NEWADDR, nft.REQUEST | nft.ACK | nft.CREATE | nft.EXCL, 2,
                    address + nft.attribute(2, cage) + nft.attribute(1, cage)),
        _link(3, index, _IFF_UP, b""),
        _route(4, _MAIN, _GLOBAL, _UNICAST, 0, nft.attribute(5, gateway) + _of(index)),
    ))  # fmt: skip


def _of(index: int) -> bytes:
    return nft.attribute(4, struct.pack("=I", index))  # RTA_OIF


def _link(sequence: int, index: int, flags: int, attributes: bytes) -> bytes:
    header = struct.pack("=BBHiII", 0, 0, 0, index, flags, flags)
    return nft.message(_NEWLINK, nft.REQUEST | nft.ACK, sequence, header + attributes)


def _route(sequence: int, table: int, scope: int, kind: int, prefix: int, attributes: bytes) -> bytes:
    header = struct.pack("=BBBBBBBBI", _AF_INET, prefix, 0, 0, table, _BOOT, scope, kind, 0)
    return nft.message(_NEWROUTE, nft.REQUEST | nft.ACK | nft.CREATE | nft.EXCL, sequence, header + attributes)
