"""Direct grants: the addresses of a name whose connections need no relay, told to what decides the cage's calls."""

from __future__ import annotations

from contextlib import suppress

from pysandbox.gate.rules import sixteen
from pysandbox.gate.tcp.target import check_resolved, is_own
from pysandbox.handlers.network_rules import is_special
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.gate.dns.resolver import Answer


def grant_direct(session: CageSession, name: str, answer: Answer) -> None:
    """Tells the supervisor the addresses of a name whose grants need no relay. Where it declines, the relay serves
    the connection."""
    if session.grant is None:
        return
    synthetic = sixteen(session.names.address_of(name))
    for first, last in session.rules.direct_ports(name):
        for address in answer.addresses:
            # Where no name leads by itself every port has to be listed, and only the first one is asked about.
            by_port = is_special(sixteen(address)) or is_own(address)
            if (first == last or not by_port) and check_resolved(session, name, address, first).allowed:
                with suppress(OSError):
                    session.grant(synthetic, sixteen(address), first, last, float(answer.ttl))
