"""From a call to its verdict: one table. To add a family, write its file and its row."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pysandbox.handlers import execve, network, openat
from pysandbox.handlers.call import Call
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Verdict

Handler = Callable[[Call, CallRules], Verdict]

HANDLERS: Mapping[str, Handler] = {
    "CONNECT": network.decide,
    "BIND": network.decide,
    "LISTEN": network.decide,
    "SENDTO": network.decide,
    "SENDMSG": network.decide,
    "EXEC": execve.decide,
    "OPEN": openat.decide,
}


def decide(call: Call, rules: CallRules) -> Verdict:
    return HANDLERS[call.kind](call, rules)
