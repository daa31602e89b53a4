"""live/processes.py: which threads count as moving."""

from __future__ import annotations

import pytest

from pysandbox.live.processes import Task, moving


@pytest.mark.parametrize("state", "TtDZX")
def test_what_stands_still_does_not_move(state: str) -> None:
    assert moving([Task(7, 7, state)]) == ()


@pytest.mark.parametrize("state", "RSIWP")
def test_one_moving_thread_moves_its_process(state: str) -> None:
    assert moving([Task(7, 7, "T"), Task(7, 8, state), Task(9, 9, "T")]) == (7,)
