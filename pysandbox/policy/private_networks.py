"""Where a name may lead that says so itself (`[[host]] private_addresses`): addresses of private networks, and of them
none at which a cloud answers the machine itself. A name may lead to no loopback, no link and no metadata by that word,
whatever it lists; IPv6 that carries an IPv4 address (NAT64, 6to4) is no private network either. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from pysandbox.policy.endpoint import EXAMPLE, PROTOCOLS, TCP, Endpoint, parse_endpoint
from pysandbox.policy.refusal import CommandRefused, shown

_PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")  # RFC 1918, 6598, 4193
# Credentials of the machine are to be had there, from whoever asks: of clouds that have such a service in a private
# network. fd00:ec2::/32 has the others that speak to instances alone as well.
_METADATA = (
    "100.100.100.200", "fd00:ec2::/32", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1",
    "fd00:100::100:200",
)  # fmt: skip
_WRITE = 'write "10.1.2.3", "10.1.0.0/16" or "fd00:1::/64"'


def private_address(text: str) -> str:
    """One item of the list. Raises CommandRefused."""
    try:
        listed = parse_endpoint(text)
    except CommandRefused as refused:
        raise CommandRefused(refused.message, _WRITE if refused.suggestion == EXAMPLE else refused.suggestion) from None
    if (listed.first_port, listed.last_port, listed.protocols) != (0, 65535, PROTOCOLS[""]):
        raise CommandRefused(f"{shown(text)} says more than addresses", "write its ports in ports, as numbers")
    if _within(listed, _metadata()):
        raise CommandRefused(f"{shown(text)} is a cloud's metadata service, where no name may lead", _WRITE)
    if not _within(listed, _private()):
        raise CommandRefused(
            f"{shown(text)} is no address of a private network, nor one such network ({', '.join(_PRIVATE)})", _WRITE
        )
    return text


def is_private(address: bytes) -> bool:
    """Whether an address of sixteen bytes can be listed."""
    return _holds(_private(), address) and not _holds(_metadata(), address)


def leads_into(listed: tuple[str, ...], address: bytes, *, own: bool) -> bool:
    """Whether a name with this list may lead to an address of sixteen bytes. `own`: it is this host's, which is listed
    only where the whole address is written down."""
    lines = (each for each in _parsed(listed) if not own or each.prefix == 128)
    return is_private(address) and _holds(lines, address)


def _holds(listed: Iterable[Endpoint], address: bytes) -> bool:
    return any(each.holds(address, 0, TCP) for each in listed)


def _within(inner: Endpoint, listed: tuple[Endpoint, ...]) -> bool:
    return any(each.prefix <= inner.prefix and each.holds(inner.address, 0, TCP) for each in listed)


@lru_cache(maxsize=256)
def _parsed(listed: tuple[str, ...]) -> tuple[Endpoint, ...]:
    return tuple(map(parse_endpoint, listed))


@cache
def _private() -> tuple[Endpoint, ...]:
    return tuple(map(parse_endpoint, _PRIVATE))


@cache
def _metadata() -> tuple[Endpoint, ...]:
    return tuple(map(parse_endpoint, _METADATA))
