"""Claim: what a policy denies or masks of a copy-on-write directory, by a name or by a pattern, is never written to the
directory: a cage that makes it, before or after it was there, makes it for itself alone, however it spells it.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from _support.projects import enter_project
from pysandbox import Cage, Policy
from pysandbox.workspace.workspace import Workspace

from .harness import OWN_PROC

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

DENIED = (".env", "sub/.env", "new.key", "sub/deep/x.pem", "sub/private/in", "masked.txt", "literal", ".ENV",
          "NEW2.Key", ".e\u200cnv", "LITERAL", "sub/moved.key")  # fmt: skip
WRITTEN = ("sub", "sub/deep", "sub/env", "new.keys", "notes")
NAMES = " ".join(f"'{each}'" for each in (*DENIED, "sub/env", "new.keys", "notes"))
MAKE = f"""
mkdir -p sub/deep sub/private
for each in {NAMES}; do echo cage > "$each"; done
echo x > first; mv first sub/moved.key
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_project(tmp_path, monkeypatch, "old\n")


def policy(isolation: str, *, hidden: bool = True, **said: object) -> Policy:
    deny, mask = ["**/.env", "*.key", "sub/**/*.pem", "**/private", "literal", "**/*.[Kk]ey"], ["masked.*"]
    more = {"deny": deny, "mask": mask} if hidden else {}
    return Policy(workdir="cow", isolation=isolation, allow=OWN_PROC[isolation], **more, **said)  # type: ignore[arg-type]


def made(isolation: str, **said: object) -> Workspace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Cage(policy(isolation, **said)) as cage:  # type: ignore[arg-type]
            cage.run(["sh", "-c", MAKE]).check()
    return cage.workspace


def there() -> set[str]:
    return {os.path.relpath(os.path.join(above, each)) for above, folders, files in os.walk(".")
            for each in folders + files}  # fmt: skip


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_control_what_is_not_denied_is_written(project: Path, isolation: str) -> None:
    workspace = made(isolation, hidden=False)
    done = workspace.commit()
    assert {*DENIED} <= there() and not [each for each in done.skipped if "denies" in each.reason]
    workspace.close()


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("kept", [False, True])
def test_what_the_cage_makes_of_it_is_left(project: Path, isolation: str, kept: bool) -> None:
    workspace = made(isolation)
    if kept:
        name = workspace.keep()
        workspace.close()
        workspace = Workspace.open(name)
    done = workspace.commit()
    assert {*DENIED}.isdisjoint(there()) and {*WRITTEN} <= there()
    left = {each.path for each in done.skipped if "denies" in each.reason or "lies in" in each.reason}
    assert {*DENIED, "sub/private"} == left
    workspace.commit(DENIED, on_conflict="force")  # nor where somebody names it
    assert {*DENIED}.isdisjoint(there())
    workspace.abort()


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_nobody_who_has_not_looked_commits_it(project: Path, isolation: str) -> None:
    with Cage(policy(isolation, on_exit="commit")) as cage:
        cage.run(["sh", "-c", "echo evil > new.key; mkdir -p sub; echo evil > sub/x.pem; echo fine > notes"]).check()
    outcome = cage.workspace.outcome
    assert outcome is not None and "the policy denies it" in outcome.reason
    assert {"new.key", "sub/x.pem"}.isdisjoint(there()) and Path("notes").read_text() == "fine\n"
    cage.workspace.abort()


@pytest.mark.parametrize("pattern", ["**/{upper}", "**/[A-Z]*"])
def test_control_a_pattern_that_is_the_directory_s_own_path_in_another_case_denies_nothing_else(
    project: Path, pattern: str
) -> None:
    with Cage(Policy(workdir="cow", deny=[f"{project.parent}/{pattern.format(upper=project.name.upper())}"])) as cage:
        cage.run(["sh", "-c", f"mkdir sub; echo x > sub/{project.name.upper()}; echo x > Other; echo x > new"]).check()
    done = cage.workspace.commit()
    assert {"new", "sub"} <= there()
    assert [each.path for each in done.skipped] == ([f"sub/{project.name.upper()}"] if "{" in pattern else
                                                    ["Other", f"sub/{project.name.upper()}"])  # fmt: skip
    cage.workspace.close()


def test_a_directory_that_is_reached_by_a_link_is_the_same_one(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern is spelled with the link, and the directory has its real path."""
    link = project.parent / "link"
    link.symlink_to(project)
    rules = Policy(workdir="cow", deny=[f"{link}/**/*.key", f"{link}/x/*"])
    with Cage(rules) as cage:
        cage.run(["sh", "-c", "mkdir x; echo evil > new.key; echo evil > x/y; echo fine > z"]).check()
    cage.workspace.commit()
    assert {"new.key", "x/y"}.isdisjoint(there()) and "z" in there()
    cage.workspace.abort()
