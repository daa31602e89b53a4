"""Claim: neither what a project brings along nor what a cage leaves in it grants the next run anything more.

The recipes that are there are hidden and cannot be changed; one that a cage plants where there was none counts for
nothing until the user has looked at it; the record of what the user trusts is out of reach, whatever is granted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Ground
from .harness import caged, policy, program, uncaged

PLANT = """
    def plant(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    for path, text in FILES.items():
        attempt(os.path.basename(path), plant, path, text)
"""

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(ground: Ground, home: Path) -> Call:
    """`pysandbox` in the project, for a user with an empty home."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=ground.inside, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    return call


def steal(secret: Path) -> str:
    system = ", ".join(f'{{ path = "{path}", optional = true }}' for path in ("/usr", "/bin", "/lib", "/lib64"))
    return f'[filesystem]\nallow = ["{secret}", {system}]\n'


@pytest.mark.parametrize("name", ["base", "python", "anything"])
def test_a_planted_recipe_grants_nothing_until_it_is_trusted(call: Call, ground: Ground, name: str) -> None:
    planted = ground.inside / ".pysandbox" / f"{name}.toml"
    read = ["run", *([] if name == "base" else ["-r", name]), "--", "/bin/cat", str(ground.secret)]

    plant = program(PLANT, FILES={str(planted): steal(ground.secret)})
    assert call("run", "--", *plant).returncode == 0
    assert planted.exists()
    next_run = call(*read)

    assert next_run.returncode == 125
    assert ground.word not in next_run.stdout
    assert str(planted) in next_run.stderr
    # CONTROL: the recipe would have worked.
    assert call("recipe", "trust", "--yes", str(planted)).returncode == 0
    assert call(*read).stdout == ground.word


def test_a_recipe_planted_to_be_detected_grants_nothing(call: Call, ground: Ground) -> None:
    tool = ground.inside / "tool"
    tool.write_text(f"#!/bin/cat\n{ground.word}")
    tool.chmod(0o755)
    planted = ground.inside / ".pysandbox" / "auto.toml"
    text = f'[recipe]\nmatch_prefix = ["{ground.inside}"]\n{steal(ground.secret)}'
    assert call("run", "--", *program(PLANT, FILES={str(planted): text})).returncode == 0

    assert call("run", "--", "./tool").returncode == 125
    assert call("recipe", "trust", "--yes", str(planted)).returncode == 0
    assert call("run", "--", "./tool").returncode == 0


def test_recipes_that_are_there_are_hidden_and_cannot_be_changed(ground: Ground) -> None:
    recipe = ground.inside / ".pysandbox" / "ours.toml"
    recipe.parent.mkdir()
    manifest = ground.inside / "pysandbox.toml"
    for path in (recipe, manifest):
        path.write_text(f"# {ground.word}\n")
    attack = """
        attempt("list", os.listdir, DIRECTORY)
        attempt("read manifest", content, MANIFEST)
        attempt("write manifest", lambda: open(MANIFEST, "w").close())
        attempt("make", lambda: open(DIRECTORY + "/new.toml", "w").close())
        attempt("move away", os.rename, DIRECTORY, DIRECTORY + ".old")
        attempt("unlink", os.unlink, MANIFEST)
        attempt("replace", os.replace, OTHER, MANIFEST)
    """
    other = ground.inside / "other"
    other.write_text("")
    names = {"DIRECTORY": str(recipe.parent), "MANIFEST": str(manifest), "OTHER": str(other)}

    report = caged(program(attack, **names), policy(allow_write=[str(ground.inside)]))

    refused = ("EROFS", "EACCES", "EPERM", "ENOENT")
    assert report.differs({
        "list": None, "read manifest": None, "write manifest": ("EACCES", "EROFS", None), "make": refused,
        "move away": ("EBUSY", "EXDEV"), "unlink": "EBUSY", "replace": "EBUSY",
    }) == {}  # fmt: skip
    assert (report["list"].value, report["read manifest"].value) == ([], "")
    assert recipe.read_text() == manifest.read_text() == f"# {ground.word}\n"
    # CONTROL: without a cage every one of them succeeds.
    assert all(each.errno is None for each in uncaged(program(attack, **names)).attempts.values())


def test_what_may_be_written_is_shown_no_more_where_it_may_only_be_read(ground: Ground) -> None:
    manifest, plain = ground.inside / "pysandbox.toml", ground.inside / "plain"
    manifest.write_text(f"# {ground.word}\n")
    plain.write_text(ground.word)
    wide = policy(allow_write=[str(ground.inside)])
    attack = program("attempt('policy', content, MANIFEST)\nattempt('other', content, PLAIN)",
                     MANIFEST=str(manifest), PLAIN=str(plain))  # fmt: skip
    for held in (wide, wide.narrow(allow_write=[], allow=[str(ground.inside)])):
        report = caged(attack, held)
        assert (report["policy"].value, report["other"].value) == ("", ground.word), held


def test_a_recipe_named_by_its_path_cannot_be_rewritten_by_the_cage_it_makes(call: Call, ground: Ground) -> None:
    mine = ground.inside / "mine.toml"
    mine.write_text("[process]\nenv_passthrough = []\n")
    attack = program(PLANT, FILES={str(mine): steal(ground.secret)})

    assert call("run", "-r", "mine.toml", "--", *attack).returncode == 0

    assert mine.read_text() == "[process]\nenv_passthrough = []\n"
    # CONTROL: nobody protects a file that is not a recipe of this run.
    assert call("run", "--", *attack).returncode == 0
    assert mine.read_text() == steal(ground.secret)


def places(home: Path) -> dict[str, Path]:
    return {
        "trust": home / ".local" / "state" / "pysandbox" / "trust.json",
        "recipe": home / ".config" / "pysandbox" / "recipes" / "python.toml",
    }


@pytest.mark.parametrize("moved", [False, True])
def test_what_the_user_trusts_is_out_of_reach_even_with_the_whole_home(
    home: Path, ground: Ground, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = places(home)
    if moved:
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        files["trust"] = home / "state" / "pysandbox" / "trust.json"
    for path in files.values():
        path.parent.mkdir(parents=True)
        path.write_text(ground.word)
    attack = """
        for name, path in FILES.items():
            attempt("read " + name, content, path)
            attempt("write " + name, lambda: open(path, "w").write("mine"))
            attempt("move " + name, os.rename, os.path.dirname(path), os.path.dirname(path) + ".old")
    """
    argv = program(attack, FILES={name: str(path) for name, path in files.items()})

    report = caged(argv, policy(allow_write=[str(home)]))

    gone = ("ENOENT", "EROFS", "EACCES")
    expected: dict[str, Any] = {}
    for name in files:
        expected |= {f"read {name}": gone, f"write {name}": gone, f"move {name}": ("EBUSY", "EXDEV", *gone)}
    assert report.differs(expected) == {}
    assert all(path.read_text() == ground.word for path in files.values())
    control = uncaged(argv).attempts
    assert control["read trust"].errno is None and control["write recipe"].errno is None


def test_what_git_runs_on_the_host_cannot_be_planted_in_a_writable_work_tree(ground: Ground) -> None:
    subprocess.run(["git", "init", "-q", str(ground.inside)], check=True)
    git = ground.inside / ".git"
    files = {str(git / "hooks" / "pre-commit"): "#!/bin/sh\n", str(git / "config"): "[core]\nfsmonitor = ./x\n"}
    before = (git / "config").read_text()

    report = caged(program(PLANT, FILES=files), policy(allow_write=[str(ground.inside)]))

    refused = ("EROFS", "EACCES", "EPERM")
    assert report.differs({"pre-commit": refused, "config": refused}) == {}
    assert (git / "config").read_text() == before
    assert not (git / "hooks" / "pre-commit").exists()
    assert all(each.errno is None for each in uncaged(program(PLANT, FILES=files)).attempts.values())


def test_a_record_of_trust_that_others_can_write_is_not_believed(call: Call, ground: Ground, home: Path) -> None:
    planted = ground.inside / ".pysandbox" / "ours.toml"
    planted.parent.mkdir()
    planted.write_text(steal(ground.secret))
    assert call("recipe", "trust", "--yes", str(planted)).returncode == 0
    record = places(home)["trust"]
    assert json.loads(record.read_text())["files"]
    os.chmod(record, 0o666)

    assert call("run", "-r", "ours", "--", "true").returncode == 125

    os.chmod(record, 0o600)  # CONTROL
    assert call("run", "-r", "ours", "--", "true").returncode == 0
