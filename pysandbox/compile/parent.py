"""`[proxy] parent`: what is asked of another proxy, and what that takes away. Pure.

The parent is asked for a name, and resolves it. So no address is checked here that the name leads to: whoever owns an
allowed name may have it lead to an address inside of the parent's network. That is told whenever a cage has one.
"""

from __future__ import annotations

from pysandbox.compile.notes import wide_grant
from pysandbox.errors import SandboxCompileError
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.parent import ParentProxy, place_of
from pysandbox.policy.way_out import reaches_hosts

KEY = "proxy.parent"
WAIVED = (
    "names are resolved by {parent}, so no address that an allowed name leads to is checked here: it may lead inside "
    "of that proxy's network"
)


def parent_of(policy: Policy) -> ParentProxy | None:
    """Raises SandboxCompileError for a parent that the cage itself may speak to: it would ask it for anything."""
    if policy.proxy_parent is None or not reaches_hosts(policy):
        return None
    host, port = place_of(policy.proxy_parent)
    if policy.network_backend == "routed":
        raise SandboxCompileError("a routed cage has an interface, and speaks to servers itself", key=KEY,
                                  suggestion="leave backend out, or parent")  # fmt: skip
    if any(rule.domain == host for rule in policy.hosts):
        raise SandboxCompileError(
            f"{host} is the parent proxy, and a cage that may speak to it asks it for anything", key=KEY,
            suggestion="leave its [[host]] block out",
        )  # fmt: skip
    variable = (policy.proxy_parent_credentials or "").partition(":")[2]
    return ParentProxy(host, port, variable, policy.proxy_no_parent)


def parent_notes(policy: Policy) -> tuple[Note, ...]:
    if policy.proxy_parent is None or not reaches_hosts(policy):
        return ()
    return (wide_grant(KEY, WAIVED.format(parent=policy.proxy_parent.removeprefix("http://"))),)
