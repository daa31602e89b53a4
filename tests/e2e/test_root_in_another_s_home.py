"""Root that was given another user's HOME, as `sudo -E` does, makes nothing in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from _support.kept_runs import COMMAND

OTHER = 65534
LIMIT = 60


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """(a home, a project)"""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return home, project


def trail_of(home: Path, project: Path) -> Path:
    """After a run: the file that it was recorded in, as the program says."""
    env = {**os.environ, "HOME": str(home)}
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PYSANDBOX_AUDIT"):
        env.pop(name, None)
    for _ in range(2):
        ran = subprocess.run([COMMAND, "run", "--", "true"], cwd=project, env=env, capture_output=True, timeout=LIMIT)
        assert (ran.returncode, ran.stderr) == (0, b"")
    asked = "from pysandbox.audit.files import default_path; print(default_path())"
    python = str(Path(COMMAND).parent / "python")
    said = subprocess.run([python, "-c", asked], cwd=project, env=env, capture_output=True, text=True, timeout=LIMIT)
    return Path(said.stdout.strip())


@pytest.mark.root
def test_root_makes_nothing_in_the_home_of_another(places: tuple[Path, Path]) -> None:
    home, project = places
    os.chown(home, OTHER, OTHER)
    trail = trail_of(home, project)
    assert list(home.iterdir()) == []
    assert not trail.is_relative_to(home) and trail.is_file()


@pytest.mark.root
def test_a_home_of_root_s_own_is_used(places: tuple[Path, Path]) -> None:
    """The control: whatever it is called."""
    home, project = places
    assert trail_of(home, project).is_relative_to(home)
    assert {each.name for each in home.iterdir()} == {".cache", ".local"}
