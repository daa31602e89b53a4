"""Claim: a repository or an editor's directory below a writable grant is guarded by the next command, also where one
like it was run before, and no directories that a cage makes keep the next look from finding it, unless that is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pysandbox
from pysandbox.probe import guards, paths

from .conftest import Ground
from .harness import caged, policy, program, uncaged

REFUSED = ("EROFS", "EBUSY", "EXDEV", "EPERM", "EACCES")
WRITE = 'attempt("write", lambda: open(FILE, "a").write("#"))'


def repository(where: Path) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=where, check=True, timeout=60)
    return where / ".git" / "config"


def project_file(where: Path) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    (where / ".envrc").touch()
    return where / ".envrc"


def submodule(where: Path) -> Path:
    top = where.parent
    subprocess.run(["git", "init", "-q", "--bare", str(top / ".git" / "modules" / where.name)], check=True, timeout=60)
    return top / ".git" / "modules" / where.name / "config"


def written(project: Path, file: Path) -> str | None:
    return caged(program(WRITE, FILE=str(file)), policy(allow_write=[str(project)]))["write"].errno


def by_command_line(cwd: Path, file: Path | None) -> bool:
    """Whether it was appended to; the same command line each time, which is kept after the first."""
    script = 'import sys; p = open("which").read(); p and open(p, "a").write("#!")'
    (cwd / "which").write_text(str(file or ""))
    argv = [sys.executable, "-m", "pysandbox", "run", "--", "/usr/bin/python3", "-c", script]
    subprocess.run(argv, cwd=cwd, capture_output=True, timeout=60)
    return file is not None and file.read_text().endswith("#!")


@pytest.mark.parametrize("make", [repository, project_file, submodule])
def test_what_came_after_a_run_is_guarded_in_the_next(ground: Ground, make: object) -> None:
    repository(ground.inside)
    time.sleep(0.1)  # a plan made from what changed a moment ago is not kept
    for _ in range(2):
        by_command_line(ground.inside, None)
    assert callable(make)
    assert not by_command_line(ground.inside, make(ground.inside / "new"))


@pytest.mark.parametrize("make", [repository, project_file, submodule])
def test_it_is_guarded_in_the_next_cage_of_a_program(ground: Ground, make: object) -> None:
    repository(ground.inside)
    (ground.inside / "plain").touch()
    assert written(ground.inside, ground.inside / "plain") is None
    assert callable(make)
    file = make(ground.inside / "new")
    time.sleep(0.3)  # one program does not look each time
    assert written(ground.inside, file) in REFUSED
    assert uncaged(program(WRITE, FILE=str(file)))["write"].errno is None


@pytest.mark.parametrize("make", [repository, project_file, submodule])
def test_a_time_of_modification_that_is_set_back_hides_it_from_no_one(ground: Ground, make: object) -> None:
    repository(ground.inside)
    (ground.inside / "which").touch()
    was = ground.inside.stat().st_mtime_ns
    time.sleep(2.2)  # a directory that changed a moment ago is looked into whatever its time says
    for _ in range(2):
        by_command_line(ground.inside, None)
        assert written(ground.inside, ground.inside / "which") is None
    assert callable(make)
    for file in (make(ground.inside / "new"), project_file(ground.inside)):
        os.utime(ground.inside, ns=(was, was))
        assert not by_command_line(ground.inside, file)
        time.sleep(0.3)
        assert written(ground.inside, file) in REFUSED


def test_names_of_a_bare_repository_hide_nothing(ground: Ground) -> None:
    file = repository(ground.inside / "objects" / "mine")
    for name in ("HEAD", "refs"):
        (ground.inside / name).touch()
    assert written(ground.inside, file) in REFUSED


def test_where_the_search_ends_too_early_that_is_told(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MOST", 20)
    repository(ground.inside / "zz")
    for number in range(30):
        (ground.inside / f"a{number:02}").mkdir()
    result = pysandbox.run(["/bin/true"], policy=policy(allow_write=[str(ground.inside)]))
    assert any("more directories than are searched" in note.message for note in result.notes)


def test_another_name_of_a_guarded_file_is_told(ground: Ground) -> None:
    (ground.inside / "other").hardlink_to(project_file(ground.inside))
    result = pysandbox.run(["/bin/true"], policy=policy(allow_write=[str(ground.inside)]))
    assert any("another name" in note.message for note in result.notes)


def looked_at(project: Path) -> int:
    """How many names the search of a plan has read and heeds."""
    rules = policy(allow_write=[str(project)])
    seen = paths.stat_paths(rules, cwd=str(project))
    return sum(len(names) for _, _, _, names in seen.searched)


def test_no_number_of_names_is_read_to_the_end(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    flood = """
        for at in range(40):
            os.mkdir(f"{TREE}/d{at}")
            for name in range(40):
                open(f"{TREE}/d{at}/.f{name}", "w").close()
    """
    caged(program(flood, TREE=str(ground.inside)), policy(allow_write=[str(ground.inside)]))
    assert looked_at(ground.inside) > 1600, "the control: all of it is read"
    monkeypatch.setattr(guards, "MOST_NAMES", 200)
    files = [repository(ground.inside), project_file(ground.inside / "d39")]

    assert looked_at(ground.inside) < 400
    report = caged(program(WRITE, FILE=str(files[0])), policy(allow_write=[str(ground.inside)]))
    assert report["write"].errno in REFUSED and report.result is not None
    assert any("holds more directories" in note.message for note in report.result.notes)


def test_no_number_of_repositories_is_guarded(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    config = repository(ground.inside)
    flood = """
        for at in range(300):
            os.makedirs(f"{TREE}/.git/worktrees/w{at}")
            open(f"{TREE}/.git/worktrees/w{at}/config", "w").close()
    """
    caged(program(flood, TREE=str(ground.inside)), policy(allow_write=[str(ground.inside)]))
    monkeypatch.setattr(guards, "MOST_REPOSITORIES", 20)
    rules = policy(allow_write=[str(ground.inside)])
    assert len(paths.stat_paths(rules, cwd=str(ground.inside)).guards) < 200
    report = caged(program(WRITE, FILE=str(config)), rules)
    assert report["write"].errno in REFUSED and report.result is not None
    assert any("holds more directories" in note.message for note in report.result.notes)
