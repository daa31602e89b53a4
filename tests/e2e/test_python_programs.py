"""Real Python work in a cage: numpy from a venv, pip without a network, pytest with its temporary files."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from pysandbox import Cage, Policy

pytestmark = pytest.mark.slow


@pytest.fixture
def in_venv(project: Path, venv: Path) -> Cage:
    rules = Policy(workdir="write", run_as="self", allow=[str(venv)])  # type: ignore[arg-type]  # a str becomes a Grant
    return Cage(rules, cwd=str(project))


def test_numpy_computes(in_venv: Cage, venv: Path) -> None:
    work = "import numpy; a = numpy.arange(90000.0).reshape(300, 300); print(numpy.linalg.matrix_rank(a @ a.T))"

    result = in_venv.run([str(venv / "bin/python"), "-c", work], timeout=60)

    assert (result.stdout, result.exit_code) == ("2\n", 0), result.stderr


def test_threads_and_processes_of_python_work(in_venv: Cage, venv: Path) -> None:
    work = textwrap.dedent("""
        import concurrent.futures, multiprocessing, sqlite3, ssl, tempfile, zlib
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            print(sum(pool.map(abs, range(-5, 5))))
        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(sum(pool.map(abs, range(-5, 5))))
        with tempfile.NamedTemporaryFile() as file, sqlite3.connect(file.name) as base:
            print(base.execute("select 6 * 7").fetchone()[0])
    """)

    result = in_venv.run([str(venv / "bin/python"), "-c", work], timeout=60)

    assert result.stdout == "25\n25\n42\n", result.stderr


SETUP = 'from setuptools import setup; setup(name="tiny", version="1", py_modules=["tiny"])\n'


def plant_package(project: Path) -> None:
    (project / "setup.py").write_text(SETUP)
    (project / "tiny.py").write_text("answer = 42\n")


def test_pip_installs_a_local_wheel_without_a_network(in_venv: Cage, venv: Path, project: Path) -> None:
    plant_package(project)
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--quiet", "--no-index", "--no-build-isolation", "--wheel-dir", "wheels", "."],
                   cwd=project, check=True)  # fmt: skip

    with in_venv as cage:
        installed = cage.run(
            [*pip, "install", "--no-index", "--find-links", "wheels", "--target", "here", "tiny"], timeout=120
        )
        used = cage.run([str(venv / "bin/python"), "-c", "import tiny; print(tiny.answer, tiny.__file__)"], cwd="/tmp",
                        env={"PYTHONPATH": str(project / "here")})  # fmt: skip

    assert installed.ok, installed.stderr
    assert used.stdout == f"42 {project}/here/tiny.py\n", used.stderr


def test_pip_builds_in_the_cage(in_venv: Cage, venv: Path, project: Path) -> None:
    plant_package(project)
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check"]

    result = in_venv.run(
        [*pip, "wheel", "--no-index", "--no-build-isolation", "--wheel-dir", "wheels", "."], timeout=120
    )

    assert result.ok, result.stderr
    assert [each.name for each in (project / "wheels").iterdir()] == ["tiny-1-py3-none-any.whl"]


def test_pytest_runs_a_suite(in_venv: Cage, venv: Path, project: Path) -> None:
    (project / "test_it.py").write_text(
        textwrap.dedent("""
        import os, subprocess, sys

        def test_passes(tmp_path, monkeypatch):
            (tmp_path / "x").write_text("y")
            assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout == b"1\\n"

        def test_fails():
            assert os.getpid() == 0
    """)
    )

    result = in_venv.run([str(venv / "bin/python"), "-m", "pytest", "-q"], timeout=60)

    assert result.exit_code == 1
    assert "1 failed, 1 passed" in str(result.stdout), result.stderr
    assert (project / ".pytest_cache").is_dir(), "the current directory is writable"
