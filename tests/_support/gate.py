"""A cage at the gatekeeper without a cage: its session, in the loop of the test, with chosen name servers."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address
from pathlib import Path

from pysandbox.compile.plan import HostGrant, NetPlan
from pysandbox.events import Event
from pysandbox.gate.cage_session import CageSession
from pysandbox.gate.dns.resolver import Resolver
from pysandbox.gate.doors import Offered, Passed
from pysandbox.gate.ledger import Ledger
from pysandbox.gate.tcp import refused
from pysandbox.gate.tcp.dial import dial
from pysandbox.gate.tcp.target import DialTarget, target_of
from pysandbox.gate.udp import lost
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.parent import ParentProxy

NOBODY = "127.0.0.1:9"


class ServedSession(CageSession):
    """One whose doors are served beside it, and not by a reader."""

    async def dial(self, target: DialTarget) -> tuple[DialTarget, socket.socket]:
        connected = await dial(self, target)
        return target_of(self, *target), connected

    def known(self, asked: DialTarget) -> DialTarget | None:
        return None

    def pass_on(self, asked: DialTarget, said: bytes, client: socket.socket) -> Passed:
        raise AssertionError("nothing is known")

    def offer(self, *_: object) -> Offered:
        raise AssertionError("nothing is known")

    def adopt(self, *_: object) -> Offered:
        raise AssertionError("nothing was said before")

    def learn_at(self, *_: object, redirected: bool) -> None:
        """Nothing is."""

    def note_refused(self, address: IPv4Address, port: int) -> None:
        refused.tell(self, address, port)

    def note_lost(self, address: IPv4Address, port: int, replied_by: int | None) -> None:
        lost.tell(self, address, port, replied_by)


def net_plan(
    *patterns: str, ips: tuple[str, ...] = (), ports: tuple[int, ...] = (), loopback: tuple[int, ...] | None = None,
    ipv6: str = "nodata", direct: bool = False, parent: ParentProxy | None = None,
) -> NetPlan:  # fmt: skip
    hosts = tuple(HostGrant(each, ports, direct) for each in patterns)
    return NetPlan((), b"", b"nft", hosts, tuple(map(parse_endpoint, ips)), (), loopback, "", ipv6, parent=parent)


def upstream(*servers: str, hosts: Path | str = "/nonexistent") -> Resolver:
    return Resolver(servers or (NOBODY,), hosts=str(hosts))


def admitted(net: NetPlan, upstream: Resolver, events: list[Event], cage: str = "cage") -> ServedSession:
    return ServedSession(cage, net, Ledger(cage, events.append), asyncio.get_running_loop(), upstream)
