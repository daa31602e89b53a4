"""Claim: a path that a plugin was granted lies below the project: no link there, whoever made it and whenever, makes it
a directory of somebody else's.

An app that may write a workspace can leave a link there for another one that may read it, or for its next version.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from _support.apps import package
from pysandbox import Cage, Policy
from pysandbox.apps import App, Kernel
from pysandbox.apps.grant import AppGrant
from pysandbox.errors import PolicyError, SandboxCompileError

WORDS = ("read:fs:./out", "write:fs:./out", "read:fs:./out/below")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "secret" / "below").mkdir(parents=True)
    (tmp_path / "secret" / "key").write_text("SECRET")
    (tmp_path / "project" / "out" / "below").mkdir(parents=True)
    return tmp_path / "project"


def granted(word: str, *argv: str) -> App:
    return App.debug(package(entrypoint=list(argv) or ["true"], requested_capabilities=[word]))


def grant(word: str) -> AppGrant:
    return granted(word).grant


def planted(project: Path) -> None:
    (project / "out").rename(project / "before")
    (project / "out").symlink_to("../secret")


def read(policy: Policy, project: Path) -> str:
    return Cage(policy, cwd="/").run(["/bin/sh", "-c", f"read line < {project}/out/key; echo $line"]).stdout


def opened(project: Path, word: str) -> Policy:
    policy = grant(word).compile_plugin(project).policy
    return policy.merge(Policy(allow_execve=["/usr/bin/dash", "/bin/sh"]))


def test_control_a_directory_is_read_and_a_link_of_another_policy_followed(project: Path) -> None:
    (project / "out" / "key").write_text("mine")
    assert read(opened(project, WORDS[0]), project) == "mine\n"
    planted(project)
    plain = Policy(allow=[str(project / "out")])
    assert read(plain, project) == "SECRET\n"


CHANGES = {
    "as it is": lambda policy: policy,
    "merged": lambda policy: policy.merge(Policy(memory_mb=64)),
    "narrowed": lambda policy: policy.narrow(strict=False),
    "replaced": lambda policy: replace(policy, strict=False),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("word", WORDS)
def test_a_link_that_was_planted_is_refused(project: Path, word: str, how: str) -> None:
    """By the cage, which looks when it is made: also a link that has come after the policy."""
    policy = CHANGES[how](opened(project, word))
    planted(project)
    with pytest.raises(SandboxCompileError, match=r"leads through .*/out"):
        read(policy, project)


def test_a_project_that_is_reached_through_a_link_is_itself(project: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to("project")
    (project / "out" / "key").write_text("mine")
    assert read(opened(tmp_path / "way", WORDS[0]), tmp_path / "way") == "mine\n"
    planted(project)
    with pytest.raises(SandboxCompileError, match="leads through"):
        read(opened(tmp_path / "way", WORDS[0]), tmp_path / "way")


def test_nor_is_it_followed_by_a_cage_that_is_detached(project: Path, registry_home: Path) -> None:
    policy = opened(project, WORDS[1])
    planted(project)
    with pytest.raises(PolicyError, match="leads through"):
        Cage(policy, cwd="/").detach(["/bin/sh", "-c", f"echo pwned > {project}/out/new"]).close()
    assert not (project.parent / "secret" / "new").exists()


@pytest.mark.parametrize("word", WORDS)
def test_so_it_is_for_an_app_and_its_workspace(project: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is the home directory, too."""
    monkeypatch.setenv("HOME", str(project))
    with Kernel(project) as kernel:
        assert granted(word).run(kernel, debug=True).ended == "exit 0"
        planted(project)
        with pytest.raises(SandboxCompileError, match="leads through"):
            granted(word, "sh", "-c", f"echo pwned > {project}/out/new").run(kernel, debug=True)
    assert not (project.parent / "secret" / "new").exists()
