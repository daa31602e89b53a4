"""Claim: whatever is put where a policy file is looked for, no command of the host hangs, and each says which file.

A cage may leave anything in its working directory that an unprivileged process can make: a FIFO, a socket, a link to a
device or to itself, a directory, an unreadable file, a huge one, a very long key, a hundred thousand recipes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Ground

MOST = 20  # seconds; an answer takes less than one, a hang all of it


def fifo(path: Path) -> None:
    os.mkfifo(path)


def sock(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def unreadable(path: Path) -> None:
    path.write_text("")
    path.chmod(0)


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def deep_key(path: Path) -> None:
    path.write_text("a." * 400_000 + "a = 1\n")


def deep_quoted_key(path: Path) -> None:
    path.write_text('"a" . ' * 150_000 + "a = 1\n")


def deep_table(path: Path) -> None:
    path.write_text("[" + "a." * 400_000 + "a]\n")


PLANTS: dict[str, Callable[[Path], None]] = {
    "fifo": fifo,
    "socket": sock,
    "link to a fifo": lambda path: (os.mkfifo(path.parent / "pipe"), os.symlink("pipe", path))[1],
    "link to /dev/zero": lambda path: os.symlink("/dev/zero", path),
    "link to a terminal": lambda path: os.symlink("/dev/ptmx", path),
    "link to itself": lambda path: os.symlink(path.name, path),
    "dangling link": lambda path: os.symlink("nowhere", path),
    "directory": lambda path: path.mkdir(),
    "unreadable": unreadable,
    "sparse terabyte": sparse,
    "deep key": deep_key,
    "deep quoted key": deep_quoted_key,
    "deep table": deep_table,
    "not text": lambda path: path.write_bytes(b"\xff\xfe\0"),
    "nested brackets": lambda path: path.write_text("a = " + "[" * 100_000),
    "byte order mark alone": lambda path: path.write_text("a = 1\n\ufeff[process]\n"),
}  # fmt: skip


def call(ground: Ground, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pysandbox", *arguments], cwd=ground.inside, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=MOST,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_run_says_which_file_it_is(ground: Ground, plant: str) -> None:
    (ground.inside / ".pysandbox").mkdir()
    base = ground.inside / ".pysandbox" / "base.toml"
    assert call(ground, "run", "--", "true").returncode == 0  # CONTROL
    PLANTS[plant](base)

    done = call(ground, "run", "--", "true")

    assert done.returncode == 125
    assert str(base) in done.stderr
    assert len(done.stderr) < 2000


@pytest.mark.parametrize("plant", PLANTS)
def test_the_list_of_recipes_shows_the_others(ground: Ground, plant: str) -> None:
    (ground.inside / ".pysandbox").mkdir()
    PLANTS[plant](ground.inside / ".pysandbox" / "broken.toml")
    PLANTS[plant](ground.inside / ".pysandbox" / "default.toml") if plant != "link to a fifo" else None

    done = call(ground, "recipe", "list")

    assert done.returncode == 0
    assert "node-build" in done.stdout
    assert f"{ground.inside}/.pysandbox/broken.toml" in done.stderr


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("arguments", [["up"], ["up", "--dry-run"], ["recipe", "trust", "--yes", "pysandbox.toml"]])
def test_a_manifest_is_read_the_same_way(ground: Ground, plant: str, arguments: list[str]) -> None:
    PLANTS[plant](ground.inside / "pysandbox.toml")
    done = call(ground, *arguments)
    assert done.returncode == 125
    assert "pysandbox.toml" in done.stderr


@pytest.mark.parametrize("arguments", [["run", "-r", "./x.toml", "--", "true"], ["recipe", "explain", "./x.toml"]])
def test_a_recipe_that_is_typed_is_read_the_same_way(ground: Ground, arguments: list[str]) -> None:
    fifo(ground.inside / "x.toml")
    done = call(ground, *arguments)
    assert done.returncode == 125
    assert "x.toml: is a FIFO, not a file" in done.stderr


def test_a_hundred_thousand_recipes_are_refused_at_once(ground: Ground) -> None:
    folder = ground.inside / ".pysandbox"
    folder.mkdir()
    for number in range(100_000):
        os.mknod(folder / f"{number}.toml", 0o644)
    (ground.inside / "tool").write_text("#!/bin/sh\nexit 0\n")
    (ground.inside / "tool").chmod(0o755)
    began = time.monotonic()

    done = call(ground, "run", "--", "./tool")  # its place calls for a look at every recipe

    assert done.returncode == 125
    assert f"{folder}: holds more than" in done.stderr
    assert time.monotonic() - began < MOST / 2
    listed = call(ground, "recipe", "list")
    assert listed.returncode == 0 and "node-build" in listed.stdout and str(folder) in listed.stderr
    assert call(ground, "run", "--", "true").returncode == 0  # nothing is looked for, so nothing is in the way


def test_a_few_large_recipes_are_no_flood(ground: Ground) -> None:
    folder = ground.inside / ".pysandbox"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.toml").write_text("# " + "x" * (1 << 19) + "\n")
    (ground.inside / "tool").write_text("#!/bin/sh\nexit 0\n")
    (ground.inside / "tool").chmod(0o755)
    done = call(ground, "run", "--", "./tool")
    assert done.returncode == 125
    assert "bytes together" in done.stderr


def test_a_directory_of_recipes_that_cannot_be_listed_is_said(ground: Ground) -> None:
    if os.geteuid() == 0:
        pytest.skip("root lists every directory")
    folder = ground.inside / ".pysandbox"
    folder.mkdir()
    (ground.inside / "tool").write_text("#!/bin/sh\nexit 0\n")
    (ground.inside / "tool").chmod(0o755)
    assert call(ground, "run", "--", "./tool").returncode == 0  # CONTROL
    folder.chmod(0)
    try:
        done = call(ground, "run", "--", "./tool")
        listed = call(ground, "recipe", "list")
    finally:
        folder.chmod(0o755)
    assert done.returncode == 125 and f"{folder}: cannot be listed" in done.stderr
    assert listed.returncode == 0 and "node-build" in listed.stdout
