"""Fixtures of the kernel tests: a cage-init that waits for orders, and a tree with what was written over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import Overlay
from _support.snapshots import BOTH

from .plans import Init, opened, plan


@pytest.fixture
def init() -> Iterator[Init]:
    with opened(plan()) as init:
        yield init


@pytest.fixture(params=BOTH)
def overlay(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Overlay]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made: Overlay = request.param(tmp_path / "trees")
    yield made
    made.remove()
