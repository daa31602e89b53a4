"""A cage that is paused by a cgroup's freezer is tightened as any other, and goes on when it is resumed."""

from __future__ import annotations

import time

import pytest

from pysandbox import Cage, Policy, Runtime
from pysandbox.events import Event

pytestmark = pytest.mark.root


@pytest.mark.parametrize("limits", [{}, {"max_pids": 64}], ids=["stopped by signals", "frozen, where it can be"])
def test_a_paused_cage_is_tightened_and_goes_on_after(limits: dict[str, int]) -> None:
    told: list[Event] = []
    policy = Policy(allow_ips=["203.0.113.7:443"], **limits)  # type: ignore[arg-type]
    runtime = Runtime(sink=told.append, warm=0)
    with Cage(policy, runtime=runtime) as cage:
        process = cage.spawn(["sh", "-c", "while :; do sleep 0.05; done"])
        time.sleep(0.2)
        cage.pause()
        assert cage.restrict_network([]) == 0
        cage.resume()
        time.sleep(0.2)
        assert process.poll() is None and "cage.unstoppable" not in [each.type for each in told]
        process.kill()
        process.wait()
    runtime.drain()  # the reader of the doors ends with it
