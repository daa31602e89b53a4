"""The synthetic addresses of one cage: each name that it may reach has one, which means that name there and nothing
anywhere else. So a connection to an address says which name was meant, and DNS rebinding has nothing to bind to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

from pysandbox.compile import pools
from pysandbox.compile.plan import NetPlan
from pysandbox.policy.endpoint import SYNTHETIC_NETWORK, SYNTHETIC_PREFIX
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.dns.asked import AskedNames, NameScan

SYNTHETIC = IPv4Network((SYNTHETIC_NETWORK, SYNTHETIC_PREFIX))
DOORS = 256  # the first of them are the doors' own
NAMES_KEPT = 4096  # of one cage; the name that was used longest ago goes first


class Names:
    """Names to addresses and back; any thread may ask. An address is reused only after every other one of its pool, so
    that an address which a program has kept for long leads to its own name or nowhere."""

    def __init__(
        self, kept: int = NAMES_KEPT, networks: Sequence[IPv4Network] = (SYNTHETIC,),
        pool_of: Callable[[str], int] = lambda _: 0,
    ) -> None:  # fmt: skip
        self._kept, self._networks, self._pool_of = kept, networks, pool_of
        self._by_name: OrderedDict[str, IPv4Address] = OrderedDict()
        self._by_address: dict[IPv4Address, str] = {}
        self._next = [0] * len(networks)
        self.forgotten: Callable[[IPv4Address], object] = lambda _: (
            None
        )  # is called with one that stands for its name no longer
        self._lock = threading.Lock()

    @classmethod
    def of(cls, net: NetPlan) -> Names:
        count = len(pools.port_lists(net.hosts, net.loopback_ports))
        networks = [IPv4Network(pools.network(place, count)) for place in range(count)]
        return cls(NAMES_KEPT, networks, lambda name: pools.pool_of(name, net.hosts, net.loopback_ports))

    def address_of(self, name: str) -> IPv4Address:
        """The address of a canonical name; a new one for a name that has none."""
        with self._lock:
            address = self._by_name.get(name)
            if address is None:
                if len(self._by_name) >= self._kept:
                    _, gone = self._by_name.popitem(last=False)
                    del self._by_address[gone]
                    self.forgotten(gone)
                address = self._by_name[name] = self._new_address(self._pool_of(name))
                self._by_address[address] = name
            self._by_name.move_to_end(name)
            return address

    def name_of(self, address: object) -> str | None:
        """The name behind an address; None for an address that stands for none."""
        with self._lock:
            name = self._by_address.get(address) if isinstance(address, IPv4Address) else None
            if name is not None:
                self._by_name.move_to_end(name)
            return name

    def _new_address(self, place: int) -> IPv4Address:
        pool = self._networks[place]
        first, end = _bounds(pool)
        while True:
            address = pool[self._next[place] + first]
            self._next[place] = (self._next[place] + 1) % (end - first)
            if address not in self._by_address:
                return address


def _bounds(pool: IPv4Network) -> tuple[int, int]:
    """The first and the last address to give out: not those of the doors, and not the last, the broadcast address."""
    first = DOORS if pool[0] == SYNTHETIC[0] else 0
    return first, pool.num_addresses - int(pool[-1] == SYNTHETIC[-1])


def name_scan(net: NetPlan, canaries: Mapping[str, str]) -> NameScan | None:
    """What is looked for in names where all that is sent is scanned."""
    if net.inspection is None or net.inspection.scan is None:
        return None
    from pysandbox.gate.dns.asked import NameScan

    return NameScan(net.inspection.scan, canaries)


def asked_names(net: NetPlan, names: NameScan | None, tell: Callable[[str, str], object]) -> AskedNames | None:
    """What is charged for names where all that is sent is scanned; None where each is spelled out, or nothing is."""
    if names is None or net.inspection is None or not any("*" in each.pattern for each in net.hosts):
        return None
    from pysandbox.gate.dns.asked import AskedNames

    return AskedNames((each.pattern for each in net.hosts), scan=net.inspection.scan, names=names, tell=tell)
