"""An interactive bash in a pty behaves as at a desk: jobs, fg, Ctrl-Z, Ctrl-C, window size, exit."""

from __future__ import annotations

import contextlib
import fcntl
import struct
import termios
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.hosts import comes_true
from pysandbox import Cage, Policy, Process

from .terminal import CTRL_C, CTRL_D, CTRL_Z, Terminal

PROMPT = "cage> "


def running(command: str) -> list[Path]:
    """The processes of this machine with that command line."""
    words = command.replace(" ", "\0").encode()
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [each] if each.read_bytes().startswith(words) else []
    return found


@pytest.fixture
def bash() -> Iterator[Process]:
    argv = ["/bin/bash", "--norc", "--noprofile", "-i"]
    with Cage(Policy(run_as="self")).spawn(
        argv, pty=True, env={"PS1": PROMPT, "TERM": "dumb", "HISTFILE": ""}
    ) as process:
        yield process


@pytest.fixture
def terminal(bash: Process) -> Terminal:
    assert bash.pty_fd is not None
    terminal = Terminal(bash.pty_fd)
    started = terminal.expect(PROMPT)
    assert "no job control" not in started
    return terminal


def test_a_background_job_is_listed_and_brought_forward(terminal: Terminal) -> None:
    terminal.send("sleep 100 &\n")
    terminal.expect("[1]")
    terminal.expect(PROMPT)
    terminal.send("jobs\n")
    assert "Running" in terminal.expect("sleep 100 &")
    terminal.expect(PROMPT)

    terminal.hand_over("fg\n")
    terminal.send(CTRL_Z)
    terminal.expect("Stopped")
    terminal.expect(PROMPT)

    terminal.send("bg\n")
    terminal.expect("sleep 100 &")
    terminal.expect(PROMPT)
    terminal.hand_over("fg\n")
    terminal.send(CTRL_C)
    terminal.expect(PROMPT)
    terminal.send("echo code $?; jobs | wc -l\n")
    terminal.expect("code 130")
    terminal.expect("0")


def test_ctrl_c_ends_the_command_and_not_the_shell(terminal: Terminal, bash: Process) -> None:
    terminal.hand_over("sleep 100\n")
    terminal.send(CTRL_C)

    terminal.expect(PROMPT)
    terminal.send("echo alive $((40 + 2))\n")
    terminal.expect("alive 42")
    assert bash.poll() is None


def test_the_shell_ends_at_end_of_file_with_its_code(terminal: Terminal, bash: Process) -> None:
    terminal.send("(exit 5)\n")
    terminal.expect(PROMPT)

    terminal.send(CTRL_D)

    assert bash.wait(timeout=20) == 5


def test_the_window_size_of_the_host_arrives(terminal: Terminal, bash: Process) -> None:
    assert bash.pty_fd is not None
    fcntl.ioctl(bash.pty_fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))

    terminal.send("stty size\n")

    terminal.expect("33 111")


def test_the_first_command_sees_the_size_that_was_asked_for() -> None:
    with Cage(Policy()).spawn(["/usr/bin/stty", "size"], pty=(33, 111)) as process:
        assert process.pty_fd is not None
        Terminal(process.pty_fd).expect("33 111")


def test_the_terminal_is_its_own_session_and_controls_it(terminal: Terminal) -> None:
    terminal.send("ps -o tty= -p $$ 2>/dev/null || tty; tty < /dev/tty > /dev/null && echo controls\n")

    terminal.expect("pts/")
    terminal.expect("controls")


def test_hanging_up_ends_the_shell_and_its_jobs(terminal: Terminal, bash: Process) -> None:
    stays = f"sleep 600.{uuid.uuid4().int}"
    terminal.send(f"trap '' HUP; {stays} & disown; echo set\n")
    terminal.expect("set\r\n")
    assert comes_true(lambda: running(stays))  # it is bash until it has executed sleep

    bash.close()

    assert bash.poll() is not None
    assert comes_true(lambda: not running(stays))  # killed, which the kernel carries out when it next runs
