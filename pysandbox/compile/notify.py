"""Which calls of a cage are decided at run time, and the walls that make those decisions hold.

A policy without a run-time rule has no NotifyPlan: no listener is installed and no thread started. The rows of NEEDS
say what asks for one. Two walls stand behind the supervisor, since a descriptor or an address can be swapped while it
looks: Landlock refuses every TCP connect and bind that is not done on the caller's behalf, and, where arguments of an
execve are decided, the writing of another process's memory through /proc (BPF refuses the calls for it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pysandbox.compile.cow import COW, is_overlaid
from pysandbox.compile.landlock import NET_RIGHTS, ON_PROC
from pysandbox.compile.plan import LandlockPlan, NotifyPlan, SocketGrant
from pysandbox.compile.programs import programs
from pysandbox.compile.shown import View
from pysandbox.compile.watched import PATH_CALLS, RENAME_CALLS, watches_files
from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.policy.endpoint import (
    ANYWHERE,
    OWN,
    SYNTHETIC,
    TCP,
    UDP,
    UNSPECIFIED,
    Endpoint,
    parse_endpoint,
    parse_list,
    without_special,
)
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import is_proxied, reaches_hosts
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.shapes import replace

# What a callback may ask to hear of, and the system calls behind it.
CATEGORIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "exec": {"EXEC": ("execve", "execveat")},
    "network": {
        "CONNECT": ("connect",), "BIND": ("bind",), "SENDTO": ("sendto",), "SENDMSG": ("sendmsg", "sendmmsg"),
    },
    "file": {"OPEN": ("open", "creat", "openat")},
}  # fmt: skip
CALLS: Mapping[str, tuple[str, ...]] = {
    **{name: calls for row in CATEGORIES.values() for name, calls in row.items()}, "LISTEN": ("listen",),
    "PATH": PATH_CALLS, "RENAME": RENAME_CALLS,
}  # fmt: skip
WALL_ABI = 4  # Landlock rules on TCP ports, Linux 6.7
RINGS = "io_uring_"


def _refuses_descriptors(policy: Policy) -> bool:
    return policy.scm_rights == "deny" or policy.strict


def _lists_addresses(policy: Policy) -> bool:
    """Where they are sockets of the host's: the routed back end has the kernel route them."""
    return bool(policy.allow_ips) and policy.egress != "none" and policy.network_backend != "routed"


def has_own_network(policy: Policy) -> bool:
    return policy.isolation == "full" and policy.egress != "direct"


def _names_direct_hosts(policy: Policy) -> bool:
    return reaches_hosts(policy) and any(host.direct for host in policy.hosts)


def _leads_out(policy: Policy) -> bool:
    """Sockets of the host's network come into the cage; every call that could turn one elsewhere is decided."""
    return has_own_network(policy) and (_lists_addresses(policy) or _names_direct_hosts(policy))


def grants_sockets(policy: Policy) -> bool:
    """Without namespaces every unix socket of the host can be named: the supervisor connects to those that may be."""
    return policy.isolation == "landlock" and bool(policy.unix_sockets)


# (what asks for a supervisor, the options of which one must be set, when, the classes and their action). A later row
# wins over an earlier one, and what a callback watches (ASK) over all of them.
NEEDS: tuple[tuple[str, tuple[str, ...], Callable[[Policy], bool], Mapping[str, str]], ...] = (
    ("process.allow_execve", ("allow_execve",), lambda policy: True, {"EXEC": "TELL"}),
    ("syscalls.notifier", ("notifier",), lambda policy: True, {"EXEC": "TELL"}),
    ("syscalls.scm_rights", ("scm_rights", "strict"), _refuses_descriptors, {"SENDMSG": "LIST"}),
    ("network.allow_ips", ("allow_ips",), _lists_addresses, dict.fromkeys(("CONNECT", "SENDTO", "SENDMSG"), "LIST")),
    (
        "network.allow_ips", ("allow_ips", "hosts"), _leads_out,
        dict.fromkeys(("CONNECT", "BIND", "LISTEN", "SENDTO", "SENDMSG"), "LIST"),
    ),
    ("network.unix_sockets", ("unix_sockets",), grants_sockets, dict.fromkeys(("CONNECT", "BIND", "LISTEN"), "LIST")),
    ("host", ("hosts",), is_proxied, {"CONNECT": "LIST"}),
    (COW, ("cow", "workdir"), is_overlaid, {"RENAME": "TELL"}),
    ("why", ("why", "monitor"), watches_files, {"EXEC": "TELL", "OPEN": "TELL", "PATH": "TELL"}),
    ("monitor", ("monitor",), lambda policy: True, {"OTHER": "TELL", "EXEC": "TELL"}),
)  # fmt: skip
# These only tell: without a supervisor the rule itself still holds, or monitor falls back to the kernel's log; a
# directory of a copy-on-write tree is then not renamed (EXDEV), and what renames it copies.
ONLY_TOLD = frozenset({"process.allow_execve", COW, "why", "monitor"})


def notify_plan(policy: Policy, host: HostFacts, paths: PathFacts, watch: frozenset[str]) -> NotifyPlan | None:
    """Raises UnsupportedError where a rule needs what the kernel lacks, SandboxCompileError for what contradicts."""
    if policy.allow_ips or policy.hosts:
        _check_addresses(policy)
    asking = [(key, actions) for key, parts, asks, actions in NEEDS
              if any(getattr(policy, part) for part in parts) and asks(policy)]  # fmt: skip
    if not host.seccomp_filter:
        return None  # and so no cage (`degrade`)
    if not (host.user_notif and host.wait_killable) or policy.notifier is False:
        asking = _without_supervisor(policy, asking, watch)
    if not asking and not watch:
        return None
    _check_watch(policy, host, watch)
    actions = {name: action for _, row in asking for name, action in row.items()}
    actions |= {name: "ASK" for category in watch for name in CATEGORIES[category]}
    return NotifyPlan(
        calls=tuple(sorted({call for name in actions for call in CALLS.get(name, ())})),
        actions=tuple(sorted(actions.items())),
        endpoints=_endpoints(policy, watch),
        no_external_reach=policy.egress != "direct" and not _leads_out(policy) and not grants_sockets(policy),
        abstract=policy.isolation == "full" and policy.egress != "direct",
        watches_paths=watches_files(policy),
        refuse_control=_refuses_descriptors(policy),
        lenient=policy.monitor,
        programs=_programs(policy, paths),
        grants=_grants(policy),
        named=(ANYWHERE,) if _names_direct_hosts(policy) else (),
        landlock_denies_bind=_leads_out(policy) and host.landlock_abi >= WALL_ABI,
        on_host=policy.isolation == "landlock",
        keeps_ports=policy.isolation == "landlock" and policy.egress != "direct",
        doors=is_proxied(policy),
    )


def with_sockets(notify: NotifyPlan | None, view: View) -> NotifyPlan | None:
    """With the sockets that are left of what was granted, once denials and what is absent were weighed."""
    if notify is None or not notify.on_host:
        return notify
    sockets = (SocketGrant(real, fact.dev, fact.ino) for real, fact in sorted(view.sockets.items()))
    return replace(notify, sockets=tuple(sockets))


def _grants(policy: Policy) -> tuple[Endpoint, ...]:
    """What may be reached by a socket of the host's network."""
    if not (has_own_network(policy) and _lists_addresses(policy)):
        return ()
    return tuple(each for text in policy.allow_ips for each in without_special(parse_endpoint(text)))


def _programs(policy: Policy, paths: PathFacts) -> tuple[str, ...] | None:
    """What the list of executables allows, for telling what it refuses; the kernel does the refusing."""
    found = programs(policy, paths)
    return found.listed if found is not None else None


def _without_supervisor(
    policy: Policy, asking: list[tuple[str, Mapping[str, str]]], watch: frozenset[str]
) -> list[tuple[str, Mapping[str, str]]]:
    for key in (*(key for key, _ in asking if key not in ONLY_TOLD), *(["policy_fn"] if watch else [])):
        if policy.notifier is False:
            raise SandboxCompileError(f"{key} is decided at run time, and the notifier is switched off",
                                      key="syscalls.notifier", suggestion=f"leave notifier out, or {key}")  # fmt: skip
        lost = f"{key} needs calls to be decided at run time, which this kernel cannot hand over"
        raise UnsupportedError(
            lost,
            feature="user_notif",
            fix="use Linux 5.19 or newer (seccomp WAIT_KILLABLE_RECV), not below another seccomp supervisor",
        )
    return []


def _check_addresses(policy: Policy) -> None:
    rings = [name for name in policy.allow_syscalls if name.startswith(RINGS)]
    if rings and _leads_out(policy):
        raise SandboxCompileError(
            f"{', '.join(rings)}: a ring would connect the sockets that allow_ips gives the cage to anywhere",
            key="syscalls.allow_extra", suggestion="leave them out, or allow_ips",
        )  # fmt: skip
    for text in policy.allow_ips if has_own_network(policy) else ():
        _check_not_own(text)
    for text in policy.allow_ips if is_proxied(policy) else ():
        _check_not_door(text)
    for text in policy.allow_ips:
        if policy.isolation == "landlock" and parse_endpoint(text).protocols == UDP:
            raise SandboxCompileError(
                f"{text!r}: without a network namespace only TCP can be confined, so there are no UDP sockets",
                key="network.allow_ips", suggestion="write /tcp",
            )  # fmt: skip


def _check_not_own(text: str) -> None:
    asked = parse_endpoint(text)
    places = (*UNSPECIFIED, *OWN)  # the kernel takes an unspecified address for the loopback's
    own = next((each for each in places if asked.prefix >= each.prefix and each.holds(asked.address, 0, UDP)), None)
    if own is None:
        return
    if own != SYNTHETIC:
        raise SandboxCompileError(
            f"{text!r}: a cage with a network of its own has a loopback of its own, which needs no permission",
            key="network.allow_ips",
            suggestion="for the host's loopback set network.allow_host_loopback and dial host.pysandbox.internal",
        )  # fmt: skip
    raise _stand_for_names(text)


def _check_not_door(text: str) -> None:
    asked = parse_endpoint(text)
    if asked.prefix >= SYNTHETIC.prefix and SYNTHETIC.holds(asked.address, 0, TCP):
        raise _stand_for_names(text)


def _stand_for_names(text: str) -> SandboxCompileError:
    return SandboxCompileError(
        f"{text!r}: in a cage these addresses (198.18.0.0/15) stand for names", key="network.allow_ips",
        suggestion="leave it out",
    )  # fmt: skip


def _check_watch(policy: Policy, host: HostFacts, watch: frozenset[str]) -> None:
    if "exec" in watch and host.landlock_abi == 0:
        raise UnsupportedError(
            "without Landlock another process of the cage could change the arguments of an execve after they were "
            "read, through /proc", feature="landlock", fix="boot with landlock in the lsm= list, or do not watch exec",
        )  # fmt: skip
    if "file" in watch and policy.isolation != "full":
        raise SandboxCompileError(
            'isolation = "landlock" cannot let a callback decide on files: opening one for a command would go past '
            "Landlock", key="isolation", suggestion='use isolation = "full", or do not watch file',
        )  # fmt: skip


def _endpoints(policy: Policy, watch: frozenset[str]) -> tuple[Endpoint, ...]:
    """What may be reached in the network of the caller's socket: the list, or, where nothing limits it or the cage's
    own network does, any address."""
    if not has_own_network(policy) and (_lists_addresses(policy) or is_proxied(policy)):
        return parse_list((*policy.allow_ips, *_doors(policy)))
    if policy.egress == "direct":
        return (ANYWHERE,)
    return (ANYWHERE,) if policy.isolation == "full" else ()


def _doors(policy: Policy) -> Iterator[str]:
    """Where the proxies are, without a namespace in which they could listen."""
    if is_proxied(policy):
        from pysandbox.compile.doors import HANDED

        yield from (f"{door.address}:{door.port}/tcp" for door in HANDED)


def guarded(landlock: LandlockPlan | None, notify: NotifyPlan | None, abi: int) -> LandlockPlan | None:
    """The Landlock plan with the walls behind the supervisor."""
    if landlock is None or notify is None:
        return landlock
    actions = dict(notify.actions)
    if "CONNECT" in actions:
        wanted = ("CONNECT_TCP", "BIND_TCP") if "BIND" in actions else ("CONNECT_TCP",)
        handled = tuple(right for right in NET_RIGHTS[abi] if right in wanted or right in landlock.handled_net)
        landlock = replace(landlock, handled_net=handled)
    if actions.get("EXEC") == "ASK":
        rules = tuple(rule for rule in landlock.rules if rule.path != "/proc" or not ON_PROC.issuperset(rule.access))
        landlock = replace(landlock, rules=rules)
    return landlock
