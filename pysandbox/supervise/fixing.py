"""The line that would allow what was refused, or none where the next run would refuse that line: what `handlers.fix`
writes, held against the policy that refused. Pure.
"""

from __future__ import annotations

from pysandbox.compile.notify import has_own_network
from pysandbox.compile.plan import MountKind, Plan
from pysandbox.denial import NEVER, NEVER_SO
from pysandbox.handlers.address import ip_address
from pysandbox.handlers.call import Call
from pysandbox.handlers.fix import fix_of
from pysandbox.policy.endpoint import SYNTHETIC, TCP
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import is_proxied

IN_THE_WAY = frozenset({"syscalls.deny_extra"})  # a word that no grant takes back
COVERS = frozenset({MountKind.DENY_FILE, MountKind.DENY_DIR, MountKind.MASK_FILE, MountKind.MASK_DIR})
PLACES = frozenset({MountKind.BIND, MountKind.TMPFS})


def fixing(call: Call, rule: str, policy: Policy, plan: Plan) -> str:
    if rule in IN_THE_WAY or (rule == "syscalls.scm_rights" and policy.strict):
        return ""  # strict refuses descriptors whatever the option says
    if rule.startswith("network.") and policy.egress == "none":
        return ""  # who wrote that has closed what every list opens
    if rule.startswith("syscalls.") and call.kind == "OTHER" and not _may_be_opened(call.syscall):
        return ""
    if rule == "process.allow_execve" and (_is_the_cage_s_own(call.path, plan) or _is_covered(call.path, plan)):
        return ""
    if is_proxied(policy) and _is_of_doors(call):
        return ""  # no list leads to the addresses that stand for names
    return fix_of(call, rule, own_network=has_own_network(policy), udp=policy.isolation != "landlock")


def _is_of_doors(call: Call) -> bool:
    asked = ip_address(call.address)
    return asked is not None and SYNTHETIC.holds(asked.packed, asked.port, TCP)


def never_of(syscall: str) -> str:
    return NEVER_SO if _may_be_opened(syscall) else NEVER


def _may_be_opened(syscall: str) -> bool:
    from pysandbox.compile.profiles import names_of, tiers
    from pysandbox.compile.syscalls import is_name

    return is_name(syscall) and syscall not in names_of(tiers.NEVER)


def _is_covered(path: str, plan: Plan) -> bool:
    """Whether a denial or a mask lies over the program, so that a list leads to an empty file."""
    return any(step.kind in COVERS and covers(step.target, path) for step in plan.mounts)


def _is_the_cage_s_own(path: str, plan: Plan) -> bool:
    """Whether the path is in a directory that every cage begins with empty, so that the next one will not have it."""
    places = [step for step in plan.mounts if step.kind in PLACES and covers(step.target, path)]
    return bool(places) and max(places, key=lambda step: len(step.target)).kind is MountKind.TMPFS
