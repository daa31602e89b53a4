"""Layers on disk: held for as long as anybody holds them, and removed only where nobody does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox.live import disk_use, layers
from pysandbox.live.kill_reason import DISK_FULL, OUT_OF_LAYERS
from pysandbox.live.layers import DiskLayers, find_left, remove_left
from pysandbox.probe.file_systems import ORDINARY

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("state")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(layers, "of_magic", lambda number: ORDINARY)
    monkeypatch.setattr(layers, "KEPT_FREE", 0)
    monkeypatch.setattr(disk_use, "KEPT_FREE", 0)
    monkeypatch.setattr(disk_use, "NAMES_KEPT_FREE", 0)
    yield tmp_path


def held() -> list[str]:
    return sorted(os.listdir(layers.directory()))


def test_they_are_there_until_the_last_lets_go() -> None:
    one = DiskLayers(MIB, ["/tree"])
    one.hold()
    one.end()
    one.end()
    assert held() == [os.path.basename(one.path)]
    one.let_go()
    assert held() == []


def test_what_is_held_is_nobody_s_leftover_and_what_is_not_is() -> None:
    one = DiskLayers(MIB, [])
    (Path(layers.directory()) / "left" / "below").mkdir(parents=True, mode=0o700)
    os.chmod(Path(layers.directory()) / "left", 0o700)
    assert [each.name for each in find_left()] == ["left"]
    remove_left("another")
    assert len(held()) == 2
    remove_left()
    assert held() == [os.path.basename(one.path)]
    one.end()


def test_one_that_is_taken_for_a_leftover_before_its_lock_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    mkdir = os.mkdir

    def make(path: str, *args: object, **options: object) -> None:
        mkdir(path, *args, **options)  # type: ignore[arg-type]
        if not removed and len(path) == 26:
            removed.append(path)
            remove_left()

    monkeypatch.setattr(os, "mkdir", make)
    one = DiskLayers(MIB, [])
    assert removed and held() == [os.path.basename(one.path)] != removed
    one.end()


def test_a_forked_copy_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = DiskLayers(MIB, [])
    monkeypatch.setattr(os, "getpid", lambda: -1)
    one.after_fork_in_child()
    one.end()
    assert len(held()) == 1


def test_who_forgets_one_removes_it_once_its_cage_has_ended() -> None:
    one = DiskLayers(MIB, [])
    one.hold()  # by a workspace that nobody drops
    one.end()
    assert len(held()) == 1
    del one
    assert held() == []


def test_a_walk_that_is_blind_counts_only_once_the_disk_has_lost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    free = 100 * MIB
    monkeypatch.setattr(disk_use, "room", lambda fd: (free, 10**6))
    one = DiskLayers(MIB, [])
    (Path(one.path) / "shut").mkdir(mode=0)
    use = one.use()
    try:
        if os.geteuid():
            assert use.look(None) is None
            free -= 2 * MIB
            assert use.look(None) is OUT_OF_LAYERS
        os.rmdir(Path(one.path) / "shut")
        assert use.look(None) is None, "another program has written to that disk"
        (Path(one.path) / "file").write_bytes(os.urandom(2 * MIB))
        assert use.look(None) is OUT_OF_LAYERS
        monkeypatch.setattr(disk_use, "KEPT_FREE", free + 1)
        assert use.look(None) is DISK_FULL
    finally:
        use.close()
        one.end()
