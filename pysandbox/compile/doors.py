"""The NetPlan: what a policy lets out of a cage, or into it, and the doors that takes.

A cage with a way out keeps a network namespace without an uplink. What it reaches is a door: a socket in that
namespace which the host serves (csrc/host/netns.c makes them, the gatekeeper decides). A cage without a way out has no
door, and an empty list never means that everything is allowed (T06). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile import pools, routed
from pysandbox.compile.plan import Door, HostGrant, NetPlan, Published
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.endpoint import TCP, WHOLE, Endpoint, parse_list, without_special
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import reaches_names, way_out
from pysandbox.probe.facts import HostFacts
from pysandbox.probe.netlink import DNS_PORT, DOORS, REFUSER, ROUTES, TCP_PORT, Reached, redirect

SOCKS_PORT, HTTP_PORT = 1080, 3128
UNSPECIFIED = ("0.0.0.0", "::")
MOST_LISTS = 16  # of ports that the addresses of a policy have, each a set of the kernel's
DNS = (Door("dns", "udp", DOORS, DNS_PORT), Door("dns", "tcp", DOORS, DNS_PORT))
PROXIES = (Door("socks", "tcp", DOORS, SOCKS_PORT), Door("http", "tcp", DOORS, HTTP_PORT))
LOST = Door("lost", "raw", DOORS, 0)
REFUSED = Door("refused", "syn", REFUSER, 0)
TRANSPARENT = Door("tcp", "tcp", DOORS, TCP_PORT)  # where the redirect leads to; without one, nothing arrives there

RESOLV_TEXT = f"nameserver {DOORS}\n"
# Names come from the door and nowhere else: no daemon of the host answers in the cage.
NSSWITCH_TEXT = "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"

_HTTP = f"http://{DOORS}:{HTTP_PORT}"
_PROXY_VARIABLES = (
    ("HTTP_PROXY", _HTTP),
    ("HTTPS_PROXY", _HTTP),
    ("ALL_PROXY", _HTTP),  # not socks5h://: clients without an extra package (httpx, requests) fail at the sight of it
    ("NO_PROXY", "localhost,127.0.0.0/8,127.0.0.1,::1"),
)
PROXY_VARIABLES = {**dict(_PROXY_VARIABLES), **{name.lower(): value for name, value in _PROXY_VARIABLES}}


def has_way_out(policy: Policy) -> bool:
    """Whether anything outside may be reached through doors."""
    return _has_doors(policy) and way_out(policy) == "proxy-only"


def reaches_hosts(policy: Policy) -> bool:
    """Whether any of it is reached by a name."""
    return _has_doors(policy) and reaches_names(policy)


def _has_doors(policy: Policy) -> bool:
    return policy.caged and policy.isolation == "full" and policy.egress != "direct"


def net_plan(policy: Policy, host: HostFacts) -> NetPlan | None:
    if not _has_doors(policy):
        return None
    out = has_way_out(policy)
    published = _all_published(policy)
    if not out and not published:
        return None
    redirected = out and bool(host.nf_tables)
    bridge = routed.bridge(policy, host) if out else ""
    endpoints = parse_list(policy.allow_ips) if out else ()
    named = reaches_hosts(policy)
    hosts = tuple(grant for rule in policy.hosts for grant in host_grants(rule)) if named else ()
    ports = loopback_ports(policy) if named else None
    return NetPlan(
        doors=_doors(redirected, bridge) if out else (),
        routes=(routed.local_routes() if bridge else ROUTES) if out else b"",
        redirect=_redirect(endpoints, pools.reached(hosts, ports) if named else (), bridge) if redirected else b"",
        hosts=hosts,
        endpoints=endpoints,
        published=published,
        loopback_ports=ports,
        bridge=bridge,
        ipv6=policy.dns_ipv6,
    )


def _doors(redirected: bool, bridge: str) -> tuple[Door, ...]:
    return (
        *DNS, *PROXIES, *((TRANSPARENT, REFUSED) if redirected else ()), *(() if bridge else (LOST,)),
    )  # fmt: skip


def _redirect(endpoints: tuple[Endpoint, ...], names: tuple[Reached, ...], bridge: str) -> bytes:
    if bridge:
        return routed.inside(endpoints, names, DOORS, DNS_PORT)
    resolvers = [(each.address[12:], each.prefix - 96) for each in endpoints if _is_resolver(each)]
    return redirect(resolvers, names, _listed(endpoints))


def _listed(endpoints: tuple[Endpoint, ...]) -> list[Reached]:
    """What is listed for TCP, by ports; what more than MOST_LISTS lists of ports name is decided at the door."""
    by_ports: dict[tuple[tuple[int, int], ...], list[tuple[bytes, int]]] = {}
    for each in endpoints:
        if each.is_four and each.protocols & TCP:
            at = (each.first_port, each.last_port)
            ports = () if at == routed.ANY_PORT else (at,)
            key = ports if ports in by_ports or len(by_ports) < MOST_LISTS else ()
            meant = without_special(each)
            by_ports.setdefault(key, []).extend((piece.address[12:], piece.prefix - 96) for piece in meant)
    return [Reached(tuple(networks), ports) for ports, networks in by_ports.items()]


def _is_resolver(each: Endpoint) -> bool:
    """An address, or a range that names the port. A range with any port means hosts: who asks it for names, as programs
    do that carry a resolver of their own, asks the door."""
    meant = each.prefix == WHOLE or (each.first_port, each.last_port) != routed.ANY_PORT
    listed = each.first_port <= DNS_PORT <= each.last_port
    return meant and listed and each.is_four


def loopback_ports(policy: Policy) -> tuple[int, ...] | None:
    """The ports of the host's own services that the alias leads to; () is any, None is none (T60)."""
    if policy.host_loopback_ports:
        return policy.host_loopback_ports
    return () if policy.allow_host_loopback else None


def host_grants(rule: HostRule) -> Iterator[HostGrant]:
    yield HostGrant(rule.domain, rule.ports, rule.direct)
    below = f"**.{rule.domain.removeprefix('**.').removeprefix('*.')}"
    if rule.include_subdomains and below != rule.domain:
        yield HostGrant(below, rule.ports, rule.direct)


def _all_published(policy: Policy) -> tuple[Published, ...]:
    published: list[Published] = []
    for text in policy.ports:
        port = _published(text)
        if any(_meet(port, other) for other in published):
            message = f"{text!r}: the policy publishes this port of the host twice"
            raise SandboxCompileError(message, key="network.ports", suggestion="publish each on a port of its own")
        published.append(port)
    return tuple(published)


def _meet(one: Published, other: Published) -> bool:
    """Whether both cannot be had: an unspecified address is all of its family."""
    if (one.port, one.protocol) != (other.port, other.protocol):
        return False
    if (":" in one.address) != (":" in other.address):
        return False
    return one.address == other.address or any(each.address in UNSPECIFIED for each in (one, other))


def _published(text: str) -> Published:
    """From the spelling that `netallow.published` gives: ADDRESS:HOST:CAGE/PROTOCOL."""
    places, _, protocol = text.rpartition("/")
    at, port, inside = places.rsplit(":", 2)
    return Published(at.strip("[]"), int(port), int(inside), protocol)
