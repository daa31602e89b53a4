"""What the relay's thread may dial by itself for one cage: targets that were judged and reached before, with the very
address that was checked (csrc/host/relay/dial.h). It needs neither the event loop nor the interpreter's lock for that.

What is told there is `judging`'s to say. It is forgotten with the answer of the name server, with the synthetic address
that stood for it, and with each tightening, under the session's lock, before anything is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from pysandbox._native import ffi, lib
from pysandbox.gate.rules import sixteen
from pysandbox.gate.shares import Share
from pysandbox.gate.tcp.relay import SocketRelay
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.policy.names import IPAddress, plain
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.gate.ledger import Ledger

EACH = 2  # descriptors of one connection: the client's and the server's
MOST_DIALLED = 16  # at once, of one cage; what is more is dialled in the event loop
PART = 32  # of what all cages may have of descriptors, at most one part in so many is kept for this
OWN_MS = 1000  # after which it is asked again whether an address is this host's


class DialledTarget(NamedTuple):
    """A connection that was dialled there."""

    number: int
    target: DialTarget
    address: IPAddress


class JudgedTargets:
    """`admit`, `tell` and `leave` are for the loop; any thread may call the others."""

    def __init__(self, relay: SocketRelay | None, cage: int, descriptors: Share, ledger: Ledger) -> None:
        self._relay, self._cage, self._descriptors, self._ledger = relay, cage, descriptors, ledger
        self.most = 0  # connections that may be dialled there at once; 0: it has not been admitted

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> int:
        return int(self._relay.ask(function, *arguments)) if self._relay is not None else 0

    def admit(self) -> bool:
        """Whether the cage has a table there. Takes descriptors for what it may open."""
        if not self.most and self._relay is not None:
            most = min(MOST_DIALLED, self._descriptors.all // (PART * EACH))
            if most > 0 and self._descriptors.take(most * EACH):
                if self._ask(lib.psb_dial_admit, self._cage, most) == 0:
                    self.most = most
                else:
                    self._descriptors.give(most * EACH)
        return self.most > 0

    def tell(self, said: DialTarget, target: DialTarget, address: IPAddress, own: int, life: float) -> bool:
        """Whether it is known there now. `own`: of `psb_judged`."""
        texts = [ffi.new("char[]", each.encode()) for each in (said.host, target.host)]
        judged = ffi.new("struct psb_judged *", {
            "said": texts[0], "name": texts[1], "said_size": len(texts[0]) - 1, "name_size": len(texts[1]) - 1,
            "address": list(sixteen(address)), "port": target.port, "own": own, "own_ms": OWN_MS,
            "life_ms": int(life * 1000),
        })  # fmt: skip
        return self._ask(lib.psb_dial_learn, self._cage, judged) == 0

    def forget(self, address: IPAddress | None = None) -> None:
        """A synthetic address stands for its name no longer; without one, nothing is known any more."""
        said = b"" if address is None else str(address).encode()
        if self.most:
            self._ask(lib.psb_dial_forget, self._cage, said or ffi.NULL, len(said))

    def connections(self) -> list[DialledTarget]:
        """The connections that are not cut."""
        if not self.most:
            return []
        found = ffi.new("struct psb_dialled[]", self.most)
        count = self._ask(lib.psb_dial_list, self._cage, found, self.most)
        return [
            DialledTarget(each.number, DialTarget(ffi.string(each.name).decode(), each.port), _address(each.address))
            for each in found[0:count]
        ]

    def cut(self, number: int) -> None:
        """Nothing more is sent on it, once the relay is idle."""
        self._ask(lib.psb_dial_cut, number)

    def count(self) -> None:
        """Has the ledger count what was let through since this was done last."""
        if self.most:
            self._ledger.count_allowed_tcp(self._ask(lib.psb_dial_allowed, self._cage))

    def leave(self) -> None:
        """Cuts everything, and counts it; the cage has no table there until it is admitted again. Idempotent."""
        if self.most:
            most, self.most = self.most, 0
            self._ledger.count_allowed_tcp(self._ask(lib.psb_dial_leave, self._cage))
            self._descriptors.give(most * EACH)


def _address(packed: Any) -> IPAddress:
    return plain(ip_address(bytes(packed)))
