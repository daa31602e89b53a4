"""Whom a cage is outside: nobody where root starts it and its grants can be mapped; else the caller, which is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, PROJECT, look, no_filter
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.notes import DEGRADED
from pysandbox.compile.plan import MountKind, Plan
from pysandbox.errors import UnsupportedError
from pysandbox.launch.structs import encode_plan
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.recipe import with_base

ROOT = replace(MODERN, uid=0, gid=0, root="swapped")
WEAK = replace(ROOT, root="stays")


def planned(host: Any = ROOT, unmapped: tuple[str, ...] = (), **options: Any) -> Plan:
    policy = with_base(Policy(**options))
    return compile_plan(policy, host, replace(look(policy), unmapped=unmapped), compile_filter=no_filter)


def said(plan: Plan) -> list[str]:
    return [note.message for note in plan.notes if note.event == DEGRADED and "root's id" in note.message]


def test_a_user_s_cage_is_the_user_and_nothing_is_said() -> None:
    plan = planned(MODERN)
    assert not plan.unrooted and not said(plan)
    assert not any(step.must_map for step in plan.mounts)


def test_root_s_cage_is_nobody_and_what_it_writes_must_be_mapped() -> None:
    plan = planned(allow_write=(Grant(PROJECT),), state="scratch")
    assert plan.unrooted and not said(plan)
    must = [step.target for step in plan.mounts if step.must_map]
    assert must == ["/scratch", PROJECT]
    assert {step.kind for step in plan.mounts if step.must_map} == {MountKind.BIND}


@pytest.mark.parametrize(
    ("host", "unmapped", "options", "why"),
    [
        (WEAK, (), {}, "lacks the powers"),
        (ROOT, ("/data/set",), {}, "/data/set"),
        (ROOT, (), {"isolation": "landlock", "run_as": "self"}, "no mounts"),
    ],
)
def test_where_it_cannot_be_the_cage_is_root_and_that_is_said(
    host: Any, unmapped: tuple[str, ...], options: dict[str, Any], why: str
) -> None:
    plan = planned(host, unmapped, **options)
    assert not plan.unrooted and not any(step.must_map for step in plan.mounts)
    assert [why in each for each in said(plan)] == [True]
    with pytest.raises(UnsupportedError) as refused:
        planned(host, unmapped, **options, strict=True)
    assert refused.value.feature == ("idmapped_mounts" if plan.isolation == "full" else "mount_namespace")


def test_strict_is_content_with_nobody() -> None:
    assert planned(strict=True).unrooted


def test_processes_are_counted_for_nobody_and_not_for_root() -> None:
    def nproc(plan: Plan) -> int | None:
        return next(limit.value for limit in plan.limits if limit.resource == "NPROC")

    assert nproc(planned(max_pids=7)) == 8
    kept = planned(WEAK, max_pids=7)
    assert nproc(kept) != 8 and kept.watch is not None and kept.watch.pids == 7


def test_the_structs_have_another_user_outside_only_then() -> None:
    from pysandbox._native import lib

    for host, user in ((ROOT, lib.PSB_OUTSIDE), (WEAK, 0)):
        struct = encode_plan(planned(host), 0, 0).struct
        assert (struct.outside_uid, struct.outside_gid, bool(struct.unrooted)) == (user, user, host is ROOT)
        assert struct.idmap_fd == -1, "it is the launcher's to fill in"
