"""One line of a list of addresses: `ADDRESS[/PREFIX][:PORT[-PORT]][/tcp|/udp]`, read strictly.

An address is kept as sixteen bytes, IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), so that one comparison serves every
spelling. An IPv6 address with a port stands in brackets. No names: a name is the gatekeeper's to resolve. Pure.
"""

from __future__ import annotations

from _socket import AF_INET6, inet_pton  # the module that wraps it brings ten others
from collections.abc import Iterable, Iterator
from functools import cache

from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.shapes import NamedTuple
from pysandbox.shapes.pattern import pattern

MAPPED = b"\0" * 10 + b"\xff\xff"
TCP, UDP = 1, 2  # bits of Endpoint.protocols; the same in csrc/host/notify/notify.h
WHOLE = 128  # bits of an address
BYTES = frozenset(map(str, range(256)))  # as one is written in IPv4
PROTOCOLS = {"tcp": TCP, "udp": UDP, "": TCP | UDP}
EXAMPLE = 'write "192.0.2.7", "10.0.0.0/8:443", "[2001:db8::1]:8000-8010/tcp"'
NAMED = "a name is allowed by a [[host]] block, or --host"

_SHAPE = pattern(
    r"(?a)(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<bare>[0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)|(?P<four>[0-9.]+))"
    r"(?:/(?P<prefix>[0-9]{1,3}))?(?::(?P<first>[0-9]{1,5})(?:-(?P<last>[0-9]{1,5}))?)?(?:/(?P<protocol>tcp|udp))?",
)


class Endpoint(NamedTuple):
    """Addresses and ports. `prefix` counts bits of the sixteen bytes; ports are inclusive; `protocols` are bits."""

    address: bytes
    prefix: int
    first_port: int
    last_port: int
    protocols: int

    @property
    def is_four(self) -> bool:
        """Whether all of it is IPv4: the last four bytes of the address are meant then, of `prefix` - 96 bits."""
        return self.prefix >= 96 and self.address.startswith(MAPPED)

    def holds(self, address: bytes, port: int, protocol: int) -> bool:
        """Whether an address of sixteen bytes, with a port and one protocol bit, is among them."""
        whole, rest = divmod(self.prefix, 8)
        if not (protocol & self.protocols and self.first_port <= port <= self.last_port):
            return False
        if address[:whole] != self.address[:whole]:
            return False
        return not rest or (address[whole] ^ self.address[whole]) >> (8 - rest) == 0


ANYWHERE = Endpoint(bytes(16), 0, 0, 65535, TCP | UDP)
LOOPBACK = (
    Endpoint(MAPPED + b"\x7f\0\0\0", 104, 0, 65535, TCP | UDP),
    Endpoint(bytes(15) + b"\x01", 128, 0, 65535, TCP | UDP),
)
FOUR = Endpoint(MAPPED + bytes(4), 96, 0, 65535, TCP | UDP)  # every IPv4 address
UNSPECIFIED = (Endpoint(MAPPED + bytes(4), 128, 0, 65535, TCP | UDP), Endpoint(bytes(16), 128, 0, 65535, TCP | UDP))
# The doors of a cage, and the addresses that stand for names in it. RFC 2544: for benchmarks inside one network, never
# on the internet. The same in csrc/host/emulate/reach.c.
SYNTHETIC_NETWORK, SYNTHETIC_PREFIX = bytes((198, 18, 0, 0)), 15
SYNTHETIC_TEXT = f"{'.'.join(map(str, SYNTHETIC_NETWORK))}/{SYNTHETIC_PREFIX}"
SYNTHETIC = Endpoint(MAPPED + SYNTHETIC_NETWORK, 96 + SYNTHETIC_PREFIX, 0, 65535, TCP | UDP)
OWN = (*LOOPBACK, SYNTHETIC)  # what a cage with a network of its own has for itself


def parse_endpoint(text: str) -> Endpoint:
    """Raises CommandRefused."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        named = text.partition(":")[0].partition("/")[0].rpartition(".")[2].isalpha() and "//" not in text
        raise CommandRefused(f"{shown(text)} is not an address", NAMED if named else EXAMPLE)
    written = found["six"] or found["bare"] or found["four"]
    address = _address(text, written)
    version = 6 if len(address) * 8 == WHOLE else 4
    packed = address if version == 6 else MAPPED + address
    most = 8 * len(address)
    prefix = int(found["prefix"]) if found["prefix"] else most
    if prefix > most:
        raise CommandRefused(f"{shown(text)}: a prefix of IPv{version} has at most {most} bits", EXAMPLE)
    prefix += 128 - most
    if int.from_bytes(packed, "big") & ((1 << (128 - prefix)) - 1):
        raise CommandRefused(f"{shown(text)} has bits set behind its prefix", "write the first address of the network")
    return Endpoint(packed, prefix, *_ports(text, found["first"], found["last"]), PROTOCOLS[found["protocol"] or ""])


def _address(text: str, written: str) -> bytes:
    """In the order of the network, of as many bytes as its version has. Raises CommandRefused."""
    parts = written.split(".")
    if len(parts) == 4 and all(part in BYTES for part in parts):
        return bytes(map(int, parts))
    try:
        return inet_pton(AF_INET6, written)
    except OSError:
        pass
    import ipaddress  # which says why

    try:
        return ipaddress.ip_address(written).packed
    except ValueError as error:
        raise CommandRefused(f"{shown(text)}: {error}", EXAMPLE) from None


# Where no name and no wide range leads by itself (T05): the host and its neighbours, what only this link or this cloud
# knows, and what is no single host. IPv6 that carries an IPv4 address (NAT64, 6to4, Teredo) could carry any of them.
_SPECIAL = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.168.0.0/16", SYNTHETIC_TEXT, "224.0.0.0/4", "240.0.0.0/4",
    "168.63.129.16",  # a cloud's metadata at a public address
    "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8",
)  # fmt: skip


@cache
def special() -> tuple[Endpoint, ...]:
    return tuple(map(parse_endpoint, _SPECIAL))


def without_special(listed: Endpoint) -> tuple[Endpoint, ...]:
    """What an entry of a list means: all of it but what is special there, unless that is what it names (NET-10):
    `0.0.0.0/0` is the internet, `10.0.0.0/8` a private network."""
    holes = [each for each in (FOUR, *special()) if each.prefix > listed.prefix and _lies_in(each, listed)]
    return tuple(_pieces(listed, holes))


def of_its_family(listed: Endpoint) -> tuple[Endpoint, ...]:
    """An entry without the IPv4 addresses that lie in it only as they are kept: `::/0` is every IPv6 address."""
    within = listed.prefix < FOUR.prefix and _lies_in(FOUR, listed)
    return tuple(_pieces(listed, [FOUR])) if within else (listed,)


def parse_list(texts: Iterable[str]) -> tuple[Endpoint, ...]:
    """What a list of addresses means, of each family. Raises CommandRefused."""
    return tuple(piece for each in texts for piece in of_its_family(parse_endpoint(each)))


def _pieces(whole: Endpoint, holes: list[Endpoint]) -> Iterator[Endpoint]:
    if not holes:
        yield whole
    elif all(each.prefix > whole.prefix for each in holes):
        bit = 1 << (127 - whole.prefix)
        upper = (int.from_bytes(whole.address, "big") | bit).to_bytes(16, "big")
        for address in (whole.address, upper):
            half = whole._replace(address=address, prefix=whole.prefix + 1)
            yield from _pieces(half, [each for each in holes if _lies_in(each, half)])


def _lies_in(inner: Endpoint, outer: Endpoint) -> bool:
    return outer.holds(inner.address, outer.first_port, outer.protocols)


def _ports(text: str, first: str | None, last: str | None) -> tuple[int, int]:
    if first is None:
        return 0, 65535
    low, high = int(first), int(last or first)
    if not 0 < low <= high <= 65535:
        raise CommandRefused(f"{shown(text)}: ports go from 1 to 65535, the lower one first", EXAMPLE)
    return low, high
