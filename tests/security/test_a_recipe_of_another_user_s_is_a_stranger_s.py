"""Claim: a recipe that lies where the user's own are looked for, and that another user owns, or put there, grants
nothing until it was looked at: root may have been given the HOME of somebody else (sudo -E), and XDG_CONFIG_HOME may
lead to a place of anybody's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

OTHER = 12345
SYSTEM = "".join(f'  {{ path = "{path}", optional = true }},\n' for path in ("/usr", "/bin", "/lib", "/lib64"))
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of root's, with nothing in it."""
    tmp_path.chmod(0o755)
    recipes = tmp_path / "home/.config/pysandbox/recipes"
    recipes.mkdir(parents=True)
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "work").mkdir()
    return tmp_path / "home"


@pytest.fixture
def run(home: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=home.parent / "work", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )  # fmt: skip

    return run


def write(path: Path, secret: Path) -> None:
    path.write_text(f'[filesystem]\nallow = [\n{SYSTEM}  "{secret}",\n]\n')


def by_owner_of_the_file(recipes: Path, name: str) -> None:
    write(recipes / name, recipes.parents[3] / "secret")
    os.chown(recipes / name, OTHER, OTHER)


def by_owner_of_the_directory(recipes: Path, name: str) -> None:
    """A file of root's that was moved there."""
    write(recipes / name, recipes.parents[3] / "secret")
    os.chown(recipes, OTHER, OTHER)


def by_a_link(recipes: Path, name: str) -> None:
    """To a file of root's, which was meant for something else."""
    write(recipes.parents[3] / "wide.toml", recipes.parents[3] / "secret")
    (recipes / name).symlink_to(recipes.parents[3] / "wide.toml")
    os.chown(recipes / name, OTHER, OTHER, follow_symlinks=False)


WAYS = (by_owner_of_the_file, by_owner_of_the_directory, by_a_link)


@pytest.mark.parametrize(("name", "flags"), [("base.toml", ()), ("mine.toml", ("-r", "mine"))])
@pytest.mark.parametrize("plant", WAYS, ids=lambda each: each.__name__)
def test_it_grants_nothing(plant: Callable[[Path, str], None], name: str, flags: tuple[str, ...], home: Path,
                           run: Run) -> None:  # fmt: skip
    recipes = home / ".config/pysandbox/recipes"
    asked = ("run", *flags, "--", "cat", str(home.parent / "secret"))
    write(recipes / name, home.parent / "secret")
    assert run(*asked).stdout == "mine", "the control: the user's own does"
    (recipes / name).unlink()

    plant(recipes, name)
    done = run(*asked)

    assert (done.returncode, done.stdout) == (125, "")
    assert f"{recipes / name}: belongs to another user, and you have not trusted it" in done.stderr
    assert run("recipe", "trust", "--yes", str(recipes / name)).returncode == 0
    assert run(*asked).stdout == "mine", "what was looked at counts"
