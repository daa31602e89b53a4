"""Every weakening is a row: refused, or noted and refused under strict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, plan_of
from pysandbox.compile.degrade import GAPS, SHORTFALLS, closed_for_landlock
from pysandbox.compile.notes import DEGRADED, LIMITS_NOT_ENFORCED
from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.policy.model import Policy, by_toml_key
from pysandbox.probe.facts import CgroupFacts

DIRECT: dict[str, Any] = {"egress": "direct", "unsafe_direct": True}


def lacking(feature: str) -> dict[str, Any]:
    return {feature: False}


@pytest.mark.parametrize("feature", ["user_namespaces", "network_namespaces", "mount_setattr", "proc_mountable",
                                     "seccomp_filter"])  # fmt: skip
def test_a_full_cage_is_refused_without(feature: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_of(Policy(), replace(MODERN, **lacking(feature)))
    assert caught.value.feature == feature
    assert caught.value.fix in str(caught.value)


@pytest.mark.parametrize("feature", ["user_namespaces", "network_namespaces", "proc_mountable"])
def test_the_way_out_is_landlock_isolation(feature: str) -> None:
    with pytest.raises(UnsupportedError, match='isolation = "landlock"'):
        plan_of(Policy(), replace(MODERN, **lacking(feature)))


def test_the_hosts_network_needs_no_network_namespace() -> None:
    plan = plan_of(Policy(**DIRECT), replace(MODERN, network_namespaces=False))
    assert "NET" not in plan.namespaces


@pytest.mark.parametrize(("options", "abi", "key"), [
    ({}, 0, "isolation"),
    ({}, 1, "isolation"),
    (DIRECT, 5, "network.egress"),
])  # fmt: skip
def test_a_missing_second_wall_is_noted_and_strict_refuses_it(options: dict[str, Any], abi: int, key: str) -> None:
    host = replace(MODERN, landlock_abi=abi)
    assert key in [note.key for note in plan_of(Policy(**options), host).notes if note.event == DEGRADED]
    with pytest.raises((UnsupportedError, SandboxCompileError), match="leave strict out"):
        plan_of(Policy(strict=True, **options), host)


@pytest.mark.parametrize("abi", [3, 6, 7])
def test_a_strict_full_cage_needs_nothing_newer_than_abi_3(abi: int) -> None:
    assert plan_of(Policy(strict=True), replace(MODERN, landlock_abi=abi)).notes == ()


WITH_ALL = replace(MODERN, cgroup=CgroupFacts("/sys/fs/cgroup/mine", ("cpu", "memory", "pids"), "below"))
ASKED = {"allow_syscalls": ("truncate",)}


@pytest.mark.parametrize(("options", "abi"), [({}, 1), ({}, 2), ({"strict": True}, 2)])
def test_where_landlock_does_not_hear_of_truncate_the_filter_refuses_it(options: dict[str, Any], abi: int) -> None:
    host = replace(MODERN, landlock_abi=abi)
    assert closed_for_landlock(Policy(**options), host).deny_syscalls == ("truncate",)
    assert [note.key for note in plan_of(Policy(**options), host).notes if "truncate" in note.message] == [
        "syscalls.allow_extra"
    ]


@pytest.mark.parametrize(("options", "abi"), [({}, 3), ({}, 0), (ASKED, 2)])
def test_elsewhere_and_where_it_is_asked_for_truncate_is_open(options: dict[str, Any], abi: int) -> None:
    host = replace(MODERN, landlock_abi=abi)
    assert closed_for_landlock(Policy(**options), host).deny_syscalls == ()
    assert not [note for note in plan_of(Policy(**options), host).notes if "truncate" in note.message]


@pytest.mark.parametrize(("options", "uid", "key"), [
    ({"cpu_shares": 50}, 1000, "resources.cpu_shares"),
])  # fmt: skip
def test_a_limit_that_cannot_hold_is_refused_unless_not_required(options: dict[str, Any], uid: int, key: str) -> None:
    host = replace(MODERN, uid=uid)
    with pytest.raises(UnsupportedError, match=r"resources\.required = false"):
        plan_of(Policy(**options), host)
    notes = plan_of(Policy(limits_required=False, **options), host).notes
    assert [(note.event, note.key) for note in notes] == [(LIMITS_NOT_ENFORCED, key)]


@pytest.mark.parametrize(("options", "key"), [
    ({"memory_mb": 64}, "resources.memory_mb"),
    ({"cpu_percent": 50}, "resources.cpu_percent"),
    ({"max_pids": 50, "isolation": "landlock", "run_as": "self"}, "process.max_pids"),
])  # fmt: skip
def test_a_limit_held_by_the_watchdog_is_noted_and_strict_refuses_it(options: dict[str, Any], key: str) -> None:
    notes = [note for note in plan_of(Policy(**options)).notes if note.event == DEGRADED]
    assert [(note.event, note.key) for note in notes] == [(DEGRADED, key)]
    with pytest.raises(UnsupportedError, match="leave strict out"):
        plan_of(Policy(strict=True, **options))


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_delegated_cgroup_holds_every_limit_also_for_root_and_strict(uid: int) -> None:
    policy = Policy(memory_mb=64, cpu_percent=50, cpu_shares=50, max_pids=50, strict=True)
    assert plan_of(policy, replace(WITH_ALL, uid=uid)).notes == ()


@pytest.mark.parametrize("options", [{"isolation": "landlock", "run_as": "self"}, {}], ids=["landlock", "root"])
def test_where_the_kernel_counts_others_or_nobody_the_watchdog_counts_processes(options: dict[str, Any]) -> None:
    policy = Policy(max_pids=50, **options)
    hosts = [replace(host, uid=1000 if options else 0) for host in (MODERN, WITH_ALL)]
    alone, delegated = (plan_of(policy, host) for host in hosts)
    assert alone.watch is not None and alone.watch.pids == 50 and delegated.watch is None
    for plan in (alone, delegated):
        (nproc,) = (each.value for each in plan.limits if each.resource == "NPROC")
        assert nproc is not None and nproc >= 4096, "a limit of the whole user must not be met before the cage's"


def test_an_ordinary_user_can_limit_processes() -> None:
    assert plan_of(Policy(max_pids=50)).notes == ()


def test_every_row_names_a_key_that_the_policy_has() -> None:
    keys = {row.key for row in SHORTFALLS} | {key for key, _, _ in GAPS}
    assert keys <= by_toml_key().keys()
