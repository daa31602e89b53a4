"""isolation = "landlock": a cage with no namespace, for hosts that forbid them. Asked for by name, never a fallback.

Landlock gives rights and cannot take them back further down, has no mount to put in place of the host's, no user id of
its own: what a policy asks that needs one of these is refused here, with the reason (LL-03). What stays open without
being asked for is a Note (`degrade.GAPS`). The rules are the first wall, at the host's own paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pysandbox.compile.copies import on_the_copy
from pysandbox.compile.cow import is_overlaid
from pysandbox.compile.exec_list import restricted
from pysandbox.compile.landlock import FS_RIGHTS, NET_RIGHTS, SCOPES, Rights, abi_of, tree_rules
from pysandbox.compile.plan import DEVICES, LandlockPlan, LandlockRule
from pysandbox.compile.shown import ShownTree
from pysandbox.compile.view import View, nearest
from pysandbox.errors import SandboxCompileError
from pysandbox.policy import base_grants
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import HostFacts

OF_EVERY_POLICY = {grant.path: ", and every policy denies that" for grant in base_grants.DENY}
# What programs read of the machine. No process is in the list: the host's /proc shows all of them, so it must be
# granted by name to be seen.
PROC_READABLE = {
    "/proc/sys": "dir",
    **{
        f"/proc/{name}": "file"
        for name in ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
    },
}
FULL = 'use isolation = "full"'

REFUSED: tuple[tuple[str, Callable[[Policy], bool], str, str], ...] = (
    ("process.run_as", lambda policy: policy.explicit.get("run_as", "self") != "self",
     "without a user namespace a command keeps the caller's id", f'set run_as = "self", or {FULL}'),
    ("workspace.storage", is_overlaid, "without a mount namespace nothing is laid over a directory",
     f'leave storage out, or set it to "copy", or {FULL}'),
    ("filesystem.state", lambda policy: policy.state != "ephemeral",
     "without a mount namespace there is no /scratch", f'leave state out and use $TMPDIR, or {FULL}'),
    ("syscalls.allow_extra", lambda policy: any(name.startswith("io_uring_") for name in policy.allow_syscalls),
     "a ring makes sockets that no filter sees, and nothing else keeps from those of the host",
     f"leave io_uring out, or {FULL}"),
    ("network.ports", lambda policy: bool(policy.ports),
     "without a network namespace there is nothing to publish a port of", f"leave ports out, or {FULL}"),
    ("network.allow_host_loopback", lambda policy: policy.egress == "proxy-only" and policy.allow_host_loopback,
     "without a network namespace there is no alias for the host's loopback",
     f'list 127.0.0.1 in network.allow_ips, or {FULL}'),
    ("network.host_loopback_ports", lambda policy: policy.egress == "proxy-only" and bool(policy.host_loopback_ports),
     "without a network namespace there is no alias for the host's loopback",
     f'list 127.0.0.1 in network.allow_ips, or {FULL}'),
)  # fmt: skip


def refuse_what_needs_namespaces(policy: Policy, view: View) -> None:
    for key, asks, reason, suggestion in REFUSED:
        if asks(policy):
            raise SandboxCompileError(f'isolation = "landlock": {reason}', key=key, suggestion=suggestion)
    for real, hole in view.holes.items():
        tree = _on_the_host(view, real)
        if tree is not None and not hole.implied:
            raise _cannot_take_back(hole.kind, hole.key, hole.fact.path, tree.fact.path)
    for real, tree in view.trees.items():
        above = view.enclosing(real)
        if above is not None and above.writable and not tree.implied:
            raise _cannot_take_back("make read-only", tree.key, tree.fact.path, above.fact.path)


def _on_the_host(view: View, real: str) -> ShownTree | None:
    """The tree around a path that gives rights on the host's own file: of a copy, what is hidden is no part."""
    tree = view.enclosing(real)
    while tree is not None and tree.cow:
        tree = view.enclosing(tree.fact.real)
    return tree


def _cannot_take_back(verb: str, key: str, path: str, tree: str) -> SandboxCompileError:
    return SandboxCompileError(f'isolation = "landlock" cannot {verb} {path!r} inside the allowed {tree!r}'
                               f"{OF_EVERY_POLICY.get(path, '')}", key=key,
                               suggestion=f"grant narrower paths, or {FULL}")  # fmt: skip


def unguarded(view: View) -> tuple[str, ...]:
    """The files that steer the next run or the host's git: a full cage would protect them, this one has them."""
    implied = (*(real for real, hole in view.holes.items() if hole.implied),
               *(real for real, tree in view.trees.items() if tree.implied))  # fmt: skip
    return tuple(real for real in implied if _on_the_host(view, real) is not None)


def ruleset_on_host(policy: Policy, host: HostFacts, view: View) -> LandlockPlan:
    """With no rule for them, no TCP port can be bound or reached; `direct` leaves ports alone."""
    abi = abi_of(host)
    return LandlockPlan(
        handled_fs=FS_RIGHTS[abi],
        handled_net=() if policy.egress == "direct" else NET_RIGHTS[abi],
        scoped=SCOPES[abi],
        rules=tuple(restricted(_host_rules(FS_RIGHTS[abi], view), policy, view)),
    )


def _host_rules(every: Rights, view: View) -> Iterator[LandlockRule]:
    for rule in tree_rules(every, view, writable_only=False):
        if not view.trees[rule.path].implied:
            yield on_the_copy(rule, view)
    for device in DEVICES:
        on_tty = ("IOCTL_DEV",) if device == "/dev/tty" else ()
        yield LandlockRule(device, ("READ_FILE", "WRITE_FILE", *on_tty), optional=True)
    for path, kind in PROC_READABLE.items():
        if nearest(path, view.holes) is None:
            yield LandlockRule(path, ("READ_FILE",) if kind == "file" else ("READ_FILE", "READ_DIR"), optional=True)
    yield LandlockRule("", every)
