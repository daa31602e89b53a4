"""Whether a cage that waits has died is asked again where the kernel was short of memory for the first answer."""

from __future__ import annotations

import errno
import os

from pysandbox import Cage, Policy
from pysandbox.live.init import CageInit


class NoMemory:
    def poll(self, _: float) -> list[tuple[int, int]]:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def test_a_poll_without_memory_is_no_end() -> None:
    with Cage(Policy()) as cage:
        live: CageInit = cage._opened.live  # type: ignore[union-attr]
        assert not live.is_dead(), "the control"
        live._end = NoMemory()  # type: ignore[assignment]
        assert not live.is_dead()
        assert cage.run(["true"]).ok
