"""connect, bind, sendto, sendmsg and sendmmsg: may this address be reached?

The same question is answered without Python in csrc/host/behalf.c (`listed`); a test holds the two against each other.
"""

from __future__ import annotations

from errno import EPERM

from pysandbox.handlers.address import AF_UNSPEC, PROTOCOL_BITS, family, ip_address
from pysandbox.handlers.call import Call
from pysandbox.handlers.rules import Rules
from pysandbox.handlers.verdict import Errno, OnBehalf, Verdict
from pysandbox.policy.endpoint import Endpoint


def decide(call: Call, rules: Rules) -> Verdict:
    if call.kind == "BIND":
        return OnBehalf()
    if not _listed(call, rules.endpoints):
        return Errno(EPERM, rules.source)
    if all(_listed(call, rules.by_mark[mark]) for mark in call.marks):
        return OnBehalf()
    return Errno(EPERM, "policy_fn")


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
