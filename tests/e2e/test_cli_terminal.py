"""`pysandbox run` at a terminal: a shell with job control inside, the user's terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 60.0  # seconds after which a test is stuck
PROMPT = "ready> "
SHELL = ["--env", f"PS1={PROMPT}", "--", "bash", "--norc", "--noprofile", "-i"]
SLEEPER = "sh -c 'echo be\"\"gun; exec sleep 1000'\n"  # the line as typed does not hold the word that tells it runs


class Terminal:
    """A user: types, looks at the screen, and is patient up to LIMIT."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.master, (33, 77))
        self.screen = ""
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(
        self, directory: Path, *arguments: str, program: tuple[str, ...] = (sys.executable, "-m", "pysandbox")
    ) -> subprocess.Popen[bytes]:
        command = [*program, "run", *arguments]
        environment = os.environ | {"TERM": "xterm"}
        started = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True,
        )  # fmt: skip
        self.processes.append(started)
        return started

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> str:
        """What appears up to the pattern's first match; it is taken off the screen."""
        deadline = time.monotonic() + LIMIT
        while not (found := re.search(pattern, self.screen)):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} on the screen: {self.screen!r}"
            self.screen += os.read(self.master, 65536).decode(errors="replace").replace("\r", "")
        shown, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return shown

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self.slave)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(LIMIT)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_a_command_at_a_terminal_has_one_of_its_own_of_the_same_size(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(tmp_path, "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM")
    assert terminal.until("xterm\n").split() == ["33", "77", "xterm"]
    assert process.wait(LIMIT) == 0


def test_no_pty_hands_over_the_terminal_itself(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(tmp_path, "--no-pty", "--", "sh", "-c", "echo plain")
    assert terminal.until("\n") == "plain\n"
    assert process.wait(LIMIT) == 0


def test_the_command_does_not_hold_the_users_terminal(terminal: Terminal, tmp_path: Path) -> None:
    code = "import os; print('device', os.fstat(0).st_rdev, os.fstat(0).st_dev)"
    process = terminal.run(tmp_path, "--", "/usr/bin/python3", "-c", code)
    device = terminal.until("device .*\n").split()[1:]
    mine = os.fstat(terminal.slave)
    assert device != [str(mine.st_rdev), str(mine.st_dev)]
    assert process.wait(LIMIT) == 0


def test_a_shell_has_job_control(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(tmp_path, *SHELL)
    greeting = terminal.until(PROMPT)
    assert "job control" not in greeting
    terminal.type(SLEEPER)
    terminal.until("begun\n")
    terminal.type("\x1a")
    terminal.until("Stopped")
    terminal.until(PROMPT)
    terminal.type("jobs\n")
    assert "sleep 1000" in terminal.until(r"(?s)jobs\n.*Stopped.*\n")
    terminal.until(PROMPT)
    terminal.type("exit 7\n")  # right after `jobs`, bash goes without asking; the stopped job goes with the cage
    assert process.wait(LIMIT) == 7


def test_control_c_interrupts_the_command_inside_and_not_the_shell(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(tmp_path, *SHELL)
    terminal.until(PROMPT)
    terminal.type(SLEEPER)
    terminal.until("begun\n")
    terminal.type("\x03")
    terminal.until(PROMPT)
    terminal.type("exit $?\n")
    assert process.wait(LIMIT) == 128 + signal.SIGINT


def test_a_new_size_of_the_window_reaches_the_command(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(
        tmp_path, "--", "bash", "-c", "trap 'stty size; exit' WINCH; echo set; while :; do sleep 0.05; done"
    )
    terminal.until("set\n")
    termios.tcsetwinsize(terminal.master, (44, 55))
    process.send_signal(signal.SIGWINCH)
    assert terminal.until(r"\d+ \d+\n") == "44 55\n"
    assert process.wait(LIMIT) == 0


def test_the_terminal_is_put_back_after_the_command(terminal: Terminal, tmp_path: Path) -> None:
    before = terminal.attributes()
    process = terminal.run(tmp_path, "--", "sh", "-c", "echo here; read line")
    terminal.until("here\n")
    assert terminal.attributes() != before
    terminal.type("done\n")
    assert process.wait(LIMIT) == 0
    assert terminal.attributes() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_put_back_after_a_signal_to_us(terminal: Terminal, tmp_path: Path, number: int) -> None:
    before = terminal.attributes()
    process = terminal.run(tmp_path, "--", "sh", "-c", "echo here; exec sleep 1000")
    terminal.until("here\n")
    process.send_signal(number)
    assert process.wait(LIMIT) == 128 + number
    assert terminal.attributes() == before


def test_the_terminal_is_put_back_when_nothing_could_run(terminal: Terminal, tmp_path: Path) -> None:
    before = terminal.attributes()
    process = terminal.run(tmp_path, "--", "no-such-program-anywhere")
    assert "was not found in the cage" in terminal.until("\n")
    assert process.wait(LIMIT) == 127
    assert terminal.attributes() == before


def test_all_that_a_command_wrote_is_shown_before_we_end(terminal: Terminal, tmp_path: Path) -> None:
    process = terminal.run(tmp_path, "--", "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done")
    assert "line 1000\n" in terminal.until("line 1999\n")
    assert process.wait(LIMIT) == 0


LAUNCHER = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
TELLS = "import os; open(os.environ['PSB_TOLD'], 'a').write('x')"


def test_a_terminal_is_the_same_the_second_time_when_the_plan_is_there_already(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    script = "echo up; read go; stty size; echo $TERM; cat; trap 'echo caught' INT; echo ready; read line; exit 3"
    before = terminal.attributes()
    (tmp_path / "sitecustomize.py").write_text(TELLS)  # the first thing that an interpreter imports
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PSB_TOLD", str(tmp_path / "told"))
    for _ in range(2):
        process = terminal.run(project, "--", "sh", "-c", script, program=(LAUNCHER,))
        terminal.until("up\n")
        terminal.type("go\n")
        assert terminal.until("xterm\n").split()[-3:] == ["33", "77", "xterm"]
        terminal.type("typed\n")
        terminal.until("typed\ntyped\n")
        terminal.type("\x04")
        terminal.until("ready\n")
        terminal.type("\x03")
        terminal.until("caught\n")
        terminal.type("\n")
        assert process.wait(LIMIT) == 3
        assert terminal.attributes() == before
    assert (tmp_path / "told").read_text() == "x"  # one Python was started in all
