"""RLIM-01..04, CG-01..03, RES-01: the default limits, what overrides them, and what holds a limit on which host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, plan_of
from pysandbox.compile.filters import Filters
from pysandbox.compile.limits import GIB, MIB, held_by, limits
from pysandbox.compile.plan import Plan
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import CgroupFacts

EVERY = ("cpu", "memory", "pids")
DEFAULTS = {"NPROC": 4096, "AS": None, "NOFILE": 4096, "FSIZE": 4 << 30, "CORE": 0,
            "SIGPENDING": 1024, "MSGQUEUE": 204_800, "MEMLOCK": 4 << 20}  # fmt: skip
ALL = {"memory_mb": 512, "cpu_percent": 50, "cpu_shares": 30, "max_pids": 20}


def having(*controllers: str, **changes: Any) -> Any:
    return replace(MODERN, cgroup=CgroupFacts("/sys/fs/cgroup/mine", controllers, "below"), **changes)


def by_name(policy: Policy, host: Any = MODERN) -> dict[str, int | None]:
    return {each.resource: each.value for each in limits(policy, host)}


def files(plan: Plan) -> dict[str, str]:
    assert plan.cgroup is not None
    return {each.file: each.value for each in plan.cgroup.settings}


def test_the_defaults_are_those_of_the_requirements() -> None:
    assert by_name(Policy()) == DEFAULTS


def test_the_policy_overrides_each() -> None:
    policy = Policy(max_pids=10, address_space_gb=1, open_files=20, file_size_gb=2)
    assert by_name(policy) == DEFAULTS | {"NPROC": 11, "AS": 1 << 30, "NOFILE": 20, "FSIZE": 2 << 30}


@pytest.mark.parametrize("most", [10, 5000])
def test_what_counts_refused_forks_is_met_first(most: int) -> None:
    """RLIMIT_NPROC is asked before pids.max, which alone counts."""
    plan = plan_of(Policy(max_pids=most), having("pids"))
    (nproc,) = (each.value for each in plan.limits if each.resource == "NPROC")
    assert nproc is not None and nproc > int(files(plan)["pids.max"])


def test_zero_lifts_address_space_and_file_size() -> None:
    lifted = by_name(Policy(address_space_gb=0, file_size_gb=0))
    assert lifted["AS"] is None and lifted["FSIZE"] is None


@pytest.mark.parametrize("host", [MODERN, having(*EVERY)], ids=["alone", "delegated"])
def test_a_policy_without_a_limit_on_the_cage_has_no_cgroup_and_is_not_watched(host: Any) -> None:
    plan = plan_of(Policy(), host)
    assert (plan.cgroup, plan.watch) == (None, None)


def test_controllers_hold_everything_that_is_asked() -> None:
    plan = plan_of(Policy(**ALL), having(*EVERY))
    assert files(plan) == {
        "memory.max": str(512 * MIB), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "21",
        "cpu.max": "50000 100000", "cpu.weight": "30",
    }  # fmt: skip
    assert plan.watch is None
    assert plan.cgroup is not None and sorted(plan.cgroup.controllers) == list(EVERY)


@pytest.mark.parametrize("optional", ["memory.swap.max", "memory.oom.group"])
def test_a_file_that_a_kernel_may_lack_is_optional_and_the_limit_itself_is_not(optional: str) -> None:
    plan = plan_of(Policy(memory_mb=64), having(*EVERY))
    assert plan.cgroup is not None
    assert {each.file: each.optional for each in plan.cgroup.settings}[optional]
    assert not plan.cgroup.settings[0].optional


def test_what_was_not_asked_for_is_not_written() -> None:
    assert files(plan_of(Policy(cpu_percent=250), having(*EVERY))) == {"cpu.max": "250000 100000"}


def test_the_watchdog_holds_what_no_controller_does() -> None:
    plan = plan_of(Policy(memory_mb=64, cpu_percent=50), having("memory"))
    assert list(files(plan)) == ["memory.max", "memory.swap.max", "memory.oom.group"]
    assert plan.watch is not None and (plan.watch.memory, plan.watch.cpu) == (None, 0.5)


def test_without_a_cgroup_the_watchdog_holds_memory_and_cpu() -> None:
    plan = plan_of(Policy(memory_mb=64, cpu_percent=150))
    assert plan.cgroup is None and plan.watch is not None
    assert (plan.watch.memory, plan.watch.cpu) == (64 * MIB, 1.5)
    assert plan.watch.tmpfs == ("/", "/tmp", "/dev/shm")


@pytest.mark.parametrize(("megabytes", "data"), [(64, 64 * MIB + GIB), (4096, 4096 * MIB + GIB)])
def test_one_process_alone_is_bounded_between_two_samples(megabytes: int, data: int) -> None:
    policy = Policy(memory_mb=megabytes)
    assert by_name(policy) == DEFAULTS | {"DATA": data}
    assert by_name(policy, having(*EVERY)) == DEFAULTS


@pytest.mark.parametrize(("tmp", "memory", "size"), [(1024, None, 1024), (1024, 64, 320), (32, 64, 32)])
def test_no_memory_file_system_is_much_larger_than_the_memory(tmp: int, memory: int | None, size: int) -> None:
    plan = plan_of(Policy(tmp_mb=tmp, memory_mb=memory))
    sizes = {tuple(step.data.split(",")[:2]) for step in plan.mounts if step.kind.value == "TMPFS"}
    assert sizes == {(f"size={size}m", f"nr_inodes={max(size * 256, 4096)}")}


@pytest.mark.parametrize(("options", "looked_for"), [
    ({}, False), ({"seccomp": "default"}, True), ({"allow_syscalls": ["memfd_create"]}, True),
    ({"seccomp": "default", "deny_syscalls": ["memfd_create"]}, False),
])  # fmt: skip
def test_memory_files_are_looked_for_where_commands_may_make_them(options: dict[str, Any], looked_for: bool) -> None:
    watch = plan_of(Policy(memory_mb=64, **options)).watch
    assert watch is not None and watch.memfds is looked_for


def test_a_detached_segment_shows_in_no_process_so_system_v_memory_is_closed_where_the_watchdog_counts() -> None:
    asked: list[Policy] = []

    def closed(policy: Policy, host: Any) -> set[str]:
        from golden.pretend import look
        from pysandbox.compile.compiler import compile_plan

        def keep(policy: Policy, machine: str, notify: object) -> Filters:
            asked.append(policy)
            return Filters(b"")

        compile_plan(policy, host, look(policy), compile_filter=keep)
        return {"shmget", "semget", "msgget"} & {*asked[-1].deny_syscalls}

    assert closed(Policy(memory_mb=64), MODERN)
    assert closed(Policy(memory_mb=64, allow_syscalls=["shmget"]), MODERN) == {"semget", "msgget"}
    assert not closed(Policy(memory_mb=64), having(*EVERY))
    assert not closed(Policy(cpu_percent=50), MODERN)


def test_a_cage_that_could_not_be_born_in_its_group_is_marked_so() -> None:
    host = replace(MODERN, cgroup=CgroupFacts("/x", EVERY, "below", born_inside=False))
    plan = plan_of(Policy(memory_mb=64), host)
    assert plan.cgroup is not None and not plan.cgroup.born_inside


BY_THE_HOST = {"memory_mb": "watchdog", "cpu_percent": "watchdog", "cpu_shares": "nothing", "max_pids": "rlimit"}


@pytest.mark.parametrize(
    ("host", "held"),
    [
        (having(*EVERY), dict.fromkeys(ALL, "cgroup")),
        (having("pids"), BY_THE_HOST | {"max_pids": "cgroup"}),
        (MODERN, BY_THE_HOST),
        (replace(MODERN, uid=0), BY_THE_HOST | {"max_pids": "watchdog"}),
    ],
    ids=["all controllers", "pids alone", "none", "none, as root"],
)
def test_what_holds_each_limit_is_said(host: Any, held: dict[str, str]) -> None:
    policy = Policy(**ALL, limits_required=False)
    assert held_by(policy, plan_of(policy, host)) == held


def test_what_was_not_asked_for_is_held_by_nobody() -> None:
    assert held_by(Policy(), plan_of(Policy())) == {}
