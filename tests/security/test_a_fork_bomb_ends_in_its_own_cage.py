"""Claim: processes and threads beyond max_pids fail with EAGAIN, in that cage alone, while another cage forks
freely.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pysandbox
from pysandbox import DEVNULL, PIPE, Cage
from pysandbox.probe import cgroups

from .harness import caged, policy, uncaged

pytestmark = pytest.mark.guest

MOST = 20


@pytest.mark.parametrize("kind", ["fork", "thread"])
def test_the_bomb_stops_at_the_limit(attack_bin: Path, isolation: str, kind: str) -> None:
    bomb = [str(attack_bin / "many"), kind, "500"]

    report = caged(bomb, policy(isolation, max_pids=MOST, allow=[str(attack_bin)]))

    assert report[kind].errno == "EAGAIN"
    assert report[kind].value < MOST
    assert uncaged(bomb)[kind].errno is None, "the control: without a cage there is no such limit"


def test_the_whole_allowance_can_be_used(attack_bin: Path) -> None:
    report = caged([str(attack_bin / "many"), "fork", str(MOST - 1)], policy(max_pids=MOST, allow=[str(attack_bin)]))

    assert (report["fork"].errno, report["fork"].value) == (None, MOST - 1)


def test_another_cage_forks_while_the_bomb_is_held(attack_bin: Path) -> None:
    limited, many = policy(max_pids=MOST, allow=[str(attack_bin)]), str(attack_bin / "many")
    with Cage(limited) as bombed, bombed.spawn([many, "fork", "500"], stdin=PIPE, stdout=PIPE) as bomb:
        assert bomb.stdout is not None
        assert json.loads(bomb.stdout.readline())["errno"] == "EAGAIN"

        free = pysandbox.run([many, "fork", "10"], policy=limited, stdin=DEVNULL, timeout=30)

        assert json.loads(str(free.stdout)) == {"try": "fork", "errno": None, "value": 10}
        bomb.kill()
        assert bomb.wait(timeout=10) == -9


@pytest.mark.root
def test_root_whose_processes_the_kernel_does_not_count_is_refused_the_limit_without_a_cgroup() -> None:
    if "pids" in cgroups.look().controllers:
        assert pysandbox.run(["/bin/true"], policy=policy(max_pids=MOST)).ok
        return
    with pytest.raises(pysandbox.UnsupportedError, match="max_pids"):
        pysandbox.run(["/bin/true"], policy=policy(max_pids=MOST))
