"""No host path in a plan without the device and the inode that were looked at, but the constants of the setup.

A path alone leads where it leads when the kernel walks it, which is later than the look; a cage that may write a
directory on the way chooses where (findings A3). `MountStep` and `launch.structs` refuse to be written otherwise; this
reads the plans that there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.pretend import HOSTS, PROJECT, SYSTEM, grants, look, no_filter
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.plan import DEVICES, SCRATCH, MountKind, MountStep, Plan
from pysandbox.errors import CageError
from pysandbox.launch.structs import encode_plan
from pysandbox.policy.model import Policy
from unit.compile.test_golden_plans import POLICIES, RECIPES, policy_named

MOUNTS_C = Path(__file__).parents[3] / "csrc" / "setup" / "mounts.c"
SOME = ("/data/set", "/data/set/a", "/home/ann", PROJECT, f"{PROJECT}/src", f"{PROJECT}/.git", "/tmp/work", "/opt/tool",
        "/tmp/shortcut", "/home/ann/way/set")  # fmt: skip
some_paths = st.lists(st.sampled_from(SOME), max_size=3, unique=True)


def unlooked(plan: Plan) -> list[str]:
    """What of the host a plan names by its path alone."""
    binds = [step.source for step in plan.mounts if step.kind is MountKind.BIND and not step.ino]
    others = [step.source for step in plan.mounts if step.kind not in (MountKind.BIND, MountKind.SYMLINK)]
    rules = [rule.path for rule in plan.landlock.rules if not rule.ino] if plan.landlock and not plan.namespaces else []
    return [path for path in (*binds, *others, *rules)
            if path and path not in (*DEVICES, SCRATCH) and not path.startswith("/proc/")]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", [*POLICIES, *RECIPES])
def test_no_expected_plan_names_a_path_alone(name: str, host: str) -> None:
    policy = policy_named(name)
    try:
        plan = compile_plan(policy, HOSTS[host], look(policy), compile_filter=no_filter)
    except CageError:
        return
    assert unlooked(plan) == []
    encode_plan(plan, 1000, 1000)


@settings(max_examples=80, deadline=None)
@given(read=some_paths, write=some_paths, deny=some_paths, mask=some_paths, workdir=st.sampled_from(("none", "write")),
       state=st.sampled_from(("ephemeral", "scratch")), isolation=st.sampled_from(("full", "landlock")),
       execve=st.sampled_from(((), ("/usr/bin/env", f"{PROJECT}/build/tool", f"{PROJECT}/out/*"))))  # fmt: skip
def test_no_plan_does(
    read: Sequence[str], write: Sequence[str], deny: Sequence[str], mask: Sequence[str], workdir: str, state: str,
    isolation: str, execve: tuple[str, ...],
) -> None:  # fmt: skip
    policy = Policy(
        allow=(*SYSTEM, *grants(*read)), allow_write=grants(*write), deny=grants(*deny), mask=grants(*mask),
        workdir=workdir, state=state, isolation=isolation, allow_execve=execve, run_as="self",
    )  # fmt: skip
    try:
        plan = compile_plan(policy, HOSTS["6.18"], look(policy), compile_filter=no_filter)
    except CageError:
        return
    assert unlooked(plan) == []
    encode_plan(plan, 1000, 1000)


def test_such_a_step_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="looked at"):
        MountStep(MountKind.BIND, "/in", "/home/ann")


def test_nor_a_rule_of_a_cage_without_a_root_of_its_own() -> None:
    policy = POLICIES["landlock"]
    plan = compile_plan(policy, HOSTS["6.18"], look(policy), compile_filter=no_filter)
    assert plan.landlock is not None
    blind = tuple(replace(rule, ino=0) for rule in plan.landlock.rules)
    with pytest.raises(ValueError, match="looked at"):
        encode_plan(replace(plan, landlock=replace(plan.landlock, rules=blind)), 1000, 1000)


def test_the_constants_are_those_of_the_setup() -> None:
    table = re.search(r"constants\[\] = \{([^}]*)\}", MOUNTS_C.read_text())
    assert table is not None
    assert tuple(re.findall(r'"([^"]*)"', table[1])) == DEVICES
