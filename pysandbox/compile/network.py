"""Which namespaces a cage gets, and what it knows of a network.

A full cage has a network namespace with loopback and nothing else. `direct` is the exception, under an explicit
acknowledgement (T07): the host's own network, nothing between.
"""

from __future__ import annotations

from pysandbox.compile.plan import Note
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy

NAMESPACES = ("USER", "PID", "NS", "IPC", "UTS", "CGROUP")
HOSTS_TEXT = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"

DIRECT = "network.direct"


def network_notes(policy: Policy) -> tuple[Note, ...]:
    if policy.egress == "direct":
        if not policy.unsafe_direct:
            raise SandboxCompileError('"direct" gives the cage the host\'s own network', key="network.egress",
                                      suggestion="to accept that, set network.unsafe = true")  # fmt: skip
        return (Note(DIRECT, "network.egress", "the cage uses the host's own network; nothing it sends is confined"),)
    return ()


def namespaces(policy: Policy) -> tuple[str, ...]:
    if policy.isolation != "full":
        return ()
    return NAMESPACES if policy.egress == "direct" else (*NAMESPACES, "NET")
