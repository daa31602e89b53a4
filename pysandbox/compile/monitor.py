"""Monitor: what of a policy is watched instead of enforced, compiled away here (MODE-04).

System calls, executables, limits and variables are let pass; the supervisor records what would have been refused. Files
and the network stay as confined as ever: those walls are the cage's own view and its network namespace; what is refused
of files is recorded (`compile.watched`). It is for learning what a program needs, and no protection.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile.filters import Filters, unheard
from pysandbox.compile.init_calls import OPENS_INSTEAD
from pysandbox.compile.notes import DEGRADED, MONITOR, unobserved
from pysandbox.compile.plan import NotifyPlan
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import has_way_out
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import replace


def enforced(policy: Policy) -> Policy:
    """The policy without what monitor only watches."""
    return replace(policy, allow_execve=(), max_pids=None) if policy.monitor else policy


def inherited(policy: Policy, host: HostFacts) -> tuple[str, ...]:
    """Names of the host's variables that the command gets: those passed through, and under monitor all of them."""
    return tuple(host.env) if policy.monitor else policy.env_passthrough


def monitor_notes(policy: Policy, host: HostFacts, notify: NotifyPlan | None) -> Iterator[Note]:
    if policy.why and notify is None:
        yield Note(DEGRADED, "why", "nobody hears of the refusals of this cage: syscalls.notifier is switched off, or "
                                    "the kernel cannot hand over calls (Linux 5.19)")  # fmt: skip
    if not policy.monitor:
        return
    yield Note(MONITOR, "monitor", "nothing but files and network is confined; refusals are recorded, and let pass")
    if policy.max_pids is not None:
        yield Note(MONITOR, "process.max_pids", f"the limit of {policy.max_pids} processes is not set")
    if policy.allow_execve:
        yield Note(MONITOR, "process.allow_execve", "every program may be executed")
    if policy.dlp_enabled and has_way_out(policy):
        yield Note(MONITOR, "network.dlp.enabled", "credentials that are found in what is sent are told, and passed on")
    yield from _unobserved(policy, notify)
    dropped = len(host.env.keys() - set(policy.env_passthrough))
    if dropped:
        variables = "1 variable is" if dropped == 1 else f"{dropped} variables are"
        yield Note(MONITOR, "process.env_passthrough", f"{variables} inherited that would be dropped")


def late_notes(policy: Policy, machine: str, notify: NotifyPlan | None, filters: Filters) -> Iterator[Note]:
    """A second filter has nobody to tell (`compile.init_calls`)."""
    if not policy.monitor or not filters.late:
        return
    if unheard(policy, machine, notify) == {OPENS_INSTEAD}:  # which hardly a program uses: it is said to whoever asks
        yield Note(MONITOR, "syscalls.profile", "openat2, where it would be refused, is let pass and not observed")
    else:
        yield unobserved("syscalls.lists", "calls that cage-init itself needs: what is refused of them, or would be, "
                                           "goes to the kernel's log alone")  # fmt: skip


def _unobserved(policy: Policy, notify: NotifyPlan | None) -> Iterator[Note]:
    """What is refused, or let pass, without anybody seeing it: silence about it means nothing."""
    if notify is None:
        reason = "system calls and programs: nobody hears of them, and what passes goes to the kernel's log alone"
        yield unobserved("syscalls.notifier", reason)
        never = "calls that no cage may make, such as mount, unshare and setns: they stay refused"
        yield unobserved("syscalls.profile", never)
        yield unobserved("filesystem.allow", "files: what is not granted is not there, or is refused")
    if policy.egress != "direct" and not has_way_out(policy):
        yield unobserved("network.egress", "connections: there is no way out, and nobody at its end")
