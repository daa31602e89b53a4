"""What would allow what was refused: that, and nothing beside it, as TOML for the end of any file. Pure.

One table by the rule that refused: to add a kind of refusal, add its row. What was refused is named by the cage, so
every value goes through the renderer of recipes, and where no text can say exactly this one thing (a file called `*`, a
name that is no text, a protocol that no list knows) there is none: "". Whether the next run would refuse it all the
same is asked in `supervise.fixing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from errno import EAGAIN

from pysandbox.denial import Denial
from pysandbox.handlers.address import PROTOCOL_NAMES, ip_address
from pysandbox.handlers.call import Call
from pysandbox.policy.endpoint import MAPPED, OWN, PROTOCOLS, TCP, UDP, UNSPECIFIED
from pysandbox.shapes import replace

DELETED = " (deleted)"  # how the kernel ends the path of a file that has none any more


def fix_of(call: Call, rule: str, *, own_network: bool, udp: bool = True) -> str:
    """For a call that the supervisor refused. `own_network`, `udp`: see `of_address`."""
    address = ip_address(call.address)
    if rule in ("network.allow_ips", "network.egress") and address is not None:
        protocol = PROTOCOL_NAMES.get(call.protocol, "")
        return of_address(address.packed, address.port, protocol, own_network=own_network, udp=udp)
    return BY_RULE[rule](call) if rule in BY_RULE else ""


def _syscall(call: Call) -> str:
    return text(allow_syscalls=(call.syscall,)) if call.kind == "OTHER" else ""


BY_RULE: Mapping[str, Callable[[Call], str]] = {
    "process.allow_execve": lambda call: of_program(call.path),
    "syscalls.scm_rights": lambda call: text(scm_rights="allow"),
    "syscalls.profile": _syscall,
}


def spelled(denial: Denial) -> Denial:
    """With its fix as flags and in Python besides."""
    from pysandbox.policy.also import as_flag, as_python

    if not denial.fix:
        return denial
    return replace(denial, flag=as_flag(denial.fix), python=as_python(denial.fix))


def text(**given: object) -> str:
    """A table [[also]] with these fields of Policy; "" for what no TOML can hold, or no policy."""
    from pysandbox.errors import PolicyError
    from pysandbox.policy.also import as_toml

    try:
        return as_toml(given)
    except PolicyError:
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
    return text(allow_ips=(f"{host}:{port}/{protocol}",))


def of_program(path: str) -> str:
    """For a real path. In a list a star stands for a whole tree, and for nothing else."""
    from pysandbox.policy.expand import normal, quote

    plain = path.startswith("/") and path != "/" and normal(path) == path
    if not plain or "*" in path or "\0" in path or path.endswith(DELETED):
        return ""
    return text(allow_execve=(quote(path),))


def of_host(name: str, port: int | None = None) -> str:
    """For a canonical name; with a port, at that port alone."""
    return text(hosts=({"domain": name, **({"ports": [port]} if port is not None else {})},))


def of_file(key: str, path: str) -> str:
    """For the real path of a file or directory, in a list of them: "allow" or "allow_write"."""
    from pysandbox.policy.expand import quote

    return text(**{key: (quote(path),)}) if of_program(path) else ""


def of_word(key: str, word: str) -> str:
    """For one word of a list, as "unguarded" has them."""
    return text(**{key: (word,)})


def of_forks(most: int, count: int) -> Denial:
    """For forks beyond `process.max_pids`: the kernel counts them, and knows no more of them."""
    asked = Denial("process", f"more than {most} processes and threads", "process.max_pids", text(max_pids=2 * most),
                   count=count, call="clone", errno=EAGAIN)  # fmt: skip
    return spelled(asked)
