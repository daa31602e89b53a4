"""Claim: a directory that an earlier cage replaced by a symlink is not granted to the next one.

The first cage may write a project and puts a link where the next policy grants a directory: by a relative path, by an
absolute one, from the project or from elsewhere, in one program or from the command line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Grant

from .conftest import Ground
from .harness import program

PLANT = """
    os.chdir(PROJECT)
    os.rename("out", "out.old")
    os.symlink(OUTSIDE, "out")
    say("planted")
"""
LOOK = """
    attempt("read", content, OUT + "/secret")
    attempt("write", lambda: open(OUT + "/planted", "w").close())
"""


@pytest.fixture
def project(ground: Ground) -> Path:
    (ground.inside / "out").mkdir()
    return ground.inside


def plant(ground: Ground, isolation: str = "full") -> None:
    plants = program(PLANT, PROJECT=str(ground.inside), OUTSIDE=str(ground.outside))
    rules = pysandbox.Policy(allow_write=(Grant(str(ground.inside)),), isolation=isolation, run_as="self")
    assert pysandbox.run(plants, policy=rules, timeout=60).exit_code == 0
    assert (ground.inside / "out").is_symlink()


@pytest.mark.parametrize("word", ["allow", "allow_write"])
@pytest.mark.parametrize("relative", [False, True])
def test_the_next_cage_of_the_program_is_refused(
    ground: Ground, project: Path, isolation: str, word: str, relative: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = "./out" if relative else str(project / "out")
    if relative:
        monkeypatch.chdir(project)
    options: dict[str, Any] = {word: (Grant(out),), "isolation": isolation, "run_as": "self"}
    look = program(LOOK, OUT=str(project / "out"))
    pysandbox.run(look, policy=pysandbox.Policy(**options), timeout=60)  # CONTROL: a directory yet

    plant(ground, isolation)

    with pytest.raises(pysandbox.PolicyError, match="leads through") as caught:
        pysandbox.run(look, policy=pysandbox.Policy(**options), timeout=60)
    assert str(ground.outside) in str(caught.value)
    assert ground.unharmed


@pytest.mark.parametrize("spelled", ["relative", "absolute"])
@pytest.mark.parametrize("access", ["read", "write"])
def test_nor_is_it_granted_as_a_working_directory_by_another_program(
    ground: Ground, project: Path, isolation: str, access: Any, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which runs in the project, and knows nothing of the cage that planted it."""
    monkeypatch.chdir(project)
    out: Any = "./out" if spelled == "relative" else project / "out"
    options: dict[str, Any] = {"workdir": access, "isolation": isolation, "run_as": "self"}
    rules = pysandbox.Policy(**options)
    runtime = pysandbox.Runtime()
    assert pysandbox.Cage(rules, cwd=out, runtime=runtime).run(["/bin/pwd"]).ok  # CONTROL: a directory yet
    plant(ground, isolation)
    look = program(LOOK, OUT=str(project / "out"))

    with pytest.raises(pysandbox.PolicyError, match="leads through"):
        pysandbox.Cage(rules, cwd=out, runtime=pysandbox.Runtime()).run(look)
    assert ground.unharmed
    runtime.drain()


def test_nor_is_a_detached_one_that_a_process_of_its_own_makes(ground: Ground, project: Path) -> None:
    """Which knows of earlier cages what it is told."""
    cage = pysandbox.Cage(pysandbox.Policy(allow=(Grant(str(project / "out")),)), cwd="/")
    command = cage.detach(["true"])  # CONTROL: a directory yet
    assert command.wait(60) == 0
    command.close()

    plant(ground)

    with pytest.raises(pysandbox.PolicyError, match="leads through"):
        cage.detach(program(LOOK, OUT=str(project / "out"))).close()
    assert ground.unharmed


Call = Callable[..., "subprocess.CompletedProcess[str]"]


def call(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], cwd=cwd, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)  # fmt: skip


@pytest.mark.parametrize("spelling", ["out", "./out/", "$PWD/out"])
def test_nor_does_the_command_line_follow_it(ground: Ground, project: Path, spelling: str) -> None:
    spelling = spelling.replace("$PWD", str(project))
    narrow = ("run", "--workdir", "none", "--allow-write", spelling, "--", *program(LOOK, OUT=str(project / "out")))
    assert call(project, *narrow).returncode == 0  # CONTROL
    assert call(project, *narrow).returncode == 0  # ... and by the kept plan
    (project / "out" / "planted").unlink()

    plants = program(PLANT, PROJECT=str(project), OUTSIDE=str(ground.outside))
    assert call(project, "run", "--", *plants).returncode == 0

    refused = call(project, *narrow)
    assert refused.returncode == 125
    assert "leads through" in refused.stderr and str(ground.outside) in refused.stderr
    assert ground.word not in refused.stdout
    assert ground.unharmed


def test_a_denial_cannot_be_led_away(ground: Ground, project: Path) -> None:
    """The denied name is a link of the project's: the cage would make it lead elsewhere, and read what it led to."""
    (project / "real").write_text(ground.word)
    (project / "secret").symlink_to("real")
    rules = {"allow_write": (Grant(str(project)),)}
    with pytest.raises(pysandbox.PolicyError, match="leads through"):
        pysandbox.run(["true"], policy=pysandbox.Policy(**rules, deny=(Grant(str(project / "secret")),)))  # type: ignore[arg-type]
    denied = pysandbox.Policy(**rules, deny=(Grant(str(project / "real")),))  # type: ignore[arg-type]
    assert pysandbox.run(["/bin/cat", str(project / "real")], policy=denied).exit_code != 0
