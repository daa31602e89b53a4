"""connect, bind, sendto, sendmsg and sendmmsg: may this address be reached? Here a call becomes a question to the rule
(handlers.network_rules); csrc/host/emulate/reach.c asks the same question without Python."""

from __future__ import annotations

from errno import EPERM

from pysandbox.handlers.address import AF_UNSPEC, PROTOCOL_BITS, family, ip_address
from pysandbox.handlers.call import Call
from pysandbox.handlers.network_rules import NetworkRules, Reach
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Errno, OnBehalf, Verdict


def decide(call: Call, rules: CallRules) -> Verdict:
    if call.kind in ("BIND", "LISTEN"):
        return OnBehalf()
    if not reach_of(call, rules.network):
        return Errno(EPERM, rules.source)
    if all(reach_of(call, NetworkRules(local=rules.by_mark[mark])) for mark in call.marks):
        return OnBehalf()
    return Errno(EPERM, "policy_fn")


def reach_of(call: Call, rules: NetworkRules) -> Reach:
    """How the address may be reached by a socket that is the cage's still. Two things only the C half can tell, which
    does the call and asks once more: whose the address is, and of which network the socket."""
    if not call.address:
        return "local" if call.kind != "CONNECT" else ""  # a send to where the socket is connected to
    if family(call.address) == AF_UNSPEC:
        return "local" if call.kind == "CONNECT" else ""  # undoes a connect
    address = ip_address(call.address)
    if address is None:
        return ""
    return rules.reach(address.packed, address.port, PROTOCOL_BITS.get(call.protocol, 0), own=False)
