"""Claim: a process that leaves its session, its group and its parent still ends with the cage: its heartbeat stops."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import pysandbox
from pysandbox import Cage

from .conftest import Ground
from .harness import SLOWNESS, alive_with, policy, program, token, wait_until

pytestmark = pytest.mark.guest

ORPHAN = """
    for _ in range(2):
        if os.fork():
            os._exit(0)
        os.setsid()
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    for fd in range(3):
        os.close(fd)
    MARK
    import time
    while True:
        with open(HEART, "ab", buffering=0) as heart:
            heart.write(b"beat\\n")
        time.sleep(0.01)
"""


def orphan(heart: Path, mark: str) -> list[str]:
    return program(ORPHAN, HEART=str(heart), MARK=mark)


def beats(heart: Path) -> int:
    return heart.stat().st_size if heart.exists() else 0


def is_beating(heart: Path) -> bool:
    now = beats(heart)
    return wait_until(lambda: beats(heart) > now, within=10)


def test_an_orphan_outlives_its_command_and_not_the_session(ground: Ground, isolation: str) -> None:
    heart, mark = ground.inside / "heart", token()
    with Cage(policy(isolation, allow_write=[str(ground.inside)])) as cage:
        assert cage.run(orphan(heart, mark), timeout=20).ok
        assert is_beating(heart), "the control: within the session it lives on"

    assert wait_until(lambda: not alive_with(mark), within=1 * SLOWNESS)
    last = beats(heart)
    assert not wait_until(lambda: beats(heart) != last, within=0.2)


def test_an_orphan_of_a_single_command_ends_with_it(ground: Ground, isolation: str) -> None:
    heart, mark = ground.inside / "heart", token()

    result = pysandbox.run(orphan(heart, mark), policy=policy(isolation, allow_write=[str(ground.inside)]), timeout=20)

    assert result.ok
    assert wait_until(lambda: not alive_with(mark), within=1 * SLOWNESS)


def test_an_orphan_ends_when_its_command_times_out(ground: Ground, isolation: str) -> None:
    heart, mark = ground.inside / "heart", token()
    stays = program("if os.fork() == 0:\n    MARK\n", ORPHAN, HEART=str(heart), MARK=mark)
    waits = [*stays[:-1], stays[-1] + "\nimport time\ntime.sleep(600)\n"]

    result = pysandbox.run(
        ["/bin/sh", "-c", '"$@"; sleep 600', "sh", *waits],
        policy=policy(isolation, allow_write=[str(ground.inside)], walltime_sec=2, grace_sec=0),
    )

    assert result.reason == "timeout"
    assert wait_until(lambda: not alive_with(mark), within=1 * SLOWNESS)


def test_uncaged_the_orphan_lives_on(tmp_path: Path) -> None:
    heart, mark = tmp_path / "heart", token()

    subprocess.run(orphan(heart, mark), check=True, timeout=20)

    try:
        assert is_beating(heart)
    finally:
        for pid in alive_with(mark):
            os.kill(pid, 9)
