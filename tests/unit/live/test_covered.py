"""The table of mounts that says whether what a cage covers is still covered."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

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


MOUNTINFO = rb"""36 35 98:0 /etc/shadow /elsewhere rw,noatime shared:1 - ext4 /dev/root rw
37 35 98:0 / /with\040a\011blank rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "expected"), [("/elsewhere", True), ("/with a\tblank", True), ("/etc/shadow", False), ("/", False)]
)
def test_it_is_the_mount_point_that_counts(path: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is mounted there; and as the kernel spells it (proc_pid_mountinfo(5))."""
    monkeypatch.setattr(os, "pread", lambda fd, size, at: MOUNTINFO[at : at + size])
    table = CoveredPaths(os.getpid(), [path])
    assert table.covers == expected
    table.end()


def test_what_is_let_go_of_covers_nothing() -> None:
    table = CoveredPaths(os.getpid(), ["/"])
    table.cage_ends()
    assert not table.covers
    table.end()
