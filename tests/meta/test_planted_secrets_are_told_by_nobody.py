"""The plugin that looks for planted secrets in all that is told (`_support/planted.py`) finds each that is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _support.planted import RUN, PlantedSecrets, told
from pysandbox.denial import Denial
from pysandbox.dlp import registry
from pysandbox.events import Event

VALUE = b"of this file " + b"0f1e2d3c4b5a"
TESTS = Path(__file__).parent.parent
WITHOUT = {"ssh_private_key", "pgp_private_key", "putty_private_key", "database_url"}  # their hits are no secrets
SUITE = """
import logging, os, pytest
from pathlib import Path
from _support.planted import heard
from pysandbox.denial import Denial
from pysandbox.events import Event
VALUE = "planted" + "0f1e2d3c4b5a" * 2
WAYS = {
    "event": lambda path, said: Event("a.type", {"field": ["a", said]}),
    "denial": lambda path, said: Denial("dlp", "a.example", said, ""),
    "log": lambda path, said: logging.getLogger("a").warning("it is %s", said),
    "stderr": lambda path, said: os.write(2, said.encode()),
    "stdout": lambda path, said: print(said),
    "report": lambda path, said: (path / "r.html").write_text(said),
    "core": lambda path, said: (path / "core.17").write_bytes(bytes(9) + said.encode() + bytes(9)),
    "trail": lambda path, said: (Path(os.environ["STATE"]) / "a.jsonl").write_text(said),
    "another": lambda path, said: heard(said),
}

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("planted", [0, 1])
def test_way(way, planted, tmp_path):
    WAYS[way](tmp_path, VALUE if planted else "a word")
"""
CONFTEST = """
import os
from pathlib import Path
from _support.planted import PlantedSecrets, plant
plant("planted" + "0f1e2d3c4b5a" * 2)

def pytest_configure(config):
    config.pluginmanager.register(PlantedSecrets(Path(os.environ["STATE"])))
"""
ALL_WAYS = ("event", "denial", "log", "stderr", "stdout", "report", "core", "trail", "another")


def test_a_suite_that_tells_one_fails_by_whatever_way(tmp_path: Path) -> None:
    """Each way is its own control: with a word in the place of the secret its test passes."""
    suite, state = tmp_path / "suite", tmp_path / "state"
    suite.mkdir()
    state.mkdir()
    for name, text in (("conftest.py", CONFTEST), ("test_ways.py", SUITE)):
        (suite / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--basetemp", str(suite / "tmp"),
               "test_ways.py"]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(TESTS), "STATE": str(state)}
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False, timeout=120)
    refused = {line.split()[1].partition("[")[2].rstrip("]") for line in done.stdout.splitlines()
               if line.startswith(("ERROR ", "FAILED "))}  # fmt: skip
    assert refused == {f"1-{way}" for way in ALL_WAYS}, done.stdout


def test_each_file_is_looked_at_again_once_it_has_grown(tmp_path: Path) -> None:
    made, trail = PlantedSecrets(tmp_path, VALUE), tmp_path / "a.jsonl"
    trail.write_text("a word")
    assert list(made.written(tmp_path)) == []
    trail.write_bytes(b"a word " + VALUE)
    assert len(list(made.written(tmp_path))) == 1
    assert list(made.written(tmp_path)) == [], "it was told once"


def test_a_vector_of_each_detector_is_a_planted_secret() -> None:
    assert {row.name for row in registry.ALL if not any(told(b"it is " + hit) for hit in row.hits)} <= WITHOUT
    assert not [hit for row in registry.ALL for hit in row.hits if RUN.search(hit) and not told(hit)]
    assert not told("ghp_...#9f3a21bc") and not told("github_pat")


def test_what_is_told_of_a_find_is_none() -> None:
    listening = PlantedSecrets(Path("/nowhere"), VALUE)
    listening.listen()
    try:
        Event("gatekeeper.credential_found", {"shown": "ghp_...#9f3a", "place": "body json $.a[1]"})
        Denial("dlp", "a.example", "dlp.github_pat", "")
        assert listening.taken() == []
        Denial("dlp", "a.example", VALUE.decode(), "")
        assert len(listening.taken()) == 1
    finally:
        listening.leave()
