"""`on_exit = "ask"`: at a terminal somebody is asked what becomes of what was written; elsewhere it is kept."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.workspace.workspace import Workspace

from .terminal import CTRL_D, Terminal

ASKED = "[k,c,d,s] "


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYSANDBOX_AUDIT", "off")
    made = tmp_path / "project"
    made.mkdir()
    (made / "notes").write_text("one\n")
    monkeypatch.chdir(made)
    time.sleep(0.02)
    return made


@contextmanager
def at_a_terminal(script: str, *flags: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    master, slave = pty.openpty()
    command = ["pysandbox", "run", "--workdir", "cow", *flags, "--", "sh", "-c", script]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True) as process:
        os.close(slave)
        try:
            yield Terminal(master), process
        finally:
            process.kill()
            os.close(master)


@pytest.mark.parametrize(("answer", "told", "after", "kept"), [
    ("c\n", "written: 1", "one\ntwo\n", 0), ("d\n", "forgotten", "one\n", 0), ("keep\n", "kept as", "one\n", 1),
    (CTRL_D, "kept as", "one\n", 1),
])  # fmt: skip
def test_the_answer_is_done(project: Path, answer: str, told: str, after: str, kept: int) -> None:
    with at_a_terminal("echo two >> notes", "--on-exit", "ask") as (terminal, process):
        assert "1 change: 1 modified" in terminal.expect(ASKED)
        terminal.send("what\n")
        terminal.expect(ASKED)
        terminal.send("s\n")
        assert "+two" in terminal.expect(ASKED)
        assert (project / "notes").read_text() == "one\n", "CONTROL: nothing is written before"
        terminal.send(answer)
        terminal.expect(told)
        assert process.wait(30) == 0
    assert (project / "notes").read_text() == after and len(Workspace.kept()) == kept


def test_what_was_changed_meanwhile_is_told_and_asked_again(project: Path) -> None:
    with at_a_terminal("echo two >> notes", "--on-exit", "ask") as (terminal, process):
        terminal.expect(ASKED)
        (project / "notes").write_text("mine\n")
        terminal.send("c\n")
        assert "changed meanwhile" in terminal.expect(ASKED)
        terminal.send("k\n")
        terminal.expect("kept as")
        assert process.wait(30) == 0
    assert (project / "notes").read_text() == "mine\n" and len(Workspace.kept()) == 1


def test_it_is_asked_after_the_end_that_it_is_for(project: Path) -> None:
    with at_a_terminal("echo two >> notes; exit 3", "--on-exit", "ask", "--on-error", "abort") as (terminal, process):
        assert ASKED not in terminal.expect("forgotten, as the policy asks")
        assert process.wait(30) == 3
    with at_a_terminal("echo two >> notes; exit 3", "--on-error", "ask") as (terminal, process):
        terminal.expect(ASKED)
        process.send_signal(signal.SIGINT)
        terminal.expect("kept as")
        assert process.wait(30) == 3
    with at_a_terminal("true", "--on-exit", "ask") as (terminal, process):
        assert ASKED not in terminal.expect("nothing was changed")
        assert process.wait(30) == 0


def test_without_a_terminal_it_is_kept_and_said(project: Path) -> None:
    command = ["pysandbox", "run", "--workdir", "cow", "--on-exit", "ask", "--", "sh", "-c", "echo two >> notes"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, input="c\n")
    assert ended.returncode == 0 and "nobody could be asked" in ended.stderr and "kept as" in ended.stderr
    cage = Cage(Policy(workdir="cow", on_exit="ask"))
    with pytest.warns(UserWarning, match="nobody could be asked"):
        cage.run(["sh", "-c", "echo two >> notes"])
    assert cage.workspace.outcome is not None and cage.workspace.outcome.action == "kept"
    assert len(Workspace.kept()) == 2 and (project / "notes").read_text() == "one\n"
