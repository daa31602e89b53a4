"""What a Denial says of one call: its kind and its target. Pure."""

from __future__ import annotations

from pysandbox.handlers.address import ip_address, unix_path
from pysandbox.handlers.call import NETWORK, Call

KINDS = {"EXEC": "exec", "OPEN": "file", "PATH": "file", "RENAME": "file"}


def kind_of(call: Call) -> str:
    return "network" if call.kind in NETWORK else KINDS.get(call.kind, "syscall")


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
