"""A cage block of document 000, from the block to the running cage: files, disabled, limits, path checks, walltime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage, Event, Runtime
from pysandbox.policy.cage_block import from_cage_block, named_paths
from pysandbox.policy.effective_cage import EffectiveCage
from pysandbox.policy.model import Policy
from pysandbox.probe.paths import stat_all

LIMITS = {"memory_mb": 256, "cpu_shares": 100, "pids": 64, "walltime_sec": 600}


def block(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "enabled", "fs": [{"mode": "ro", "path": "./data"}, {"mode": "rw", "path": "./scratch"}],
        "net": {"allow": []}, "state": "ephemeral", "seccomp": "default", "limits": LIMITS, **changes,
    }  # fmt: skip


def compiled(written: dict[str, Any], root: Path, **options: Any) -> tuple[Policy, EffectiveCage]:
    paths = stat_all(named_paths(written, str(root)), cwd=str(root), home="/tmp")
    return from_cage_block(
        written, project_root=str(root), project_id="shop", invocation_id="01HXABCDEFGHJKMNPQRSTVWXYZ", session_id="s1",
        daemon_mode="user", daemon_uid=os.getuid(), paths=paths, limits_required=False, name="scraper", **options,
    )  # fmt: skip


@pytest.fixture
def shop(project: Path) -> Path:
    (project / "data").mkdir()
    (project / "scratch").mkdir()
    (project / "data" / "in").write_text("goods\n")
    (project / "secret").write_text("not granted\n")
    return project


def test_the_granted_paths_appear_where_they_are(shop: Path) -> None:
    policy, _ = compiled(block(), shop)

    result = pysandbox.run(["/bin/sh", "-c", f"cat {shop}/data/in; echo out > {shop}/scratch/out"], policy=policy)

    assert (result.stdout, result.stderr) == ("goods\n", "")
    assert (shop / "scratch" / "out").read_text() == "out\n"


def test_nothing_else_of_the_project_does(shop: Path) -> None:
    policy, _ = compiled(block(), shop)

    report = pysandbox.run(["/bin/sh", "-c", f"cat {shop}/secret; echo x > {shop}/data/new; ls {shop}"], policy=policy)

    assert "No such file" in str(report.stderr) and "Read-only file system" in str(report.stderr)
    assert report.stdout == "data\nscratch\n"
    assert sorted(each.name for each in (shop / "data").iterdir()) == ["in"]


def test_the_cage_is_nobody_with_a_name_of_its_own(shop: Path) -> None:
    policy, _ = compiled(block(), shop)

    result = pysandbox.run(["/bin/sh", "-c", "id -u; uname -n | cut -c1-5; ls -d /scratch"], policy=policy)

    assert result.stdout == "65534\ncage-\n/scratch\n"


def test_a_disabled_block_runs_uncaged(shop: Path) -> None:
    policy, effective = compiled({"kind": "disabled"}, shop)

    result = pysandbox.run(["/bin/cat", f"{shop}/secret"], policy=policy)

    assert (result.stdout, result.caged, effective.uncaged_reason) == ("not granted\n", False, "dsl_disabled")


@pytest.mark.parametrize(
    ("written", "event"), [(block(), "subagent.spawn"), ({"kind": "disabled"}, "subagent.spawn.uncaged")]
)
def test_its_events_name_the_subagent(shop: Path, written: dict[str, Any], event: str) -> None:
    policy, effective = compiled(written, shop)
    events: list[Event] = []
    with Cage(policy, labels=effective.labels, runtime=Runtime(sink=events.append, warm=0)) as cage:
        cage.run(["/bin/true"])
    (told,) = [each.data for each in events if each.type == event]
    assert (told["subagent_name"], told["project_id"], told["session_id"]) == ("scraper", "shop", "s1")


def test_no_sandbox_makes_every_block_a_disabled_one(shop: Path) -> None:
    policy, effective = compiled(block(), shop, no_sandbox=True)

    assert pysandbox.run(["/bin/cat", f"{shop}/secret"], policy=policy).stdout == "not granted\n"
    assert effective.uncaged_reason == "daemon_no_sandbox"


def test_the_walltime_holds_caged_and_disabled(shop: Path) -> None:
    short = block(limits={**LIMITS, "walltime_sec": 1})
    for options in ({}, {"no_sandbox": True}):
        policy, _ = compiled(short, shop, **options)

        result = pysandbox.run(["/bin/sleep", "60"], policy=policy)

        assert (result.reason, result.exit_code) == ("timeout", 124), options


def test_limits_that_nothing_enforces_are_in_the_notes(shop: Path) -> None:
    policy, _ = compiled(block(), shop)

    notes = str(pysandbox.run(["/bin/true"], policy=policy).notes)

    assert "memory_mb" in notes or pysandbox.run(["/bin/true"], policy=policy.narrow(limits_required=True)).ok


@pytest.mark.parametrize("profile", ["default", "relaxed"])
def test_each_profile_runs_an_ordinary_program(shop: Path, profile: str) -> None:
    policy, _ = compiled(block(seccomp=profile), shop)

    result = pysandbox.run(
        ["/usr/bin/python3", "-c", "import subprocess; print(subprocess.check_output(['date', '-u', '-d@0', '+%Y']))"],
        policy=policy,
    )

    assert result.stdout == "b'1970\\n'\n", result.stderr


def test_a_symlink_out_of_the_project_is_refused(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (shop / "way").symlink_to(tmp_path / "outside")

    with pytest.raises(pysandbox.SandboxCompileError, match="way"):
        compiled(block(fs=[{"mode": "ro", "path": "way"}]), shop)


def test_a_path_that_does_not_exist_is_told_apart(shop: Path) -> None:
    with pytest.raises(pysandbox.SandboxPathMissing, match="gone"):
        compiled(block(fs=[{"mode": "ro", "path": "gone"}]), shop)


def test_an_empty_block_still_runs_system_programs(shop: Path) -> None:
    policy, effective = compiled(block(fs=[]), shop)

    assert pysandbox.run(["/bin/echo", "hello"], policy=policy).stdout == "hello\n"
    assert effective.netns.enabled is False
