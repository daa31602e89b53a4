"""Claim: nothing of a project's manifest is run, granted or chosen until its user has looked at exactly that.

The manifest itself, the recipes that it names by their path (wherever that leads, by whatever spelling), those that it
finds in the project, and which of the user's own it chooses. What a stranger's repository brings and what an earlier
cage planted are the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ground

Call = Callable[..., "subprocess.CompletedProcess[str]"]
MANIFEST = """
[sandbox.test]
recipes = [{recipe}]
command = ["/bin/cat", "{secret}"]
"""


@pytest.fixture
def call(ground: Ground, home: Path) -> Call:
    def call(*arguments: str, cwd: Path = ground.inside) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=cwd, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    return call


def manifest(ground: Ground, recipe: str, more: str = "") -> Path:
    path = ground.inside / "pysandbox.toml"
    path.write_text(MANIFEST.format(recipe=recipe, secret=ground.secret) + more)
    return path


def grants(ground: Ground) -> str:
    return f'[filesystem]\nallow = ["{ground.secret}"]\n'


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def by_spelling(ground: Ground, home: Path, spelling: str) -> tuple[str, Path]:
    """What the manifest says, and the file that it leads to."""
    inside, outside = ground.inside, ground.inside.parent / "elsewhere"
    outside.mkdir(exist_ok=True)
    text = grants(ground)
    if spelling == "relative":
        return '"./evil.toml"', put(inside / "evil.toml", text)
    if spelling == "bare":
        return '"evil.toml"', put(inside / "evil.toml", text)
    if spelling == "absolute":
        return f'"{inside}/evil.toml"', put(inside / "evil.toml", text)
    if spelling == "above":
        return '"../elsewhere/evil.toml"', put(outside / "evil.toml", text)
    if spelling == "detour":
        (inside / ".pysandbox").mkdir()
        return '"./.pysandbox/../evil.toml"', put(inside / "evil.toml", text)
    if spelling == "tilde":
        return '"~/evil.toml"', put(inside / "~" / "evil.toml", text)
    if spelling == "link":
        os.symlink(put(outside / "evil.toml", text), inside / "link.toml")
        return '"./link.toml"', inside / "link.toml"
    if spelling == "linked directory":
        put(outside / "evil.toml", text)
        os.symlink(outside, inside / "below")
        return '"below/evil.toml"', outside / "evil.toml"
    if spelling == "no suffix":
        return '"./evil"', put(inside / "evil", text)
    if spelling == "escaped":
        return '"\\u002e/evil.toml"', put(inside / "evil.toml", text)
    if spelling == "project":
        return '"ours"', put(inside / ".pysandbox" / "ours.toml", text)
    if spelling == "the user's own by its path":
        own = put(home / ".config" / "pysandbox" / "recipes" / "mine.toml", text)
        return f'"{own}"', own
    assert spelling == "the user's own by its name"
    return '"mine"', put(home / ".config" / "pysandbox" / "recipes" / "mine.toml", text)


SPELLINGS = (
    "relative", "bare", "absolute", "above", "detour", "tilde", "link", "linked directory", "no suffix", "escaped",
    "project", "the user's own by its path", "the user's own by its name",
)  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_recipe_counts_only_when_it_was_looked_at(call: Call, ground: Ground, home: Path, spelling: str) -> None:
    recipe, file = by_spelling(ground, home, spelling)
    path = manifest(ground, recipe)

    refused = call("up")

    assert (refused.returncode, refused.stdout) == (125, "")
    assert ground.word not in refused.stderr
    assert f"pysandbox recipe trust {path}" in refused.stderr
    assert "filesystem.allow" in refused.stderr  # what it would grant
    # CONTROL: it would have worked, and works once it was looked at.
    assert call("up", "--trust").stdout == ground.word
    shown = call("recipe", "trust", "--yes", str(path))
    assert "/bin/cat" in shown.stdout and str(ground.secret) in shown.stdout
    assert call("up").stdout == ground.word

    if spelling == "the user's own by its name":
        return  # his own edits are his own
    file.write_text(grants(ground) + "# changed\n")
    again = call("up")
    assert (again.returncode, again.stdout) == (125, "")
    assert "has changed since you trusted it" in again.stderr


@pytest.mark.parametrize("name", ["base", "python", "default"])
def test_a_recipe_of_the_project_that_comes_later_asks_again(call: Call, ground: Ground, home: Path, name: str) -> None:
    path = manifest(ground, '"python"', f'[sandbox.test.filesystem]\nallow = ["{ground.secret}"]\n')
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    assert call("up").stdout == ground.word  # CONTROL
    text = call("recipe", "show", "--baseline").stdout if name == "default" else grants(ground)
    planted = put(ground.inside / ".pysandbox" / f"{name}.toml", text)

    done = call("up")

    assert (done.returncode, done.stdout) == (125, "")
    assert str(planted) in done.stderr


def test_the_command_alone_is_looked_at_too(call: Call, ground: Ground) -> None:
    marker = ground.inside / "marker"
    path = put(
        ground.inside / "pysandbox.toml", f'[sandbox.a]\nrecipes = ["untrusted"]\ncommand = ["touch", "{marker}"]\n'
    )
    assert call("up").returncode == 125
    assert not marker.exists()
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    assert call("up").returncode in (0, 1)  # CONTROL: it ran; `untrusted` may not let it write


def test_a_shipped_recipe_passes_no_secret_of_the_environment(
    call: Call, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_TOKEN", ground.word)
    path = put(ground.inside / "pysandbox.toml", '[sandbox.a]\nrecipes = ["node-build"]\ncommand = "env"\n')

    refused = call("up")

    assert refused.returncode == 125 and ground.word not in refused.stdout + refused.stderr
    assert "NPM_TOKEN" in refused.stderr  # told what would be passed
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    assert ground.word in call("up").stdout  # CONTROL


def test_the_same_bytes_elsewhere_are_another_manifest(call: Call, ground: Ground, home: Path) -> None:
    path = put(ground.inside / "pysandbox.toml", '[sandbox.a]\nrecipes = ["python"]\ncommand = "sh ./go"\n')
    (ground.inside / "go").write_text("echo mine\n")
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    assert call("up").stdout == "mine\n"  # CONTROL
    clone = ground.inside.parent / "clone"
    clone.mkdir()
    (clone / "go").write_text(f"echo {ground.word}\n")
    os.symlink(path, clone / "pysandbox.toml")

    done = call("up", cwd=clone)

    assert (done.returncode, done.stdout) == (125, "")
    (clone / "pysandbox.toml").unlink()
    (clone / "pysandbox.toml").write_text(path.read_text())
    assert call("up", cwd=clone).returncode == 125


def test_one_that_is_planted_nearer_is_not_the_one_that_was_trusted(call: Call, ground: Ground) -> None:
    path = manifest(ground, '"untrusted"')
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    below = ground.inside / "below"
    below.mkdir()
    assert call("up", cwd=below).returncode != 125  # CONTROL: the trusted one, from below
    planted = put(below / "pysandbox.toml", f'[sandbox.a]\nrecipes = ["untrusted"]\ncommand = "echo {ground.word}"\n')

    done = call("up", cwd=below)

    assert (done.returncode, done.stdout) == (125, "")
    assert str(planted) in done.stderr


def test_what_a_cage_plants_is_not_run(call: Call, ground: Ground) -> None:
    words = f'[sandbox.a]\\nrecipes = ["untrusted"]\\ncommand = "echo {ground.word}"\\n'
    assert call("run", "--", "sh", "-c", f"printf '{words}' > pysandbox.toml").returncode == 0
    if not (ground.inside / "pysandbox.toml").exists():
        return  # the cage could not even plant it
    done = call("up")
    assert (done.returncode, done.stdout) == (125, "")


def test_a_narrower_run_of_it_needs_the_same_look(call: Call, ground: Ground) -> None:
    """No flag of the user's makes a manifest harmless, so none takes the place of trust."""
    manifest(ground, '"python"')
    for flags in (["--strict"], ["--monitor"], ["--json"], ["--no-sandbox"], ["--no-audit"]):
        done = call("up", *flags)
        assert done.returncode == 125
        assert "trust" in done.stderr
