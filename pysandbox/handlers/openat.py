"""open, creat and openat: the supervisor opens the file that was judged, inside the cage's root, for the caller."""

from __future__ import annotations

from pysandbox.handlers.call import Call
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import InjectFd, Verdict


def decide(call: Call, rules: CallRules) -> Verdict:
    return InjectFd(call.path, call.flags, call.mode)
