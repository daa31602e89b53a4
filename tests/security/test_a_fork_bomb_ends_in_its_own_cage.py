"""Claim: processes and threads beyond max_pids fail with EAGAIN (or end the cage, where only the watchdog counts), in
that cage alone, while another cage forks freely and however many the user runs elsewhere.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import pysandbox
from pysandbox import DEVNULL, PIPE, Cage, Event, Runtime
from pysandbox.probe import cgroups

from .harness import PATIENCE, caged, policy, uncaged

pytestmark = pytest.mark.guest

MOST = 20


def refuses_forks(isolation: str) -> bool:
    """Otherwise the watchdog counts, and ends the cage."""
    return "pids" in cgroups.find_cgroup().controllers or (isolation == "full" and os.geteuid() != 0)


@pytest.mark.parametrize("kind", ["fork", "thread"])
def test_the_bomb_stops_at_the_limit(attack_bin: Path, isolation: str, kind: str) -> None:
    bomb = [str(attack_bin / "many"), kind, "500"]
    events: list[Event] = []

    runtime = Runtime(sink=events.append, warm=0)
    with Cage(policy(isolation, max_pids=MOST, allow=[str(attack_bin)]), runtime=runtime) as cage:
        process = cage.spawn(bomb, stdin=PIPE, stdout=PIPE)
        said = process.stdout.readline() if process.stdout is not None else b""
        if refuses_forks(isolation):
            process.kill()
        process.wait(PATIENCE)
        result = process.result()
        process.close()

    assert uncaged(bomb)[kind].errno is None, "the control: without a cage there is no such limit"
    violations = [(each.data["limit"], each.data["value"]) for each in events if each.type == "policy.violation"]
    if refuses_forks(isolation):
        assert json.loads(said) == {"try": kind, "errno": "EAGAIN", "value": MOST - 1}
        told = [("pids", MOST)] if "pids" in cgroups.find_cgroup().controllers else []
        assert violations == told, "the kernel counts what it refuses in a cgroup alone"
    else:
        assert (result.reason, violations) == ("cancelled", [("pids", MOST)])


def test_what_the_user_runs_elsewhere_is_not_counted(attack_bin: Path, isolation: str) -> None:
    with subprocess.Popen([str(attack_bin / "many"), "thread", str(4 * MOST)], stdin=PIPE, stdout=PIPE) as others:
        assert others.stdout is not None and others.stdin is not None
        others.stdout.readline()

        few = [str(attack_bin / "many"), "fork", str(MOST - 1)]
        report = caged(few, policy(isolation, max_pids=MOST, allow=[str(attack_bin)]))

        assert (report["fork"].errno, report["fork"].value) == (None, MOST - 1)
        others.stdin.close()


def test_the_whole_allowance_can_be_used(attack_bin: Path, isolation: str) -> None:
    few = [str(attack_bin / "many"), "fork", str(MOST - 1)]
    report = caged(few, policy(isolation, max_pids=MOST, allow=[str(attack_bin)]))

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
