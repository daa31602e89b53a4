"""Whether a paused cage has stood still since: what the freezer says, or what ran, came or went meanwhile."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.errors import CageClosedError
from pysandbox.launch.owner import Owner
from pysandbox.live import stopping
from pysandbox.live.processes import Standing
from pysandbox.live.stopping import Switches, stands_still

OWNERS = frozenset({Owner(1, 7, 100)})


def cage(seen: Switches | None, *, frozen: bool | None = None, closed: bool = False) -> Any:
    def pin() -> int:
        if closed:
            raise CageClosedError("gone")
        return os.pidfd_open(os.getpid())

    group = None if frozen is None else SimpleNamespace(is_frozen=lambda: frozen)
    stood = None if seen is None else Standing(OWNERS, seen)
    return SimpleNamespace(stood=stood, cgroup=group, pin=pin, pid=os.getpid())


@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_cage_stands_still_for_as_long_as_it_is_frozen(frozen: bool) -> None:
    assert stands_still(cage({}, frozen=frozen)) is frozen
    assert not stands_still(cage(None, frozen=True)), "it was not paused"


@pytest.mark.parametrize(("now", "still"), [
    ({7: {7: 3, 8: 1}}, True), ({7: {7: 4, 8: 1}}, False), ({7: None}, False), ({7: {7: 3}}, False), ({}, False),
    ({7: {7: 3, 8: 1}, 9: {9: 0}}, False), ({7: {7: 3, 8: 1}, 9: {}}, True),
], ids=["stood", "ran", "runs", "a thread ended", "all ended", "a new one", "a dead one"])  # fmt: skip
def test_whatever_ran_came_or_went_meanwhile_is_seen(
    now: dict[int, Switches | None], still: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "descendants", lambda init: list(now))
    monkeypatch.setattr(stopping, "_still", lambda pid: now[pid])
    monkeypatch.setattr(stopping, "owner_of", lambda pid: Owner(1, 7, 100) if pid == 7 else None)
    assert stands_still(cage({7: 3, 8: 1})) is still


def test_who_has_the_number_of_another_by_now_did_not_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "descendants", lambda init: [7])
    monkeypatch.setattr(stopping, "_still", lambda pid: {7: 3})
    for start, still in ((100, True), (101, False)):
        monkeypatch.setattr(stopping, "owner_of", lambda pid, start=start: Owner(1, pid, start))
        assert stands_still(cage({7: 3})) is still


def test_what_is_closed_does_not_stand_still_but_is_gone() -> None:
    assert not stands_still(cage({}, closed=True))
