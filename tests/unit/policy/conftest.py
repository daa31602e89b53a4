"""A host of directories that are made for one test, and recipes that are written to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.policy import search

Write = Callable[[str, str], Path]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, a project that is the current directory, and a system directory, all empty."""
    for name in ("home", "project", "system", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(search, "SYSTEM", str(tmp_path / "system"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def write(host: Path) -> Write:
    places = {"project": "project/.pysandbox", "user": "home/.config/pysandbox/recipes", "system": "system"}

    def write(name: str, text: str) -> Path:
        place, _, file = name.partition("/")
        path = host / places.get(place, place) / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write
