"""Whether a target may be dialled by the relay's thread from now on (`judged`): one that was reached by rules that
still hold, and only where nothing else is to be done for it each time. That is no contract, no parent proxy, no name
that is charged for, and nobody who takes note of each connection.
"""

from __future__ import annotations

import socket

from pysandbox.gate.connections import peer_of
from pysandbox.gate.rules import GateRules
from pysandbox.gate.tcp.target import DialTarget, is_own
from pysandbox.policy.names import HOST_ALIAS, IPAddress, canonical
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession

LITERAL_LIFE = 60.0  # seconds that an address is known which no name server has told
SHORTEST_LIFE = 0.01


def judge(
    session: CageSession, said: DialTarget, target: DialTarget, connected: socket.socket, rules: GateRules
) -> bool:  # fmt: skip
    """Has a target dialled there from now on that these rules have allowed, at the address where it was reached.
    Whether it is. In the loop."""
    if session.ended or not session.ledger.only_counts or session.asked_names is not None:
        return False
    if not said.host.isascii() or "\0" in said.host or rules.by_parent(target.host):
        return False
    if session.net.inspection is not None and rules.contract(*target) is not None:
        return False
    try:
        address = peer_of(connected)
    except OSError:
        return False
    life, own = _life(session, target, address), -1 if target.host == HOST_ALIAS else int(is_own(address))
    if life < SHORTEST_LIFE or not _may_be(rules, target, address, own == 1) or not session.judged.admit():
        return False
    with session.lock:
        return session.rules is rules and not session.ended and session.judged.tell(said, target, address, own, life)


def _may_be(rules: GateRules, target: DialTarget, address: IPAddress, own: bool) -> bool:
    """Decided once more: whose an address is may have changed since it was dialled."""
    host = canonical(target.host)
    if isinstance(host, str):
        return rules.resolved(host, address, target.port, own=own).allowed
    return rules.address(address, target.port, "tcp", own=own).allowed


def _life(session: CageSession, target: DialTarget, address: IPAddress) -> float:
    host = canonical(target.host)
    if not isinstance(host, str) or host == HOST_ALIAS:
        return LITERAL_LIFE
    return session.upstream.holds(host, six=address.version == 6)
