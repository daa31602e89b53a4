"""What the gatekeeper holds a host against: the grants of one cage as they are now, which only ever get narrower. Pure.

Three kinds of grant, and none speaks for another: names and patterns permit names, `allow_ips` permits addresses, and
the alias of the host's loopback permits itself. An address is never permitted by a name, nor a name by a range. What an
allowed name leads to is held against `special`: an address there is reached only where it is listed. An empty list
allows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pysandbox.compile.plan import HostGrant, NetPlan
from pysandbox.handlers.fix import of_address
from pysandbox.handlers.rules import both
from pysandbox.policy.endpoint import ANYWHERE, MAPPED, PROTOCOLS, TCP, WHOLE, Endpoint, special
from pysandbox.policy.names import HOST_ALIAS, IPAddress, matches


class Decision(NamedTuple):
    """`rule` is the policy key behind it, `fix` the one line that would allow it, empty where no line does. `inspect`
    is for a relay that looks at what is said; no grant asks for it yet."""

    allowed: bool
    rule: str
    fix: str
    direct: bool = False
    inspect: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """`within`: the only addresses that are left since a cage was tightened, whatever permitted them; None is all."""

    hosts: tuple[HostGrant, ...]
    endpoints: tuple[Endpoint, ...]
    loopback_ports: tuple[int, ...] | None
    within: tuple[Endpoint, ...] | None = None

    @classmethod
    def of(cls, net: NetPlan) -> Rules:
        return cls(net.hosts, net.endpoints, net.loopback_ports)

    def name(self, name: str, port: int | None) -> Decision:
        """Of a canonical name; without a port, whether it may be resolved."""
        if self.within == ():
            return Decision(False, "policy_fn", "")
        if name == HOST_ALIAS:
            return self._alias(port)
        named = [each for each in self.hosts if matches(each.pattern, name)]
        found = [each for each in named if port is None or not each.ports or port in each.ports]
        if found:
            return Decision(True, "host", "", direct=all(each.direct for each in found))
        if named:
            return Decision(False, "host.ports", f'host = [{{ domain = "{name}", ports = [{port}] }}]')
        return Decision(False, "host", f'host = [{{ domain = "{name}" }}]' if name != "localhost" else "")

    def address(self, address: IPAddress, port: int, protocol: str) -> Decision:
        """Of an address that was asked for as such."""
        packed, bit = sixteen(address), PROTOCOLS[protocol]
        if not _holds(self.endpoints, packed, port, bit):
            return Decision(False, "network.allow_ips", _allow_ips(address, port, protocol))
        return self._left(packed, port, bit)

    def own(self, address: IPAddress, port: int, protocol: str) -> Decision:
        """The same of an address of this host's: no range leads there, but the whole address, written down."""
        packed, bit = sixteen(address), PROTOCOLS[protocol]
        if not any(each.prefix == WHOLE and each.holds(packed, port, bit) for each in self.endpoints):
            return Decision(False, "network.allow_ips", _allow_ips(address, port, protocol))
        return self._left(packed, port, bit)

    def reached(self, name: str, address: IPAddress, port: int, protocol: str = "tcp") -> Decision:
        """Of an address that an allowed name has led to."""
        packed, bit = sixteen(address), PROTOCOLS[protocol]
        if name != HOST_ALIAS and is_special(address) and not _holds(self.endpoints, packed, port, bit):
            return Decision(False, "network.allow_ips", _allow_ips(address, port, protocol))
        return self._left(packed, port, bit)

    def direct_ports(self, name: str) -> tuple[tuple[int, int], ...]:
        """Ranges of ports at which every grant of a name does without a relay."""
        named = [each for each in self.hosts if matches(each.pattern, name)]
        relayed = {port for each in named if not each.direct for port in each.ports}
        if self.within == () or any(not each.direct and not each.ports for each in named):
            return ()
        if all(each.ports for each in named):
            return tuple((port, port) for port in sorted({port for each in named for port in each.ports} - relayed))
        edges = [0, *sorted(relayed), 65536]
        return tuple((low + 1, high - 1) for low, high in pairwise(edges) if low + 1 < high)

    def tightened(self, endpoints: tuple[Endpoint, ...]) -> Rules:
        """Only these addresses, out of what was allowed before. The list itself stays: cut down to 127.0.0.1 a range
        that never meant the host's loopback would seem to name it."""
        before = (ANYWHERE,) if self.within is None else self.within
        return replace(self, within=both(before, endpoints))

    def _alias(self, port: int | None) -> Decision:
        ports = self.loopback_ports
        if ports is None:
            return Decision(False, "network.allow_host_loopback", "allow_host_loopback = true")
        if port is not None and ports and port not in ports:
            return Decision(False, "network.host_loopback_ports", f"host_loopback_ports = [{port}]")
        return Decision(True, "network.allow_host_loopback", "")

    def _left(self, packed: bytes, port: int, bit: int) -> Decision:
        if self.within is not None and not any(each.holds(packed, port, bit) for each in self.within):
            return Decision(False, "policy_fn", "")
        return Decision(True, "network.allow_ips", "")


def sixteen(address: IPAddress) -> bytes:
    """An address as endpoints keep it."""
    return address.packed if address.version == 6 else MAPPED + address.packed


@lru_cache(maxsize=1024)
def is_special(address: IPAddress) -> bool:
    packed = sixteen(address)
    return any(each.holds(packed, 0, TCP) for each in special())


def _holds(endpoints: Iterable[Endpoint], packed: bytes, port: int, bit: int) -> bool:
    """Whether an address is listed. One that is special must be listed as such: `0.0.0.0/0` means the internet, not
    the host's own loopback (NET-10), so a range that begins outside of what is special does not hold it."""
    least = max((each.prefix for each in special() if each.holds(packed, port, bit)), default=0)
    return any(each.prefix >= least and each.holds(packed, port, bit) for each in endpoints)


def _allow_ips(address: IPAddress, port: int, protocol: str) -> str:
    return of_address(sixteen(address), port, protocol, own_network=True)
