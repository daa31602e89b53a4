"""The synthetic addresses of one cage: each name that it may reach has one, which means that name there and nothing
anywhere else. So a connection to an address says which name was meant, and DNS rebinding has nothing to bind to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from ipaddress import IPv4Address, IPv4Network

from pysandbox.policy.endpoint import SYNTHETIC_NETWORK, SYNTHETIC_PREFIX

SYNTHETIC = IPv4Network((SYNTHETIC_NETWORK, SYNTHETIC_PREFIX))
DOORS = 256  # the first of them are the doors' own
NAMES_KEPT = 4096  # of one cage; the name that was used longest ago goes first


class Names:
    """Any thread may ask. An address is not given to another name until all the others were used, so that one that a
    program has kept for long leads to its own name or nowhere."""

    def __init__(self, kept: int = NAMES_KEPT) -> None:
        self._kept = kept
        self._by_name: OrderedDict[str, IPv4Address] = OrderedDict()
        self._by_address: dict[IPv4Address, str] = {}
        self._next = DOORS
        self._lock = threading.Lock()

    def address_of(self, name: str) -> IPv4Address:
        """The address of a canonical name; a new one for a name that has none."""
        with self._lock:
            address = self._by_name.get(name)
            if address is None:
                if len(self._by_name) >= self._kept:
                    _, gone = self._by_name.popitem(last=False)
                    del self._by_address[gone]
                address = self._by_name[name] = self._new_address()
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

    def _new_address(self) -> IPv4Address:
        while True:
            address = SYNTHETIC[self._next]
            self._next += 1
            if self._next >= SYNTHETIC.num_addresses - 1:
                self._next = DOORS
            if address not in self._by_address:
                return address
