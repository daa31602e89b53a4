"""Two Plans compared wall by wall, on pretend hosts: what one opens that the other does not.

What is compared is what a plan allows (a call by running the filters, a mount, a right, an address), whatever its
policy said. Used by the test that no stricter word opens anything, and for the table in the reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

from golden.pretend import MODERN, PROJECT, grants, look
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.plan import Attr, MountKind, Plan
from pysandbox.compile.profiles.arguments import RULES
from pysandbox.compile.syscalls import table
from pysandbox.errors import CageError
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts
from unit.compile.bpf_simulator import Machine

ALLOWED, HEARD, LOGGED, KILLED = 0x7FFF0000, 0x7FC00000, 0x7FFC0000, 0x80000000
SAMPLES = (0, 1, 2, 10, 0o4777, 0x20000000)
RULED = {*RULES, "socket", "setsockopt", "setpriority", "listen"}
DIRECT = {"egress": "direct", "unsafe_direct": True}

# What a stricter policy says; each is put upon every other option.
WORDS: Mapping[str, dict[str, Any]] = {
    "strict": {"strict": True},
    "scm_rights": {"scm_rights": "deny"},
    "deny_syscalls": {"deny_syscalls": ("getpriority", "chmod")},
    "deny": {"deny": grants("/home/ann/.ssh", f"{PROJECT}/.env")},
    "mask": {"mask": grants(f"{PROJECT}/.env")},
    "max_pids": {"max_pids": 9},
    "memory_mb": {"memory_mb": 64},
    "allow_execve": {"allow_execve": ("/usr/bin/env",)},
    "deny_pattern": {"deny": grants(f"{PROJECT}/*.env")},
    "deny_calls": {"deny_syscalls": ("connect", "sendmsg", "kill", "ppoll")},
    "supervised": {"notifier": True},
    "open_files": {"open_files": 64},
    "file_size_gb": {"file_size_gb": 1},
    "address_space_gb": {"address_space_gb": 1},
    "tmp_mb": {"tmp_mb": 5},
    "write_mb": {"write_mb": 5},
    "cow_mb": {"cow_mb": 5},
    "walltime_sec": {"walltime_sec": 5.0},
}
OPTIONS: Mapping[str, dict[str, Any]] = {
    "default": {},
    "write": {"workdir": "write"},
    "read": {"workdir": "read", "allow": grants("/data/set")},
    "home": {"allow_write": grants("/home/ann")},
    "scratch": {"state": "scratch"},
    "hosts": {"hosts": ("pypi.org",)},
    "ips": {"allow_ips": ("10.0.0.1:443/tcp", "10.0.0.2/udp")},
    "ports": {"ports": ("8080",)},
    "loopback": {"allow_host_loopback": True},
    "direct": DIRECT,
    "relaxed": {"seccomp": "relaxed"},
    "seed": {"seccomp": "seed-187"},
    "deny-list": {"seccomp_mode": "deny-list"},
    "lists": {"syscall_lists": (("allow", ("read", "write", "execve", "exit_group", "ptrace", "socket")),)},
    "extra": {"allow_syscalls": ("ptrace", "memfd_create")},
    "self": {"run_as": "self"},
    "root": {"run_as": "root"},
    "landlock": {"isolation": "landlock", "run_as": "self"},
    "programs": {"allow_execve": ("/usr/bin/env", "/usr/bin/static")},
    "limits": {"memory_mb": 128, "cpu_percent": 50, "limits_required": False},
    "notifier": {"notifier": True},
    "no notifier": {"notifier": False},
    "cow": {"workdir": "cow"},
    "cow below": {"cow": ("/home/ann",)},
    "cow on disk": {"workdir": "cow", "storage": "disk"},
    "cow in a copy": {"workdir": "cow", "storage": "copy"},
    "unguarded": {"workdir": "write", "unguarded": (".git",)},
    "no base": {"base": False, "allow": grants("/usr")},
    "monitor": {"monitor": True},
    "why": {"why": True},
    "no egress": {"egress": "none"},
    "variables": {"env": {"A": "b"}, "env_passthrough": ("FOO",)},
    "loopback ports": {"allow_host_loopback": True, "host_loopback_ports": (9,)},
    "names resolved": {"hosts": ("pypi.org",), "dns_ipv6": "resolve"},
    "another profile": {"seccomp": "default"},
}


def compiled(host: HostFacts, *options: Mapping[str, Any]) -> Plan | None:
    """None where it is refused."""
    asked: dict[str, Any] = {}
    for each in options:
        asked |= each
    try:
        policy = Policy(**asked)
        return compile_plan(policy, host, look(policy))
    except (CageError, ValueError, TypeError):
        return None


# ---- what a plan allows ------------------------------------------------------------------------------------------


class Filtered:
    """The filter of a command: that of the cage, and its own beside it."""

    def __init__(self, programs: tuple[bytes, ...]) -> None:
        self.machines = [Machine(program) for program in programs if program]
        self.arch, self.numbers = table("x86_64")

    def answers(self, name: str, *given: int) -> set[int]:
        return {machine.run(self.arch, self.numbers[name], given) for machine in self.machines}


@cache
def calls(programs: tuple[bytes, ...]) -> frozenset[tuple[object, ...]]:
    """Every call that the filter lets through; the ones that arguments decide, for some of them."""
    filtered = Filtered(programs)
    return frozenset(
        (name, *given)
        for name in filtered.numbers
        for given in (itertools.product(SAMPLES, repeat=3) if name in RULED else [(0, 0, 0)])
        if filtered.answers(name, *given) <= {ALLOWED, HEARD, LOGGED}
    )


@cache
def unheard(programs: tuple[bytes, ...]) -> frozenset[str]:
    """Calls that pass without the supervisor, where one decides on addresses or descriptors."""
    names = ("connect", "sendmsg", "sendmmsg", "bind", "listen", "execve")
    return frozenset(name for name in names if Filtered(programs).answers(name) == {ALLOWED})


def filters(plan: Plan) -> tuple[bytes, ...]:
    return plan.seccomp, plan.seccomp_late


@cache
def deadly(programs: tuple[bytes, ...]) -> frozenset[str]:
    """Calls that end the program which makes them."""
    filtered = Filtered(programs)
    return frozenset(name for name in filtered.numbers if KILLED in filtered.answers(name))


def writable(plan: Plan) -> set[str]:
    """What is bound, and not read-only by itself or by what protects all that is there by then."""
    found: set[str] = set()
    for step in plan.mounts:
        if step.kind is MountKind.PROTECT and step.target == "/" and Attr.RDONLY in step.attrs:
            found.clear()
        elif step.kind is MountKind.BIND and Attr.RDONLY not in step.attrs:
            found.add(step.target)
    return found


def raised(strict: Plan, plain: Plan) -> set[str]:
    """Limits that are gone, or higher."""
    left = {each.resource: each.value for each in strict.limits}
    return {each.resource for each in plain.limits
            if each.value is not None and (left.get(each.resource) is None or left[each.resource] > each.value)}  # type: ignore[operator]  # fmt: skip


SHOWS = (MountKind.BIND, MountKind.OVERLAY)


def is_below(path: str, plan: Plan) -> bool:
    """Whether a mount shows it already: what is denied inside a grant is held in its place by mounts of its parents."""
    return any(path.startswith(step.target + "/") for step in plan.mounts if step.kind in SHOWS)


def covered(plan: Plan) -> set[str]:
    return {step.target for step in plan.mounts if step.kind.name.startswith(("MASK", "DENY"))}


def rights(plan: Plan) -> set[tuple[str, str]]:
    return {(rule.path, right) for rule in plan.landlock.rules for right in rule.access} if plan.landlock else set()


def has_above(plan: Plan, path: str, right: str) -> bool:
    return any(each == right and path.startswith(above.rstrip("/") + "/") for above, each in rights(plan))


def weaker(strict: Plan, plain: Plan) -> dict[str, object]:
    """What the first one opens, or leaves out, that the second one does not."""
    binds = {step.target for step in strict.mounts} - {step.target for step in plain.mounts}
    found: dict[str, object] = {
        "namespaces": set(plain.namespaces) - set(strict.namespaces),
        "calls": calls(filters(strict)) - calls(filters(plain)),
        "unheard": unheard(filters(strict)) - unheard(filters(plain)) if plain.notify else set(),
        "writable": writable(strict) - writable(plain),
        "covered": covered(plain) - covered(strict),
        "shown": {target for target in binds - covered(strict) if not is_below(target, plain)},
        "landlock": plain.landlock is not None and strict.landlock is None,
        "kills": deadly(filters(plain)) - deadly(filters(strict)) if plain.seccomp else set(),
        "limits": raised(strict, plain),
        "env": set(strict.env) - set(plain.env),
        "net": strict.net is not None and plain.net is None,
        "cgroup": plain.cgroup is not None and strict.cgroup is None,
        "watch": plain.watch is not None and strict.watch is None and strict.cgroup is None,
    }
    if plain.landlock and strict.landlock:
        found["handled"] = (
            set(plain.landlock.handled_fs) - set(strict.landlock.handled_fs),
            set(plain.landlock.handled_net) - set(strict.landlock.handled_net),
            set(plain.landlock.scoped) - set(strict.landlock.scoped),
        )
        found["rights"] = {each for each in rights(strict) - rights(plain) if not has_above(plain, *each)}
    if plain.notify and strict.notify:
        found["sealed"] = plain.notify.no_external_reach and not strict.notify.no_external_reach
        found["control"] = plain.notify.refuse_control and not strict.notify.refuse_control
        found["grants"] = set(strict.notify.grants) - set(plain.notify.grants)
        found["sockets"] = set(strict.notify.sockets) - set(plain.notify.sockets)
        found["ports"] = plain.notify.keeps_ports and not strict.notify.keeps_ports
        found["lenient"] = strict.notify.lenient and not plain.notify.lenient
    return {name: each for name, each in found.items() if each and each != (set(), set(), set())}


# How the table in the reference names them, in its order.
NAMES = {
    "namespaces": "namespaces", "landlock": "Landlock", "handled": "Landlock's rules", "rights": "rights to files",
    "calls": "system calls", "kills": "a refused call kills",
    "unheard": "calls that the supervisor decides", "sealed": "addresses of the host",
    "control": "descriptors in messages", "grants": "addresses", "net": "ways out", "shown": "what is shown",
    "writable": "what is writable", "covered": "denied and masked paths", "limits": "limits", "cgroup": "limits",
    "watch": "limits", "env": "variables", "lenient": "refusals", "sockets": "unix sockets",
    "ports": "ports of the host",
}  # fmt: skip


def moved(asked: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """The walls that an option adds to the default policy, and those that it lowers or takes away; None where it is
    refused."""
    plain, other = compiled(MODERN), compiled(MODERN, asked)
    if plain is None or other is None:
        return None
    added, removed = weaker(plain, other), weaker(other, plain)
    return _named(added), _named(removed)


def _named(found: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys(name for key, name in NAMES.items() if key in found))
