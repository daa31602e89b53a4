"""The one policy line that would allow what was refused: that, and nothing beside it. Pure.

What was refused is named by the cage, so every value goes through the renderer of recipes, and where a line cannot say
exactly this one thing (a file called `*`, a name that is no text, a protocol that no list knows), or the next run would
refuse the line, there is none: "".
"""

from __future__ import annotations

from pysandbox.policy.endpoint import MAPPED, OWN, PROTOCOLS, TCP, UDP, UNSPECIFIED

DELETED = " (deleted)"  # how the kernel ends the path of a file that has none any more


def assignment(key: str, value: str) -> str:
    """`key = ["value"]`, on one line."""
    from pysandbox.errors import PolicyError
    from pysandbox.policy.render import literal

    try:
        return f"{key} = {literal((value,))}"
    except PolicyError:  # not UTF-8: no line can hold it
        return ""


def of_address(packed: bytes, port: int, protocol: str, *, own_network: bool, udp: bool = True) -> str:
    """For an address of sixteen bytes. A cage with a network of its own has a loopback of its own, and the addresses
    that stand for names in it: no list leads from there to the host's. `udp`: a list may name it."""
    import ipaddress

    bit = PROTOCOLS[protocol] if protocol else 0
    if bit not in (TCP, UDP) or not 0 < port < 65536:
        return ""
    if own_network and any(each.holds(packed, 0, bit) for each in (*UNSPECIFIED, *OWN)):
        return ""
    if bit == UDP and not udp:
        return ""
    four = packed.startswith(MAPPED)
    host = str(ipaddress.IPv4Address(packed[12:])) if four else f"[{ipaddress.IPv6Address(packed)}]"
    return assignment("allow_ips", f"{host}:{port}/{protocol}")


def of_program(path: str) -> str:
    """For a real path. In a list a star stands for a whole tree, and for nothing else."""
    from pysandbox.policy.expand import normal, quote

    plain = path.startswith("/") and path != "/" and normal(path) == path
    if not plain or "*" in path or "\0" in path or path.endswith(DELETED):
        return ""
    return assignment("allow_execve", quote(path))
