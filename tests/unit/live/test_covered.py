"""The table of mounts that says whether what a cage covers is still covered."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from pysandbox.live.covered import CoveredPaths


def test_any_number_of_threads_may_ask() -> None:
    root = CoveredPaths(os.getpid(), ["/"])

    def ask(_: int) -> bool:
        return all(root.covers for _ in range(500))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(64)))
    root.end()
    assert not root.covers


def test_what_nothing_is_mounted_on_is_not_covered() -> None:
    none = CoveredPaths(os.getpid(), ["/", "/no such place"])
    assert not none.covers
    none.end()
