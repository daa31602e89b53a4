"""Claim: processes and threads beyond max_pids fail with EAGAIN, in that cage alone, while another cage forks freely."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import pysandbox
from pysandbox import PIPE, Cage

from .harness import caged, policy, uncaged

MOST = 20


@pytest.mark.parametrize("kind", ["fork", "thread"])
def test_the_bomb_stops_at_the_limit(attack_bin: Path, isolation: str, kind: str) -> None:
    bomb = [str(attack_bin / "many"), kind, "500"]
    try:
        report = caged(bomb, policy(isolation, max_pids=MOST, allow=[str(attack_bin)]))
    except pysandbox.UnsupportedError as error:
        # RLIMIT_NPROC does not bind the host's root: then the limit must be refused, never forgotten.
        assert os.geteuid() == 0 and "max_pids" in str(error)
        return

    assert report[kind].errno == "EAGAIN"
    assert report[kind].value < MOST
    assert uncaged(bomb)[kind].errno is None, "the control: without a cage there is no such limit"


def test_another_cage_forks_while_the_bomb_is_held(attack_bin: Path) -> None:
    limited = policy(max_pids=MOST, allow=[str(attack_bin)])
    many = str(attack_bin / "many")
    with Cage(limited) as bombed, Cage(limited) as other:
        try:
            bomb = bombed.spawn([many, "fork", "500"], stdin=PIPE, stdout=PIPE)
        except pysandbox.UnsupportedError as error:
            assert os.geteuid() == 0 and "max_pids" in str(error)
            return
        assert bomb.stdout is not None
        assert json.loads(bomb.stdout.readline())["errno"] == "EAGAIN"

        free = other.run([many, "fork", "10"], stdin=pysandbox.DEVNULL, timeout=30)

        assert json.loads(str(free.stdout)) == {"try": "fork", "errno": None, "value": 10}
        bomb.kill()
        assert bomb.wait(timeout=10) == -9
