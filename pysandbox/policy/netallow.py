"""What a policy says of the network, read strictly. One entry of an allow list is a host name or pattern, an address
or a CIDR range; a domain is a name or pattern alone; a published port is PORT, HOST:CAGE or ADDRESS:HOST:CAGE.

    example.com   *.example.com   **.example.com   198.51.100.7   10.0.0.0/8   2001:db8::/32
    each also with a port: example.com:443, 198.51.100.7:443, [2001:db8::1]:443

An entry that is nearly an address is refused, never read as a name: `10.0.0.8x` would otherwise be looked up. The
patterns are compiled when they are first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pysandbox.policy.host import HostRule
from pysandbox.policy.refusal import CommandRefused, shown

LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
NUMERIC_LABEL = r"[0-9]+|0x[0-9a-f]*"  # what a resolver may read as part of an IPv4 address
_STARTS_AS_ADDRESS = r"[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+"
LONGEST_NAME = 253
_PUBLISHED = (
    r"(?:(?P<ip>[0-9.]+|\[[0-9A-Fa-f:.]+\]):(?=[0-9]+:))?"
    r"(?P<host>[0-9]+)(?::(?P<cage>[0-9]+))?(?:/(?P<protocol>tcp|udp))?"
)


def entry(value: object) -> str:
    """The canonical spelling of one entry (lower case, no trailing dot); Refused names what is wrong with it."""
    if not isinstance(value, str) or not value:
        raise CommandRefused(f"must be a host name, an address or a range, not {shown(value)}")
    if value.startswith("[") or value.count(":") > 1:
        return _ipv6(value)
    host, colon, port = value.partition(":")
    if colon and not port.isdecimal():
        raise CommandRefused(f"{shown(value)} looks like provider:model, not like a host", "write host or host:443")
    host = _address(value, host) if re.match(_STARTS_AS_ADDRESS, host) else _name(value, host)
    return host + colon + _port(value, port) if colon else host


def granted(entries: Iterable[str]) -> tuple[tuple[HostRule, ...], tuple[str, ...]]:
    """Entries in their canonical spelling as the blocks and the addresses of a policy. All of it is TCP (document 000),
    and a name without a port allows every port, whatever the other entries say of it."""
    hosts: dict[str, list[int]] = {}
    addresses = []
    for each in entries:
        host, port = _parted(each)
        if re.match(_STARTS_AS_ADDRESS, host) or ":" in host:
            addresses.append(_endpoint(host, port))
        else:
            hosts.setdefault(host, []).append(int(port or 0))
    rules = (HostRule(domain=name, ports=() if 0 in ports else tuple(ports)) for name, ports in hosts.items())
    return tuple(rules), tuple(addresses)


def _parted(each: str) -> tuple[str, str]:
    """(host, port) of an entry; the port is empty where there is none."""
    if each.startswith("["):
        host, _, port = each[1:].partition("]:")
        return host, port
    return (each, "") if each.count(":") > 1 else (each.partition(":")[0], each.partition(":")[2])


def _endpoint(address: str, port: str) -> str:
    """As network.allow_ips has it, where brackets hold the address alone."""
    bare, slash, prefix = address.partition("/")
    at = f"[{bare}]" if ":" in bare else bare
    return f"{at}{slash}{prefix}{f':{port}' if port else ''}/tcp"


def domain(value: object) -> str:
    """The canonical spelling of a name or pattern; an address has no name to hold a contract against."""
    name = value if isinstance(value, str) else ""
    if not name or ":" in name or "/" in name or re.match(_STARTS_AS_ADDRESS, name):
        meant = "leave out scheme, port and path"
        if re.match(_STARTS_AS_ADDRESS, name) or name.count(":") > 1:
            meant = "an address is allowed by allow_ips in [network], or --allow-ip"
        raise CommandRefused(f"must be a host name such as example.com, not {shown(value)}", meant)
    return _name(name, name)


def published(value: object) -> str:
    """A port of the cage on the host, spelled in full: `8080` is 127.0.0.1:8080:8080/tcp (T61)."""
    text = value if isinstance(value, str) else ""
    found = re.fullmatch(_PUBLISHED, text)
    if found is None:
        raise CommandRefused(
            f"{shown(value)} is not a port to publish", 'write "8080", "8080:80" or "127.0.0.1:8080:80/tcp"'
        )
    at = _address(text, found["ip"].strip("[]")) if found["ip"] else "127.0.0.1"
    host, cage = _port(text, found["host"]), _port(text, found["cage"] or found["host"])
    return f"{f'[{at}]' if ':' in at else at}:{host}:{cage}/{found['protocol'] or 'tcp'}"


def _port(value: str, port: str) -> str:
    if not port.isascii() or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise CommandRefused(f"{shown(value)}: a port is a number from 1 to 65535")
    return str(int(port))


def _ipv6(value: str) -> str:
    if not value.startswith("["):
        return _address(value, value)
    bracketed = re.fullmatch(r"\[([0-9A-Fa-f:./]*:[0-9A-Fa-f:./]*)\](?::(\d+))?", value, re.ASCII)
    if not bracketed:
        raise CommandRefused(f"{shown(value)} is not an address in brackets", "write [2001:db8::1]:443")
    address = _address(value, bracketed[1])
    return f"[{address}]:{_port(value, bracketed[2])}" if bracketed[2] else address


def _address(value: str, text: str) -> str:
    import ipaddress

    if "%" in text:
        raise CommandRefused(f"{shown(value)}: a zone means another interface on every host")
    try:
        if "/" in text:
            return str(ipaddress.ip_network(text))
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise CommandRefused(f"{shown(value)} is not an address or a range: {error}") from None


def _name(value: str, host: str) -> str:
    name = host.lower().removesuffix(".")
    pattern = next((prefix for prefix in ("**.", "*.") if name.startswith(prefix)), "")
    labels = name.removeprefix(pattern).split(".")
    if len(name) > LONGEST_NAME or not all(re.fullmatch(LABEL, label) for label in labels):
        raise CommandRefused(
            f"{shown(value)} is not a host name", "write names in ASCII (xn--), a star only as *. or **."
        )
    if re.fullmatch(NUMERIC_LABEL, labels[-1]):
        raise CommandRefused(f"{shown(value)} is neither a host name nor a whole address")
    return name
