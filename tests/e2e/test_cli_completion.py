"""The completions, asked by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox.cli.main import COMMANDS

LIMIT = 60.0  # seconds after which a test is stuck

# A line as typed, a word that must be offered, and one that must not.
OFFERS = [
    ("pysandbox ", "check", "--json"),
    ("pysandbox comp", "completion", "check"),
    ("pysandbox completion ", "fish", "check"),
    ("pysandbox help ", "run", "help"),
    ("pysandbox run --mem", "--memory-mb", "--max-pids"),
    ("pysandbox run --workdir ", "none", "run"),
    ("pysandbox run --egress n", "none", "direct"),
    ("pysandbox run --allow gra", "granted", "other"),
    ("pysandbox run -r ./po", "./policy.toml", "./granted"),
    ("pysandbox up --dry", "--dry-run", "--strict"),
    ("pysandbox run --strict -- pysandbox-probe", "pysandbox-probe-1", "--strict"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "granted").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "policy.toml").touch()
    (tmp_path / "bin").mkdir()
    for name in ("pysandbox-probe-1", "pysandbox-probe-2", "pysandbox"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / shell).write_text(script(shell))
    return tmp_path


def script(shell: str) -> str:
    command = [sys.executable, "-m", "pysandbox", "completion", shell]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT).stdout


def environment(place: Path) -> dict[str, str]:
    return {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8", "TERM": "dumb"}


def answer(place: Path, *command: str) -> list[str]:
    done = subprocess.run(
        command, cwd=place, env=environment(place), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def needs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}: apt-get install {shell}")


@pytest.mark.parametrize(("line", "offered", "not_offered"), OFFERS)
def test_bash_offers(place: Path, line: str, offered: str, not_offered: str) -> None:
    code = 'source ./bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pysandbox; printf "%s\\n" "${COMPREPLY[@]}"'
    words = line.split(" ")
    found = answer(place, "bash", "-c", code, "bash", *words)
    assert offered in found
    assert not_offered not in found


@pytest.mark.parametrize(("line", "offered", "not_offered"), OFFERS)
def test_fish_offers(place: Path, line: str, offered: str, not_offered: str) -> None:
    needs("fish")
    found = answer(place, "fish", "--no-config", "-c", "source ./fish; complete -C $argv[1]", line)
    words = [each.split("\t")[0].rstrip("/") for each in found]
    assert offered in words
    assert not_offered not in words


# zsh completes only in its line editor: what the function would hand to it is printed instead.
ZSH = r"""
compdef() { :; }
_describe() { local name=${@[-1]}; print -rl -- ${${(P)name}%%:*}; }
_files() { print -rl -- *; }
_command_names() { print -rl -- ${(k)commands}; }
compadd() { shift; print -rl -- $@; }
source ./zsh
words=("$@") CURRENT=$#
_pysandbox
"""


@pytest.mark.parametrize(("line", "offered", "not_offered"), OFFERS)
def test_zsh_offers(place: Path, line: str, offered: str, not_offered: str) -> None:
    needs("zsh")
    words = line.split(" ")
    begun = words[-1].removeprefix("./")
    found = [each for each in answer(place, "zsh", "-f", "-c", ZSH, "zsh", *words) if each.startswith(begun)]
    assert offered.removeprefix("./") in found
    assert not_offered.removeprefix("./") not in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_every_script(shell: str) -> None:
    text = script(shell)
    assert all(name in text for name in COMMANDS)
