"""Every weakening is a row: refused, or noted and refused under strict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, plan_of
from pysandbox.compile.degrade import GAPS, SHORTFALLS
from pysandbox.compile.notes import DEGRADED, LIMITS_NOT_ENFORCED
from pysandbox.errors import UnsupportedError
from pysandbox.policy.model import Policy, by_toml_key

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
    assert [note.key for note in plan_of(Policy(**options), host).notes if note.event == DEGRADED] == [key]
    with pytest.raises(UnsupportedError, match="leave strict out"):
        plan_of(Policy(strict=True, **options), host)


@pytest.mark.parametrize("abi", [2, 6, 7])
def test_a_strict_full_cage_needs_nothing_newer_than_abi_2(abi: int) -> None:
    assert plan_of(Policy(strict=True), replace(MODERN, landlock_abi=abi)).notes == ()


@pytest.mark.parametrize(("options", "uid", "key"), [
    ({"memory_mb": 64}, 1000, "resources.memory_mb"),
    ({"cpu_percent": 50}, 1000, "resources.cpu_percent"),
    ({"cpu_shares": 50}, 1000, "resources.cpu_shares"),
    ({"max_pids": 50}, 0, "process.max_pids"),
])  # fmt: skip
def test_a_limit_that_cannot_hold_is_refused_unless_not_required(options: dict[str, Any], uid: int, key: str) -> None:
    host = replace(MODERN, uid=uid)
    with pytest.raises(UnsupportedError, match=r"resources\.required = false"):
        plan_of(Policy(**options), host)
    notes = plan_of(Policy(limits_required=False, **options), host).notes
    assert [(note.event, note.key) for note in notes] == [(LIMITS_NOT_ENFORCED, key)]


def test_an_ordinary_user_can_limit_processes() -> None:
    assert plan_of(Policy(max_pids=50)).notes == ()


def test_every_row_names_a_key_that_the_policy_has() -> None:
    keys = {row.key for row in SHORTFALLS} | {key for key, _, _ in GAPS}
    assert keys <= by_toml_key().keys()
