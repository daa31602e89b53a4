"""`Runtime.prewarm`: cages that wait from the start, for the plan that holds now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, PolicyError, Runtime


@pytest.fixture
def runtime():
    made = Runtime(warm=0)
    yield made
    made.drain()


def test_the_first_command_finds_a_cage_and_another_takes_its_place(runtime: Runtime) -> None:
    policy = Policy()
    runtime.prewarm(policy, 2)
    assert runtime.is_warm(policy, os.getcwd())
    for _ in range(4):
        assert Cage(policy, runtime=runtime).run(["/bin/true"]).ok
        runtime.wait_idle()
    assert runtime.is_warm(policy, os.getcwd())
    runtime.prewarm(policy, 0)
    assert not runtime.is_warm(policy, os.getcwd())
    assert Cage(policy, runtime=runtime).run(["/bin/true"]).ok


def test_a_changed_path_has_cages_of_the_new_plan_wait(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    policy = Policy(allow=[str(tmp_path / "shown")])
    runtime.prewarm(policy, 1, tmp_path)
    (tmp_path / "shown").rename(tmp_path / "old")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "new").touch()
    runtime._prewarmed.follow()
    assert runtime.is_warm(policy, str(tmp_path))
    listed = Cage(policy, cwd=tmp_path, runtime=runtime).run(["/bin/ls", str(tmp_path / "shown")])
    assert str(listed.stdout).split() == ["new"]


def test_no_cage_waits_after_a_drain_and_what_makes_no_sense_is_refused(runtime: Runtime) -> None:
    runtime.prewarm(Policy(), 1)
    runtime.drain()
    assert not runtime.is_warm(Policy(), os.getcwd())
    for count in (-1, 257, True, 1.0):
        with pytest.raises(ValueError, match="prewarm"):
            runtime.prewarm(Policy(), count)  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        runtime.prewarm(Policy(allow=["/nowhere/at/all"]), 1)
