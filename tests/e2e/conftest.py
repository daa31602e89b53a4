"""Fixtures of the end-to-end suite: a project directory, a cage around it, a venv with real packages, and doors without
a cage."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.doors import Doors
from pysandbox import Cage, Policy

PYTHON = "/usr/bin/python3"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The current directory of the user's command."""
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def at_work(project: Path) -> Iterator[Cage]:
    """A session with the default policy plus the current directory, as the command line has it."""
    with Cage(Policy(workdir="write", run_as="self"), cwd=str(project)) as cage:
        yield cage


@pytest.fixture(scope="session")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv of the system's Python with numpy and pytest in it, made once on the host, to be granted read-only."""
    directory = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([PYTHON, "-m", "venv", str(directory)], check=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "numpy", "pytest", "setuptools", "wheel"], check=True)
    return directory


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    made = Doors(tmp_path / "hosts")
    yield made
    made.close()
