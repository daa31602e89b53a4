"""A commit that was killed is told by `pysandbox orphans`, and finished or undone by whatever touches the tree next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from _support.projects import enter_project
from pysandbox import Cage, Policy, Runtime

KILLED = """
import os, sys
from pysandbox.workspace import commit, journal
from pysandbox.workspace.workspace import Workspace
if sys.argv[1] == "staged":
    journal.CommitJournal.apply = lambda *_: os._exit(9)
else:
    commit.apply = lambda *_: os._exit(9)
Workspace.open(Workspace.kept()[-1].id).commit()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_project(tmp_path, monkeypatch, "old\n")


def pysandbox(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["pysandbox", *arguments], capture_output=True, text=True, check=False)


def interrupt(when: str) -> None:
    with Cage(Policy(workdir="cow", on_exit="keep")) as cage:
        cage.run(["sh", "-c", "echo new > notes; rm gone; echo new > added"]).check()
    assert subprocess.run([sys.executable, "-c", KILLED, when], check=False).returncode == 9


def look(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in project.iterdir()}


OLD, NEW = {"notes": "old\n", "gone": "old\n"}, {"notes": "new\n", "added": "new\n"}
BOTH = pytest.mark.parametrize(("when", "outcome", "after"), [("staged", "undone", OLD), ("applying", "finished", NEW)])


@BOTH
@pytest.mark.parametrize("act", [
    lambda: pysandbox("diff"), lambda: pysandbox("commit", "--undo"), lambda: pysandbox("discard"),
    lambda: pysandbox("run", "--workdir", "cow", "--", "true"),
], ids=["diff", "commit", "discard", "run"])  # fmt: skip
def test_the_next_command_deals_with_it_and_says_so(
    project: Path, when: str, outcome: str, after: dict[str, str], act: Callable[[], subprocess.CompletedProcess[str]]
) -> None:
    interrupt(when)
    said = act().stderr
    assert f"had been interrupted: {outcome}" in said
    assert look(project) == (OLD if "taken back" in said else after)
    trail = b"".join(each.read_bytes() for each in (project.parent / "audit").rglob("*") if each.is_file())
    assert trail.count(b"workspace.recovered") == 1


@BOTH
def test_a_cage_of_a_program_sees_the_tree_whole(project: Path, when: str, outcome: str, after: dict[str, str]) -> None:
    interrupt(when)
    told = []
    runtime = Runtime(sink=told.append, warm=0)
    with Cage(Policy(workdir="cow"), runtime=runtime) as cage:
        assert sorted(cage.run(["ls", "-A"]).stdout.split()) == sorted(after)
    runtime.drain()
    assert [each.data["outcome"] for each in told if each.type == "workspace.recovered"] == [outcome]
    assert look(project) == after and cage.workspace.changes() == []


@BOTH
def test_orphans_tells_it_and_deals_with_it_when_asked(
    project: Path, when: str, outcome: str, after: dict[str, str]
) -> None:
    interrupt(when)
    before = sorted(os.listdir(project))
    told = [each for each in json.loads(pysandbox("orphans", "--json").stdout) if each["kind"] == "commit"]
    assert len(told) == 1 and outcome in told[0]["detail"] and str(project) in told[0]["detail"]
    assert sorted(os.listdir(project)) == before  # it only looks
    assert pysandbox("orphans", "--remove").returncode == 0
    assert look(project) == after and "commit" not in pysandbox("orphans").stdout


def test_one_whose_tree_is_gone_is_forgotten_only_when_asked(project: Path) -> None:
    interrupt("applying")
    project.rename(project.parent / "moved")
    project.mkdir()
    os.chdir(project)
    assert "has moved, or was replaced" in pysandbox("run", "--workdir", "cow", "--", "true").stderr
    assert "commit" in pysandbox("orphans").stdout
    assert pysandbox("orphans", "--remove").returncode == 0
    assert "commit" not in pysandbox("orphans").stdout
