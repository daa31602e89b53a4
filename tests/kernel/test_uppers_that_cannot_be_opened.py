"""What fails while the layers of a cage are opened is a StartError, and no descriptor is left open (the leak guard)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.compile.plan import MountKind, MountStep
from pysandbox.errors import StartError
from pysandbox.live.uppers import OpenedUppers
from pysandbox.probe.opening import Opening


def plan_of(step: MountStep) -> Any:
    return SimpleNamespace(mounts=(step,))


def test_no_clock_at_the_moment_of_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> Opening:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(Opening, "now", none_left)
    found = tmp_path.stat()
    step = MountStep(MountKind.OVERLAY, "/tree", str(tmp_path), data="0", dev=found.st_dev, ino=found.st_ino)
    (tmp_path / "0" / "upper").mkdir(parents=True)
    uppers = OpenedUppers(os.open(tmp_path, os.O_RDONLY), plan_of(step))
    with pytest.raises(StartError) as error:
        uppers.stamp()
    uppers.close()
    assert (error.value.step, error.value.errno) == ("upper", errno.EMFILE)


def test_a_layer_that_is_not_there(tmp_path: Path) -> None:
    found = tmp_path.stat()
    step = MountStep(MountKind.OVERLAY, "/tree", str(tmp_path), data="0", dev=found.st_dev, ino=found.st_ino)
    with pytest.raises(StartError) as error:
        OpenedUppers(os.open(tmp_path, os.O_RDONLY), plan_of(step))
    assert (error.value.step, error.value.errno) == ("upper", errno.ENOENT)


def test_a_tree_that_is_another_directory_by_now(tmp_path: Path) -> None:
    (tmp_path / "0" / "upper").mkdir(parents=True)
    step = MountStep(MountKind.OVERLAY, "/tree", str(tmp_path), data="0", dev=1, ino=1)
    with pytest.raises(StartError) as error:
        OpenedUppers(os.open(tmp_path, os.O_RDONLY), plan_of(step))
    assert (error.value.step, error.value.errno) == ("source_changed", errno.ESTALE)
