"""Policy + facts -> what a process can lay on itself: a Landlock domain, a filter, its own limits (`confinement`).

The walls are those of landlock isolation, at the host's own paths. A process has no supervisor above it, and cannot
give itself mounts, namespaces or a cgroup. So an option is in one of two tables: HELD, by what a process can lay on
itself; or REFUSED by name, with what it lacks. An option that is in neither, because nobody has thought of it here, is
refused as well. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pysandbox.compile import degrade
from pysandbox.compile.absent import DEFAULTS, refuse_absent
from pysandbox.compile.compiler import LANDLOCK_NET_ABI
from pysandbox.compile.kept import refuse_protected
from pysandbox.compile.landlock_only import refuse_what_needs_namespaces, ruleset_on_host, unguarded
from pysandbox.compile.limits import LIMITS
from pysandbox.compile.plan import LandlockPlan, Limit
from pysandbox.compile.seccomp import Prebuilt, compile_filter, none_prebuilt
from pysandbox.compile.view import build_view
from pysandbox.errors import SandboxCompileError
from pysandbox.note import Note
from pysandbox.policy.model import Policy, options
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.shapes import Any, NamedTuple, replace

ALL_THREADS_ABI = 8  # landlock_restrict_self(2) for all threads of a process
OWN_LIMITS = frozenset(("AS", "NOFILE", "FSIZE", "CORE"))  # the others count what the user has in other processes, too

Accepts = Callable[[Any], bool]


def anything(value: object) -> bool:
    return True


def but(*refused: object) -> Accepts:
    return lambda value: value not in refused


# What a process can hold itself to, and which values of it.
HELD: Mapping[str, Accepts] = {
    "allow": anything,
    "allow_write": anything,
    "deny": anything,  # of what no grant shows; below a granted tree it is refused, as in landlock isolation
    "workdir": but("cow"),
    "unguarded": anything,
    "base": anything,
    "egress": anything,
    "unsafe_direct": anything,
    "left_out": anything,  # grants nothing
    "allow_execve": anything,
    "run_as": but("root"),
    "address_space_gb": anything,
    "open_files": anything,
    "file_size_gb": anything,
    "seccomp": anything,
    "seccomp_mode": anything,
    "allow_syscalls": anything,
    "deny_syscalls": anything,
    "syscall_lists": anything,
    "notifier": but(True),
    "isolation": anything,  # there are no namespaces, whatever it says; `Confinement.notes` has what that leaves open
}

SUPERVISOR = "a supervisor decides it while a program runs, and a process cannot be its own"
MOUNTS = "it is made of mounts, which a process that runs cannot give itself"
CGROUP = "a cgroup or a watchdog outside of the process holds it"
NETWORK = "a network namespace and the gatekeeper hold it"
RUNS = "it is about a command that is started, and here none is"

REFUSED: Mapping[str, str] = {
    "mask": MOUNTS,
    "workdir": MOUNTS,
    "storage": MOUNTS,
    "copy_mb": MOUNTS,
    "on_exit": MOUNTS,
    "on_error": MOUNTS,
    "state": MOUNTS,
    "tmp_mb": MOUNTS,
    "run_as": "a process that runs keeps its user id",
    "env": RUNS,
    "env_passthrough": RUNS,
    "walltime_sec": RUNS,
    "grace_sec": RUNS,
    "output_mb": RUNS,
    "max_pids": CGROUP,
    "memory_mb": CGROUP,
    "cpu_percent": CGROUP,
    "cpu_shares": CGROUP,
    "write_mb": CGROUP,
    "limits_required": "nothing that is asked for is left out here",
    "hosts": NETWORK,
    "secrets": NETWORK,
    "ports": NETWORK,
    "allow_host_loopback": NETWORK,
    "host_loopback_ports": NETWORK,
    "network_backend": NETWORK,
    "bridge": NETWORK,
    "dns_ipv6": NETWORK,
    "contract_mode": NETWORK,
    "allow_ips": SUPERVISOR,
    "unix_sockets": SUPERVISOR,
    "notifier": SUPERVISOR,
    "scm_rights": SUPERVISOR,
    "monitor": SUPERVISOR,
    "why": SUPERVISOR,
    "strict": "nothing closes what Landlock alone leaves open",
}
UNKNOWN = "a process cannot hold itself to it"
FIX = "leave it out, or run the code in a cage"
# What landlock isolation notes of a cage, and is not so for a process that has no directory of its own.
OF_CAGES = frozenset(("resources.tmp_mb",))


class ConfinementPlan(NamedTuple):
    """What is laid on the calling process. `landlock` names paths of the host; `all_threads`: it can reach them all."""

    landlock: LandlockPlan
    seccomp: bytes
    limits: tuple[Limit, ...]
    notes: tuple[Note, ...]
    all_threads: bool


def refuse_what_it_cannot_hold(policy: Policy) -> None:
    """Raises SandboxCompileError for the first option that is not at its default and that no process can hold."""
    for each, described in options():
        value = getattr(policy, each.name)
        if value == DEFAULTS[each.name] or HELD.get(each.name, but(value))(value):
            continue
        message = f"confine() cannot hold it: {REFUSED.get(each.name, UNKNOWN)}"
        raise SandboxCompileError(message, key=described.toml_key, suggestion=FIX)


def compile_confinement(
    policy: Policy, host: HostFacts, paths: PathFacts, prebuilt: Prebuilt = none_prebuilt
) -> ConfinementPlan:
    """As `compile_plan`, of a policy that holds the grants of `base`. Raises PolicyError, UnsupportedError."""
    refuse_what_it_cannot_hold(policy)
    policy = replace(policy, isolation="landlock", run_as="self")
    refuse_absent(policy)
    refuse_protected(policy, paths)
    lacking = degrade.evaluate(policy, host)
    view = build_view(policy, paths)
    refuse_what_needs_namespaces(policy, view)
    notes = (*lacking, *degrade.unguarded_notes(policy, unguarded(view)), *view.notes)
    landlock = ruleset_on_host(policy, host, view)
    return ConfinementPlan(
        landlock=replace(landlock, rules=tuple(rule for rule in landlock.rules if rule.path)),  # it has no $TMPDIR
        seccomp=compile_filter(
            policy, host.machine, landlock_net=host.landlock_abi >= LANDLOCK_NET_ABI, prebuilt=prebuilt
        ),
        limits=tuple(_limits(policy)),
        notes=tuple(note for note in notes if note.key not in OF_CAGES),
        all_threads=host.landlock_abi >= ALL_THREADS_ABI,
    )


def _limits(policy: Policy) -> Iterator[Limit]:
    for resource, value in LIMITS:
        if resource in OWN_LIMITS:
            yield Limit(resource, value(policy))
