"""The NetPlan: what a policy lets out of a cage, or into it, and the doors that takes.

A cage with a way out keeps a network namespace without an uplink. What it reaches is a door: a socket in that
namespace which the host serves (csrc/host/net/netns.c makes them, the gatekeeper decides). A cage without a way out has
no door, unless somebody asks why its commands fail: then all of them refuse. An empty list never means that everything
is allowed (T06). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile import pools, routed
from pysandbox.compile.plan import UNKNOWN, Contract, Door, HostGrant, InspectionPlan, NetPlan, Published, ScanPlan
from pysandbox.errors import SandboxCompileError
from pysandbox.netfilter.netlink import DNS_PORT, DOORS, REFUSER, ROUTES, TCP_PORT, Reached, redirect
from pysandbox.policy.endpoint import TCP, WHOLE, Endpoint, parse_list, without_special
from pysandbox.policy.host import HostRule, is_relaxed
from pysandbox.policy.model import Policy
from pysandbox.policy.names import ANY_NAME
from pysandbox.policy.way_out import (
    any_bearer,
    has_doors,
    has_way_out,
    inspects,
    loopback_ports,
    may_have_doors,
    reaches_hosts,
)
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from pysandbox.policy.parent import ParentProxy

SOCKS_PORT, HTTP_PORT = 1080, 3128
UNSPECIFIED = ("0.0.0.0", "::")
MOST_LISTS = 16  # of ports that the addresses of a policy have, each a set of the kernel's
DNS = (Door("dns", "udp", DOORS, DNS_PORT), Door("dns", "tcp", DOORS, DNS_PORT))
PROXIES = (Door("socks", "tcp", DOORS, SOCKS_PORT), Door("http", "tcp", DOORS, HTTP_PORT))
HANDED = tuple(replace(door, protocol="handed") for door in PROXIES)  # without a namespace in which they could listen
LOST = Door("lost", "raw", DOORS, 0)
REFUSED = Door("refused", "syn", REFUSER, 0)
TRANSPARENT = Door("tcp", "tcp", DOORS, TCP_PORT)  # where the redirect leads to; without one, nothing arrives there

RESOLV_TEXT = f"nameserver {DOORS}\n"

_HTTP = f"http://{DOORS}:{HTTP_PORT}"
_PROXY_VARIABLES = (
    ("HTTP_PROXY", _HTTP),
    ("HTTPS_PROXY", _HTTP),
    ("ALL_PROXY", _HTTP),  # not socks5h://: clients without an extra package (httpx, requests) fail at the sight of it
    ("NO_PROXY", "localhost,127.0.0.0/8,127.0.0.1,::1"),
)
PROXY_VARIABLES = {**dict(_PROXY_VARIABLES), **{name.lower(): value for name, value in _PROXY_VARIABLES}}


def net_plan(policy: Policy, host: HostFacts) -> NetPlan | None:
    if not may_have_doors(policy):
        return None
    out, served = has_way_out(policy), has_doors(policy)
    published = _all_published(policy)
    if not served and not published:
        return None
    own = policy.isolation == "full"
    redirected = own and served and bool(host.nf_tables)
    bridge = routed.bridge(policy, host) if out else ""
    endpoints = parse_list(policy.allow_ips) if out else ()
    named = reaches_hosts(policy)
    hosts = tuple(_host_grants(policy)) if named else ()
    ports = loopback_ports(policy) if named else None
    return NetPlan(
        doors=(_doors(redirected, bridge) if own else HANDED) if served else (),
        routes=(routed.local_routes() if bridge else ROUTES) if own and served else b"",
        redirect=_redirect(endpoints, pools.reached(hosts, ports) if named else (), bridge) if redirected else b"",
        hosts=hosts,
        endpoints=endpoints,
        published=published,
        loopback_ports=ports,
        bridge=bridge,
        ipv6=policy.dns_ipv6,
        inspection=inspection(policy),
        parent=_parent(policy),
    )


def _parent(policy: Policy) -> ParentProxy | None:
    """Few have one, so no other compiles what there is to be said of it. Raises SandboxCompileError."""
    if policy.proxy_parent is None:
        return None
    from pysandbox.compile.parent import parent_of

    return parent_of(policy)


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


def _host_grants(policy: Policy) -> Iterator[HostGrant]:
    for rule in policy.hosts:
        yield from host_grants(rule, policy.dlp_enabled)
    if is_relaxed(policy):  # less specific than any block
        yield HostGrant(ANY_NAME, (), False, UNKNOWN, websocket=True)


def host_grants(rule: HostRule, scanned: bool = False) -> Iterator[HostGrant]:
    contract = contract_of(rule, scanned)
    said = rule.ports, rule.direct, contract, rule.websocket, rule.private_addresses
    yield HostGrant(rule.domain, *said)
    below = f"**.{rule.domain.removeprefix('**.').removeprefix('*.')}"
    if rule.include_subdomains and below != rule.domain:
        yield HostGrant(below, *said)


def contract_of(rule: HostRule, scanned: bool) -> Contract | None:
    """What each request is held to; None where nothing looks at them."""
    if not (rule.is_inspected or scanned):
        return None
    return Contract(
        rule.methods, rule.paths, rule.content_types, rule.max_request_bytes, rule.ports, rule.websocket,
        rule.allow_credentials if scanned else (), told=rule.contract_mode == "relaxed",
        private=rule.private_addresses,
    )  # fmt: skip


def inspection(policy: Policy) -> InspectionPlan | None:
    """None where no host has a contract, none a secret, and nothing is scanned."""
    if not inspects(policy):
        return None
    from pysandbox.compile.canaries import canaries
    from pysandbox.compile.detectors import scan_detectors
    from pysandbox.compile.secrets import secret_grants

    scan = ScanPlan(
        policy.dlp_max_decode_depth, policy.proxy_buffered_bytes, policy.dlp_extra_scopes, policy.monitor,
        policy.dlp_session_entropy_budget, scan_detectors(policy), canaries(policy), policy.strict,
        any_bearer(policy), policy.dlp_decompress, policy.dlp_dns_entropy_threshold,
    )  # fmt: skip
    return InspectionPlan(
        policy.proxy_timeout_ms, policy.proxy_streamed_bytes, policy.proxy_upstream_ca, secret_grants(policy),
        scan if policy.dlp_enabled else None, policy.proxy_scheme or "",
    )  # fmt: skip


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
