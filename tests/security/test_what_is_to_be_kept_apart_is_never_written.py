"""Claim: what a command line or a policy names as copy-on-write is not changed on the host, whatever else grants it.

The working directory of a command line is written by default, which is wider; nobody who says `--cow .` means that.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from _support.projects import enter_project
from pysandbox import Cage, Policy
from pysandbox.errors import SandboxCompileError

WRITE = ["sh", "-c", "echo changed > notes; echo made > made"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory below another one, both of which somebody may name."""
    above = enter_project(tmp_path, monkeypatch, "one\n")
    below = above / "below"
    below.mkdir()
    (below / "notes").write_text("one\n")
    (above / "link").symlink_to("below")
    monkeypatch.chdir(below)
    return below


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["pysandbox", "run", *flags, "--", *WRITE], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )


def is_unchanged(project: Path) -> bool:
    return (project / "notes").read_text() == "one\n" and not (project / "made").exists()


def test_without_it_the_working_directory_is_written(project: Path) -> None:
    """The control."""
    assert run().returncode == 0 and not is_unchanged(project)


@pytest.mark.parametrize("kept", [False, True], ids=["first", "kept"])
@pytest.mark.parametrize(
    "flags",
    [
        ["--cow", "."], ["--cow=."], ["--cow", "../below"], ["--cow", ".."], ["--cow", "../link"], ["--cow", "./"],
        ["--cow", ".", "--workdir", "cow"], ["--cow", ".", "--workdir", "read"], ["--cow", ".", "--storage", "disk"],
        ["--cow", ".", "--why"], ["--cow", ".", "--storage", "copy"], ["--cow", ".", "--isolation", "landlock"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_whatever_spelling_names_it_it_is_kept_apart(project: Path, flags: list[str], kept: bool) -> None:
    for _ in range(1 + kept):
        done = run(*flags)
        assert (done.returncode, is_unchanged(project)) == (0, True), done
        assert "2 changes: 1 added, 1 modified" in done.stderr


@pytest.mark.parametrize(
    "flags", [["--cow", ".", "--workdir", "write"], ["--cow", ".", "--allow-write", "."],
              ["--workdir", "cow", "--allow-write", "../link"]], ids=" ".join,
)  # fmt: skip
def test_who_says_both_is_asked_which(project: Path, flags: list[str]) -> None:
    done = run(*flags)
    assert done.returncode == 125 and is_unchanged(project)
    assert "would not be kept apart (leave one of the two out" in done.stderr


def test_a_recipe_that_says_both_is_asked_too(project: Path) -> None:
    (project.parent / "both.toml").write_text('[filesystem]\nworkdir = "write"\ncow = ["."]\n')
    done = run("-r", "../both.toml")
    assert done.returncode == 125 and is_unchanged(project) and "would not be kept apart" in done.stderr


def test_a_directory_below_the_working_directory_is_kept_apart_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.parent)
    write = ["sh", "-c", "echo made > made; cd below; echo changed > notes; mv notes other; rm -r ../below/other"]
    done = subprocess.run(["pysandbox", "run", "--cow", "below", "--", *write], capture_output=True, timeout=60)
    assert done.returncode == 0 and is_unchanged(project) and (project.parent / "made").exists()


def test_what_is_written_inside_by_name_is_meant(project: Path) -> None:
    done = run("--cow", "..", "--workdir", "write")
    assert done.returncode == 0 and not is_unchanged(project)


@pytest.mark.parametrize("given", [{"workdir": "write"}, {"allow_write": ["."]}], ids=["workdir", "allow_write"])
def test_a_policy_that_says_both_makes_no_cage(project: Path, given: dict[str, object]) -> None:
    rules = Policy(cow=[os.getcwd()], **given)  # type: ignore[arg-type]
    with pytest.raises(SandboxCompileError, match="would not be kept apart"):
        Cage(rules, cwd=str(project)).run(WRITE)
    assert is_unchanged(project)
