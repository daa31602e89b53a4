"""Ctrl-Z at a terminal where the command is `pysandbox run`: a job of the user's shell as any other, by either way."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.hosts import comes_true

from .terminal import CTRL_C, CTRL_Z, Terminal

PROMPT = "desk> "
LAUNCHER = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
WAYS = {"launcher": LAUNCHER, "python": f"{sys.executable} -m pysandbox"}
TICKS = """run -- sh -c 'echo u""p; while :; do echo x >> ticks; sleep 0.01; done'\n"""

HOG = """
import ctypes, signal, struct, time
signal.signal(signal.SIGCONT, lambda *_: None)
libc, event, timer = ctypes.CDLL(None), ctypes.create_string_buffer(64), ctypes.c_void_p()
struct.pack_into("qii", event, 0, 0, signal.SIGCONT, 0)
assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
assert libc.timer_settime(timer, 0, ctypes.create_string_buffer(struct.pack("qqqq", 0, 10**8, 0, 10**8)), None) == 0
print("u" "p", flush=True)
def wait(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.05)
wait(1)
held = bytearray(300 << 20)
wait(3)
open("held", "w")
"""


class Desk:
    """An interactive shell of the user's, with the project as its directory. As typed, no line holds what it prints."""

    def __init__(self, project: Path, environment: dict[str, str]) -> None:
        self.project = project
        self.pid, fd = pty.fork()
        if self.pid == 0:
            os.chdir(project)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.screen = Terminal(fd)
        self.screen.expect(PROMPT)

    def type(self, text: str) -> None:
        self.screen.send(text)

    def until(self, text: str) -> str:
        return self.screen.expect(text)

    def ends_with(self, code: int) -> None:
        """The job is over, and that was its exit code."""
        self.until(PROMPT)
        self.type("echo code=$?\n")
        self.until(f"code={code}")

    def ticks(self) -> int:
        return (self.project / "ticks").stat().st_size

    def ticks_on(self) -> bool:
        before = self.ticks()
        deadline = time.monotonic() + 20
        while self.ticks() == before and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.ticks() > before

    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.screen.fd)[1] & termios.OPOST

    def close(self) -> None:
        os.close(self.screen.fd)  # hangs up: the shell and its jobs end
        os.waitpid(self.pid, 0)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "ticks").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    desk = Desk(project, environment | {"HOME": str(home), "PS1": PROMPT, "TERM": "xterm"})
    yield desk
    desk.close()


@pytest.fixture(params=WAYS)
def pysandbox(request: pytest.FixtureRequest, desk: Desk) -> str:
    """How the command line is started; a first run has kept the launcher's plan."""
    way = WAYS[request.param]
    desk.type(f"{way} run -- true; echo ke''pt\n")
    desk.until("kept")
    desk.until(PROMPT)
    return way


def test_a_command_stops_and_goes_on_with_the_job_that_it_is(desk: Desk, pysandbox: str) -> None:
    desk.type(f"{pysandbox} {TICKS}")
    desk.until("up")
    assert desk.ticks_on()
    assert desk.is_raw()
    desk.type(CTRL_Z)
    desk.until("Stopped")
    desk.until(PROMPT)
    assert not desk.is_raw()
    stood = desk.ticks()
    time.sleep(0.2)
    assert desk.ticks() == stood
    desk.type("fg\n")
    assert desk.ticks_on()
    desk.type(CTRL_C)
    desk.ends_with(128 + signal.SIGINT)


def test_a_job_goes_on_in_the_background_and_is_heard_in_front_again(desk: Desk, pysandbox: str) -> None:
    desk.type(f"{pysandbox} run -- sh -c 'echo u\"\"p; read line; echo got-$line; read line; echo then-$line'\n")
    desk.until("up")
    desk.type(CTRL_Z)
    desk.until("Stopped")
    desk.type("bg; echo be''hind\n")
    desk.until("behind")
    desk.type("fg\n")
    desk.until("fg")
    desk.type("one\n")
    desk.until("got-one")
    desk.type(CTRL_Z)
    desk.until("Stopped")
    desk.type("fg\n")
    desk.type("two\n")
    desk.until("then-two")
    desk.until(PROMPT)


def test_a_job_in_the_background_reads_nothing_of_what_the_shell_is_told(desk: Desk, pysandbox: str) -> None:
    desk.type(f"{pysandbox} {TICKS}")
    desk.until("up")
    desk.type(CTRL_Z)
    desk.until("Stopped")
    desk.type("bg\n")
    for _ in range(3):
        desk.type("echo al''so\n")
        desk.until("also")
        time.sleep(0.1)
    desk.type("jobs\n")
    assert "Stopped" not in desk.until("Running")
    desk.until(PROMPT)
    assert desk.ticks_on()
    desk.type("fg\n")
    assert comes_true(desk.is_raw)
    assert desk.ticks_on()
    desk.type(CTRL_C)
    desk.ends_with(128 + signal.SIGINT)


def test_who_holds_a_limit_is_not_stopped(desk: Desk, pysandbox: str) -> None:
    """Attack: a timer continues what was stopped, and uses memory that nobody counts. Control: without the key."""
    (desk.project / "hog.py").write_text(HOG)
    for keys in ("", CTRL_Z):
        desk.type(f"{pysandbox} run --memory-mb 100 -- /usr/bin/python3 hog.py; echo code=$?\n")
        desk.until("up")
        desk.type(keys)
        desk.until("code=137")
        assert not (desk.project / "held").exists()


def test_a_shell_in_the_cage_attends_to_its_own_jobs(desk: Desk, pysandbox: str) -> None:
    desk.type(f"{pysandbox} run -e PS1='in''side> ' -- bash --norc --noprofile -i\n")
    desk.until("inside> ")
    desk.type(CTRL_Z)  # at its prompt it is nobody's
    desk.type("echo st''ays\n")
    desk.until("stays")
    desk.until("inside> ")
    desk.type("sh -c 'echo be\"\"gun; exec sleep 1000'\n")
    desk.until("begun")
    desk.type(CTRL_Z)
    desk.until("Stopped")
    desk.until("inside> ")
    desk.type("jobs\n")
    desk.until("Stopped")
    desk.until("inside> ")
    desk.type("exit 5\n")  # right after `jobs`, bash goes without asking
    desk.ends_with(5)


def test_a_command_that_heeds_the_key_is_not_stopped_by_us(desk: Desk, pysandbox: str) -> None:
    desk.type(f'{pysandbox} run -- sh -c \'trap "echo heard; exit 6" TSTP; echo u""p; while :; do sleep 0.01; done\'\n')
    desk.until("up")
    desk.type(CTRL_Z)
    desk.ends_with(6)


def test_who_leads_a_session_is_not_stopped_where_nobody_could_continue_it(desk: Desk, pysandbox: str) -> None:
    desk.type(f"exec {pysandbox} {TICKS}")  # now it is what the terminal was opened for, as in a container
    desk.until("up")
    desk.type(CTRL_Z)
    assert desk.ticks_on()
    assert desk.ticks_on()


def test_a_cage_does_not_choose_the_key_that_stops(desk: Desk, pysandbox: str) -> None:
    """Attack: a line is pasted, from whose middle on the user's shell would read it. Control: the user's own key."""
    taken = 'stty susp X; echo u""p; read line; echo got-$line; stty susp ^Z; echo no""w; read line'
    desk.type(f"{pysandbox} run -- sh -c '{taken}'\n")
    desk.until("up")
    desk.type("oneXtouch taken\n")
    desk.until("got-")
    desk.until("now")
    assert not (desk.project / "taken").exists()
    desk.type(CTRL_Z + "touch taken\n")
    desk.until("Stopped")
    desk.until(PROMPT)
    desk.type("echo read-on\n")
    desk.until("read-on")
    assert not (desk.project / "taken").exists(), "what was typed behind it is not the shell's"
