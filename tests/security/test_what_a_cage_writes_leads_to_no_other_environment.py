"""Claim: an environment of Python that a cage has written does not choose what the next run sees.

A cage may write the project, and with it `.venv`, its pyvenv.cfg, its links and scripts with a `#!`. The next run, of
just these, is led by them to an installation of Python at most: never to another environment, to keys, to a directory
that another cage could make look like an installation, and never to more than the tree itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pysandbox
from _support.pythons import VERSION, environment, install, script
from pysandbox import PolicyError

from .conftest import Ground
from .harness import program

Plant = Callable[[str], None]
REFUSED = 125

LOOK = "import os; print([os.path.exists(path) for path in {paths!r}])"


class Home:
    """A user with keys, another project with an environment of its own, and the project that cages write."""

    def __init__(self, ground: Ground, root: Path) -> None:
        self.root, self.project = root, ground.inside
        self.key, self.other = root / ".ssh" / "id_rsa", root / "other"
        self.key.parent.mkdir(parents=True)
        self.key.write_text("KEY")
        self.env = environment(self.other / ".venv")
        (self.env / "lib" / VERSION / "site-packages" / "secret.py").write_text("SECRET")
        self.installed = install(root / "pythons" / "3")
        (self.installed / "envs.toml").write_text("TOKEN")  # beside the tree
        environment(self.project / ".venv", self.installed)

    def plant(self, text: str) -> None:
        """In a cage that may write the project, as any cage of a command line may."""
        rules = pysandbox.Policy(allow_write=(pysandbox.Grant(str(self.project)),), run_as="self")
        names = {"PROJECT": str(self.project), "OTHER": str(self.env), "KEYS": str(self.key.parent)}
        done = pysandbox.run(program(f"os.chdir(PROJECT)\n{text}\nsay('planted')\n", **names), policy=rules, timeout=60)
        assert done.exit_code == 0, done

    def run(self, *command: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self._call("run", *flags, "--", *command)

    def told(self) -> subprocess.CompletedProcess[str]:
        return self._call("explain", "--", "python")

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        active = {"VIRTUAL_ENV": f"{self.project}/.venv", "PATH": f"{self.project}/.venv/bin:/usr/bin:/bin"}
        return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], cwd=self.project,
                              env={**os.environ, **active, "HOME": str(self.root), "PYSANDBOX_AUDIT": "off"},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)  # fmt: skip

    def seen(self, *command: str, flags: tuple[str, ...] = ()) -> list[bool]:
        """Whether the command sees the keys, the other environment, what lies beside the installation."""
        secret = self.env / "lib" / VERSION / "site-packages" / "secret.py"
        look = LOOK.format(paths=[str(self.key), str(secret), str(self.installed / "envs.toml"), str(self.installed)])
        done = self.run(*command, "-c", look, flags=flags)
        assert done.returncode == 0, done.stderr
        return [word == "True" for word in done.stdout.strip(" []\n").split(", ")]


@pytest.fixture
def home(ground: Ground, tmp_path: Path) -> Home:
    return Home(ground, tmp_path / "home")


def test_control_what_is_as_it_was_made_runs(home: Home) -> None:
    for name in ("python", "python3", "./.venv/bin/python"):
        assert home.seen(name) == [False, False, False, True]
    assert home.run("tool").returncode == 0


WAYS = {
    "a link to the other environment": 'os.rename(".venv", "old"); os.symlink(OTHER, ".venv")',
    "a link to a program of it": 'os.remove(".venv/bin/tool"); os.symlink(f"{OTHER}/bin/tool", ".venv/bin/tool")',
    "a script for it": 'open(".venv/bin/tool", "w").write(f"#!{OTHER}/bin/python\\n")',
    "a script for it by env": 'open(".venv/bin/tool", "w").write(f"#!/usr/bin/env -S {OTHER}/bin/python\\n")',
    "a script with a far interpreter": (
        """open(".venv/bin/tool", "w").write(f"#!/bin/sh\\n'''exec' '{OTHER}/bin/python' x\\n")"""
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_it_does_not_lead_to_another_environment(home: Home, way: str) -> None:
    home.plant(WAYS[way])
    done = home.run("tool")
    assert done.returncode == REFUSED and f"--allow {home.env}" in done.stderr, done
    # CONTROL: whoever means it says so.
    assert home.run("tool", flags=("--allow", str(home.env))).returncode in (0, 1, 2)


@pytest.mark.parametrize("way", WAYS)
def test_nor_does_it_in_a_program(home: Home, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home.plant(WAYS[way])
    monkeypatch.setenv("HOME", str(home.root))  # the working directory is another: what this program's cages wrote
    with pytest.raises(PolicyError, match="a cage may have written"):
        pysandbox.run([home.project / ".venv" / "bin" / "tool"])


@pytest.mark.parametrize("place", ["KEYS", 'KEYS + "/bin"', "OTHER", 'os.path.dirname(KEYS) + "/bin"'])
def test_its_configuration_does_not_lead_to_what_is_no_installation(home: Home, place: str) -> None:
    home.plant(f'open(".venv/pyvenv.cfg", "w").write("home = " + {place} + "\\n")')
    done = home.run("python", "-c", "1")
    assert done.returncode == REFUSED and "where none is installed" in done.stderr, done
    assert "--allow" not in done.stderr or str(home.key.parent) not in done.stderr


def test_a_configuration_that_cannot_be_read_holds_up_nobody(home: Home) -> None:
    home.plant('os.remove(".venv/pyvenv.cfg"); os.mkfifo(".venv/pyvenv.cfg")')
    assert home.told().returncode == 0  # what the command itself does with it is its own affair
    home.plant('os.remove(".venv/pyvenv.cfg"); open(".venv/pyvenv.cfg", "w").truncate(1 << 30)')
    assert home.told().returncode == 0


def test_an_interpreter_that_is_somebody_s_file_is_not_shown(home: Home) -> None:
    mine = home.root / "mine" / "python3"
    script(mine, "/bin/sh", "echo TOKEN")
    home.plant(f'open("tool", "w").write("#!{mine}\\n"); os.chmod("tool", 0o755)')
    done = home.run("./tool")
    assert done.returncode == 127 and "TOKEN" not in done.stdout


def test_no_directory_is_an_installation_by_what_a_cage_wrote_there(home: Home) -> None:
    """Two grants of writing, and what lies beside them."""
    place = home.root / "work"
    for name in ("lib", "bin"):
        (place / name).mkdir(parents=True)
    (place / "secret").write_text("SECRET")
    (place / "lib" / VERSION).mkdir()
    (place / "lib" / VERSION / "os.py").touch()
    os.symlink("/usr/bin/python3", place / "bin" / "python3")
    flags = ("--allow-write", str(place / "lib"), "--allow-write", str(place / "bin"))
    home.plant(f'open(".venv/pyvenv.cfg", "w").write("home = {place}/bin\\n")')
    assert home.run("python", "-c", "1", flags=flags).returncode == REFUSED


def test_a_name_of_the_system_s_is_not_taken_by_what_a_cage_left(home: Home) -> None:
    home.plant('open(".venv/bin/git", "w").write("#!/bin/sh\\necho PLANTED\\n"); os.chmod(".venv/bin/git", 0o755)')
    assert "PLANTED" not in home.run("git", "--version").stdout
    assert "PLANTED" not in home.run("sh", "-c", "git --version").stdout


def test_a_stranger_s_manifest_does_not_name_an_environment(home: Home) -> None:
    (home.project / "pysandbox.toml").write_text(
        f'[sandbox.a]\nrecipes = ["python"]\ncommand = "{home.env}/bin/python -c 1"\n'
    )
    done = subprocess.run([sys.executable, "-m", "pysandbox", "up", "--trust"], cwd=home.project,
                          env={**os.environ, "HOME": str(home.root), "PYSANDBOX_AUDIT": "off"},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == REFUSED and str(home.env) in done.stderr
