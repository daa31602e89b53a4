"""connect, bind, sendto, sendmsg and sendmmsg: may this address be reached?

The same question is answered without Python in csrc/host/judge.c (`way_of`); a test holds the two against each other.
"""

from __future__ import annotations

from errno import EPERM

from pysandbox.handlers.address import AF_UNSPEC, PROTOCOL_BITS, family, ip_address
from pysandbox.handlers.call import Call
from pysandbox.handlers.rules import Rules
from pysandbox.handlers.verdict import Errno, OnBehalf, Verdict
from pysandbox.policy.endpoint import OWN, TCP, Endpoint


def decide(call: Call, rules: Rules) -> Verdict:
    if call.kind in ("BIND", "LISTEN"):
        return OnBehalf()
    if not way_to(call, rules):
        return Errno(EPERM, rules.source)
    if all(_listed(call, rules.by_mark[mark]) for mark in call.marks):
        return OnBehalf()
    return Errno(EPERM, "policy_fn")


def way_to(call: Call, rules: Rules) -> str:
    """How the address may be reached by a socket that is the cage's still: "grant", "local", or "" (not at all). What
    a socket of the host's network may do besides is for the C half, which can tell one."""
    if _listed(call, rules.endpoints) and not _is_granted(call, rules):
        return "local"
    return "grant" if _is_granted(call, rules) else ""


def _is_granted(call: Call, rules: Rules) -> bool:
    return (
        bool(rules.grants and call.address)
        and family(call.address) != AF_UNSPEC
        and (_listed(call, rules.grants) and not _is_own(call))
    )


def _is_own(call: Call) -> bool:
    address = ip_address(call.address)
    return address is not None and any(each.holds(address.packed, 0, TCP) for each in OWN)


def _listed(call: Call, endpoints: tuple[Endpoint, ...]) -> bool:
    if not call.address:
        return call.kind != "CONNECT"  # a send to where the socket is connected to
    if family(call.address) == AF_UNSPEC:
        return call.kind == "CONNECT"  # undoes a connect
    address = ip_address(call.address)
    if address is None:
        return False
    protocol = PROTOCOL_BITS.get(call.protocol, 0)
    return any(each.holds(address.packed, address.port, protocol) for each in endpoints)
