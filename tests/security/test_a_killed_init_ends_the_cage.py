"""Claim: when the cage's init is killed from the host, its commands die, waiting tells so, and the cage takes no
more.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import ExitStack

import pytest

from pysandbox import PIPE, Cage, CageClosedError

from .harness import SLOWNESS, alive_with, policy, token, wait_until

pytestmark = pytest.mark.guest

LOOP = ["/bin/sh", "-c", "echo on; while :; do sleep 0.05; done", "sh"]


def test_the_commands_die_and_waiting_tells(isolation: str) -> None:
    mark = token()
    with Cage(policy(isolation)) as cage, ExitStack() as stack:
        running = stack.enter_context(cage.spawn([*LOOP, mark], stdout=PIPE))
        assert running.stdout is not None and running.stdout.readline() == b"on\n"
        assert alive_with(mark) and cage.init_pid is not None

        os.kill(cage.init_pid, signal.SIGKILL)

        assert wait_until(lambda: not alive_with(mark), within=1 * SLOWNESS)
        try:
            assert running.wait(timeout=10) == -signal.SIGKILL
        except CageClosedError as error:
            assert "init" in str(error)
        with pytest.raises(CageClosedError):
            cage.run(["/bin/true"], timeout=10)


def test_the_descriptor_of_a_command_becomes_readable(isolation: str) -> None:
    with Cage(policy(isolation)) as cage, cage.spawn(["/bin/sleep", "600"]) as running:
        assert not select.select([running], [], [], 0)[0], "the control: it has not ended"

        os.kill(cage.init_pid or -1, signal.SIGKILL)

        assert select.select([running], [], [], 10)[0]


def test_another_cage_is_not_touched() -> None:
    with Cage(policy()) as killed, Cage(policy()) as other:
        assert killed.run(["/bin/true"]).ok

        os.kill(killed.init_pid or -1, signal.SIGKILL)

        assert other.run(["/bin/true"], timeout=10).ok
