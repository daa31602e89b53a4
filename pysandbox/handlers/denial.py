"""A `Denial`: what was refused, by which rule, and the one line that would allow it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pysandbox.handlers import fix
from pysandbox.handlers.address import PROTOCOL_NAMES, ip_address, unix_path
from pysandbox.handlers.call import NETWORK, Call

RULED_BY_LIST = frozenset({"network.allow_ips", "network.egress"})


@dataclass(frozen=True, slots=True)
class Denial:
    """One thing that was refused. `fix` is the policy line that would allow it, empty where no line does.

    `kind` is "network", "exec", "file" or "syscall"; of what the gatekeeper refused, "dns", "tcp" or "udp".
    `pid` (the host's number) and `argv` are of the first process that asked, as far as they were known; `count` is how
    often it was asked.
    """

    kind: str
    target: str
    rule: str
    fix: str
    pid: int = 0
    argv: tuple[str, ...] = ()
    count: int = 1


FURTHER = "(further targets)"  # of those that are counted, and told apart no more


# The rules behind a refusal that no policy lifts, and that --monitor does not lift either.
NEVER, NEVER_SO = "never allowed in a cage", "never allowed in a cage with these arguments"


def monitor_passes(denial: Denial) -> bool:
    """Whether --monitor lets it go on: calls and programs, but what no cage may do. Files and network stay closed."""
    return denial.kind in ("exec", "syscall") and denial.rule not in (NEVER, NEVER_SO)


def further_of(kind: str, count: int = 0) -> Denial:
    """All refusals of a kind beyond those that were told apart, as one."""
    return Denial(kind, FURTHER, "", "", count=count)


def kind_of(call: Call) -> str:
    return "network" if call.kind in NETWORK else {"EXEC": "exec", "OPEN": "file"}.get(call.kind, "syscall")


def target_of(call: Call) -> str:
    """What was asked for, as a person would name it."""
    if call.kind in NETWORK:
        address = ip_address(call.address)
        if address is not None:
            return address.text(call.protocol)
        return unix_path(call.address) or call.syscall
    if call.kind == "EXEC":
        return " ".join(call.argv) or call.path
    return call.path or call.syscall


def fix_of(call: Call, rule: str, *, own_network: bool, udp: bool = True) -> str:
    """The smallest line of a policy that allows it; see handlers.fix."""
    address = ip_address(call.address)
    if rule in RULED_BY_LIST and address is not None:
        protocol = PROTOCOL_NAMES.get(call.protocol, "")
        return fix.of_address(address.packed, address.port, protocol, own_network=own_network, udp=udp)
    if rule == "process.allow_execve":
        return fix.of_program(call.path)
    if rule == "syscalls.scm_rights":
        return 'scm_rights = "allow"'
    if rule.startswith("syscalls.") and call.kind == "OTHER":
        return fix.assignment("allow_extra", call.syscall)
    return ""
