"""What is typed in the first hour and is not quite right: one line that names what to type, and nothing runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LIMIT = 60  # seconds after which a test is stuck
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    project = tmp_path / "project"
    (project / "folder").mkdir(parents=True)
    (project / "notes.txt").touch()

    def called(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")} | variables
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=project, env=environment, capture_output=True,
            text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return called


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ls -la"], 127, "as a line of a shell: sh -c 'ls -la'"),
        (["--", "cd /tmp && ls"], 127, "sh -c 'cd /tmp && ls'"),
        (["--", "cd", "/tmp"], 127, "a word of the shell: sh -c 'cd ...'"),
        (["-w", "/no/such", "--", "true"], 125, "no such directory: make it, or begin in another one (cwd=, or -w)"),
        (["-w", "/var/log", "--", "true"], 125, "grant it, or begin in another one (cwd=, or -w)"),
        (["--", "sourc"], 127, "check the name"),
        (["--", "folder"], 127, "check the name"),
        (["--", "./folder"], 126, "is a directory"),
        (["--", "."], 126, "is a directory"),
        (["--timeout", "5m", "--", "true"], 125, "write 300"),
        (["--timeout", "0", "--", "true"], 125, "more than 0"),
        (["--memory-mb", "512m", "--", "true"], 125, "write 512 (MiB)"),
        (["--memory-mb", "2GiB", "--", "true"], 125, "write 2048 (MiB)"),
        (["--max-pids", "5k", "--", "true"], 125, "'5k' is not a whole number"),
        (["--host", "https://user:pw@pypi.org/x", "--", "true"], 125, "write pypi.org"),
        (["--memory-mb", "much", "--", "true"], 125, "'much' is not a whole number; see"),
        (["--host", "https://pypi.org/simple", "--", "true"], 125, "write pypi.org)"),
        (["--host", "pypi.org:https", "--", "true"], 125, "write example.com or example.com:443"),
        (["--allow", "*.txt", "--", "true"], 125, "and of no pattern"),
        (["--allow", "absent.txt", "--", "true"], 125, "create it"),
    ],
)
def test_a_slip_is_answered_with_what_to_type(call: Call, arguments: list[str], code: int, words: str) -> None:
    done = call("run", *arguments)
    assert (done.returncode, done.stdout) == (code, "") and words in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_trail_that_cannot_be_written_names_the_variable_that_chooses(call: Call) -> None:
    done = call("run", "--", "true", XDG_STATE_HOME="/proc/nowhere")
    assert done.returncode == 0 and "PYSANDBOX_AUDIT=off" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["recipe", "list"], ["recipe", "show"], ["run", "--json", "--", "true"],
                  ["run", "--json", "--", "seq", "200000"], ["--help"]],
)  # fmt: skip
def test_output_that_cannot_be_written_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "pysandbox", *arguments], stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 1 and "No space left on device" in done.stderr


def test_a_file_that_is_named_from_here_where_the_command_does_not_begin(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    script = tmp_path / "project" / "server.py"
    script.write_text("print('served')\n")
    environment = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def run(*arguments: str) -> tuple[int, list[str]]:
        done = subprocess.run(["pysandbox", "run", "--workdir", "none", "--allow", "server.py", "--", *arguments],
                              cwd=script.parent, env=environment, capture_output=True, text=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL)  # fmt: skip
        return done.returncode, [line for line in done.stderr.splitlines() if line.startswith("pysandbox:")]

    for _ in range(3):  # from the second time on from a kept plan, where there is one
        code, lines = run("/usr/bin/python3", "server.py")
        assert code == 2 and len(lines) == 1 and lines[0].endswith(f"name it from the root on: {script}"), lines
        assert run("/usr/bin/python3", str(script)) == (0, [])
        assert run("/usr/bin/python3", "-c", "raise SystemExit(3)", "other.py") == (3, [])
