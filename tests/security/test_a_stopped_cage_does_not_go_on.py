"""Claim: without a cgroup, cpu_percent holds against programs that let themselves go on: they get no more than it says,
or the cage is ended for it; who does not fight is never ended.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage, Event, Policy, Result, Runtime
from pysandbox.live.cpu_budget import DEFIANCE
from pysandbox.live.unwaited import Unwaited, Used, explain_unwaited, newcomers
from pysandbox.probe import cgroups

PERCENT = 20
SECONDS = 5
ROOM = 0.4  # CPU seconds: what is used before the first look, and between two

pytestmark = pytest.mark.skipif(
    "cpu" in cgroups.find_cgroup().controllers, reason="the kernel's controller holds the share"
)


def fight(attacks: Path, how: str) -> tuple[Result, float, float, list[str]]:
    """The result, CPU and wall seconds, and the limits that were told."""
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    with Cage(Policy(cpu_percent=PERCENT, allow=[str(attacks)]), runtime=runtime) as cage:
        began, used = time.monotonic(), 0.0
        process = cage.spawn([str(attacks / "fight"), how, str(SECONDS)], stdout=PIPE)
        while process.poll() is None:
            used = max(used, cage.stats().cpu_seconds)
            time.sleep(0.02)
        took, result = time.monotonic() - began, process.result()
        process.close()
    return result, used, took, [str(each.data["limit"]) for each in events if each.type == "policy.violation"]


@pytest.mark.parametrize("how", ["nothing", "children", "threads", "helpers"])
def test_who_is_held_is_not_ended(attack_bin: Path, how: str) -> None:
    result, used, took, limits = fight(attack_bin, how)

    assert (result.reason, limits) == ("exited", [])
    assert used <= PERCENT / 100 * took + ROOM


@pytest.mark.parametrize("how", ["timers", "helpers with timers", "rotation"])
def test_who_goes_on_gets_no_more_or_is_ended(attack_bin: Path, how: str) -> None:
    result, used, took, limits = fight(attack_bin, how)

    assert used <= PERCENT / 100 * took + DEFIANCE + ROOM
    if result.reason != "exited":
        assert (result.reason, limits) == ("cancelled", ["cpu"])
        assert any("SIGCONT" in note.message for note in result.notes)


def test_children_that_nobody_waits_for_are_seen_to_run() -> None:
    """One runs at every look, and none is ever told of: nearly all of it is booked. Who is waited for is counted."""
    account, booked = Unwaited(), 0.0
    parent = Used(0.0, 0.0, runs=False)
    for look in range(500):
        before = {"2": parent, str(look + 10): Used(0, 0, runs=True)}
        now = {"2": parent, str(look + 11): Used(0, 0, runs=True)}
        booked += account.owed(len(newcomers(before, now)) * 0.01, explain_unwaited(before, now))
    assert booked == pytest.approx(5, abs=0.25)

    account = Unwaited()
    for look in range(500):
        before = {"2": Used(0, look * 0.01, runs=False), str(look + 10): Used(0, 0, runs=True)}
        now = {"2": Used(0, (look + 1) * 0.01, runs=False), str(look + 11): Used(0, 0, runs=True)}
        assert account.owed(len(newcomers(before, now)) * 0.01, explain_unwaited(before, now)) == 0
