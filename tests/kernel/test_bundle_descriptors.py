"""A workspace that was kept holds descriptors while it is open; whatever fails on the way gives them back."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from _support.overlays import Overlay
from pysandbox.workspace import bundle
from pysandbox.workspace.bundle import open_bundle, write_bundle
from pysandbox.workspace.upper import Upper
from pysandbox.workspace.workspace import Workspace


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a kept workspace of two trees."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    overlays = [Overlay(tmp_path / name) for name in ("one", "two")]
    uppers: list[Upper] = [each.write('Path("file").write_text("x")') for each in overlays]
    name = write_bundle(uppers)
    for upper in uppers:
        upper.drop()
    yield tmp_path / "state" / "pysandbox" / "workspaces" / name
    for each in overlays:
        each.remove()


def descriptors() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def rewritten(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def act(place: Path) -> None:
        index = json.loads((place / "bundle.json").read_text())
        change(index)
        (place / "bundle.json").write_text(json.dumps(index))

    return act


BROKEN: dict[str, Callable[[Path], object]] = {
    "no commits of it": lambda place: (place / "own.json").write_text("{"),
    "an opening that is none": rewritten(lambda index: index["trees"][1].update(opening=["x"])),  # type: ignore[index]
    "no list of what is denied": rewritten(lambda index: index["trees"][1].pop("denied")),  # type: ignore[index]
    "a tree that is gone": rewritten(lambda index: index["trees"][1].update(path="/nowhere")),  # type: ignore[index]
    "another tree": rewritten(lambda index: index["trees"][1].update(id=[0, 0])),  # type: ignore[index]
    "no index": lambda place: (place / "bundle.json").write_text("["),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_cannot_be_opened_leaves_no_descriptor(how: str, kept: Path) -> None:
    BROKEN[how](kept)
    before = descriptors()
    for _ in range(3):
        with pytest.raises((OSError, ValueError)):
            Workspace.open(kept.name)
    assert descriptors() == before


def test_no_descriptor_to_be_had_leaves_none(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()

    def refused(fd: int) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(bundle.os, "dup", refused)
        with pytest.raises(OSError, match="Too many"):
            open_bundle(kept.name)
    assert descriptors() == before


def test_what_nobody_holds_any_more_is_closed(kept: Path) -> None:
    before = descriptors()
    workspace = Workspace.open(kept.name)
    assert len(workspace.changes()) == 2 and descriptors() > before, "CONTROL"
    del workspace
    assert descriptors() == before
