"""The filters of a cage: one for all of it, and mostly no second one for its commands (`compile.init_calls` says why).

Together they refuse what the policy's own filter, `seccomp.compile_filter`, refuses: of two filters the kernel takes
the stricter answer. Pure.
"""

from __future__ import annotations

from pysandbox.compile import seccomp
from pysandbox.compile.init_calls import left_open, lets_execute
from pysandbox.errors import PolicyError
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import NotifyPlan
    from pysandbox.policy.model import Policy

MOST = 4096  # PSB_MAX_FILTER


class Filters(NamedTuple):
    whole: bytes  # of cage-init and every command
    late: bytes = b""  # of every command, beside it
    verdicts: bytes = b""  # what `whole` would answer if it did not hand over what it refuses


def compile_filters(
    policy: Policy,
    machine: str,
    notify: NotifyPlan | None = None,
    *,
    landlock_net: bool = True,
    prebuilt: seccomp.Prebuilt = seccomp.none_prebuilt,
) -> Filters:
    """Raises PolicyError for a filter under which no command could be started."""
    choice = seccomp.choose(policy, notify, landlock_net=landlock_net)
    shipped = seccomp.shipped(choice, machine, prebuilt)
    if shipped:
        return Filters(shipped)  # tools/compile_profiles.py ships none that cage-init cannot live under
    exact = seccomp.build(choice, machine)
    if not lets_execute(exact, machine):
        raise _no_start(policy)
    lost = left_open(exact, machine)
    if not lost:
        return Filters(exact, verdicts=_verdicts(choice, machine))
    whole, late = seccomp.build(choice._replace(init=lost), machine), seccomp.build_late(choice, lost, machine)
    both = Filters(whole, late, _verdicts(choice, machine))
    if len(both.whole) + len(both.late) > MOST * 8:
        raise PolicyError(f"the filter has more than {MOST} instructions", key="syscalls",
                          suggestion="list fewer calls in syscalls.allow_extra and deny_extra")  # fmt: skip
    return both


def unheard(policy: Policy, machine: str, notify: NotifyPlan | None) -> frozenset[str]:
    """The calls that the second filter closes: nobody hears of a refusal there."""
    return left_open(seccomp.build(seccomp.choose(policy, notify), machine), machine)


def _verdicts(choice: seccomp.Choice, machine: str) -> bytes:
    """Where a refusal goes to the supervisor, what the kernel would answer without one."""
    judging = seccomp.HANDS_OVER.get(choice.denial)
    return seccomp.build(choice._replace(denial=judging), machine) if judging else b""


def _no_start(policy: Policy) -> PolicyError:
    denied = "execve" in policy.deny_syscalls
    return PolicyError(
        "'execve' is refused, and without it no command can be started",
        key="syscalls.deny_extra" if denied else "syscalls.lists",
        suggestion="leave it open; process.allow_execve says which programs may be executed",
    )
