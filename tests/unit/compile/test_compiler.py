"""compile_plan as a whole: pure, stable, and nothing at all when uncaged."""

from __future__ import annotations

import pytest

from golden.pretend import MODERN, SYSTEM, look, notes_of, plan_of
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.filters import Filters
from pysandbox.compile.network import DIRECT
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy


def test_equal_arguments_give_equal_plans_and_digests() -> None:
    policy = Policy(allow=SYSTEM, workdir="write", run_as="self")
    first, second = plan_of(policy), plan_of(policy)
    assert first == second and first is not second
    assert first.digest == second.digest != plan_of(Policy(allow=SYSTEM)).digest


def test_the_filter_is_asked_for_this_policy_and_machine() -> None:
    asked: list[tuple[Policy, str]] = []

    def recording(policy: Policy, machine: str, notify: object) -> Filters:
        asked.append((policy, machine))
        return Filters(b"filter")

    policy = Policy()
    assert compile_plan(policy, MODERN, look(policy), compile_filter=recording).seccomp == b"filter"
    assert asked == [(policy, "x86_64")]


@pytest.mark.parametrize(("run_as", "ids"), [("nobody", (65534, 65534)), ("self", (1000, 1000)), ("root", (0, 0))])
def test_the_ids_inside(run_as: str, ids: tuple[int, int]) -> None:
    plan = plan_of(Policy(run_as=run_as))
    assert (plan.inside_uid, plan.inside_gid) == ids


def test_a_cage_has_every_namespace_and_only_loopback() -> None:
    plan = plan_of(Policy())
    assert set(plan.namespaces) == {"USER", "PID", "NS", "IPC", "UTS", "CGROUP", "NET"}
    assert plan.loopback


def test_direct_shares_the_network_loudly() -> None:
    plan = plan_of(Policy(egress="direct", unsafe_direct=True))
    assert "NET" not in plan.namespaces and not plan.loopback
    assert len(notes_of(plan, DIRECT)) == 1


def test_direct_without_the_acknowledgement_is_refused() -> None:
    with pytest.raises(PolicyError, match="unsafe"):
        plan_of(Policy(egress="direct"))


def test_uncaged_says_which_limits_nothing_holds() -> None:
    notes = plan_of(Policy(caged=False, memory_mb=64, max_pids=9, cpu_percent=50)).notes
    assert sorted(note.key for note in notes) == ["process.max_pids", "resources.cpu_percent", "resources.memory_mb"]
    assert {note.event for note in notes} == {"sandbox.limits_not_enforced"}


def test_uncaged_compiles_to_nothing_but_the_watchdog() -> None:
    plan = plan_of(Policy(caged=False, walltime_sec=7, memory_mb=64))
    assert (plan.isolation, plan.namespaces, plan.mounts, plan.landlock, plan.seccomp, plan.limits) == (
        "none", (), (), None, b"", (),
    )  # fmt: skip
    assert plan.walltime == 7


def test_times_and_the_output_cap_pass_through() -> None:
    plan = plan_of(Policy(walltime_sec=3, grace_sec=1, output_mb=2))
    assert (plan.walltime, plan.grace, plan.output_cap) == (3, 1, 2 << 20)
