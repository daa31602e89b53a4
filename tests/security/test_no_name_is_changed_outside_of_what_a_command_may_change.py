"""Claim: changing names through `Cage.files` changes none outside of the cage, and uncovers nothing, whatever the cage
does meanwhile."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from pysandbox import Cage, Policy

pytestmark = pytest.mark.guest

# `flip` is a directory of the cage and a link to one of the host's, in turn, as fast as it goes.
FLIP = """
import os
os.makedirs("real", exist_ok=True)
os.symlink(os.environ["OUTSIDE"], "link")
open("ready", "w").close()
while True:
    for name in ("real", "link"):
        try:
            os.rename(name, "flip")
            os.rename("flip", name)
        except OSError:
            pass
"""
ROUNDS = 3000 // (10 if "PSB_GUEST" in os.environ else 1)  # an emulated processor is that much slower


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    (path / "empty").mkdir(parents=True)
    (path / "victim").write_text("the host's")
    return path


def state(path: Path) -> list[tuple[str, str]]:
    return sorted((each.name, each.read_text() if each.is_file() else "") for each in path.iterdir())


def test_the_control_changes_names_of_its_own(project: Path) -> None:
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        cage.files.mkdir("flip")
        cage.files.write("flip/victim", b"x")
        cage.files.rename("flip/victim", "flip/other")
        cage.files.remove("flip/other")
        cage.files.rmdir("flip")


def test_a_directory_that_turns_into_a_link_leads_to_none_of_the_host_s(project: Path, outside: Path) -> None:
    before, done = state(outside), 0
    with Cage(Policy(workdir="write", env={"OUTSIDE": str(outside)}), cwd=str(project)) as cage:
        racing = cage.spawn(["python3", "-c", FLIP])
        while not cage.files.exists("ready"):
            assert racing.poll() is None
        files = cage.files
        for _ in range(ROUNDS):
            for call in (
                lambda: files.list("flip"), lambda: files.mkdir("flip/made"), lambda: files.rmdir("flip/made"),
                lambda: files.rmdir("flip/empty"),
                lambda: files.remove("flip/victim"), lambda: files.rename("flip/victim", "taken"),
                lambda: files.rename("ready", "flip/put"), lambda: files.rename("flip/put", "ready"),
            ):  # fmt: skip
                with suppress(OSError):
                    call()
                    done += 1
        racing.close()
    assert done > ROUNDS // 30, "the race must have been a race"
    assert state(outside) == before
    assert not (project / "taken").exists()


@pytest.mark.parametrize("word", ["deny", "mask"])
def test_what_the_policy_covers_is_neither_removed_nor_moved_from_outside(project: Path, word: str) -> None:
    """The kernel asks of the mounts of whoever calls: from the host's view the name is an ordinary one."""
    (project / "secrets").mkdir()
    (project / "key").write_text("secret")
    (project / "secrets" / "inner").write_text("secret")
    covered = ["secrets"] if word == "mask" else ["key", "secrets"]
    policy = Policy(workdir="write", **{word: covered})  # type: ignore[arg-type]
    with Cage(policy, cwd=str(project)) as cage:
        files = cage.files
        files.write("mine", b"")
        for name in covered:
            for call in (
                lambda name=name: files.remove(name), lambda name=name: files.rmdir(name),
                lambda name=name: files.rename(name, "away"), lambda name=name: files.rename("mine", name),
            ):  # fmt: skip
                with pytest.raises(OSError) as caught:
                    call()
                assert caught.value.errno == errno.EBUSY
    assert (project / "key").read_text() == (project / "secrets" / "inner").read_text() == "secret"


def test_the_guarded_files_of_a_repository_stay(project: Path) -> None:
    (project / ".git" / "hooks").mkdir(parents=True)
    (project / ".git" / "config").write_text("[core]\n")
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        for call in (
            lambda: cage.files.remove(".git/config"), lambda: cage.files.rename(".git/config", ".git/old"),
            lambda: cage.files.rmdir(".git/hooks"), lambda: cage.files.write(".git/hooks/pre-commit", b"#!/bin/sh\n"),
            lambda: cage.files.mkdir(".git/hooks/x"), lambda: cage.files.rename(".git", "git"),
        ):  # fmt: skip
            by_a_command = cage.run(["mv", ".git", "git"]) if call.__code__.co_consts[-1] == "git" else None
            if by_a_command is not None and by_a_command.ok:
                pytest.skip("a command of this cage may move it, too")
            with pytest.raises(OSError):
                call()
    assert (project / ".git" / "config").read_text() == "[core]\n"
