"""The table of mounts that says whether what a cage covers is still covered."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from pysandbox._native import lib

from pysandbox.errors import StartError
from pysandbox.live import covered
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


def is_mounted(*paths: str | Path) -> bool:
    return bool(lib.psb_all_mounted(os.getpid(), b"".join(os.fsencode(path) + b"\0" for path in paths) + b"\0"))


def test_each_path_says_whether_something_is_mounted_on_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    (tmp_path / "up").symlink_to("/")
    (tmp_path / "file").touch()
    assert is_mounted("/", "/proc"), "the control"
    for other in (tmp_path, tmp_path / "file", tmp_path / "none", tmp_path / "file/below"):
        assert not is_mounted("/", other, "/proc"), other
    for link in (tmp_path / "link", tmp_path / "up/proc"):
        assert os.path.ismount(link.resolve()) and not is_mounted(link), "whoever makes links says nothing of mounts"
    assert not lib.psb_all_mounted(2**30, b"/\0\0"), "nor does a process that is gone"


def test_where_the_paths_say_so_the_table_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int, size: int, at: int) -> bytes:
        raise AssertionError("it was read")

    monkeypatch.setattr(os, "pread", fail)
    root = CoveredPaths(os.getpid(), ["/", "/proc"])
    assert root.covers and root._fd >= 0, "it is open all the same, and tells of a change"
    changes = SimpleNamespace(poll=iter([[1], []]).__next__)
    root._changes = SimpleNamespace(poll=lambda _: changes.poll())  # type: ignore[assignment]
    monkeypatch.setattr(covered, "lib", SimpleNamespace(psb_all_mounted=no_path_says))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: MOUNTINFO[at : at + size])
    assert not root.covers, "a change is looked at, and what no path says is looked up in the table"
    assert root.uncovered == "/"
    root.end()


MOUNTINFO = rb"""36 35 98:0 /etc/shadow /elsewhere rw,noatime shared:1 - ext4 /dev/root rw
37 35 98:0 / /with\040a\011blank rw - tmpfs tmpfs rw
"""


def no_path_says(pid: int, listed: bytes) -> int:
    """As a kernel before 5.12, and where the paths cannot be reached."""
    return 0


@pytest.mark.parametrize(
    ("path", "expected"), [("/elsewhere", True), ("/with a\tblank", True), ("/etc/shadow", False), ("/", False)]
)
def test_it_is_the_mount_point_that_counts(path: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is mounted there; and as the kernel spells it (proc_pid_mountinfo(5))."""
    monkeypatch.setattr(os, "pread", lambda fd, size, at: MOUNTINFO[at : at + size])
    monkeypatch.setattr(covered, "lib", SimpleNamespace(psb_all_mounted=no_path_says))
    table = CoveredPaths(os.getpid(), [path])
    assert table.covers == expected
    table.end()


@pytest.mark.parametrize("want", [OSError(errno.ENOMEM, "Cannot allocate memory"), MemoryError()])
def test_a_change_that_could_not_be_read_is_not_forgotten(want: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    table, tables = CoveredPaths(os.getpid(), ["/elsewhere"]), [MOUNTINFO]
    monkeypatch.setattr(os, "pread", lambda fd, size, at: tables[-1][at : at + size])
    assert table.covers  # the control
    changes = SimpleNamespace(poll=iter([[1], []]).__next__)  # it is told of once
    table._changes = SimpleNamespace(poll=lambda _: changes.poll())  # type: ignore[assignment]

    def fail(fd: int, size: int, at: int) -> bytes:
        raise want

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(StartError):
        assert table.covers
    monkeypatch.setattr(os, "pread", lambda fd, size, at: b"")
    assert not table.covers
    table.end()


def test_what_is_let_go_of_is_read_again_when_it_is_asked() -> None:
    table = CoveredPaths(os.getpid(), ["/"])
    assert table._fd < 0, "nobody has asked yet"
    assert table.covers and table._fd >= 0
    table.let_go()
    assert table._fd < 0
    assert table.covers
    table.end()
    assert table._fd < 0 and not table.covers


def test_who_cannot_look_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files", path)

    table = CoveredPaths(os.getpid(), ["/"])
    monkeypatch.setattr(os, "open", short)
    with pytest.raises(StartError, match="covered_paths"):
        _ = table.covers
    monkeypatch.undo()
    assert table.covers, "and it may be asked again"
    table.end()


def test_a_process_that_is_gone_covers_nothing() -> None:
    assert not CoveredPaths(2**30, ["/"]).covers
