"""A cage at the gatekeeper without a cage: its admission, in the loop of the test, with chosen name servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pysandbox.compile.plan import HostGrant, NetPlan
from pysandbox.events import Event
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.dns.resolver import Resolver
from pysandbox.gate.ledger import Ledger
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.parent import ParentProxy

NOBODY = "127.0.0.1:9"


def net_plan(
    *patterns: str, ips: tuple[str, ...] = (), ports: tuple[int, ...] = (), loopback: tuple[int, ...] | None = None,
    ipv6: str = "nodata", direct: bool = False, parent: ParentProxy | None = None,
) -> NetPlan:  # fmt: skip
    hosts = tuple(HostGrant(each, ports, direct) for each in patterns)
    return NetPlan((), b"", b"nft", hosts, tuple(map(parse_endpoint, ips)), (), loopback, "", ipv6, parent=parent)


def upstream(*servers: str, hosts: Path | str = "/nonexistent") -> Resolver:
    return Resolver(servers or (NOBODY,), hosts=str(hosts))


def admitted(net: NetPlan, upstream: Resolver, events: list[Event], cage: str = "cage") -> CageSession:
    return CageSession(cage, net, Ledger(cage, events.append), asyncio.get_running_loop(), upstream)
