"""What a cage asks to be connected to, whether it may, and what is said when not: decided by the rules alone.

Every entrance of a cage comes here with the session of the cage: dialling, datagrams, what a door refuses by itself.
"""

from __future__ import annotations

import time
from functools import lru_cache

from pysandbox._native import lib
from pysandbox.gate.rules import Decision, GateRules, sixteen
from pysandbox.policy.names import HOST_ALIAS, IPAddress, canonical
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from pysandbox.gate.dns.names import Names
    from pysandbox.gate.ledger import Ledger


class Asking(Protocol):
    """What is needed of the session of a cage to decide what it asks for."""

    rules: GateRules
    names: Names
    ledger: Ledger


class DialTarget(NamedTuple):
    """`host` is a canonical name, or an address as `str` writes it."""

    host: str
    port: int


class Denied(Exception):
    """A rule refuses the connection; the refusal is recorded already."""

    def __init__(self, target: DialTarget, decision: Decision) -> None:
        super().__init__(f"{target.host}:{target.port} is refused by {decision.rule}")
        self.target, self.decision = target, decision


class Unreachable(OSError):
    """The connection is allowed and cannot be made: `errno` says why; `status` and `code` are what HTTP is told."""

    status, code = 502, "upstream-unreachable"


def target_of(session: Asking, host: str | bytes | IPAddress, port: int) -> DialTarget:
    """The target that a cage means: a synthetic address is the name that it stands for. Raises BadName."""
    known = canonical(host) if isinstance(host, str | bytes) else host
    name = session.names.name_of(known)
    return DialTarget(name if name is not None else str(known), port)


def check_resolved(session: Asking, host: str, address: IPAddress, port: int) -> Decision:
    """Whether an address may be reached that a name was resolved to. A public address may be one of this host's, whose
    services are no more open to the cage than those at 127.0.0.1, to which the alias leads."""
    return session.rules.resolved(host, address, port, own=host != HOST_ALIAS and is_own(address))


def check_literal(session: Asking, address: IPAddress, port: int, protocol: str = "tcp") -> Decision:
    """Whether an address may be reached that was asked for as such."""
    return session.rules.address(address, port, protocol, own=is_own(address))


def is_own(address: IPAddress) -> bool:
    """Whether the kernel delivers this address to this host, or to no single host. Asked again every second."""
    return _is_own(sixteen(address), int(time.monotonic()))


@lru_cache(maxsize=1024)
def _is_own(packed: bytes, second: int) -> bool:
    return bool(lib.psb_is_own(packed))  # also where it cannot be told


def deny(session: Asking, target: DialTarget, decision: Decision, protocol: str = "tcp") -> Denied:
    """Records a refusal; returns the exception to raise."""
    session.ledger.denied(protocol, *target, decision)
    return Denied(target, decision)


def may_stay(session: Asking, target: DialTarget, address: IPAddress) -> Decision:
    host = canonical(target.host)
    if not isinstance(host, str):
        return check_literal(session, address, target.port)
    decision = session.rules.name(host, target.port)
    if not decision.allowed:
        return decision
    if session.rules.by_parent(host):
        return session.rules.through_parent()
    return session.rules.resolved(host, address, target.port, own=False)  # whose it is was asked when it was dialled
