"""The line that would allow what was refused, or none where the next run would refuse that line: what `handlers.fix`
writes, held against the policy that refused. Pure.
"""

from __future__ import annotations

from pysandbox.compile.notify import has_own_network
from pysandbox.compile.plan import MountKind, Plan
from pysandbox.handlers.call import Call
from pysandbox.handlers.denial import NEVER, NEVER_SO, fix_of
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy

PLACES = frozenset({MountKind.BIND, MountKind.TMPFS})


def fixing(call: Call, rule: str, policy: Policy, plan: Plan) -> str:
    if rule == "syscalls.scm_rights" and policy.strict:
        return ""  # strict refuses it whatever the option says
    if rule.startswith("syscalls.") and call.kind == "OTHER" and not _may_be_opened(call.syscall):
        return ""
    if rule == "process.allow_execve" and _is_the_cage_s_own(call.path, plan):
        return ""
    return fix_of(call, rule, own_network=has_own_network(policy), udp=policy.isolation != "landlock")


def never_of(syscall: str) -> str:
    return NEVER_SO if _may_be_opened(syscall) else NEVER


def _may_be_opened(syscall: str) -> bool:
    from pysandbox.compile.profiles import names_of, tiers
    from pysandbox.compile.syscalls import is_name

    return is_name(syscall) and syscall not in names_of(tiers.NEVER)


def _is_the_cage_s_own(path: str, plan: Plan) -> bool:
    """Whether the next cage will not have it: it is in a directory that this one began with empty."""
    places = [step for step in plan.mounts if step.kind in PLACES and covers(step.target, path)]
    return bool(places) and max(places, key=lambda step: len(step.target)).kind is MountKind.TMPFS
